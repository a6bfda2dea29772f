"""`nvidia-smi topo -m`: how the GPUs and NICs of a machine meet; also `topo -p2p`, and tools that print the same table.

Words of the table (its own legend): NV# = # NVLinks; PIX, PXB, PHB, NODE, SYS = PCIe paths, nearest first. SOC is an
older word for SYS. Moore Threads' `mthreads-gmi topo -m` has words of its own for the same (its legend).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from topologies.files import nvlink_status
from topologies.files.facts import CLASSES, Accelerator, FileError, MachineFacts, Port
from topologies.files.text.matrix import Matrix, find
from topologies.files.text.paste import lines, quoted, several, some
from topologies.files.text.side_columns import numa_nodes

FORMAT = "nvidia-smi topo -m"

OTHER_WORDS = {"SOC": "SYS", "SPB": "PIX", "MPB": "PXB", "HPB": "PHB", "INT": "PIX"}
P2P = {"OK": True, "CNS": False, "GNS": False, "TNS": False, "NS": False, "DR": False, "U": None}

ENTRY = re.compile(rf"X|(?:NV|MT)[1-9]\d{{0,2}}|{'|'.join((*CLASSES, *OTHER_WORDS, *P2P))}")
LINKS = re.compile(r"(NV|MT)([1-9]\d{0,2})")
ROW = re.compile(rf"^[ \t>]{{0,200}}GPU\d{{1,4}}[ \t]+(?:{ENTRY.pattern})(?![^\s])", re.MULTILINE)
LEGEND = re.compile(r"(NIC\d{1,4})[ \t]*:[ \t]*([A-Za-z][\w.-]{0,62})(?!\S)")


def looks_like(text: str) -> bool:
    """Whether the text has a row of the table."""
    return ROW.search(text) is not None


def read(text: str, file: str) -> MachineFacts:
    """Return what the tables of one machine say; `nvidia-smi nvlink -s` or `-L` in the same paste is read with them.

    Raises:
        FileError: a table is cut, elided or not square, a word in it is not known, or there are two machines.
    """
    pasted = lines(text, file, FORMAT)
    tables = find(pasted, file, ENTRY)
    meeting = [table for table in tables if not _is_p2p(table)]
    peers = [table for table in tables if _is_p2p(table)]
    notes: list[str] = []
    for other in meeting[1:]:
        if not other.same(meeting[0]):
            wrong = f"a second, different table follows that of line {meeting[0].line}: save each machine as a file"
            raise FileError(file, wrong, other.line)
        notes.append(f"the table of line {meeting[0].line} stands again in line {other.line}")
    facts = _machine(meeting[0], _legend(pasted, file), file) if meeting else _gpus(peers, file)
    facts = replace(facts, notes=(*facts.notes, *notes))
    if peers:
        facts = _with_peers(facts, peers)
    if nvlink_status.looks_like(text):
        facts = _with_ports(facts, nvlink_status.read(text, file))
    return facts


def _is_p2p(table: Matrix) -> bool:
    """Whether a table says who may read whose memory."""
    return any(entry in P2P for _, _, entry in table.off_diagonal())


@dataclass
class _Meetings:
    """What the entries of a table say, in the words of MachineFacts; by the names that the table has."""

    links: dict[tuple[str, str], int] = field(default_factory=dict)
    near: dict[tuple[str, str], str] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    odd: list[str] = field(default_factory=list)


def _machine(table: Matrix, legend: Mapping[str, str], file: str) -> MachineFacts:
    """Return what a table of paths says."""
    said = _meetings(table, file)
    ports = [name for name in table.names if name not in table.gpus]
    called, notes = _called(table, ports, legend, file)
    nodes, mended = numa_nodes(table)
    foreign = any(word.startswith("MT") or word in ("SPB", "MPB", "HPB", "INT") for word in said.words)
    if any(word.startswith("MT") for word in said.words):
        notes.append("MT# (MTLinks) is counted like NV# (NVLinks)")
    mapped = sorted(said.words & set(OTHER_WORDS))
    if mapped:
        notes.append(f"taken as PCIe classes: {', '.join(f'{word} as {OTHER_WORDS[word]}' for word in mapped)}")
    if said.odd:
        notes.append(f"{some(said.odd)}: the worse of both directions is taken")
    gaps = sorted(set(range(max(map(_index, table.gpus)))) - {_index(gpu) for gpu in table.gpus})
    if gaps:
        notes.append(f"{several(f'GPU{i}' for i in gaps)} not shown")
    return MachineFacts(
        file,
        "mthreads-gmi topo -m" if foreign else FORMAT,
        gpus=tuple(Accelerator(_index(gpu), numa=nodes.get(gpu)) for gpu in table.gpus),
        nics=tuple(Port(called[name]) for name in ports),
        links={_pair(a, b): count for (a, b), count in said.links.items()},
        near={(called[a], called[b]): path for (a, b), path in said.near.items()},
        notes=(*notes, *mended),
    )


def _meetings(table: Matrix, file: str) -> _Meetings:
    """Return how the devices meet; where both directions of a pair differ, the worse."""
    said = _Meetings()
    columns = list(zip(*(table.rows[name].entries for name in table.names), strict=True))
    gpus = set(table.gpus)
    for i, (a, column) in enumerate(zip(table.names, columns, strict=True)):
        row = table.rows[a]
        _known(table, a, file)
        said.words.update(row.entries)
        for b, there, back in zip(table.names[:i], row.entries, column, strict=False):
            path = there
            if there != back:
                path = max(there, back, key=_cost) if _cost(there) and _cost(back) else there
                said.odd.append(f"{a} to {b} is {there}, {b} to {a} is {back}")
            count = LINKS.fullmatch(path)
            if not count:
                said.near[a, b] = said.near[b, a] = OTHER_WORDS.get(path, path)
            elif a in gpus and b in gpus:
                said.links[b, a] = int(count[2])
            else:
                raise FileError(file, f"row {a}, column {b}: {path}, but a NIC has no such links", row.line)
    return said


def _known(table: Matrix, name: str, file: str) -> None:
    """Refuse a row with a word that is none of the table's."""
    row = table.rows[name]
    at = table.names.index(name)
    if row.entries[at] != "X":
        raise FileError(file, f"row {name}, column {name}: {quoted(row.entries[at])}, expected X", row.line)
    for b, entry in zip(table.names, row.entries, strict=True):
        if (entry == "X") != (b == name) or entry in P2P or not ENTRY.fullmatch(entry):
            known = f"one of X, NV#, {', '.join(CLASSES)}"
            raise FileError(file, f"row {name}, column {b}: unknown class {quoted(entry)}, expected {known}", row.line)


