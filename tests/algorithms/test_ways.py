"""Ways of collectives: postconditions, counts of rounds and bytes, their meaning on arrays, mutants."""

import re
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import ways
from algorithms.ways.laws import WayError, check
from algorithms.ways.rounds import COLLECTIVES, Round, dual

ALL = [(collective, way) for collective in COLLECTIVES for way in ways.names(collective)]
SIZES = [*range(1, 21), 31, 32, 33, 48, 63, 64, 65, 67]

every_way = pytest.mark.parametrize("collective, way", ALL, ids=["-".join(pair) for pair in ALL])


def rounds_of(collective, way, p):
    return list(ways.find(collective, way)(p))


def log2_ceil(p):
    return ceil(log2(p))


def floor_power(p):
    return 1 << (p.bit_length() - 1)


def test_the_ways_asked_for_are_there():
    assert ways.names("all_gather") == ways.names("reduce_scatter") == ["direct", "doubling", "ring"]
    assert ways.names("all_reduce") == ways.names("broadcast") == ["direct", "doubling", "ring"]
    assert ways.names("all_to_all") == ["direct", "doubling", "pairwise", "ring"]


@every_way
@pytest.mark.parametrize("p", SIZES)
def test_a_way_obeys_the_laws_and_ends_with_the_postcondition(collective, way, p):
    check(collective, ways.find(collective, way)(p), p)


@pytest.mark.parametrize("way", ways.names("broadcast"))
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 13])
def test_a_broadcast_starts_at_any_root(way, p):
    for root in range(p):
        check("broadcast", ways.find("broadcast", way)(p, root=root), p, root=root)


@pytest.mark.parametrize("way", ways.names("broadcast"))
@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_outside_the_group_is_refused(way, root):
    with pytest.raises(ValueError, match=rf"one of its 3 members 0\.\.2, got {root}"):
        list(ways.find("broadcast", way)(3, root=root))


def fold_and_unfold(p):
    return 0 if p == floor_power(p) else 2


ROUNDS = {
    ("all_gather", "ring"): lambda p: p - 1,
    ("all_gather", "direct"): lambda p: 1,
    ("all_gather", "doubling"): log2_ceil,
    ("reduce_scatter", "ring"): lambda p: p - 1,
    ("reduce_scatter", "direct"): lambda p: 1,
    ("reduce_scatter", "doubling"): log2_ceil,
    ("all_reduce", "ring"): lambda p: 2 * (p - 1),
    ("all_reduce", "direct"): lambda p: 2,
    ("all_reduce", "doubling"): lambda p: log2(floor_power(p)) + fold_and_unfold(p),
    ("all_to_all", "ring"): lambda p: p - 1,
    ("all_to_all", "direct"): lambda p: 1,
    ("all_to_all", "pairwise"): lambda p: p - 1,
    ("all_to_all", "doubling"): log2_ceil,
    ("broadcast", "ring"): lambda p: p - 1,
    ("broadcast", "direct"): lambda p: 1,
    ("broadcast", "doubling"): log2_ceil,
}


@every_way
@pytest.mark.parametrize("p", SIZES)
def test_rounds_equal_the_closed_form(collective, way, p):
    assert len(rounds_of(collective, way, p)) == (ROUNDS[collective, way](p) if p > 1 else 0)


def whole_vectors(p):
    # each of log2(core) rounds: core ranks send p pieces; beyond the core: p pieces there and p back
    core = floor_power(p)
    return core * log2(core) * p + 2 * (p - core) * p


SENT = {  # summed over ranks, a block counts 1
    ("all_gather", "*"): lambda p: p * (p - 1),
    ("reduce_scatter", "*"): lambda p: p * (p - 1),
    ("all_reduce", "*"): lambda p: 2 * p * (p - 1),
    ("all_reduce", "doubling"): whole_vectors,
    ("all_to_all", "*"): lambda p: p * (p - 1),
    ("all_to_all", "ring"): lambda p: p * p * (p - 1) / 2,  # a block for the rank o places on travels o hops
    ("all_to_all", "doubling"): lambda p: p * sum(o.bit_count() for o in range(p)),  # ... as many as o has bits
    ("broadcast", "*"): lambda p: p - 1,
}


@every_way
@pytest.mark.parametrize("p", SIZES)
def test_blocks_sent_equal_the_closed_form(collective, way, p):
    sent = sum(np.count_nonzero(one.blocks >= 0) for one in rounds_of(collective, way, p))

    assert sent == SENT.get((collective, way), SENT[collective, "*"])(p)


@every_way
@pytest.mark.parametrize("p", [2, 3, 8, 13])
def test_only_direct_sends_or_receives_two_messages_in_a_round(collective, way, p):
    for one in rounds_of(collective, way, p):
        for ends in (one.src, one.dst):
            assert way == "direct" or len(np.unique(ends)) == len(ends)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("p", [2, 3, 8, 13])
