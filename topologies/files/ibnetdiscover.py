"""The listing of an InfiniBand network by ibnetdiscover: blocks of devices, or one port a line (-p).

Switch  65 "S-aa01"    # "MF0;leaf01:MQM9701/U1" enhanced port 0 lid 73 lmc 0
[1]     "H-aa02"[1](aa02)           # "node001 mlx5_5" lid 647 4xNDR

CA    134  1 0x0000aa02 4x NDR - SW  73  1 0x0000aa01 ( 'node001 mlx5_5' - 'leaf01' )
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from topologies.files.facts import Cable, FileError, NetworkFacts, Port
from topologies.files.text.ibnames import host_and_card, is_aggregation, natural, switch_and_model, told_apart
from topologies.files.text.speeds import LANES, port_rate
from topologies.files.text.wording import listed
from topologies.garbage import uncollected

FORMAT = "ibnetdiscover"

_HEAD = re.compile(r'(Switch|Ca|Rt)\s+([0-9]+)\s+"([SHR]-[0-9a-fA-F]+)"\s*(?:#\s*"(.*)")?')
_PORT = re.compile(
    r'\[([0-9]{1,4})\](?:\[ext [0-9]+\])?(?:\([0-9a-fA-F]+\))?\s*"([SHR]-[0-9a-fA-F]+)"\s*\[([0-9]{1,4})\]'
    r"(?:\[ext [0-9]+\])?(?:\([0-9a-fA-F]+\))?(.*)"
)
_QUOTED = re.compile(r'"([^"]*)"')
_RATE = re.compile(r"\b([0-9]{1,2})x ?([A-Z]DR(?:10)?|\?\?\?)\s*$")
_LINE = re.compile(
    r"\s*(SW|CA|RT)\s+([0-9]+)\s+([0-9]+)\s+0x([0-9a-fA-F]+)\s+([0-9]{1,2})x\s+(\S+)\s+"
    r"(?:-\s+(SW|CA|RT)\s+([0-9]+)\s+([0-9]+)\s+0x([0-9a-fA-F]+)\s+\((.*)\)|(.*))\s*"
)
_LOOKS = re.compile(
    r'^(?:(?:Switch|Ca)\s{1,9}[0-9]{1,4}\s{1,9}"[SH]-[0-9a-fA-F]|'
    r"[ \t]{0,9}(?:SW|CA)\s{1,9}[0-9]{1,6}\s{1,9}[0-9]{1,4}\s{1,9}0x[0-9a-fA-F]{1,16}\s{1,9}[0-9]{1,2}x\s)",
    re.MULTILINE,
)
End = tuple[str, int]  # a device and one of its ports


@dataclass
class _Listing:
    """What the lines say: device -> what it says of itself, and both ends of each cable with its rate."""

    file: str
    names: dict[str, str] = field(default_factory=dict)
    headed: set[str] = field(default_factory=set)  # devices that have lines of their own
    peers: dict[End, End] = field(default_factory=dict)
    rates: dict[tuple[End, End], tuple[int, str]] = field(default_factory=dict)  # lesser end first

    def add(self, a: End, b: End, width: int, speed: str, line: int) -> None:
        """Take down one line, which is a cable seen from one end."""
        if a == b:
            raise FileError(self.file, f"port {a[1]} of {self.called(a[0])} is joined to itself", line)
        for end, other in ((a, b), (b, a)):
            known = self.peers.get(end, other)
            if known != other:
                both = f"{self.called(known[0])} and {self.called(other[0])}"
                raise FileError(self.file, f"port {end[1]} of {self.called(end[0])} is joined to two: {both}", line)
        self.peers[a] = b
        self.rates.setdefault((a, b) if a < b else (b, a), (width, speed))

    def called(self, device: str) -> str:
        """Name a device for an error."""
        return self.names.get(device) or device


def looks_like(text: str) -> bool:
    """Tell whether a text is such a listing."""
    return _LOOKS.search(text) is not None


def read(text: str, file: str) -> NetworkFacts:
    """Return the switches, hosts and cables of a listing; each cable once, though it is listed from both ends.

    Raises:
        FileError: a line is cut, a port has two peers, or no line is one of a listing.
    """
    listing = _Listing(file)
    text = text.replace("\t", " ")  # tabs separate what blanks do, and a name with one cannot be printed
    with uncollected():
        for line in text.split("\n"):
            if _HEAD.match(line) or line.startswith("["):
                _read_blocks(text, listing)
                break
            if _LINE.fullmatch(line):
                _read_lines(text, listing)
                break
        if not listing.names:
            raise FileError(file, "has no line of an ibnetdiscover listing: a Switch, a Ca, or SW and CA lines of -p")
        return _facts(listing)


def _read_blocks(text: str, listing: _Listing) -> None:
    """Read the form of one block a device."""
    here = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("["):
            found = _PORT.fullmatch(line.rstrip())
            rate = _RATE.search(found[4]) if found else None
            if not found or not rate:
                raise FileError(
                    listing.file, f"a line of a port is cut: {line.strip()[:60]!r} has no peer or rate", number
                )
            if not here:
                raise FileError(listing.file, "a port comes before the Switch or Ca that it is of", number)
            peer, quoted = found[2], _QUOTED.search(found[4])
            if quoted:
                listing.names.setdefault(peer, quoted[1])
            listing.names.setdefault(peer, "")
            listing.add((here, int(found[1])), (peer, int(found[3])), int(rate[1]), rate[2], number)
        elif line.startswith(("Switch", "Ca\t", "Ca ", "Rt")):
            head = _HEAD.match(line)
            if not head:
                raise FileError(listing.file, f"the head of a device is cut: {line.strip()[:60]!r}", number)
            here = head[3]
            listing.names[here] = head[4] if head[4] is not None else listing.names.get(here, "")
            listing.headed.add(here)


def _read_lines(text: str, listing: _Listing) -> None:
    """Read the form of one line a port."""
    for number, line in enumerate(text.split("\n"), 1):
        found = _LINE.fullmatch(line)
        if not found:
            if re.match(r"\s*(?:SW|CA|RT)\s+[0-9]", line):
                raise FileError(listing.file, f"a line of a port is cut: {line.strip()[:60]!r}", number)
            continue
        here = f"{found[1][0].replace('C', 'H')}-{found[4].lstrip('0') or '0'}"
        listing.headed.add(here)
        if found[7] is None:  # nothing is plugged in
            listing.names.setdefault(here, found[12].strip().strip("'"))
            continue
        there = f"{found[7][0].replace('C', 'H')}-{found[10].lstrip('0') or '0'}"
        mine, its = _two_names(found[11])
        listing.names.setdefault(here, mine)
        listing.names.setdefault(there, its)
        listing.add((here, int(found[3])), (there, int(found[9])), int(found[5]), found[6], number)


def _two_names(text: str) -> tuple[str, str]:
    """Return both names of a cable's ends; they are in quotes, or not."""
    text = text.strip()
    parts = text.split("' - '") if text.startswith("'") else text.split(" - ")
    return parts[0].strip().strip("'"), " - ".join(parts[1:]).strip().strip("'")


