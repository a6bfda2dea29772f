"""TASP: ring attention on as many rings at once as a full mesh has, each of which uses links of its own."""

from collections.abc import Mapping, Sequence

from algorithms.ir import Attention, Partial, Rank, Value, require, spmd
from algorithms.ir.parts import in_parts
from algorithms.ops.add import add
from algorithms.ops.attend import attend
from algorithms.ops.attend_backward import attend_backward
from algorithms.ops.cut_rows import cut_rows
from algorithms.ops.delta import delta
from algorithms.ops.join import join
from algorithms.ops.load import load, load_gradient
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.ways import hamilton

LAYOUTS = ("documents", "zigzag", "striped", "contiguous")
Pair = Sequence[Value]  # of keys and values, or of their gradients


@spmd("ring", layouts=LAYOUTS)
def tasp(me: Rank, problem: Attention) -> Partial:
    """Attend rank i's queries to every key; part c of each block goes round cycle c of the ranks.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (n_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends what ring sends, (P-1) * 2 * B * Hkv * (N/P) * D elements, as much over every link of a full mesh.
    Raises:
        Inapplicable: 4, 6 or more than 72 ranks, whose links are not such cycles, or not known to be.
    References:
        Wang, Hong, Li, Xu, Wang, Dai, Wang. "TASP: Topology-aware Sequence Parallelism." 2025. arXiv:2509.26541.
    """
    return _attended(me, *_loaded(me, problem))


@spmd("ring", phase="train", layouts=LAYOUTS)
def tasp_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then send keys round once more with the gradients that follow them home.

    Shapes:
        as tasp, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        sends what ring sends.
    References:
        arXiv:2509.26541 has the forward pass; the gradients travel as in ring.
    """
    (p,) = me.sizes
    q, k, v = _loaded(me, problem)
    parts, part = max(1, p - 1), sink(_attended(me, q, k, v))

    do = load_gradient(me, problem, q.tokens)
    d = delta(do, part.out)
    dq, dk, dv = attend_backward(q, k, v, do, part.lse, d)
    blocks, sums = cut_rows(k, v, parts=parts), cut_rows(dk, dv, parts=parts)
    for _ in range(1, p):
        blocks = _round(me, blocks)  # first, or the gradients would hold up the next keys
        sums = _round(me, sums)
        ks, vs = join(*blocks)
        tile = attend_backward(q, ks, vs, do, part.lse, d)
        (dq,) = add([dq], [tile.dq])
        sums = [add(one, more) for one, more in zip(sums, cut_rows(tile.dk, tile.dv, parts=parts), strict=True)]
    if p > 1:
        dk, dv = join(*_round(me, sums))  # one step short of home
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(part.lse, d, over="ring")}


def _loaded(me: Rank, problem: Attention) -> tuple[Value, Value, Value]:
    """A rank's shards; of the keys, each part has its share of every run, so that under a mask all are equal work."""
    (i,), (p,) = me.coords, me.sizes
    _cycles(me)
    return load(me, problem, problem.queries(p)[i], in_parts(problem.keys(p)[i], max(1, p - 1)))


def _attended(me: Rank, q: Value, k: Value, v: Value) -> Partial:
    (p,) = me.sizes
    part, blocks = attend(q, k, v), cut_rows(k, v, parts=max(1, p - 1))
    for _ in range(1, p):
        blocks = _round(me, blocks)
        ks, vs = join(*blocks)
        part = merge(part, attend(q, ks, vs))
    return part


def _round(me: Rank, blocks: Sequence[Pair]) -> list[Pair]:
    """Send part c on along cycle c."""
    pairs = zip(blocks, _cycles(me), strict=True)
    return [permute(*block, over="ring", shift=1, along=cycle, lane=c) for c, (block, cycle) in enumerate(pairs)]


def _cycles(me: Rank) -> Sequence[Sequence[int]]:
    (p,) = me.sizes
    require(not (reason := hamilton.why_not(p)), reason)
    return hamilton.cycles(p)
