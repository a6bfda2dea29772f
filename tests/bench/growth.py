"""How the cost of each case grows with the number of ranks: docs/growth.svg.

    python -m tests.bench.growth [SVG]

Each point is a process of its own, its second run, in processor seconds. A line
ends where the next point would take too long. SimGrid's line is there where SimGrid is (see compare_simgrid.py).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench import compare_simgrid as peer
from tests.bench import test_engine as bench

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "growth.svg"
SIZES = (64, 256, 1024, 4096, 16384)
LONGEST, STEP = 10.0, 8.0  # seconds a point; how much more the next one may cost
PATIENCE = 90  # seconds a process, with its program and the first run


def side(ranks):
    return round(ranks**0.5)


CASES = {
    "ring": bench.ring,
    "ring, causal, zigzag, with tracing": lambda ranks: bench.traced_ring(ranks, "causal", "zigzag"),
    "ring, one straggler": bench.straggler,
    "ring, jitter": bench.jitter,
    "ring, jitter, event by event": lambda ranks: bench.jitter(ranks, True),
    "attention2d": lambda ranks: bench.grid(side(ranks)),
    "attention2d, unfolded": lambda ranks: bench.unfolded_grid(side(ranks)),
    "all-to-all, pairwise": lambda ranks: bench.engine_of(bench.all_to_all(ranks), bench.two(ranks)),
    "attention2d on a 2:1 fat tree": lambda ranks: bench.grid_on_tree(side(ranks)),
}
SIMGRID = "SimGrid: ring attention"

CHILD = """
import json, time
from tests.bench.growth import CASES
work = CASES[{name!r}]({ranks})
work()
begin = time.process_time()
work()
print(json.dumps(time.process_time() - begin))
"""


def seconds(name, ranks):
    """Return the processor seconds of a point; None where the process runs out of time or memory."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", CHILD.format(name=name, ranks=ranks)],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return json.loads(done.stdout)


def line(point, longest=LONGEST):
    """Return [(ranks, seconds)] as far as it goes."""
    points = []
    for ranks in SIZES:
        if points and points[-1][1] * STEP > longest:
            break
        cost = point(ranks)
        if cost is None or cost > longest:
            break
        points.append((ranks, cost))
    return points


def simgrid_line():
    """Return SimGrid's points; none without it."""
    with tempfile.TemporaryDirectory() as folder:
        driver = peer.compiled(folder)

        def point(ranks):
            found = peer.theirs(driver, "attention", "switch", ranks)
            return None if found is None else found[1]

        return line(point, 2 * LONGEST)


def draw(lines, path):
    """Draw seconds over ranks, both logarithmic; each line is named at its end."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 10})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5.4), layout="constrained")
    for k, (name, points) in enumerate(lines.items()):
        style = {"color": "black", "linestyle": "--"} if name == SIMGRID else {"color": f"C{k}"}
        axes.plot(*zip(*points, strict=True), marker="osD^v<>ph*"[k % 10], markersize=5, label=name, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(SIZES, [f"{ranks:,}" for ranks in SIZES])
    axes.set_xlabel("ranks")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("processor seconds")
    axes.grid(True, alpha=0.3)
    for place in ("top", "right"):
        axes.spines[place].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    last = {name: points[-1] for name, points in lines.items()}
    order = sorted(range(len(labels)), key=lambda k: -last[labels[k]][1])
    figure.legend(
        [handles[k] for k in order], [labels[k] for k in order], loc="outside right upper", frameon=False, fontsize=9
    )
    figure.savefig(path, metadata={"Date": None})


def main():
    """Measure, print and draw."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    lines = {}
    for name in CASES:
        lines[name] = line(lambda ranks, name=name: seconds(name, ranks))
        print(name, *(f"{ranks:,}: {cost:.4f}" for ranks, cost in lines[name]), sep=" | ", flush=True)
    lines[SIMGRID] = simgrid_line()
    print(SIMGRID, *(f"{ranks:,}: {cost:.4f}" for ranks, cost in lines[SIMGRID]), sep=" | ", flush=True)
    draw({name: points for name, points in lines.items() if points}, path)


if __name__ == "__main__":
    main()
