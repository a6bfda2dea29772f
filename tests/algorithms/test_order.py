"""The fixed order: communication is posted early and waited for late, and peak memory is what the order needs."""

import numpy as np
import pytest

import algorithms
from algorithms.ir import Attention, Mesh
from algorithms.ir.order import lifetimes, live_at_peak, live_bytes, overwrites, peak_bytes, steps
from algorithms.ir.problem import ITEMSIZE
from algorithms.ops import is_view
from tests.algorithms.tracing import PROGRAMS, late, meshes, ring_of, small, traced

every_program = pytest.mark.parametrize("name, phase, program", PROGRAMS, ids=[f"{n}-{p}" for n, p, _ in PROGRAMS])


def written(schedule):
    """The order without its loads, an op a word: + posts, - waits."""
    sign = {"run": "", "post": "+", "wait": "-"}
    return " ".join(f"{sign[s.action]}{s.op.kind}{s.op.id}" for s in steps(schedule) if s.op.kind != "load")


def schedules(program, phase, **changes):
    found = [traced(program, small(phase=phase, **changes), mesh) for mesh in meshes(program, (1, 2, 3, 5))]
    return [s for s in found if s]


def test_a_ring_sends_the_next_block_while_it_attends_to_this_one():
    #   permute  4---|7---|10--|
    #   attend   3---|5---|8---|11--|
    schedule = algorithms.find("ring")["prefill"](small(), Mesh(ring=4))

    assert written(schedule) == (
        "+permute4 attend3 -permute4 +permute7 attend5 merge6 "
        "-permute7 +permute10 attend8 merge9 -permute10 attend11 merge12"
    )


def test_attention2d_gathers_queries_while_keys_travel():
    schedule = algorithms.find("attention2d")["prefill"](small(), Mesh(row=2, col=2))

    assert written(schedule) == (
        "+all_gather4 +permute3 -all_gather4 -permute3 +all_gather5 -all_gather5 "
        "attend6 +reduce_scatter7 -reduce_scatter7"
    )


def test_a_backward_ring_sends_gradients_while_the_next_tile_is_computed():
    schedule = algorithms.find("ring")["train"](small(phase="train"), Mesh(ring=2))

    assert written(schedule) == (
        "+permute4 +permute10 attend3 -permute4 attend5 merge6 delta8 attend_backward9 "
        "+permute11 -permute10 attend_backward12 add13 -permute11 add14 add15 +permute16 -permute16"
    )


@every_program
def test_every_op_is_run_once_or_posted_once_and_then_waited_for(name, phase, program):
    for schedule in schedules(program, phase):
        order = steps(schedule)
        assert sorted(s.op.id for s in order if s.action == "run") == [op.id for op in schedule.ops if not op.stream]
        for action in ("post", "wait"):
            assert sorted(s.op.id for s in order if s.action == action) == [op.id for op in schedule.ops if op.stream]


@every_program
def test_what_an_op_reads_is_there_and_what_it_overwrites_was_read(name, phase, program):
    for schedule in schedules(program, phase):
        source = {v.id: op.id for op in schedule.ops for v in op.outputs}
        edges, done = overwrites(schedule), set()
        for action, op in steps(schedule):
            if action != "wait":
                assert {source[v.id] for v in op.inputs} <= done
                assert {reader.id for reader in edges.get(op.id, ())} <= done
            if action != "post":
                done.add(op.id)


@every_program
def test_one_streams_ops_are_posted_in_program_order(name, phase, program):
    for schedule in schedules(program, phase):
        posted = [s.op for s in steps(schedule) if s.action == "post"]
        for stream in {op.stream for op in posted}:
            ids = [op.id for op in posted if op.stream == stream]
            assert ids == sorted(ids)


