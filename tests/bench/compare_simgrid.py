"""The engine beside SimGrid on the same work: simulated times, and processor seconds.

    python -m tests.bench.compare_simgrid [--most RANKS]

prints a Markdown table. SimGrid runs `simgrid.cpp` where g++ and libsimgrid-dev are installed; else its columns stay
empty. Each run is a process of its own. SimGrid's seconds are the whole process; ours are the program, its routes and
the run, without start-up and compilation, which are once a machine.

The work: (ring) all-gather of 64 MiB, every shard passed on when it is there; (attention) ring attention, 8 MiB and
100 us a block; (flood) all-to-all at once, 1 MiB a pair; (rounds) the same in shifted rounds, each when the own send
has ended. One switch: 50e9 B/s, 500 ns a link. Two levels: 8 GPUs to an NVSwitch, 450e9 B/s, 250 ns; NICs of 50e9 B/s,
1000 ns. On two levels ring and rounds need a stream a shard or a sender: the engine's permutes wait for both ends.
There both drift, and rounding grows from hop to hop until the last bit of a bandwidth decides.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sim.fastest import run_fastest
from sim.network import Network
from sim.program import Program, freeze
from tests.sim.graphs import MiB, one_send, ring_attention, shift, star, two_level, us

SIZES, FLOOD_MOST, LIMIT = (16, 64, 256, 1024), 256, 100  # ranks; of SimGrid's flood; seconds a run
GRAPHS = {"switch": star, "two_level": two_level}
WORKS = ("ring", "attention", "flood", "rounds")
ALONE_MOST = 256  # ranks: with a pattern a (sender, receiver), tables grow with the cube


def ring(ranks, graph):
    program = Program(ranks)
    if graph == "switch":  # all ranks keep in step
        for _ in range(ranks - 1):
            program.permute(shift(ranks), 64 * MiB // ranks)
        return program
    sends = [one_send(ranks, rank, (rank + 1) % ranks) for rank in range(ranks)]
    for shard in range(ranks):
        for hop in range(ranks - 1):
            program.permute(sends[(shard + hop) % ranks], 64 * MiB // ranks, stream=shard)
    return program


def attention(ranks, graph):
    return ring_attention(ranks, 100 * us, 8 * MiB)


def flood(ranks, graph):
    program = Program(ranks)
    for k in range(1, ranks):
        program.permute(shift(ranks, k), MiB, stream=k)
    return program


def rounds(ranks, graph):
    program = Program(ranks)
    for k in range(1, ranks):
        if graph == "switch":  # all ranks keep in step
            program.permute(shift(ranks, k), MiB)
        else:
            for sender in range(ranks):
                program.permute(one_send(ranks, sender, (sender + k) % ranks), MiB, stream=sender)
    return program


PROGRAMS = {"ring": ring, "attention": attention, "flood": flood, "rounds": rounds}


def ours(work, graph, ranks):
    """Return simulated microseconds, and processor seconds, of this process."""
    network = Network(GRAPHS[graph](ranks))
    begin = time.process_time()
    spans = run_fastest(freeze(PROGRAMS[work](ranks, graph), network), "extent")
    return spans.makespan / us, time.process_time() - begin


def measured(command):
    """Run a command; return what it prints and the processor seconds it took, or None where it took too long."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    except subprocess.TimeoutExpired:
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours_apart(work, graph, ranks):
    """Run `ours` in a fresh process, twice: the first run compiles."""
    if work == "rounds" and graph == "two_level" and ranks > ALONE_MOST:
        return None
    code = "import json; from tests.bench.compare_simgrid import ours; "
    code += f"ours({work!r}, {graph!r}, 16); ours('flood', {graph!r}, 256); "
    code += f"print(json.dumps(ours({work!r}, {graph!r}, {ranks})))"
    done = measured([sys.executable, "-c", code])
    return None if done is None else json.loads(done[0])


def compiled(folder):
    """Return the SimGrid driver, or None where it cannot be built."""
    source, driver = Path(__file__).with_name("simgrid.cpp"), Path(folder) / "simgrid_work"
    try:
        subprocess.run(
            ["g++", "-std=c++17", "-O2", "-o", driver, source, "-lsimgrid"], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        print("no SimGrid here (g++, libsimgrid-dev): only our own columns\n", file=sys.stderr)
        return None
    return driver


def theirs(driver, work, graph, ranks):
    """Return SimGrid's simulated microseconds and processor seconds."""
    if driver is None or (work == "flood" and ranks > FLOOD_MOST):
        return None
    done = measured([driver, work, graph, str(ranks), "--log=root.thresh:error"])
    return None if done is None else (float(done[0]), done[1])


def row(work, graph, ranks, us_and_s, simgrid):
    """Return a line of the table; its last words say who is slower, and whether the times agree."""
    cells = [f"{x[0]:.1f} | {x[1]:.2f}" if x else "- | -" for x in (us_and_s, simgrid)]
    verdict = ""
    if us_and_s and simgrid:
        apart = abs(us_and_s[0] / simgrid[0] - 1)
        verdict = "equal" if apart < 1e-6 else f"{apart:.1%} apart"
        factor = us_and_s[1] / simgrid[1]
        verdict += f", **{factor:.1f}x slower**" if factor > 1 else f", {1 / factor:.1f}x faster"
    return f"| {work} | {graph.replace('_', ' ')} | {ranks:,} | {' | '.join(cells)} | {verdict} |"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="ranks")
    most = parser.parse_args().most
    print("| work | network | P | our us | our CPU s | SimGrid us | SimGrid CPU s | we are |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        driver = compiled(folder)
        for work in WORKS:
            for graph in GRAPHS:
                for ranks in (size for size in SIZES if size <= most):
                    case = work, graph, ranks
                    print(row(*case, ours_apart(*case), theirs(driver, *case)), flush=True)


if __name__ == "__main__":
    main()
