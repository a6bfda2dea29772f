"""USP: Ulysses over some of the ranks, a ring over the others."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.all_to_all import split_heads, split_tokens
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.repeat_heads import repeat_heads
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.ops.sum_heads import sum_heads
from algorithms.rings import attend_passing, differentiate_passing, of_keys
from algorithms.ulysses import kv_copies


@spmd("ring", "ulysses", layouts=("documents", "zigzag", "contiguous"))
def usp(me: Rank, problem: Attention) -> Partial:
    """Attend H/u heads of a ring block of u shards, keys passing around the ring.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (u-1)/u * (N/P) * B * (2H + 2Hkv) * D elements to the Ulysses group and
        (r-1) * 2 * B * (Hkv/u) * (N/r) * D to the ring.
    Raises:
        Inapplicable: u does not divide the heads.
    References:
        Fang, Zhao. "USP: A Unified Sequence Parallelism Approach." 2024. arXiv:2405.07719.
    """
    (i, a), (r, u) = me.coords, me.sizes
    n = a * r + i  # shard number: the shards a ring place gathers are r apart, so that zigzag stays balanced
    q, k, v = load(me, problem, problem.queries(r * u)[n], problem.keys(r * u)[n])
    mine = q

    k, v = repeat_heads(k, v, times=kv_copies(problem, u, me.mesh.axes.get("tp", 1)))
    q, k, v = split_heads(q, k, v, over="ulysses")
    part = attend_passing(q, k, v, rings=[("ring", r)])
    return Partial(*split_tokens(*part, over="ulysses", like=mine))


@spmd("ring", "ulysses", phase="train", layouts=("documents", "zigzag", "contiguous"))
def usp_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then exchange heads of do, send keys round again with their gradients, and exchange back.

    Shapes:
        as usp, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v; no lse.
    Cost:
        backward sends (u-1)/u * (N/P) * B * D elements for each head of do and dq and each copy of a head of dk and
        dv to the Ulysses group, and to the ring r-1 blocks of keys and values and r of their gradients, each of
        2 * B * (Hkv/u) * (N/r) * D elements. Forward as usp, but for lse, which stays. Between the passes a rank keeps
        q, k, v, out and lse of its heads, as yunchang does.
    Raises:
        Inapplicable: u does not divide the heads.
    References:
        Fang, Zhao. 2024. arXiv:2405.07719; the gradient ring as in ring-flash-attention.
    """
    (i, a), (r, u) = me.coords, me.sizes
    n = a * r + i
    mine, keys, values = load(me, problem, problem.queries(r * u)[n], problem.keys(r * u)[n])
    copies = kv_copies(problem, u, me.mesh.axes.get("tp", 1))

    q, k, v = split_heads(mine, *repeat_heads(keys, values, times=copies), over="ulysses")
    part = sink(attend_passing(q, k, v, rings=[("ring", r)]))
    out = split_tokens(part.out, over="ulysses", like=mine)

    do = split_heads(load_gradient(me, problem, mine.tokens), over="ulysses")
    tile = of_keys(q, do, part.lse, d := delta(do, part.out))
    (dq,), (dk, dv) = differentiate_passing((k, v), tile, rings=[("ring", r)])
    dq = split_tokens(dq, over="ulysses", like=mine)
    dk, dv = sum_heads(*split_tokens(dk, dv, over="ulysses", like=keys), times=copies)
    sinks = sink_gradients(part.lse, d, over=("ring", "ulysses"), heads="ulysses", like=mine)
    return {"out": out, "dq": dq, "dk": dk, "dv": dv, **sinks}
