"""The bound: closed forms of its limits, and no simulated time below it, whatever the problem, mesh and machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import find, names
from algorithms.ir import Attention, Inapplicable, Mesh
from sim.bound import bound, cut, least_ingress, least_memory
from sim.placement import placed
from sim.simulate import Site, simulate
from tests.sim.drawn import clusters
from topologies.basic import switch
from topologies.dgx import dgx_h100
from topologies.units import GB, TFLOP, us

H, HKV, D, N, P = 16, 4, 64, 4096, 8


def test_the_ingress_is_the_other_ranks_keys_or_the_own_rows():
    many_keys, few_keys = Attention(H, H, D, N, N), Attention(H, 1, D, N, N)

    assert least_ingress(many_keys, Mesh(cp=P)) == H * D * N // P * 2  # out, in bfloat16
    assert least_ingress(few_keys, Mesh(cp=P)) == 2 * D * N * (P - 1) // P * 2
    assert least_ingress(many_keys, Mesh(cp=1, tp=P)) == 0


def test_under_a_causal_mask_the_average_query_needs_half_of_the_keys():
    # contiguous: rank i needs the keys of i others, (P-1) / 2 on average, and of its own those below the diagonal
    causal = Attention(H, 1, D, N, N, mask="causal")

    assert least_ingress(causal, Mesh(cp=P)) == pytest.approx(2 * D * N // P * 2 * (P - 1) / 2, rel=1 / N)


@pytest.mark.parametrize("tp, heads, kv_heads", [(1, H, HKV), (2, H // 2, HKV // 2), (16, 1, 1)])
def test_tensor_parallel_ranks_receive_their_heads_only(tp, heads, kv_heads):
    others = kv_heads * 2 * D * N * (P - 1) // P * 2
    own = heads * D * N // P * 2

    assert least_ingress(Attention(H, HKV, D, N, N), Mesh(cp=P, tp=tp)) == min(others, own)


def test_a_state_narrower_than_the_activations_is_what_is_written():
    wide = Attention(H, HKV, D, N, N, dtype="float32", state_dtype="float32")
    narrow = Attention(H, HKV, D, N, N, dtype="float32", state_dtype="bfloat16")

    assert least_memory(wide) - least_memory(narrow) == H * D * N * 2
    assert least_ingress(narrow, Mesh(cp=P)) == H * D * N // P * 2


def test_the_cut_is_what_a_machine_must_receive_through_its_nics():
    # two machines of eight, each with half of the keys, and NICs of 400 Gb/s a GPU
    problem, mesh = Attention(H, HKV, D, N, N), Mesh(cp=16)
    others, own = 2 * HKV * D * N // 2 * 2, H * D * N // 2 * 2

    least = cut(problem, mesh, Site(dgx_h100(2)))

    assert least == pytest.approx(min(others, own) / (8 * 50 * GB))
    assert bound(problem, mesh, Site(dgx_h100(2))).limits["cut"] == least


@pytest.mark.parametrize(
    "axes, nodes, placement",
    [
        ({"cp": 8}, 1, range(8)),  # one machine
        ({"cp": 8, "tp": 2}, 2, range(16)),  # a machine may have all tokens of half of the heads
        ({"cp": 8, "dp": 2}, 2, range(16)),
        ({"cp": 9}, 2, range(9)),  # eight and one
    ],
)
def test_where_machines_are_not_alike_there_is_no_cut(axes, nodes, placement):
    problem = Attention(H, HKV, D, N, N, batch=2)

    assert "cut" not in bound(problem, Mesh(**axes), Site(dgx_h100(nodes), placement=placement)).limits


@st.composite
def cases(draw):
    """Draw an algorithm, a problem it may serve and a mesh: GQA, MLA, cached keys, decode, tp above kv_heads, dp."""
    phase, name = draw(st.sampled_from([(phase, name) for name in names() for phase in find(name)]))
    new = draw(st.integers(1, 4) if phase == "decode" else st.integers(1, 300))
    latent = draw(st.booleans()) and phase != "train"
    problem = Attention(
        heads=16,
        kv_heads=1 if latent else draw(st.sampled_from([1, 2, 4, 16])),
        head_dim=16,
        head_dim_v=8 if latent else 16,
        shared_kv=latent,
        query_len=new,
        key_len=new + draw(st.integers(0, 0 if phase == "train" else 500)),
        batch=2,
        mask=draw(st.sampled_from(["full", "causal"])),
        layout=draw(st.sampled_from(["contiguous", "zigzag", "striped"])),
        phase=phase,
        state_dtype=draw(st.sampled_from(["float32", "bfloat16"])),
    )
    sizes = draw(st.sampled_from([(1, 4), (2, 2), (4, 1), (2, 4)]))
    program = find(name)[phase]
    shape = {1: [sizes[0] * sizes[1]], 2: sizes, 3: [sizes[0] * sizes[1] // 4, 2, 2]}[len(program.axes)]
    axes = dict(zip(program.axes, shape, strict=True))
    tp, dp = draw(st.sampled_from([1, 2, 8])), draw(st.sampled_from([1, 2]))
    return program, problem, Mesh(dp=dp, **axes, tp=tp)


MACHINES = [
    lambda p: switch(p, 1 * GB, 1 * us, 1000 * TFLOP),
    lambda p: switch(p, 1e6 * GB, 0.0, 1 * TFLOP),
    lambda p: dgx_h100(-(-p // 8)),
]


@given(cases(), st.sampled_from(MACHINES))
def test_no_exact_schedule_is_faster(case, machine):
    program, problem, mesh = case
    try:
        schedule = program(problem, mesh)
    except Inapplicable:
        return
    site = Site(machine(mesh.size), placement=range(mesh.size))

    assert simulate(schedule, site).makespan >= bound(problem, mesh, site).seconds * (1 - 1e-12)


@given(cases(), st.data())
def test_no_exact_schedule_is_faster_on_any_cluster_under_any_placement(case, data):
    program, problem, mesh = case
    try:
        schedule = program(problem, mesh)
    except Inapplicable:
        return
    graph = data.draw(clusters(mesh.size))
    order = data.draw(st.sampled_from(["identity", "snake", "rail", "shuffle:3"]))
    site = Site(graph, placement=placed(order, graph, mesh.size))

    least = bound(problem, mesh, site)

    assert simulate(schedule, site).makespan >= least.seconds * (1 - 1e-12), least


def test_what_nobody_sees_need_not_be_read():
    decode = {"query_len": 1, "key_len": 10_000, "phase": "decode"}
    whole, window = Attention(8, 2, 64, **decode), Attention(8, 2, 64, **decode, mask="window:100")

    query = 8 * 64 * 2 * 2  # q and out
    assert least_memory(whole) == query + 2 * 10_000 * 2 * 64 * 2
    assert least_memory(window) == query + 2 * 100 * 2 * 64 * 2


@pytest.mark.parametrize("mask", ["window:64", "documents:512*8", "full,documents:512*8"])
def test_nothing_is_known_of_what_must_be_received_under_a_window_or_documents(mask):
    # contiguous shards of 512 tokens: each document is on its own rank, and a window needs 63 keys of the rank before
    problem = Attention(H, H, D, 4096, 4096, mask=mask)

    assert least_ingress(problem, Mesh(cp=8)) == 0
