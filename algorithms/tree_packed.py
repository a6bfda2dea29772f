"""Tree decoding with the numerator and denominator reduced as one message: two collectives."""

from algorithms.ir import Attention, Partial, Rank, spmd
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.normalise import normalise
from algorithms.ops.weigh import weigh


@spmd("cp", phase="decode")
def tree_packed(me: Rank, problem: Attention) -> Partial:
    """Attend the new queries to each rank's keys, and reduce in two collectives.

    Shapes:
        per rank: q (n, B*H, D), k, v (m_i, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H), the same on all ranks.
    Cost:
        all-reduces of n*B*H and n*B*H*(D+1) elements of the state dtype: one latency less than tree.
    References:
        Shyam et al. 2024. arXiv:2408.04093, Algorithm 3; the sums travel together.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(p)[i])

    part = attend(q, k, v)
    top = all_reduce(part.lse, over="cp", op="max")
    num, den = all_reduce(*weigh(part, top), over="cp", op="sum")
    return normalise(num, den, top)
