"""Hamilton: p - 1 cycles through all places that use every link between two of them once."""

from itertools import pairwise

import pytest

from algorithms.ways.hamilton import LARGEST, cycles, why_not

MADE = [p for p in range(1, LARGEST + 1) if p not in (4, 6)]


def links(order):
    return list(pairwise([*order, order[0]]))


@pytest.mark.parametrize("p", MADE)
def test_each_cycle_visits_every_place_and_together_they_use_every_link_once(p):
    found = cycles(p)

    assert [sorted(order) for order in found] == [list(range(p))] * (p - 1)
    assert sorted(link for order in found for link in links(order)) == [
        (a, b) for a in range(p) for b in range(p) if a != b
    ]


def test_odd_numbers_of_places_rotate_one_zigzag():
    #   0 1 3 2 and then the last place, 4; every place but that one goes on by 1 from cycle to cycle
    assert cycles(5) == ((0, 1, 3, 2, 4), (1, 2, 0, 3, 4), (2, 3, 1, 0, 4), (3, 0, 2, 1, 4))


def test_the_same_cycles_are_found_every_time():
    first = cycles(16)
    cycles.cache_clear()

    assert cycles(16) == first


@pytest.mark.parametrize("p", [4, 6])
def test_four_and_six_places_have_none(p):
    with pytest.raises(ValueError, match=f"the links between {p} ranks are not {p - 1} cycles through all"):
        cycles(p)


def test_beyond_what_was_tried_there_is_a_reason():
    assert why_not(LARGEST) == ""
    with pytest.raises(ValueError, match=f"made for up to {LARGEST} ranks, got {LARGEST + 1}"):
        cycles(LARGEST + 1)
