"""The proof is sharp for masks, scores and sinks: each way in which they go wrong on ranks shows, by a wide margin."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.halo import Halo
from algorithms.ir import Attention, Mesh, Partial, ScheduleError, Value, spmd
from algorithms.ir.laws import check
from algorithms.ir.mask import Mask
from algorithms.ops import sink as sink_op
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute
from algorithms.ops.sink import sink
from algorithms.ring import ring_attention, ring_attention_train
from algorithms.ulysses import ulysses
from executor import interpret, local
from executor.arrays import random_inputs
from executor.exact import judge, reference, shares
from executor.kernels import find

MESH = Mesh(ring=4)
MARGIN = 1e6
BACKWARD, FORWARD = {"dq", "dk", "dv"}, {"out", "lse"}
PACKED = (9, 1, 14, 8)


def posed(phase="train", **changes):
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 8, "query_len": 32, "key_len": 32, "mask": "causal"}
    kept = dict.fromkeys(("dtype", "state_dtype", "grad_dtype"), "float64")
    return Attention(**sizes | kept | {"phase": phase} | changes)


def run_shares(schedule, kernel="numpy", large=None):
    problem, arrays = schedule.problem, random_inputs(schedule.problem)
    if large is not None:
        arrays["sinks"] = np.full_like(arrays["sinks"], large)
    return shares(schedule, local.run(schedule, arrays, kernel=kernel).results, reference(problem, arrays))


class Faulty:
    """NumPy's kernel, with another mask or score in one of its functions."""

    def __init__(self, where, mask=lambda mask: mask, score=lambda score: score):
        self.where, self.mask, self.score = where, mask, score

    def attend(self, q, k, v, rows, cols, mask, score):
        return find("numpy").attend(q, k, v, rows, cols, *self.changed("forward", mask, score))

    def attend_backward(self, q, k, v, do, lse, delta, rows, cols, mask, score):
        changed = self.changed("backward", mask, score)
        return find("numpy").attend_backward(q, k, v, do, lse, delta, rows, cols, *changed)

    def changed(self, where, mask, score):
        return (self.mask(mask), self.score(score)) if where == self.where else (mask, score)


def wider(by):
    return lambda mask: replace(mask, window=mask.window + by)


def moved(mask):
    first, second, *rest = mask.documents
    return replace(mask, documents=(first + 1, second + 1, rest[0] - 2, *rest[1:]))


MASKS = {
    "window": Mask(True, 7),
    "documents": Mask(True, 0, PACKED),
    "documents, all inside": Mask(False, 0, PACKED),
    "window in documents": Mask(True, 5, PACKED),
}
MOVED = [("window", wider(1)), ("window", wider(-1)), ("window in documents", wider(1))]
MOVED += [(name, moved) for name in list(MASKS)[1:]]
LAYOUTS = ["contiguous", "zigzag", "striped", "documents"]


@pytest.fixture(params=["forward", "backward"])
def where(request):
    return request.param


def assert_shows(found, names):
    assert min(found[name] for name in names) > MARGIN, found


DEALT = [
    (name, layout) for name, mask in MASKS.items() for layout in LAYOUTS if mask.documents or layout != "documents"
]


@pytest.mark.parametrize("name, layout", DEALT)
def test_without_a_fault_nothing_shows(name, layout):
    problem = posed(mask=MASKS[name], layout=layout, softcap=1.0, alibi=True, sinks=True)

    assert max(run_shares(ring_attention_train(problem, MESH)).values()) <= 1


@pytest.mark.parametrize("layout", ["contiguous", "striped"])
@pytest.mark.parametrize("name, mask", MOVED, ids=[f"{name}-{k}" for k, (name, _) in enumerate(MOVED)])
def test_an_edge_off_by_one_shows(name, mask, layout, where):
    schedule = ring_attention_train(posed(mask=MASKS[name], layout=layout), MESH)

    names = FORWARD if where == "forward" else BACKWARD
    assert_shows(run_shares(schedule, Faulty(where, mask=mask)), names)


SCORES = {
    "no cap": ({"softcap": 1.0}, lambda score: score._replace(softcap=0.0)),
    "no bias": ({"alibi": True}, lambda score: score._replace(slopes=None)),
    "slope of another head": ({"alibi": True}, lambda score: score._replace(slopes=np.roll(score.slopes, 1))),
    "slopes of another number of heads": ({"alibi": True}, lambda score: score._replace(slopes=score.slopes**2)),
}


@pytest.mark.parametrize("fault", SCORES)
def test_another_logit_shows(fault, where):
    changes, wrong = SCORES[fault]
    schedule = ring_attention_train(posed(layout="zigzag", **changes), MESH)

    names = FORWARD if where == "forward" else BACKWARD
    assert_shows(run_shares(schedule, Faulty(where, score=wrong)), names)


def test_slopes_of_the_heads_that_a_rank_would_have_without_ulysses_show(monkeypatch):
    # every rank takes the slopes of the first heads
    schedule = ulysses(posed("prefill", alibi=True), Mesh(ulysses=4))
    assert max(run_shares(schedule).values()) <= 1
    right = interpret.score_of
    monkeypatch.setattr(interpret, "score_of", lambda op, heads: right(op, lambda v: np.arange(v.type.width[0])))

    assert_shows(run_shares(schedule), FORWARD)


