"""`ringloom calibrate`: logs of communication that people have, turned into the costs of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from sim.commands.outputs import check_cluster, cluster_output
from topologies.options import Named, cluster_options
from topologies.units import GB, format_bytes, format_seconds, us

if TYPE_CHECKING:
    from sim.calibration.calibrate import Calibration, Number, Told
    from sim.calibration.checked import Checked
    from sim.costs import Costs
    from topologies.logs.records import Log

NUMBERS = (("number", "whole"), ("was", "right"), ("now", "right"), ("from", "left"))
BESIDE = tuple((name, "right") for name in ("size", "measured", "fitted", "error", "before", "error", "after", "error"))
Cells = tuple[str, ...]


@click.command("calibrate")
@click.option("--from", "first", metavar="FILE", required=True, help="Output of nccl-tests, OSU, Kineto; or a table.")
@click.argument("more", nargs=-1, metavar="[FILE...]")
@cluster_options
@cluster_output
def command(first: str, more: tuple[str, ...], named: Named, output: str | None) -> None:
    """Turn logs of communication (nccl-tests, OSU, Kineto) into the costs of a cluster.

    Output of nccl-tests and rccl-tests, OSU micro-benchmarks, Markdown tables of busbw and PyTorch (Kineto) traces are
    read; several files add to each other. With -o the cluster is written with them, to be used as --cluster.
    """
    check_cluster(output)
    from sim.calibration.calibrate import calibrate
    from sim.calibration.runs import runs_of
    from sim.cluster_costs import with_costs_of
    from sim.costs import Costs
    from topologies.logs import read_all

    logs = read_all([first, *more])
    graph, gpus = named.build()
    costs, notes = with_costs_of(Costs(), graph), list[str]()
    per_node = gpus // (named.nodes or 1)
    runs = [run for log in logs for run in runs_of(log, gpus, notes, per_node)]
    found = calibrate(runs, graph, costs)
    if output is not None:
        from topologies.files.graphs import write

        write(found.graph, output)
    _show(logs, notes, found, costs, output)


def _show(logs: Sequence[Log], notes: Sequence[str], found: Calibration, costs: Costs, output: str | None) -> None:
    """Print what was read, what it says, and how that fits."""
    from sim import report
    from sim.calibration.checked import again, checked

    with report.printing(sys.stdout) as out:
        for log in logs:
            out.print(f"{log.file}: {log.format}, {len(log.records)} measurements")
            for note in log.notes:
                report.bullet(out, "- ", note)
        for note in (*notes, *_other_gpus(logs, found)):
            report.bullet(out, "- ", note)
        for one in found.told:
            out.print()
            out.print(_fitted(one))
            rows = checked(found, one, costs)
            if rows:
                out.print()
                out.print(report.table(BESIDE, [_row(row) for row in rows]))
            worst = again(found, one)
            if worst is not None:
                sizes = len(one.run.large)
                out.print(f"simulated again: within {worst:.1%} at {sizes} large size{'s' * (sizes > 1)}")
        out.print()
        if found.numbers:
            out.print(report.table(NUMBERS, [_number(number) for number in found.numbers]))
        for remark in found.remarks:
            report.bullet(out, "- ", remark)
        report.bullet(out, "- ", f"stays assumed: {', '.join(_rest(found))}")
        out.print()
        for line in _use(found, output):
            out.print(line, soft_wrap=True)


def _fitted(one: Told) -> str:
    """Say what was run, and its curve."""
    run, curve = one.run, one.curve
    text = run.name
    if one.reached and run.reached:
        text += f": {run.reached / GB:.1f} GB/s busbw at the largest size, {one.reached.before / GB:.1f} predicted"
        text += f" by {one.reached.by}"
    if curve is None:
        return text
    root = f" + {curve.gamma / us:.3g} us x sqrt(bytes)" if curve.gamma else ""
    rate = f" + bytes / ({curve.rate / GB:.4g} GB/s)" if curve.rate < float("inf") else ""
    error = f"rms {curve.rms:.1%}, worst {curve.worst:.0%} at {format_bytes(curve.worst_at)}"
    return f"{text}; fitted: {curve.alpha / us:.3g} us{root}{rate}; {error}; {len(run.points)} sizes"


def _row(row: Checked) -> Cells:
    """Write the times of a size."""
    cells = [format_bytes(row.nbytes), format_seconds(row.measured)]
    for seconds in (row.curve, row.before, row.after):
        error = "" if seconds is None else f"{100 * (seconds / row.measured - 1):+.0f}%"
        cells += ["-" if seconds is None else format_seconds(seconds), error]
    return tuple(cells)


def _number(number: Number) -> Cells:
    """Write a number as a row."""
    return number.name, _value(number.name, number.before), _value(number.name, number.value), number.source


def _value(name: str, value: float) -> str:
    """Write a value as people read it."""
    from sim.calibration.calibrate import NIC_LATENCY
    from sim.numbers import number_text

    return f"{value / us:.3g} us" if name == NIC_LATENCY else number_text(name, value)


def _rest(found: Calibration) -> Iterator[str]:
    """Yield the numbers about communication that nothing was told of."""
    kinds = dict.fromkeys(kind for _, _, kind in found.graph.edges(data="kind"))
    told = {number.name for number in found.numbers}
    yield from (name for name in ("comm_launch", *kinds, "reduce_nbytes") if name not in told)
    yield from (f"{kind}.latency" for kind in kinds if f"{kind}.latency" not in told)
    yield "all that is about kernels"


def _other_gpus(logs: Sequence[Log], found: Calibration) -> Iterator[str]:
    """Yield a line for each GPU that a log names and the cluster has not."""
    from topologies.hardware import named as gpu_named

    ours = {gpu for _, gpu in found.graph.nodes(data="gpu") if gpu}
    for log in logs:
        for text in log.gpus:
            gpu = gpu_named(text)
            if gpu is not None and gpu.name not in ours:
                yield f"{log.file} names {text}: the cluster has {', '.join(sorted(ours))}"


def _use(found: Calibration, output: str | None) -> Iterator[str]:
    """Yield how to use it."""
    from sim.calibration.calibrate import NIC_LATENCY

    if output is not None:
        yield f"written to {output}: use it as --cluster {output}"
        return
    said = [_typed(number) for number in found.numbers if number.name != NIC_LATENCY]
    yield f"use it as --assume {','.join(said)}" if said else "nothing was told that --assume takes"
    if any(number.name == NIC_LATENCY for number in found.numbers):
        yield f"{NIC_LATENCY} belongs to the cluster: -o FILE writes one"


def _typed(number: Number) -> str:
    """Write a number as --assume takes it."""
    from sim.numbers import NUMBERS as KNOWN
    from sim.numbers import TIME

    if KNOWN[number.name].kind == TIME:
        return f"{number.name}={number.value / us:.4g}us"
    return f"{number.name}={number.value:.4g}"