def test_a_ring_only_ever_sends_to_the_next_rank(collective, p):
    for one in rounds_of(collective, "ring", p):
        assert np.array_equal(one.dst, (one.src + 1) % p)


@pytest.mark.parametrize("way", ways.names("all_gather"))
@pytest.mark.parametrize("p", SIZES)
def test_the_dual_of_an_all_gather_is_a_reduce_scatter(way, p):
    check("reduce_scatter", dual(ways.find("all_gather", way)(p)), p)


def test_a_ring_of_16384_is_generated_lazily():
    first = next(ways.find("all_reduce", "ring")(16384))

    assert first.blocks.shape == (16384, 1)


# --- the same rounds, run on arrays ---


def run(rounds, held):
    """Carry rounds out on arrays; held: for each rank a dict block -> array."""
    for one in rounds:
        before = [dict(blocks) for blocks in held]
        for s, d, names in zip(one.src, one.dst, one.blocks, strict=True):
            for b in names[names >= 0]:
                held[d][b] = held[d][b] + before[s][b] if one.combine else before[s][b]
    return held


@st.composite
def uneven(draw):
    """A group of 1..12 ranks and a size (also 0) for each pair of them."""
    p = draw(st.integers(1, 12))
    sizes = draw(st.lists(st.integers(0, 5), min_size=p * p, max_size=p * p))
    return np.array(sizes).reshape(p, p)


def meaning(collective, sizes, root=0):
    """What each rank holds at first, and what it must hold at the end: two lists of dicts block -> array."""
    p, ranks, random = len(sizes), range(len(sizes)), np.random.default_rng(0)
    if collective == "all_to_all":
        x = {(s, d): random.integers(1000, size=sizes[s, d]) for s in ranks for d in ranks}
        sent = [{r * p + d: x[r, d] for d in ranks} for r in ranks]
        return sent, [{s * p + r: x[s, r] for s in ranks} for r in ranks]
    x = [[random.integers(1000, size=sizes[0, b]) for b in ranks] for _ in ranks]
    every = dict(enumerate(x[root]))
    if collective == "broadcast":
        return [{0: x[root][0]} if r == root else {} for r in ranks], [{0: x[root][0]}] * p
    if collective == "all_gather":
        return [{r: every[r]} for r in ranks], [every] * p
    total = {b: sum(x[r][b] for r in ranks) for b in ranks}
    pieces = [dict(enumerate(x[r])) for r in ranks]
    return pieces, [total] * p if collective == "all_reduce" else [{r: total[r]} for r in ranks]


def agrees(held, wanted):
    return all(
        b in have and np.array_equal(have[b], block)
        for have, want in zip(held, wanted, strict=True)
        for b, block in want.items()
    )


@every_way
@given(sizes=uneven(), data=st.data())
def test_on_arrays_the_rounds_give_what_the_collective_means(collective, way, sizes, data):
    p = len(sizes)
    root = data.draw(st.integers(0, p - 1)) if collective == "broadcast" else 0
    rounds = ways.find(collective, way)(p, *[root] if root else [])
    held, wanted = meaning(collective, sizes, root)

    assert agrees(run(rounds, held), wanted)


# --- mutants: each must be caught ---


def replaced(rounds, number, one):
    return [*rounds[:number], one, *rounds[number + 1 :]]


def without(one, send):
    keep = np.arange(len(one.src)) != send
    return one._replace(src=one.src[keep], dst=one.dst[keep], blocks=one.blocks[keep])


def with_block(one, send, column, block):
    blocks = one.blocks.copy()
    blocks[send, column] = block
    return one._replace(blocks=blocks)


@every_way
@pytest.mark.parametrize("p", [2, 3, 4, 5, 7])
def test_a_dropped_send_is_caught(collective, way, p):
    rounds = rounds_of(collective, way, p)
    for number, one in enumerate(rounds):
        for send in range(len(one.src)):
            with pytest.raises(WayError):
                check(collective, replaced(rounds, number, without(one, send)), p)


@every_way
@pytest.mark.parametrize("p", [2, 3, 4, 5, 7])
def test_a_wrong_block_is_caught(collective, way, p):
    rounds = rounds_of(collective, way, p)
    count = {"all_to_all": p * p, "broadcast": 1}.get(collective, p)
    for number, one in enumerate(rounds):
        for send, column in np.ndindex(one.blocks.shape):
            for wrong in {-1, (one.blocks[send, column] + 1) % count} - {one.blocks[send, column]}:
                with pytest.raises(WayError):
                    check(collective, replaced(rounds, number, with_block(one, send, column, wrong)), p)


def accepted(collective, rounds, p):
    try:
        check(collective, rounds, p)
    except WayError:
        return False
    return True


