"""Repeats: each is a run of its own, and the one in the middle is shown."""

from functools import partial

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim import repeats
from sim.jitter import Jitter
from sim.repeats import Band, middle, repeated
from sim.routing import Routing
from sim.simulate import Site, simulate
from topologies.dgx import dgx_h100
from topologies.fabrics.fat_tree import fat_tree

SITE = Site(dgx_h100(1))
TREE_OF_SWITCHES = dgx_h100(4, partial(fat_tree, leaf=8, oversubscription=2))
GRID = find("attention2d")["prefill"](Attention(16, 4, 64, 65536, 65536), Mesh(row=4, col=8))
RING = find("ring")["prefill"](Attention(16, 4, 64, 65536, 65536), Mesh(ring=8))
TREE = find("tree")["decode"](Attention(32, 8, 128, 1, 1 << 17, phase="decode"), Mesh(cp=8))


def jitters(count, spread=0.05):
    return [Jitter(spread, 1, repeat) for repeat in range(count)]


@pytest.mark.parametrize("count, band", [(11, (5, 1, 9)), (10, (4, 0, 8)), (2, (0, 0, 1)), (1, (0, 0, 0))])
def test_a_band_is_the_middle_and_its_tenths_and_each_is_the_time_of_a_run(count, band):
    times = list(np.random.default_rng(1).permutation(count).astype(float))

    assert Band.of(times) == band
    assert times[middle(times)] == band[0]


@pytest.mark.parametrize("count", [1, 4, 5])
def test_repeats_are_single_runs_and_the_one_in_the_middle_is_kept(count):
    alone = [simulate(RING, SITE, jitter=jitter) for jitter in jitters(count)]
    found = repeated(RING, SITE, jitters=jitters(count))

    assert found.times == tuple(one.makespan for one in alone)
    kept = alone[middle(found.times)]
    assert (found.timeline.end == kept.end).all()
    assert found.timeline.makespan == Band.of(found.times).median
    assert found.timeline.about["jitter"]["repeat"] == middle(found.times)


@pytest.mark.parametrize("spread", [None, 0.1])
def test_each_repeat_has_a_seed_of_the_hash_beside_its_jitter(spread):
    site = Site(TREE_OF_SWITCHES, routing=Routing("ecmp", 5))
    drawn = jitters(3, spread) if spread else [None] * 3
    alone = [
        simulate(GRID, Site(TREE_OF_SWITCHES, routing=Routing("ecmp", 5 + number)), jitter=jitter)
        for number, jitter in enumerate(drawn)
    ]
    found = repeated(GRID, site, jitters=drawn)

    assert found.times == tuple(one.makespan for one in alone)
    assert len(set(found.times)) == 3
    assert found.timeline.about["routing"]["seed"] == 5 + middle(found.times)


def test_seeds_that_change_no_route_are_not_run(monkeypatch):
    runs = []
    monkeypatch.setattr(repeats, "simulate", lambda *a, **how: runs.append(a) or simulate(*a, **how))
    site = Site(dgx_h100(1), routing=Routing("ecmp"))
    found = repeated(RING, site, jitters=[None] * 6)

    assert len(runs) == 2  # one, and the same again to keep
    assert found.times == (found.timeline.makespan,) * 6
    assert found.timeline.about["routing"]["seed"] == 1


def test_a_site_keeps_its_repeats_and_the_routes_they_know():
    site = Site(TREE_OF_SWITCHES, routing=Routing("ecmp"))

    assert site.repeat(0) is site
    assert site.repeat(2) is site.repeat(2) is site.repeat(1).repeat(1)
    assert SITE.repeat(3) is SITE


def test_ways_are_chosen_by_the_median_and_not_anew_in_each_repeat():
    by_way = {
        way: [simulate(TREE, SITE, ways={"all_reduce": way}, jitter=jitter).makespan for jitter in jitters(5, 0.5)]
        for way in repeats.LIBRARY_WAYS["all_reduce"]
    }
    found = repeated(TREE, SITE, jitters=jitters(5, 0.5))

    best = min(by_way, key=lambda way: Band.of(by_way[way]).median)
    assert found.timeline.about["ways"] == {"all_reduce": best}
    assert list(found.times) == by_way[best]


def test_progress_goes_on_over_all_ways_and_repeats(monkeypatch):
    def announced(*arguments, progress, **how):
        progress(0.5, 1.0)
        return simulate(*arguments, **how)

    shares = []
    monkeypatch.setattr(repeats, "simulate", announced)
    repeated(TREE, SITE, jitters=jitters(3), progress=lambda share, _: shares.append(share))

    # two ways, each three repeats and the middle one again: eight halves
    assert shares == pytest.approx([(run + 0.5) / 8 for run in range(8)])


def test_a_long_run_says_once_that_there_are_several(monkeypatch):
    said = []
    monkeypatch.setattr("sim.simulate.warning", lambda *_: "this run is long")
    monkeypatch.setattr("sim.simulate.run_fastest", _announced)

    repeated(RING, SITE, jitters=jitters(3), notice=said.append)

    assert said == ["this run is long, for each of 4 runs"]


def _announced(frozen, how, progress, ahead):
    from sim.fastest import run_fastest

    ahead(frozen)
    return run_fastest(frozen, how, progress)
