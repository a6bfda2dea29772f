"""In which row each box of a picture stands, by tier: see the picture in topologies.drawing.layers."""

from collections.abc import Iterable, Sequence

from topologies.drawing.outline import Box
from topologies.drawing.parts import stem

NAMES = {"nvswitch": "NVSwitch", "gpu": "GPU", "pcie": "PCIe switch", "cpu": "CPU", "nic": "NIC", "machine": "machine"}
# Level of the first row of each kind, from the top; what is between two of them is left for trees.
BASE = {"switch": 900, "nic": 1000, "cpu": 2000, "pcie": 3500, "gpu": 4000, "machine": 4000, "nvswitch": 5000}


def levels(boxes: Sequence[Box], near: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the level of each box, by its number; levels count downwards, and boxes of one level are a row.

    Args:
        near: [boxes] the boxes that each is cabled to.
    """
    depth = _hops(boxes, near, "cpu")  # a PCIe tree hangs from its CPU; where none is shown, it stands on its devices
    above = {n: -hops for kind in ("gpu", "nic") for n, hops in _hops(boxes, near, kind).items()}
    depth = above | depth
    return {n: BASE[box.kind] + (-box.tier if box.kind == "switch" else depth.get(n, 0)) for n, box in enumerate(boxes)}


def _hops(boxes: Sequence[Box], near: Sequence[Sequence[int]], kind: str) -> dict[int, int]:
    """Return PCIe switch -> how many PCIe links it is from the nearest box of a kind; only those that reach one."""
    ring = [n for n, box in enumerate(boxes) if box.kind == kind]
    found: dict[int, int] = {}
    while ring:
        steps = found[ring[0]] + 1 if ring[0] in found else 1
        ring = sorted({o for n in ring for o in near[n] if boxes[o].kind == "pcie" and o not in found})
        found |= dict.fromkeys(ring, steps)
    return found


def row_name(boxes: Iterable[Box]) -> str:
    """Return what a row is called: the switches' own name, if they have one."""
    found = list(boxes)
    if found[0].kind != "switch":
        return NAMES[found[0].kind]
    stems = {stem(box.label) for box in found}
    return stems.pop() if len(stems) == 1 and stems != {"switch"} else "switch"
