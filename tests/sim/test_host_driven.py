"""Links that the host drives: a transfer over one is work of both its ends, which compute nothing meanwhile."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Inapplicable, Mesh
from algorithms.ring import ring_attention
from sim.engine import run
from sim.fold import fold
from sim.hosted import Hosted
from sim.lower import lower
from sim.network import Network
from sim.pacing import Pacing
from sim.program import freeze
from sim.simulate import Site, simulate
from topologies.basic import switch
from topologies.units import GB, TFLOP, us

FLOP_RATE, BANDWIDTH, LATENCY = 1 * TFLOP, 10 * GB, 1 * us
PROBLEM = Attention(heads=4, kv_heads=4, head_dim=64, query_len=4096, key_len=4096, dtype="float32")


def cluster(ranks, offloaded):
    """GPUs around a switch; offloaded: one for all, or one a rank."""
    graph = switch(ranks, BANDWIDTH, LATENCY, FLOP_RATE)
    for tail, head, link in graph.edges(data=True):
        rank = graph.nodes[tail if head == "switch" else head]["rank"]
        link["offloaded"] = offloaded if isinstance(offloaded, bool) else offloaded[rank]
    return graph


def pieces(ranks):
    """Seconds of one attend and of one hop of a ring."""
    n = PROBLEM.query_len // ranks
    attend = 4 * PROBLEM.heads * PROBLEM.head_dim * n * n / FLOP_RATE
    hop = 2 * LATENCY + 2 * n * PROBLEM.heads * PROBLEM.head_dim * 4 / BANDWIDTH
    return attend, hop


@pytest.mark.parametrize("ranks", [2, 4, 7])
def test_nothing_hides_a_transfer_that_the_host_drives(ranks):
    # offloaded     attend|attend|attend    host-driven   attend|hop--|attend|hop--|attend
    #               hop--|hop--|
    attend, hop = pieces(ranks) if 4096 % ranks == 0 else (None, None)
    hosted, offloaded = (simulate(ring_attention(PROBLEM, Mesh(ring=ranks)), cluster(ranks, x)) for x in (False, True))

    assert hosted.makespan > offloaded.makespan
    if attend:
        assert hosted.makespan == pytest.approx(ranks * attend + (ranks - 1) * hop)
        assert offloaded.makespan == pytest.approx(max(ranks * attend, (ranks - 1) * hop + attend))


@pytest.mark.parametrize(
    "name, axes",
    [
        ("ring", {"ring": 4}),
        ("attention2d", {"row": 2, "col": 2}),
        ("ulysses", {"ulysses": 4}),
        ("usp", {"ring": 2, "ulysses": 2}),
        ("startrail", {"ring": 2, "group": 2, "team": 2}),
        ("all_gather_kv", {"cp": 4}),
    ],
)
def test_bytes_and_work_do_not_depend_on_who_drives(name, axes):
    mesh = Mesh(**axes)
    schedule = find(name)["prefill"](PROBLEM, mesh)
    hosted, offloaded = (simulate(schedule, cluster(mesh.size, x)) for x in (False, True))

    assert (hosted.sent == offloaded.sent).all()
    assert hosted.flop == offloaded.flop
    assert hosted.busy == pytest.approx(offloaded.busy)
    assert hosted.link_bytes == offloaded.link_bytes
    assert hosted.makespan >= offloaded.makespan * (1 - 1e-12)


def test_a_rank_whose_own_links_are_offloaded_computes_on():
    # ranks 0 and 1 talk over links that the host drives; the hops of 2 and 3 to each other are offloaded
    network = Site(cluster(4, [False, False, True, True])).network
    hosted = Hosted(network)

    by_host, offloaded = hosted.split(np.array([1, 0, 3, 2]))

    assert by_host.tolist() == [1, 0, -1, -1]
    assert offloaded.tolist() == [-1, -1, 3, 2]


def test_no_transfer_to_oneself_is_driven_by_anyone():
    hosted = Hosted(Site(cluster(2, False)).network)

    assert hosted.split(np.array([0, -1])).by_host is None


def test_a_cluster_of_offloaded_links_has_no_host():
    assert Hosted.on(Network(cluster(2, True))) is None


def test_a_link_that_does_not_say_is_offloaded():
    graph = cluster(2, True)
    for _, _, link in graph.edges(data=True):
        del link["offloaded"]

    assert Hosted.on(Network(graph)) is None


def test_what_drifts_is_refused_by_name():
    schedule = find("ulysses")["prefill"](PROBLEM, Mesh(ulysses=4))

    with pytest.raises(Inapplicable, match=r"^--drift all_to_all: the host drives links here"):
        simulate(schedule, cluster(4, False), pacing=Pacing(drift=("all_to_all",)))


@given(
    ranks=st.sampled_from([2, 4, 8]),
    offloaded=st.lists(st.booleans(), min_size=8, max_size=8),
    chunks=st.sampled_from([1, 3]),
    name=st.sampled_from(["ring", "ulysses", "all_gather_kv"]),
)
def test_folded_is_unfolded_whoever_drives(ranks, offloaded, chunks, name):
    axis = {"ring": "ring", "ulysses": "ulysses", "all_gather_kv": "cp"}[name]
    problem = Attention(heads=8, kv_heads=8, head_dim=16, query_len=64 * ranks, key_len=64 * ranks)
    schedule = find(name)["prefill"](problem, Mesh(**{axis: ranks}))
    site = Site(cluster(ranks, [offloaded[r % 2] for r in range(ranks)]))
    lowered = lower(schedule, site.machine, {}, None, Pacing(chunks=chunks), Hosted.on(site.network))
    frozen = freeze(lowered.program, site.network)
    folded = fold(frozen, share=1.0)
    whole = run(frozen)

    if folded is not None:
        part = run(folded.frozen)
        assert (part.start[:, folded.ranks.of] == whole.start).all()
        assert (part.end[:, folded.ranks.of] == whole.end).all()


def test_views_and_results_are_there_when_they_are_in_the_executor():
    schedule = ring_attention(PROBLEM, Mesh(ring=4))
    timeline = simulate(schedule, cluster(4, False))

    for op in schedule.ops:
        assert (timeline.start[op.id] <= timeline.end[op.id]).all()
        for v in op.inputs:
            source = next(s for s in schedule.ops if v in s.outputs)
            assert (timeline.end[source.id] <= timeline.end[op.id] + 1e-15).all()


def test_the_graph_is_not_changed():
    graph = cluster(2, False)
    before = nx.to_dict_of_dicts(graph)

    simulate(ring_attention(PROBLEM, Mesh(ring=2)), graph)

    assert nx.to_dict_of_dicts(graph) == before
