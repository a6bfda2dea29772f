"""Whether what files count of NVLinks (or xGMI links) can be of one machine, and of its GPUs' model."""

from collections.abc import Mapping

from topologies.files.assembly.guess import Models, ports_of
from topologies.files.assembly.merge import Merged
from topologies.files.facts import Accelerator


def total(links: Mapping[tuple[int, int], int], gpu: int) -> int:
    """Return a GPU's links to all peers."""
    return sum(count for pair, count in links.items() if gpu in pair)


def enough_listed(merged: Merged) -> None:
    """Check that a GPU has not more links to one peer than a file lists of it: every link has a line, active or not.

    Raises:
        ValueError: it has.
    """
    facts = merged.facts
    for gpu in facts.gpus:
        most = max((count for pair, count in facts.links.items() if gpu.index in pair), default=0)
        if gpu.ports and most > len(gpu.ports):
            raise ValueError(_differ(merged, gpu, most, f"lists {len(gpu.ports)}"))


def of_one_machine(merged: Merged, up: Mapping[int, int] | None) -> None:
    """Check that not all GPUs have more links up than go into switches, nor fewer than go to their peers by cables.

    Args:
        up: GPU -> its links into switches; None where links are cables.
    Raises:
        ValueError: they have.
    """
    facts = merged.facts
    listed = [gpu for gpu in facts.gpus if gpu.ports]
    if not facts.links or not listed:
        return
    if up is not None and all((ports_of(gpu) or 0) > up[gpu.index] for gpu in listed):
        raise ValueError(_differ(merged, listed[0], up[listed[0].index], f"has {ports_of(listed[0])} up"))
    for gpu in listed if up is None else ():
        if total(facts.links, gpu.index) > len(gpu.ports or ()):
            raise ValueError(_differ(merged, gpu, total(facts.links, gpu.index), f"lists {len(gpu.ports or ())}"))


def _differ(merged: Merged, gpu: Accelerator, counted: int, other: str) -> str:
    """Say that two files are not of one machine."""
    of = f" of {gpu.model}" if gpu.model else ""
    kind = {"nvlink": "NVLinks", "xgmi": "xGMI links"}.get(merged.facts.link_kind, "links")
    return (
        f"{merged.who('links')} counts {counted} {kind} of GPU {gpu.index}, {merged.who('ports')} {other}{of}: "
        "they must be of one machine"
    )


def within_model(merged: Merged, models: Models) -> None:
    """Check that no GPU has more ports up than its model has links.

    Raises:
        ValueError: one has.
    """
    for gpu, model in zip(merged.facts.gpus, models.gpus, strict=True):
        up = ports_of(gpu) or 0
        if models.links_known and model.links and up > model.links:
            raise ValueError(
                f"{merged.who('ports')}: GPU {gpu.index} has {up} links up, {model.name} has {model.links}: say --gpu"
            )
