"""Tree decoding by recursive doubling: in round k a rank exchanges its state with the rank 2^k away, and both merge."""

from algorithms.ir import Attention, Partial, Rank, require, spmd, where
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute


@spmd("cp", phase="decode")
def tree_doubling(me: Rank, problem: Attention) -> Partial:
    """Attend the new queries to each rank's keys, and merge with a partner log2 P times.

    Shapes:
        per rank: q (n, B*H, D), k, v (m_i, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H), the same on all ranks.
    Cost:
        log2 P exchanges of n*B*H * (D+1) elements of the state dtype: the fewest steps, not the fewest bytes.
    Raises:
        Inapplicable: P is no power of two: some rank would have no partner.
    References:
        Shyam et al. 2024. arXiv:2408.04093, Algorithm 3, its reductions as the butterfly of Thakur, Rabenseifner,
        Gropp. "Optimization of Collective Communication Operations in MPICH." 2005, with whole states merged.
    """
    (i,), (p,) = me.coords, me.sizes
    require(p & (p - 1) == 0, f"cp={p} is no power of two: some rank would have no partner to exchange with")
    q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(p)[i])

    part = attend(q, k, v)
    for bit in (1 << k for k in range(p.bit_length() - 1)):
        partner = where(i // bit % 2 == 0, i + bit, i - bit)  # i XOR bit
        part = merge(part, Partial(*permute(*part, over="cp", to=partner)))
    return part
