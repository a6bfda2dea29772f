"""What docs/topologies.md generates: a picture and a section of every machine and every fabric.

    python -m tests.docs.pictures

draws docs/pictures/*.svg and writes the sections between the page's markers; test_topologies_page.py compares.
"""

import re
from collections.abc import Callable
from pathlib import Path

import topologies
from sim.pictures import Picture, write
from topologies import fabrics
from topologies.describe import describe

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "topologies.md"
FOLDER = DOCS / "pictures"
LARGEST = 60_000  # bytes of a picture
SHOWN = {  # fabric -> machine, how many, options: small, and large enough that its shape shows
    "dragonfly": ("perlmutter", 8, "hosts=4,switches=2"),
    "fat_tree": ("dgx_h100", 8, "leaf=16,spines=4"),
    "superpod": ("dgx_h100", 8, "unit=4"),
    "torus": ("alps_gh200", 8, "dims=2"),
}
USUAL = ("dgx_h100", 8, "")
CLUSTERS = {  # larger ones that the page shows besides: name -> machine, how many, fabric
    "dgx_h100_1024": ("dgx_h100", 128, "fat_tree"),
    "gb200_nvl72_3": ("gb200_nvl72", 3, "rail"),
}


def build(machine: str, count: int, fabric: str):
    return topologies.find(machine)(count, fabric=fabrics.parse(fabric))


def graphs() -> dict[str, Callable]:
    """Return picture -> what builds its graph."""
    made = {name: topologies.find(name) for name in topologies.names()}
    for name in fabrics.names():
        machine, count, options = SHOWN.get(name, USUAL)
        text = f"{name}:{options}" if options else name
        made[f"fabric_{name}"] = lambda machine=machine, count=count, text=text: build(machine, count, text)
    for name, asked in CLUSTERS.items():
        made[name] = lambda asked=asked: build(*asked)
    return made


def about(function: Callable) -> str:
    """Return the first line of a docstring, without its leading verb."""
    line = function.__doc__.partition("\n")[0].removeprefix("Return ")
    return line[:1].upper() + line[1:]


def source(text: str) -> str:
    """Write where a number is from; an address as a link."""
    return re.sub(r"https?://[^\s;,)]+", lambda url: f"<{url[0]}>", text)


def origin(graph, fact: str) -> str:
    """Write the source of a fact, or what is assumed about it."""
    if fact in graph.graph["sources"]:
        return source(graph.graph["sources"][fact])
    assumed = [text.partition(":") for text in graph.graph["assumptions"]]
    return "assumed: " + "; ".join(source(why.strip()) for what, _, why in assumed if what.partition(" ")[0] == fact)


def machine_section(name: str) -> str:
    """Return what the page says of a machine."""
    topology = topologies.find(name)
    graph = topology()
    lines = [f"### {name}", "", about(topology), "", f"![{name}](pictures/{name}.svg)", ""]
    lines += ["| what | number | each | from |", "|---|---|---|---|"]
    for row in describe(graph):
        if row.section == "nodes" and row.name == "gpu":
            facts = [f"gpu.{fact}" for fact in ("flop_rate", "memory") if f"gpu.{fact}" in origin_facts(graph)]
            lines.append(f"| gpu | {row.count} | {row.text} | {said(graph, facts)} |")
        if row.section == "links":
            facts = [f"{row.name}.bandwidth", f"{row.name}.latency"]
            lines.append(f"| {row.name} | {row.count // 2} | {row.text} | {said(graph, facts)} |")
    return "\n".join([*lines, ""])


def origin_facts(graph) -> set[str]:
    """Return the facts of which a graph says where they are from."""
    return {*graph.graph["sources"], *(text.partition(":")[0].partition(" ")[0] for text in graph.graph["assumptions"])}


def said(graph, facts: list[str]) -> str:
    """Write the sources of some facts, each once."""
    texts: dict[str, list[str]] = {}
    for fact in facts:
        texts.setdefault(origin(graph, fact), []).append(fact.partition(".")[2].replace("_", " "))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())


def fabric_section(name: str) -> str:
    """Return what the page says of a fabric."""
    fabric = fabrics.find(name)
    machine, count, options = SHOWN.get(name, USUAL)
    text = f"{name}:{options}" if options else name
    known = ", ".join(f"`{k}`" if v is None else f"`{k}={v:g}`" for k, v in fabrics.options(fabric).items())
    shown = f"ringloom topology show {machine} --nodes {count} --fabric {text}"
    chosen = f"Options: {known}." if known else "No options."
    lines = [f"### {name}", "", about(fabric), chosen, f"Shown: `{shown}`.", ""]
    return "\n".join([*lines, f"![{name}](pictures/fabric_{name}.svg)", ""])


def sections() -> dict[str, str]:
    """Return what stands between the markers of the page."""
    return {
        "machines": "\n".join(map(machine_section, topologies.names())),
        "fabrics": "\n".join(map(fabric_section, fabrics.names())),
    }


def between(marker: str) -> re.Pattern:
    """Return what matches a generated part of the page."""
    return re.compile(rf"(<!-- {marker}: [^>]*-->\n)(.*?)(<!-- end of {marker} -->)", re.DOTALL)


def generate() -> None:
    """Draw all pictures and write the page's sections."""
    FOLDER.mkdir(exist_ok=True)
    for name, graph in graphs().items():
        write(Picture.of(graph()), str(FOLDER / f"{name}.svg"), "svg")
    text = PAGE.read_text(encoding="utf-8")
    for marker, body in sections().items():
        text = between(marker).sub(lambda match, body=body: f"{match[1]}\n{body}\n{match[3]}", text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    generate()