@every_way
@pytest.mark.parametrize("p", [3, 4, 5, 7])
def test_a_wrong_receiver_is_caught_unless_arrays_say_it_does_no_harm(collective, way, p):
    # a share that skips a rank of a reducing ring still arrives: such a mutant is another right way
    rounds = rounds_of(collective, way, p)
    caught = 0
    for number, one in enumerate(rounds):
        for send in range(len(one.src)):
            dst = one.dst.copy()
            dst[send] = (dst[send] + 1) % p
            mutant = replaced(rounds, number, one._replace(dst=dst))
            if accepted(collective, mutant, p):
                held, wanted = meaning(collective, np.full((p, p), 3))
                assert agrees(run(mutant, held), wanted)
            else:
                caught += 1
    assert caught > 0


@every_way
@pytest.mark.parametrize("p", [2, 3, 4, 5, 7])
def test_storing_for_reducing_and_the_reverse_are_caught(collective, way, p):
    rounds = rounds_of(collective, way, p)
    for number, one in enumerate(rounds):
        with pytest.raises(WayError):
            check(collective, replaced(rounds, number, one._replace(combine=not one.combine)), p)


@pytest.mark.parametrize("collective", ["reduce_scatter", "all_reduce"])
def test_a_round_done_twice_reduces_twice(collective):
    for way in ways.names(collective):
        first, *rest = rounds_of(collective, way, 5)
        with pytest.raises(WayError, match=r"reduces a share of block \d twice"):
            check(collective, [first, first, *rest], 5)


# --- the laws, one by one ---


def send(src, dst, blocks, combine=False):
    return Round(np.array(src), np.array(dst), np.array(blocks), combine)


@pytest.mark.parametrize(
    "collective, rounds, message",
    [
        ("all_gather", [send([0], [1], [[2]])], "round 0: rank 0 sends block 2 before it holds it"),
        (
            "all_gather",
            [send([0, 1], [1, 2], [[0], [0]])],
            "round 0: rank 1 sends block 0 before it holds it",
        ),
        (
            "all_gather",
            [send([0], [1], [[0]]), send([0, 1], [2, 2], [[0], [0]])],
            "round 1: rank 2 receives block 0 twice",
        ),
        ("all_gather", [send([0], [0], [[0]])], "round 0: rank 0 sends to itself"),
        ("all_gather", [send([0], [3], [[0]])], "between ranks 0..2, got [0, 3]"),
        ("all_gather", [send([], [], np.zeros((0, 1), int))], "expected at least one send"),
        ("all_gather", [send([0], [1], [[3]])], "blocks are 0..2, or -1, got 3..3"),
        ("all_gather", [send([0], [1], [[-1]])], "round 0: rank 0 sends rank 1 no block"),
        ("all_gather", [send([0], [1], [0])], "got src (1,), dst (1,), blocks (1,)"),
        ("all_gather", [send([0], [1], [[0]], True)], "combine=True, but this collective reduces nothing"),
        ("all_gather", [], "at the end: rank 0 must hold block 1, but never got it"),
        ("reduce_scatter", [], "rank 0 must hold block 0, but has only the shares of ranks [0]"),
        (
            "all_reduce",
            [send([0], [1], [[2]])],
            "rank 1 receives block 2 and so loses a share of it that it held",
        ),
        ("all_reduce", [send([0], [1], [[2, 2]], True)], "round 0: rank 1 reduces a share of block 2 twice"),
        ("all_reduse", [], "no collective 'all_reduse': expected one of all_gather, all_reduce"),
    ],
)
def test_each_law_says_in_one_line_what_broke_it(collective, rounds, message):
    with pytest.raises(WayError) as error:
        check(collective, rounds, 3)

    assert message in str(error.value)
    assert "\n" not in str(error.value)


# --- names ---


def test_every_collective_has_a_default_that_exists():
    assert set(ways.DEFAULT) == set(COLLECTIVES)
    for collective, way in ways.DEFAULT.items():
        assert ways.find(collective, way).__name__ == collective


def test_choices_are_parsed():
    assert ways.parse("all_gather=ring, all_reduce = doubling") == {
        "all_gather": "ring",
        "all_reduce": "doubling",
    }
    assert ways.parse("") == {}


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "all_gather=rnig",
            "no way 'rnig' for all_gather: expected one of direct, doubling, ring; nearest is ring",
        ),
        (
            "allgather=ring",
            "no collective 'allgather': expected one of all_gather, all_reduce, all_to_all, broadcast, "
            "reduce_scatter; nearest is all_gather",
        ),
        ("all_gather=pairwise", "no way 'pairwise' for all_gather: expected one of direct, doubling, ring"),
        ("all_gather=", "no way '' for all_gather: expected one of direct, doubling, ring"),
        ("ring", "ways are COLLECTIVE=WAY, separated by commas: got 'ring' in 'ring'"),
        ("all_gather=ring,", "ways are COLLECTIVE=WAY, separated by commas: got '' in 'all_gather=ring,'"),
        (
            "all_gather=ring,all_gather=ring",
            "ways choose once for each collective: got all_gather twice in 'all_gather=ring,all_gather=ring'",
        ),
    ],
)
def test_a_bad_choice_is_refused_in_one_line(text, message):
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        ways.parse(text)
