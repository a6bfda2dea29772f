"""Placement: which GPU runs which rank."""

import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim.placement import describe, placed
from sim.simulate import Site, simulate
from topologies.basic import ring
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics.fat_tree import fat_tree
from topologies.fabrics.single import single

TWO = dgx_h100(2)


def test_by_node_fills_machine_after_machine():
    assert placed("node", TWO, 16) == placed("identity", TWO, 16) == tuple(range(16))


def test_by_rail_neighbours_sit_on_one_rail_of_different_machines():
    assert placed("rail", TWO, 16) == (0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)
    assert placed("rail", dgx_a100(2), 4) == (0, 8, 1, 9)


@pytest.mark.parametrize("fabric", [fat_tree, single])
def test_where_a_machines_nics_share_a_switch_rails_are_places_in_the_machine(fabric):
    assert placed("rail", dgx_h100(2, fabric), 16) == placed("rail", TWO, 16)


def test_a_snake_turns_at_every_seam():
    # node0: 0 ... 7 | node1: 15 ... 8: ranks 7 and 8 share a rail
    assert placed("snake", TWO, 16) == (*range(8), *range(15, 7, -1))


def test_a_shuffle_is_its_seed():
    assert placed("shuffle:1", TWO, 16) == placed("shuffle:1", TWO, 16) != placed("shuffle:2", TWO, 16)
    assert sorted(placed("shuffle:1", TWO, 16)) == list(range(16))


def test_a_list_is_taken_as_it_is():
    assert placed("list:3,1,9", TWO, 3) == (3, 1, 9)


def test_where_gpus_are_machines_of_their_own_rails_are_one():
    assert placed("rail", ring(4), 4) == placed("snake", ring(4), 4) == (0, 1, 2, 3)


def test_a_ring_by_rail_never_crosses_the_spine():
    # a snake's ring crosses machines at two seams, both on one rail; in the order of ranks it crosses rails
    schedule = find("ring")["prefill"](Attention(16, 4, 64, 4096, 4096), Mesh(ring=16))

    by_rank, snake = (simulate(schedule, Site(TWO, placement=placed(p, TWO, 16))) for p in ("identity", "snake"))

    assert by_rank.link_bytes["fabric"] > 0 == snake.link_bytes["fabric"]
    assert by_rank.link_bytes["nic"] == snake.link_bytes["nic"]
    assert snake.about["gpus"][8] == "node1/gpu7"


@pytest.mark.parametrize(
    "text, shown",
    [
        ("identity", "rank r on GPU r"),
        ("snake", "placed by snake: a, b, c, d, ..."),
        ("shuffle:3", "placed by shuffle:3: a, b, c, d, ..."),
        ("list:0,1,2,3,4", "placed by list: a, b, c, d, ..."),
    ],
)
def test_a_placement_is_echoed(text, shown):
    assert describe(text, list("abcde")) == shown
