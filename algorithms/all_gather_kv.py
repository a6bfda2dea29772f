"""All-gather KV: every rank gathers all keys and values and attends its own queries to them."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients


@spmd("cp", layouts=("documents", "zigzag", "striped", "contiguous"))
def all_gather_kv(me: Rank, problem: Attention) -> Partial:
    """Attend rank i's queries to all keys in one call.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (P-1) * 2 * B * Hkv * (N/P) * D elements, none of it hidden; holds all keys and values.
    References:
        Llama Team. "The Llama 3 Herd of Models." 2024. arXiv:2407.21783, section 3.3.2.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])

    k, v = all_gather(k, v, over="cp")
    return attend(q, k, v)


@spmd("cp", phase="train", layouts=("documents", "zigzag", "striped", "contiguous"))
def all_gather_kv_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then gather again for the backward pass and reduce the gradients of the keys.

    Shapes:
        as all_gather_kv, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward sends (P-1) shards of keys and values and (P-1) of their gradients, each of 2 * B * Hkv * (N/P) * D
        elements; 10 * B * H * D FLOP a visible pair. Only own shards are kept between the passes.
    References:
        Llama Team. 2024. arXiv:2407.21783; gathering again as ring-flash-attention's llama3 functions do.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])

    part = sink(attend(q, *all_gather(k, v, over="cp", buffers=1)))

    do = load_gradient(me, problem, q.tokens)
    d = delta(do, part.out)
    keys, values = all_gather(k, v, over="cp", buffers=1)  # where the forward pass had them
    dq, dk, dv = attend_backward(q, keys, values, do, part.lse, d)
    dk, dv = reduce_scatter((dk, dv), over="cp", op="sum", like=k)
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(part.lse, d, over="cp")}
