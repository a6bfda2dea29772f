"""Tree decoding by recursive doubling: in round k a rank exchanges its state with the rank 2^k away, and both merge."""

from algorithms.ir import Attention, Partial, Rank, spmd, where
from algorithms.ops.attend import attend
from algorithms.ops.join import join
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.only import only
from algorithms.ops.permute import permute


@spmd("cp", phase="decode")
def tree_doubling(me: Rank, problem: Attention) -> Partial:
    """Attend the new queries to each rank's keys, and merge with a partner log2 P times.

    Where P is no power of two, the ranks beyond the greatest hand their states over first, and are told the result.

    Shapes:
        per rank: q (n, B*H, D), k, v (m_i, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H), the same on all ranks.
    Cost:
        log2 P exchanges of n*B*H * (D+1) elements of the state dtype: the fewest steps, not the fewest bytes. Of any
        P, floor(log2 P) exchanges among the greatest power of two, and one more before and after for those beyond.
    References:
        Shyam et al. 2024. arXiv:2408.04093, Algorithm 3, its reductions as the butterfly of Thakur, Rabenseifner,
        Gropp. "Optimization of Collective Communication Operations in MPICH." 2005, with whole states merged.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(p)[i])
    core = 1 << (p.bit_length() - 1)  # the greatest power of two
    extra = p - core
    across = where(i < extra, i + core, where(i >= core, i - core, i))

    part = attend(q, k, v)
    if extra:
        part = merge(part, Partial(*permute(*only(*part, where=i >= core), over="cp", to=across)))
    for bit in (1 << k for k in range(core.bit_length() - 1)):
        partner = where(i // bit % 2 == 0, i + bit, i - bit)  # i XOR bit
        to = where(i < core, partner, i) if extra else partner
        part = merge(part, Partial(*permute(*only(*part, where=i < core), over="cp", to=to)))
    if extra:
        told = permute(*only(*part, where=i < extra), over="cp", to=across)
        part = Partial(*join(only(*part, where=i < core), told))
    return part
