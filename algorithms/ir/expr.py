"""Per-rank integers as small expressions: evaluated when asked, never stored as an array.

A rank's coordinate, the number of the block it holds, how many rows it has: each is an `Expr` over the
mesh coordinates. Arithmetic builds expressions, sums in normal form (`affine`); `at` evaluates one on open grids
of coordinates (an axis an expression does not mention keeps size 1); `replace` says what the expression becomes
when the value it describes is moved to another rank.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.ir import affine
from algorithms.ir.affine import Affine, Bounds

Ints = NDArray[np.int64]
Coords = Mapping[str, Ints]


class ScheduleError(ValueError):
    """A schedule that no machine could run; the message starts with the number of the law it breaks."""


class Expr:
    """An integer that differs from rank to rank."""

    __slots__ = ()
    __hash__ = object.__hash__

    @property
    def key(self) -> tuple[Any, ...]:
        """Structure as a hashable tuple: equal keys mean equal numbers on every rank."""
        raise NotImplementedError

    @property
    def bounds(self) -> Bounds:
        """Limits of the value over all ranks, or None when not known."""
        return None

    @property
    def form(self) -> Affine[Expr]:
        """The expression as an affine form; what is no sum is one atom."""
        return Affine(0, ((self, 1),))

    def at(self, coords: Coords) -> Ints:
        """Evaluate on broadcastable coordinate arrays, one per mesh axis."""
        raise NotImplementedError

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        """Return this expression with coordinates replaced by other expressions."""
        raise NotImplementedError

    def __add__(self, other: object) -> Expr:
        return total(self, other)

    def __sub__(self, other: object) -> Expr:
        return total(self, as_expr(other) * -1)

    def __rsub__(self, other: object) -> Expr:
        return total(other, self * -1)

    def __mul__(self, other: object) -> Expr:
        other = as_expr(other)
        if isinstance(other, Const):
            return expression(affine.times(self.form, other.value))
        return other * self if isinstance(self, Const) else Apply("*", self, other)

    def __neg__(self) -> Expr:
        return self * -1

    def __floordiv__(self, other: object) -> Expr:
        return floor_divided(self, divisor(other))

    def __mod__(self, other: object) -> Expr:
        return modulo(self, divisor(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __lt__(self, other: object) -> Expr:
        return Apply("<", self, as_expr(other))

    def __le__(self, other: object) -> Expr:
        return Apply("<=", self, as_expr(other))

    def __gt__(self, other: object) -> Expr:
        return Apply("<", as_expr(other), self)

    def __ge__(self, other: object) -> Expr:
        return Apply("<=", as_expr(other), self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return Apply("==", self, as_expr(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return Apply("!=", self, as_expr(other))

    def __bool__(self) -> bool:
        raise ScheduleError(
            f"S12: the program branches on a rank number ({self}): all ranks run the same lines; "
            "write where(condition, a, b), or permute(..., to=...)"
        )

    def __index__(self) -> int:
        raise ScheduleError(
            f"S12: a rank number ({self}) is used as a Python integer: index a layout with it "
            "(problem.keys(p)[i]), or give it to permute(..., to=...)"
        )

    __int__ = __index__
    __iter__ = None

    def __repr__(self) -> str:
        return str(self)


class Const(Expr):
    """The same integer on every rank."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    @property
    def key(self) -> tuple[Any, ...]:
        return ("const", self.value)

    @property
    def bounds(self) -> tuple[int, int]:
        return self.value, self.value

    @property
    def form(self) -> Affine[Expr]:
        return Affine(self.value)

    def at(self, coords: Coords) -> Ints:
        return np.asarray(self.value, dtype=np.int64)

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return self

    def __str__(self) -> str:
        return str(self.value)


class Coord(Expr):
    """A rank's index along one mesh axis; along an axis of size 1 it is equal to 0, and prints as what it is."""

    __slots__ = ("axis", "size")

    def __init__(self, axis: str, size: int) -> None:
        self.axis, self.size = axis, size

    @property
    def key(self) -> tuple[Any, ...]:
        return ("coord", self.axis) if self.size > 1 else ("const", 0)

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, self.size - 1

    @property
    def form(self) -> Affine[Expr]:
        return Affine(0, ((self, 1),)) if self.size > 1 else Affine(0)

    def at(self, coords: Coords) -> Ints:
        return coords[self.axis]

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return new.get(self.axis, self)

    def __str__(self) -> str:
        return self.axis


class Sum(Expr):
    """constant + coefficient * atom + ...: an affine form as an expression."""

    __slots__ = ("_form",)

    def __init__(self, form: Affine[Expr]) -> None:
        self._form = form

    @property
    def form(self) -> Affine[Expr]:
        return self._form

    @property
    def key(self) -> tuple[Any, ...]:
        return ("sum", self.form.const, *sorted(((t.key, c) for t, c in self.form.terms), key=repr))

    @property
    def bounds(self) -> Bounds:
        return affine.bounds(self.form)

    def at(self, coords: Coords) -> Ints:
        x = np.asarray(self.form.const, dtype=np.int64)
        for term, c in self.form.terms:
            x = x + (term.at(coords) if c == 1 else c * term.at(coords))
        return x

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return total(self.form.const, *[t.replace(new) * c for t, c in self.form.terms])

    def __str__(self) -> str:
        parts = [f"{c}*{t}" if c != 1 else str(t) for t, c in self.form.terms]
        return "(" + " + ".join(parts + [str(self.form.const)] * (self.form.const != 0)) + ")"


