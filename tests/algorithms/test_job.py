"""Jobs: the orders in which the axes of an algorithm, and tp, can be placed."""

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import Mesh
from algorithms.ir.job import Job, share_out

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def orders(job, *axes, **how):
    return [[list(other.axes.items()) for other in job.orders(mesh, axes, **how)] for mesh in job.meshes(axes)]


@given(SIZES, st.sampled_from([1, 2]), st.sampled_from([1, 3]), st.booleans())
def test_orders_have_the_same_sizes_and_none_is_there_twice(sizes, tp, dp, outside):
    axes = dict(zip("xyz", sizes, strict=False))
    job = Job(tp, prod(sizes), dp)
    mesh = job.mesh(axes)

    found = list(job.orders(mesh, tuple(axes), tp_outside=outside))

    assert all(dict(other.axes) == dict(mesh.axes) for other in found)
    assert len({*found, mesh}) == len(found) + 1
    assert all(next(iter(other.axes)) == "dp" for other in found if dp > 1)


def test_two_axes_of_several_ranks_have_one_other_order_and_an_axis_of_one_rank_stays():
    found = orders(Job(1, 4, 1), "ring", "ulysses")

    assert found == [[], [[("ulysses", 2), ("ring", 2)]], []]


def test_three_axes_have_five_other_orders():
    job = Job(1, 8, 1)

    assert len(list(job.orders(Mesh(a=2, b=2, c=2), "abc"))) == 5
    assert len(list(job.orders(Mesh(a=4, b=1, c=2), "abc"))) == 1


def test_nested_axes_keep_their_order():
    job, axes = Job(1, 8, 1), ("outer", "inner", "head")
    found = [list(mesh.axes) for mesh in job.orders(Mesh(outer=2, inner=2, head=2), axes, nested=("outer", "inner"))]

    assert found == [["outer", "head", "inner"], ["head", "outer", "inner"]]
    assert not list(job.orders(Mesh(outer=2, inner=4, head=1), axes, nested=("outer", "inner")))
    assert len(list(job.orders(Mesh(outer=1, inner=4, head=2), axes, nested=("outer", "inner")))) == 1


def test_tp_is_the_fastest_axis_or_where_asked_the_slower_one():
    inside, outside = [("cp", 4), ("tp", 2)], [("tp", 2), ("cp", 4)]
    job = Job(2, 4, 1)

    assert list(job.meshes(("cp",))[0].axes.items()) == inside
    assert orders(job, "cp") == [[]]
    assert orders(job, "cp", tp_outside=True) == [[outside]]


def test_a_mesh_that_was_typed_has_no_other_order():
    job = share_out(16, "", mesh="row=4,col=4")

    assert orders(job, "row", "col", tp_outside=True) == [[]]
