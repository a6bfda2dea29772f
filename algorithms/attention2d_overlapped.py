"""ATTENTION2D, overlapped: the tile of attention2d, worked through as its blocks arrive instead of gathered first."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.permute import permute
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.tiles import attend_tile, differentiate_tile


@spmd("row", "col", layouts=("striped",))
def attention2d_overlapped(me: Rank, problem: Attention) -> Partial:
    """Attend own queries to K/V blocks coming along the column, then queries coming along the row to all of them.

    Shapes:
        per rank: q (n, B*H, D), k, v (m, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H).
    Cost:
        per rank, of N/RC tokens: sends what attention2d sends, hop by hop: (R-1) blocks of k, v, (C-1) of q and of
        (out, lse), and one of k, v to the transposed place. Holds R blocks of k, v, two of q and three of results.
        4 * B * H * D FLOP a visible pair, in R + C - 1 calls of the kernel.
    References:
        Elango. "ATTENTION2D: Communication Efficient Distributed Self-Attention
        Mechanism." 2025. arXiv:2503.15758, Algorithms 4 to 6 (the overlapped form, here on any R x C).
    """
    (r, c), (R, C) = me.coords, me.sizes
    n = c * R + r  # column-major shard number
    q, k, v = load(me, problem, problem.queries(R * C)[n], problem.keys(R * C)[n])

    if R > 1 and C > 1:
        k, v = permute(k, v, over=("row", "col"), to=n)  # so that every tile is an equal share under a causal mask
    return attend_tile(q, k, v, queries=("col", C), keys=("row", R), whole=True)


@spmd("row", "col", phase="train", layouts=("striped",))
def attention2d_overlapped_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then let both sides of the tile arrive again, and pass all gradients home.

    Shapes:
        as attention2d_overlapped, and do (n, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward, per rank, of N/RC tokens: sends (R-1) blocks of k, v and R of dk, dv, (C-1) of q, do, lse and delta
        and of dq, and one of dk, dv to the transposed place; 10 * B * H * D FLOP a visible pair, in 2 R + C - 2 calls
        of the kernel. Holds R blocks of k, v and of dk, dv.
    References:
        Elango. 2025. arXiv:2503.15758; the backward pass is our reconstruction: own queries meet keys as they come,
        then others' queries all keys, with dq behind them; the last of those meet them block by block, with dk, dv
        leaving behind.
    """
    (r, c), (R, C) = me.coords, me.sizes
    n = c * R + r  # column-major shard number
    q, k, v = load(me, problem, problem.queries(R * C)[n], problem.keys(R * C)[n])

    if R > 1 and C > 1:
        k, v = permute(k, v, over=("row", "col"), to=n)
    part = sink(attend_tile(q, k, v, queries=("col", C), keys=("row", R), whole=True))

    do = load_gradient(me, problem, q.tokens)
    side = (q, do, part.lse, d := delta(do, part.out))
    (dq,), (dk, dv) = differentiate_tile(side, k, v, queries=("col", C), keys=("row", R), whole=True)
    if R > 1 and C > 1:
        dk, dv = permute(dk, dv, over=("col", "row"), to=r * C + c)  # home
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(part.lse, d, over=("row", "col"))}
