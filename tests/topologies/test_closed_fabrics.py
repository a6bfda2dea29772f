"""Closed facts of the fabrics, by max-flow and shortest paths on the graph against the formula."""

import math
from functools import partial, reduce
from itertools import chain

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topologies.test_fabrics import B, carried, equal_paths, joined, switches
from topologies.fabrics.dragonfly import dragonfly
from topologies.fabrics.rail_only import rail_only
from topologies.fabrics.superpod import superpod
from topologies.fabrics.torus import torus

few = settings(deadline=None, max_examples=25)


def among_switches(graph):
    return graph.subgraph([node for node, kind in graph.nodes(data="kind") if kind == "switch"])


def ports(graph, switch):
    """The ports that a switch uses: its bandwidth out, in NICs."""
    return sum(link["bandwidth"] for link in graph.succ[switch].values()) / B


# dragonfly: p NICs of a switch, a switches of a group, g groups, l cables between each two


@few
@given(st.integers(1, 3), st.integers(2, 5), st.integers(2, 5), st.integers(1, 4))
def test_a_dragonfly_is_its_formulas(p, a, g, cables):
    graph, nics = joined(partial(dragonfly, hosts=p, switches=a, links=cables), p * a * g)
    inner = among_switches(graph)

    assert len(inner) == a * g
    assert nx.diameter(inner) <= 3  # local, global, local
    for group in range(g):
        assert nx.density(inner.subgraph([s for s, of in inner.nodes(data="group") if of == group])) == 1
    spread = [ports(graph, switch) - p - (a - 1) for switch in inner]
    assert sum(spread) == pytest.approx(g * (g - 1) * cables)
    assert max(spread) <= math.ceil((g - 1) * cables / a) + 1e-9
    for k in range(1, g):  # the cut between the first k groups and the others
        crossing = [
            d["bandwidth"]
            for x, y, d in inner.edges(data=True)
            if inner.nodes[x]["group"] < k <= inner.nodes[y]["group"]
        ]
        assert sum(crossing) == pytest.approx(k * (g - k) * cables * B)
        here = nics[: k * p * a]
        most = min(len(here) * B, (len(nics) - len(here)) * B, sum(crossing))
        assert carried(graph, here, nics[k * p * a :]) <= most * (1 + 1e-9)


@pytest.mark.parametrize("h", [1, 2, 3])
def test_a_balanced_dragonfly_is_that_of_its_paper(h):
    # p = h, a = 2h, g = a*h + 1: one cable between each two groups, and a switch has p + a - 1 + h = 4h - 1 ports
    p, a = h, 2 * h
    g = a * h + 1
    graph, nics = joined(partial(dragonfly, hosts=p, ports=4 * h - 1), p * a * g)
    inner = among_switches(graph)

    assert len(nics) == 2 * h * h * (2 * h * h + 1) == graph.number_of_nodes() - len(inner)
    assert {inner.out_degree(switch) for switch in inner} == {a - 1 + h}
    assert {ports(graph, switch) for switch in inner} == {4 * h - 1}
    assert nx.diameter(inner) == 3
    assert max(nx.eccentricity(graph, v=nics[:1]).values()) == 5
    half = g // 2
    cut = half * (g - half) * B
    assert carried(graph, nics[: half * p * a], nics[half * p * a :]) == pytest.approx(min(cut, half * p * a * B))
    with pytest.raises(ValueError, match=r"dragonfly .* global ports"):
        joined(partial(dragonfly, hosts=p, ports=4 * h - 1), p * a * g + 1)


def test_a_dragonfly_has_a_shortest_path_a_cable_between_groups():
    # by latency, as a global cable is longer than two local ones: one global hop, with a local at either end
    graph, _ = joined(partial(dragonfly, hosts=1, switches=4, links=2), 4 * 3)
    for a in range(4):
        for b in range(4):
            ends = f"group0/switch{a}", f"group2/switch{b}"
            paths = list(nx.all_shortest_paths(among_switches(graph), *ends, weight="latency"))
            for path in paths:
                groups = [graph.nodes[switch]["group"] for switch in path]
                assert groups == sorted(groups, key=[0, 2].index)
            assert 1 <= len(paths) <= 2


