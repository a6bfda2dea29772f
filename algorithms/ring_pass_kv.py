"""Ring decoding: every rank has the new queries, keys and values pass around. The baseline of tree decoding."""

from algorithms.ir import Attention, Partial, Rank, spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute


@spmd("cp", phase="decode")
def ring_pass_kv(me: Rank, problem: Attention) -> Partial:
    """Attend the new queries, present on all ranks, to each block of keys as it comes by.

    Shapes:
        per rank: q (n, B*H, D), k, v (m_i, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H), on all ranks up to rounding.
    Cost:
        sends (P-1) * 2 * B * Hkv * (M/P) * D elements, which grows with the context; holds the own block and one more
        of two ranks, two more of more: a block is sent on while the next comes. Every rank does all of the work.
    References:
        Shyam et al. 2024. arXiv:2408.04093, as the baseline: 4 b t d + 2 b d elements at its peak.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(p)[i])

    part = attend(q, k, v)
    for _ in range(1, p):
        k, v = permute(k, v, over="cp", shift=1)
        part = merge(part, attend(q, k, v))
    return part
