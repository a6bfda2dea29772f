"""NCCL's topology of one machine, as NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads it; RCCL's too.

    system > cpu > pci (a bridge) > pci (a device) > gpu > nvlink, xgmi
                                                   > nic > net

A file made by hand may hold nothing but pci elements: their class codes tell then what they are.
"""

import re

from topologies.files.facts import Accelerator, FileError, MachineFacts, Port
from topologies.files.gpu_links import Ends, pairs
from topologies.files.nccl_pci import BRIDGE, GPU, NIC, bus_id, by_bus, card, descendants, model, whole
from topologies.files.pcie_tree import PcieTree
from topologies.files.text.markup import Element, first_tag, parse
from topologies.files.text.pci import rate
from topologies.files.text.wording import Remarks, shown
from topologies.units import Gbit

FORMAT = "NCCL topology (XML)"
MOST_DEVICES = 512  # a rack of NVLink has about 200
RATES = (1, 2.5, 5, 10, 20, 25, 40, 50, 56, 100, 200, 400, 800)  # Gbit/s of ports that are made
_VIRTUAL = re.compile("veth|docker|virbr|br-|tap|lo$")


def looks_like(text: str) -> bool:
    """Tell whether a text is a topology of NCCL's, or a piece of one."""
    return first_tag(text).removeprefix("/") in ("system", "cpu", "pci", "nic", "xgmi", "nvlink")


def read(text: str, file: str) -> MachineFacts:
    """Return the machine that a topology of NCCL's describes.

    Raises:
        FileError: it is no whole document, or names no GPU, or two devices alike.
    """
    return _Reader(file, parse(text, file, ["system"])).facts()