# -- sinks ---------------------------------------------------------------------------------------------------


def ring_sunk(times):
    """A ring that merges the sinks so often, and the check that the tracer does not do so too."""

    @spmd("ring", phase="train")
    def body(me, problem):
        schedule = ring_attention_train.body(me, problem)
        part = Partial(schedule["out"], schedule["lse"])
        for _ in range(times - 1):
            part = sink(part)
        return {**schedule, **part._asdict()}

    return body


def without_sinks(schedule):
    """The schedule, its sinks taken for states that weigh nothing."""
    ops = []
    for op in schedule.ops:
        if op.kind == "sink":
            a, b = (Value(x.id, y.type, y.tokens, y.heads) for x, y in zip(op.outputs, op.inputs[:2], strict=True))
            ops.append(replace(op, kind="merge", inputs=(*op.inputs[:2], *op.inputs[:2]), params={}, outputs=(a, b)))
        else:
            ops.append(op)
    return replace(schedule, ops=tuple(ops))


@pytest.mark.parametrize("large", [None, 80.0, -80.0])
@pytest.mark.parametrize("phase", ["prefill", "train"])
def test_a_sink_is_exact_however_large(phase, large):
    program = ring_attention if phase == "prefill" else ring_attention_train
    schedule = program(posed(phase, sinks=True, layout="striped", batch=2), MESH)

    check(schedule)
    assert max(run_shares(schedule, large=large).values()) <= 1


@pytest.mark.parametrize("large", [None, 80.0])
def test_a_sink_merged_twice_breaks_the_law_and_shows(large):
    schedule = ring_sunk(2)(posed(sinks=True), MESH)

    with pytest.raises(ScheduleError, match=r"^S8: .* has not met every key and the sink exactly once"):
        check(schedule)
    found = run_shares(schedule, large=large)
    assert found["lse"] > MARGIN
    assert found["out"] > (MARGIN if large is None else 0)  # nothing is left of the output beside a sink of 80
    assert max(run_shares(ring_sunk(1)(posed(sinks=True), MESH), large=large).values()) <= 1


@pytest.mark.parametrize("large", [None, 80.0])
def test_a_sink_that_is_forgotten_breaks_the_law_and_shows(large, monkeypatch):
    problem = posed("prefill", sinks=True)
    monkeypatch.setattr(sink_op, "sink", lambda part: part)
    schedule = ring_attention(problem, MESH)

    with pytest.raises(ScheduleError, match=r"^S8: .* has not met every key and the sink exactly once"):
        check(schedule)
    assert_shows(run_shares(schedule, large=large), FORWARD)


def test_a_sink_merged_on_every_hop_breaks_the_law():
    @spmd("ring")
    def every_hop(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
        part = attend(q, k, v)
        for _ in range(1, p):
            k, v = permute(k, v, over="ring", shift=1)
            part = merge(part, sink(attend(q, k, v)))
        return part

    with pytest.raises(ScheduleError, match=r"^S8: .* has not met every key and the sink exactly once"):
        check(every_hop(posed("prefill", sinks=True), MESH))


def test_gradients_of_sinks_that_one_rank_keeps_to_itself_show(monkeypatch):
    schedule = ring_attention_train(posed(sinks=True, layout="zigzag"), MESH)
    assert run_shares(schedule)["dsinks"] <= 1
    reduced = next(op for op in schedule.ops if op.kind == "all_reduce")
    kept = replace(schedule, results={**schedule.results, "dsinks": reduced.inputs[0]})

    with pytest.raises(ScheduleError, match=r"^S8: .* result dsinks of rank 0 has not met every query"):
        check(kept)
    arrays = random_inputs(kept.problem)
    verdict = judge(kept, local.run(kept, arrays).results, reference(kept.problem, arrays))
    assert verdict.share > MARGIN
    assert verdict.result == "dsinks"


# -- the halo ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["prefill", "train"])
@pytest.mark.parametrize("mask", [Mask(True, 7), Mask(True, 17), Mask(True, 9), Mask(True, 0, (20, 12))])
def test_a_hop_too_few_breaks_the_law_and_shows(mask, phase, monkeypatch):
    from algorithms import ring

    program = ring_attention if phase == "prefill" else ring_attention_train
    problem = posed(phase, mask=mask)
    check(program(problem, MESH))
    halo = ring.halo
    monkeypatch.setattr(ring, "halo", lambda *of: Halo(halo(*of).hops - 1, halo(*of).ahead))
    schedule = program(problem, MESH)

    with pytest.raises(ScheduleError, match=r"^S8: .* has not met every key exactly once"):
        check(schedule)
    assert_shows(run_shares(schedule), FORWARD)


@pytest.mark.parametrize("by", [-1, 2])
def test_keys_trimmed_for_other_queries_break_the_law(by, monkeypatch):
    from algorithms import ring

    halo, problem = ring.halo, posed("prefill", mask=Mask(True, 9))
    monkeypatch.setattr(
        ring, "halo", lambda problem, i, p: Halo(halo(problem, i, p).hops, problem.queries(p)[(i + by) % p])
    )

    with pytest.raises(ScheduleError, match=r"^S8: .* has not met every key exactly once"):
        check(ring_attention(problem, MESH))
