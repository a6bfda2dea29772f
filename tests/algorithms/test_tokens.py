"""Tokens: what a rank holds follows its value through permutes and gathers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import Mesh
from algorithms.ir.expr import Const
from algorithms.ir.layout import LAYOUTS, layout
from algorithms.ir.schedule import per_rank
from algorithms.ir.tokens import gather

KINDS = st.sampled_from([*LAYOUTS, "pages:3"])
SIZES = st.integers(1, 5)


def held(tokens, mesh):
    """The positions that each rank holds, in order."""
    return [tokens.runs(mesh.of_rank(rank)).positions().tolist() for rank in range(mesh.size)]


def joined(parts):
    return [position for part in parts for position in part]


@given(KINDS, st.integers(1, 60), SIZES, st.integers(-7, 7))
def test_after_a_permute_a_rank_holds_what_the_sender_held(kind, n, p, shift):
    mesh = Mesh(ring=p)
    tokens = layout(kind, n, p)[mesh.coord("ring")]

    moved = tokens.replace(mesh.behind(("ring",), shift))

    before = held(tokens, mesh)
    assert held(moved, mesh) == [before[(i - shift) % p] for i in range(p)]


@given(KINDS, st.integers(1, 60), SIZES, SIZES)
def test_a_gather_holds_the_members_tokens_in_member_order(kind, n, R, C):
    mesh = Mesh(row=R, col=C)
    tokens = layout(kind, n, R * C)[mesh.coord("col") * R + mesh.coord("row")]
    one = held(tokens, mesh)

    along_row = held(gather(tokens, {"row": R}), mesh)
    everywhere = held(gather(tokens, {"col": C, "row": R}), mesh)

    for rank in range(mesh.size):
        c = rank % C
        assert along_row[rank] == joined(one[r * C + c] for r in range(R))
        assert everywhere[rank] == joined(one[r * C + c] for c in range(C) for r in range(R))


@given(KINDS, st.integers(1, 60), SIZES, SIZES)
def test_gathers_nest(kind, n, R, C):
    mesh = Mesh(row=R, col=C)
    tokens = layout(kind, n, R * C)[mesh.coord("row") * C + mesh.coord("col")]
    one = held(tokens, mesh)

    nested = held(gather(gather(tokens, {"row": R}), {"col": C}), mesh)

    assert nested == [joined(one[r * C + c] for c in range(C) for r in range(R))] * mesh.size


@given(KINDS, st.integers(1, 60), SIZES, SIZES, st.integers(-3, 3))
def test_a_permute_over_the_gathered_axis_does_not_reach_inside_the_gather(kind, n, R, C, shift):
    # After the gather over row, the row coordinate inside names the member, not the rank: if the permute over
    # (row, col) captured it, every rank would hold one member's tokens R times.
    mesh = Mesh(row=R, col=C)
    tokens = layout(kind, n, R * C)[mesh.coord("col") * R + mesh.coord("row")]
    gathered = gather(tokens, {"row": R})

    moved = held(gathered.replace(mesh.behind(("row", "col"), shift)), mesh)

    before = held(gathered, mesh)
    assert moved == [before[(rank - shift) % mesh.size] for rank in range(mesh.size)]
    assert all(len(set(t)) == len(t) for t in moved)


@given(KINDS, st.integers(1, 60), SIZES, SIZES)
def test_count_is_the_number_of_positions(kind, n, R, C):
    mesh = Mesh(row=R, col=C)
    tokens = layout(kind, n, R * C)[mesh.coord("row") * C + mesh.coord("col")]

    for t in (tokens, gather(tokens, {"row": R}), gather(gather(tokens, {"row": R}), {"col": C})):
        assert per_rank(t.count, mesh).tolist() == [len(x) for x in held(t, mesh)]


def test_the_count_of_even_shards_is_one_number():
    mesh = Mesh(ring=4)

    assert isinstance(layout("zigzag", 64, 4)[mesh.coord("ring")].count, Const)
    assert not isinstance(layout("zigzag", 65, 4)[mesh.coord("ring")].count, Const)


@pytest.mark.parametrize("kind", [*LAYOUTS, "pages:4"])
def test_equal_keys_once_around_the_ring_and_different_ones_on_the_way(kind):
    mesh = Mesh(ring=4)
    tokens = layout(kind, 64, 4)[mesh.coord("ring")]
    seen = [tokens]
    for _ in range(4):
        seen.append(seen[-1].replace(mesh.behind(("ring",), 1)))

    assert seen[4].key == tokens.key
    assert len({t.key for t in seen}) == 4


def test_tokens_are_evaluated_for_all_ranks_at_once():
    mesh = Mesh(row=2, col=3)
    tokens = gather(layout("contiguous", 13, 6)[mesh.coord("row") * 3 + mesh.coord("col")], {"col": 3})

    runs = tokens.runs(mesh.grid())

    assert np.broadcast_shapes(runs.start.shape[:-1], mesh.shape) == mesh.shape
    assert runs.start.shape[-1] == 3


def test_text_form():
    mesh = Mesh(row=2, col=3)
    tokens = layout("striped", 12, 6)[mesh.coord("col") * 2 + mesh.coord("row")]

    assert str(tokens) == "striped 12/6[(2*col + row)]"
    assert str(gather(tokens, {"row": 2})) == "gather(striped 12/6[(2*col + row'1)] for row'1)"
