"""What every simulation carries, and the traps that other simulators fall into (docs/model.md)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ir.order import peak_bytes
from algorithms.ways import names
from algorithms.ways.transfers import sent_bytes
from sim.bound import bound
from sim.simulate import Site, simulate
from topologies.basic import ring, switch, two_level
from topologies.dgx import dgx_a100, dgx_h100
from topologies.perlmutter import perlmutter
from topologies.units import GB, TFLOP, us

PREFILL = [
    ("ring", {"ring": 8}),
    ("attention2d", {"row": 2, "col": 4}),
    ("attention2d", {"row": 4, "col": 2}),
    ("all_gather_kv", {"cp": 8}),
    ("ulysses", {"ulysses": 8}),
    ("usp", {"ring": 2, "ulysses": 4}),
]


def traced(name, axes, phase="prefill", n=4096, **more):
    queries = 1 if phase == "decode" else n
    return find(name)[phase](Attention(16, 4, 64, queries, n, phase=phase, **more), Mesh(**axes))


def test_the_effective_mesh_group_algorithm_and_ways_are_echoed():
    schedule = traced("attention2d", {"row": 2, "col": 4}, layout="striped", mask="causal")

    about = simulate(schedule, dgx_h100(2), ways={"all_gather": "doubling"}).about

    assert about["algorithm"] == "attention2d"
    assert about["mesh"] == {"row": 2, "col": 4}
    assert about["ranks"] == 8
    assert about["cluster"] == "dgx_h100(2)"
    assert about["ways"] == {"all_gather": "doubling", "reduce_scatter": "ring"}
    assert about["layout"] == "striped"


def test_a_mesh_larger_than_the_cluster_is_refused():
    with pytest.raises(ValueError, match=r"mesh row=3,col=4 needs 12 ranks: cluster dgx_h100\(1\) has 8 GPUs"):
        simulate(traced("attention2d", {"row": 3, "col": 4}), dgx_h100(1))


def test_a_mesh_larger_than_a_site_is_refused():
    site = Site(dgx_h100(1), placement=[3, 1])
    with pytest.raises(ValueError, match=r"mesh ring=8 needs 8 ranks: cluster dgx_h100\(1\) has 2 GPUs placed"):
        simulate(traced("ring", {"ring": 8}), site)


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="no way 'tree'"):
        simulate(traced("all_gather_kv", {"cp": 8}), dgx_h100(1), ways={"all_gather": "tree"})


@pytest.mark.parametrize("name, axes", PREFILL)
def test_simulated_bytes_are_the_schedules(name, axes):
    schedule = traced(name, axes, n=4099, mask="causal")  # uneven shards

    timeline = simulate(schedule, switch(8))

    want = np.array([sent_bytes(op, schedule.mesh) for op in schedule.ops])
    assert (timeline.sent == want).all()
    assert timeline.link_bytes["link"] == want.sum()


@pytest.mark.parametrize("way", names("all_reduce"))
def test_all_reduce_bytes_are_the_schedules_in_every_way(way):
    schedule = traced("tree", {"cp": 6}, "decode")

    timeline = simulate(schedule, switch(6), ways={"all_reduce": way})

    want = np.array([sent_bytes(op, schedule.mesh, {"all_reduce": way}) for op in schedule.ops])
    assert (timeline.sent == want).all()
    assert timeline.link_bytes["link"] == want.sum() > 0


def test_neighbours_on_different_machines_use_nics_and_not_nvlink():
    # ranks 7 and 8 sit on different machines: of 16 hops of a ring two cross, on gpu -> nic -> rail -> nic -> gpu
    timeline = simulate(traced("ring", {"ring": 16}), dgx_h100(2))

    block = 2 * 4 * 4096 // 16 * 64 * 2
    assert timeline.link_bytes["nic"] == 2 * 15 * block
    assert timeline.link_bytes["nvlink"] == 14 * 15 * block


def test_a_two_level_ring_is_as_slow_as_its_nic_and_not_its_nvlink():
    # trap C: a ring over two machines is bound by the NIC hop: (P-1) (latency + bytes / NIC) + attend
    near, far, rate = (450 * GB, 0.25 * us), (50 * GB, 1 * us), 1000 * TFLOP
    schedule = traced("ring", {"ring": 16}, n=1 << 14)

    timeline = simulate(schedule, two_level(2, 8, near, far, rate))

    n = (1 << 14) // 16
    hop, attend = 2 * us + 2 * 4 * n * 64 * 2 / far[0], 4 * 16 * 64 * n * n / rate
    assert attend < hop
    assert timeline.makespan == pytest.approx(15 * hop + attend, rel=1e-12)


@given(
    st.sampled_from(PREFILL),
    st.sampled_from([1 * GB, 50 * GB, 5000 * GB]),
    st.sampled_from([0.1 * TFLOP, 1000 * TFLOP]),
    st.sampled_from(["full", "causal"]),
    st.integers(8, 3000),
    st.sampled_from(["ring", "doubling", "direct"]),
)
def test_no_time_is_below_a_bound(case, bandwidth, flop_rate, mask, n, way):
    # trap B: what a rank receives must pass its own link, and what it computes its own cores
    schedule = traced(*case, n=n, mask=mask, layout="striped")
    graph = switch(8, bandwidth, 1 * us, flop_rate)

    timeline = simulate(schedule, graph, ways={"all_gather": way, "reduce_scatter": way})

    through_one_link = max(timeline.sent_per_rank().max(), timeline.link_bytes["link"] / 8)
    assert timeline.makespan >= through_one_link / bandwidth * (1 - 1e-12)
    assert timeline.makespan >= timeline.busy.max() * (1 - 1e-12)
    assert timeline.makespan >= bound(schedule.problem, schedule.mesh, Site(graph)).seconds * (1 - 1e-12)


@pytest.mark.parametrize("name, axes", PREFILL)
def test_more_bandwidth_never_costs_time_on_a_real_machine(name, axes):
    schedule = traced(name, axes, n=1 << 14, mask="causal", layout="striped")
    slow, fast = dgx_h100(1), dgx_h100(1)
    for _, _, link in fast.edges(data=True):
        link["bandwidth"] *= 2

    assert simulate(schedule, fast).makespan <= simulate(schedule, slow).makespan * (1 + 1e-12)


def test_a_compute_bound_ring_holds_at_most_two_received_blocks():
    # compute is slow, the network fast: without law S9 the whole ring's keys would arrive during the first attend
    schedule = traced("ring", {"ring": 8})
    timeline = simulate(schedule, ring(8, 1000 * GB, 1 * us, 0.01 * TFLOP))
    permutes = [op for op in schedule.ops if op.kind == "permute"]
    reads = {op.inputs[1].id: op.id for op in schedule.ops if op.kind == "attend"}
    events = [
        event
        for op in permutes
        for event in ((timeline.start[op.id].min(), 1), (timeline.end[reads[op.outputs[0].id]].max(), -1))
    ]

    live = np.cumsum([change for _, change in sorted(events)])

    assert live.max() == 2


def test_peak_memory_is_that_of_the_fixed_order():
    schedule = traced("attention2d", {"row": 2, "col": 4})

    assert (simulate(schedule, dgx_h100(1)).peak == peak_bytes(schedule)).all()


def test_extents_are_the_full_record_in_short():
    schedule = traced("ring", {"ring": 8}, mask="causal")

    full, short = (simulate(schedule, dgx_h100(1), record=record) for record in ("full", "extent"))

    assert short.extent
    assert not full.extent
    assert short.makespan == full.makespan
    assert (short.start == full.start.min(1, keepdims=True)).all()
    assert (short.end == full.end.max(1, keepdims=True)).all()
    assert (short.sent == np.stack([full.sent.min(1), full.sent.max(1)], axis=1)).all()


def test_placement_moves_the_traffic():
    schedule = traced("ring", {"ring": 2})

    inside, across = (simulate(schedule, dgx_h100(2), placement=where) for where in ([0, 1], [0, 8]))

    assert inside.link_bytes["nic"] == 0 < across.link_bytes["nic"]
    assert inside.makespan < across.makespan


@pytest.mark.parametrize("cluster, gpus", [(dgx_a100(2), 8), (dgx_h100(2), 8), (perlmutter(2), 4)])
def test_every_gpu_has_a_nic_to_itself(cluster, gpus):
    # each GPU exchanges blocks with its like on the other machine: all NICs busy at once, none shared
    problem = Attention(16 * gpus, 4 * gpus, 64, 1 << 14, 1 << 14)
    job = find("ring")["prefill"](problem, Mesh(ring=2, tp=gpus))

    together = simulate(job, cluster)

    alone = simulate(traced("ring", {"ring": 2}, n=1 << 14), cluster, placement=[0, gpus])
    (hop,) = (op.id for op in job.ops if op.kind == "permute")
    assert together.end[hop].max() == pytest.approx(alone.end[hop].max(), rel=1e-12)
    assert together.link_bytes["nic"] == gpus * alone.link_bytes["nic"]
