"""Ranks that hold different things: exact at any length and number of ranks, and what is not there is not sent."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import algorithms
from algorithms.ir import Attention, Mesh, ScheduleError, spmd
from algorithms.ir.alternatives import Only
from algorithms.ir.order import peak_bytes
from algorithms.ops.attend import attend
from algorithms.ops.cut_rows import cut_rows
from algorithms.ops.join import join
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.only import only
from algorithms.ops.permute import permute
from algorithms.tasp import _round
from algorithms.ways.transfers import sent_bytes
from executor import local
from executor.arrays import random_inputs
from tests.executor.drawn import judged

DOUBLE = {"dtype": "float64", "state_dtype": "float64", "grad_dtype": "float64"}


def proved(schedule, **options):
    """Run, and hold to dense attention, to the bytes of the schedule and to its memory."""
    ran, verdict = judged(schedule, local.run, ways={}, **options)
    assert verdict.share <= 1, verdict
    assert ran.sent.tolist() == [sent_bytes(op, schedule.mesh).tolist() for op in schedule.ops]
    assert ran.peak.tolist() == peak_bytes(schedule).tolist()
    return ran


@st.composite
def heads(draw):
    """Heads and widths: GQA, MQA, latent attention, values of another width."""
    kv_heads, shared, width = draw(st.sampled_from([1, 2])), draw(st.booleans()), draw(st.integers(1, 9))
    value = draw(st.integers(1, width if shared else 9))
    return {
        "heads": kv_heads * draw(st.sampled_from([1, 2, 3])),
        "kv_heads": kv_heads,
        "head_dim": width,
        "head_dim_v": value,
        "shared_kv": shared,
        "batch": draw(st.sampled_from([1, 2])),
    }


@settings(max_examples=30)
@given(st.integers(1, 17), st.integers(1, 90), heads(), st.sampled_from(["prefill", "train"]))
def test_distflash_equals_dense_attention(p, n, sizes, phase):
    problem = Attention(**sizes, query_len=n, key_len=n, mask="causal", phase=phase, **DOUBLE)

    proved(algorithms.find("distflash")[phase](problem, Mesh(cp=p)), kernel="numpy")


@settings(max_examples=30)
@given(
    st.sampled_from([1, 2, 3, 5, 7, 8, 9, 10, 12]),
    st.tuples(st.integers(1, 60), st.integers(0, 60)),
    heads(),
    st.sampled_from(["full", "causal"]),
    st.sampled_from(["zigzag", "striped", "contiguous"]),
    st.sampled_from(["prefill", "train"]),
)
def test_tasp_equals_dense_attention(p, lengths, sizes, mask, layout, phase):
    new, cached = lengths
    kinds = {"mask": mask, "layout": layout, "phase": phase}
    problem = Attention(**sizes, query_len=new, key_len=new + cached, **kinds, **DOUBLE)

    proved(algorithms.find("tasp")[phase](problem, Mesh(ring=p)), kernel="numpy")


def test_a_rank_holds_two_received_blocks_of_distflash_at_most_and_two_states_on_their_way():
    problem = Attention(4, 2, 8, 90, 90, mask="causal", **DOUBLE)

    assert proved(algorithms.find("distflash")["prefill"](problem, Mesh(cp=9))).received == 4


@pytest.mark.parametrize("p", [3, 4, 5])
def test_a_state_that_never_came_home_is_found(p, monkeypatch):
    monkeypatch.setattr("algorithms.distflash.permute", lambda *xs, **how: permute(*xs, **how | {"shift": 0}))
    problem = Attention(4, 2, 8, 30, 30, mask="causal", **DOUBLE)

    with pytest.raises(ScheduleError, match=r"^S6: merge joins rows of different tokens"):
        algorithms.find("distflash")["prefill"](problem, Mesh(cp=p))

    monkeypatch.undo()
    kept = merge
    monkeypatch.setattr("algorithms.distflash.merge", lambda a, b: a if came(b) else kept(a, b))
    assert judged(algorithms.find("distflash")["prefill"](problem, Mesh(cp=p)), local.run)[1].share > 1


def came(part):
    """Whether a state came by a permute: then its condition is of another rank."""
    return isinstance(part.out.tokens, Only) and "%" in str(part.out.tokens.condition)


def test_gradients_of_a_part_added_to_those_of_another_are_found(monkeypatch):
    monkeypatch.setattr("algorithms.tasp.cut_rows", lambda *xs, parts: cut_rows(*xs, parts=parts)[::-1])
    monkeypatch.setattr("algorithms.tasp._round", lambda me, blocks: _round(me, blocks[::-1]))
    problem = Attention(4, 2, 8, 30, 30, mask="causal", phase="train", **DOUBLE)

    with pytest.raises(ScheduleError, match=r"^S6: add joins rows of different tokens"):
        algorithms.find("tasp")["train"](problem, Mesh(ring=5))


@spmd("ring")
def swapped(me, problem):
    """Ranks below 2 attend to what the other half sends them, and the others to their own once more."""
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    part = attend(q, k, v)
    came = permute(*only(k, v, where=i >= 2), over="ring", shift=2)
    return merge(part, attend(q, *join(came, only(k, v, where=i >= 2))))


def test_each_rank_attends_to_the_alternative_that_it_has():
    # keys of ranks 2 and 3 are met by ranks 0 and 1; 2 and 3 meet theirs twice, which leaves out as it was.
    problem = Attention(4, 2, 8, 37, 41, **DOUBLE)
    schedule = swapped(problem, Mesh(ring=4))

    results = proved_rows(schedule)

    assert [x.shape[0] for x in results] == [9, 9, 9, 10]


def proved_rows(schedule):
    """The outputs, after a look at what was sent."""
    ran = local.run(schedule, random_inputs(schedule.problem))
    assert ran.sent.tolist() == [sent_bytes(op, schedule.mesh).tolist() for op in schedule.ops]
    return ran.results["out"]
