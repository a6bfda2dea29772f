"""Tree decoding: keys stay where they are, and three all-reduces merge what the ranks saw."""

from algorithms.ir import Attention, Partial, Rank, spmd
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.normalise import normalise
from algorithms.ops.weigh import weigh


@spmd("cp", phase="decode")
def tree_decode(me: Rank, problem: Attention) -> Partial:
    """Attend the new queries, present on all ranks, to each rank's keys, and reduce.

    Shapes:
        per rank: q (n, B*H, D), k, v (m_i, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H), the same on all ranks.
    Cost:
        three all-reduces of n*B*H, n*B*H and n*B*H*D elements of the state dtype.
    References:
        Shyam et al. "Tree Attention: Topology-aware Decoding for Long-Context
        Attention on GPU clusters." 2024. arXiv:2408.04093, Algorithm 3.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(p)[i])

    part = attend(q, k, v)
    top = all_reduce(part.lse, over="cp", op="max")
    num, den = weigh(part, top)
    den = all_reduce(den, over="cp", op="sum")
    num = all_reduce(num, over="cp", op="sum")
    return normalise(num, den, top)
