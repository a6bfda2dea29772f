"""NVLink and xGMI in a topology of NCCL's: what each GPU lists as its ends, and what that makes of pairs of GPUs.

A target is another GPU, by its bus id, or a switch, which has no element of its own; the counts of all its switches
are those of the GPU. Both ends of a link list it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from topologies.files.facts import FileError
from topologies.files.nccl_pci import GPU
from topologies.files.text.markup import Element
from topologies.files.text.wording import Remarks, shown

MOST_LINKS = 64  # of one GPU; 18 are made
_SWITCH, _CPU = "0x068000", "0x068001"  # class codes of targets in NCCL's src/graph/topo.cc: NVSwitch, and Power's CPU


@dataclass(frozen=True)
class PairLinks:
    """Links between GPUs: sorted pair -> count, their kind, and whether they go through switches (None: no links)."""

    counts: dict[tuple[int, int], int]
    kind: str
    switched: bool | None


@dataclass
class Ends:
    """The links of one GPU as its element lists them: bus id of a GPU -> count, and the count to switches."""

    index: int
    bus: str
    host: int | None
    kind: str | None = None
    to_gpus: dict[str, int] = field(default_factory=dict)
    to_switches: int = 0

    @classmethod
    def read(cls, index: int, bus: str, host: int | None, gpu: Element, file: str, remarks: Remarks) -> "Ends":
        """Return what a <gpu> lists.

        Raises:
            FileError: a count is no number from 1 to MOST_LINKS.
        """
        ends = cls(index, bus, host)
        for link in gpu.children:
            if link.tag not in ("nvlink", "xgmi"):
                remarks.add(f"<{shown(link.tag)[1:-1]}> of a GPU is not read", f"gpu{index}")
                continue
            count = link.attributes.get("count", "")
            if not re.fullmatch("[0-9]{1,3}", count) or not 1 <= int(count) <= MOST_LINKS:
                wrong = f"count of an <{link.tag}> is {shown(count)}: expected 1 to {MOST_LINKS}"
                raise FileError(file, wrong, link.line)
            ends.add(link, int(count), remarks)
        return ends

    def add(self, link: Element, count: int, remarks: Remarks) -> None:
        """Count a link to its target."""
        target, code = link.attributes.get("target", "").strip().lower()[:40], link.attributes.get("tclass", "").lower()
        if code.startswith(_CPU):
            remarks.add(f"{count} links to the CPU (tclass {_CPU}) are left out", f"gpu{self.index}")
            return
        if self.kind not in (None, link.tag):
            remarks.add("both <nvlink> and <xgmi>: read as one kind", f"gpu{self.index}")
        self.kind = self.kind or link.tag
        if code.startswith(_SWITCH):
            self.to_switches += count
        else:
            if not GPU.match(code):
                remarks.add(f"link to a target of class {shown(code)}: read as a GPU", f"gpu{self.index}")
            self.to_gpus[target] = self.to_gpus.get(target, 0) + count


def pairs(all_ends: Sequence[Ends], remarks: Remarks) -> PairLinks:
    """Return the links between GPUs; where two of them do not say the same of their links, the smaller count."""
    names = {(ends.host, ends.bus): ends.index for ends in all_ends}
    seen: dict[tuple[int, int], int] = {}
    for ends in all_ends:
        for target, count in ends.to_gpus.items():
            other = names.get((ends.host, target))
            if other is None or other == ends.index:
                remarks.add(
                    "link to what is no other GPU here is left out", f"gpu{ends.index} to {shown(target)[1:-1]}"
                )
            else:
                seen[ends.index, other] = seen.get((ends.index, other), 0) + count
    counts = {pair: count for pair in _sorted(seen) if (count := _agreed(*pair, seen, remarks))}
    through = sorted((ends for ends in all_ends if ends.to_switches), key=lambda ends: ends.index)
    for i, a in enumerate(through):
        for b in through[i + 1 :]:
            counts[a.index, b.index] = counts.get((a.index, b.index), 0) + min(a.to_switches, b.to_switches)
    if through and len(through) < len(all_ends):
        remarks.add(f"{len(all_ends) - len(through)} of {len(all_ends)} GPUs list no link to a switch, others do")
    if len({ends.to_switches for ends in through}) > 1:
        remarks.add("GPUs have different numbers of links to switches: the smaller of two is their pair's")
    kinds = {ends.kind for ends in all_ends if ends.kind}
    return PairLinks(counts, "xgmi" if kinds == {"xgmi"} else "nvlink", bool(through) if kinds else None)


def _sorted(seen: dict[tuple[int, int], int]) -> list[tuple[int, int]]:
    """Return the pairs with the smaller number first, in order."""
    return sorted({(min(pair), max(pair)) for pair in seen})


def _agreed(a: int, b: int, seen: dict[tuple[int, int], int], remarks: Remarks) -> int:
    """Return the links of a pair that both list."""
    there, back = seen.get((a, b), 0), seen.get((b, a), 0)
    if there != back:
        where = f"gpu{a} lists {there} to gpu{b}, which lists {back}"
        remarks.add("links that two GPUs count differently, of which the smaller count is kept", where)
    return min(there, back)
