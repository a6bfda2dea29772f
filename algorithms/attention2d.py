"""ATTENTION2D: each rank of an R x C grid computes one tile of the scores."""

from algorithms.ir import Attention, Partial, Rank, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.permute import permute
from algorithms.ops.reduce_scatter import reduce_scatter


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
