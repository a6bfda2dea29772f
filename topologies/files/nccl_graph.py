"""NCCL's plan of channels, as NCCL_GRAPH_DUMP_FILE writes and NCCL_GRAPH_FILE reads it.

    graphs > graph (a ring or trees) > channel > net, gpu, gpu, ..., net

It names the GPUs in the order in which each channel visits them, a speed a channel that NCCL reckoned on, and the
farthest class of path that it allowed: not the speeds of links, and not how each two devices meet.
"""

import itertools
import re
from collections.abc import Iterator

from topologies.files.facts import CLASSES, Accelerator, FileError, MachineFacts, Port
from topologies.files.text.markup import Element, first_tag, parse
from topologies.files.text.wording import Remarks, shown

FORMAT = "NCCL graph (XML)"
MOST_DEVICES = 512
# NCCL_TOPO_PATTERN_* and the classes of paths: NCCL's src/include/graph.h.
PATTERNS = {"1": "balanced trees", "2": "split trees", "3": "trees", "4": "rings", "5": "NVLS", "6": "CollNet"}
PATHS = {
    "LOC": "itself",
    "NVL": "NVLink",
    "NVB": "NVLink through another GPU",
    "C2C": "the GPU's link to its CPU",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PXN": "NVLink to the GPU beside the NIC",
    "P2C": "PCIe and the GPU's link to its CPU",
    "PHB": "the CPU",
    "NODE": "the CPU",
    "SYS": "the link between CPUs",
    "NET": "the network",
    "DIS": "nothing",
}


def looks_like(text: str) -> bool:
    """Tell whether a text is a plan of NCCL's, or a piece of one."""
    name = first_tag(text).removeprefix("/")
    return name in ("graphs", "channel") or (name == "graph" and "edgedefault" not in text[:10_000])


def read(text: str, file: str) -> MachineFacts:
    """Return the GPUs and NICs that a plan of NCCL's names, and how far it says they are at most.

    Raises:
        FileError: it is no whole document, or names no GPU.
    """
    root = parse(text, file, ["graphs"])
    remarks = Remarks()
    gpus: set[int] = set()
    nets: dict[str, None] = {}
    near: dict[tuple[str, str], str] = {}
    for child in root.children:
        if child.tag != "graph":
            remarks.add(f"<{shown(child.tag)[1:-1]}> is not read", f"line {child.line}")
            continue
        _tell(child, remarks)
        for channel in child.all("channel"):
            path = list(_path(channel, file, remarks))
            gpus.update(number for tag, number in path if tag == "gpu")
            nets.update((f"net{number}", None) for tag, number in path if tag == "net")
            if len(gpus) + len(nets) > MOST_DEVICES:
                raise FileError(file, f"holds more than {MOST_DEVICES} GPUs and NICs", channel.line)
            _hops(child, path, near)
    if not gpus:
        raise FileError(file, "names no GPU: no <gpu> in a <channel> of a <graph>", root.line)
    if near:
        remarks.add("how two GPUs or a GPU and its NIC meet is the farthest class that NCCL allowed; it may be nearer")
    accelerators = tuple(map(Accelerator, sorted(gpus)))
    return MachineFacts(file, FORMAT, accelerators, tuple(map(Port, nets)), near=near, notes=remarks.lines())


def _tell(graph: Element, remarks: Remarks) -> None:
    """Say what NCCL planned."""
    said, channels = graph.attributes, graph.all("channel")
    pattern = PATTERNS.get(said.get("pattern", ""), f"pattern {shown(said.get('pattern'))}")
    inside = _speed(said, "speedintra", "typeintra")
    outside = _speed(said, "speedinter", "typeinter")
    lines = "channel" if len(channels) == 1 else "channels"
    between = f", to the network {outside}" if any(channel.all("net") for channel in channels) else ""
    remarks.add(f"NCCL planned {pattern}: {len(channels)} {lines}, {inside} between GPUs{between}")
    if said.get("nchannels") != str(len(channels)):
        remarks.add(f"nchannels is {shown(said.get('nchannels'))}, {len(channels)} are there", f"line {graph.line}")


def _speed(said: dict[str, str], speed: str, path: str) -> str:
    """Write the speed of a channel and the farthest class of path."""
    number, name = said.get(speed, ""), said.get(path, "")
    rate = f"{float(number):g} GB/s a channel" if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", number) else "no speed"
    return f"{rate} over {name} ({PATHS[name]}) at the farthest" if name in PATHS else f"{rate} over {shown(name)}"


def _path(channel: Element, file: str, remarks: Remarks) -> Iterator[tuple[str, int]]:
    """Yield the devices of a channel in order: gpu or net, and its number."""
    for child in channel.children:
        if child.tag not in ("gpu", "net"):
            remarks.add(f"<{shown(child.tag)[1:-1]}> of a channel is not read", f"line {child.line}")
            continue
        number = child.attributes.get("dev", "")
        if not re.fullmatch("[0-9]{1,9}", number):
            raise FileError(file, f"dev of a <{child.tag}> is {shown(number)}: no number", child.line)
        yield child.tag, int(number)


def _hops(graph: Element, path: list[tuple[str, int]], near: dict[tuple[str, str], str]) -> None:
    """Note how far at most the neighbours on a channel are; of several graphs the nearest counts."""
    for one, other in itertools.pairwise(path):
        tags = {one[0], other[0]}
        farthest = graph.attributes.get("typeinter" if "net" in tags else "typeintra", "")
        if farthest not in CLASSES or one == other or tags == {"net"}:
            continue
        a, b = f"{one[0]}{one[1]}", f"{other[0]}{other[1]}"
        if CLASSES.index(farthest) <= CLASSES.index(near.get((a, b), CLASSES[-1])):
            near[a, b] = near[b, a] = farthest
