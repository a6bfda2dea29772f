"""Orders of axes: tried where an axis may lie inside a machine or across, and listed where that makes a difference."""

import networkx as nx
import pytest

import algorithms
from algorithms.ir import Attention, require, spmd
from algorithms.ir.job import Job, share_out
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from sim import trials
from sim.compare import compare
from sim.simulate import Site
from topologies.basic import switch, two_level
from topologies.units import GB, TFLOP

PROBLEM = Attention(16, 16, 64, 1 << 14, 1 << 14, mask="causal")
FREE = 1e9 * TFLOP


def programs(*names):
    return {name: algorithms.find(name) for name in names}


def meshes(found, algorithm="usp"):
    return [list(one.mesh.items()) for one in found.results if one.algorithm == algorithm]


def test_an_axis_is_tried_inside_the_machine_and_across():
    found = compare(programs("usp"), PROBLEM, Job(1, 16, 1), Site(two_level(2)), layout="zigzag")

    assert [("ring", 2), ("ulysses", 8)] in meshes(found)
    assert [("ulysses", 8), ("ring", 2)] in meshes(found)


def test_the_axis_that_sends_more_belongs_inside_the_machine():
    # MHA: Ulysses sends 4 * 7/8 blocks of a rank, a ring of 2 sends 2: the all-to-all on NVLink leaves less to the NICs
    found = compare(programs("usp"), PROBLEM, Job(1, 16, 1), Site(two_level(2, flop_rate=FREE)), layout="zigzag")
    times = {tuple(one.mesh.items()): one.time_s for one in found.results}

    assert times[("ring", 2), ("ulysses", 8)] < times[("ulysses", 8), ("ring", 2)]


def test_around_one_switch_all_orders_are_one_and_are_listed_once():
    found = compare(programs("usp", "attention2d"), PROBLEM, Job(1, 16, 1), Site(switch(16)))

    for algorithm, axes in (("usp", ["ring", "ulysses"]), ("attention2d", ["row", "col"])):
        assert all([axis for axis, _ in mesh] == axes for mesh in meshes(found, algorithm))


def test_an_order_is_tried_in_the_layout_that_was_fastest_on_its_mesh():
    found = compare(programs("usp"), PROBLEM, Job(1, 16, 1), Site(two_level(2)))
    moved = [one for one in found.results if next(iter(one.mesh)) == "ulysses"]

    assert moved
    assert {one.layout for one in moved} == {"zigzag"}


def test_orders_that_are_too_many_are_counted(monkeypatch):
    monkeypatch.setattr(trials, "MOST_ORDERS", 2)

    found = compare(programs("usp", "ring"), PROBLEM, Job(1, 16, 1), Site(two_level(2)), layout="zigzag")

    assert found.untried == {"usp": 1}  # of 2 x 8, 4 x 4, 8 x 2
    assert sum(next(iter(one.mesh)) == "ulysses" for one in found.results) == 2


def test_a_typed_mesh_is_tried_in_its_order_alone():
    job = share_out(16, "", mesh="ulysses=8,ring=2")
    found = compare(programs("usp"), PROBLEM, job, Site(two_level(2)), layout="zigzag")

    assert meshes(found) == [[("ulysses", 8), ("ring", 2)]]


def test_decoding_tries_tp_inside_and_outside_the_ranks_that_share_keys():
    problem = Attention(16, 4, 64, 1, 1 << 16, phase="decode")
    found = compare(programs("tree"), problem, Job(4, 4, 1), Site(two_level(2)))

    assert meshes(found, "tree") == [[("tp", 4), ("cp", 4)], [("cp", 4), ("tp", 4)]]  # 4 neighbours reduce on NVLink


@pytest.mark.parametrize("name", algorithms.names())
def test_every_mesh_of_an_algorithm_is_a_result_or_has_a_reason(name):
    problem = Attention(12, 4, 64, 1 << 12, 1 << 12, mask="causal")
    job, program = Job(1, 16, 1), algorithms.find(name).get("prefill")
    found = compare(programs(name), problem, job, Site(two_level(2)))

    told = [one.mesh or {} for one in (*found.results, *found.inapplicable, *found.partly)]
    every = [mesh.axes for mesh in job.meshes(program.axes, program.equal)] if program else [{}]
    assert {frozenset(mesh.items()) for mesh in told} == {frozenset(mesh.items()) for mesh in every}


def test_meshes_that_fail_are_not_mixed_with_algorithms_that_do():
    problem = Attention(12, 4, 64, 1 << 12, 1 << 12, mask="causal")
    found = compare(programs("usp", "ulysses"), problem, Job(1, 16, 1), Site(two_level(2)))

    assert {one.algorithm for one in found.inapplicable} == {"ulysses"}
    assert {one.algorithm for one in found.partly} == {"usp"}
    assert {frozenset(one.mesh.items()) for one in found.partly} == {
        frozenset({"ring": 16 // u, "ulysses": u}.items()) for u in (8, 16)
    }
    assert all("does not divide" in one.reason for one in found.partly)


def test_an_algorithm_that_fails_everywhere_has_each_of_its_reasons_once():
    @spmd("x", "y", layouts=("zigzag", "contiguous"))
    def never(me, problem):
        require(me.sizes[0] > 1, "x must have several ranks")
        require(me.sizes[0] == 1, "it never works")
        return attend(*load(me, problem, problem.queries(1)[0], problem.keys(1)[0]))

    found = compare({"never": {"prefill": never}}, PROBLEM, Job(1, 4, 1), Site(switch(4)))

    assert [one.reason for one in found.inapplicable] == ["x must have several ranks", "it never works"]
    assert found.partly == ()


def one_nic_a_machine(flop_rate=FREE, bandwidth=50 * GB):
    """Two machines of two GPUs, whose only way out is one link that they share."""
    graph = nx.DiGraph(name="one NIC a machine", sources={}, assumptions=[])
    for rank in range(4):
        graph.add_node(f"gpu{rank}", kind="gpu", rank=rank, flop_rate=flop_rate, host=f"node{rank // 2}")
        _join(graph, f"gpu{rank}", f"node{rank // 2}/switch", 1e6 * GB)
    for node in range(2):
        _join(graph, f"node{node}/switch", "core", bandwidth)
    return graph


def _join(graph, a, b, bandwidth):
    for tail, head in ((a, b), (b, a)):
        graph.add_edge(tail, head, bandwidth=bandwidth, latency=0.0, kind="nic", offloaded=True)


@pytest.mark.parametrize("tp, dp, mesh", [(2, 1, None), (1, 2, "cp=2,dp=2")])
def test_groups_of_a_job_run_at_once_and_share_the_nics(tp, dp, mesh):
    # two groups of two ranks, each across the machines: the one link of a machine carries the blocks of both
    problem = Attention(8, 8, 64, 1 << 14, 1 << 14, batch=dp)
    job = share_out(4, "", tp=tp, cp=2, dp=dp, mesh=mesh)
    found = compare(programs("all_gather_kv"), problem, job, Site(one_nic_a_machine())).results[0]

    block = 2 * dp * 8 * 64 * (1 << 13) * 2  # k and v of half the tokens, all heads and sequences, in bytes
    assert found.exposed_communication_s == pytest.approx(block / (50 * GB), rel=1e-2)
    assert found.sent_bytes.max == block // 2
