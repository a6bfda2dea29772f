"""Switches that are cabled to their like, as on a torus or a dragonfly: what their NICs send, and what leaves them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx as nx

Cables = list[tuple[str, str]]


def narrow(
    graph: "nx.DiGraph", level: Mapping[str, int], even: float
) -> Iterator[tuple[str, dict[str, tuple[Cables, float]]]]:
    """Yield "switch", and "group" where switches say theirs, with those whose NICs send more than leaves them.

    A switch of a group sends to the others of it by its cables to them; a group to other groups. What NICs send is no
    more than the NICs of those others take. Switches that have others above them are not looked at.

    Args:
        level: the tier of switches; those with NICs have 1.
        even: bytes/s of the NICs over those of the cables that are no finding.
    Yields:
        what, and by name: the cables that leave it, and its NICs' bytes/s over theirs.
    """
    lowest = [switch for switch, tier in level.items() if tier == 1]
    if any(level.get(head, 1) > 1 for switch in lowest for head in graph.successors(switch)):
        return
    group = {switch: f"group {graph.nodes[switch].get('group')}" for switch in lowest}
    yield "switch", _of(graph, {switch: switch for switch in lowest}, group, even)
    if len(set(group.values())) > 1:
        yield "group", _of(graph, group, dict.fromkeys(lowest, "all"), even)


def _of(
    graph: "nx.DiGraph", part: dict[str, str], within: dict[str, str], even: float
) -> dict[str, tuple[Cables, float]]:
    """Return the parts whose NICs send too much to the others of the same whole.

    Args:
        part, within: of each switch.
    """
    whole = {part[switch]: within[switch] for switch in part}
    sent, all_sent = dict.fromkeys(whole, 0.0), dict.fromkeys(whole.values(), 0.0)
    cables: dict[str, Cables] = {name: [] for name in whole}
    for tail, head, link in graph.edges(data=True):
        if head in part and graph.nodes[tail]["kind"] == "nic":
            sent[part[head]] += link["bandwidth"]
            all_sent[within[head]] += link["bandwidth"]
        if tail in part and head in part and part[tail] != part[head] and within[tail] == within[head]:
            cables[part[tail]].append((tail, head))
    found = {}
    for name, some in cables.items():
        left = sum(graph.edges[ends]["bandwidth"] for ends in some)
        most = min(sent[name], all_sent[whole[name]] - sent[name])
        if left and most > even * left:
            found[name] = some, most / left
    return found
