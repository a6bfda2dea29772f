"""The cluster file: ranks around one switch, with all that was measured, and where each number comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.ir.environment import MEASURED
from executor.calibration.items import Row
from executor.calibration.messages import HIDING, hidden, line_seconds

KEPT = ("kernels", "exchange", "collectives", "glue", "overlap")


def measured_record(
    sections: Mapping[str, Sequence[Row]], environment: Mapping[str, Any], kernel: str
) -> dict[str, Any]:
    """Return what a cluster file says was measured."""
    products = [{**row, "flop_rate": row["flop"] / row["seconds"]} for row in sections["gemm"]]
    return {
        "schema": MEASURED,
        "environment": {**environment, "kernel": kernel},
        **{name: list(sections.get(name, ())) for name in KEPT},
        "gemm": products,
        "overhead": {"line_s": line_seconds(sections["overhead"]), "hidden": hidden(sections["overlap"])},
    }


def cluster(record: Mapping[str, Any], name: str) -> Any:
    """Return the graph of the ranks that were measured.

    A link carries bytes as fast as the fastest exchange; what messages take beyond that is in the record, and so is
    all of their latency.
    """
    from topologies.basic import switch

    about = record["environment"]
    speed = max(row["nbytes"] / row["seconds"] for row in record["exchange"])
    product = max(record["gemm"], key=lambda row: row["flop_rate"])
    graph = switch(about["ranks"], speed, 0.0, product["flop_rate"])
    load = about["load_before"][0] if about["load_before"] else "unknown"
    here = f"measured here, {about['date']}, load {load}"
    graph.graph.update(
        name=name,
        sources={
            "gpu.flop_rate": f"{here}: a matrix product in {product['dtype']}; a GPU is one rank of {about['cpu']}",
            "link.bandwidth": f"{here}: the fastest exchange, both ways at once, through {about['mpi']}",
            "link.latency": f"{here}: none of a link's own, a message's is part of the exchange of its size",
        },
        assumptions=[],
        measured=dict(record),
    )
    offloaded = record["overhead"]["hidden"] >= HIDING
    for _, _, link in graph.edges(data=True):
        link["offloaded"] = offloaded
    return graph