def _facts(listing: _Listing) -> NetworkFacts:
    """Name everything, and say what was left out."""
    switches = told_apart(
        {d: switch_and_model(name)[0] if name else d for d, name in listing.names.items() if d[0] != "H"}
    )
    hosts, at, notes = _hosts(listing)
    cables = list(_cables(listing, switches | at))
    inside = {host: tuple(ports) for host, ports in hosts.items()}
    speeds = {end: cable.bandwidth for cable in cables for end in (cable.a, cable.b)}
    hosts_ports = {
        host: tuple(Port(port.name, speeds.get(f"{host}/{port.name}"), guid=port.guid) for port in ports)
        for host, ports in inside.items()
    }
    once = sum(listing.peers.get(b) != a for a, b in listing.peers.items())
    if once:
        absent = sum(device not in listing.headed for device in listing.names)
        part = f": {absent} devices have no block of their own, so this is part of a listing" if absent else ""
        notes.append(f"{once} of {len(listing.rates)} cables are listed from one end only{part}")
    unknown = sum(cable.bandwidth is None for cable in cables)
    if unknown:
        notes.append(f"{unknown} cables have no rate that is known")
    down = [cable for cable in cables if cable.expected is not None]
    if down:
        named = listed(f"{c.a} - {c.b} ({c.text})" for c in down)
        notes.append(f"{len(down)} cables are slower than others of their kind: {named}")
    return NetworkFacts(
        listing.file, FORMAT, tuple(sorted(switches.values(), key=natural)), hosts_ports, tuple(cables), tuple(notes)
    )


