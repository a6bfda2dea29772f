"""Hamilton: cycles through all places of a group that together use every link from one place to another once.

The complete digraph on p places has p (p-1) links: p - 1 such cycles, unless p is 4 or 6. For odd p they are one
zigzag, rotated; for even p one set of links is left, in pairs there and back, which a search weaves into some cycles.

References:
    Tillson. "A Hamiltonian decomposition of K*_2m, 2m >= 8." Journal of Combinatorial Theory B 29, 1980.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from random import Random

LARGEST = 72  # places: the cycles of all these are tested
WOVEN = 8  # sets of links among which the search exchanges links
STEADY = 20_000  # exchanges after which it starts with other cycles

Successors = list[int]  # the place that comes after each place
Draw = Callable[[int], int]  # a number below the one given


def why_not(p: int) -> str:
    """Say in a line why there are no such cycles, or none are made; nothing where there are."""
    if p in (4, 6):
        return f"the links between {p} ranks are not {p - 1} cycles through all: they are for any number but 4 and 6"
    return f"cycles that use every link once are made for up to {LARGEST} ranks, got {p}" if p > LARGEST else ""


@lru_cache
def cycles(p: int) -> tuple[tuple[int, ...], ...]:
    """Return p - 1 orders of the places 0..p-1, each to go round in; every place comes right after every other once.

    Raises:
        ValueError: there are none for 4 and 6 places; more than LARGEST were not tried.
    """
    if reason := why_not(p):
        raise ValueError(reason)
    if p < 3:
        return ((0, 1),) * (p - 1)
    return tuple(_zigzags(p) if p % 2 else map(_order, _woven(p)))


def _zigzags(p: int) -> Iterator[tuple[int, ...]]:
    """0, 1, -1, 2, -2, ... modulo p - 1 takes every difference once, and so does each rotation; then the last place."""
    n = p - 1
    for turn in range(n):
        yield *[((k + 1) // 2 * (1 if k % 2 else -1) + turn) % n for k in range(n)], n


def _paired(p: int) -> tuple[Successors, list[Successors]]:
    """For even p: one set of links in pairs there and back, and p - 2 cycles of all others.

    Pairs whose numbers add up to s modulo p - 1 (the place that would pair with itself takes the last place) are a
    set for each s; those of s and s + 2 are a cycle, both ways.
    """
    n, cycles = p - 1, list[Successors]()

    def mate(x: int, s: int) -> int:
        own = s * (n + 1) // 2 % n
        return own if x == n else n if x == own else (s - x) % n

    for s in range(0, 2 * (n - 1), 4):
        order = [n]
        while len(order) < p:
            order.append(mate(order[-1], s if len(order) % 2 else s + 2))
        cycles += [_successors(order), _successors(order[::-1])]
    return [mate(x, 2 * (n - 1)) for x in range(p)], cycles


def _woven(p: int) -> list[Successors]:
    """Exchange links among the pairs and some cycles until all are cycles, or with others where that does not end."""
    pairs, cycles = _paired(p)
    random = Random(p)

    def draw(below: int) -> int:
        return int(random.random() * below)  # the one sequence that is promised never to change

    while True:
        chosen = [cycles.pop(draw(len(cycles))) for _ in range(min(WOVEN, p - 1) - 1)]
        found = _weave(_mixed([pairs, *chosen], draw), draw)
        cycles += found or chosen
        if found:
            return cycles


def _weave(sets: list[Successors], draw: Draw) -> list[Successors] | None:
    """Exchange links of two sets time and again, never to more cycles than before, until each set is one."""
    counts = [_cycles_in(one) for one in sets]
    if sum(counts) % 2 != len(sets) % 2:
        return None  # an exchange never changes this
    for _ in range(STEADY):
        if sum(counts) == len(sets):
            return sets
        i, j = draw(len(sets)), draw(len(sets))
        a, b = _exchanged(sets[i], sets[j], draw)
        now = _cycles_in(a), _cycles_in(b)
        if sum(now) <= counts[i] + counts[j] and i != j:
            sets[i], sets[j] = a, b
            counts[i], counts[j] = now
    return None


def _exchanged(a: Successors, b: Successors, draw: Draw) -> tuple[Successors, Successors]:
    """Exchange links, or not, of each of the smallest groups of places whose links go to the same places in both."""
    a, b, before, seen = a[:], b[:], {to: place for place, to in enumerate(b)}, set[int]()
    for place in range(len(a)):
        swap = draw(2)
        while place not in seen:
            seen.add(place)
            following = before[a[place]]
            if swap:
                a[place], b[place] = b[place], a[place]
            place = following
    return a, b


def _mixed(sets: list[Successors], draw: Draw) -> list[Successors]:
    """Deal the links of all sets anew, so that each has one out of every place and one into it."""
    left = [list(links) for links in zip(*sets, strict=True)]
    dealt = []
    for _ in sets:
        for links in left:
            links.sort(key=lambda _: draw(1 << 30))
        source: dict[int, int] = {}
        for place in range(len(left)):
            _claim(place, left, source, set())
        dealt.append([to for _, to in sorted((place, to) for to, place in source.items())])
        for links, to in zip(left, dealt[-1], strict=True):
            links.remove(to)
    return dealt


def _claim(place: int, links: list[list[int]], source: dict[int, int], tried: set[int]) -> bool:
    """Give a place a link to where no other has one, or to where another can give up its own."""
    for to in links[place]:
        if to not in tried:
            tried.add(to)
            if to not in source or _claim(source[to], links, source, tried):
                source[to] = place
                return True
    return False


def _cycles_in(successors: Successors) -> int:
    seen, count = [False] * len(successors), 0
    for place in range(len(successors)):
        count += not seen[place]
        while not seen[place]:
            seen[place] = True
            place = successors[place]
    return count


def _order(successors: Successors) -> tuple[int, ...]:
    """The places of a cycle, from 0 on."""
    order = [0]
    while (following := successors[order[-1]]) != 0:
        order.append(following)
    return tuple(order)


def _successors(order: Sequence[int]) -> Successors:
    successors = [0] * len(order)
    for place, following in zip(order, [*order[1:], order[0]], strict=True):
        successors[place] = following
    return successors
