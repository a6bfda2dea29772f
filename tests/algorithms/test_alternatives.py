"""Alternatives: what only some ranks hold, put together, is what each rank holds of either."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import Mesh, ScheduleError
from algorithms.ir.alternatives import Join, Only, exclusive, joined, restricted
from algorithms.ir.expr import Const
from algorithms.ir.layout import LAYOUTS, layout
from algorithms.ir.parts import Part, in_parts, pieces
from algorithms.ir.schedule import per_rank
from algorithms.ir.tokens import Block, gather
from tests.algorithms.test_tokens import held
from tests.algorithms.test_tokens import joined as flat

KINDS = st.sampled_from(LAYOUTS)
P = 5
MESH = Mesh(ring=P)
GRID = MESH.grid()
place = MESH.coord("ring")


@st.composite
def conditions(draw):
    """Comparisons of the rank's number, and products of two."""
    below, above, turn = (draw(st.integers(0, P)) for _ in range(3))
    one = [place < below, place >= above, (place + turn) % P < 2]
    chosen = draw(st.lists(st.sampled_from(one), min_size=1, max_size=2))
    return chosen[0] if len(chosen) == 1 else chosen[0] * chosen[1]


@st.composite
def tokens(draw, depth=3):
    """Blocks, and what becomes of them: moved, restricted, joined."""
    block = layout(draw(KINDS.filter(lambda kind: kind != "striped")), 23, P)[(place + draw(st.integers(0, P))) % P]
    if depth == 0 or draw(st.booleans()):
        return block
    inner = draw(tokens(depth=depth - 1))
    return draw(
        st.sampled_from(
            [
                Only(inner, draw(conditions())),
                inner.replace(MESH.behind(("ring",), draw(st.integers(0, P)))),
                joined([inner, draw(tokens(depth=depth - 1))], GRID),
            ]
        )
    )


def holding(condition):
    return per_rank(condition, MESH) != 0


@given(tokens(), conditions())
def test_what_is_restricted_is_held_where_the_condition_holds(some, condition):
    before, kept = held(some, MESH), held(restricted(some, condition, GRID), MESH)

    assert kept == [x if here else [] for x, here in zip(before, holding(condition), strict=True)]


@given(st.lists(tokens(), min_size=1, max_size=3))
def test_what_is_joined_is_held_one_after_the_other(parts):
    each = [held(part, MESH) for part in parts]

    assert held(joined(parts, GRID), MESH) == [flat(mine) for mine in zip(*each, strict=True)]


@given(tokens(), st.integers(-P, P))
def test_all_of_it_follows_a_permute(some, shift):
    moved = some.replace(MESH.behind(("ring",), shift))

    before = held(some, MESH)
    assert held(moved, MESH) == [before[(rank - shift) % P] for rank in range(P)]


@given(tokens())
def test_counts_are_the_numbers_of_positions_for_one_rank_and_for_all(some):
    assert per_rank(some.count, MESH).tolist() == [len(x) for x in held(some, MESH)]
    runs = some.runs(GRID)
    many = np.broadcast_shapes(runs.start.shape, runs.count.shape)[-1]
    assert np.broadcast_to(runs.count, (P, many)).sum(-1).tolist() == [len(x) for x in held(some, MESH)]


def test_a_rank_that_has_one_of_two_shards_has_a_shard():
    # The own one from rank 2 on, that of the rank 2 below on the others: helping, as distflash does.
    deal = layout("contiguous", 23, P)
    own, other = Only(deal[place], place >= 2), Only(deal[(place - 2) % P], place < 2)

    both = joined([own, other], GRID)

    assert isinstance(both, Block)
    assert per_rank(both.index, MESH).tolist() == [3, 4, 2, 3, 4]
    assert restricted(both, place >= 2, GRID).key == own.key
    assert restricted(both, place < 2, GRID).key == other.key


def test_what_went_and_came_back_is_the_same_again():
    deal = layout("contiguous", 23, P)
    lent = Only(deal[place], place >= 3).replace(MESH.behind(("ring",), 2))
    tile = joined([Only(deal[place], place >= 2), Only(lent.inner, place < 2)], GRID)

    back = restricted(tile, place < 2, GRID).replace(MESH.behind(("ring",), -2))

    assert back.inner.key == deal[place].key


