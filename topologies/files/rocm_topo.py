"""`rocm-smi --showtopo` and its parts (`--showtoponuma`, `--showtopoaccess`): how the AMD GPUs of a machine meet.

Hops: 1 = over xGMI, directly or not; 2 = PCIe through the CPU of both; 3 = PCIe through two CPUs. Weight: 15 a hop of
xGMI, 20 a segment of PCIe, so that 15 is a direct xGMI link and 40 two GPUs of one CPU. Sources: AMD, system
optimization of the MI200 (https://instinct.docs.amd.com/projects/amdgpu-docs/en/latest/system-optimization/mi200.html),
https://github.com/ROCm/rocm-systems/issues/5763, https://github.com/ROCm/rocm-systems/pull/7372.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from topologies.files.facts import Accelerator, FileError, MachineFacts
from topologies.files.text.matrix import Matrix, find
from topologies.files.text.paste import lines, quoted, several, some

FORMAT = "rocm-smi --showtopo"

DIRECT = 15  # weight of one hop of xGMI
ONE_CPU = 40  # weight of two segments of PCIe

TITLES = {
    "weight between two gpus": "weight",
    "hops between two gpus": "hops",
    "link type between two gpus": "type",
    "link accessibility between two gpus": "access",
}
ENTRIES = {
    "weight": re.compile(r"[1-9]\d{0,5}|N/A"),
    "hops": re.compile(r"[1-9]\d{0,3}|N/A"),
    "type": re.compile(r"XGMI|PCIE|N/A"),
    "access": re.compile(r"True|False"),
}
EXPECTED = {
    "weight": "a number above 0",
    "hops": "a number above 0",
    "type": "XGMI or PCIE",
    "access": "True or False",
}
OWN = re.compile(r"0")
ENTRY = re.compile(r"\d{1,9}|XGMI|PCIE|True|False|N/A|None|XXXX|UNKNOWN")
NUMA = re.compile(
    r"[ \t]*GPU ?\[?(\d{1,4})\]?[ \t]*:[ \t]*\(Topology\) Numa (Node|Affinity):[ \t]*(\d{1,4}|-1|N/A|None)"
)
NUMA_LINE = "`GPU[0] : (Topology) Numa Node: 0`"
SERIES = re.compile(r"[ \t]*GPU ?\[?(\d{1,4})\]?[ \t]*:[ \t]*Card [Ss]eries:[ \t]*(\S.*)")
MARK = re.compile(
    r"(?:Weight|Hops|Link Type|Link accessibility) between two GPUs|\(Topology\) Numa |ROCm System Management"
)


@dataclass
class _Said:
    """What the blocks say: tables by kind, NUMA node and affinity by GPU, models, and notes."""

    tables: dict[str, Matrix] = field(default_factory=dict)
    numa: dict[tuple[int, str], int | None] = field(default_factory=dict)
    numa_line: int | None = None  # the last
    models: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Whether the text has a heading or a NUMA line of rocm-smi."""
    return MARK.search(text) is not None


def read(text: str, file: str) -> MachineFacts:
    """Return what the blocks of one machine say; a block that is missing leaves open what it alone would say.

    Raises:
        FileError: a table is cut, elided or not square, a word in it is not known, or there are two machines.
    """
    said = _said(lines(text, file, FORMAT), file)
    gpus = _gpus(said, file)
    links, near = _paths(said)
    return MachineFacts(
        file,
        FORMAT if said.tables else "rocm-smi --showtoponuma",
        gpus=tuple(Accelerator(i, said.models.get(i), numa=node) for i, node in gpus.items()),
        links=links,
        link_kind="xgmi",
        near=near,
        peer_to_peer=_access(said),
        notes=tuple(said.notes),
    )