@every_program
def test_an_op_is_posted_as_soon_as_what_it_needs_is_done(name, phase, program):
    for schedule in schedules(program, phase):
        source = {v.id: op.id for op in schedule.ops for v in op.outputs}
        edges, order = overwrites(schedule), steps(schedule)
        position = {(s.action, s.op.id): k for k, s in enumerate(order)}
        last_on = {}
        for k, (action, op) in enumerate(order):
            if action != "post":
                continue
            needs = [source[v.id] for v in op.inputs] + [reader.id for reader in edges.get(op.id, ())]
            done = [position.get(("run", n), position.get(("wait", n))) for n in needs]
            ready = max([*done, last_on.get(op.stream, -1)])
            assert all(s.action == "post" for s in order[ready + 1 : k])
            last_on[op.stream] = k


@every_program
def test_an_op_is_waited_for_no_earlier_than_its_first_reader_needs(name, phase, program):
    for schedule in schedules(program, phase):
        order = steps(schedule)
        for k, (action, op) in enumerate(order):
            if action != "wait":
                continue
            brought = {v.id for v in op.outputs}
            following = next((j for j in range(k + 1, len(order)) if order[j].action == "run"), len(order))
            # Read by the op that runs next, or sent on by one that this op waits for; else the program is at its end.
            needed = [s.op for s in order[k + 1 : following + 1] if s.action != "wait"]
            assert following == len(order) or any(brought & {v.id for v in s.inputs} for s in needed)


@every_program
def test_the_order_is_the_same_on_every_rank_whatever_its_shard(name, phase, program):
    # It is one list for all ranks; shards of different or no size do not change it.
    for mesh in meshes(program, (3, 4)):
        orders = {
            tuple((s.action, s.op.id) for s in steps(schedule))
            for n in (1, 5, 37, 4096)
            if (schedule := traced(program, small(phase=phase, query_len=n, key_len=n), mesh))
        }
        assert len(orders) <= 1


# -- buffers -------------------------------------------------------------------------------------------------


def most_received(schedule):
    """The most blocks of keys that have been received, or are being, and are still to be read."""
    chain, live, most = {schedule.ops[1].outputs[0].id}, set(), 0
    for (_, op), born, dead in lifetimes(schedule):
        if op.kind == "permute" and op.inputs[0].id in chain:
            chain.add(op.outputs[0].id)
            live |= {op.outputs[0].id} & {v.id for v in born}
        most = max(most, len(live))
        live -= {v.id for v in dead}
    return most


@pytest.mark.parametrize("phase", ["prefill", "train"])
@pytest.mark.parametrize("p, blocks", [(1, 0), (2, 1), (3, 2), (4, 2), (9, 2)])
def test_a_ring_holds_at_most_two_received_blocks(p, blocks, phase):
    schedule = algorithms.find("ring")[phase](small(phase=phase), Mesh(ring=p))

    assert most_received(schedule) == (blocks if phase == "prefill" or p != 2 else 2)


def test_even_with_buffers_for_all_a_block_is_sent_on_only_once_it_was_waited_for():
    assert most_received(ring_of(late(7), p=8)) == 2


def test_a_receive_waits_for_the_readers_of_the_block_two_before():
    schedule = algorithms.find("ring")["prefill"](small(), Mesh(ring=5))

    edges = {op: sorted(reader.id for reader in before) for op, before in overwrites(schedule).items()}

    # permutes 4, 7, 10, 13; the third lands where the first did: after attend 5 and the permute 7 that sent it on
    assert edges == {10: [5, 7], 13: [8, 10]}


# -- peak memory ---------------------------------------------------------------------------------------------

B, H, HKV, D, DV, C = 2, 8, 2, 16, 12, 24  # C tokens a rank


def problem(p, **changes):
    sizes = {"query_len": C * p, "key_len": C * p, "batch": B, "head_dim_v": DV, "mask": "causal"}
    return Attention(H, HKV, D, dtype="bfloat16", kv_dtype="float8_e4m3", **sizes | changes)


def queries(rows):
    return rows * B * H * D * ITEMSIZE["bfloat16"]


def keys_and_values(rows):
    return rows * B * HKV * (D + DV) * ITEMSIZE["float8_e4m3"]


