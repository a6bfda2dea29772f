"""Pacing: chunks that follow each other through a collective, and rounds that drift or are kept in step."""

from math import ceil, log2

import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh, spmd
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.all_to_all import split_heads
from algorithms.ops.broadcast import broadcast
from algorithms.ops.load import load
from sim.pacing import Pacing, steps_of_barrier
from sim.simulate import simulate
from topologies.basic import ring, switch, two_level
from topologies.dgx import dgx_h100
from topologies.units import GB, MiB, us

P, LATENCY, BANDWIDTH = 8, 2 * us, 10 * GB  # a switch's two links of 1 us
CLUSTER = switch(P, BANDWIDTH, LATENCY / 2)


def schedule_of(op, p=P, n=8192, heads=16, shards=None):
    """A program of one collective on the queries: n tokens in p shards, or in fewer, `heads` heads of 64, 2 bytes."""

    @spmd("ring")
    def program(me, problem):
        (i,), (size,) = me.coords, me.sizes
        at, of = (i, size) if shards is None else (0, shards)
        q, _, _ = load(me, problem, problem.queries(of)[at], problem.keys(of)[at])
        return {"out": op(q)}

    return program(Attention(heads, heads, 64, n, n), Mesh(ring=p))


def time(schedule, cluster, pacing=None, **ways):
    return simulate(schedule, cluster, pacing=pacing or Pacing(), ways=ways).makespan


@pytest.mark.parametrize("chunks", [1, 2, 4, 16])
def test_a_ring_broadcast_in_chunks_is_a_pipeline(chunks):
    # chunk 0  hop|hop|hop|...        P-1 hops of the first chunk,
    # chunk 1      hop|hop|hop|...    and one more for each that follows
    schedule = schedule_of(lambda q: broadcast(q, over="ring"))

    end = time(schedule, CLUSTER, Pacing(chunks=chunks), broadcast="ring")

    nbytes = 8192 // P * 16 * 64 * 2
    assert end == pytest.approx((P - 1 + chunks - 1) * (LATENCY + nbytes / chunks / BANDWIDTH), rel=1e-12)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_a_ring_all_reduce_in_chunks_is_waves(channels):
    # wave w: stage k of the j-th chunk of a channel, k + j = w: all at once, sharing the links
    #   chunk 0  stage 0|stage 1|stage 2|...
    #   chunk 1         |stage 0|stage 1|...
    # so each wave takes a latency and its bytes: the bytes of all are those of one message, 2 (P-1) / P of it
    schedule = schedule_of(lambda q: all_reduce(q, over="ring", op="sum"), shards=1)

    end = time(schedule, CLUSTER, Pacing(chunks=4, channels=channels), all_reduce="ring")

    waves, nbytes = 2 * (P - 1) + 4 // channels - 1, 8192 * 16 * 64 * 2
    assert end == pytest.approx(waves * LATENCY + 2 * (P - 1) * nbytes / P / BANDWIDTH, rel=1e-9)


@pytest.mark.parametrize("pacing", [Pacing(chunks=3), Pacing(chunks=5, channels=2), Pacing(chunk_nbytes=4097)])
@pytest.mark.parametrize("barrier", [(), ("all_gather",)])
def test_all_bytes_stay(pacing, barrier):
    # uneven shards, and chunks that do not divide them
    schedule = find("all_gather_kv")["prefill"](Attention(16, 4, 64, 1003, 1003, mask="causal"), Mesh(cp=8))
    paced = Pacing(pacing.chunks, pacing.chunk_nbytes, pacing.channels, barrier)

    plain, cut = (simulate(schedule, dgx_h100(1), pacing=one) for one in (Pacing(), paced))

    assert (cut.sent == plain.sent).all()
    assert cut.link_bytes == plain.link_bytes
    assert cut.makespan != plain.makespan


