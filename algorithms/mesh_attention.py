"""Mesh-Attention: each rank works through a tile of a x b blocks, passed along rings on both sides."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.tiles import attend_tile, differentiate_tile


@spmd("q", "kv", layouts=("documents", "zigzag", "striped"))
def mesh_attention(me: Rank, problem: Attention) -> Partial:
    """Attend a blocks of queries to b blocks of keys, a rank's own among both, and send results home.

    Shapes:
        per rank: q (n, B*H, D), k, v (m, B*Hkv, D) -> out (n, B*H, D), lse (n, B*H).
    Cost:
        per rank, of N/ab tokens: sends (b-1) blocks of k, v, and (a-1) of q and of (out, lse); with a = 1 this is a
        ring. Holds b blocks of k, v. 4 * B * H * D FLOP a visible pair, balanced by zigzag and striped layouts.
    References:
        Chen et al. "Mesh-Attention: A New Communication-Efficient Distributed Attention with Improved Data
        Locality." 2025. arXiv:2512.20968; in one fixed order, where the authors search for one.
    """
    (x, y), (a, b) = me.coords, me.sizes
    n = x * b + y  # Q shards of one y and KV shards of one x make a tile: the own pair is in it
    q, k, v = load(me, problem, problem.queries(a * b)[n], problem.keys(a * b)[n])

    return attend_tile(q, k, v, queries=("q", a), keys=("kv", b))


@spmd("q", "kv", phase="train", layouts=("documents", "zigzag", "striped"))
def mesh_attention_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then pass both sides again, and all gradients home.

    Shapes:
        as mesh_attention, and do (n, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward, per rank, of N/ab tokens: sends (b-1) blocks of k, v and b of dk, dv, and (a-1) of q, do, lse and
        delta and of dq; with a = 1 this is the backward pass of a ring. Holds b blocks of k, v and of dk, dv.
        10 * B * H * D FLOP a visible pair.
    References:
        Chen et al. 2025. arXiv:2512.20968; the order is ours.
    """
    (x, y), (a, b) = me.coords, me.sizes
    n = x * b + y
    q, k, v = load(me, problem, problem.queries(a * b)[n], problem.keys(a * b)[n])

    part = sink(attend_tile(q, k, v, queries=("q", a), keys=("kv", b)))

    do = load_gradient(me, problem, q.tokens)
    side = (q, do, part.lse, d := delta(do, part.out))
    (dq,), (dk, dv) = differentiate_tile(side, k, v, queries=("q", a), keys=("kv", b))
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(part.lse, d, over=("q", "kv"))}
