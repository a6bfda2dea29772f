"""`ringloom topology`: the clusters that are known, and what one is made of."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from sim.commands.pictures import Wanted, picture_options
from sim.commands.topology_check import command as check_command
from sim.commands.topology_import import import_command
from topologies.options import Named, cluster_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from topologies.describe import Row


@click.group("topology", no_args_is_help=False)
def command() -> None:
    """List, show, import or check clusters."""


command.add_command(check_command)
command.add_command(import_command)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there.")
def list_command(as_json: bool) -> None:
    """List the topologies and the fabrics that join their machines, by name, each with what it is."""
    import topologies
    from topologies import fabrics

    known = {name: _about(topologies.find(name).__doc__ or "") for name in topologies.names()}
    joins = {name: _about(fabrics.find(name).__doc__ or "") for name in fabrics.names()}
    if as_json:
        choices = {name: fabrics.options(fabrics.find(name)) for name in joins}
        answer = {"schema": "ringloom.topologies/1", "topologies": known, "fabrics": joins, "fabric_options": choices}
        answer["common_fabric_options"] = dict(fabrics.COMMON)
        json.dump(answer, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    width = max(map(len, (*known, *joins)))
    for name, text in known.items():
        click.echo(f"{name:<{width}}  {text}")
    click.echo(f"\nfabrics (--fabric NAME:KEY=VALUE,...; any takes{_choices(fabrics.COMMON)} too):")
    for name, text in joins.items():
        click.echo(f"{name:<{width}}  {text}{_choices(fabrics.options(fabrics.find(name)))}")


def _choices(options: Mapping[str, float | None]) -> str:
    """What can be chosen, with its default where that is a number."""
    shown = (key if value is None else f"{key}={value:g}" for key, value in options.items())
    return f" [{', '.join(shown)}]" if options else ""


def _about(doc: str) -> str:
    """What a topology is: the first line of its docstring, without its leading verb."""
    line = doc.partition("\n")[0].removeprefix("Return ").removeprefix("Join machines ")
    return line[:1].upper() + line[1:]


@command.command("show")
@click.argument("name", required=False)
@cluster_options
@picture_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout, and nothing else there.")
def show_command(name: str | None, named: Named, wanted: Wanted, as_json: bool) -> None:
    """Show what the cluster NAME is made of, how fast it is, and who says so."""
    from dataclasses import asdict, replace

    from topologies.describe import describe

    wanted.files()  # refused before the work
    graph, used = replace(named, cluster=name or named.cluster).build()
    wanted.draw(graph)
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
