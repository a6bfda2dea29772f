"""What every answer carries: the cluster, the problem and the job as they were taken, and the files asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sim.commands import version

if TYPE_CHECKING:
    from algorithms.ir import Attention, Schedule
    from algorithms.ir.timeline import Timeline
    from sim.commands.setup import Setup, Wanted
    from sim.result import Result
    from sim.simulate import Site


def scaled(setup: Setup, found: Result) -> Result:
    """A result per layer, or per model where that was asked for."""
    return found if found.per == setup.per else found.times(setup.layers)


def head(setup: Setup, results: Iterable[Result], seeds: Sequence[int] = ()) -> dict[str, Any]:
    """The fields with which every JSON answer begins; seeds: of the hash that chose paths, one a repeat."""
    from sim.simulate import routing_record

    graph, model = setup.site.graph, setup.model
    return {
        "ringloom": version(),
        "cluster": {
            "name": setup.site.name,
            "gpus": sum(rank is not None for _, rank in graph.nodes(data="rank")),
            "used": setup.job.size,
            "gpu": sorted(set(setup.site.machine.names)),
            "fabric": graph.graph.get("fabric"),
            "sources": dict(graph.graph.get("sources", {})),
        },
        "problem": {
            **setup.problem.describe(),
            "layout": setup.layout,
            "cached": setup.problem.cached,
            "model": model.name or None,
            "layers": model.layers,
            "kinds": [{"layers": number, "mask": str(problem.mask)} for number, problem in setup.kinds],
            "model_source": model.source,
            "form": model.form_text(setup.problem.phase) or None,
            "tp": setup.job.tp,
            "cp": setup.job.cp,
            "dp": setup.job.dp,
        },
        "placement": {"name": setup.placement, "gpus": setup.site.network.gpus},
        "routing": routing_record(setup.site.network) | ({"seeds": list(seeds)} if seeds else {}),
        "assumptions": setup.assumptions(results),
        "costs": setup.costs,
    }


def describe(setup: Setup, repeats: int = 1) -> dict[str, str]:
    """The same for people: a fact a line; repeats: of each result, which differ in the seed of a hash."""
    from sim import placement
    from topologies.units import format_flop_rate

    p, job, machine = setup.problem, setup.job, setup.site.machine
    peak = format_flop_rate(float(machine.peaks(p.dtype).max()))
    gpus = ", ".join(name for name in sorted(set(machine.names)) if name) or "GPU"
    shared = ", V is part of K" if p.shared_kv else ""
    form = setup.model.form_text(p.phase)
    tokens = f"queries {p.query_len:,}, keys {p.key_len:,}" + (f" ({p.cached:,} cached)" if p.cached else "")
    facts = {
        "cluster": f"{setup.site.name}: {job.size} x {gpus}, {peak} each in {p.dtype}",
        "model": f"{setup.model.name}, {setup.model.layers} layers ({setup.model.source})",
        "problem": f"{p.phase}, {tokens}, batch {p.batch}, mask {p.mask.short}{_scores(p)}",
        "heads": f"{p.heads} query, {p.kv_heads} key/value, {p.head_dim} wide (values {p.head_dim_v}{shared})"
        + (f", {form}" if form else ""),
        "types": f"{p.dtype}, keys and values {p.kv_dtype}, partial results {p.state_dtype}"
        + (f", gradients {p.grad_dtype}" if p.phase == "train" else ""),
        "job": f"tp={job.tp} cp={job.cp} dp={job.dp}: {job.size} ranks, "
        + placement.describe(setup.placement, setup.site.network.gpus),
        "routing": _routing(setup.site, repeats),
        "times": f"of {'all layers of the model' if setup.per == 'model' else 'one layer'}, attention only",
    }
    if len(setup.kinds) > 1:
        facts["layers"] = setup.kinds_text + ("" if setup.per == "model" else ": --per model adds them up")
        facts["times"] += "" if setup.per == "model" else f"; the layer has mask {p.mask.short}"
    said = {"model": bool(setup.model.name), "routing": bool(facts["routing"])}
    return {name: text for name, text in facts.items() if said.get(name, True)}


def _routing(site: Site, repeats: int) -> str:
    """How paths are chosen; empty where there is nothing to choose."""
    pairs, most = site.network.choices
    if site.routing.name == "ideal":
        return "ideal: every flow is split equally over its equal paths"
    if site.routing.name == "adaptive":
        return f"adaptive: {pairs:,} pairs of ranks that send have a choice of paths, up to {most:,}" if pairs else ""
    chosen = "static, the first of equal paths"
    if site.routing.varies:
        chosen = "ecmp" if repeats > 1 else f"ecmp, seed {site.routing.seed}"
    return f"{chosen}: {pairs:,} pairs of ranks that send have equal paths, up to {most:,}" if pairs else ""


def _scores(p: Attention) -> str:
    """What changes the scores, if anything."""
    named = {f"softcap {p.softcap:g}": p.softcap, "alibi": p.alibi, "sinks": p.sinks}
    return "".join(f", {name}" for name, there in named.items() if there)


def write_files(schedule: Schedule, timeline: Timeline, setup: Setup, wanted: Wanted) -> None:
    """Write the trace and the timeline that were asked for, and say so on stderr."""
    if wanted.trace:
        from sim.trace_events import write

        print(
            f"ringloom: trace {write(wanted.trace, schedule, timeline, gpus=setup.site.network.gpus)}",
            file=sys.stderr,
        )
    if wanted.timeline:
        timeline.write(wanted.timeline)
        print(f"ringloom: timeline {wanted.timeline}", file=sys.stderr)
