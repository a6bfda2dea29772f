"""Per-rank integers as small expressions: evaluated when asked, never stored as an array.

A rank's coordinate, the number of the block it holds, how many rows it has: each is an `Expr` over the
mesh coordinates. Arithmetic builds expressions; `at` evaluates one on open grids of coordinates (an axis an
expression does not mention keeps size 1); `replace` says what the expression becomes when the value it
describes is moved to another rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    def bounds(self) -> tuple[int, int] | None:
        """Smallest and largest value over all ranks, or None when not known."""
        return None

    def at(self, coords: Coords) -> Ints:
        """Evaluate on broadcastable coordinate arrays, one per mesh axis."""
        raise NotImplementedError

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        """Return this expression with coordinates replaced by other expressions."""
        raise NotImplementedError

    def __add__(self, other: object) -> Expr:
        return total(self, other)

    def __sub__(self, other: object) -> Expr:
        return total(self, scaled(as_expr(other), -1))

    def __rsub__(self, other: object) -> Expr:
        return total(other, scaled(self, -1))

    def __mul__(self, other: object) -> Expr:
        b = as_expr(other)
        if isinstance(b, Const):
            return scaled(self, b.value)
        return scaled(b, self.value) if isinstance(self, Const) else Product(self, b)

    def __neg__(self) -> Expr:
        return scaled(self, -1)

    def __floordiv__(self, other: object) -> Expr:
        return floor_divided(self, divisor(other))

    def __mod__(self, other: object) -> Expr:
        return modulo(self, divisor(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __lt__(self, other: object) -> Expr:
        return Compare("<", self, as_expr(other))

    def __le__(self, other: object) -> Expr:
        return Compare("<=", self, as_expr(other))

    def __gt__(self, other: object) -> Expr:
        return Compare("<", as_expr(other), self)

    def __ge__(self, other: object) -> Expr:
        return Compare("<=", as_expr(other), self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return Compare("==", self, as_expr(other))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return Compare("!=", self, as_expr(other))

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

    def at(self, coords: Coords) -> Ints:
        return np.asarray(self.value, dtype=np.int64)

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return self

    def __str__(self) -> str:
        return str(self.value)


class Coord(Expr):
    """A rank's index along one mesh axis."""

    __slots__ = ("axis", "size")

    def __init__(self, axis: str, size: int) -> None:
        self.axis, self.size = axis, size

    @property
    def key(self) -> tuple[Any, ...]:
        return ("coord", self.axis)

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, self.size - 1

    def at(self, coords: Coords) -> Ints:
        return coords[self.axis]

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return new.get(self.axis, self)

    def __str__(self) -> str:
        return self.axis


class Sum(Expr):
    """constant + coefficient * atom + ...; the normal form of affine arithmetic."""

    __slots__ = ("const", "terms")

    def __init__(self, const: int, terms: tuple[tuple[Expr, int], ...]) -> None:
        self.const, self.terms = const, terms

    @property
    def key(self) -> tuple[Any, ...]:
        return ("sum", self.const, *sorted(((t.key, c) for t, c in self.terms), key=repr))

    @property
    def bounds(self) -> tuple[int, int] | None:
        low = high = self.const
        for term, c in self.terms:
            if (b := term.bounds) is None:
                return None
            low += c * b[c < 0]
            high += c * b[c > 0]
        return low, high

    def at(self, coords: Coords) -> Ints:
        x = np.asarray(self.const, dtype=np.int64)
        for term, c in self.terms:
            x = x + (term.at(coords) if c == 1 else c * term.at(coords))
        return x

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return total(self.const, *(scaled(t.replace(new), c) for t, c in self.terms))

    def __str__(self) -> str:
        parts = [f"{c}*{t}" if c != 1 else str(t) for t, c in self.terms]
        return "(" + " + ".join(parts + [str(self.const)] * (self.const != 0)) + ")"


class _Binary(Expr):
    """Two operands and one rule."""

    __slots__ = ("a", "b")
    sign = ""

    def __init__(self, a: Expr, b: Expr) -> None:
        self.a, self.b = a, b

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.sign, self.a.key, self.b.key)

    def __str__(self) -> str:
        return f"({self.a} {self.sign} {self.b})"


class Product(_Binary):
    """The product of two expressions."""

    __slots__ = ()
    sign = "*"

    def at(self, coords: Coords) -> Ints:
        return self.a.at(coords) * self.b.at(coords)

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return self.a.replace(new) * self.b.replace(new)


class Mod(_Binary):
    """a mod b, b a positive constant."""

    __slots__ = ()
    sign = "%"

    @property
    def bounds(self) -> tuple[int, int] | None:
        assert isinstance(self.b, Const)
        return 0, self.b.value - 1

    def at(self, coords: Coords) -> Ints:
        return np.mod(self.a.at(coords), self.b.at(coords))

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return self.a.replace(new) % self.b


