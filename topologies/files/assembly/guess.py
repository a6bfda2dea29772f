"""What a file does not say and must be assumed: which GPU it is, how fast its NICs are. Every guess has its reason."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from topologies.files.assembly.merge import Merged
from topologies.files.facts import Accelerator, MachineFacts
from topologies.files.text.pci import CARDS
from topologies.files.text.speeds import parse_speed, port_rate
from topologies.hardware import GPUS, Gpu, named
from topologies.units import GB, Gbit

# The NICs that machines of a GPU are sold with, Gbit/s: first words of the GPU's name -> speed, and with what.
_NICS = (
    ("V100", 100, "EDR, as in a DGX-1 or DGX-2"),
    ("A100-SXM4", 200, "HDR, as in a DGX A100"),
    ("A800", 200, "HDR, as in machines of an A100"),
    ("H", 400, "NDR, as in a DGX H100"),
    ("GH200", 200, "Slingshot-11, as in Alps"),
    ("B200", 400, "NDR, as in a DGX B200"),
    ("GB200", 400, "NDR, as in a GB200 tray"),
    ("MI300X", 400, "one of 400 Gbit/s a GPU, as in machines of eight MI300X"),
    ("MI", 200, "Slingshot-11, as in Frontier"),
)
_ANY_NIC = 100, "an Ethernet card of a PCIe machine"


@dataclass(frozen=True)
class Models:
    """The GPUs of a machine.

    Attributes:
        gpus: in the order of the file.
        assumed: why, if nobody said which GPU it is; as "fact: value; reason".
        warning: the same for one line beside an answer.
        links_known: whether the number of links of this GPU may be held against the file's.
    """

    gpus: tuple[Gpu, ...]
    assumed: str = ""
    warning: str = ""
    links_known: bool = True


def gpu_named(text: str) -> Gpu:
    """Return the GPU of --gpu.

    Raises:
        ValueError: it is not in the table.
    """
    gpu = named(text)
    if gpu is None:
        raise ValueError(f"no GPU {text[:60]!r}: expected one of {', '.join(GPUS)}, or a name as nvidia-smi prints it")
    return gpu


def models(merged: Merged, asked: str | None) -> Models:
    """Return which GPUs a machine has: as asked for, as its files name them, or else guessed.

    Raises:
        ValueError: no such GPU as was asked for.
    """
    facts, said = merged.facts, merged.who("models")
    printed = [gpu.model for gpu in facts.gpus]
    first = next((text for text in printed if text), None)
    known = [named(text) if text else None for text in printed]
    if asked is not None:
        gpu = gpu_named(asked)
        other = first and named(first) != gpu
        text = f"gpu: {gpu.name}; as asked for, {said} calls it {first}" if other else ""
        return Models((gpu,) * len(printed), text, links_known=not other or named(first or "") is not None)
    found = next((gpu for gpu in known if gpu), None)
    if found is not None:
        return _as_named(found, known, first or "", facts, said)
    linked = facts.links or any(gpu.ports for gpu in facts.gpus)
    gpu, reason = _by_architecture(first) if first and not linked else _by_links(facts)
    what = f"calls it {first}, of which no numbers are known" if first else "does not name the GPU"
    who = said.partition(" (")[0]
    return Models(
        (gpu,) * len(printed),
        f"gpu: {gpu.name}; {who} {what}: {reason}; say --gpu",
        f"assumes {gpu.name}: {who} {what}; say --gpu",
        links_known=not _is_foreign(facts),
    )


def _as_named(found: Gpu, known: Sequence[Gpu | None], printed: str, facts: MachineFacts, said: str) -> Models:
    """Return the GPUs that a file names; an architecture alone (sm80, gfx90a) leaves open which of its GPUs it is."""
    if not _ARCHITECTURE.fullmatch(printed.lower()):
        lone = "" if all(known) else f"gpu: {found.name} for all; {said} names only some"
        return Models(tuple(gpu or found for gpu in known), lone)
    usual, why = found, "the usual one of that architecture"
    if found.link_kind == "nvlink" and not facts.links and found.name in _ON_PCIE:
        usual, why = GPUS[_ON_PCIE[found.name]], "the one of that architecture that needs no NVLink"
    who = said.partition(" (")[0]
    text = f"gpu: {usual.name}; {who} says {printed} only: {why}; say --gpu"
    return Models((usual,) * len(known), text, f"assumes {usual.name}: {who} says {printed} only; say --gpu", False)


_ARCHITECTURE = re.compile(r"(?:sm|gfx)_?[0-9a-f]+(?::\S*)?")
_ON_PCIE = {"V100-SXM2-32": "V100-PCIe-32", "A100-SXM4-80": "A100-PCIe-80", "H100-SXM5-80": "H100-PCIe-80"}


def _is_foreign(facts: MachineFacts) -> bool:
    """Tell whether a machine is of a maker none of whose GPUs is in the table."""
    return facts.format.startswith("mthreads")


def _by_architecture(text: str) -> tuple[Gpu, str]:
    """Return what stands in for a GPU that is not in the table, and why."""
    if text.lower().startswith(("gfx", "amd")):
        return GPUS["MI210-64"], "an AMD GPU stands in for another"
    return GPUS["A100-PCIe-80"], "one that is much used stands in for it"


def _by_links(facts: MachineFacts) -> tuple[Gpu, str]:
    """Return the GPU that machines of such links have, and why."""
    n, counts = len(facts.gpus), sorted(set(facts.links.values()))
    ports = max((len(gpu.ports) for gpu in facts.gpus if gpu.ports), default=0)
    if _is_foreign(facts):
        return GPUS["A100-SXM4-80"], "one of about its age stands in for it"
    if facts.link_kind == "xgmi" or "rocm" in facts.format or "rccl" in facts.format:
        return _amd(n, counts)
    if ports:
        counts = [ports]
    if not counts:
        return _on_pcie(facts)
    bridged = bool(facts.links) and len({gpu for pair in facts.links for gpu in pair}) == 2 * len(facts.links)
    name, reason = _bridged(counts[-1]) if bridged else _nvidia(n, counts)
    return GPUS[name], reason


def _on_pcie(facts: MachineFacts) -> tuple[Gpu, str]:
    """Return the GPU of a machine whose files show no NVLink, and why."""
    n, fast = len(facts.gpus), 0.0
    if facts.tree is not None:
        fast = max((rate for _, _, rate in facts.tree.edges(data="bandwidth") if rate), default=0.0)
    if facts.tree is not None and n >= 8 and len(facts.nics) >= n // 2:
        like = "it shows eight GPUs or more, with NICs, as boards with NVLink have"
        return (GPUS["H100-SXM5-80"], f"{like}, on PCIe 5") if fast > 50 * GB else (GPUS["A100-SXM4-80"], like)
    if facts.format.startswith("NCCL"):
        return GPUS["A100-PCIe-80"], "a GPU of servers that does without NVLink stands in for it"
    if facts.nics:
        return GPUS["L40S-48"], "it shows NICs and no NVLink"
    return GPUS["RTX4090-24"], "it shows neither NVLink nor NICs"


def silent_links(facts: MachineFacts, gpu: Gpu) -> tuple[dict[tuple[int, int], int], bool] | None:
    """Return the links that a board of this GPU has, where files cannot show links, and whether through switches.

    A topology file that is given to NCCL leaves NVLink out: NCCL finds it by itself.
    """
    indices = [one.index for one in facts.gpus]
    if facts.links or facts.tree is None or not facts.format.startswith("NCCL topology") or len(indices) < 2:
        return None
    pairs = [(min(a, b), max(a, b)) for i, a in enumerate(indices) for b in indices[i + 1 :]]
    if not gpu.name.startswith(_BOARDS):
        return None
    each, rest = divmod(gpu.links, len(indices) - 1)
    cabled = len(indices) <= 4 or gpu.link_kind == "xgmi"
    if cabled and (rest or not each):
        return None
    return dict.fromkeys(pairs, each if cabled else gpu.links), not cabled


_BOARDS = ("A100-SXM", "A800-SXM", "H100-SXM", "H800-SXM", "H200-SXM", "H20-", "B200-SXM", "MI300X")


def _bridged(links: int) -> tuple[str, str]:
    """Name the NVIDIA GPU that has so many links to its one peer."""
    if links > 12:
        return "H100-SXM5-80", f"{links} NVLinks fit the 18 of an H100, which an H200 and a B200 have too"
    if links > 6:
        return "A100-PCIe-80", f"{links} NVLinks to its one peer fit bridges, as of an A100 PCIe"
    if links > 4:
        return "V100-SXM2-32", f"{links} NVLinks to its one peer fit the 6 of a V100"
    if links < 4:
        return (
            "RTX3090-24",
            f"{links} of the 4 NVLinks of an RTX 3090, with others down, or all of an older card's "
            "(TITAN RTX, RTX 2080 Ti), which are not in the table",
        )
    return "RTX3090-24", f"{links} NVLinks between two GPUs fit a bridge, as of RTX 3090"


def _nvidia(n: int, counts: Sequence[int]) -> tuple[str, str]:
    """Name the NVIDIA GPU that has so many links to its peers."""
    most = counts[-1]
    if len(counts) > 1 and most <= 2:
        return "V100-SXM2-32", "one and two NVLinks to its peers are a DGX-1's"
    if most > 12:
        return "H100-SXM5-80", f"{most} NVLinks fit the 18 of an H100, which an H200 and a B200 have too"
    if most > 8:
        return "A100-SXM4-80", f"{most} NVLinks fit the 12 of an A100"
    if most > 6:
        return "H800-SXM5-80", f"{most} NVLinks fit the 8 of an H800, which an A800 has too"
    if most == 6 and n == 4:
        return "H100-SXM5-80", "6 NVLinks to each of three peers are the 18 of an H100"
    if most == 6:
        return "V100-SXM2-32", "6 NVLinks to each peer fit the 6 of a V100 behind NVSwitches"
    if most == 4 and n == 4:
        return "A100-SXM4-80", "4 NVLinks to each of three peers are the 12 of an A100"
    if most <= 2:
        return "V100-SXM2-32", f"{most} NVLinks to its peers fit the 6 of a V100"
    return "A100-SXM4-80", f"{most} NVLinks to its peers fit the 12 of an A100"


def _amd(n: int, counts: Sequence[int]) -> tuple[Gpu, str]:
    """Return the AMD GPU that machines of such links have, and why."""
    if not counts:
        return GPUS["MI50-32"], "it is AMD's, and PCIe joins it to its like"
    if counts[-1] > 1:
        return GPUS["MI250X-GCD-64"], "xGMI links in bundles are those between the dies of MI250X"
    if n == 8:
        return GPUS["MI300X-192"], "one xGMI link to each of seven peers is an MI300X's"
    return GPUS["MI210-64"], f"one xGMI link to each of {n - 1} peers fits a bridge of MI210"


def nic_speed(facts: MachineFacts, gpu: Gpu) -> tuple[float, str]:
    """Return the bytes/s taken for NICs whose speed is not said, and why."""
    card = next((nic.card for nic in facts.nics if nic.card), None)
    if card is not None:
        return CARDS[card] * Gbit, f"the fastest {card}, which its PCI ids say it is"
    names = [nic.name.lower() for nic in facts.nics]
    if any(name.startswith("mlx4") for name in names):
        rate = port_rate(4, "FDR")
        assert rate is not None
        return rate, "FDR, which cards of the driver mlx4 have"
    if any(name.startswith(("efa", "rdmap")) for name in names):
        return parse_speed("efa"), "an EFA card, as in p4d and p5"
    if any(name.startswith(("hsi", "cxi")) for name in names):
        return parse_speed("slingshot"), "Slingshot-11, by its name"
    speed, reason = next(((s, why) for start, s, why in _NICS if gpu.name.startswith(start)), _ANY_NIC)
    return speed * Gbit, reason


# Bytes/s that a link signals -> bytes/s of data on it: nvidia-smi prints either. NVLink 2 codes 64 bits as 66; NVLink 4
# and 5 carry 512 of 544 symbols beside a code (Reed-Solomon 544, 514) and 256 of 257 bits.
_SIGNALLED = {25.781: 25.0, 26.562: 25.0, 53.125: 50.0, 53.124: 50.0}


def data_rate(rate: float) -> tuple[float, bool]:
    """Return bytes/s of data on a link of so many as printed, and whether coding was taken off."""
    near = next((data for printed, data in _SIGNALLED.items() if abs(rate / GB - printed) < 0.005), None)
    return (rate, False) if near is None else (near * GB, True)


def ports_of(gpu: Accelerator) -> int | None:
    """Return how many of a GPU's links are up, None if nobody says."""
    return None if gpu.ports is None else sum(rate > 0 for rate in gpu.ports)
