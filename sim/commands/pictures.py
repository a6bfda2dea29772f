"""The pictures of `ringloom topology show`: its options, and the files that they ask for."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from algorithms.options import as_record
from sim.commands.outputs import fault

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Wanted:
    """Files to be drawn, by format; None where none was named."""

    png: str | None
    svg: str | None
    html: str | None

    def files(self) -> dict[str, str]:
        """Return format -> file.

        Raises:
            ValueError: one cannot be written, or does not end as its format does.
        """
        named = {"png": self.png, "svg": self.svg, "html": self.html}
        files = {form: path for form, path in named.items() if path is not None}
        for form, path in files.items():
            suffix = os.path.splitext(path)[1]
            if suffix.lower() != f".{form}":
                raise ValueError(f"--{form} {path!r} must end in .{form}: it ends in {suffix or 'no suffix'}")
            if wrong := fault(path):
                raise ValueError(f"--{form} {path} {wrong}")
        return files

    def draw(self, graph: nx.DiGraph) -> None:
        """Draw a graph into the files, and say so on stderr.

        Raises:
            ValueError: one cannot be written, or matplotlib is missing.
        """
        if not (files := self.files()):
            return
        from sim.pictures import Picture, write

        picture = Picture.of(graph)
        for form, path in files.items():
            write(picture, path, form)
            print(f"ringloom: {form} {path}", file=sys.stderr)


_OPTIONS = (
    click.option("--png", metavar="FILE", help="Draw it, tier by tier, with the bandwidth of each pair of GPUs."),
    click.option("--svg", metavar="FILE", help="The same, with a tip on each box and wire."),
    click.option("--html", metavar="FILE", help="The same with all tables and sources, one page that needs no other."),
)

picture_options = as_record("wanted", Wanted, _OPTIONS)
