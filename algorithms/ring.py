"""Ring Attention: queries stay, keys and values travel around a ring."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.add import add
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute


@spmd("ring", layouts=("zigzag", "striped", "contiguous"))
def ring_attention(me: Rank, problem: Attention) -> Partial:
    """Attend rank i's queries to every key, one passing block at a time.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (P-1) * 2 * B * Hkv * (N/P) * D elements; 4 * B * H * D FLOP a visible pair.
    References:
        Liu, Zaharia, Abbeel. "Ring Attention with Blockwise Transformers for
        Near-Infinite Context." 2023. arXiv:2310.01889, Algorithm 1.
        Layouts: zigzag as in ring-flash-attention; Brandon et al. "Striped Attention." 2023. arXiv:2311.09431.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])

    part = attend(q, k, v)
    for _ in range(1, p):
        k, v = permute(k, v, over="ring", shift=1)
        part = merge(part, attend(q, k, v))
    return part


@spmd("ring", phase="train", layouts=("zigzag", "striped", "contiguous"))
def ring_attention_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then send keys round once more with the gradients that follow them home.

    Shapes:
        as ring_attention, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward sends P-1 blocks of keys and values and P of their gradients, each of 2 * B * Hkv * (N/P) * D
        elements; 10 * B * H * D FLOP a visible pair.
    References:
        Liu, Zaharia, Abbeel. 2023. arXiv:2310.01889; the gradient ring as in ring-flash-attention.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = mine = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])

    part = attend(q, k, v)
    for _ in range(1, p):
        k, v = permute(k, v, over="ring", shift=1)
        part = merge(part, attend(q, k, v))

    _, k, v = mine
    do = load_gradient(me, problem, q.tokens)
    d = delta(do, part.out)
    dq, dk, dv = attend_backward(q, k, v, do, part.lse, d)
    for _ in range(1, p):
        k, v = permute(k, v, over="ring", shift=1)  # first, or the gradients would hold up the next keys
        dk, dv = permute(dk, dv, over="ring", shift=1)
        dq, dk, dv = add((dq, dk, dv), attend_backward(q, k, v, do, part.lse, d))
    if p > 1:
        dk, dv = permute(dk, dv, over="ring", shift=1)  # one step short of home
    return {"out": part.out, "lse": part.lse, "dq": dq, "dk": dk, "dv": dv}