def state(rows):
    return rows * B * H * (DV + 1) * ITEMSIZE["float32"]  # out, and one lse


SHARDS = queries(C) + keys_and_values(C)


@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 8])
def test_peak_of_a_ring(p, layout):
    # Merging: the state so far, the tile's, and their merge; besides, the block just attended to, still being
    # sent on, and the next. Of two ranks only one block comes, and it is done with when it is merged.
    block = keys_and_values(C)
    besides = {1: state(C), 2: max(block + 2 * state(C), 3 * state(C))}.get(p, 2 * block + 3 * state(C))

    peak = peak_bytes(algorithms.find("ring")["prefill"](problem(p, layout=layout), Mesh(ring=p)))

    assert peak.tolist() == [SHARDS + besides] * p


@pytest.mark.parametrize("p", [1, 2, 5])
def test_peak_of_all_gather_kv(p):
    peak = peak_bytes(algorithms.find("all_gather_kv")["prefill"](problem(p), Mesh(cp=p)))

    assert peak.tolist() == [SHARDS + keys_and_values(p * C) + state(C)] * p


@pytest.mark.parametrize("R, C_", [(1, 1), (1, 4), (4, 1), (2, 2), (2, 4), (4, 2), (3, 5)])
def test_peak_of_attention2d(R, C_):
    rows, cols = queries(C_ * C), keys_and_values(R * C)  # Q_r of C_ ranks, K_c of R ranks
    sent = keys_and_values(C) if R > 1 and C_ > 1 else 0  # the shard from the transposed place
    gathering = sent + rows + cols
    attending = rows + cols + state(C_ * C)
    reducing = state(C_ * C) + state(C)

    peak = peak_bytes(algorithms.find("attention2d")["prefill"](problem(R * C_), Mesh(row=R, col=C_)))

    assert peak.tolist() == [SHARDS + max(gathering, attending, reducing)] * (R * C_)


def test_peak_differs_by_rank_where_shards_do():
    schedule = algorithms.find("all_gather_kv")["prefill"](problem(1, query_len=5, key_len=8), Mesh(cp=3))

    # contiguous: 1, 2, 2 queries and 2, 3, 3 keys
    expected = [queries(n) + keys_and_values(m) + keys_and_values(8) + state(n) for n, m in ((1, 2), (2, 3), (2, 3))]
    assert peak_bytes(schedule).tolist() == expected


def test_shared_keys_and_values_are_held_once():
    latent = Attention(8, 1, 16, 4 * C, 4 * C, head_dim_v=12, shared_kv=True)
    schedule = algorithms.find("all_gather_kv")["prefill"](latent, Mesh(cp=4))

    q, kv, part = C * 8 * 16 * 2, C * 16 * 2, C * 8 * 13 * 4
    assert peak_bytes(schedule).tolist() == [q + kv + 4 * kv + part] * 4


@every_program
def test_what_is_live_at_the_peak_adds_up_to_it(name, phase, program):
    for schedule in schedules(program, phase):
        peak = peak_bytes(schedule)
        for rank in range(schedule.mesh.size):
            _, live = live_at_peak(schedule, rank)
            assert sum(nbytes for _, _, nbytes in live) == peak[rank]


def behind(schedule, values):
    """Values, and those that they show parts of, if they are views."""
    source = {v.id: op for op in schedule.ops for v in op.outputs}
    inputs = [x for v in values if is_view(source[v.id]) for x in source[v.id].inputs]
    return {v.id for v in values} | (behind(schedule, inputs) if inputs else set())


@every_program
def test_at_the_end_shards_and_results_are_left(name, phase, program):
    for schedule in schedules(program, phase):
        left = {}
        for _, born, dead in lifetimes(schedule):
            left |= {v.id: v for v in born}
            for v in dead:
                del left[v.id]
        loads = {v.id for op in schedule.ops if op.kind == "load" for v in op.outputs}
        assert set(left) == loads | behind(schedule, schedule.results.values())
        assert np.max([np.max(level) for level in live_bytes(schedule)]) == peak_bytes(schedule).max()
