"""Folding: ranks that behave alike are simulated once. A rewrite from one frozen program to a smaller one.

Ranks, flows and links are coloured by all that distinguishes them, and the colours refined until each rank of a
colour sends to and receives from the same colours over the same colours of links, and each link of a colour
carries as many flows of each colour. On such an *equitable* partition all members of a class have one history,
because max-min rates are unique; so one member a class is kept, and a flow weighs as many as a link carries of
its class. Times are equal to the unfolded ones bit for bit, for every op and rank.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sim.program import Frozen
from sim.refine import Colours, add_colours, flows_agree, flows_by_link, links_agree, multiplicities, refined
from sim.rows import Row
from sim.state import Floats, Ints, Longs

ROUNDS = 160  # of refinement, at most: what takes more is a chain, and folds to little
PAYS = 0.5  # the share of the ranks that may be left


class Partition(NamedTuple):
    """Classes of things that behave alike, and a member that stands for each."""

    of: Longs  # [things] class
    member: Longs  # [classes] the first of the class


@dataclass(frozen=True)
class Folded:
    """A folded program, and the classes it was folded by."""

    frozen: Frozen
    ranks: Partition
    links: Partition


def fold(frozen: Frozen, share: float = PAYS) -> Folded | None:
    """Fold a program; None where more than `share` of the ranks would be left."""
    most = int(share * frozen.ranks)
    with np.errstate(over="ignore"):  # hashes wrap around; compiled they do so silently
        rank = _rank_colours(frozen, most)
        parts = None if rank is None else _refine(frozen, rank, most)
    if parts is None or not _is_equitable(frozen, *parts):
        return None
    return Folded(_quotient(frozen, *parts), *parts)


def _bits(values: Floats) -> Colours:
    """Return numbers as bits; -0 as 0."""
    return np.ascontiguousarray(values + 0.0, np.float64).view(np.uint64)


def _rank_colours(frozen: Frozen, most: int) -> Colours | None:
    """Colour ranks by their costs and bytes, row by row; None as soon as that tells more than `most` apart."""
    colours = np.zeros(frozen.ranks, np.uint64)
    differing = [row for row in frozen.rows if not row.is_shared]
    for k, row in enumerate(differing):
        add_colours(colours, _bits(row.at()))
        looked_at = k + 1
        time_to_look = looked_at & k == 0 or looked_at == len(differing)  # after 1, 2, 4, ... rows and after all
        if time_to_look and len(np.unique(colours)) > most:
            return None
    return colours


def _refine(frozen: Frozen, rank: Colours, most: int) -> tuple[Partition, Partition] | None:
    """Refine until no more classes appear; None where they are too many, or still come after many rounds."""
    plan, pad = frozen.bare, len(frozen.capacity) - 1
    link, nature, before = _bits(frozen.capacity[:-1]), _bits(plan.latency), (0, 0)
    add_colours(nature, plan.claim.view(np.uint64))
    for _ in range(ROUNDS):
        rank, link = refined(rank, link, plan.dst, plan.route, nature, pad)
        ranks, links = _partition(rank), _partition(link)
        now = len(ranks.member), len(links.member)
        if now[0] > most:
            return None
        if now == before:
            return ranks, links
        before = now
    return None


def _partition(colours: Colours) -> Partition:
    """Number the colours in the order in which they first appear."""
    _, first, of = np.unique(colours, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Partition(rank[of.reshape(-1)], first[order])


def _is_equitable(frozen: Frozen, ranks: Partition, links: Partition) -> bool:
    """Prove the partition, whatever the hashes: every thing behaves as the member that stands for its class."""
    plan = frozen.bare
    if not all(row.is_shared or _is_uniform(row, ranks) for row in frozen.rows):
        return False
    if (frozen.capacity[:-1] != frozen.capacity[links.member][links.of]).any():
        return False
    padded = np.append(links.of, len(links.member))
    flows = plan.dst, plan.src, plan.route, plan.latency, plan.claim
    if not flows_agree(*flows, ranks.of, ranks.member, padded):
        return False
    start, on_link = flows_by_link(plan.dst, plan.route, len(links.of))
    classes, count = _flow_classes(frozen, ranks)
    return links_agree(start, on_link, classes, count, links.of, links.member)


def _is_uniform(row: Row, ranks: Partition) -> bool:
    """Return whether all ranks of a class have one number."""
    return bool((row.at() == row.at(ranks.member)[ranks.of]).all())


def _flow_classes(frozen: Frozen, ranks: Partition) -> tuple[Longs, int]:
    """Return the class of each flow, pattern * classes + class of the sender, and how many there may be."""
    patterns, classes = len(frozen.bare.dst), len(ranks.member)
    return (np.arange(patterns)[:, None] * classes + ranks.of).reshape(-1), patterns * classes


def _quotient(frozen: Frozen, ranks: Partition, links: Partition) -> Frozen:
    """Keep one rank and one link a class."""
    plan, patterns = frozen.bare, len(frozen.bare.dst)
    kept = (np.arange(patterns)[:, None] * frozen.ranks + ranks.member).reshape(-1)
    padded = np.append(links.of, len(links.member))
    route = np.ascontiguousarray(padded[plan.route[kept]], np.int32)
    start, flows = flows_by_link(plan.dst, plan.route, len(links.of))
    classes, _ = _flow_classes(frozen, ranks)
    bare = plan._replace(
        dst=_ends(plan.dst, ranks),
        src=_ends(plan.src, ranks),
        route=route,
        weight=multiplicities(start, flows, classes, links.member, route),
        claim=plan.claim[kept],
        latency=plan.latency[kept],
    )
    rows = tuple(row if row.is_shared else Row(row.at(ranks.member)) for row in frozen.rows)
    capacity = np.append(frozen.capacity[links.member], np.inf)
    return replace(frozen, ranks=len(ranks.member), rows=rows, bare=bare, capacity=capacity)


def _ends(ends: Ints, ranks: Partition) -> Ints:
    """Return the class at the other end of the flows of each class, [patterns, classes], -1: none."""
    other = ends[:, ranks.member]
    return np.ascontiguousarray(np.where(other < 0, -1, ranks.of[other]), np.int32)
