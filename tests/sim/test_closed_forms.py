"""Simulated seconds equal formulas derived by hand, on graphs where no two flows share a link."""

import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim.simulate import simulate
from topologies.basic import fully_connected, ring
from topologies.units import GB, TFLOP, us

REGIMES = pytest.mark.parametrize(
    "flop_rate, bandwidth",
    [(1 * TFLOP, 1000 * GB), (1000 * TFLOP, 1 * GB)],
    ids=["compute-bound", "network-bound"],
)
LATENCY = 1 * us
H, HKV, D, N = 8, 2, 128, 4032  # 4032 = 64 * 63: every grid below divides it


def attend(rows: int, cols: int, flop_rate: float) -> float:
    return 4 * H * D * rows * cols / flop_rate


@REGIMES
@pytest.mark.parametrize("p", [1, 2, 3, 7, 8])
def test_ring_time_is_the_longer_of_computing_and_carrying(p, flop_rate, bandwidth):
    # compute-bound  attend|attend|attend|attend|       P attends
    #                hop-|   hop-|   hop-|
    # network-bound  hop---------|hop---------|hop---------|attend|    P-1 hops, 1 attend
    one = attend(N // p, N // p, flop_rate)
    hop = LATENCY + 2 * HKV * (N // p) * D * 2 / bandwidth

    timeline = simulate(
        find("ring")["prefill"](Attention(H, HKV, D, N, N), Mesh(ring=p)),
        ring(p, bandwidth, LATENCY, flop_rate),
    )

    assert timeline.makespan == pytest.approx(max(p * one, (p - 1) * hop + one), rel=1e-12)


@REGIMES
@pytest.mark.parametrize("p", [3, 8])
def test_contiguous_causal_ring_waits_for_its_last_rank(p, flop_rate, bandwidth):
    # rank P-1 sees every block whole, and its own below the diagonal: n (n + 1) / 2 pairs
    #   attend diagonal|attend|attend|...     the last rank's blocks come P-1, P-2, ..., 0
    n = N // p
    diagonal, full = 4 * H * D * n * (n + 1) / 2 / flop_rate, attend(n, n, flop_rate)
    hop = LATENCY + 2 * HKV * n * D * 2 / bandwidth
    when = diagonal
    for step in range(1, p):
        when = max(when, step * hop) + full

    schedule = find("ring")["prefill"](Attention(H, HKV, D, N, N, mask="causal"), Mesh(ring=p))
    timeline = simulate(schedule, ring(p, bandwidth, LATENCY, flop_rate))

    assert timeline.makespan == pytest.approx(when, rel=1e-12)


@REGIMES
@pytest.mark.parametrize("side", [3, 4, 6])
def test_attention2d_gathers_computes_and_reduces(side, flop_rate, bandwidth):
    # row and column rings and the transpose use cables of their own, so
    #   q gather over col   hop|hop|..|
    #   k, v                transpose|hop|hop|..|attend|         then out, lse over col: hop|hop|..|
    p, n = side * side, N // side // side * side * side  # a length the grid divides
    block = n // p
    q_hop = LATENCY + H * block * D * 2 / bandwidth
    kv_hop = LATENCY + 2 * HKV * block * D * 2 / bandwidth
    out_hop = LATENCY + H * block * (D + 1) * 4 / bandwidth
    gathered = max((side - 1) * q_hop, kv_hop + (side - 1) * kv_hop)
    expected = gathered + attend(n // side, n // side, flop_rate) + (side - 1) * out_hop

    schedule = find("attention2d")["prefill"](Attention(H, HKV, D, n, n), Mesh(row=side, col=side))
    timeline = simulate(schedule, fully_connected(p, bandwidth, LATENCY, flop_rate))

    assert timeline.makespan == pytest.approx(expected, rel=1e-12)


@REGIMES
@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("name, collectives", [("tree", [1, 1, D]), ("tree_packed", [1, 1 + D])])
def test_tree_time_is_one_attend_and_its_all_reduces(name, collectives, p, flop_rate, bandwidth):
    # attend|  all-reduce lse|  all-reduce den|  all-reduce num|     each 2 (P-1) hops of a P-th of the elements
    problem = Attention(H, HKV, D, 1, N * 8, phase="decode")
    expected = attend(1, N * 8 // p, flop_rate)
    for width in collectives:
        expected += 2 * (p - 1) * (LATENCY + H * width // p * 4 / bandwidth)

    timeline = simulate(find(name)["decode"](problem, Mesh(cp=p)), ring(p, bandwidth, LATENCY, flop_rate))

    assert timeline.makespan == pytest.approx(expected, rel=1e-12)


STATE, OUT, LSE = H * (D + 1) * 4, H * D * 4, H * 4  # bytes of one query's partial state, in float32
GATHERED_Q = [(7, H * D * 2 // 8), (7, LSE), (7, OUT // 8)]


@REGIMES
@pytest.mark.parametrize(
    "name, axes, steps",
    [
        ("helix", {"cp": 8}, [(1, STATE // 8)]),  # attend|exchange|
        ("tree_doubling", {"cp": 8}, [(3, STATE)]),  # attend|state|state|state|
        ("tree_doubling", {"cp": 6}, [(1 + 2 + 1, STATE)]),  # two hand over first, and are told last
        ("gather_q", {"cp": 8}, GATHERED_Q),  # q|..|attend|lse|..|out|..|
        ("tree_two_level", {"node": 2, "local": 4}, [(3, STATE // 4), (2, STATE // 8), (3, STATE // 4)]),
    ],
)
def test_decode_time_is_one_attend_and_the_steps_of_its_collectives(name, axes, steps, flop_rate, bandwidth):
    mesh = Mesh(**axes)
    schedule = find(name)["decode"](Attention(H, HKV, D, 1, N * mesh.size, phase="decode"), mesh)
    expected = attend(1, N, flop_rate) + sum(count * (LATENCY + nbytes / bandwidth) for count, nbytes in steps)

    timeline = simulate(schedule, fully_connected(mesh.size, bandwidth, LATENCY, flop_rate))

    assert timeline.makespan == pytest.approx(expected, rel=1e-12)


@REGIMES
def test_ring_backward_sends_keys_before_gradients(flop_rate, bandwidth):
    # the keys of step t+1 leave while step t is differentiated; the gradients of step t leave when it is done
    p, n = 4, N // 4
    kv_hop = LATENCY + 2 * HKV * n * D * 2 / bandwidth
    grad_hop = LATENCY + 2 * HKV * n * D * 4 / bandwidth
    forward, backward = attend(n, n, flop_rate), 2.5 * attend(n, n, flop_rate)
    # forward: as the ring above. The backward's first keys are there already; its stream is in order:
    # keys 1 | (grads 0) | keys 2 | (grads 1) | ...
    compute, stream = 0.0, 0.0
    keys_there = [0.0]
    for _ in range(1, p):
        stream = max(stream, 0.0) + kv_hop
        keys_there.append(stream)
    for step in range(p):
        compute = max(compute, keys_there[step]) + forward
    stream += kv_hop  # the backward's first keys: posted as soon as the stream is free
    compute += backward
    for step in range(1, p):
        keys_at = stream
        start = max(compute, keys_at)
        grads_home = max(stream, compute) + grad_hop
        stream = grads_home + (kv_hop if step < p - 1 else 0.0)
        compute = max(start + backward, grads_home)
    expected = max(stream, compute) + grad_hop

    schedule = find("ring")["train"](Attention(H, HKV, D, N, N, phase="train"), Mesh(ring=p))
    timeline = simulate(schedule, ring(p, bandwidth, LATENCY, flop_rate))

    assert timeline.makespan == pytest.approx(expected, rel=1e-12)


@REGIMES
@pytest.mark.parametrize("p", [2, 3, 7, 8])
def test_tasp_carries_a_block_in_parts_over_all_links_of_a_full_mesh_at_once(p, flop_rate, bandwidth):
    # as ring, but a hop carries 1/(P-1) of a block: P-1 hops take what one takes there, and the latency of each
    n = N // p
    one = attend(n, n, flop_rate)
    hop = LATENCY + 2 * HKV * n * D * 2 / (p - 1) / bandwidth

    timeline = simulate(
        find("tasp")["prefill"](Attention(H, HKV, D, N, N), Mesh(ring=p)),
        fully_connected(p, bandwidth, LATENCY, flop_rate),
    )

    assert timeline.makespan == pytest.approx(max(p * one, (p - 1) * hop + one), rel=1e-12)


@pytest.mark.parametrize("p", [2, 3, 4, 7, 8])
def test_distflash_hides_what_it_sends_and_what_comes_back_behind_its_tiles(p):
    #   rank 0     own|helps  |helps  |          own: half a tile; then P/2 tiles. Where somebody helps in the last
    #   back             |state--|state--|       step (odd P), its state has still to come home.
    #   owner      own|keys   |keys   |merge
    flop_rate, bandwidth, n = 1 * TFLOP, 1000 * GB, N // p
    own, full = 4 * H * D * n * (n + 1) / 2 / flop_rate, attend(n, n, flop_rate)
    state = LATENCY + H * n * (D + 1) * 4 / bandwidth

    timeline = simulate(
        find("distflash")["prefill"](Attention(H, HKV, D, n * p, n * p, mask="causal"), Mesh(cp=p)),
        fully_connected(p, bandwidth, LATENCY, flop_rate),
    )

    assert timeline.makespan == pytest.approx(own + p // 2 * full + state * (p % 2), rel=1e-12)


@pytest.mark.parametrize("p", [2, 3, 4, 7, 8])
def test_backward_distflash_does_too(p):
    flop_rate, bandwidth, n = 1 * TFLOP, 1000 * GB, N // p
    tiles = attend(n, n, flop_rate) * ((n + 1) / n / 2 + p // 2) * (1 + 2.5)
    state = LATENCY + H * n * (D + 1) * 4 / bandwidth
    keys, dq, dkv = (LATENCY + x * n * D / bandwidth for x in (2 * HKV * 2, H * 4, 2 * HKV * 4))
    lent = LATENCY + H * n * (2 * D * 2 + 2 * 4) / bandwidth  # queries, their gradients, lse and delta

    timeline = simulate(
        find("distflash")["train"](Attention(H, HKV, D, n * p, n * p, mask="causal", phase="train"), Mesh(cp=p)),
        fully_connected(p, bandwidth, LATENCY, flop_rate),
    )

    last = state * (p % 2) + max(dq * (p % 2), dkv)  # of the forward pass, and of the gradients of the last tile
    assert max(lent, keys) < tiles / 10
    assert timeline.makespan == pytest.approx(tiles + last, rel=1e-12)


@REGIMES
@pytest.mark.parametrize("p", [2, 4])
def test_keys_gathered_by_head_hide_behind_the_head_before(p, flop_rate, bandwidth):
    # compute-bound  head 0|attend  |attend  |      network-bound  head 0|head 1|      attend of the last
    #                      |head 1|                                             |attend|
    heads = 4
    one = attend(N // p, N, flop_rate) / heads
    gather = (p - 1) * (LATENCY + 2 * (N // p) * D * 2 / bandwidth)

    schedule = find("all_gather_kv_heads")["prefill"](Attention(H, heads, D, N, N), Mesh(cp=p))
    timeline = simulate(schedule, ring(p, bandwidth, LATENCY, flop_rate))

    assert timeline.makespan == pytest.approx(gather + one + (heads - 1) * max(gather, one), rel=1e-12)


@REGIMES
@pytest.mark.parametrize("side", [3, 4, 6])
def test_attention2d_backward_gathers_both_sides_again_and_reduces_both(side, flop_rate, bandwidth):
    # col  q       |        out, lse|q, do, lse, delta|        dq|
    # row  k, v    |                |k, v             |        dk, dv|home|
    #              |attend|                           |backward|            keys are on their way from attend's end on
    p, n = side * side, N // side // side * side * side
    block, hops = n // p, side - 1
    rows, cols = H * block, 2 * HKV * block * D

    def hop(nbytes):
        return LATENCY + nbytes / bandwidth

    forward = attend(n // side, n // side, flop_rate)
    tile = max(hops * hop(rows * D * 2), hop(cols * 2) * (1 + hops)) + forward
    merged = tile + hops * hop(rows * (D + 1) * 4)
    sides = merged + hops * hop(rows * (2 * D * 2 + 2 * 4))
    again = tile + hops * hop(cols * 2)
    done = max(sides, again) + 2.5 * forward
    expected = max(done + hops * hop(rows * D * 4), done + (hops + 1) * hop(cols * 4))

    schedule = find("attention2d")["train"](Attention(H, HKV, D, n, n, phase="train"), Mesh(row=side, col=side))
    timeline = simulate(schedule, fully_connected(p, bandwidth, LATENCY, flop_rate))

    assert timeline.makespan == pytest.approx(expected, rel=1e-12)


@REGIMES
@pytest.mark.parametrize("outer, inner", [(2, 2), (2, 4), (4, 2), (3, 3)])
def test_hops_between_inner_rings_hide_behind_the_tours_of_the_inner(outer, inner, flop_rate, bandwidth):
    # inner  1|2|..|   1|2|..|       a tour of w - 1 hops for each of W inner rings; the outer hop is there by then
    # outer  hop|      hop|          (with w = 2 it takes as long as the one hop of a tour)
    p = outer * inner
    n = N // p // p * p * p
    one = attend(n // p, n // p, flop_rate)
    hop = LATENCY + 2 * HKV * (n // p) * D * 2 / bandwidth

    schedule = find("burst")["prefill"](Attention(H, HKV, D, n, n), Mesh(outer=outer, inner=inner))
    timeline = simulate(schedule, fully_connected(p, bandwidth, LATENCY, flop_rate))

    compute_bound = one > hop
    assert timeline.makespan == pytest.approx(p * one if compute_bound else outer * (inner - 1) * hop + one, rel=1e-12)


@pytest.mark.parametrize(
    "name, across, along", [("mesh_attention", "q", "kv"), ("attention2d_overlapped", "col", "row")]
)
@pytest.mark.parametrize("a, b", [(2, 2), (3, 3), (4, 4)])
def test_of_a_tile_whose_blocks_take_long_all_hides_but_the_last_hop_of_results(name, across, along, a, b):
    # own queries meet keys as they come; others' queries are there by then, and what they gathered goes on while the
    # next meet theirs. ATTENTION2D's keys come from the transposed place first.
    p, flop_rate, bandwidth = a * b, 1 * TFLOP, 1000 * GB
    n = N // p // p * p * p
    result_hop = LATENCY + H * (n // p) * (D + 1) * 4 / bandwidth
    transposed = LATENCY + 2 * HKV * (n // p) * D * 2 / bandwidth if name == "attention2d_overlapped" else 0.0

    schedule = find(name)["prefill"](Attention(H, HKV, D, n, n), Mesh(**{across: a, along: b}))
    timeline = simulate(schedule, fully_connected(p, bandwidth, LATENCY, flop_rate))

    expected = transposed + p * attend(n // p, n // p, flop_rate) + result_hop
    assert timeline.makespan == pytest.approx(expected, rel=1e-12)
