"""Affine forms: constant + coefficient * atom + ..., the normal form that per-rank arithmetic is kept in.

An atom is whatever has a `key` (equal keys are one atom) and `bounds`. Because forms are normal, going all the
way round a ring ends at the very expression it began with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

Bounds = tuple[int, int] | None


class Atom(Protocol):
    """A number that differs from rank to rank and is no sum."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal keys mean equal numbers on every rank."""

    @property
    def bounds(self) -> Bounds:
        """Smallest and largest value, or None when not known."""


A = TypeVar("A", bound=Atom)


class Affine(NamedTuple, Generic[A]):
    """const + the sum of coefficient * atom; no atom stands twice, no coefficient is 0."""

    const: int
    terms: tuple[tuple[A, int], ...] = ()


def total(forms: Iterable[Affine[A]]) -> Affine[A]:
    """The sum of forms."""
    const, atoms = 0, dict[Any, tuple[A, int]]()
    for more, terms in forms:
        const += more
        for atom, c in terms:
            key = atom.key
            atoms[key] = atom, atoms[key][1] + c if key in atoms else c
    return Affine(const, tuple([term for term in atoms.values() if term[1]]))


def times(form: Affine[A], c: int) -> Affine[A]:
    """C * form."""
    return Affine(c * form.const, tuple([(atom, c * k) for atom, k in form.terms])) if c else Affine(0)


def bounds(form: Affine[A]) -> Bounds:
    """Limits that the value keeps; no closer than the atoms' own limits show."""
    low = high = form.const
    for atom, c in form.terms:
        if (limits := atom.bounds) is None:
            return None
        low += c * limits[c < 0]
        high += c * limits[c > 0]
    return low, high


def divided(form: Affine[A], m: int) -> tuple[Affine[A], Affine[A]]:
    """Split into m * quotient + rest: what m divides for sure is in the quotient."""
    quotient = [(atom, c // m) for atom, c in form.terms if c % m == 0]
    rest = [(atom, c) for atom, c in form.terms if c % m]
    return Affine(form.const // m, tuple(quotient)), Affine(form.const % m, tuple(rest))


def is_remainder(form: Affine[A], m: int) -> bool:
    """Whether the value is in 0..m-1 on every rank, so that mod m leaves it as it is."""
    limits = bounds(form)
    return limits is not None and limits[0] >= 0 and limits[1] < m


def is_once_around(form: Affine[A], m: int) -> bool:
    """Whether the value is in 0..2m-1 on every rank, so that mod m takes m from it or nothing."""
    limits = bounds(form)
    return limits is not None and limits[0] >= 0 and limits[1] < 2 * m
