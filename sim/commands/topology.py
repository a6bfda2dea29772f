"""`ringloom topology`: the clusters that are known, and what one is made of."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from topologies.options import cluster_options

if TYPE_CHECKING:
    from topologies.describe import Row


@click.group("topology", no_args_is_help=False)
def command() -> None:
    """List or show the clusters that are known."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there.")
def list_command(as_json: bool) -> None:
    """List the topologies by name, each with what it returns."""
    from topologies import find, names

    about = {name: _about(find(name).__doc__ or "") for name in names()}
    if as_json:
        json.dump({"schema": "ringloom.topologies/1", "topologies": about}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    width = max(map(len, about))
    for name, text in about.items():
        click.echo(f"{name:<{width}}  {text}")


def _about(doc: str) -> str:
    """What a topology is: the first line of its docstring, without its leading verb."""
    line = doc.partition("\n")[0].removeprefix("Return ")
    return line[:1].upper() + line[1:]


@command.command("show")
@click.argument("name", required=False)
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there.")
def show_command(name: str | None, cluster: str, nodes: int | None, gpus: int | None, as_json: bool) -> None:
    """Show what the cluster NAME is made of, how fast it is, and who says so."""
    from dataclasses import asdict

    from topologies.describe import describe
    from topologies.options import build

    graph, used = build(name or cluster, nodes, gpus)
    rows = describe(graph)
    if as_json:
        answer = {"schema": "ringloom.topology/1", "name": graph.graph["name"], "gpus": used}
        json.dump({**answer, "rows": [asdict(row) for row in rows]}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    _show(str(graph.graph["name"]), rows)


def _show(name: str, rows: list[Row]) -> None:
    """Print the rows, a table a section."""
    from sim import report

    with report.printing(sys.stdout) as out:
        out.print(name)
        for section in dict.fromkeys(row.section for row in rows):
            counted = section in ("nodes", "links")
            columns = ((section, "left"), *((("count", "right"),) if counted else ()), ("", "left"))
            body = [(r.name, *([str(r.count)] if counted else []), r.text) for r in rows if r.section == section]
            out.print()
            out.print(report.table(columns, body))
