"""Ring Attention: queries stay, keys and values travel around a ring, as far as some query sees them."""

from collections.abc import Mapping

from algorithms.halo import Halo, halo
from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.add import add
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute
from algorithms.ops.seen import seen
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.ops.widen import widen

LAYOUTS = ("documents", "zigzag", "striped", "contiguous")


@spmd("ring", layouts=LAYOUTS)
def ring_attention(me: Rank, problem: Attention) -> Partial:
    """Attend rank i's queries to every key, one passing block at a time.

    Under a window contiguous shards send on what the next rank sees of them, as far as it reaches.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (P-1) * 2 * B * Hkv * (N/P) * D elements; 4 * B * H * D FLOP a visible pair. Under a window of W tokens
        and contiguous shards, 2 * B * Hkv * (W-1) * D.
    References:
        Liu, Zaharia, Abbeel. "Ring Attention with Blockwise Transformers for
        Near-Infinite Context." 2023. arXiv:2310.01889, Algorithm 1.
        Layouts: zigzag as in ring-flash-attention; Brandon et al. "Striped Attention." 2023. arXiv:2311.09431.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    near = halo(problem, i, p)

    part = attend(q, k, v)
    for _ in range(near.hops):
        k, v = permute(*seen(k, v, by=near.ahead), over="ring", shift=1)
        part = merge(part, attend(q, k, v))
    return part


@spmd("ring", phase="train", layouts=LAYOUTS)
def ring_attention_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then send keys round once more with the gradients that follow them home.

    Shapes:
        as ring_attention, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward sends P-1 blocks of keys and values and P of their gradients, each of 2 * B * Hkv * (N/P) * D
        elements; 10 * B * H * D FLOP a visible pair. Under a window, both of what some query sees.
    References:
        Liu, Zaharia, Abbeel. 2023. arXiv:2310.01889; the gradient ring as in ring-flash-attention.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = mine = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    near = halo(problem, i, p)

    part = attend(q, k, v)
    for _ in range(near.hops):
        k, v = permute(*seen(k, v, by=near.ahead), over="ring", shift=1)
        part = merge(part, attend(q, k, v))
    part = sink(part)

    do = load_gradient(me, problem, q.tokens)
    d = delta(do, part.out)
    gradients = _around if near.ahead is None else _and_straight_home
    dq, dk, dv = gradients(mine, do, part.lse, d, near)
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(part.lse, d, over="ring")}


Block = tuple[Value, Value, Value]


def _around(mine: Block, do: Value, lse: Value, d: Value, near: Halo) -> Block:
    """Gradients travel all the way round with the keys that they are of."""
    q, k, v = mine
    dq, dk, dv = attend_backward(q, k, v, do, lse, d)
    for _ in range(near.hops):
        k, v = permute(k, v, over="ring", shift=1)  # first, or the gradients would hold up the next keys
        dk, dv = permute(dk, dv, over="ring", shift=1)
        dq, dk, dv = add((dq, dk, dv), attend_backward(q, k, v, do, lse, d))
    if near.hops:
        dk, dv = permute(dk, dv, over="ring", shift=1)  # one step short of home
    return dq, dk, dv


def _and_straight_home(mine: Block, do: Value, lse: Value, d: Value, near: Halo) -> Block:
    """Gradients of the keys that a rank saw of another go back to it at once."""
    q, k, v = mine
    dq, dk, dv = attend_backward(q, k, v, do, lse, d)
    for hop in range(1, near.hops + 1):
        k, v = permute(*seen(k, v, by=near.ahead), over="ring", shift=1)
        more, *far = attend_backward(q, k, v, do, lse, d)
        home = widen(*permute(*far, over="ring", shift=-hop, lane=1), to=mine[1])
        dq, dk, dv = add((dq, dk, dv), (more, *home))
    return dq, dk, dv