def test_conditions_that_say_nothing_new_are_left_out():
    block = layout("contiguous", 23, P)[place]
    some = Only(block, place >= 2)

    assert restricted(some, place >= 1, GRID) is some
    assert restricted(some, place >= 3, GRID).key == Only(block, place >= 3).key
    assert restricted(block, place >= 0, GRID).key == block.key
    assert restricted(Join([some, Only(block, place < 2)]), place < 2, GRID).key == Only(block, place < 2).key


def test_alternatives_are_exclusive_where_no_rank_has_two():
    block = layout("contiguous", 23, P)[place]

    assert exclusive([Only(block, place < 2), Only(block, place >= 2)], GRID)
    assert exclusive([Only(block, Const(0)), block], GRID)
    assert not exclusive([Only(block, place < 3), Only(block, place >= 2)], GRID)
    assert not exclusive([block, block], GRID)


def test_some_ranks_may_have_none_of_the_alternatives():
    block = layout("contiguous", 23, P)[place]

    some = joined([Only(block, place < 2), Only(block, place >= 3)], GRID)

    assert isinstance(some, Only)
    assert [len(x) > 0 for x in held(some, MESH)] == [True, True, False, True, True]


def test_rows_of_different_steps_are_not_joined():
    with pytest.raises(ScheduleError, match=r"^S6: rows \[1, 5\] positions apart are joined"):
        Join([layout("contiguous", 23, P)[place], layout("striped", 23, P)[place]]).runs(GRID)


# -- parts ---------------------------------------------------------------------------------------------------


@given(KINDS, st.integers(0, 99), st.integers(1, 6))
def test_parts_are_nearly_even_shares_of_every_run(kind, n, parts):
    shard = layout(kind, n, P)[place]
    runs = [Part(shard, Const(c), parts).runs(GRID) for c in range(parts)]

    assert (sum(r.count for r in runs) == shard.runs(GRID).count).all()
    assert max(np.max(r.count - shard.runs(GRID).count // parts) for r in runs) <= 1
    assert min(np.min(r.count - shard.runs(GRID).count // parts) for r in runs) >= 0
    for rank, positions in enumerate(held(shard, MESH)):
        assert sorted(flat(held(Part(shard, Const(c), parts), MESH)[rank] for c in range(parts))) == sorted(positions)


@given(KINDS, st.integers(0, 99), st.integers(1, 6), st.integers(-P, P))
def test_a_shard_in_parts_is_its_pieces_one_after_the_other_wherever_it_goes(kind, n, parts, shift):
    dealt = in_parts(layout(kind, n, P)[place], parts)
    each = [held(piece, MESH) for piece in pieces(dealt)]

    assert held(dealt, MESH) == [flat(mine) for mine in zip(*each, strict=True)]
    moved = dealt.replace(MESH.behind(("ring",), shift))
    assert [held(x, MESH) for x in pieces(moved)] == [[mine[(r - shift) % P] for r in range(P)] for mine in each]
    assert per_rank(dealt.count, MESH).tolist() == [len(x) for x in held(dealt, MESH)]


def test_pieces_are_what_was_joined_or_gathered():
    block = layout("contiguous", 23, P)[place]

    assert pieces(Join([block, block])) == [block, block]
    assert pieces(block) == [block]
    assert [held(x, MESH)[0] for x in pieces(gather(block, {"ring": P}))] == held(block, MESH)


@pytest.mark.parametrize("parts", [0, -1])
def test_a_shard_has_a_part(parts):
    with pytest.raises(ScheduleError, match=f"^S5: rows are dealt in at least 1 part, got {parts}"):
        in_parts(layout("contiguous", 23, P)[place], parts)


def test_text_forms():
    block = layout("zigzag", 23, P)[place]

    assert str(Only(block, place < 2)) == "only(zigzag 23/5[ring] where (ring < 2))"
    assert str(Join([block, block])) == "join(zigzag 23/5[ring], zigzag 23/5[ring])"
    assert str(in_parts(block, 3)) == "gather(part''1/3 of zigzag 23/5[ring] for part''1)"
