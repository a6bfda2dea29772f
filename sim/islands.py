"""Islands: GPUs that reach each other without a NIC, and the ports by which each of them leaves."""

from __future__ import annotations

from collections import defaultdict

import networkx as nx

from sim.network import Network

OUTSIDE = ("nic", "fabric")  # kinds of link that leave a machine


def islands(network: Network, graph: nx.DiGraph) -> list[list[int]]:
    """Return the ranks of each island, in order: a machine, a rack of one NVLink domain, a whole torus.

    Args:
        graph: the one that the network was made of.
    """
    inside = nx.Graph()
    inside.add_nodes_from(network.gpus)
    inside.add_edges_from((a, b) for a, b, kind in graph.edges(data="kind", default="link") if kind not in OUTSIDE)
    rank = {gpu: r for r, gpu in enumerate(network.gpus)}
    found = (sorted(rank[node] for node in part if node in rank) for part in nx.connected_components(inside))
    return sorted(part for part in found if part)


def ports(network: Network, parts: list[list[int]]) -> dict[int, list[int]]:
    """Return the places of the first island by the link by which they leave it: its ports, in order of ranks.

    Of each port those with the shortest way to it come first.

    Args:
        parts: of `islands`, at least two; each rank is sent to the one at its place in the next.
    """
    here, there = parts[0], parts[1]
    routes = network.route(here, [there[place % len(there)] for place in range(len(here))])
    by_port: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, route in enumerate(routes.tolist()):
        links = [link for link in route if link < network.pad]
        steps = next((k for k, link in enumerate(links) if network.kinds[link] in OUTSIDE), 0)
        by_port[links[steps]].append((steps, place))
    return {link: [place for _, place in sorted(some)] for link, some in by_port.items()}
