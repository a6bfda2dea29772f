"""Alternatives: tokens that some ranks hold and others do not, and several such put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.ir.expr import Apply, Coords, Expr, Ints, ScheduleError, total, where
from algorithms.ir.tokens import Block, Runs, Tokens


class Only(Tokens):
    """The tokens of `inner` on ranks where the condition is not 0, none on the others."""

    __slots__ = ("condition", "inner")

    def __init__(self, inner: Tokens, condition: Expr) -> None:
        self.inner, self.condition = inner, condition

    @property
    def key(self) -> tuple[Any, ...]:
        return ("only", self.condition.key, self.inner.key)

    @property
    def depth(self) -> int:
        return self.inner.depth

    @property
    def count(self) -> Expr:
        return where(self.condition, self.inner.count, 0)

    def runs(self, coords: Coords) -> Runs:
        runs, holds = self.inner.runs(coords), self.condition.at(coords) != 0
        return Runs(runs.start, runs.count * holds[..., None], runs.step)

    def replace(self, new: Mapping[str, Expr]) -> Tokens:
        return Only(self.inner.replace(new), self.condition.replace(new))

    def __str__(self) -> str:
        return f"only({self.inner} where {self.condition})"


class Join(Tokens):
    """The tokens of several parts, one part after the other."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Tokens]) -> None:
        self.parts = tuple(parts)

    @property
    def key(self) -> tuple[Any, ...]:
        return ("join", *[part.key for part in self.parts])

    @property
    def depth(self) -> int:
        return max(part.depth for part in self.parts)

    @property
    def count(self) -> Expr:
        return total(*[part.count for part in self.parts])

    def runs(self, coords: Coords) -> Runs:
        each = [part.runs(coords) for part in self.parts]
        if len(steps := {runs.step for runs in each}) > 1:
            raise ScheduleError(f"S6: rows {sorted(steps)} positions apart are joined: {self}")
        alike = [np.broadcast_arrays(runs.start, runs.count) for runs in each]
        lead = np.broadcast_shapes(*[start.shape[:-1] for start, _ in alike])
        start, count = (
            np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in same], axis=-1)
            for same in zip(*alike, strict=True)
        )
        return Runs(start, count, each[0].step)

    def replace(self, new: Mapping[str, Expr]) -> Tokens:
        return Join([part.replace(new) for part in self.parts])

    def __str__(self) -> str:
        return f"join({', '.join(map(str, self.parts))})"


def restricted(tokens: Tokens, condition: Expr, coords: Coords) -> Tokens:
    """Return what is held where a condition holds, in the shortest form: what it decides is left out.

    Args:
        coords: of all ranks.
    """
    holds = condition.at(coords) != 0
    if holds.all():
        return tokens
    if isinstance(tokens, Join):
        left = [part for part in tokens.parts if not _vanishes(part, holds, coords)]
        if len(left) == 1:
            return restricted(left[0], condition, coords)
    if isinstance(tokens, Only):
        before = tokens.condition.at(coords) != 0
        if not (before & ~holds).any():
            return tokens
        decided = not (holds & ~before).any()
        return restricted(tokens.inner, condition if decided else condition * tokens.condition, coords)
    if isinstance(tokens, Block):
        tokens = Block(tokens.layout, _given(tokens.index, holds, coords))
    return Only(tokens, condition)


def _vanishes(tokens: Tokens, holds: Ints, coords: Coords) -> bool:
    return isinstance(tokens, Only) and not ((tokens.condition.at(coords) != 0) & holds).any()


def _given(x: Expr, holds: Ints, coords: Coords) -> Expr:
    """The same number where a condition holds, with the choices made that it decides."""
    while isinstance(x, Apply) and x.sign == "where":
        condition, a, b = x.operands
        first = condition.at(coords) != 0
        if (first & holds).any() and (~first & holds).any():
            break
        x = a if (first & holds).any() else b
    return x


def joined(parts: Sequence[Tokens], coords: Coords) -> Tokens:
    """Return the parts one after the other; shards of one layout, of which a rank has one or none, are one shard."""
    if len(parts) == 1:
        return parts[0]
    some = [part for part in parts if isinstance(part, Only)]
    blocks = [(part.condition, part.inner) for part in some if isinstance(part.inner, Block)]
    layouts = {block.layout for _, block in blocks}
    if len(blocks) < len(parts) or len(layouts) > 1 or not exclusive(parts, coords):
        return Join(parts)
    index = blocks[-1][1].index
    for condition, block in reversed(blocks[:-1]):
        index = where(condition, block.index, index)
    anywhere = total(*[condition for condition, _ in blocks])
    whole = Block(layouts.pop(), index)
    return whole if (anywhere.at(coords) != 0).all() else Only(whole, anywhere)


def exclusive(parts: Sequence[Tokens], coords: Coords) -> bool:
    """Whether the conditions leave every rank one part at most."""
    held = sum(((part.condition.at(coords) != 0) * 1 if isinstance(part, Only) else 1 for part in parts), np.zeros(()))
    return bool(np.max(held) <= 1)
