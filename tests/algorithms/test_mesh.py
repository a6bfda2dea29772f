"""Meshes: ranks are row-major over the axes, groups row-major over the axes named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import Mesh, ScheduleError, parse_mesh
from algorithms.ir.schedule import per_rank

AXES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(lambda sizes: dict(zip("wxyz", sizes, strict=False)))


@st.composite
def meshes_and_groups(draw):
    mesh = Mesh(**draw(AXES))
    over = draw(st.permutations(mesh.names))[: draw(st.integers(1, len(mesh.names)))]
    return mesh, tuple(over)


def coordinates(mesh):
    return dict(zip(mesh.names, np.unravel_index(np.arange(mesh.size), mesh.shape), strict=True))


@given(meshes_and_groups())
def test_groups_hold_every_rank_once_and_differ_only_along_the_axes_named(drawn):
    mesh, over = drawn
    groups, at = mesh.groups(over), coordinates(mesh)

    assert sorted(groups.ravel()) == list(range(mesh.size))
    for axis in mesh.names:
        if axis not in over:
            assert (at[axis][groups] == at[axis][groups][:, :1]).all()


@given(meshes_and_groups())
def test_a_groups_members_stand_in_row_major_order_of_the_axes_as_named(drawn):
    mesh, over = drawn
    at = coordinates(mesh)
    place = np.ravel_multi_index([at[a] for a in over], [mesh.axes[a] for a in over])

    np.testing.assert_array_equal(per_rank(mesh.member(over), mesh), place)
    np.testing.assert_array_equal(
        place[mesh.groups(over)], np.arange(mesh.count(over))[None].repeat(len(mesh.groups(over)), 0)
    )


@given(meshes_and_groups())
def test_unravel_undoes_member(drawn):
    mesh, over = drawn

    for axis, coordinate in mesh.unravel(mesh.member(over), over).items():
        assert coordinate.key == mesh.coord(axis).key


@given(meshes_and_groups(), st.integers(-5, 5))
def test_behind_is_the_member_that_many_places_before(drawn, shift):
    mesh, over = drawn
    at, groups = coordinates(mesh), mesh.groups(over)
    expected = np.empty(mesh.size, dtype=np.int64)
    expected[groups] = np.roll(groups, shift, axis=1)

    behind = {a: per_rank(x, mesh) for a, x in mesh.behind(over, shift).items()}

    np.testing.assert_array_equal(np.ravel_multi_index([(at | behind)[a] for a in mesh.names], mesh.shape), expected)


@given(AXES)
def test_of_rank_agrees_with_the_grid(axes):
    mesh = Mesh(**axes)

    for rank in range(mesh.size):
        assert {a: int(x) for a, x in mesh.of_rank(rank).items()} == {
            a: int(per_rank(mesh.coord(a), mesh)[rank]) for a in mesh.names
        }


def test_meshes_are_equal_when_axes_and_their_order_are():
    assert Mesh(row=2, col=3) == Mesh(row=2, col=3)
    assert Mesh(row=2, col=3) != Mesh(col=3, row=2)
    assert len({Mesh(row=2, col=3), Mesh(row=2, col=3)}) == 1
    assert str(Mesh(row=2, col=3)) == "row=2,col=3"
    assert repr(Mesh(row=2)) == "Mesh(row=2)"


def test_a_mesh_without_axes_is_one_rank():
    assert Mesh().size == 1
    assert str(Mesh()) == "1 rank"


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "4"])
def test_a_size_is_a_positive_integer(size):
    with pytest.raises(ScheduleError, match=rf"^S3: mesh axis ring must be at least 1, got {size}"):
        Mesh(ring=size)


def test_a_collective_names_axes_of_the_mesh_each_once():
    mesh = Mesh(row=2, col=3)

    assert mesh.over("row") == ("row",)
    assert mesh.over(["col", "row"]) == ("col", "row")
    with pytest.raises(ScheduleError, match=r"^S3: no mesh axis 'ring': expected one of row, col"):
        mesh.over("ring")
    with pytest.raises(ScheduleError, match=r"^S3: a collective needs different mesh axes, got \('row', 'row'\)"):
        mesh.over(("row", "row"))
    with pytest.raises(ScheduleError, match=r"^S3: a collective needs different mesh axes, got \(\)"):
        mesh.over(())


def test_a_mesh_is_read_in_the_order_written():
    assert list(parse_mesh("row=8, col=4").items()) == [("row", 8), ("col", 4)]


@pytest.mark.parametrize("text", ["", "row", "row=", "row=0", "row=-2", "row=2.5", "row=2,,col=3", "2=3", "ro w=2"])
def test_a_badly_written_mesh_is_refused(text):
    with pytest.raises(ScheduleError, match="a mesh is written axis=size,axis=size"):
        parse_mesh(text)


def test_an_axis_named_twice_is_refused():
    with pytest.raises(ScheduleError, match="mesh axis 'row' is named twice in 'row=2,row=3'"):
        parse_mesh("row=2,row=3")


# -- cycles --------------------------------------------------------------------------------------------------


@given(st.permutations(range(6)), st.lists(st.integers(-9, 9), max_size=4))
def test_along_a_cycle_of_places_steps_add_up(cycle, shifts):
    mesh = Mesh(ring=6)
    place, number = mesh.coord("ring"), {x: k for k, x in enumerate(cycle)}

    for shift in shifts:
        place = place.replace(mesh.behind(("ring",), shift, tuple(cycle)))

    assert per_rank(place, mesh).tolist() == [cycle[(number[r] - sum(shifts)) % 6] for r in range(6)]


def test_all_the_way_round_a_cycle_is_where_one_was():
    mesh, cycle = Mesh(ring=5), (0, 2, 4, 1, 3)
    place = mesh.coord("ring")

    halfway = place.replace(mesh.behind(("ring",), 2, cycle))

    assert halfway.replace(mesh.behind(("ring",), 3, cycle)).key == place.key
    assert str(halfway) == "(ring +3 around 0-2-4-1-...)"
    assert halfway.key != place.replace(mesh.behind(("ring",), 2)).key
