"""Several files of one machine as one: what each adds, and where they must agree."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from topologies.files.facts import Accelerator, MachineFacts, Port
from topologies.hardware import named


@dataclass
class Merged:
    """What all files together say of a machine.

    Attributes:
        name: of the first file, without its folder.
        facts: the whole; its file and format are the first's.
        said: part of it -> who says so, as in "topo.txt (nvidia-smi topo -m)"; the parts are gpus, models, links,
            ports, link_bandwidth, near, tree, nics, speeds and peer_to_peer, each if said at all.
        notes: of all files, one line each, as "file: note".
    """

    name: str
    facts: MachineFacts
    said: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def who(self, part: str) -> str:
        """Return who says a part, or else who says how many GPUs there are."""
        return self.said.get(part, self.said["gpus"])


def short(path: str) -> str:
    """Return a file's name without its folder, printable."""
    name = PurePath(path).name or path
    return "".join(c if c.isprintable() else "?" for c in name)[:80]


def merge(files: Sequence[MachineFacts]) -> Merged:
    """Return files of one machine as one.

    Raises:
        ValueError: two of them cannot be of one machine: another number of GPUs, other links, or other GPUs.
    """
    whole = [one for one in files if not _is_status(one)]
    base = whole[0] if whole else _all_status(files)
    merged = Merged(short(base.file), base, {"gpus": _who(base)})
    merged.notes = [f"{short(one.file)}: {note}" for one in files for note in one.notes]
    for one in whole[1:]:
        if len(one.gpus) != len(base.gpus):
            raise ValueError(f"{base.file} has {len(base.gpus)} GPUs, {one.file} {len(one.gpus)}: they must agree")
    gpus = base.gpus
    for one in files:
        gpus = _with_gpus(gpus, one, merged, exact=one in whole or not whole)
    linked = [one for one in files if one.links]
    for one in linked[1:]:
        _same_links(linked[0], one)
    changes: dict[str, object] = {"gpus": gpus}
    if linked:
        merged.said["links"] = _who(linked[0])
        changes |= {"links": linked[0].links, "link_kind": linked[0].link_kind}
    home = next((one for one in files if one.tree is not None), None)
    home = home or next((one for one in files if one.near and one.nics), None)
    for part in ("switched", "link_bandwidth", "peer_to_peer", "cpu", "near", "tree"):
        having = [one for one in files if getattr(one, part) not in (None, {})]
        first = home if home in having and part in ("near", "tree") else having[0] if having else None
        if first is not None:
            merged.said[part] = _who(first)
            changes[part] = getattr(first, part)
    changes["nics"] = _nics(files, merged)
    merged.facts = replace(base, **changes)  # type: ignore[arg-type]
    return merged


def _who(one: MachineFacts) -> str:
    """Say which file, and what it is."""
    return f"{short(one.file)} ({one.format})"


def _is_status(one: MachineFacts) -> bool:
    """Tell whether a file says something of GPUs one by one: it may list only some."""
    return not one.links and not one.near and one.tree is None and any(gpu.ports for gpu in one.gpus)


def _all_status(files: Sequence[MachineFacts]) -> MachineFacts:
    """Return several such files as one, with the GPUs of all."""
    gpus = {gpu.index: gpu for one in reversed(files) for gpu in one.gpus}
    return replace(files[0], gpus=tuple(gpus[index] for index in sorted(gpus)))


def _with_gpus(
    gpus: tuple[Accelerator, ...], one: MachineFacts, merged: Merged, exact: bool
) -> tuple[Accelerator, ...]:
    """Add to GPUs what a file says of them; what was said before stays."""
    if exact and len(one.gpus) == len(gpus):
        said = {mine.index: its for mine, its in zip(gpus, one.gpus, strict=True)}
    else:
        said = {gpu.index: gpu for gpu in one.gpus}
    strange = sorted(set(said) - {gpu.index for gpu in gpus})
    if strange:
        there = f"{gpus[0].index} to {gpus[-1].index}" if len(gpus) > 1 else str(gpus[0].index)
        raise ValueError(f"{one.file} lists GPU {strange[0]}, {merged.facts.file} has GPU {there}: they must agree")
    for part, attribute in (("models", "model"), ("ports", "ports")):
        if any(getattr(gpu, attribute) for gpu in one.gpus):
            merged.said.setdefault(part, _who(one))
    added = []
    for gpu in gpus:
        its = said.get(gpu.index, gpu)
        mine, other = named(gpu.model or ""), named(its.model or "")
        if mine and other and mine != other:
            raise ValueError(
                f"{merged.who('models')} calls GPU {gpu.index} {gpu.model}, {one.file} {its.model}: they must agree"
            )
        parts = {key: getattr(gpu, key) if getattr(gpu, key) is not None else getattr(its, key) for key in _GPU_PARTS}
        added.append(replace(gpu, **parts))
    return tuple(added)


_GPU_PARTS = ("model", "bus", "numa", "ports")


def _same_links(a: MachineFacts, b: MachineFacts) -> None:
    """Check that two files count the same links between GPUs, by place."""
    first, second = (_by_place(one) for one in (a, b))
    for pair in sorted(first.keys() | second.keys()):
        if first.get(pair, 0) != second.get(pair, 0):
            raise ValueError(
                f"{a.file} has {first.get(pair, 0)} links between GPUs {pair[0]} and {pair[1]}, "
                f"{b.file} {second.get(pair, 0)}: they must agree"
            )


def _by_place(one: MachineFacts) -> dict[tuple[int, int], int]:
    """Return the links by the places of GPUs in the file, which count from 0."""
    place = {gpu.index: i for i, gpu in enumerate(one.gpus)}
    pairs = {(min(a, b), max(a, b)): n for (a, b), n in one.links.items()}
    return {(place[a], place[b]): n for (a, b), n in pairs.items()}


def _nics(files: Sequence[MachineFacts], merged: Merged) -> tuple[Port, ...]:
    """Return the NICs of the file that says where they are; speeds by name from any."""
    having = [one for one in files if one.nics]
    if not having:
        return ()
    home = next((one for one in having if one.tree is not None), None)
    home = home or next((one for one in having if one.near), having[0])
    merged.said["nics"] = _who(home)
    speeds = {nic.name: (nic.bandwidth, one) for one in reversed(having) for nic in one.nics if nic.bandwidth}
    for nic in home.nics:
        if nic.name in speeds:
            merged.said.setdefault("speeds", _who(speeds[nic.name][1]))
    return tuple(replace(nic, bandwidth=nic.bandwidth or speeds.get(nic.name, (None,))[0]) for nic in home.nics)