def _said(pasted: list[str], file: str) -> _Said:
    """Return the blocks, each of them checked."""
    said = _Said()
    headings = {number: line.strip(" \t=").lower() for number, line in enumerate(pasted, 1) if "==" in line}
    for table in find(pasted, file, ENTRY):
        heading = headings.get(max((n for n in headings if n < table.line), default=0), "")
        kind = TITLES.get(heading)
        if kind is None:
            wrong = f"a table under the heading {quoted(heading)}, expected one of {', '.join(TITLES)}"
            raise FileError(file, wrong, table.line)
        _known(table, kind, file)
        if not said.tables.setdefault(kind, table).same(table):
            wrong = f"a second, different table of {kind} follows that of line {said.tables[kind].line}"
            raise FileError(file, f"{wrong}: save each machine as a file", table.line)
        if set(table.names) != set(next(iter(said.tables.values())).names):
            raise FileError(file, f"the table of {kind} has other GPUs than the one before", table.line)
    _headed(said, headings, file)
    for number, line in enumerate(pasted, 1):
        if "(Topology)" in line:
            _numa(said, line, number, file)
        elif "eries:" in line and (series := SERIES.fullmatch(line)):
            said.models[int(series[1])] = "".join(filter(str.isprintable, series[2]))[:80].strip()
    return said


def _headed(said: _Said, headings: Mapping[int, str], file: str) -> None:
    """Refuse a heading of a table with no table under it."""
    for number, heading in headings.items():
        if TITLES.get(heading, "") not in ("", *said.tables):
            raise FileError(file, f"no table under this heading ({heading}): paste the whole output", number)


def _known(table: Matrix, kind: str, file: str) -> None:
    """Refuse an entry that a table of this kind does not have; a GPU and itself have 0."""
    for a in table.names:
        row = table.rows[a]
        for b, entry in zip(table.names, row.entries, strict=True):
            pattern = OWN if a == b and kind != "access" else ENTRIES[kind]
            if not pattern.fullmatch(entry):
                expected = "0" if pattern is OWN else EXPECTED[kind]
                wrong = f"row {a}, column {b} of the table of {kind}: {quoted(entry)}, expected {expected}"
                raise FileError(file, wrong, row.line)


def _numa(said: _Said, line: str, number: int, file: str) -> None:
    """Add what a NUMA line says."""
    found = NUMA.fullmatch(line)
    if not found:
        raise FileError(file, f"{quoted(line.strip())}, expected a line such as {NUMA_LINE}", number)
    said.numa_line = number
    node = int(found[3]) if found[3].isdigit() else None
    if said.numa.setdefault((int(found[1]), found[2]), node) != node:
        wrong = f"Numa {found[2]} of GPU {found[1]} stands twice and differs: save each machine as a file"
        raise FileError(file, wrong, number)


def _gpus(said: _Said, file: str) -> dict[int, int | None]:
    """Return GPU -> NUMA node of its CPU."""
    shown = {int(name[3:]) for table in said.tables.values() for name in table.names}
    listed = {gpu for gpu, _ in said.numa}
    if not shown and not listed:
        raise FileError(file, "holds no table and no NUMA line: paste the whole output of rocm-smi --showtopo")
    if shown and listed and shown != listed:
        lack = "NUMA lines" if shown - listed else "rows"
        wrong = f"the {lack} of {several(f'GPU{i}' for i in shown - listed or listed - shown)} are missing"
        raise FileError(file, f"{wrong}: paste the whole output", said.numa_line)
    gpus = sorted(shown | listed)
    nodes = {gpu: said.numa.get((gpu, "Affinity"), said.numa.get((gpu, "Node"))) for gpu in gpus}
    odd = [gpu for gpu in gpus if said.numa.get((gpu, "Node"), nodes[gpu]) != nodes[gpu]]
    none = [gpu for gpu in gpus if nodes[gpu] is None]
    gaps = [f"GPU{i}" for i in range(gpus[-1]) if i not in nodes]
    if odd:
        said.notes.append(f"Numa Node and Affinity of {several(f'GPU{i}' for i in odd)} differ: the affinity is taken")
    if none:
        said.notes.append(f"no NUMA node is given for {several(f'GPU{i}' for i in none)}")
    if gaps:
        said.notes.append(f"{several(gaps)} not shown")
    return nodes


