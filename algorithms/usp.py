"""USP: Ulysses over some of the ranks, a ring over the others."""

from algorithms.ir import Attention, Partial, Rank, spmd
from algorithms.ops.all_to_all import split_heads, split_tokens
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute
from algorithms.ops.repeat_heads import repeat_heads
from algorithms.ulysses import kv_copies


@spmd("ring", "ulysses", layouts=("zigzag", "contiguous"))
def usp(me: Rank, problem: Attention) -> Partial:
    """Attend H/u heads of a ring block of u shards, keys passing around the ring.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (u-1)/u * (N/P) * B * (2H + 2Hkv) * D elements to the Ulysses group and
        (r-1) * 2 * B * (Hkv/u) * (N/r) * D to the ring.
    Raises:
        Inapplicable: u does not divide the heads.
    References:
        Fang, Zhao. "USP: A Unified Sequence Parallelism Approach." 2024. arXiv:2405.07719.
    """
    (i, a), (r, u) = me.coords, me.sizes
    n = a * r + i  # shard number: the shards a ring place gathers are r apart, so that zigzag stays balanced
    q, k, v = load(me, problem, problem.queries(r * u)[n], problem.keys(r * u)[n])
    mine = q

    k, v = repeat_heads(k, v, times=kv_copies(problem, u, me.mesh.axes.get("tp", 1)))
    q, k, v = split_heads(q, k, v, over="ulysses")
    part = attend(q, k, v)
    for _ in range(1, r):
        k, v = permute(k, v, over="ring", shift=1)
        part = merge(part, attend(q, k, v))
    return Partial(*split_tokens(*part, over="ulysses", like=mine))