class Apply(Expr):
    """A rule applied to operands: a product, a remainder, a quotient, a comparison or a choice."""

    __slots__ = ("operands", "sign")

    def __init__(self, sign: str, *operands: Expr) -> None:
        self.sign, self.operands = sign, operands

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.sign, *[x.key for x in self.operands])

    @property
    def bounds(self) -> Bounds:
        return RULES[self.sign].bounds(*[x.bounds for x in self.operands])

    def at(self, coords: Coords) -> Ints:
        values = [x.at(coords) for x in self.operands]
        if self.sign == "%" and affine.is_once_around(self.operands[0].form, constant(self.operands[1])):
            return _wrapped(*values)
        return np.asarray(RULES[self.sign].evaluate(*values), dtype=np.int64)

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return RULES[self.sign].build(*[x.replace(new) for x in self.operands])

    def __str__(self) -> str:
        shown = [str(x) for x in self.operands]
        return f"where({', '.join(shown)})" if self.sign == "where" else f"({f' {self.sign} '.join(shown)})"


def where(condition: Expr, a: object, b: object) -> Expr:
    """Choose per rank: a where the condition holds, else b."""
    return Apply("where", as_expr(condition), as_expr(a), as_expr(b))


def as_expr(x: object) -> Expr:
    """Return x as an expression; a plain integer becomes a constant."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, (int, np.integer)):
        return Const(int(x))
    raise ScheduleError(f"S12: a per-rank number must be an integer or an expression of them, got {x!r}")


def divisor(x: object) -> int:
    """Check a divisor: one plain integer for all ranks, at least 1."""
    if isinstance(x, (int, np.integer)) and x >= 1:
        return int(x)
    raise ScheduleError(f"S12: a per-rank number is divided by {x}: the divisor must be one integer, at least 1")


def expression(form: Affine[Expr]) -> Expr:
    """The shortest expression of an affine form."""
    if not form.terms:
        return Const(form.const)
    return form.terms[0][0] if form.const == 0 and len(form.terms) == 1 and form.terms[0][1] == 1 else Sum(form)


def total(*parts: object) -> Expr:
    """The sum of integers and expressions."""
    return expression(affine.total([as_expr(x).form for x in parts]))


def modulo(x: Expr, m: int) -> Expr:
    """x mod m, with inner remainders of a multiple of m opened: ((i - 1) % p - 1) % p is (i - 2) % p."""
    const, terms = x.form
    opened = [affine.times(_opened(atom, c, m), c) for atom, c in terms]
    _, rest = affine.divided(affine.total([Affine(const), *opened]), m)
    return expression(rest) if affine.is_remainder(rest, m) else Apply("%", expression(rest), Const(m))


def _opened(atom: Expr, c: int, m: int) -> Affine[Expr]:
    """What stands for the atom in c * atom mod m: of a remainder of a divisor of m's multiples, the dividend."""
    if isinstance(atom, Apply) and atom.sign == "%" and c * constant(atom.operands[1]) % m == 0:
        return atom.operands[0].form
    return atom.form


def floor_divided(x: Expr, m: int) -> Expr:
    """floor(x / m); what m divides for sure is taken out first."""
    quotient, rest = affine.divided(x.form, m)
    if affine.is_remainder(rest, m):
        return expression(quotient)
    return total(expression(quotient), Apply("//", expression(rest), Const(m)))


def constant(x: Expr) -> int:
    """The value of an expression known to be constant."""
    assert isinstance(x, Const)
    return x.value


class Rule(NamedTuple):
    """How an operation is evaluated on arrays, built anew from changed operands, and bounded by theirs."""

    evaluate: Callable[..., Any]
    build: Callable[..., Expr]
    bounds: Callable[..., Bounds]


def _compare(sign: str, evaluate: Callable[..., Any]) -> Rule:
    return Rule(evaluate, lambda a, b: Apply(sign, a, b), lambda a, b: (0, 1))


def _remainder(x: Ints, m: Ints) -> Ints:
    """x mod m; NumPy divides by one number five times as fast as it takes a remainder."""
    return x - x // int(m) * int(m)


def _wrapped(x: Ints, m: Ints) -> Ints:
    """x mod m of 0 <= x < 2m: the smaller of x and x - m, as a number below 0 is a large one without a sign."""
    return np.asarray(np.minimum(x.view(np.uint64), (x - m).view(np.uint64))).view(np.int64)


RULES: dict[str, Rule] = {
    "*": Rule(np.multiply, operator.mul, lambda a, b: None),
    "%": Rule(_remainder, lambda x, m: modulo(x, constant(m)), lambda x, m: (0, m[1] - 1)),
    "//": Rule(
        np.floor_divide,
        lambda x, m: floor_divided(x, constant(m)),
        lambda x, m: x and (x[0] // m[1], x[1] // m[1]),
    ),
    "<": _compare("<", np.less),
    "<=": _compare("<=", np.less_equal),
    "==": _compare("==", np.equal),
    "!=": _compare("!=", np.not_equal),
    "where": Rule(
        lambda condition, a, b: np.where(condition != 0, a, b),
        where,
        lambda condition, a, b: (min(a[0], b[0]), max(a[1], b[1])) if a and b else None,
    ),
}