def test_a_group_of_slingshot_is_balanced_and_has_its_ports():
    graph, nics = joined(dragonfly, 512 * 4)

    assert {switch.partition("/")[0] for switch in among_switches(graph)} == {f"group{k}" for k in range(4)}
    assert len(among_switches(graph)) == 4 * 32
    assert max(ports(graph, switch) for switch in among_switches(graph)) <= 64
    link = graph.graph["assumptions"]
    assert any("4 groups of 32 switches of 16 NICs, 170 cables between each two" in text for text in link)
    assert carried(graph, nics[:512], nics[512:]) == pytest.approx(3 * 170 * B)


# torus of sizes k


@few
@given(st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda sizes: math.prod(sizes) > 1))
def test_a_torus_is_its_formulas(sizes):
    graph, _ = joined(partial(torus, **dict(zip("xyz", sizes, strict=False))), math.prod(sizes), 2)
    inner = among_switches(graph)

    degree = sum(min(2, k - 1) for k in sizes)
    assert {inner.out_degree(router) for router in inner} == {degree}
    assert nx.diameter(inner) == sum(k // 2 for k in sizes)
    assert {graph.out_degree(router) for router in inner} == {degree + 2}
    far = [k // 2 for k in sizes]
    paths = math.factorial(sum(far)) // reduce(lambda n, d: n * math.factorial(d), far, 1)
    paths *= 2 ** sum(k > 2 and k % 2 == 0 for k in sizes)  # half way round, either way is as long
    origin, corner = ("router" + ".".join(map(str, place)) for place in ([0] * len(sizes), far))
    assert equal_paths(inner, origin, corner) == paths


@pytest.mark.parametrize("k, n", [(4, 1), (6, 1), (2, 3), (4, 2), (6, 2), (4, 3)])
@pytest.mark.parametrize("width", [1.0, 0.25, 3.0])
def test_the_bisection_of_a_torus_is_two_cables_a_line(k, n, width):
    # k-ary n-cube: 2 k^(n-1) cables of each direction, and k^(n-1) where two routers are joined by one
    graph, nics = joined(partial(torus, dims=n, width=width), k**n)

    lines = k ** (n - 1)
    cut = (1 if k == 2 else 2) * lines * width * B
    assert carried(graph, nics[: k**n // 2], nics[k**n // 2 :]) == pytest.approx(min(cut, k**n // 2 * B))


@given(st.integers(2, 300), st.integers(1, 5))
def test_what_is_not_said_of_a_torus_is_as_equal_as_may_be(machines, dims):
    graph, _ = joined(partial(torus, dims=dims), machines)
    text = next(text for text in graph.graph["assumptions"] if "routers, one a machine" in text)
    sizes = [int(size) for size in text.removeprefix("fabric: ").partition(" routers")[0].split(" x ")]

    assert math.prod(sizes) == machines
    assert len(sizes) == dims
    if round(machines ** (1 / dims)) ** dims == machines:
        assert len(set(sizes)) == 1


@pytest.mark.parametrize(
    "chosen, message",
    [
        ({"x": 3, "y": 3}, "torus of 3 x 3 has 9 routers: here are 12"),
        ({"x": 5, "dims": 2}, "torus of 5 x 2 has 10 routers: here are 12"),
        ({"y": 3}, "torus takes x, or x and y, or x, y and z"),
        ({"x": 3, "y": 4, "dims": 1}, "torus of dims=1 has 2 sizes given"),
        ({"dims": 9}, "dims of torus must be at most 8"),
        ({"x": 0}, "x of torus must be at least 1"),
        ({"width": 0}, "width of torus must be a number above 0"),
    ],
)
def test_a_torus_that_does_not_fit_is_refused(chosen, message):
    with pytest.raises(ValueError, match=message):
        joined(partial(torus, **chosen), 12)


# superpod: units of u machines and r rails, oversubscribed o


@few
@given(
    st.integers(1, 4), st.integers(1, 4), st.sampled_from([(2, 1), (4, 1), (4, 2), (6, 3)]), st.sampled_from([8, 16])
)
def test_a_superpod_is_its_formulas(rails, units, leaf, size):
    unit, o = leaf
    graph, nics = joined(partial(superpod, unit=unit, oversubscription=o, ports=size), max(2, unit * units), rails)
    if graph.graph["assumptions"] and "pods" in graph.graph["assumptions"][-1]:
        return
    units = len({leaf.partition("/")[0] for leaf in switches(graph, "leaf")})

    assert len(switches(graph, "leaf")) == rails * units
    assert {ports(graph, leaf) for leaf in switches(graph, "leaf") if graph.out_degree(leaf)} <= {
        unit + unit // o,
        2 + unit // o,
    }
    assert max(ports(graph, spine) for spine in switches(graph, "spine")) <= size
    assert equal_paths(graph, nics[0], nics[-1]) == (len(switches(graph, "spine")) if rails * units > 1 else 1)
    if units * rails > 1:
        assert max(nx.eccentricity(graph, v=nics).values()) == 4
    near = [nic for nic in nics if nic.endswith(".0")][:unit]
    assert equal_paths(graph, near[0], near[-1]) == 1
    if unit * units > 2 and units > 1:
        here = unit * rails * (units // 2)
        assert carried(graph, nics[:here], nics[here:]) == pytest.approx(here * B / o)


@pytest.mark.parametrize(
    "machines, leaves, spines, cores",
    [
        (64, 16, 8, 0),
        (128, 32, 16, 0),
        (256, 64, 32, 0),
        (512, 128, 128, 64),
        (1024, 256, 256, 128),
        (2048, 512, 512, 256),
    ],
)
def test_a_superpod_has_the_switches_of_its_reference(machines, leaves, spines, cores):
    graph, _ = joined(superpod, machines, 8)

    assert [len(switches(graph, name)) for name in ("leaf", "spine", "core")] == [leaves, spines, cores]
    assert {ports(graph, switch) for switch in among_switches(graph)} == {64}
    assert nx.shortest_path_length(graph, "nic0.3", "nic31.3") == 2
    assert nx.shortest_path_length(graph, "nic0.3", "nic31.4") == 4


def test_three_tiers_of_a_superpod_block_nobody():
    graph, nics = joined(partial(superpod, unit=2, ports=4), 8, 2)  # 8 leaves of 2 in 4 pods under 2 x 2 spines

    assert len(switches(graph, "core")) == 4
    assert {ports(graph, switch) for switch in among_switches(graph)} == {4}
    assert max(nx.eccentricity(graph, v=nics).values()) == 6
    assert equal_paths(graph, nics[0], nics[-1]) == 2 * 2
    assert carried(graph, nics[:8], nics[8:]) == pytest.approx(8 * B)


# rail_only


@few
@given(st.integers(2, 6), st.integers(1, 4))
def test_rails_without_a_spine_are_as_many_stars(machines, rails):
    graph, _ = joined(rail_only, machines, rails)

    assert nx.number_weakly_connected_components(graph) == rails
    assert {graph.out_degree(switch) for switch in among_switches(graph)} == {machines}
    here, there = (
        [f"nic{m}.{i}" for m in part for i in range(rails)]
        for part in (range(machines // 2), range(machines // 2, machines))
    )
    assert carried(graph, here, there) == pytest.approx(len(here) * B)
    if rails > 1:
        assert carried(graph, [f"nic{m}.0" for m in range(machines)], [f"nic{m}.1" for m in range(machines)]) == 0
    assert equal_paths(graph, "nic0.0", f"nic{machines - 1}.0") == 1


@pytest.mark.parametrize(
    "fabric, message",
    [
        (
            partial(dragonfly, hosts=40),
            "dragonfly of hosts=40, 33 switches a group, needs 72 ports of a switch: it has ports=64",
        ),
        (partial(dragonfly, hosts=1, switches=2, links=9, ports=6), "needs .* global ports of each of 2 switches"),
        (partial(dragonfly, hosts=0), "hosts of dragonfly must be at least 1"),
        (partial(superpod, unit=33), "a leaf of superpod has unit=33 NICs and 33 uplinks: a switch has ports=64"),
        (partial(superpod, unit=32, oversubscription=3), "unit=32 over oversubscription=3, 10.67 uplinks"),
        (partial(superpod, unit=1, ports=2), "superpod of unit=1, ports=2 has room for"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(fabric, message):
    with pytest.raises(ValueError, match=message) as refusal:
        joined(fabric, 1300)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("fabric", [rail_only, superpod])
def test_rails_need_machines_that_are_alike(fabric):
    graph = nx.DiGraph(name="unlike", sources={}, assumptions=[])
    from topologies.fabrics import join
    from topologies.nics import NDR

    with pytest.raises(ValueError, match="takes NIC i of every machine: machines have from 1 to 2"):
        join(graph, [["a"], ["b", "c"]], NDR, fabric)
    assert list(chain(graph.edges)) == []
