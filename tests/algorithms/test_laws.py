"""Laws kept while tracing: each is broken by a small wrong program, and the message names it."""

from dataclasses import replace

import pytest

import algorithms
from algorithms.ir import Mesh, Partial, spmd, where
from algorithms.ir.laws import check
from algorithms.ir.schedule import per_rank
from algorithms.ops.add import add
from algorithms.ops.all_gather import all_gather
from algorithms.ops.all_reduce import all_reduce
from algorithms.ops.all_to_all import split_heads, split_tokens
from algorithms.ops.attend import attend
from algorithms.ops.broadcast import broadcast
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute
from algorithms.ops.reduce_scatter import reduce_scatter
from algorithms.ops.repeat_heads import repeat_heads
from algorithms.ops.share import share
from tests.algorithms.tracing import P, breaks, ring_of, small, tour

# -- S1, S2: values ------------------------------------------------------------------------------------------


def good():
    return algorithms.find("ring")["prefill"](small(), Mesh(ring=P))


def test_s1_a_value_is_written_once():
    ops = list(good().ops)
    ops[-1] = replace(ops[-1], outputs=ops[3].outputs)

    with breaks("S1", "merge writes %3 a second time"):
        check(replace(good(), ops=tuple(ops)))


def test_s2_a_value_is_read_after_it_is_written():
    schedule = good()
    swapped = (*schedule.ops[:4], schedule.ops[5], schedule.ops[4], *schedule.ops[6:])

    with breaks("S2", "op 5 attend reads %5 before it is written"):
        check(replace(schedule, ops=swapped))


def test_s2_a_result_is_a_value_that_something_writes():
    with breaks("S2", "result out is %.*, which nothing writes"):
        check(replace(good(), ops=good().ops[:-1]))


# -- S3: groups ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong, why",
    [
        (lambda q, k: all_gather(k, over="rnig"), "no mesh axis 'rnig': expected one of ring"),
        (lambda q, k: all_gather(k, over=("ring", "ring")), "needs different mesh axes"),
        (lambda q, k: all_gather(over="ring"), "moves nothing"),
        (lambda q, k: split_heads(k, over="ring"), "splits heads in 4, %1 has 2"),
        (lambda q, k: broadcast(k, over="ring", root=4), "has 4 members, got root 4"),
        (lambda q, k: broadcast(k, over="ring", root=-1), "has 4 members, got root -1"),
    ],
)
def test_s3_a_collective_meets_on_every_member_with_agreeing_types(wrong, why):
    with breaks("S3", why):
        ring_of(lambda q, k, v, i, p, me: wrong(q, k))


# -- S4: permutations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "to, why",
    [
        (lambda i, p: 0, r"is no permutation of the 4 places: \[0, 0, 0, 0\]"),
        (lambda i, p: i + 1, r"is no permutation of the 4 places: \[1, 2, 3, 4\]"),
        (lambda i, p: 2 * i % p, r"is no permutation of the 4 places: \[0, 2, 0, 2\]"),
        (lambda i, p: where(i == 0, 1, i), r"is no permutation of the 4 places: \[1, 1, 2, 3\]"),
    ],
)
def test_s4_destinations_are_a_permutation(to, why):
    with breaks("S4", why):
        ring_of(lambda q, k, v, i, p, me: permute(k, over="ring", to=to(i, p)))


@pytest.mark.parametrize("how", [{}, {"shift": 1, "to": 0}])
def test_s4_a_permute_says_where_to_once(how):
    with breaks("S4", "takes either shift= or to="):
        ring_of(lambda q, k, v, i, p, me: permute(k, over="ring", **how))


def test_s4_a_shift_is_the_same_on_every_rank():
    with breaks("S4", r"shifts all ranks alike, got shift=ring: write to="):
        ring_of(lambda q, k, v, i, p, me: permute(k, over="ring", shift=i))


# -- S5, S6, S7: rows that meet ------------------------------------------------------------------------------


def test_s5_reduce_scatter_deals_the_rows_that_were_gathered():
    def wrong(q, k, v, i, p, me):
        elsewhere = permute(q, over="ring", shift=1)
        return reduce_scatter(attend(all_gather(q, over="ring"), k, v), over="ring", op="merge", like=elsewhere)

    with breaks("S5", "reduce_scatter over ring needs the rows gather"):
        ring_of(wrong)


def test_s5_rows_that_were_never_gathered_cannot_be_dealt():
    with breaks("S5", "reduce_scatter over ring needs the rows gather"):
        ring_of(lambda q, k, v, i, p, me: reduce_scatter(attend(q, k, v), over="ring", op="merge", like=q))


def test_s5_split_tokens_undoes_split_heads():
    def wrong(q, k, v, i, p, me):
        k, v = repeat_heads(k, v, times=2)
        return split_tokens(*attend(*split_heads(q, k, v, over="ring")), over="ring", like=k)

    with breaks("S5", "all_to_all over ring needs the rows gather"):
        ring_of(wrong)


