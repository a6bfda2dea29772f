"""PCI Express: bytes/s of a link as the kernel words it, and the names of GPUs by their device code."""

import re

# GT/s a lane -> share of the bits that are data: 8b/10b up to Gen2, 128b/130b from Gen3 on, and the 242 of 256 bytes
# of a Gen6 flit that are no checks (PCI Express Base Specification 6.0).
ENCODING = {2.5: 8 / 10, 5.0: 8 / 10, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130, 64.0: 242 / 256}
WIDTHS = (2, 4, 8, 12, 16, 32)  # lanes; virtual machines print 0 or 1 for what they do not know
_SPEED = re.compile(r"\s*(\d{1,3}(?:\.\d{1,3})?)\s*GT/s(?:\s*PCIe)?\s*", re.ASCII)

# vendor, device -> name: the PCI ID database, https://pci-ids.ucw.cz, version 2023.04.10, and later for those marked.
GPUS = {
    ("10de", "1db1"): "Tesla V100 SXM2 16GB",
    ("10de", "1db4"): "Tesla V100 PCIe 16GB",
    ("10de", "1db5"): "Tesla V100 SXM2 32GB",
    ("10de", "1db6"): "Tesla V100 PCIe 32GB",
    ("10de", "1db8"): "Tesla V100 SXM3 32GB",
    ("10de", "1eb8"): "Tesla T4",
    ("10de", "20b0"): "A100 SXM4 40GB",
    ("10de", "20b1"): "A100 PCIe 40GB",
    ("10de", "20b2"): "A100 SXM4 80GB",
    ("10de", "20b5"): "A100 PCIe 80GB",
    ("10de", "20f1"): "A100 PCIe 40GB",
    ("10de", "2204"): "GeForce RTX 3090",
    ("10de", "2236"): "A10",
    ("10de", "2237"): "A10G",
    ("10de", "2330"): "H100 SXM5 80GB",
    ("10de", "2331"): "H100 PCIe",
    ("10de", "2335"): "H200 SXM 141GB",  # later
    ("10de", "2684"): "GeForce RTX 4090",
    ("10de", "26b5"): "L40",
    ("1002", "66a1"): "Radeon Instinct MI50 32GB",
    ("1002", "738c"): "Instinct MI100",
    ("1002", "738e"): "Instinct MI100",
    ("1002", "7408"): "Instinct MI250X",
    ("1002", "740f"): "Instinct MI210",
    ("1002", "74a1"): "Instinct MI300X",  # later
}

# The same of NICs, and Gbit/s of a port: of the maker's fastest card of that device.
NICS = {
    ("15b3", "1013"): ("ConnectX-4", 100),
    ("15b3", "1017"): ("ConnectX-5", 100),
    ("15b3", "1019"): ("ConnectX-5 Ex", 100),
    ("15b3", "101b"): ("ConnectX-6", 200),
    ("15b3", "1021"): ("ConnectX-7", 400),
    ("1d0f", "efa0"): ("EFA of p4d", 100),  # https://github.com/aws/aws-ofi-nccl (topology/p4d-24xl-topo.xml)
}
CARDS = dict(NICS.values())


def rate(speed: str | None, width: str | None) -> tuple[float | None, str]:
    """Return the bytes/s of a link in one direction, or None and why that is not known.

    Args:
        speed: of a lane, such as `16 GT/s` or `16.0 GT/s PCIe`.
        width: number of lanes, in digits.
    """
    read = _SPEED.fullmatch(speed[:60]) if speed else None
    lanes = int(width) if width and re.fullmatch("[0-9]{1,3}", width) else None
    if read is None or float(read[1]) not in ENCODING:
        return None, "link speed is not said"
    if float(read[1]) == 2.5:
        return None, "link speed 2.5 GT/s is what virtual machines and sleeping devices print: unknown"
    if lanes not in WIDTHS:
        return None, "link width is not said" if lanes is None or lanes > 1 else f"link width {lanes}: unknown"
    return float(read[1]) * 1e9 / 8 * ENCODING[float(read[1])] * lanes, ""
