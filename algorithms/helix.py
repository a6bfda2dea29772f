"""Helix: keys stay where they are, and one all-to-all brings each rank the partial states of its own heads."""

from algorithms.ir import Attention, Partial, Rank, require, spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.reduce_scatter import reduce_scatter


@spmd("cp", phase="decode")
def helix(me: Rank, problem: Attention) -> Partial:
    """Attend the new queries, present on all ranks, to each rank's keys, then exchange the states by head and merge.

    The result stays dealt by heads, which is how the projection after it wants it: the ranks split its rows.

    Shapes:
        per rank: q (n, B*H, D), k, v (m_i, B*Hkv, D) -> out (n, B*H/P, D), lse (n, B*H/P).
    Cost:
        sends (P-1)/P * n*B*H * (D+1) elements of the state dtype, as one all-to-all.
    Raises:
        Inapplicable: P does not divide the heads.
    References:
        Bhatia et al. "Helix Parallelism." 2025. arXiv:2507.07120; one all-to-all whatever the context.
    """
    (i,), (p,) = me.coords, me.sizes
    require(me.heads % p == 0, f"cp={p} does not divide the {me.heads} query heads, of which each rank keeps a part")
    q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(p)[i])

    return Partial(*reduce_scatter(attend(q, k, v), over="cp", op="merge", by="heads", way="direct"))
