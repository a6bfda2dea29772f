"""Colour refinement over ranks, flows and links (1-dimensional Weisfeiler-Leman), and its exact check. Compiled.

A colour is a 64-bit hash. Refinement proposes a partition; `is_equitable` proves it, so that two colours that
happen to be equal cost a fold and never a wrong time.
"""

import numpy as np
import numpy.typing as npt

from sim.jit import compiled, inlined
from sim.state import Floats, Ints, Longs

Colours = npt.NDArray[np.uint64]


@inlined
def mixed(x: np.uint64) -> np.uint64:
    """Scramble 64 bits (splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def joined(a: np.uint64, b: np.uint64) -> np.uint64:
    """Make one colour of two, in this order."""
    return mixed(a * np.uint64(3) + b + np.uint64(0x9E3779B97F4A7C15))


@compiled
def add_colours(colours: Colours, more: Colours) -> None:
    """Refine colours by others, one by one."""
    for k in range(len(colours)):
        colours[k] = joined(colours[k], more[k])


@compiled
def refined(rank: Colours, link: Colours, dst: Ints, route: Ints, nature: Colours, pad: int) -> tuple[Colours, Colours]:
    """Colour ranks by the flows they send and receive, links by the flows they carry; once.

    Args:
        rank, link: [ranks], [links] colours so far.
        dst: [patterns, ranks]. route: [flows, hops]. nature: [flows] colours of what a flow is by itself.
    """
    patterns, ranks = dst.shape
    sent, received = np.zeros(ranks, np.uint64), np.zeros(ranks, np.uint64)
    carried = np.zeros(len(link), np.uint64)
    for pattern in range(patterns):
        for sender in range(ranks):
            receiver, flow = dst[pattern, sender], pattern * ranks + sender
            if receiver < 0:
                continue
            colour = joined(joined(joined(np.uint64(pattern), rank[sender]), rank[receiver]), nature[flow])
            for hop in range(route.shape[1]):
                if route[flow, hop] != pad:
                    colour = joined(colour, link[route[flow, hop]])
            sent[sender] += colour
            received[receiver] += mixed(colour)
            for hop in range(route.shape[1]):
                if route[flow, hop] != pad:
                    carried[route[flow, hop]] += colour
    new_rank, new_link = np.empty_like(rank), np.empty_like(link)
    for k in range(ranks):
        new_rank[k] = joined(joined(rank[k], sent[k]), received[k])
    for k in range(len(link)):
        new_link[k] = joined(link[k], carried[k])
    return new_rank, new_link


@compiled
def flows_by_link(dst: Ints, route: Ints, links: int) -> tuple[Longs, Longs]:
    """Return where each link's flows start, [links + 1], and the flows on each link."""
    start = np.zeros(links + 1, np.int64)
    flat = dst.ravel()
    for flow in range(len(route)):
        for hop in range(route.shape[1]):
            if flat[flow] >= 0 and route[flow, hop] < links:
                start[route[flow, hop] + 1] += 1
    start = np.cumsum(start)
    flows, filled = np.empty(start[-1], np.int64), start[:-1].copy()
    for flow in range(len(route)):
        for hop in range(route.shape[1]):
            if flat[flow] >= 0 and route[flow, hop] < links:
                flows[filled[route[flow, hop]]] = flow
                filled[route[flow, hop]] += 1
    return start, flows


@compiled
def flows_agree(
    dst: Ints,
    src: Ints,
    route: Ints,
    latency: Floats,
    claim: Longs,
    rank_class: Longs,
    member: Longs,
    link_class: Longs,
) -> bool:
    """Return whether each rank sends and receives as the member that stands for its class does."""
    patterns, ranks = dst.shape
    for pattern in range(patterns):
        for rank in range(ranks):
            model = member[rank_class[rank]]
            for ends in (dst, src):
                end, other = ends[pattern, rank], ends[pattern, model]
                if (end < 0) != (other < 0) or (end >= 0 and rank_class[end] != rank_class[other]):
                    return False
            if dst[pattern, rank] >= 0:
                flow, other = pattern * ranks + rank, pattern * ranks + model
                if latency[flow] != latency[other] or claim[flow] != claim[other]:
                    return False
                for hop in range(route.shape[1]):
                    if link_class[route[flow, hop]] != link_class[route[other, hop]]:
                        return False
    return True


@compiled
def links_agree(start: Longs, flows: Longs, flow_class: Longs, classes: int, link_class: Longs, member: Longs) -> bool:
    """Return whether each link carries as many flows of each class as the member that stands for its class."""
    count = np.zeros(classes, np.int64)
    for link in range(len(start) - 1):
        model = member[link_class[link]]
        for k in range(start[link], start[link + 1]):
            count[flow_class[flows[k]]] += 1
        for k in range(start[model], start[model + 1]):
            count[flow_class[flows[k]]] -= 1
        agree = True
        for one in (link, model):
            for k in range(start[one], start[one + 1]):
                agree = agree and count[flow_class[flows[k]]] == 0
                count[flow_class[flows[k]]] = 0
        if not agree:
            return False
    return True


@compiled
def multiplicities(start: Longs, flows: Longs, flow_class: Longs, member: Longs, route: Ints) -> Ints:
    """Return how many flows of its class each link of a folded flow's route carries, [flow classes, hops].

    Args:
        member: [link classes] the link that stands for each. route: [flow classes, hops] link classes.

    A class of links met twice on a route constrains once: there the second entry is 0.
    """
    weight, count = np.zeros(route.shape, np.int32), np.zeros(len(route), np.int32)
    for link in range(len(member)):
        begin, end = start[member[link]], start[member[link] + 1]
        for k in range(begin, end):
            count[flow_class[flows[k]]] += 1
        for k in range(begin, end):
            flow = flow_class[flows[k]]
            for hop in range(route.shape[1]):
                if count[flow] > 0 and route[flow, hop] == link:
                    weight[flow, hop] = count[flow]
                    count[flow] = 0
            count[flow] = 0
    return weight
