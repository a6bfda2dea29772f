"""Gather Q: decode context parallelism as vLLM has it. Query heads are gathered, outputs scaled, summed and dealt."""

from algorithms.ir import Attention, Partial, Rank, require, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ops.share import share


@spmd("cp", phase="decode")
def gather_q(me: Rank, problem: Attention) -> Partial:
    """Gather the new queries of all heads, attend them to each rank's keys, and sum what each rank's keys add.

    A rank starts and ends with its own part of the heads, as the tensor-parallel projections around it have them.

    Shapes:
        per rank: q (n, B*H/P, D), k, v (m_i, B*Hkv, D) -> out (n, B*H/P, D), lse (n, B*H).
    Cost:
        sends (P-1)/P * n*B*H*D elements of q and as many of the state dtype, and (P-1) * n*B*H of lse: every rank's
        lse of all heads goes to every other. Three collectives.
    Raises:
        Inapplicable: P does not divide the heads.
    References:
        vLLM's decode context parallelism (`-dcp`), pull requests 23734 and 24864: all-gather, correct, reduce-scatter.
    """
    (i,), (p,) = me.coords, me.sizes
    require(me.heads % p == 0, f"cp={p} does not divide the {me.heads} query heads, of which each rank has a part")
    q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(p)[i], heads="cp")

    q = all_gather(q, over="cp", by="heads")
    part = attend(q, k, v)
    out, lse = share(part, all_gather(part.lse, over="cp", by="members"))
    return Partial(reduce_scatter([out], over="cp", op="sum", by="heads"), lse)