class _Reader:
    """Goes through a document once, and gathers devices, links and remarks."""

    def __init__(self, file: str, system: Element) -> None:
        self.file, self.system = file, system
        self.remarks = Remarks()
        self.tree = PcieTree(file)
        self.gpus: list[Accelerator] = []
        self.nics: list[Port] = []
        self.ends: list[Ends] = []
        devices = list(descendants(system))
        self.says_gpus = any(e.tag == "gpu" for e in devices)
        self.says_nics = any(e.tag == "net" for e in devices)
        self.numbers = by_bus(devices)
        self.cpus: list[tuple[str, int, int]] = []
        self.hosts = sorted({cpu.attributes.get("host_hash", "") for cpu in system.all("cpu")})

    def facts(self) -> MachineFacts:
        """Return what the document says."""
        if self.system.attributes.get("version") not in ("1", "2"):
            version = self.system.attributes.get("version")
            self.remarks.add(f"version {shown(version)} of the format, read as version 1")
        for child in self.system.children:
            if child.tag != "cpu":
                self.remarks.add(f"<{child.tag}> in no <cpu> is left out", f"line {child.line}")
        for cpu in self.system.all("cpu"):
            self.cpu(cpu)
        if not self.gpus:
            raise FileError(self.file, self.without_gpus(), self.system.line)
        if not self.says_gpus:
            self.remarks.add(f"no <gpu>: the {len(self.gpus)} devices of class 0x03 or 0x12 are, by bus id, gpu0, ...")
        if not self.says_nics and self.nics:
            self.remarks.add(f"no <net>: the {len(self.nics)} devices of class 0x02 are, by bus id, nic0, ...")
        if len(self.hosts) > 1:
            self.remarks.add(f"{len(self.hosts)} hosts (host_hash) in one document, read as one machine of many hosts")
        self.guids()
        links = pairs(self.ends, self.remarks)
        return MachineFacts(
            file=self.file,
            format=FORMAT,
            gpus=tuple(sorted(self.gpus, key=lambda gpu: gpu.index)),
            nics=tuple(self.nics if self.says_nics else sorted(self.nics, key=lambda nic: int(nic.name[3:]))),
            links=links.counts,
            link_kind=links.kind,
            switched=links.switched,
            near=self.tree.classes(),
            tree=self.tree.whole(),
            cpu=self.cpus[0] if len(set(self.cpus)) == 1 else None,
            notes=self.remarks.lines(),
        )

    def without_gpus(self) -> str:
        """Say why no GPU was found."""
        pci = sum(e.tag == "pci" for e in descendants(self.system))
        if pci:
            return f"names no GPU: none of its {pci} <pci> has a <gpu>, or a class code of one (0x03, 0x12)"
        return "names no GPU: no <cpu> with a <pci> in it"

    def cpu(self, cpu: Element) -> None:
        """Read a CPU, which is a NUMA node, and what hangs under it."""
        numa = whole(cpu, "numaid")
        if numa is None:
            self.remarks.add("numaid of a CPU is not said", f"line {cpu.line}")
        host = self.hosts.index(cpu.attributes.get("host_hash", "")) if len(self.hosts) > 1 else None
        name = self.tree.cpu(numa, host)
        family, kind = whole(cpu, "familyid"), whole(cpu, "modelid")
        if family is not None and kind is not None:
            self.cpus.append((cpu.attributes.get("vendor", "")[:40], family, kind))
        for child in cpu.children:
            if child.tag == "pci":
                self.pci(child, name, numa)
            elif child.tag in ("nic", "gpu"):
                self.devices(child, child.attributes, [child], name, numa)
            else:
                self.skip(child)

    def pci(self, pci: Element, above: str, numa: int | None) -> None:
        """Read a PCI function: a bridge with others under it, a GPU, a NIC, or what is of no concern here."""
        code, bus = pci.attributes.get("class", ""), bus_id(pci)
        holders = [child for child in pci.children if child.tag in ("gpu", "nic")]
        for child in pci.children:
            if child.tag not in ("gpu", "nic", "pci"):
                self.skip(child)
        if holders:
            self.devices(pci, pci.attributes, holders, above, numa)
        if pci.all("pci") or code.startswith(BRIDGE):
            if bus.startswith("ffff:"):
                self.remarks.add(
                    "bridge of a bus id made up for a PCIe switch that is hidden; its link as printed", bus
                )
            bridge = self.tree.bridge(above, self.rate(pci), bus)
            for child in pci.all("pci"):
                self.pci(child, bridge, numa)
            self.tree.prune(bridge)
        elif not holders and GPU.match(code) and not self.says_gpus:
            self.gpu(pci, None, above, self.rate(pci), numa)
        elif not holders and NIC.match(code) and not self.says_nics:
            name = f"nic{self.numbers[id(pci)]}"
            self.hang(Port(name, None, bus or None, numa, card=card(pci)), pci, above, self.rate(pci))
        elif not holders:
            kind = "a GPU without a <gpu>, perhaps not used" if GPU.match(code) else "no GPU or NIC"
            self.remarks.add(f"PCI device of class {shown(code)} is {kind}: left out", bus or f"line {pci.line}")

    def devices(
        self, place: Element, said: dict[str, str], holders: list[Element], above: str, numa: int | None
    ) -> None:
        """Read the GPUs and NICs of one PCI function, or of none where they stand right under a CPU."""
        nets = [net for nic in holders for net in nic.all("net")]
        gpus = [holder for holder in holders if holder.tag == "gpu"]
        nets = [net for net in nets if not self.is_virtual(net, place)]
        is_pci = place.tag == "pci"
        bandwidth = self.rate(place) if is_pci and (gpus or nets) else None
        if not is_pci and (gpus or nets):
            self.remarks.add("on no PCI device: its link to the CPU is unknown", f"line {place.line}")
        if len(gpus) + len(nets) > 1:
            above = self.tree.card(above, bandwidth, bus_id(place))
            self.remarks.add("one PCI device with several ports, which share its link", bus_id(place))
        for gpu in gpus:
            self.gpu(place, gpu, above, bandwidth, numa)
        for net in nets:
            self.net(place, net, above, bandwidth, numa)

    def gpu(self, pci: Element, gpu: Element | None, above: str, bandwidth: float | None, numa: int | None) -> None:
        """Read one GPU, with or without an element of its own."""
        index = self.numbers[id(pci)] if gpu is None else whole(gpu, "dev")
        place = pci if gpu is None else gpu
        if index is None or index < 0:
            raise FileError(self.file, f"dev of a <gpu> is {shown(place.attributes.get('dev'))}: no number", place.line)
        taken = {one.index for one in self.gpus}
        if index in taken and len(self.hosts) > 1:
            index = max(taken) + 1
            self.remarks.add("number of a GPU of another host, counted on", f"gpu{index} in line {place.line}")
        if index in taken:
            raise FileError(self.file, f"two GPUs are dev {index}", place.line)
        bus = bus_id(pci) if pci.tag == "pci" else ""
        self.gpus.append(Accelerator(index, model(pci, gpu, self.remarks), bus or None, numa))
        host = self.tree.add(f"gpu{index}", "gpu", above, bandwidth, bus, place.line)
        self.count(place)
        if gpu is not None:
            self.ends.append(Ends.read(index, bus, host, gpu, self.file, self.remarks))
            if gpu.attributes.get("gdr") == "0":
                self.remarks.add("GPUDirect RDMA is off (gdr=0)", f"gpu{index}")

    def net(self, pci: Element, net: Element, above: str, bandwidth: float | None, numa: int | None) -> None:
        """Read one port of a NIC."""
        name = net.attributes.get("name") or f"net{net.attributes.get('dev', '')}"
        if len(name) > 60 or not name.isprintable():
            raise FileError(self.file, f"name of a <net> is {shown(name)}", net.line)
        if name in self.tree and net.attributes.get("port"):
            self.remarks.add("name of two ports: the second has its number added", f"{name} in line {net.line}")
            name = f"{name}:{shown(net.attributes['port'])[1:-1]}"
        speed = whole(net, "speed")
        if speed is None or speed <= 0:
            self.remarks.add(f"speed {shown(net.attributes.get('speed'))} is none: unknown", name)
        elif speed / 1000 not in RATES:
            self.remarks.add(f"speed {speed} Mb/s is that of no port: kept as printed", name)
        if net.attributes.get("gdr") == "0":
            self.remarks.add("GPUDirect RDMA is off (gdr=0)", name)
        guid = net.attributes.get("guid", "").strip().lower().removeprefix("0x").lstrip("0")[:40] or None
        rated = speed / 1000 * Gbit if speed and speed > 0 else None
        bus = bus_id(pci) if pci.tag == "pci" else ""
        self.hang(Port(name, rated, bus or None, numa, guid, card(pci)), net, above, bandwidth)

    def hang(self, port: Port, place: Element, above: str, bandwidth: float | None) -> None:
        """Add a NIC to the tree."""
        if port in self.nics:
            raise FileError(self.file, f"two NICs are alike: {port.name}", place.line)
        self.nics.append(port)
        self.tree.add(port.name, "nic", above, bandwidth, port.bus or "", place.line)
        self.count(place)

    def is_virtual(self, net: Element, place: Element) -> bool:
        """Tell whether a net on no PCI device is one that software made up; say so."""
        name = net.attributes.get("name", "")
        virtual = place.tag != "pci" and _VIRTUAL.match(name) is not None
        if virtual:
            self.remarks.add("virtual interface on no PCI device: left out", shown(name)[1:-1])
        return virtual

    def rate(self, pci: Element) -> float | None:
        """Return the bytes/s of the link above a PCI function, None where that is not known."""
        bandwidth, why = rate(pci.attributes.get("link_speed"), pci.attributes.get("link_width"))
        if bandwidth is None:
            self.remarks.add(why, bus_id(pci) or f"line {pci.line}")
        return bandwidth

    def guids(self) -> None:
        """Say which ports have one guid: they are on one card."""
        first: dict[str, str] = {}
        for nic in self.nics:
            other = first.setdefault(nic.guid, nic.name) if nic.guid else nic.name
            if other != nic.name:
                self.remarks.add("ports of one guid, on one card", f"{other} and {nic.name}")

    def count(self, place: Element) -> None:
        """Check that there are not more devices than a machine has."""
        if len(self.gpus) + len(self.nics) > MOST_DEVICES:
            raise FileError(self.file, f"holds more than {MOST_DEVICES} GPUs and NICs", place.line)

    def skip(self, element: Element) -> None:
        """Say that an element is not read."""
        self.remarks.add(f"<{shown(element.tag)[1:-1]}> is not read", f"line {element.line}")
