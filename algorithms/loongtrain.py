"""LoongTrain: heads split over some of the ranks, a ring of rings over the others."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.all_to_all import split_heads, split_tokens
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.repeat_heads import repeat_heads
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.ops.sum_heads import sum_heads
from algorithms.rings import attend_passing, differentiate_passing, of_keys
from algorithms.ulysses import kv_copies


@spmd("outer", "inner", "head", nested=("outer", "inner"), layouts=("documents", "zigzag", "contiguous"))
def loongtrain(me: Rank, problem: Attention) -> Partial:
    """Attend H/u heads of a ring block of u shards, keys passing around W inner rings of w ranks.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        with r = W * w: sends (u-1)/u * (N/P) * B * (2H + 2Hkv) * D elements to the head group, W * (w-1) blocks of
        2 * B * (Hkv/u) * (N/r) * D to the inner ring and W-1 to the outer; KV heads are copied where u exceeds them.
    Raises:
        Inapplicable: u does not divide the heads.
    References:
        Gu et al. "LoongTrain: Efficient Training of Long-Sequence LLMs with Head-Context Parallelism." 2024.
        arXiv:2406.18485: 2D-Attention with Double-Ring-Attention.
    """
    (o, i, a), (W, w, u) = me.coords, me.sizes
    n = (a * W + o) * w + i  # shard number: as in usp, those that a ring place gathers are W * w apart
    q, k, v = load(me, problem, problem.queries(W * w * u)[n], problem.keys(W * w * u)[n])
    mine = q

    k, v = repeat_heads(k, v, times=kv_copies(problem, u, me.mesh.axes.get("tp", 1)))
    q, k, v = split_heads(q, k, v, over="head")
    part = attend_passing(q, k, v, rings=[("outer", W), ("inner", w)])
    return Partial(*split_tokens(*part, over="head", like=mine))


@spmd("outer", "inner", "head", nested=("outer", "inner"), phase="train", layouts=("documents", "zigzag", "contiguous"))
def loongtrain_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then exchange heads of do, send keys through all rings again, and exchange back.

    Shapes:
        as loongtrain, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v; no lse.
    Cost:
        backward sends (u-1)/u * (N/P) * B * D elements for each head of do and dq and each copy of a head of dk and
        dv to the head group; of blocks of 2 * B * (Hkv/u) * (N/r) * D elements W * (w-1) of keys and W * w of gradients
        to the inner ring, W-1 of keys and W of gradients to the outer. Forward as loongtrain, but for lse, which stays.
        Gradients have communicators of their own, as in the authors' code; what comes from outside is added at the end
        of an inner tour, not at its start as there, so that it has a tour to arrive in: the same bytes, less waiting.
    Raises:
        Inapplicable: u does not divide the heads.
    References:
        Gu et al. 2024. arXiv:2406.18485; InternEvo's zigzag_ring_flash_attn_with_sliding_window.
    """
    (o, i, a), (W, w, u) = me.coords, me.sizes
    n = (a * W + o) * w + i
    mine, keys, values = load(me, problem, problem.queries(W * w * u)[n], problem.keys(W * w * u)[n])
    copies, rings = kv_copies(problem, u, me.mesh.axes.get("tp", 1)), [("outer", W), ("inner", w)]

    q, k, v = split_heads(mine, *repeat_heads(keys, values, times=copies), over="head")
    part = sink(attend_passing(q, k, v, rings=rings))
    out = split_tokens(part.out, over="head", like=mine)

    do = split_heads(load_gradient(me, problem, mine.tokens), over="head")
    tile = of_keys(q, do, part.lse, d := delta(do, part.out))
    (dq,), (dk, dv) = differentiate_passing((k, v), tile, rings, lane=1)
    dq = split_tokens(dq, over="head", like=mine)
    dk, dv = sum_heads(*split_tokens(dk, dv, over="head", like=keys), times=copies)
    sinks = sink_gradients(part.lse, d, over=("outer", "inner", "head"), heads="head", like=mine)
    return {"out": out, "dq": dq, "dk": dk, "dv": dv, **sinks}
