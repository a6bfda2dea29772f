"""Tree decoding in two levels: states are reduced inside the node, slices of them across nodes."""

from algorithms.ir import Attention, Partial, Rank, require, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.reduce_scatter import reduce_scatter


@spmd("node", "local", nested=("node", "local"), phase="decode")
def tree_two_level(me: Rank, problem: Attention) -> Partial:
    """Attend the new queries to each rank's keys; merge by heads in the node, each part across nodes, and gather.

    Whole states are merged, which takes an operator of one's own: libraries sum, as tree_packed does.

    Shapes:
        per rank: q (n, B*H, D), k, v (m_i, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H), the same on all ranks.
    Cost:
        of a state S = n*B*H*(D+1) elements and g ranks a node: S (g-1)/g twice inside the node, and across L nodes
        2 (L-1)/L * S/g a rank when the all-reduce goes in a ring. Only the slice meets the slow links.
    Raises:
        Inapplicable: the ranks of a node do not divide the heads: then nobody's slice is whole heads.
    References:
        Shyam et al. 2024. arXiv:2408.04093: reduced in the node first, as its library chooses; here it is written out.
    """
    (n, i), (nodes, g) = me.coords, me.sizes
    require(me.heads % g == 0, f"local={g} does not divide the {me.heads} query heads that a node's ranks share")
    q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(nodes * g)[n * g + i])

    part = attend(q, k, v)
    mine = reduce_scatter(part, over="local", op="merge", by="heads")
    mine = all_reduce(mine, over="node", op="merge")
    return Partial(*all_gather(*mine, over="local", by="heads"))
