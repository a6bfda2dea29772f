"""PCI functions in a topology of NCCL's: what kind each is, which model, its number and its bus id."""

import re
from collections.abc import Iterator

from topologies.files.text.markup import Element
from topologies.files.text.pci import GPUS, NICS
from topologies.files.text.wording import Remarks, shown

GPU, NIC, BRIDGE = re.compile("0x03|0x12"), re.compile("0x02"), "0x0604"  # how class codes begin
# Architectures as RCCL numbers them.
GCN = {"803": "gfx803", "900": "gfx900", "906": "gfx906", "908": "gfx908", "910": "gfx90a", "940": "gfx940"}


def model(pci: Element, gpu: Element | None, remarks: Remarks) -> str | None:
    """Return the name of a GPU by its device code, or what the document says of its architecture."""
    code = codes(pci)
    said = {} if gpu is None else gpu.attributes
    if code in GPUS:
        remarks.add(f"device 0x{code[1]} of vendor 0x{code[0]} is {GPUS[code]} in the PCI ID database")
        return GPUS[code]
    if "gcn" in said:
        gcn = said["gcn"].strip()[:40]
        return GCN.get(gcn, gcn) if gcn.isprintable() and gcn else None
    if "sm" in said:
        remarks.add(f"GPUs of compute capability {shown(said['sm'])} (sm), model not said")
    return None


def card(pci: Element) -> str | None:
    """Return what NIC a PCI function is by its codes, None where they are not known."""
    return NICS.get(codes(pci), (None, 0))[0]


def codes(pci: Element) -> tuple[str, str]:
    """Return the vendor and device code of a PCI function, in lower case without 0x."""
    vendor, device = (pci.attributes.get(key, "").lower().removeprefix("0x") for key in ("vendor", "device"))
    return vendor, device


def descendants(element: Element) -> Iterator[Element]:
    """Yield all elements below one, in the order of the text."""
    waiting = element.children[::-1]
    while waiting:
        child = waiting.pop()
        yield child
        waiting += child.children[::-1]


def by_bus(devices: list[Element]) -> dict[int, int]:
    """Number the PCI functions that are GPUs, and those that are NICs, by bus id as nvidia-smi does."""
    numbers = {}
    for kind in (GPU, NIC):
        of_kind = [e for e in devices if e.tag == "pci" and kind.match(e.attributes.get("class", ""))]
        numbers.update({id(e): i for i, e in enumerate(sorted(of_kind, key=bus_id))})
    return numbers


def bus_id(pci: Element) -> str:
    """Return the bus id of a PCI function in lower case, empty where it has none."""
    bus = pci.attributes.get("busid", "").strip().lower()[:40]
    return bus if bus.isprintable() else ""


def whole(element: Element, key: str) -> int | None:
    """Return a whole number of an element, None where it has none; -1 is what the kernel prints for unknown."""
    text = element.attributes.get(key, "").strip()
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
