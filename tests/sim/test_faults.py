"""Faults as people type them, and what they do to a run: closed forms."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ir.job import share_out
from sim.compare import compare
from sim.conditions import Conditions
from sim.detours import NoPathError
from sim.engine import run
from sim.faults import Fault, parse
from sim.fold import fold
from sim.network import Network
from sim.outages import Outages
from sim.program import Program, freeze
from sim.simulate import Site, simulate
from tests.sim.drawn import programs
from tests.sim.graphs import MiB, cable, gpus, one_send, ring_attention, star, two_level, us
from topologies.basic import ring, switch
from topologies.dgx import dgx_a100, dgx_h100
from topologies.units import GB, TFLOP, ms

BIG = 1000 * MiB


def two_ways():
    """Two GPUs, and two switches between them, one nearer."""
    graph = gpus(2, "two ways")
    for gpu in ("gpu0", "gpu1"):
        for switch_, latency in (("near", 1 * us), ("far", 3 * us)):
            cable(graph, gpu, switch_, 50e9, latency)
            graph.nodes[switch_]["kind"] = "switch"
    return graph


def under(program, graph, *faults, delay=10 * ms, record="full", **how):
    """Run a program on a graph under faults."""
    network = Network(graph)
    outages = Outages(freeze(program, network), Conditions(faults, graph, network, delay))
    return outages.run(record=record, **how)


def one_flow(ranks=2, nbytes=BIG):
    program = Program(ranks)
    program.permute(one_send(ranks, 0, 1), nbytes)
    return program


@pytest.mark.parametrize(
    "what, text, fault",
    [
        ("slow", "gpu:17=0.7", Fault("slow", "gpu:17", 0.7)),
        ("slow", "link:a-b=0.5@2ms..5ms", Fault("slow", "link:a-b", 0.5, 2 * ms, 5 * ms)),
        ("down", "nic:node0/nic1", Fault("down", "nic:node0/nic1")),
        ("down", "link:a-b@500us", Fault("down", "link:a-b", 0.0, 500 * us)),
        ("down", "link:a-b@0.1s..", Fault("down", "link:a-b", 0.0, 0.1)),
        ("background", "nic=0.3", Fault("background", "nic", 0.3)),
        ("late", "gpu:5=2ms", Fault("late", "gpu:5", 2 * ms)),
    ],
)
def test_a_fault_is_read_as_it_is_typed(what, text, fault):
    assert parse(what, text) == fault


def test_a_fault_says_what_it_is():
    assert str(parse("slow", "gpu:17=0.7@2ms..5ms")) == "slow gpu:17=0.7 from 2.00 ms to 5.00 ms"
    assert str(parse("down", "link:a-b@2ms")) == "down link:a-b from 2.00 ms on"
    assert str(parse("late", "gpu:5=2ms")) == "late gpu:5=2.00 ms"


@pytest.mark.parametrize(
    "what, text, message",
    [
        ("slow", "gpu:1=0", "a factor is above 0 and at most 1, got 0"),
        ("slow", "gpu:1=-0.5", "a factor is above 0 and at most 1, got -0.5"),
        ("slow", "gpu:1=nan", "a factor is above 0 and at most 1, got nan"),
        ("slow", "gpu:1=1.5", "a factor is above 0 and at most 1, got 1.5"),
        ("slow", "gpu:1", "--slow takes gpu:17=0.7, .*: got 'gpu:1'"),
        ("slow", "gpu:1=half", "--slow takes gpu:17=0.7, .*: got 'gpu:1=half'"),
        ("slow", "node:1=0.5", "--slow takes gpu:17=0.7, .*: got 'node:1'"),
        ("slow", "link:a-b=0.5@5ms..2ms", "the time range 5ms..2ms runs backwards"),
        ("down", "link:a-b@2ms..2ms", "the time range 2ms..2ms runs backwards, or is empty"),
        ("down", "link:a-b@2..5", "a time is a number with s, ms, us or ns, got '2'"),
        ("down", "gpu:1", "--down takes link:A-B or nic:NAME"),
        ("background", "nic=1", "a share is above 0 and below 1, got 1"),
        ("background", "nic=0", "a share is above 0 and below 1, got 0"),
        ("late", "gpu:1=2", "a time is a number with s, ms, us or ns, got '2'"),
        ("late", "gpu:1=2ms@1ms", "--late takes gpu:5=2ms"),
    ],
)
def test_an_absurd_fault_is_one_line(what, text, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(what, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "fault, message",
    [
        (Fault("slow", "gpu:16", 0.5), r"no GPU 16 in cluster dgx_h100\(2\): it has 0 to 15"),
        (Fault("slow", "gpu:node0/gpu9", 0.5), r"no GPU 'node0/gpu9' in cluster .*: nearest is node0/gpu"),
        (Fault("slow", "nic:node0/nic9", 0.5), "no NIC 'node0/nic9' in cluster .*: nearest is node0/nic"),
        (Fault("down", "link:node0/nic2-rail3"), "no link 'node0/nic2-rail3' in .*: nearest is node0/nic2-rail2"),
        (Fault("down", "link:nowhere"), "no link 'nowhere' in cluster"),
        (Fault("background", "nick", 0.3), "no class of link 'nick': expected one of .*; nearest is nic in cluster"),
        (Fault("late", "gpu:9", 1.0), "node1/gpu1 runs no rank of this job"),
    ],
)
def test_a_fault_on_what_is_not_there_names_what_is_near(fault, message):
    schedule = find("ring")["prefill"](Attention(16, 4, 64, 4096, 4096), Mesh(ring=8))
    with pytest.raises(ValueError, match=message):
        simulate(schedule, dgx_h100(2), faults=[fault])


def test_a_slow_gpu_takes_as_much_longer():
    #  fast rank  attend|attend|   waits for the slow one's block? no: it only computes
    problem = Attention(8, 8, 64, 1024, 1024)
    schedule = find("ring")["prefill"](problem, Mesh(ring=2))
    cluster = switch(2, 1000 * GB, 0.0, 1 * TFLOP)

    plain = simulate(schedule, cluster)
    slow = simulate(schedule, cluster, faults=[Fault("slow", "gpu:1", 0.5)])

    assert slow.busy == pytest.approx([plain.busy[0], 2 * plain.busy[1]])
    assert slow.makespan == pytest.approx(2 * plain.makespan, rel=1e-9)
    assert slow.about["faults"] == ["slow gpu:1=0.5"]


def test_from_the_start_is_a_time_like_any_other():
    # what stands in the tables and what a process sets give the same bits
    program, graph = ring_attention(8, 100.3 * us, 7 * MiB), two_level(8, node=4)
    link = "gpu3-fabric"
    always = (Fault("slow", "gpu:2", 0.7), Fault("slow", f"link:{link}", 0.3), Fault("background", "nvlink", 0.2))
    long = [replace(fault, end=100.0) for fault in always]

    assert under(program, graph, *always).end.tobytes() == under(program, graph, *long).end.tobytes()


def test_what_is_so_from_start_to_end_folds():
    program, graph = ring_attention(32, 100.3 * us, 7 * MiB), two_level(32)
    faults = [Fault("slow", f"gpu:{gpu}", 0.7) for gpu in range(0, 32, 8)] + [Fault("background", "fabric", 0.3)]
    network = Network(graph)
    frozen = Outages(freeze(program, network), Conditions(faults, graph, network)).frozen

    folded = fold(frozen)

    assert folded is not None
    assert folded.frozen.ranks == 8
    assert run(folded.frozen).end[:, folded.ranks.of].tobytes() == run(frozen).end.tobytes()


def test_background_takes_its_share():
    assert under(one_flow(), star(2), Fault("background", "link", 0.3)).makespan == pytest.approx(
        1 * us + BIG / (0.7 * 50e9), rel=1e-12
    )


def test_a_late_rank_lets_its_partner_wait():
    #  rank 0  ........................hop----|
    #  rank 1  late start|hop----|
    schedule = find("ring")["prefill"](Attention(8, 8, 64, 1024, 1024), Mesh(ring=2))
    cluster = switch(2, 50 * GB, 1 * us, 1000 * TFLOP)

    plain = simulate(schedule, cluster)
    late = simulate(schedule, cluster, faults=[Fault("late", "gpu:1", 2 * ms)])

    assert late.makespan == pytest.approx(2 * ms + plain.makespan, rel=1e-9)
    assert late.busy == pytest.approx(plain.busy)


def test_a_flow_is_routed_anew_after_a_delay():
    # near--|stands still for 1 ms|far------|
    spans = under(one_flow(), two_ways(), Fault("down", "link:gpu0-near", begin=4 * ms), delay=1 * ms)

    left = BIG - 50e9 * (4 * ms - 2 * us)
    assert spans.makespan == pytest.approx(5 * ms + left / 50e9, rel=1e-12)
    assert spans.link_bytes.sum() == pytest.approx(2 * BIG)  # what went near, and what went far, over two links each
    assert spans.link_bytes.max() == pytest.approx(left)


def test_a_flow_goes_back_when_the_link_does():
    fault = Fault("down", "link:gpu0-near", begin=4 * ms, end=8 * ms)
    spans = under(one_flow(), two_ways(), fault, delay=1 * ms)

    carried = dict(zip(Network(two_ways()).links, spans.link_bytes, strict=True))
    assert carried["gpu0", "far"] == pytest.approx(4 * ms * 50e9)  # from 5 to 9 ms
    assert spans.makespan == pytest.approx(1 * ms + 2 * us + BIG / 50e9, rel=1e-12)


def test_an_outage_shorter_than_the_delay_is_sat_out():
    spans = under(one_flow(), star(2), Fault("down", "link:gpu0-switch", begin=4 * ms, end=9 * ms))

    assert spans.makespan == pytest.approx(5 * ms + 1 * us + BIG / 50e9, rel=1e-12)


def test_a_link_that_is_down_from_the_start_is_never_used():
    spans = under(one_flow(), two_ways(), Fault("down", "link:gpu0-near"))

    assert spans.makespan == pytest.approx(6 * us + BIG / 50e9, rel=1e-12)


@pytest.mark.parametrize("begin", [0.0, 4 * ms])
def test_a_flow_without_a_path_ends_the_run_by_name(begin):
    with pytest.raises(NoPathError) as caught:
        under(one_flow(), star(2), Fault("down", "link:gpu0-switch", begin=begin))

    assert str(caught.value) == (
        "op 0 on stream 1 has no path from rank 0 (gpu0) to rank 1 (gpu1): link gpu0 -> switch is down"
    )


def test_the_op_is_named_as_the_schedule_names_it():
    schedule = find("ring")["prefill"](Attention(8, 8, 64, 1024, 1024), Mesh(ring=2))
    with pytest.raises(NoPathError, match=r"permute 4 on stream ring has no path from rank . \(gpu.\) to rank ."):
        simulate(schedule, switch(2), faults=[Fault("down", "link:gpu1-switch")])


def test_a_flow_that_starts_on_a_lost_path_ends_the_run_too():
    program = Program(2)
    first = program.compute(50 * ms)
    program.permute([1, -1], BIG, after=[first])

    with pytest.raises(NoPathError, match="rank 0"):
        under(program, star(2), Fault("down", "link:gpu0-switch", begin=4 * ms))


def test_a_cable_that_nobody_uses_hurts_nobody():
    plain = run(freeze(one_flow(4), Network(star(4)))).makespan

    assert under(one_flow(4), star(4), Fault("down", "link:gpu3-switch", begin=1 * ms)).makespan == plain


def test_gpus_forward_only_where_they_are_wired_to_each_other_alone():
    # a ring of cables: the other way around passes through GPUs, as every route there may
    way = simulate(
        find("ring")["prefill"](Attention(8, 8, 64, 1024, 1024), Mesh(ring=4)),
        ring(4),
        faults=[Fault("down", "link:gpu0-gpu1")],
    )
    assert way.makespan > 0


def a100s(bonded):
    """Two DGX A100, GPU 0 of each; NICs 0 and 1 share a PCIe switch."""
    graph = dgx_a100(2)
    for nic in ("node0/nic0", "node0/nic1"):
        graph.nodes[nic]["bonded"] = bonded
    return Site(graph, placement=[0, 8])


def test_losing_a_nic_ends_the_job_unless_it_is_bonded():
    schedule = find("ring")["prefill"](Attention(16, 4, 64, 65536, 65536), Mesh(ring=2))
    fault = Fault("down", "nic:node0/nic0", begin=100 * us)

    with pytest.raises(NoPathError, match="node0/nic0 has lost the network and is not bonded, which ends a job"):
        simulate(schedule, a100s(False), faults=[fault], reroute_delay=10 * us)
    moved = simulate(schedule, a100s(True), faults=[fault], reroute_delay=10 * us)

    plain = simulate(schedule, a100s(True))
    assert plain.makespan <= moved.makespan <= plain.makespan + 20 * us
    assert moved.link_bytes["nic"] == plain.link_bytes["nic"]


def test_strict_and_burst_give_the_same_bits_under_faults():
    program, graph = ring_attention(8, 100.3 * us, 7 * MiB), two_level(8, node=4)
    faults = [
        Fault("slow", "gpu:2", 0.7, 100 * us, 900 * us),
        Fault("down", "link:gpu3-fabric", begin=150 * us, end=450 * us),
        Fault("slow", "link:gpu5-nvswitch1", 0.3, 222 * us),
    ]
    ends = [under(program, graph, *faults, burst=burst).end.tobytes() for burst in (True, False)]
    assert ends[0] == ends[1]


def two_stars(ranks):
    """Every GPU has a cable to a near switch and one to a far one."""
    graph = gpus(ranks, f"two stars({ranks})")
    for rank in range(ranks):
        cable(graph, f"gpu{rank}", "near", 50e9, 0.5 * us)
        cable(graph, f"gpu{rank}", "far", 30e9, 2 * us)
    graph.nodes["near"]["kind"] = graph.nodes["far"]["kind"] = "switch"
    return graph


@st.composite
def outages(draw, ranks):
    """Draw times at which near cables are down, slow, or their GPUs slow."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, 300)) * us
        end = begin + draw(st.integers(1, 300)) * us
        rank = draw(st.integers(0, ranks - 1))
        cable_ = f"link:gpu{rank}-near"
        kinds = [Fault("down", cable_, 0.0, begin, end), Fault("slow", cable_, 0.3, begin, end)]
        found.append(draw(st.sampled_from([*kinds, Fault("slow", f"gpu:{rank}", 0.7, begin, end)])))
    return found


