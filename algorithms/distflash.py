"""DistFlashAttention: under a causal mask, ranks that have no keys left to see help those that have most."""

from collections.abc import Iterator, Mapping, Sequence

from algorithms.ir import Attention, Partial, Rank, Value, require, spmd
from algorithms.ops.add import add
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.delta import delta
from algorithms.ops.join import join
from algorithms.ops.load import load, load_gradient
from algorithms.ops.merge import merge
from algorithms.ops.only import only
from algorithms.ops.permute import permute
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients

Values = Sequence[Value]


@spmd("cp", layouts=("contiguous",))
def distflash(me: Rank, problem: Attention) -> Partial:
    """Attend a tile a step on every rank: its own queries to keys from below, or queries from above to its own keys.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (n_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        a tile a step in P/2 steps after the own one, 4 * B * H * D FLOP a visible pair; for even P half of the ranks
        are idle in the last, P/2 of P^2 tiles. In step t = 1 .. P/2 all ranks together send P - t blocks of keys and
        values of 2 * B * Hkv * (N/P) * D elements, and for t < P/2 t of queries and t of states, B * H * (N/P)
        * (2 D + 1): 3/8, 1/8 and 1/8 of P^2 in all.
    Raises:
        Inapplicable: a mask that is not causal, another layout, cached keys.
    References:
        Li et al. "DistFlashAttn: Distributed Memory-efficient Attention for Long-context LLMs Training." 2023.
        arXiv:2310.03294.
    """
    _check(problem)
    (i,), (p,) = me.coords, me.sizes
    return _forward(me, *load(me, problem, problem.queries(p)[i], problem.keys(p)[i]))


@spmd("cp", phase="train", layouts=("contiguous",))
def distflash_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then its tiles again: of their gradients, those of a rank's own rows stay.

    Shapes:
        as distflash, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward sends the same blocks of keys and values and as many of their gradients home; and for each query lent
        its gradient of the output, lse and delta too, B * H * (N/P) * (2 D + 2) elements there and D back.
    Raises:
        Inapplicable: as distflash.
    References:
        Li et al. 2023. arXiv:2310.03294; which gradients travel follows from which tiles do.
    """
    _check(problem)
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    part = sink(_forward(me, q, k, v))

    do = load_gradient(me, problem, q.tokens)
    rows = do, part.lse, delta(do, part.out)
    tiles = _tiles(me, (q, *rows), (k, v))
    next(tiles)
    total: Values = attend_backward(q, k, v, *rows)
    home: Values = ()
    for t, (qs, *theirs), (ks, vs) in tiles:
        dq, dk, dv = attend_backward(qs, ks, vs, *theirs)
        total = _added(total, home)
        if 2 * t < p:
            total = add(total, (*only(dq, where=i >= t), *only(dk, dv, where=i < t)))
            home = permute(*only(dq, where=i < t), *only(dk, dv, where=i >= t), over="cp", shift=-t, lane=1)
        else:
            total = *add(total[:1], [dq]), *total[1:]
            home = permute(dk, dv, over="cp", shift=-t, lane=1)
    dq, dk, dv = _added(total, home)
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(*rows[1:], over="cp")}


def _check(problem: Attention) -> None:
    require(problem.mask.causal, f"distflash balances a causal mask: mask is {problem.mask.short}")
    require(problem.layout == "contiguous", f"distflash deals tokens in the contiguous layout: got {problem.layout}")
    require(not problem.cached, f"distflash deals queries and keys alike: {problem.cached} keys are cached")


def _forward(me: Rank, q: Value, k: Value, v: Value) -> Partial:
    (i,), (p,) = me.coords, me.sizes
    tiles = _tiles(me, (q,), (k, v))
    next(tiles)
    part, home = attend(q, k, v), None
    for t, (qs,), (ks, vs) in tiles:
        tile = attend(qs, ks, vs)
        part = merge(part, home) if home else part  # of the step before: it came while this tile was attended
        part = merge(part, Partial(*only(*tile, where=i >= t)))
        helped = only(*tile, where=i < t)
        home = Partial(*permute(*helped, over="cp", shift=-t, lane=1)) if 2 * t < p else None
    return merge(part, home) if home else part


def _tiles(me: Rank, queries: Values, keys: Values) -> Iterator[tuple[int, Values, Values]]:
    """What a rank attends in each step, sent for before the step before: first its own queries to its own keys."""
    (p,) = me.sizes
    tile = queries, keys
    for t in range(p // 2 + 1):
        now, tile = tile, _tile(me, t + 1, queries, keys) if t < p // 2 else tile
        yield t, *now


def _tile(me: Rank, t: int, queries: Values, keys: Values) -> tuple[Values, Values]:
    """Rank i >= t attends its queries to the keys of rank i - t; i < t those of rank i - t + P to its own keys.

    At t = P/2 both would be the same tile: there nobody helps.
    """
    (i,), (p,) = me.coords, me.sizes
    own, lent = only(*queries, where=i >= t), only(*keys, where=i < p - t)
    if 2 * t == p:
        return own, permute(*lent, over="cp", shift=t)
    came = permute(*lent, *only(*queries, where=i >= p - t), over="cp", shift=t)
    theirs, asked = came[: len(keys)], came[len(keys) :]
    return join(own, asked), join(theirs, only(*keys, where=i < t))


def _added(total: Values, home: Values) -> Values:
    """Add what came home: all gradients, or the last ones."""
    kept = len(total) - len(home)
    return (*total[:kept], *add(total[kept:], home))