def _hosts(listing: _Listing) -> tuple[dict[str, list[Port]], dict[str, str], list[str]]:
    """Return host -> cards, device -> host/card, and notes."""
    cards = [device for device in listing.names if device[0] == "H" and not is_aggregation(listing.names[device])]
    aggregation = sum(device[0] == "H" for device in listing.names) - len(cards)
    notes = [f"{aggregation} aggregation nodes inside switches are no hosts"] if aggregation else []
    said = {device: host_and_card(listing.names[device]) for device in cards}
    nameless = [device for device, name in said.items() if name is None]
    if len(nameless) == len(cards) and cards:
        notes.append("no card names its host: each is taken to be a host of its own")
        said = {device: (f"host-{device[2:].lstrip('0')}", "HCA") for device in cards}
    elif nameless:
        texts = listed(sorted({listing.names[device] or device for device in nameless}), 2)
        notes.append(f"{len(nameless)} cards name no host ({texts}): left out")
    by_host: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for device, name in said.items():
        if name:
            by_host[name[0]].append((name[1], device))
    hosts: dict[str, list[Port]] = {}
    at: dict[str, str] = {}
    for host in sorted(by_host, key=natural):
        pairs = sorted(by_host[host], key=lambda pair: natural(pair[0]))
        apart = told_apart({device: card for card, device in pairs})
        if len({card for card, _ in pairs}) < len(pairs):
            notes.append(f"host {host} has {len(pairs)} cards, some of one name: several hosts may be called so")
        hosts[host] = [Port(card, guid=device[2:].lower().lstrip("0")) for device, card in apart.items()]
        at |= {device: f"{host}/{card}" for device, card in apart.items()}
    return hosts, at, notes


def _cables(listing: _Listing, called: dict[str, str]) -> Iterator[Cable]:
    """Return the cables between what was named, with what those have that trained down."""
    kinds = {device: _kind(listing, device) for device in listing.names}
    usual: dict[tuple[str, str], Counter[tuple[int, str]]] = defaultdict(Counter)
    for ((a, _), (b, _)), rate in listing.rates.items():
        usual[kinds[a], kinds[b]][rate] += 1
    most = {pair: port_rate(*rates.most_common(1)[0][0]) or 0.0 for pair, rates in usual.items()}
    for ((a, _), (b, _)), (width, speed) in listing.rates.items():  # a card, H-..., is less than a switch, S-...
        if a not in called or b not in called:
            continue
        data, best = port_rate(width, speed), max(most[kinds[a], kinds[b]], most.get((kinds[b], kinds[a]), 0.0))
        if width == 1 and data is not None:
            best = max(best, LANES * data)  # no port is sold with one lane
        yield Cable(called[a], called[b], data, f"{width}x{speed}", best if data is not None and data < best else None)


def _kind(listing: _Listing, device: str) -> str:
    """Return what makes one device like another: the model of a switch, the name of a card within its host."""
    text = listing.names[device]
    if device[0] != "H":
        return f"switch {switch_and_model(text)[1]}"
    name = host_and_card(text)
    return f"card {name[1] if name else text}"
