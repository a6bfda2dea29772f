"""Predicted beside measured: what is calibrated, and the algorithms it is to predict, measured in turn on 2 ranks.

    mpiexec -n 2 python -m tests.bench.predict [--rounds 9] [--dtype float64] [--ops] [--causal] [--kernel numba]

Prints a line for each run: seconds measured (median), predicted, and the difference; with --ops also where it lies.
"""

import argparse
import os
from dataclasses import replace

from executor import launch

launch.prepare()  # before numpy is loaded

import numpy as np  # noqa: E402

from algorithms import find  # noqa: E402
from algorithms.ir import Attention, Mesh  # noqa: E402

HEADS, HEAD_DIM = 4, 64
LONG = 20e-3  # seconds: shorter runs are held to a wider goal
ms = 1e-3


def targets(dtype, causal):
    """Algorithms, meshes and problems: N of 1,024 to 4,096, or keys of 4,096 to 65,536 in decode."""
    common = {"head_dim": HEAD_DIM, "dtype": dtype, "state_dtype": dtype, "grad_dtype": dtype}
    mask = "causal" if causal else "full"
    for n in (1024, 2048, 4096):
        problem = Attention(heads=HEADS, kv_heads=HEADS, query_len=n, key_len=n, mask=mask, **common)
        yield "ring", Mesh(ring=2), replace(problem, layout="zigzag" if causal else "contiguous"), n
        yield "attention2d", Mesh(row=1, col=2), replace(problem, layout="striped" if causal else "contiguous"), n
        yield "attention2d", Mesh(row=2, col=1), replace(problem, layout="striped" if causal else "contiguous"), n
        yield "ulysses", Mesh(ulysses=2), problem, n
    for keys in (4096, 16384, 65536):
        problem = Attention(heads=8, kv_heads=8, query_len=1, key_len=keys, phase="decode", mask="causal", **common)
        yield "tree", Mesh(cp=2), problem, keys


class Target:
    """One algorithm, lowered on this rank, and when its ops ran each time."""

    def __init__(self, name, mesh, problem, size, streams, kernel):
        from executor import mpi
        from executor.arrays import random_inputs
        from executor.calibration.items import Item
        from executor.interpret import kernel_called

        self.schedule = find(name)[problem.phase](problem, mesh)
        self.label = f"{name} {'x'.join(map(str, mesh.axes.values()))} {problem.dtype} {size}"
        sent = [0] * len(self.schedule.ops)
        arrays = random_inputs(problem)
        self.program = mpi.lowered(self.schedule, arrays, streams, kernel_called(kernel), None, sent)
        self.spent = []
        self.item = Item("targets", {"label": self.label}, self.run)

    def run(self):
        import time

        from executor.lower import execute, spans, waits

        times = execute(self.program, time.perf_counter)
        ops = len(self.schedule.ops)
        (start, end), waited = spans(self.program, times, ops), waits(self.program, times, ops)
        self.spent.append(end - np.where(waited < end, waited, start))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--kernel", default="numba")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--ops", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", help="also write the calibration")
    wish = parser.parse_args()

    comm = launch.world()
    from algorithms.options import algorithms_from
    from executor.calibration.cluster import cluster, measured_record
    from executor.calibration.command import to_measure
    from executor.calibration.items import measured
    from executor.environment import environment, load
    from executor.interpret import kernel_called
    from executor.memory import keep_freed
    from executor.mpi import Streams
    from executor.pinning import settle

    about = environment(comm, settle(comm, True, False))
    keep_freed()
    streams = Streams(comm)
    programs = algorithms_from("ring,attention2d,ulysses,tree")
    items = list(to_measure(programs, [wish.dtype], HEAD_DIM, kernel_called(wish.kernel), streams, wish.quick))
    runs = [Target(*one, streams, wish.kernel) for one in targets(wish.dtype, wish.causal)]
    every = interleaved(items, [run.item for run in runs])
    sections = measured(every, comm, wish.warmup, wish.rounds)
    spent = [np.stack(comm.allgather(np.median(run.spent[wish.warmup :], axis=0)), -1) for run in runs]
    if comm.Get_rank():
        return
    record = measured_record(sections, {**about, "load_after": load()}, wish.kernel)
    graph = cluster(record, "here")
    if wish.out:
        from topologies.files.graphs import write

        write(graph, wish.out)
    print(f"{about['cpu']}, {about['mpi']}, load {about['load_before'][0]} to {load()[0]}, {os.uname().sysname}")
    table(graph, runs, {row["label"]: row for row in sections["targets"]}, spent, wish.ops)


def interleaved(items, targets):
    """All in one round, targets spread among the items."""
    step = max(1, len(items) // len(targets))
    found = []
    for k, item in enumerate(items):
        found.append(item)
        if k % step == 0 and targets:
            found.append(targets.pop(0))
    return found + targets


def table(graph, runs, measured, spent, ops):
    from sim.simulate import Site, simulate

    site = Site(graph)
    errors = {True: [], False: []}
    print(f"{'run':<34} {'measured ms':>11} {'p10':>8} {'p90':>8} {'predicted':>9}  error")
    for run, took in zip(runs, spent, strict=True):
        row = measured[run.label]
        timeline = simulate(run.schedule, site)
        error = timeline.makespan / row["seconds"] - 1
        errors[row["seconds"] > LONG].append(abs(error))
        times = " ".join(f"{row[x] / ms:>8.3f}" for x in ("low", "high"))
        print(f"{run.label:<34} {row['seconds'] / ms:>11.3f} {times} {timeline.makespan / ms:>9.3f}  {error:+.1%}")
        glue = [op.id for op in run.schedule.ops if op.stream is None and not op.kind.startswith("attend")]
        if ops:
            print(f"    glue {took[glue].sum(0).max() / row['seconds']:.1%} of the run")
            for op in run.schedule.ops:
                said = timeline.end[op.id] - timeline.start[op.id]
                if op.stream is not None:
                    said = site.machine.native_seconds(op, run.schedule.mesh) if op.kind != "permute" else said
                if op.kind != "load":
                    print(
                        f"    {op.id:>3} {op.kind:<16} measured {took[op.id].max() / us:>9.1f} us"
                        f"  predicted {np.max(said) / us if said is not None else -1:>9.1f}"
                    )
    for is_long, some in errors.items():
        if some:
            length = f"{'over' if is_long else 'under'} {LONG / ms:g} ms"
            print(f"{length}: mean |error| {np.mean(some):.1%}, worst {max(some):.1%}")


us = 1e-6

if __name__ == "__main__":
    main()
