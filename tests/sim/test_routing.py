"""Routing: ECMP takes shortest paths, by seed; the ideal split is what no single path beats."""

import subprocess
import sys
from functools import partial
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim.engine import run
from sim.network import Network
from sim.program import Program, freeze
from sim.routing import Routing, parse
from sim.simulate import Site, simulate
from sim.traffic import link_bytes
from sim.twins import classes, merged
from tests.sim.bundles import Bundle, sends
from tests.sim.graphs import MiB, cable, gpus, one_send, us
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics.fat_tree import fat_tree
from topologies.nvl72 import gb200_nvl72
from topologies.units import GB

ECMP = [Routing("ecmp", seed) for seed in range(8)]
TWO_TIERS = dgx_h100(4, partial(fat_tree, leaf=8, oversubscription=2))  # 4 leaves under 4 spines
POD_TREE = dgx_h100(4, partial(fat_tree, ports=8, leaf=4, oversubscription=2, tiers=3))  # 2 pods of 4 leaves, 2 spines
TREES = [TWO_TIERS, POD_TREE, dgx_a100(5, partial(fat_tree, leaf=6, spines=3)), gb200_nvl72(2, fat_tree)]


def nodes(network, source, destination):
    """The nodes on a route."""
    (row,) = network.route([source], [destination])
    links = [network.links[link] for link in row if link != network.pad]
    return [links[0][0], *(head for _, head in links)]


def everyone(network):
    return np.divmod(np.arange(network.ranks**2), network.ranks)


def shortest(graph, source, destination):
    """All paths of least latency, and then of fewest hops, that pass through no third GPU."""
    usable = [n for n, kind in graph.nodes(data="kind") if kind != "gpu" or n in (source, destination)]

    def picoseconds(tail, head, link):
        return 1000 * round(link["latency"] * 1e12) + 1

    return list(nx.all_shortest_paths(graph.subgraph(usable), source, destination, weight=picoseconds))


@pytest.mark.parametrize("graph", TREES, ids=str)
def test_over_seeds_a_pair_takes_each_of_its_shortest_paths_and_no_other(graph):
    network = Network(graph)
    for source, destination in [(0, network.ranks - 1), (network.ranks - 2, 1), (0, 1), (0, 9)]:
        paths = shortest(graph, network.gpus[source], network.gpus[destination])
        nics = {graph.nodes[network.gpus[end]]["nic"] for end in (source, destination)}
        own = [path for path in paths if len(nics & set(path)) == max(len(nics & set(other)) for other in paths)]
        seen = set()
        for seed in range(200):
            other = network.routed(Routing("ecmp", seed))
            seen.add(tuple(nodes(other, source, destination)))
            assert other.choices[1] == len(own)
        assert seen == set(map(tuple, own))


def test_the_number_of_equal_paths_is_the_trees():
    for graph, paths in ((TWO_TIERS, 4), (POD_TREE, 2 * 4)):
        network = Network(graph)
        network.route(*everyone(network))
        assert network.choices[1] == paths


def test_the_hash_spreads_pairs_evenly():
    network = Network(TWO_TIERS)
    routes = network.route(*everyone(network))
    up = [network.link(f"leaf{leaf}", f"spine{spine}") for leaf in range(4) for spine in range(4)]
    crossing = np.array([(routes == link).sum() for link in up])
    assert crossing.sum() == 32 * 24  # every pair but those of one leaf
    assert abs(crossing - crossing.mean()).max() < 5 * np.sqrt(crossing.mean())


