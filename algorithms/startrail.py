"""StarTrail: teams share queries, keys pass along sub-rings: ATTENTION2D within a group of teams, a ring between."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.permute import permute
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.rings import attend_passing, differentiate_passing, of_queries


@spmd("ring", "group", "team", equal=("group", "team"), layouts=("documents", "zigzag", "striped"))
def startrail(me: Rank, problem: Attention) -> Partial:
    """Attend a team's queries to the keys of every P/Cs-th rank, passing by in blocks of Cs shards; merge in the team.

    Shapes:
        per rank: q (n, B*H, D), k, v (m, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H).
    Cost:
        per rank, of N/P tokens, with teams of Cs and P = A * Cs * Cs: sends Cs * (A-1) = (P - Cs^2) / Cs shards of k, v
        along its ring, (Cs-1) of k, v in its group, (Cs-1) of q and of (out, lse) in its team, and one of k, v to the
        transposed place, which the paper's initial placement has them at; 4 * B * H * D FLOP a visible pair.
    Raises:
        Inapplicable: group and team differ in size.
    References:
        Liu et al. "StarTrail: Concentric Ring Sequence Parallelism for Efficient Near-Infinite-Context
        Transformer Model Training." 2024. arXiv:2407.00611.
    """
    (a, g, m), (A, Cs, _) = me.coords, me.sizes
    n = (a * Cs + g) * Cs + m  # shard number
    q, k, v = load(me, problem, problem.queries(A * Cs * Cs)[n], problem.keys(A * Cs * Cs)[n])

    if Cs > 1:
        k, v = permute(k, v, over=("group", "team"), to=m * Cs + g)
    everyone = all_gather(q, over="team")
    k, v = all_gather(k, v, over="group")  # of the shards of team m, Cs copies in its group
    part = attend_passing(everyone, k, v, rings=[("ring", A)])
    return Partial(*reduce_scatter(part, over="team", op="merge", like=q))


@spmd("ring", "group", "team", phase="train", equal=("group", "team"), layouts=("documents", "zigzag", "striped"))
def startrail_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then pass a team's queries around the ring; keys and their gradients stay.

    Shapes:
        as startrail, and do (n, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward, per rank, of N/P tokens: sends Cs * (A-1) shards of q, do, lse and delta and Cs * A of dq along its
        ring, (Cs-1) of each of them in its team, (Cs-1) of k, v and of dk, dv in its group, and one of dk, dv to the
        transposed place; 10 * B * H * D FLOP a visible pair. dq has a communicator of its own along the ring.
    Raises:
        Inapplicable: group and team differ in size.
    References:
        Liu et al. 2024. arXiv:2407.00611: KV and their gradients stay; the order is our reconstruction.
    """
    (a, g, m), (A, Cs, _) = me.coords, me.sizes
    n, rings = (a * Cs + g) * Cs + m, [("ring", A)]
    q, k, v = load(me, problem, problem.queries(A * Cs * Cs)[n], problem.keys(A * Cs * Cs)[n])

    if Cs > 1:
        k, v = permute(k, v, over=("group", "team"), to=m * Cs + g)
    part = attend_passing(all_gather(q, over="team"), *all_gather(k, v, over="group", buffers=1), rings=rings)
    part = sink(Partial(*reduce_scatter(part, over="team", op="merge", like=q)))

    do = load_gradient(me, problem, q.tokens)
    side = all_gather(q, do, part.lse, d := delta(do, part.out), over="team")
    tile = of_queries(*all_gather(k, v, over="group", buffers=1))  # where the forward pass had them
    (dk, dv), (dq,) = differentiate_passing(side, tile, rings, lane=1)
    dk, dv = reduce_scatter((dk, dv), over="group", op="sum", like=k)
    dq = reduce_scatter([dq], over="team", op="sum", like=q)
    if Cs > 1:
        dk, dv = permute(dk, dv, over=("group", "team"), to=m * Cs + g)  # home
    return {
        **part._asdict(),
        "dq": dq,
        "dk": dk,
        "dv": dv,
        **sink_gradients(part.lse, d, over=("ring", "group", "team")),
    }