def _cost(path: str) -> tuple[int, int]:
    """Return what orders paths: many links, few links, near, far."""
    count = LINKS.fullmatch(path)
    if count:
        return 1, -int(count[2])
    path = OTHER_WORDS.get(path, path)
    return (2, CLASSES.index(path)) if path in CLASSES else (3, 0)


def _called(table: Matrix, ports: list[str], legend: Mapping[str, str], file: str) -> tuple[dict[str, str], list[str]]:
    """Return name in the table -> name of the device, with the NICs as the legend calls them, and notes."""
    called = {gpu: f"gpu{_index(gpu)}" for gpu in table.gpus} | {name: legend.get(name, name) for name in ports}
    twice = [name for name in set(called.values()) if list(called.values()).count(name) > 1]
    if twice:
        raise FileError(file, f"two devices are called {quoted(min(twice))}", table.line)
    notes = []
    renamed = [name for name in ports if name in legend]
    numbered = [name for name in ports if re.fullmatch(r"NIC\d+", name) and name not in legend]
    if renamed:
        notes.append(
            f"{renamed[0]} .. {renamed[-1]} are called as the NIC legend has them: "
            f"{called[renamed[0]]} .. {called[renamed[-1]]}"
        )
    if numbered:
        notes.append(f"the NIC legend does not name {', '.join(numbered[:8])}{' ...' if len(numbered) > 8 else ''}")
    absent = [name for name in legend if name not in table.names]
    if absent:
        notes.append(f"{', '.join(absent[:8])} of the NIC legend has no column")
    return called, notes


