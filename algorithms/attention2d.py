"""ATTENTION2D: each rank of an R x C grid computes one tile of the scores."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.permute import permute
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients


@spmd("row", "col", layouts=("striped",))
def attention2d(me: Rank, problem: Attention) -> Partial:
    """Attend Q_r to K_c, V_c on rank (r, c), then merge along each row.

    Shapes:
        per rank: q (n, B*H, D), k, v (m, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H).
    Cost:
        per rank, of N/RC tokens: sends (C-1) blocks of q and of (out, lse), (R-1) of k, v, and one of k, v to
        the transposed place; 4 * B * H * D FLOP a visible pair, an equal share under a causal mask when striped.
    References:
        Elango. "ATTENTION2D: Communication Efficient Distributed Self-Attention
        Mechanism." 2025. arXiv:2503.15758, Algorithm 1 (the form that is not overlapped).
    """
    (r, c), (R, C) = me.coords, me.sizes
    n = c * R + r  # column-major shard number
    q, k, v = load(me, problem, problem.queries(R * C)[n], problem.keys(R * C)[n])
    mine = q

    if R > 1 and C > 1:
        k, v = permute(k, v, over=("row", "col"), to=n)  # so that every tile is an equal share under a causal mask
    q = all_gather(q, over="col")  # Q_r: N/R queries, one copy per rank of row r
    k, v = all_gather(k, v, over="row")  # K_c, V_c: N/C keys, one copy per rank of column c
    return Partial(*reduce_scatter(attend(q, k, v), over="col", op="merge", like=mine))


@spmd("row", "col", phase="train", layouts=("striped",))
def attention2d_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then gather both sides of the tile again and reduce the gradients along rows and columns.

    Shapes:
        as attention2d, and do (n, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward, per rank, of N/RC tokens: sends (C-1) blocks of q, do, lse and delta and of dq, (R-1) of k, v and of
        dk, dv, and one of dk, dv to the transposed place; 10 * B * H * D FLOP a visible pair. Between the passes a
        rank keeps its own shards, k and v as transposed.
    References:
        Elango. 2025. arXiv:2503.15758; the backward pass is our reconstruction.
    """
    (r, c), (R, C) = me.coords, me.sizes
    n = c * R + r  # column-major shard number
    q, k, v = load(me, problem, problem.queries(R * C)[n], problem.keys(R * C)[n])

    if R > 1 and C > 1:
        k, v = permute(k, v, over=("row", "col"), to=n)
    tile = attend(all_gather(q, over="col"), *all_gather(k, v, over="row", buffers=1))
    part = sink(Partial(*reduce_scatter(tile, over="col", op="merge", like=q)))

    do = load_gradient(me, problem, q.tokens)
    sides = all_gather(q, do, part.lse, d := delta(do, part.out), over="col")
    keys, values = all_gather(k, v, over="row", buffers=1)  # where the forward pass had them
    dq, dk, dv = attend_backward(sides[0], keys, values, *sides[1:])
    dk, dv = reduce_scatter((dk, dv), over="row", op="sum", like=k)
    dq = reduce_scatter([dq], over="col", op="sum", like=q)
    if R > 1 and C > 1:
        dk, dv = permute(dk, dv, over=("col", "row"), to=r * C + c)  # home
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(part.lse, d, over=("row", "col"))}