def test_the_same_seed_is_the_same_routes_in_another_process_too():
    code = (
        "from tests.sim.test_routing import *;"
        "n = Network(TWO_TIERS, routing=ECMP[3]); print(n.route(*everyone(n)).tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    tables = [n.route(*everyone(n)).tobytes() for n in (Network(TWO_TIERS, routing=r) for r in (*ECMP[3:5], ECMP[3]))]
    assert tables[0] == tables[2]
    assert tables[0].hex() == done.stdout.strip()
    assert tables[0] != tables[1]


def test_a_pair_is_hashed_by_its_gpus_wherever_ranks_are_placed():
    placement = np.random.default_rng(0).permutation(32).tolist()
    by_rank, shuffled = Network(TWO_TIERS), Network(TWO_TIERS, placement)
    for a, b in ((0, 31), (5, 17)):
        assert nodes(shuffled, placement.index(a), placement.index(b)) == nodes(by_rank, a, b)


def test_a_fabric_without_equal_paths_has_nothing_to_hash():
    plain, hashed = (Network(dgx_h100(3), routing=routing) for routing in (Routing(), Routing("ecmp")))
    assert (plain.route(*everyone(plain)) == hashed.route(*everyone(hashed))).all()
    assert hashed.choices == (0, 1)


def test_a_tree_is_hashed_unless_said_otherwise_and_static_takes_the_first():
    assert str(Site(TWO_TIERS).routing) == "ecmp:seed=1"
    assert str(Site(dgx_h100(2)).routing) == "static"
    static = Network(TWO_TIERS, routing=Routing())
    used = {link for row in static.route(*everyone(static)) for link in row if link != static.pad}
    assert {head for _, head in map(static.links.__getitem__, used) if head.startswith("spine")} == {"spine0"}


def permuted(graph, order, nbytes=MiB):
    """One message from every rank to another, and the seconds that each link would take on its own."""
    program = Program(len(order))
    program.permute(np.array(order), nbytes)
    return program, lambda network: link_bytes(freeze(program, network)) / network.capacity[:-1]


@given(st.permutations(range(32)), st.sampled_from(ECMP))
def test_no_hash_beats_the_ideal_at_its_hottest_link(order, routing):
    _, loads = permuted(TWO_TIERS, order)
    assert loads(Network(TWO_TIERS, routing=routing)).max() >= loads(Network(merged(TWO_TIERS))).max() * (1 - 1e-12)


@pytest.mark.parametrize("graph", [TWO_TIERS, POD_TREE], ids=str)
@pytest.mark.parametrize(
    "name, axes", [("ring", {"ring": 32}), ("attention2d", {"row": 4, "col": 8}), ("ulysses", {"ulysses": 32})]
)
def test_no_seed_is_faster_than_the_ideal_and_static_is_slowest(name, axes, graph):
    schedule = find(name)["prefill"](Attention(32, 32, 128, 32 << 12, 32 << 12), Mesh(**axes))
    times = [simulate(schedule, graph, routing=routing).makespan for routing in ECMP]
    ideal, static = (simulate(schedule, graph, routing=Routing(name)).makespan for name in ("ideal", "static"))
    assert ideal * (1 - 1e-9) <= min(times) <= max(times) <= static * (1 + 1e-9)
    if name != "ring":
        assert len(set(times)) > 1


def spines(graph, count):
    """The same machines on a tree of fewer, faster spines."""
    chosen = {"leaf": 8} if graph is TWO_TIERS else {"ports": 8, "leaf": 4, "tiers": 3}
    return dgx_h100(4, partial(fat_tree, oversubscription=2, spines=count, **chosen))


@pytest.mark.parametrize("graph", [TWO_TIERS, POD_TREE], ids=str)
def test_the_ideal_is_one_spine_as_fast_as_all(graph):
    schedule = find("attention2d")["prefill"](Attention(32, 32, 128, 32 << 12, 32 << 12), Mesh(row=4, col=8))
    many, one = (simulate(schedule, g, routing=Routing("ideal")) for g in (graph, spines(graph, 1)))
    assert (many.start == one.start).all()
    assert (many.end == one.end).all()


@given(st.permutations(range(32)), st.data())
def test_the_ideal_is_a_message_in_equal_parts_over_all_its_paths(order, data):
    # an oracle: each message as so many flows, one a path, whose weights make up one flow's
    graph = data.draw(st.sampled_from([TWO_TIERS, POD_TREE]))
    network = Network(graph)
    pairs = [(s, d) for s, d in enumerate(order) if s != d][: data.draw(st.integers(1, 12))] or [(0, 31)]
    routes, sizes, weights, owner = [], [], [], []
    for k, (s, d) in enumerate(pairs):
        paths = shortest(graph, network.gpus[s], network.gpus[d])
        for path in paths:
            routes.append([network.link(*hop) for hop in pairwise(path)])
            sizes.append(8 * MiB // len(paths))
            weights.append(8 // len(paths))
            owner.append(k)
    bundle = Bundle(network.capacity[:-1], routes, network.latency[:-1])
    parts = run(freeze(sends(sizes, weights=weights), bundle)).end[-1][::2]

    whole = Network(merged(graph))
    program = Program(32)
    dst = np.full(32, -1)
    dst[[s for s, _ in pairs]] = [d for _, d in pairs]
    program.permute(dst, 8 * MiB)
    frozen = freeze(program, whole)
    spans = run(frozen)
    last = [max(part for part, of in zip(parts, owner, strict=True) if of == k) for k in range(len(pairs))]
    ends = {s: spans.end[0, s] for s, _ in pairs}
    received = {d: last[k] for k, (_, d) in enumerate(pairs)}
    for k, (s, _) in enumerate(pairs):  # a rank is done when its own send and its own receive are
        assert ends[s] == pytest.approx(max(last[k], received.get(s, 0.0)), rel=1e-9)


def carried(graph):
    """The bytes/s from the first half of the NICs to the second, by max-flow."""
    graph, nics = graph.copy(), [node for node, kind in graph.nodes(data="kind") if kind == "nic"]
    half = len(nics) // 2
    graph.add_edges_from([("all", nic) for nic in nics[:half]] + [(nic, "none") for nic in nics[half:]])
    return nx.maximum_flow_value(graph, "all", "none", capacity="bandwidth")


@pytest.mark.parametrize("graph", TREES, ids=str)
def test_merging_twins_keeps_what_can_be_carried(graph):
    whole = merged(graph)
    assert carried(whole) == pytest.approx(carried(graph))
    assert len(merged(whole)) == len(whole) < len(graph)


def test_twins_are_told_apart_by_what_they_are_cabled_to_and_by_how_fast():
    def of(graph):
        number = dict(zip(graph, classes(graph), strict=True))
        return [
            len({number[n] for n in graph if str(n).rpartition("/")[2].startswith(k)})
            for k in ("leaf", "spine", "core")
        ]

    assert of(TWO_TIERS) == [4, 1, 0]
    assert of(POD_TREE) == [8, 2, 1]
    slow = POD_TREE.copy()
    slow.edges["pod0/spine1", "core1.0"]["bandwidth"] /= 2
    assert of(slow) == [8, 4, 3]  # spine 1 is another one now, in pod 0; so are the cores above it, and the pods' rest
    assert classes(dgx_h100(3)) == list(range(len(dgx_h100(3))))


def two_planes(first, second):
    """Two GPUs, each on a leaf of its own, under two spines."""
    graph = gpus(2, "planes")
    for k, rate in ((0, first), (1, second)):
        graph.add_nodes_from((f"leaf{k}", f"spine{k}"), kind="switch")
        for gpu in range(2):
            graph.add_node(f"leaf{gpu}", kind="switch")
            cable(graph, f"leaf{gpu}", f"spine{k}", rate, 1 * us)
    for gpu in range(2):
        cable(graph, f"gpu{gpu}", f"leaf{gpu}", 100 * GB, 1 * us)
    return graph


def test_equal_paths_of_unequal_links_are_not_split():
    assert Network(merged(two_planes(GB, GB)), routing=Routing("ideal")).capacity.min() == 2 * GB
    with pytest.raises(ValueError, match=r"ideal needs equal paths to be of equal links: .* rank 0 .* rank 1"):
        Network(merged(two_planes(GB, 2 * GB)), routing=Routing("ideal")).route([0], [1])


def test_repeats_take_one_seed_after_the_other():
    site = Site(TWO_TIERS, routing=Routing("ecmp", 5))
    assert site.repeat(0) is site
    assert [site.repeat(k).network.routing.seed for k in (1, 2)] == [6, 7]
    assert site.repeat(2).network.links is site.network.links
    assert Site(dgx_h100(2)).repeat(3).routing == Routing()


def test_a_detour_is_hashed_among_what_is_left():
    from sim.conditions import Conditions
    from sim.faults import parse as fault
    from sim.outages import Outages

    program = Program(32)
    program.permute(one_send(32, 0, 31), MiB)
    network = Network(TWO_TIERS)
    leaf, spine = nodes(network, 0, 31)[2:4]
    conditions = Conditions([fault("down", f"link:{leaf}-{spine}")], TWO_TIERS, network)
    outages = Outages(freeze(program, network), conditions)
    links = [network.links[k] for k in outages.frozen.bare.route[0] if k != network.pad]
    assert len(links) == 6
    assert spine not in {head for _, head in links}


@pytest.mark.parametrize(
    "text, routing",
    [
        ("static", Routing()),
        ("ideal", Routing("ideal")),
        ("ecmp", Routing("ecmp", 1)),
        (" ecmp : seed = 7 ", Routing("ecmp", 7)),
    ],
)
def test_a_routing_is_read_as_it_is_typed(text, routing):
    assert parse(text) == routing


@pytest.mark.parametrize(
    "text",
    ["", "ecm", "ECMP", "ecmp:", "ecmp:7", "ecmp:seed=-1", "ecmp:seed=x", "ideal:seed=1", "ecmp:seed=" + "9" * 30],
)
def test_a_bad_routing_is_one_line(text):
    with pytest.raises(ValueError, match="routing") as refusal:
        parse(text)
    assert "\n" not in str(refusal.value)


def test_an_unknown_routing_of_a_graph_is_refused():
    graph = dgx_h100(2)
    graph.graph["routing"] = "hot potato"
    with pytest.raises(ValueError, match="no routing 'hot potato'"):
        Network(graph)
