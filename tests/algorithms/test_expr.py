"""Per-rank integers: an expression is the arithmetic that it was written with, on every rank."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.ir import Mesh, ScheduleError, where
from algorithms.ir.expr import Const, as_expr
from algorithms.ir.schedule import per_rank

MESHES = [Mesh(a=1, b=1), Mesh(a=1, b=6), Mesh(a=4, b=3), Mesh(a=5, b=1), Mesh(a=2, b=8)]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


def apply(rule, *children):
    """One step of arithmetic, done alike on expressions and on NumPy arrays."""

    def program(env):
        value = rule(*(child(env) for child in children))
        return value.astype(np.int64) if isinstance(value, np.ndarray) else value  # a comparison counts as 0 or 1

    return program


def chosen(condition, a, b):
    if isinstance(condition, np.ndarray):
        return np.where(condition, a, b)
    return where(condition, a, b)


def grown(programs):
    divisors = st.integers(1, 9).map(lambda m: lambda env: m)
    return st.one_of(
        st.builds(apply, st.sampled_from([operator.add, operator.sub, operator.mul]), programs, programs),
        st.builds(apply, st.sampled_from([operator.floordiv, operator.mod]), programs, divisors),
        st.builds(apply, st.sampled_from(COMPARISONS), programs, programs),
        st.builds(
            apply, st.just(chosen), st.builds(apply, st.just(operator.lt), programs, programs), programs, programs
        ),
    )


# A program maps {"a": x, "b": y} to a number; as x and y it takes expressions, or NumPy arrays.
LEAVES = st.one_of(
    st.sampled_from(["a", "b"]).map(lambda name: lambda env: env[name]),
    st.integers(-9, 9).map(lambda c: lambda env: env["one"] * c),
)
PROGRAMS = st.recursive(LEAVES, grown, max_leaves=8)


def symbols(mesh):
    return {"a": mesh.coord("a"), "b": mesh.coord("b"), "one": Const(1)}


def numbers(mesh):
    a, b = np.unravel_index(np.arange(mesh.size), mesh.shape)
    return {"a": a, "b": b, "one": np.ones(mesh.size, dtype=np.int64)}


@given(PROGRAMS, st.sampled_from(MESHES))
def test_an_expression_is_integer_arithmetic_on_every_rank(program, mesh):
    np.testing.assert_array_equal(per_rank(program(symbols(mesh)), mesh), program(numbers(mesh)))


@given(PROGRAMS, st.sampled_from(MESHES))
def test_bounds_hold_on_every_rank(program, mesh):
    expression = program(symbols(mesh))

    if expression.bounds is not None:
        values = per_rank(expression, mesh)
        assert expression.bounds[0] <= values.min()
        assert values.max() <= expression.bounds[1]


@given(PROGRAMS, PROGRAMS, PROGRAMS, st.sampled_from(MESHES))
def test_replacing_coordinates_is_evaluating_at_the_replaced_coordinates(program, from_a, from_b, mesh):
    moved = {"a": from_a(symbols(mesh)) % mesh.axes["a"], "b": from_b(symbols(mesh)) % mesh.axes["b"]}

    replaced = program(symbols(mesh)).replace(moved)

    at = {name: per_rank(x, mesh) for name, x in moved.items()} | {"one": np.ones(mesh.size, dtype=np.int64)}
    np.testing.assert_array_equal(per_rank(replaced, mesh), program(at))


@given(PROGRAMS, PROGRAMS, st.sampled_from(MESHES))
def test_equal_keys_mean_equal_numbers(first, second, mesh):
    one, other = first(symbols(mesh)), second(symbols(mesh))

    if one.key == other.key:
        np.testing.assert_array_equal(per_rank(one, mesh), per_rank(other, mesh))


@given(st.integers(1, 12), st.lists(st.integers(-20, 20), max_size=8))
def test_hops_around_a_ring_add_up_to_one_hop(p, shifts):
    i = Mesh(ring=p).coord("ring")
    place = i
    for shift in shifts:
        place = (place + shift) % p

    assert place.key == ((i + sum(shifts)) % p).key


@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_once_around_the_ring_is_home(p):
    i = Mesh(ring=p).coord("ring")
    place = i
    for _ in range(p):
        place = (place - 1) % p

    assert place.key == i.key


def test_normal_forms():
    mesh = Mesh(row=4, col=6)
    r, c = mesh.coord("row"), mesh.coord("col")
    i = c * 4 + r

    assert (r + c - r).key == c.key
    assert (r - r).key == Const(0).key
    assert (i // 4).key == c.key
    assert (i % 4).key == r.key
    assert ((i + 8) % 4).key == r.key
    assert ((r + 3) % 4 + 4 * c).key == (4 * c + (r - 1) % 4).key
    assert str((r - 1) % 4) == "((row + 3) % 4)"
    assert str(where(r < c, r, 7)) == "where((row < col), row, 7)"


def test_on_an_axis_of_size_1_a_coordinate_equals_0():
    i = Mesh(ring=1).coord("ring")

    assert i.key == Const(0).key
    assert (i + 5).key == Const(5).key


def test_an_axis_that_is_not_mentioned_is_not_spread_out():
    mesh = Mesh(row=128, col=128)

    assert (mesh.coord("col") * 3 + 1).at(mesh.grid()).size == 128


@pytest.mark.parametrize("p", [1, 4])
def test_branching_on_a_rank_says_what_to_write_instead(p):
    i = Mesh(ring=p).coord("ring")
    to_write = (
        r"^S12: the program branches on a rank number .*write where\(condition, a, b\), or permute\(..., to=...\)"
    )

    with pytest.raises(ScheduleError, match=to_write):
        _ = "first" if i == 0 else "other"
    with pytest.raises(ScheduleError, match=to_write):
        _ = i in (0, 1)
    with pytest.raises(ScheduleError, match=to_write):
        _ = not i


@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("use", [int, range, lambda i: [0, 1, 2, 3][i], lambda i: "ab" * 1 + "cd"[i]])
def test_a_rank_is_no_python_integer(p, use):
    with pytest.raises(
        ScheduleError, match=r"^S12: a rank number \(ring\) is used as a Python integer: index a layout"
    ):
        use(Mesh(ring=p).coord("ring"))


@pytest.mark.parametrize("p", [1, 4])
def test_a_rank_cannot_be_iterated(p):
    with pytest.raises(TypeError):
        list(Mesh(ring=p).coord("ring"))


@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("rule", [operator.floordiv, operator.mod])
def test_a_divisor_is_one_positive_integer(p, rule):
    i = Mesh(ring=p).coord("ring")

    for divisor in (0, -2, i, i + 1, 1.5):
        with pytest.raises(ScheduleError, match=r"^S12: a per-rank number is divided by .*one integer, at least 1"):
            rule(i, divisor)


def test_a_fraction_is_no_per_rank_number():
    with pytest.raises(ScheduleError, match=r"^S12: a per-rank number must be an integer.*got 0\.5"):
        Mesh(ring=4).coord("ring") + 0.5
    with pytest.raises(ScheduleError, match=r"^S12"):
        as_expr("3")
