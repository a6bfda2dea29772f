"""Ulysses: an all-to-all turns shards of the sequence into shards of the heads, and back."""

from algorithms.ir import Attention, Partial, Rank, require, spmd
from algorithms.ops.all_to_all import split_heads, split_tokens
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.repeat_heads import repeat_heads


def kv_copies(problem: Attention, u: int, tp: int) -> int:
    """How often each KV head must be copied so that u ranks get one each; refuse what does not divide."""
    heads, kv_heads = problem.heads // tp, max(1, problem.kv_heads // tp)
    require(heads % u == 0, f"ulysses degree {u} does not divide the {heads} query heads of a rank")
    require(kv_heads % u == 0 or u % kv_heads == 0, f"ulysses degree {u} and {kv_heads} KV heads do not divide")
    return max(1, u // kv_heads)


@spmd("ulysses", layouts=("contiguous",))
def ulysses(me: Rank, problem: Attention) -> Partial:
    """Attend all queries to all keys for H/P heads a rank.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (P-1)/P * (N/P) * B * (2H + 2Hkv) * D elements; KV heads are copied where P exceeds them.
    Raises:
        Inapplicable: P does not divide the heads.
    References:
        Jacobs et al. "DeepSpeed Ulysses." 2023. arXiv:2309.14509.
    """
    (i,), (u,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(u)[i], problem.keys(u)[i])
    mine = q

    k, v = repeat_heads(k, v, times=kv_copies(problem, u, me.mesh.axes.get("tp", 1)))
    q, k, v = split_heads(q, k, v, over="ulysses")
    part = attend(q, k, v)
    return Partial(*split_tokens(*part, over="ulysses", like=mine))