@given(programs(), st.data(), st.sampled_from([0.0, 7 * us, 50 * us]))
def test_whatever_goes_down_and_comes_back_every_byte_arrives_and_strict_is_burst(program, data, delay):
    graph, faults = two_stars(program.ranks), data.draw(outages(program.ranks))

    burst, strict = (under(program, graph, *faults, delay=delay, burst=burst) for burst in (True, False))

    plain = run(freeze(program, Network(graph)))
    assert burst.end.tobytes() == strict.end.tobytes()
    assert burst.link_bytes.sum() == pytest.approx(plain.link_bytes.sum(), rel=1e-9)  # each route has two links
    assert np.isfinite(burst.end).all()
    assert burst.link_bytes.min() >= -1e-3


def test_other_runs_of_a_program_keep_its_routes():
    graph = two_ways()
    network, program = Network(graph), one_flow()
    outages = Outages(
        freeze(program, network), Conditions([Fault("down", "link:gpu0-near", begin=1 * ms)], graph, network, 1 * ms)
    )
    first, second = (outages.run().makespan for _ in range(2))

    assert first == second
    assert math.isfinite(first)
    assert np.isfinite(outages.frozen.capacity[:-1]).all()


def test_compare_leaves_out_what_has_no_path_and_says_why():
    # two machines whose GPU 0 has lost its NIC: a mesh that never crosses machines there still runs
    problem, site = Attention(16, 16, 64, 4096, 4096, batch=2), Site(dgx_h100(2))
    programs, job = {name: find(name) for name in ("ring", "ulysses")}, share_out(16, "here", dp=2)
    fault = Fault("down", "nic:node0/nic0")

    inside = compare(programs, problem, job, site, faults=[fault])
    across = compare(programs, replace(problem, batch=1), share_out(16, "here"), site, faults=[fault])

    assert {found.algorithm for found in inside.results} == {"ring", "ulysses"}
    assert not across.results
    assert all("has no path from rank" in one.reason for one in across.inapplicable)