def _paths(said: _Said) -> tuple[dict[tuple[int, int], int], dict[tuple[str, str], str]]:
    """Return the pairs that an xGMI link joins, one link each, and how the pairs on PCIe meet."""
    missing = [kind for kind in ("weight", "hops", "type") if kind not in said.tables]
    if len(missing) == 3:
        said.notes.append("no table of weight, hops or type: how the GPUs meet is not said")
        return {}, {}
    if missing:
        said.notes.append(f"no table of {' or '.join(missing)}: taken from the others, weight 15 as xGMI, 40 as PCIe")
    entries: dict[str, dict[tuple[str, str], str]] = {
        kind: _entries(said, kind) for kind in ("weight", "hops", "type") if kind in said.tables
    }
    links: dict[tuple[int, int], int] = {}
    near: dict[tuple[str, str], str] = {}
    relayed: list[str] = []
    unknown: list[str] = []
    for pair in next(iter(entries.values())):
        weight, hops = (_number(entries, kind, pair) for kind in ("weight", "hops"))
        a, b = int(pair[0][3:]), int(pair[1][3:])
        kind = entries["type"][pair] if "type" in entries else _kind(weight, hops)
        across = hops > 2 if hops else None if weight is None else weight > ONE_CPU
        if kind == "XGMI" and (weight is None or weight <= DIRECT):
            links[min(a, b), max(a, b)] = 1
        elif kind == "XGMI":
            relayed.append(f"GPU{a}-GPU{b} of weight {weight}")
        elif kind == "PCIE" and across is not None:
            near[f"gpu{a}", f"gpu{b}"] = near[f"gpu{b}", f"gpu{a}"] = "SYS" if across else "PHB"
        elif kind != "PCIE":
            unknown.append(f"{pair[0]}-{pair[1]}")
    if links:
        said.notes.append("how many xGMI links join a pair is not said: 1 is counted; nor is their rate")
        if "weight" not in entries:
            said.notes.append("which xGMI pairs are joined directly is not said: all are taken so")
    if relayed:
        said.notes.append(f"xGMI through other GPUs, no link of their own: {some(relayed)}")
    if near:
        said.notes.append("PCIe pairs: 2 hops are taken as PHB, 3 as SYS; PCIe switches are not shown")
    if unknown:
        said.notes.append(f"nothing is said of {some(unknown)}")
    return links, near


def _entries(said: _Said, kind: str) -> dict[tuple[str, str], str]:
    """Return pair of GPUs -> entry; where both directions differ, the worse, with a note."""
    table = said.tables[kind]
    entries: dict[tuple[str, str], str] = {}
    odd: list[str] = []
    for a, b, entry in table.off_diagonal():
        back = entries.get((b, a))
        if back is None:
            entries[a, b] = entry
        elif back != entry:
            entries[b, a] = max(back, entry, key=_cost)
            odd.append(f"{kind} of {b} to {a} is {back}, of {a} to {b} {entry}")
    if odd:
        said.notes.append(f"{some(odd)}: the worse of both directions is taken")
    return entries


def _cost(entry: str) -> tuple[int, int]:
    """Return what orders entries: numbers, then xGMI, PCIe, unknown."""
    return (0, int(entry)) if entry.isdigit() else (("XGMI", "PCIE", "N/A").index(entry) + 1, 0)


def _number(entries: Mapping[str, Mapping[tuple[str, str], str]], kind: str, pair: tuple[str, str]) -> int | None:
    """Return the weight or the hops of a pair, None where they are not said."""
    entry = entries.get(kind, {}).get(pair, "")
    return int(entry) if entry.isdigit() else None


def _kind(weight: int | None, hops: int | None) -> str | None:
    """Return the type of link where no table says it."""
    if hops is not None:
        return "XGMI" if hops == 1 else "PCIE"
    if weight is None:
        return None
    return "XGMI" if weight in (DIRECT, 2 * DIRECT) else "PCIE" if weight >= ONE_CPU else None


def _access(said: _Said) -> bool | None:
    """Return whether all GPUs may read each other's memory, None where it is not said."""
    if "access" not in said.tables:
        return None
    barred = [f"{a}-{b}" for a, b, entry in said.tables["access"].off_diagonal() if entry == "False"]
    if barred:
        said.notes.append(f"no peer-to-peer access: {some(barred)}")
    return not barred
