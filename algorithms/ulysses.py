"""Ulysses: an all-to-all turns shards of the sequence into shards of the heads, and back."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, require, spmd
from algorithms.ops.all_to_all import split_heads, split_tokens
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.repeat_heads import repeat_heads
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.ops.sum_heads import sum_heads


def kv_copies(problem: Attention, u: int, tp: int) -> int:
    """How often each KV head must be copied so that u ranks get one each; refuse what does not divide."""
    heads, kv_heads = problem.heads // tp, max(1, problem.kv_heads // tp)
    require(heads % u == 0, f"ulysses degree {u} does not divide the {heads} query heads of a rank")
    require(kv_heads % u == 0 or u % kv_heads == 0, f"ulysses degree {u} and {kv_heads} KV heads do not divide")
    return max(1, u // kv_heads)


@spmd("ulysses", layouts=("contiguous",))
def ulysses(me: Rank, problem: Attention) -> Partial:
    """Attend all queries to all keys for H/P heads a rank.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (P-1)/P * (N/P) * B * (2H + 2Hkv) * D elements; KV heads are copied where P exceeds them.
    Raises:
        Inapplicable: P does not divide the heads.
    References:
        Jacobs et al. "DeepSpeed Ulysses." 2023. arXiv:2309.14509.
    """
    (i,), (u,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(u)[i], problem.keys(u)[i])
    mine = q

    k, v = repeat_heads(k, v, times=kv_copies(problem, u, me.mesh.axes.get("tp", 1)))
    q, k, v = split_heads(q, k, v, over="ulysses")
    part = attend(q, k, v)
    return Partial(*split_tokens(*part, over="ulysses", like=mine))


@spmd("ulysses", phase="train", layouts=("contiguous",))
def ulysses_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then exchange the gradient of the output one way and those of q, k, v the other.

    Shapes:
        as ulysses, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v; no lse.
    Cost:
        backward sends (P-1)/P * (N/P) * B * D elements for each head of do and dq and each copy of a head of dk and
        dv; copies are summed at home. Forward as ulysses, but for lse, which stays. A rank keeps q, k, v, out and
        lse of its heads between the passes, as DeepSpeed and yunchang do: the kernel saves what it was given.
    Raises:
        Inapplicable: P does not divide the heads.
    References:
        Jacobs et al. 2023. arXiv:2309.14509.
    """
    (i,), (u,) = me.coords, me.sizes
    mine, keys, values = load(me, problem, problem.queries(u)[i], problem.keys(u)[i])
    copies = kv_copies(problem, u, me.mesh.axes.get("tp", 1))

    q, k, v = split_heads(mine, *repeat_heads(keys, values, times=copies), over="ulysses")
    part = sink(attend(q, k, v))
    out = split_tokens(part.out, over="ulysses", like=mine)

    do = split_heads(load_gradient(me, problem, mine.tokens), over="ulysses")
    dq, dk, dv = attend_backward(q, k, v, do, part.lse, d := delta(do, part.out))
    dq = split_tokens(dq, over="ulysses", like=mine)
    dk, dv = sum_heads(*split_tokens(dk, dv, over="ulysses", like=keys), times=copies)
    sinks = sink_gradients(part.lse, d, over="ulysses", heads="ulysses", like=mine)
    return {"out": out, "dq": dq, "dk": dk, "dv": dv, **sinks}