def test_s6_merge_joins_states_of_the_same_queries():
    def wrong(q, k, v, i, p, me):
        return merge(attend(q, k, v), attend(permute(q, over="ring", shift=1), k, v))

    with breaks("S6", "merge joins rows of different tokens"):
        ring_of(wrong)


def test_s6_gradients_are_added_to_those_of_the_same_tokens():
    # The keys moved on and their gradients stayed behind.
    with breaks("S6", "add joins rows of different tokens"):
        ring_of(lambda q, k, v, i, p, me: add((k,), (permute(k, over="ring", shift=1),)))


def test_s6_gradients_of_one_dtype_are_added():
    with breaks("S6", "add joins different types: %0 is bfloat16.* %3 is float32"):
        ring_of(lambda q, k, v, i, p, me: add((q,), (attend(q, k, v).out,)))


def test_s6_delta_is_of_the_gradient_of_the_same_rows():
    def wrong(q, k, v, i, p, me):
        return delta(permute(load_gradient(me, me.problem, q.tokens), over="ring", shift=1), attend(q, k, v).out)

    with breaks("S6", "delta joins rows of different tokens"):
        ring_of(wrong)


def test_s6_all_reduce_joins_the_same_rows_on_every_member():
    # Equal counts are not equal rows: 40 queries over 4 ranks are 10 a rank.
    with breaks("S6", "all_reduce over ring joins rows of different tokens"):
        ring_of(lambda q, k, v, i, p, me: all_reduce(q, over="ring", op="sum"), query_len=40)


@pytest.mark.parametrize("op", ["sum", "max"])
def test_s6_a_state_is_merged_not_summed(op):
    def wrong(q, k, v, i, p, me):
        return reduce_scatter(attend(all_gather(q, over="ring"), k, v), over="ring", op=op, like=q)

    with breaks("S6", "op='merge' reduces a Partial and nothing else does"):
        ring_of(wrong)


def test_s7_keys_and_values_are_of_one_step():
    def wrong(q, k, v, i, p, me):
        return attend(q, permute(k, over="ring", shift=1), v)

    with breaks("S7", r"keys %3 hold contiguous 41/4\[\(\(ring \+ 3\) % 4\)\], values %2 hold contiguous 41/4\[ring\]"):
        ring_of(wrong)


def test_s7_kv_heads_divide_the_query_heads():
    with breaks("S7", r"KV heads must agree and divide the query heads, got q, k, v heads \(4, 6, 6\)"):
        ring_of(lambda q, k, v, i, p, me: attend(q, *repeat_heads(k, v, times=3)))
    with breaks("S7", r"got q, k, v heads \(4, 4, 2\)"):
        ring_of(lambda q, k, v, i, p, me: attend(q, *repeat_heads(k, times=2), v))


def test_s7_queries_and_keys_are_of_one_width():
    with breaks("S7", "queries and keys have heads of one width"):
        ring_of(lambda q, k, v, i, p, me: attend(q, v, k), head_dim_v=6)


# -- S12: one program for all ranks --------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, P])
def test_s12_a_program_does_not_branch_on_the_rank(p):
    def wrong(q, k, v, i, p, me):
        return attend(q, k, v) if i > 0 else None

    with breaks("S12", "branches on a rank number"):
        ring_of(wrong, p)


@pytest.mark.parametrize("p", [1, P])
def test_s12_a_program_does_not_loop_over_the_rank(p):
    with breaks("S12", "used as a Python integer"):
        ring_of(lambda q, k, v, i, p, me: [attend(q, k, v) for _ in range(i)], p)


def test_on_one_rank_tokens_that_went_around_are_the_rank_s_own():
    def body(q, k, v, i, p, me):
        part = tour((1,) * (p - 1))(q, k, v, i, p, me)
        there = Partial(*permute(*part, over="ring", shift=1))
        back = Partial(*permute(*there, over="ring", shift=-1))
        assert back.out.tokens.key == part.out.tokens.key
        return back

    for p in (1, 2, 3):
        ring_of(body, p)


def test_s7_queries_meet_the_kv_heads_that_are_theirs():
    def foreign(q, k, v, i, p, me):
        q, k, v = split_heads(q, k, v, over="ring")
        return attend(q, *permute(k, v, over="ring", shift=1))

    with breaks("S7", r"queries from head \(4\*ring\) on read KV heads that are theirs: got keys from .* on"):
        ring_of(foreign, heads=16, kv_heads=4)


def test_s6_a_sum_is_of_the_same_heads():
    def mixed(q, k, v, i, p, me):
        q, k, v = split_heads(q, k, v, over="ring")
        part = attend(q, k, v)
        return merge(part, Partial(*permute(*part, over="ring", shift=1)))

    with breaks("S6", r"merge joins different heads"):
        ring_of(mixed, heads=16, kv_heads=4)


