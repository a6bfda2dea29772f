"""All-gather KV by head: keys and values are gathered one KV head after another, each while the one before is used."""

from collections.abc import Iterator, Mapping
from typing import Any

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import Gradients, attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.join_heads import join_heads
from algorithms.ops.load import load, load_gradient
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.ops.take_heads import take_heads

LAYOUTS = ("documents", "zigzag", "striped", "contiguous")
Pair = tuple[Value, Value]


@spmd("cp", layouts=LAYOUTS)
def all_gather_kv_heads(me: Rank, problem: Attention) -> Partial:
    """Attend rank i's queries to all keys, one KV head and the query heads that share it at a time.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (P-1) * 2 * B * Hkv * (N/P) * D elements, all but the first head's hidden if a head takes longer to attend
        than to gather; holds all keys and values of two of the Hkv KV heads.
    References:
        Llama Team. "The Llama 3 Herd of Models." 2024. arXiv:2407.21783, section 3.3.2; by head as the
        heads_k_stride of ring-flash-attention's llama3 functions.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])

    return streamed(q, k, v, kv_heads(me, problem))


@spmd("cp", phase="train", layouts=LAYOUTS)
def all_gather_kv_heads_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then gather head by head again while the gradients of the head before are reduced.

    Shapes:
        as all_gather_kv_heads, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward sends (P-1) shards of keys and values and (P-1) of their gradients, each of 2 * B * Hkv * (N/P) * D
        elements; 10 * B * H * D FLOP a visible pair. Holds all keys of two KV heads, their gradients of three.
    References:
        Llama Team. 2024. arXiv:2407.21783; by head as in ring-flash-attention's llama3 functions.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    groups = kv_heads(me, problem)

    part = sink(streamed(q, k, v, groups))

    do = load_gradient(me, problem, q.tokens)
    d = delta(do, part.out)
    tiles, reduced = list[Gradients](), list[Pair]()
    home: Pair | None = None
    for j, (keys, values) in enumerate(arriving(k, v, groups)):
        if j:
            reduced.append(reduce_scatter(tiles[-1][1:], over="cp", op="sum", like=k))  # behind the next head's keys
        if j > 1:
            home = joined(home, reduced[j - 2])  # before another takes its place
        side = nth(j, groups, q, do, part.lse, d)
        tiles.append(attend_backward(side[0], keys, values, *side[1:]))
    reduced.append(reduce_scatter(tiles[-1][1:], over="cp", op="sum", like=k))
    for last in reduced[-2:]:
        home = joined(home, last)
    dq, (dk, dv) = join_heads(*(tile.dq for tile in tiles)), home or reduced[0]
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(part.lse, d, over="cp")}


def joined(home: Pair | None, more: Pair) -> Pair:
    """Join the gradients of one more group of heads to those that are home, if any are."""
    if home is None:
        return more
    dk = join_heads(home[0], more[0])
    return dk, dk if more[0] is more[1] else join_heads(home[1], more[1])


def streamed(q: Value, k: Value, v: Value, groups: int) -> Partial:
    """Attend head after head, and put the heads together."""
    parts = [attend(nth(j, groups, q), *keys) for j, keys in enumerate(arriving(k, v, groups))]
    return Partial(*(join_heads(*heads) for heads in zip(*parts, strict=True)))


def arriving(k: Value, v: Value, groups: int) -> Iterator[Pair]:
    """Yield all keys and values of each group of heads; the next is on its way while one is used."""
    ahead = all_gather(*nth(0, groups, k, v), over="cp", buffers=2)
    for j in range(groups):
        here = ahead
        if j + 1 < groups:
            ahead = all_gather(*nth(j + 1, groups, k, v), over="cp", buffers=2)
        yield here


def kv_heads(me: Rank, problem: Attention) -> int:
    """KV heads of a rank's job: groups of equal numbers of heads, the batch folded in."""
    return max(1, problem.kv_heads // me.mesh.axes.get("tp", 1))


def nth(j: int, groups: int, *xs: Value) -> Any:
    """The j-th of so many groups of heads."""
    count = xs[0].type.width[0] // groups
    return take_heads(*xs, first=j * count, count=count)