def test_a_chunk_size_is_so_many_chunks():
    schedule = schedule_of(lambda q: broadcast(q, over="ring"))
    nbytes = 8192 // P * 16 * 64 * 2

    ends = [
        time(schedule, CLUSTER, pacing, broadcast="ring")
        for pacing in (Pacing(chunks=4), Pacing(chunk_nbytes=nbytes // 4))
    ]
    assert ends[0] == ends[1]


def all_to_all(p):
    """Every rank sends every other 1 MiB."""
    return schedule_of(lambda q: split_heads(q, over="ring"), p, n=8192 * p, heads=p)


@pytest.mark.parametrize(
    ("cluster", "p", "published"), [(two_level(2), 16, "813.7"), (switch(16, 50 * GB), 16, "329.6")]
)
def test_rounds_that_nothing_holds_together_drift_apart(cluster, p, published):
    # trap D: near sends end early, their senders run ahead, and rounds collide at the receivers
    for _, _, link in cluster.edges(data=True):
        link["latency"] = {"nvlink": 0.25 * us, "nic": 1 * us, "link": 0.5 * us}[link["kind"]]

    drifting = time(all_to_all(16), cluster, Pacing(drift=("all_to_all",)))

    assert f"{drifting / us:.1f}" == published


def test_drifting_paired_and_in_step_are_each_costed():
    # in step: 15 rounds, each as long as a NIC needs, and 4 messages without bytes over the NIC before the next
    schedule, cluster = all_to_all(16), two_level(2)
    round_, barrier = 2 * us + MiB / (50 * GB), 4 * 2 * us

    paired, in_step, drifting = (
        time(schedule, cluster, pacing)
        for pacing in (Pacing(), Pacing(barrier=("all_to_all",)), Pacing(drift=("all_to_all",)))
    )
    at_once = time(schedule, cluster, all_to_all="direct")

    assert f"{at_once / us:.1f}" == "169.8"
    assert in_step == pytest.approx(15 * round_ + 14 * barrier, rel=1e-2)
    assert at_once < paired < in_step < drifting


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
def test_after_a_barrier_everyone_has_heard_of_everyone(p):
    heard = [{rank} for rank in range(p)]
    steps = list(steps_of_barrier(Mesh(ring=p), ("ring",)))
    for dst in steps:
        before = [set(one) for one in heard]
        for rank, to in enumerate(dst):
            heard[to] |= before[rank]

    assert all(one == set(range(p)) for one in heard)
    assert len(steps) == (ceil(log2(p)) if p > 1 else 0)


def test_a_cheaper_compute_never_waits_on_a_channel_it_does_not_use():
    # permutes are sent whole
    schedule = find("ring")["prefill"](Attention(8, 2, 64, 4096, 4096), Mesh(ring=4))

    assert time(schedule, ring(4), Pacing(chunks=4)) == time(schedule, ring(4))


@pytest.mark.parametrize(
    "how, message",
    [
        ({"chunks": 0}, "--chunks must be 1 to 1024, got 0"),
        ({"chunks": 2, "chunk_nbytes": 8}, "give one of the two"),
        ({"channels": 0}, "--channels must be at least 1"),
        ({"channels": 2}, "--channels 2 needs --chunks"),
        ({"barrier": ("permute",)}, "no collective 'permute' for --barrier"),
        ({"drift": ("all_gather",)}, "--drift is for all_to_all"),
        ({"drift": ("all_to_all",), "barrier": ("all_to_all",)}, "cannot both drift and be kept in step"),
        ({"drift": ("all_to_all",), "chunks": 2}, "--drift sends whole messages"),
    ],
)
def test_absurd_pacing_is_refused(how, message):
    with pytest.raises(ValueError, match=message):
        Pacing(**how)


def test_only_a_way_that_sends_its_own_blocks_may_drift():
    with pytest.raises(ValueError, match="all_to_all by ring passes on what it received"):
        time(all_to_all(4), switch(4), Pacing(drift=("all_to_all",)), all_to_all="ring")
    with pytest.raises(ValueError, match="--drift is for at most 128 ranks, got 256"):
        time(all_to_all(256), switch(256), Pacing(drift=("all_to_all",)))