def _legend(pasted: list[str], file: str) -> dict[str, str]:
    """Return NIC -> its name, from the lines that hold nothing else, one or several a line."""
    legend: dict[str, str] = {}
    for number, line in enumerate(pasted, 1):
        if "NIC" not in line or LEGEND.sub("", line).replace("NIC Legend:", "").strip():
            continue
        for nic, name in LEGEND.findall(line):
            if legend.setdefault(nic, name) != name:
                raise FileError(file, f"{nic} is {legend[nic]} before and {name} here", number)
    return legend


def _gpus(peers: list[Matrix], file: str) -> MachineFacts:
    """Return the GPUs of `topo -p2p` where it stands alone."""
    if not peers:
        raise FileError(file, "holds no table: paste the whole output of nvidia-smi topo -m")
    gpus = tuple(Accelerator(_index(gpu)) for gpu in peers[0].gpus)
    return MachineFacts(file, "nvidia-smi topo -p2p", gpus, notes=("only peer-to-peer access is said, no path",))


def _with_peers(facts: MachineFacts, peers: list[Matrix]) -> MachineFacts:
    """Add whether GPUs may read each other's memory over PCIe: where every pair that has no NVLink may."""
    names = {f"GPU{gpu.index}" for gpu in facts.gpus}
    said: dict[tuple[int, int], set[str]] = {}
    for table in peers:
        if set(table.names) != names:
            wrong = f"this table has {several(table.names)}, another one {several(names)}: save each machine as a file"
            raise FileError(facts.file, wrong, table.line)
        for name in table.names:
            _known_peers(table, name, facts.file)
        for a, b, entry in table.off_diagonal():
            if _pair(a, b) not in facts.links:
                said.setdefault(_pair(a, b), set()).add(entry)
    barred = {pair: words for pair, words in said.items() if any(P2P[word] is False for word in words)}
    unknown = any(P2P[word] is None for words in said.values() for word in words)
    if not said:
        note, allowed = "peer to peer: every pair of GPUs has NVLinks; nothing is said of PCIe", None
    elif barred:
        pairs = [f"GPU{a}-GPU{b} {'/'.join(sorted(words))}" for (a, b), words in sorted(barred.items())]
        note, allowed = f"no peer-to-peer access over PCIe ({some(pairs)})", False
        if len(barred) < len(said):
            note = f"{note}: taken as none, though {len(said) - len(barred)} of {len(said)} pairs may"
    elif unknown:
        note, allowed = "peer-to-peer access is shown as unknown (U)", None
    else:
        return replace(facts, peer_to_peer=True)
    return replace(facts, peer_to_peer=allowed, notes=(*facts.notes, note))


def _known_peers(table: Matrix, name: str, file: str) -> None:
    """Refuse a row of `topo -p2p` with a word that is none of its own."""
    row = table.rows[name]
    for b, entry in zip(table.names, row.entries, strict=True):
        if (entry != "X") if b == name else (entry not in P2P):
            known = "X" if b == name else f"one of {', '.join(P2P)}"
            raise FileError(file, f"row {name}, column {b}: {quoted(entry)}, expected {known}", row.line)


def _with_ports(facts: MachineFacts, status: MachineFacts) -> MachineFacts:
    """Add the models and ports that `nvidia-smi nvlink -s` says in the same paste."""
    said = {gpu.index: gpu for gpu in status.gpus}
    strangers = set(said) - {gpu.index for gpu in facts.gpus}
    if strangers:
        wrong = (
            f"{several(f'GPU{i}' for i in strangers)} of {status.format} is not in the table: save them as two files"
        )
        raise FileError(facts.file, wrong)
    gpus = tuple(
        replace(gpu, model=said[gpu.index].model, ports=said[gpu.index].ports) if gpu.index in said else gpu
        for gpu in facts.gpus
    )
    note = f"{status.format} in the same paste is read with it"
    notes = (*facts.notes, note, *status.notes)
    return replace(facts, gpus=gpus, link_bandwidth=status.link_bandwidth, notes=notes)


def _index(gpu: str) -> int:
    """Return the number of a GPU."""
    return int(gpu[3:])


def _pair(a: str, b: str) -> tuple[int, int]:
    """Return two GPUs as a key of MachineFacts.links."""
    i, j = sorted((_index(a), _index(b)))
    return i, j