class Div(_Binary):
    """floor(a / b), b a positive constant."""

    __slots__ = ()
    sign = "//"

    @property
    def bounds(self) -> tuple[int, int] | None:
        assert isinstance(self.b, Const)
        limits = self.a.bounds
        return limits and (limits[0] // self.b.value, limits[1] // self.b.value)

    def at(self, coords: Coords) -> Ints:
        return np.floor_divide(self.a.at(coords), self.b.at(coords))

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return self.a.replace(new) // self.b


class Compare(_Binary):
    """1 where the comparison holds, else 0."""

    __slots__ = ("sign",)
    _RULES = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal}

    def __init__(self, sign: str, a: Expr, b: Expr) -> None:
        super().__init__(a, b)
        self.sign = sign

    @property
    def bounds(self) -> tuple[int, int] | None:
        return 0, 1

    def at(self, coords: Coords) -> Ints:
        return self._RULES[self.sign](self.a.at(coords), self.b.at(coords)).astype(np.int64)

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return Compare(self.sign, self.a.replace(new), self.b.replace(new))


class Where(Expr):
    """a where the condition is not 0, else b."""

    __slots__ = ("a", "b", "condition")

    def __init__(self, condition: Expr, a: Expr, b: Expr) -> None:
        self.condition, self.a, self.b = condition, a, b

    @property
    def key(self) -> tuple[Any, ...]:
        return ("where", self.condition.key, self.a.key, self.b.key)

    @property
    def bounds(self) -> tuple[int, int] | None:
        a, b = self.a.bounds, self.b.bounds
        return (min(a[0], b[0]), max(a[1], b[1])) if a and b else None

    def at(self, coords: Coords) -> Ints:
        return np.where(self.condition.at(coords) != 0, self.a.at(coords), self.b.at(coords))

    def replace(self, new: Mapping[str, Expr]) -> Expr:
        return where(*(x.replace(new) for x in (self.condition, self.a, self.b)))

    def __str__(self) -> str:
        return f"where({self.condition}, {self.a}, {self.b})"


def where(condition: Expr, a: object, b: object) -> Expr:
    """Choose per rank: a where the condition holds, else b."""
    return Where(condition, as_expr(a), as_expr(b))


def as_expr(x: object) -> Expr:
    """Return x as an expression; a plain integer becomes a constant."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, (int, np.integer)):
        return Const(int(x))
    raise ScheduleError(f"S12: a per-rank number must be an integer or an expression of them, got {x!r}")


def divisor(x: object) -> int:
    """Return a divisor as a plain integer: it must be the same on every rank, and at least 1."""
    x = x.value if isinstance(x, Const) else x
    if isinstance(x, (int, np.integer)) and x >= 1:
        return int(x)
    raise ScheduleError(f"S12: a per-rank number is divided by {x}: the divisor must be one integer, at least 1")


def scaled(x: Expr, c: int) -> Expr:
    """c * x in normal form."""
    if isinstance(x, Const):
        return Const(c * x.value)
    if c == 0:
        return Const(0)
    if isinstance(x, Sum):
        return Sum(c * x.const, tuple((t, c * k) for t, k in x.terms))
    return x if c == 1 else Sum(0, ((x, c),))


def total(*parts: object) -> Expr:
    """The sum of integers and expressions, in normal form."""
    const, atoms = 0, dict[Any, tuple[Expr, int]]()
    for part in parts:
        x = part if isinstance(part, Expr) else as_expr(part)
        if isinstance(x, Const):
            const += x.value
            continue
        if isinstance(x, Sum):
            const, terms = const + x.const, x.terms
        else:
            terms = ((x, 1),)
        for term, c in terms:
            key = term.key
            atoms[key] = term, atoms[key][1] + c if key in atoms else c
    kept = tuple((t, c) for t, c in atoms.values() if c)
    if not kept:
        return Const(const)
    return kept[0][0] if const == 0 and len(kept) == 1 and kept[0][1] == 1 else Sum(const, kept)


def _by_divisibility(x: Expr, m: int) -> tuple[Expr, Expr]:
    """Split x into (part whose every coefficient m divides, the rest)."""
    if isinstance(x, Const):
        return Const(x.value - x.value % m), Const(x.value % m)
    terms, const = (x.terms, x.const) if isinstance(x, Sum) else (((x, 1),), 0)
    whole = [scaled(t, c) for t, c in terms if c % m == 0]
    rest = [scaled(t, c) for t, c in terms if c % m]
    return total(const - const % m, *whole), total(const % m, *rest)


def modulo(x: Expr, m: int) -> Expr:
    """x mod m, with inner remainders of a multiple of m opened: ((i - 1) % p - 1) % p is (i - 2) % p."""
    terms, const = (x.terms, x.const) if isinstance(x, Sum) else (((x, 1),), 0)
    opened = [
        scaled(t.a, c) if isinstance(t, Mod) and (c * divisor(t.b)) % m == 0 else scaled(t, c) for t, c in terms
    ]
    _, rest = _by_divisibility(total(const, *opened), m)
    if (b := rest.bounds) and 0 <= b[0] and b[1] < m:
        return rest
    return Mod(rest, Const(m))


def floor_divided(x: Expr, m: int) -> Expr:
    """floor(x / m); what m divides for sure is taken out first."""
    whole, rest = _by_divisibility(x, m)
    if isinstance(whole, Sum):
        quotient: Expr = Sum(whole.const // m, tuple((t, c // m) for t, c in whole.terms))
    else:
        quotient = Const(whole.value // m) if isinstance(whole, Const) else whole
    if (b := rest.bounds) and 0 <= b[0] and b[1] < m:
        return total(quotient)
    return total(quotient, Div(rest, Const(m)))
