"""How near the devices of a machine are: the classes of `topo -m` as numbers, whichever kind of file they are from."""

from collections import Counter
from collections.abc import Sequence

from topologies.files.facts import CLASSES, MachineFacts

PIX, PXB, PHB, NODE, SYS = range(5)


class Nearness:
    """The class between any two devices of a machine, as an index into CLASSES; SYS where nobody knows."""

    def __init__(self, facts: MachineFacts) -> None:
        """Take what the files say: classes, or no more than NUMA nodes."""
        self._near = {pair: CLASSES.index(name) for pair, name in facts.near.items()}
        self._numa = {f"gpu{gpu.index}": gpu.numa for gpu in facts.gpus} | {nic.name: nic.numa for nic in facts.nics}

    def between(self, a: str, b: str) -> int:
        """Return the class between two devices."""
        known = self.known(a, b)
        return SYS if known is None else known

    def printed(self, a: str, b: str) -> int | None:
        """Return the class that a file prints for two devices."""
        return self._near.get((a, b), self._near.get((b, a)))

    def known(self, a: str, b: str) -> int | None:
        """Return that, or else NODE for two of one NUMA node, which may be nearer; None where nobody says either."""
        near = self.printed(a, b)
        if near is not None:
            return near
        first, second = self._numa.get(a), self._numa.get(b)
        return NODE if first is not None and first == second else None


def used_nics(facts: MachineFacts, near: Nearness) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the names of the NICs that carry what GPUs send, and those left out, each with the reason.

    The fastest are used, and of these the nearest to some GPU: a NIC that is no GPU's nearest is one of storage or of
    management, as the ninth and tenth of a DGX are.
    """
    fastest = max((nic.bandwidth for nic in facts.nics if nic.bandwidth), default=None)
    left, fast = [], []
    for nic in facts.nics:
        if fastest is not None and nic.bandwidth is not None and nic.bandwidth < fastest:
            left.append((nic.name, "slower than others"))
        else:
            fast.append(nic.name)
    chosen: set[str] = set()
    for gpu in facts.gpus:
        classes = {name: near.between(f"gpu{gpu.index}", name) for name in fast}
        best = min(_tier(value) for value in classes.values()) if classes else SYS
        if best < SYS:
            chosen |= {name for name, value in classes.items() if _tier(value) == best}
    left += [(name, "no GPU's nearest") for name in fast if chosen and name not in chosen]
    return [name for name in fast if not chosen or name in chosen], left


def _tier(value: int) -> int:
    """Return the class, with one and several PCIe switches as one: neither path leaves them."""
    return PXB if value == PIX else value


def own_nics(gpus: Sequence[str], nics: Sequence[str], near: Nearness) -> dict[str, str]:
    """Return GPU -> the nearest NIC; of equally near ones, that which fewest GPUs have."""
    shared: Counter[str] = Counter()
    own = {}
    for gpu in sorted(gpus, key=lambda name: min(near.between(name, nic) for nic in nics)):
        nic = min(nics, key=lambda name: (near.between(gpu, name), shared[name]))
        shared[nic] += 1
        own[gpu] = nic
    return own
