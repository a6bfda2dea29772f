"""Replay beside measured: runs of 2 ranks put together again by the engine from what their ops took themselves.

    python -m tests.bench.replay [--repeats 15]

For each run: the measured median; by how much its replay is off; the same with the median over the runs for each
compute op, which is not the run itself and so tests more; and whether transfers met where they were waited for.
"""

import argparse
import os
import tempfile
from pathlib import Path

from sim.beside import Beside
from sim.recorded import recorded
from tests.executor.ranks import command

SIZES = {"ring": (1024, 2048, 4096), "attention2d": (1024, 2048, 4096), "ulysses": (1024, 2048, 4096)}
DECODE = {"tree": (4096, 16384, 65536)}
ms = 1e-3


def timed(name, size, phase, repeats, folder):
    """Time one algorithm and return what was recorded."""
    path = Path(folder) / f"{name}{size}.json"
    problem = ("--phase", phase, "--seq", size, "--heads", 8 if phase == "decode" else 4, "--head-dim", 64)
    done = command("time", name, *problem, "--repeats", repeats, "--timeline", path, ranks=2)
    if done.returncode:
        raise SystemExit(done.stderr)
    return recorded(str(path))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"{'run':<18} {'median ms':>9} {'p10':>8} {'p90':>8}  replay  of medians  met")
    with tempfile.TemporaryDirectory() as folder:
        for phase, runs in (("prefill", SIZES), ("decode", DECODE)):
            for name, sizes in runs.items():
                for size in sizes:
                    row(name, size, timed(name, size, phase, repeats, folder))
    print(f"load {os.getloadavg()[0]:.1f}")


def row(name, size, found):
    beside, band = Beside.of(found), found.band
    replayed, medians = beside.error(beside.replayed.makespan), beside.error(beside.of_medians)
    met = ", ".join(f"{number} {how}" for how, number in beside.meets.items())
    times = " ".join(f"{x / ms:>8.3f}" for x in (band.p10, band.p90))
    print(f"{name + ' ' + str(size):<18} {band.median / ms:>9.3f} {times}  {replayed:+.2%}  {medians:+10.2%}  {met}")


if __name__ == "__main__":
    main()
