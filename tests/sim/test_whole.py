"""Whole models: layers of several kinds, one after another, run by one algorithm on one mesh, add up."""

from dataclasses import replace

import pytest

import algorithms
from algorithms.ir import Attention, require, spmd
from algorithms.ir.job import Job
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from sim.compare import compare
from sim.jitter import Jitter
from sim.simulate import Site
from topologies.basic import switch, two_level

CAUSAL = Attention(8, 8, 64, 1 << 13, 1 << 13, mask="causal")
FULL = replace(CAUSAL, mask="full")
KINDS = [(3, FULL), (2, CAUSAL)]
SUMS = ("time_s", "time_low_s", "time_high_s", "compute_s", "exposed_communication_s", "bound_s")


def programs(*names):
    return {name: algorithms.find(name) for name in names}


def costs(problem, kinds=(), names=("ring", "usp"), site=None, **options):
    found = compare(programs(*names), problem, Job(1, 8, 1), site or Site(two_level(2, 4)), kinds=kinds, **options)
    return found, {(one.algorithm, *one.mesh.items()): one for one in found.results}


def test_a_model_takes_the_sum_of_its_layers_on_the_same_mesh():
    _, model = costs(FULL, KINDS, layout="contiguous")
    (_, full), (_, causal) = costs(FULL, layout="contiguous"), costs(CAUSAL, layout="contiguous")

    assert model.keys() == full.keys() == causal.keys()
    for key, one in model.items():
        for name in SUMS:
            assert getattr(one, name) == pytest.approx(3 * getattr(full[key], name) + 2 * getattr(causal[key], name))
        assert one.sent_bytes == pytest.approx(
            [3 * a + 2 * b for a, b in zip(full[key].sent_bytes, causal[key].sent_bytes, strict=True)]
        )
        assert one.peak_bytes == tuple(map(max, full[key].peak_bytes, causal[key].peak_bytes))
        assert one.link_bytes == {
            kind: 3 * nbytes + 2 * causal[key].link_bytes[kind] for kind, nbytes in full[key].link_bytes.items()
        }
        assert one.per == "model"


def test_a_model_is_as_fast_as_its_work_over_its_time():
    _, model = costs(FULL, KINDS, layout="contiguous")
    (_, full), (_, causal) = costs(FULL, layout="contiguous"), costs(CAUSAL, layout="contiguous")

    for key, one in model.items():
        work = 3 * full[key].flop_rate * full[key].time_s + 2 * causal[key].flop_rate * causal[key].time_s
        assert one.flop_rate == pytest.approx(work / one.time_s)
        assert min(full[key].mfu, causal[key].mfu) <= one.mfu <= max(full[key].mfu, causal[key].mfu)


def test_each_kind_says_what_its_layers_take():
    _, model = costs(FULL, KINDS)

    for one in model.values():
        assert [(kind["layers"], kind["mask"]) for kind in one.kinds] == [(3, "full"), (2, "causal")]
        assert sum(kind["time_s"] for kind in one.kinds) == pytest.approx(one.time_s)


def test_the_bound_of_a_model_is_that_of_its_layers():
    found, _ = costs(FULL, KINDS)
    (full, _), (causal, _) = costs(FULL), costs(CAUSAL)

    assert found.bound.seconds == pytest.approx(3 * full.bound.seconds + 2 * causal.bound.seconds)
    for name, seconds in found.bound.limits.items():
        assert seconds == pytest.approx(3 * full.bound.limits[name] + 2 * causal.bound.limits[name])
    assert all(one.time_s >= found.bound.seconds for one in found.results)


def test_layers_of_one_kind_are_that_many_times_one():
    _, model = costs(CAUSAL, [(80, CAUSAL)])
    _, one = costs(CAUSAL)

    for key, found in model.items():
        assert found.time_s == pytest.approx(80 * one[key].time_s)
        assert found.peak_bytes == one[key].peak_bytes


def test_repeats_with_jitter_add_up_repeat_by_repeat():
    jitters = [Jitter(0.1, seed) for seed in (1, 2, 3)]
    site = Site(switch(8))
    (_, model), (_, full), (_, causal) = (
        costs(problem, kinds, ("ring",), site, layout="contiguous", jitters=jitters)
        for problem, kinds in ((FULL, KINDS), (FULL, ()), (CAUSAL, ()))
    )

    for key, one in model.items():
        expected = [3 * a + 2 * b for a, b in zip(full[key].times_s, causal[key].times_s, strict=True)]
        assert one.times_s == pytest.approx(expected)
        assert one.time_s == sorted(one.times_s)[1]
        assert (one.p10_s, one.p90_s) == (min(one.times_s), max(one.times_s))


def test_progress_never_goes_back():
    said = []
    costs(FULL, KINDS, progress=lambda share, what: said.append(share))

    assert len(said) > 10
    assert said == sorted(said)
    assert 0 <= said[0] <= said[-1] <= 1


def test_an_algorithm_that_cannot_run_one_kind_cannot_run_the_model_and_says_which():
    @spmd("cp")
    def only_full(me, problem):
        require(str(problem.mask) == "full", "it wants a full mask")
        (i,), (p,) = me.coords, me.sizes
        return attend(*load(me, problem, problem.queries(p)[i], problem.keys(1)[0]))

    found = compare({"only_full": {"prefill": only_full}}, FULL, Job(1, 8, 1), Site(switch(8)), kinds=KINDS)

    assert found.results == []
    assert [one.reason for one in found.inapplicable] == ["2 layers with mask causal: it wants a full mask"]