def test_an_all_to_all_and_back_leaves_every_rank_its_heads():
    def there_and_back(q, k, v, i, p, me):
        mine, (q, k, v) = q, split_heads(q, k, v, over="ring")
        assert per_rank(q.heads, me.mesh).tolist() == [0, 4, 8, 12]
        assert per_rank(k.heads, me.mesh).tolist() == [0, 1, 2, 3]
        back = Partial(*split_tokens(*attend(q, k, v), over="ring", like=mine))
        assert per_rank(back.out.heads, me.mesh).tolist() == [0] * 4
        return back

    ring_of(there_and_back, heads=16, kv_heads=4)


# -- collectives by heads ------------------------------------------------------------------------------------


def decoding(body, p=P, heads=8):
    """Trace body(q, k, v, i) where every rank has all queries, and its own keys."""

    @spmd("cp", phase="decode")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        return body(*load(me, problem, problem.queries(1)[0], problem.keys(p)[i]), i)

    schedule = program(small("decode", heads=heads, kv_heads=2, query_len=3), Mesh(cp=p))
    check(schedule)
    return schedule


def by_heads(part):
    return Partial(*reduce_scatter(part, over="cp", op="merge", by="heads"))


def test_heads_that_were_dealt_and_gathered_are_where_they_were():
    def body(q, k, v, i):
        mine = by_heads(attend(q, k, v))
        assert per_rank(mine.out.heads, Mesh(cp=P)).tolist() == [0, 2, 4, 6]
        assert mine.out.type.width == (2, 8)
        back = Partial(*all_gather(*mine, over="cp", by="heads"))
        assert per_rank(back.out.heads, Mesh(cp=P)).tolist() == [0] * P
        return back

    decoding(body)


@pytest.mark.parametrize(
    "law, wrong, why",
    [
        ("S3", lambda q, part: by_heads(part), r"reduce_scatter over cp splits heads in 4, %3 has 6"),
        ("S5", lambda q, part: reduce_scatter(part, over="cp", op="merge"), "by rows needs like="),
        ("S6", lambda q, part: all_gather(q, over="cp", by="heads"), "puts heads together that do not follow"),
        ("S6", lambda q, part: all_reduce(part, over="cp", op="sum"), "op='merge' reduces a Partial and nothing else"),
        ("S6", lambda q, part: all_reduce(*part, over="cp", op="merge"), "op='merge' reduces a Partial"),
        ("no dimension", lambda q, part: all_gather(q, over="cp", by="head"), "'head': expected .*; nearest is heads"),
        ("no way", lambda q, part: reduce_scatter(part, "cp", "merge", by="heads", way="rnig"), "for reduce_scatter"),
    ],
)
def test_a_collective_by_heads_has_what_it_needs(law, wrong, why):
    with pytest.raises(ValueError, match=rf"^{law}.*{why}"):
        decoding(lambda q, k, v, i: wrong(q, attend(q, k, v)), heads=6)


def test_s6_heads_are_dealt_of_the_same_rows():
    with breaks("S6", "reduce_scatter over ring joins rows of different tokens"):
        ring_of(lambda q, k, v, i, p, me: reduce_scatter(attend(q, k, v), over="ring", op="merge", by="heads"))
    with breaks("S6", "all_gather over ring joins rows of different tokens"):
        ring_of(lambda q, k, v, i, p, me: all_gather(q, over="ring", by="members"))


def test_s6_rows_are_gathered_and_reduced_of_the_same_heads():
    # Each rank has heads of its own by then: no row of the sum would be one head's.
    with breaks("S6", r"all_reduce over cp joins different heads: %. has those from \(2\*cp\) on"):
        decoding(lambda q, k, v, i: all_reduce(by_heads(attend(q, k, v)), over="cp", op="merge"))
    with breaks("S6", "all_gather over cp joins different heads"):
        decoding(lambda q, k, v, i: all_gather(by_heads(attend(q, k, v)).lse, over="cp", by="members"))


def test_s7_a_part_of_the_queries_heads_does_not_read_all_kv_heads():
    @spmd("cp", phase="decode")
    def program(me, problem):
        (i,), (p,) = me.coords, me.sizes
        q, k, v = load(me, problem, problem.queries(1)[0], problem.keys(p)[i], heads="cp")
        return attend(q, k, v)

    with breaks("S7", "read KV heads that are theirs"):
        check(program(small("decode", heads=8, kv_heads=2), Mesh(cp=4)))


def test_s6_a_share_is_of_the_same_rows_and_heads():
    def wrong(q, k, v, i):
        part = attend(q, k, v)
        mine = by_heads(part)
        return share(mine, all_gather(part.lse, over="cp", by="members"))

    with breaks("S6", "share needs the lses of the same rows and heads"):
        decoding(wrong)
