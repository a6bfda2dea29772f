"""`ringloom topology import`: what files say of a cluster, what had to be assumed, and one file of ours with both."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sim.commands.outputs import check_cluster, cluster_output
from topologies.options import Named, size_options

if TYPE_CHECKING:
    import networkx as nx


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@size_options
@cluster_output
def import_command(files: tuple[str, ...], named: Named, output: str | None) -> None:
    """Read what FILEs say of a machine, a network or both, and say what they do not.

    Files of one machine add to each other: topo -m says how GPUs are joined, nvlink -s how fast. With the listing of
    a network they are the machine at each of its hosts.
    """
    from dataclasses import replace

    check_cluster(output)
    known = len(files) == 1 and _is_name(files[0])  # to have one of ours as a file
    graph, used = replace(named, cluster=",".join(files), files=() if known else files).build()
    if output is not None:
        from topologies.files.graphs import write

        write(graph, output)
    _show(graph, used, files)
    if output is not None:
        click.echo(f"\nwritten to {output}: use it as --cluster {output}")


def _is_name(text: str) -> bool:
    """Tell whether a text names a topology, and no file."""
    import os

    from topologies import fabrics, names

    return not os.path.exists(text) and (text in names() or fabrics.is_own(text))


def _show(graph: nx.DiGraph, used: int, files: tuple[str, ...]) -> None:
    """Print what was read, assumed and left out."""
    from sim import report
    from topologies.describe import describe

    facts = graph.graph
    with report.printing(sys.stdout) as out:
        out.print(f"{facts['name']}: {used} GPUs, from {', '.join(files)}")
        rows = describe(graph)
        for section, columns in _COLUMNS.items():
            body = [(r.name, *([str(r.count)] if r.count else []), r.text) for r in rows if r.section == section]
            if body:
                out.print()
                out.print(report.table(columns, body))
        for title, key in (("left out", "left_out"), ("remarks", "notes")):
            if facts.get(key):
                out.print()
                out.print(report.table(((title, "left"),), [(text,) for text in facts[key]]))


_COLUMNS = {
    "nodes": (("nodes", "left"), ("count", "right"), ("", "left")),
    "links": (("links", "left"), ("count", "right"), ("", "left")),
    "sources": (("read", "left"), ("from", "left")),
    "assumptions": (("assumed", "left"), ("and why", "left")),
}
