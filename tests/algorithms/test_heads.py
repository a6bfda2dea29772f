"""Heads: taken, joined, repeated and summed; and gathers that stream them through two buffers."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import algorithms
from algorithms.ir import Mesh, Partial
from algorithms.ir.laws import check
from algorithms.ir.order import lifetimes, overwrites
from algorithms.ir.schedule import Value
from algorithms.ops import join_heads as joining
from algorithms.ops import repeat_heads as repeating
from algorithms.ops import sum_heads as summing
from algorithms.ops import take_heads as taking
from algorithms.ops import work
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.join_heads import join_heads
from algorithms.ops.permute import permute
from algorithms.ops.repeat_heads import repeat_heads
from algorithms.ops.sum_heads import sum_heads
from algorithms.ops.take_heads import take_heads
from sim.simulate import Site
from tests.algorithms.tracing import breaks, ring_of, small, tour
from topologies.dgx import dgx_h100

LIBRARIES = pytest.mark.parametrize("xp", [np, array_api_strict], ids=["numpy", "strict"])


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@LIBRARIES
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_heads_taken_in_turn_and_joined_are_the_whole(xp, counts):
    x, first, parts = drawn(5, sum(counts), 3), 0, []
    for count in counts:
        parts += taking.meaning(xp, xp.asarray(x), first, count)
        first += count

    np.testing.assert_array_equal(np.asarray(joining.meaning(xp, *parts)[0]), x)


@LIBRARIES
@pytest.mark.parametrize("times", [2, 3])
def test_summing_heads_is_the_transpose_of_repeating_them(xp, times):
    # <repeat x, y> = <x, sum y>: what one does to values the other does to their gradients
    x, y = drawn(5, 2, 3), drawn(5, 2 * times, 3, seed=1)

    (repeated,) = repeating.meaning(xp, xp.asarray(x), times)
    (summed,) = summing.meaning(xp, xp.asarray(y), times)

    assert float(np.sum(np.asarray(repeated) * y)) == pytest.approx(float(np.sum(x * np.asarray(summed))), rel=1e-13)


def test_copies_are_summed_in_float64_and_kept_in_their_dtype():
    x = np.array([1.0, 2.0**-24, 2.0**-24, 0.0], np.float32).reshape(1, 4, 1)

    (summed,) = summing.meaning(np, x, 4)

    assert summed.dtype == np.float32
    assert summed.item() == np.float32(1 + 2.0**-23)  # one after another in float32 they would make 1


def test_a_head_that_was_taken_meets_its_own_kv_head_only():
    def by_group(group):
        def body(q, k, v, i, p, me):
            k, v = all_gather(k, v, over="ring")
            parts = [
                attend(take_heads(q, first=2 * j, count=2), *take_heads(k, v, first=group(j), count=1)) for j in (0, 1)
            ]
            return Partial(*(join_heads(*xs) for xs in zip(*parts, strict=True)))

        return body

    ring_of(by_group(lambda j: j))
    with breaks("S7", "queries from head 0 on read KV heads that are theirs: got keys from 1 on"):
        ring_of(by_group(lambda j: 1 - j))


@pytest.mark.parametrize("first, count", [(-1, 1), (0, 0), (3, 2), (4, 1)])
def test_s3_heads_that_there_are(first, count):
    with breaks("S3", f"take_heads first={first}, count={count} of %0, which has 4"):
        ring_of(lambda q, k, v, i, p, me: take_heads(q, first=first, count=count))


def test_s3_copies_that_divide_the_heads():
    with breaks("S3", "sum_heads times=3 must divide the heads of %0, which has 4"):
        ring_of(lambda q, k, v, i, p, me: sum_heads(q, times=3))


def test_s6_joined_heads_follow_each_other():
    def wrong(q, k, v, i, p, me):
        return join_heads(*[take_heads(q, first=j, count=2) for j in (2, 0)])

    with breaks("S6", "joins heads that follow each other: %3 has 2 from 2 on, %4 has those from 0 on"):
        ring_of(wrong)
    with breaks("S6", "join_heads of"):
        ring_of(lambda q, k, v, i, p, me: join_heads(k, permute(k, over="ring", shift=1)))


def test_s8_joined_heads_have_met_the_same():
    def wrong(q, k, v, i, p, me):
        low, high = (take_heads(q, first=2 * j, count=2) for j in (0, 1))
        (k0, v0), (k1, v1) = (take_heads(k, v, first=j, count=1) for j in (0, 1))
        one = tour((1, 1, 1))(low, k0, v0, i, p, me)
        other = tour((1, 1))(high, k1, v1, i, p, me)
        return Partial(*(join_heads(*xs) for xs in zip(one, other, strict=True)))

    with breaks("S8", "join_heads joins heads that have met different keys"):
        ring_of(wrong)


@pytest.mark.parametrize(
    "change", [lambda *xs: take_heads(*xs, first=0, count=1), lambda *xs: repeat_heads(*xs, times=2)]
)
def test_keys_and_values_that_are_one_tensor_stay_one(change):
    seen = []

    def body(q, k, v, i, p, me):
        seen.append(change(k, v))
        return tour((1, 1, 1))(q, k, v, i, p, me)

    ring_of(body, kv_heads=2, shared_kv=True)
    ((k, v),) = seen
    assert k is v
    assert isinstance(k, Value)


def test_to_sum_once_is_no_op():
    ring_of(lambda q, k, v, i, p, me: tour((1, 1, 1))(*sum_heads(q, times=1), *sum_heads(k, v, times=1), i, p, me))


def test_taking_heads_takes_no_time():
    schedule = ring_of(
        lambda q, k, v, i, p, me: tour((1, 1, 1))(take_heads(q, first=0, count=4), k, v, i, p, me), heads=4
    )
    (taken,) = (op for op in schedule.ops if op.kind == "take_heads")

    assert work(taken, schedule.mesh.grid()).nbytes == 0
    machine = Site(dgx_h100(1)).machine
    assert machine.seconds(taken, schedule.problem, schedule.mesh.grid(), schedule.mesh.shape) == 0


# -- heads streamed ------------------------------------------------------------------------------------------


def written(schedule, kind, output):
    """What ops of one kind wrote as this output."""
    return {op.outputs[output].id for op in schedule.ops if op.kind == kind}


def most_live(schedule, watched):
    """The most of these values that are live at once."""
    live, most = set(), 0
    for _, born, dead in lifetimes(schedule):
        live |= watched & {v.id for v in born}
        most = max(most, len(live))
        live -= {v.id for v in dead}
    return most


@pytest.mark.parametrize("phase", ["prefill", "train"])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("batch", [1, 2])
def test_all_keys_are_there_of_two_kv_heads_at_a_time_and_their_gradients_of_three(phase, kv_heads, batch):
    problem = small(phase, heads=12, kv_heads=kv_heads, batch=batch)
    schedule = algorithms.find("all_gather_kv_heads")[phase](problem, Mesh(cp=3))

    check(schedule)
    tiles = [op for op in schedule.ops if op.kind in ("attend", "attend_backward")]
    assert [op.inputs[1].type.width[0] for op in tiles] == [batch] * kv_heads * (2 if phase == "train" else 1)
    assert most_live(schedule, written(schedule, "all_gather", 0)) == min(kv_heads, 2)
    if phase == "train":
        assert most_live(schedule, written(schedule, "attend_backward", 1)) == min(kv_heads, 3)


def test_under_tp_a_rank_streams_the_kv_heads_that_it_has():
    schedule = algorithms.find("all_gather_kv_heads")["prefill"](small(heads=8, kv_heads=4), Mesh(cp=2, tp=2))

    assert len([op for op in schedule.ops if op.kind == "attend"]) == 2


@pytest.mark.parametrize("name", ["all_gather_kv", "attention2d"])
def test_what_is_gathered_again_for_the_backward_pass_takes_the_first_ones_place(name):
    program = algorithms.find(name)["train"]
    schedule = program(small("train"), Mesh(**dict.fromkeys(program.axes, 3)))
    keys = {v.id for op in schedule.ops if op.kind == "all_gather" for v in op.outputs if v.type.width[0] == 2}

    assert most_live(schedule, keys) == 2  # k and v, once


# -- gathers through buffers -----------------------------------------------------------------------------------


def gathering(times, buffers, late=False):
    """Gather all keys some times over, and look at each once (or only at the end)."""

    def body(q, k, v, i, p, me):
        found = []
        for _ in range(times):
            found.append(all_gather(k, v, over="ring", buffers=buffers))
            if not late:
                attend(q, *found[-1])
        for block in found if late else ():
            attend(q, *block)
        return attend(q, *found[-1]) if not late else attend(q, *all_gather(k, v, over="ring"))

    return ring_of(body)


def test_a_gather_waits_for_the_readers_of_the_one_it_overwrites():
    schedule = gathering(3, 2)
    gathers = [op for op in schedule.ops if op.kind == "all_gather"]

    edges = overwrites(schedule)

    assert list(edges) == [gathers[2].id]
    assert [op.kind for op in edges[gathers[2].id]] == ["attend"]
    assert overwrites(gathering(3, None)) == {}
    assert overwrites(gathering(3, 3)) == {}


def test_s9_a_gathered_block_is_read_before_its_place_is_used_again():
    with breaks("S9", "attend reads a block whose buffer op .* reuses.*give the all_gather more than buffers=2"):
        gathering(3, 2, late=True)
    gathering(3, 3, late=True)
    with breaks("S9", "own at least 1 buffer, got 0"):
        gathering(3, 0)


def test_gathers_on_other_streams_have_places_of_their_own():
    def body(q, k, v, i, p, me):
        parts = []
        for lane in (0, 1):
            everything = all_gather(k, v, over="ring", buffers=1, lane=lane)
            parts.append(everything)
        attend(q, *parts[0])
        return attend(q, *parts[1])

    assert overwrites(ring_of(body)) == {}


def test_permutes_and_gathers_of_one_stream_are_chains_of_their_own():
    def body(q, k, v, i, p, me):
        everything = all_gather(k, v, over="ring", buffers=1)
        k, v = permute(k, v, over="ring", shift=1, buffers=1)
        attend(q, k, v)
        return attend(q, *everything)

    schedule = ring_of(body)
    check(schedule)
    assert overwrites(schedule) == {}
