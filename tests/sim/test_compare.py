"""Compare: which meshes and layouts are tried, what cannot run, and in which order results stand."""

from dataclasses import replace

import pytest

import algorithms
from algorithms.ir import Attention, Mesh, ScheduleError
from algorithms.ir.job import Job, factorisations, share_out
from sim.candidates import Candidate, candidates, layouts
from sim.compare import compare, run
from sim.jitter import Jitter
from sim.pacing import Pacing
from sim.result import Errors, tied
from sim.simulate import Site
from topologies.basic import switch
from topologies.dgx import dgx_h100
from topologies.units import GB

PROBLEM = Attention(8, 4, 64, 4096, 4096, mask="causal")


def programs(*names):
    return {name: algorithms.find(name) for name in names}


def site(gpus=8, **options):
    return Site(switch(gpus, **options))


def tried(name, **options):
    job = options.pop("job", Job(1, 8, 1))
    found, _ = candidates(programs(name), options.pop("problem", PROBLEM), job, **options)
    return [(dict(one.mesh.axes), one.problem.layout) for one in found]


def test_every_split_of_the_ranks_over_two_axes_is_tried():
    assert list(factorisations(12, 2)) == [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)]
    assert [mesh for mesh, _ in tried("attention2d")] == [{"row": r, "col": 8 // r} for r in (1, 2, 4, 8)]


def test_three_axes_are_split_in_every_order():
    found = list(factorisations(8, 3))

    assert len(found) == len(set(found)) == 10  # 3 factors of two in 3 places: C(5, 2)
    assert all(a * b * c == 8 for a, b, c in found)


def test_layouts_are_tried_where_a_causal_mask_must_be_balanced():
    ring = algorithms.find("ring")["prefill"]

    assert layouts(ring, PROBLEM, "auto") == ("zigzag", "striped", "contiguous")
    assert layouts(ring, replace(PROBLEM, mask="full"), "auto") == ("contiguous",)
    assert layouts(ring, replace(PROBLEM, phase="decode"), "auto") == ("contiguous",)
    assert layouts(ring, PROBLEM, "striped") == ("striped",)


def test_what_fits_the_memory_stands_before_what_is_faster_and_does_not():
    graph = switch(8)
    sizes = [one.peak_bytes.max for one in compare(programs("ring", "usp"), PROBLEM, Job(1, 8, 1), Site(graph)).results]
    for rank in range(8):
        graph.nodes[f"gpu{rank}"]["memory"] = sorted(sizes)[len(sizes) // 2]

    found = compare(programs("ring", "usp"), PROBLEM, Job(1, 8, 1), Site(graph)).results

    assert [one.fits for one in found] == sorted((one.fits for one in found), reverse=True)
    assert not all(one.fits for one in found)
    for fits in (True, False):
        times = [one.time_s for one in found if one.fits == fits]
        assert times == sorted(times)
    assert min(found, key=lambda one: one.time_s).fits is False


def test_a_typed_mesh_is_the_only_one_tried():
    job = share_out(8, "", mesh="row=2,col=4")

    assert tried("attention2d", job=job) == [({"row": 2, "col": 4}, "striped")]


def test_an_algorithm_of_other_axes_or_another_phase_says_so():
    job = share_out(8, "", mesh="row=2,col=4")
    _, refused = candidates(programs("ring", "tree"), PROBLEM, job)

    assert [(one.algorithm, one.mesh) for one in refused] == [("ring", {"row": 2, "col": 4}), ("tree", None)]
    assert "it runs over mesh axes ring" in refused[0].reason
    assert refused[1].reason == "it is written for decode, not prefill"


def test_results_stand_best_first_and_none_is_below_the_bound():
    found = compare(programs(*algorithms.names()), PROBLEM, Job(1, 8, 1), site())

    times = [one.time_s for one in found.results]
    assert times == sorted(times)
    assert {one.algorithm for one in found.results} == {
        x for x in algorithms.names() if "prefill" in algorithms.find(x)
    }
    assert all(one.time_s >= found.bound.seconds for one in found.results)


def test_an_algorithm_that_cannot_divide_its_heads_is_listed_with_the_reason():
    found = compare(programs("ulysses", "ring"), replace(PROBLEM, heads=4), Job(1, 8, 1), site())

    assert [(one.algorithm, dict(one.mesh)) for one in found.inapplicable] == [("ulysses", {"ulysses": 8})]
    assert "does not divide the 4 query heads" in found.inapplicable[0].reason


def test_a_reason_that_holds_for_every_mesh_is_given_once():
    found = compare(programs("attention2d"), PROBLEM, Job(1, 4, 2), site())

    assert found.results == []
    assert [one.reason for one in found.inapplicable] == ["dp=2 does not divide batch=1"]


def test_usp_on_one_ring_is_ulysses_and_is_not_listed_twice():
    both = compare(programs("ulysses", "usp"), PROBLEM, Job(1, 8, 1), site(), layout="contiguous")
    alone = compare(programs("usp"), PROBLEM, Job(1, 8, 1), site(), layout="contiguous")

    assert {"ring": 1, "ulysses": 8} not in [one.mesh for one in both.results]
    assert {"ring": 1, "ulysses": 8} in [one.mesh for one in alone.results]


def test_usp_on_one_ring_is_ulysses_under_jitter_too():
    both = compare(programs("ulysses", "usp"), PROBLEM, Job(1, 8, 1), site(), layout="contiguous", jitters=repeats(3))

    assert {"ring": 1, "ulysses": 8} not in [one.mesh for one in both.results]


def test_contiguous_ring_is_slower_than_zigzag_under_a_causal_mask():
    found = compare(programs("ring"), PROBLEM, Job(1, 8, 1), site(bandwidth=4e3 * GB))

    assert [one.layout for one in found.results][-1] == "contiguous"


def test_time_is_compute_and_exposed_communication_each_with_its_error():
    found = compare(programs("all_gather_kv"), PROBLEM, Job(1, 8, 1), site(), errors=Errors(0.2, 0.5)).results[0]

    assert found.time_s == pytest.approx(found.compute_s + found.exposed_communication_s)
    assert found.time_low_s == pytest.approx(0.8 * found.compute_s + 0.5 * found.exposed_communication_s)
    assert found.time_high_s == pytest.approx(1.2 * found.compute_s + 1.5 * found.exposed_communication_s)


def repeats(count, spread=0.1):
    return [Jitter(spread, 1, repeat) for repeat in range(count)]


def test_repeats_rank_by_their_median_and_widen_the_stated_error_by_their_band():
    found = compare(
        programs("ring", "usp"), PROBLEM, Job(1, 8, 1), site(), errors=Errors(0.2, 0.5), jitters=repeats(5)
    ).results

    assert [one.time_s for one in found] == sorted(one.time_s for one in found)
    for one in found:
        first, _, median, _, last = sorted(one.times_s)
        assert (one.p10_s, one.time_s, one.p90_s) == (first, median, last)
        low, high = (
            (1 + sign * 0.2) * one.compute_s + (1 + sign * 0.5) * one.exposed_communication_s for sign in (-1, 1)
        )
        assert one.time_low_s == pytest.approx(low * first / median)
        assert one.time_high_s == pytest.approx(high * last / median)
        assert one.times(80).times_s == pytest.approx([80 * time for time in one.times_s])


def test_without_jitter_the_band_is_a_point():
    found = compare(programs("ring"), PROBLEM, Job(1, 8, 1), site()).results[0]

    assert found.times_s == (found.time_s,)
    assert found.p10_s == found.time_s == found.p90_s


def test_more_jitter_makes_no_fewer_ties():
    def ties(spread):
        jitters = repeats(9, spread) if spread else [None]
        found = compare(programs(*algorithms.names()), PROBLEM, Job(1, 8, 1), site(), jitters=jitters).results
        return sum(tied(one, found) for one in found)

    assert ties(0) <= ties(0.1) <= ties(0.5)
    assert ties(0) < ties(0.5)


def test_a_pace_is_every_candidates():
    plain, chunked = (
        compare(programs("ring", "ulysses"), PROBLEM, Job(1, 8, 1), site(), layout="contiguous", pacing=pacing)
        for pacing in (Pacing(), Pacing(chunks=4))
    )

    times = [{one.algorithm: one.time_s for one in found.results} for found in (plain, chunked)]
    assert times[0]["ring"] == times[1]["ring"]
    assert times[0]["ulysses"] != times[1]["ulysses"]


def test_what_cannot_be_cut_as_asked_is_left_out_with_the_reason():
    found = compare(programs("ring", "ulysses"), PROBLEM, Job(1, 8, 1), site(), pacing=Pacing(chunk_nbytes=1))

    assert {one.algorithm for one in found.results} == {"ring"}
    assert "--chunk-size 1 cuts" in found.inapplicable[0].reason


def test_results_tie_when_their_intervals_overlap():
    best, other = (replace_time(low, high) for low, high in ((1.0, 2.0), (1.5, 3.0)))

    assert other.ties(best)
    assert not replace_time(2.1, 3.0).ties(best)


def replace_time(low, high):
    found = compare(programs("ring"), PROBLEM, Job(1, 8, 1), site()).results[0]
    return replace(found, time_low_s=low, time_high_s=high)


def test_ring_sends_p_minus_1_blocks_from_each_rank_and_carries_them_over_two_links():
    found = compare(programs("ring"), PROBLEM, Job(1, 8, 1), site(), layout="contiguous").results[0]

    block = 2 * 4 * 64 * (4096 // 8) * 2  # k and v, KV heads, width, tokens, bytes of bfloat16
    assert found.sent_bytes == (7 * block, 7 * block, 7 * block)
    assert found.link_bytes == {
        "link": 8 * 7 * block
    }  # a class counts a flow once, however many of its links it crosses


def test_mfu_counts_visible_pairs_only():
    free = site(bandwidth=1e9 * GB, latency=0.0)

    full = compare(programs("all_gather_kv"), replace(PROBLEM, mask="full"), Job(1, 8, 1), free).results[0]
    causal = compare(programs("all_gather_kv"), PROBLEM, Job(1, 8, 1), free).results[0]

    assert full.mfu == pytest.approx(1, rel=1e-3)  # an ideal GPU reaches its peak
    assert causal.mfu == pytest.approx(1, rel=1e-2)  # zigzag: balanced
    assert causal.time_s == pytest.approx(full.time_s / 2, rel=1e-2)


def test_a_model_takes_its_layers_one_after_another_in_the_memory_of_one():
    one = compare(programs("ring"), PROBLEM, Job(1, 8, 1), site()).results[0]
    model = one.times(80)

    assert model.per == "model"
    assert model.time_s == pytest.approx(80 * one.time_s)
    assert model.sent_bytes.max == 80 * one.sent_bytes.max
    assert (model.peak_bytes, model.mfu) == (one.peak_bytes, one.mfu)


def test_a_layer_larger_than_the_memory_does_not_fit():
    long = replace(PROBLEM, kv_heads=8, query_len=512, key_len=65536)  # keys gathered are most of what is held
    cluster = switch(8)
    ring = compare(programs("ring"), long, Job(1, 8, 1), Site(cluster)).results[0]
    for gpu in [node for node, rank in cluster.nodes(data="rank") if rank is not None]:
        cluster.nodes[gpu]["memory"] = float(ring.peak_bytes.max)

    found = compare(programs("ring", "all_gather_kv"), long, Job(1, 8, 1), Site(cluster), layout="zigzag")

    assert {one.algorithm: one.fits for one in found.results} == {"ring": True, "all_gather_kv": False}
    assert {one.memory_bytes for one in found.results} == {float(ring.peak_bytes.max)}


MINE = """
from algorithms.ir import spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.permute import permute

@spmd("cp")
def right(me, problem):
    (i,), (p,) = me.coords, me.sizes
    return attend(*load(me, problem, problem.queries(p)[i], problem.keys(1)[0]))

@spmd("cp")
def forgets(me, problem):
    (i,), (p,) = me.coords, me.sizes
    return attend(*load(me, problem, problem.queries(p)[i], problem.keys(p)[i]))

@spmd("cp")
def crashes(me, problem):
    return 1 / 0
"""


def mine(tmp_path, function):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return programs(f"{path}:{function}")


def test_an_algorithm_from_a_file_is_ranked_under_the_name_that_was_typed(tmp_path):
    found = compare(mine(tmp_path, "right"), PROBLEM, Job(1, 8, 1), site())

    assert found.results[0].algorithm == f"{tmp_path / 'mine.py'}:right"


def test_an_algorithm_from_a_file_that_forgets_keys_is_refused_by_its_law(tmp_path):
    with pytest.raises(ScheduleError, match="S8"):
        compare(mine(tmp_path, "forgets"), PROBLEM, Job(1, 8, 1), site())


def test_an_algorithm_from_a_file_that_crashes_is_named(tmp_path):
    with pytest.raises(ScheduleError, match=r"crashes on cp=8, .*: ZeroDivisionError"):
        compare(mine(tmp_path, "crashes"), PROBLEM, Job(1, 8, 1), site())


def test_short_all_reduces_take_few_steps_and_long_ones_the_ring():
    # decode of one token: 2 * 63 hops against 6; one of 64K tokens at once: bytes decide
    def ways(tokens):
        problem = Attention(32, 8, 128, tokens, 1 << 17, phase="decode")
        candidate = Candidate("tree", algorithms.find("tree")["decode"], Mesh(cp=8), problem)
        return run(candidate, Site(dgx_h100(1)))[1].timeline.about["ways"]

    assert ways(1) == {"all_reduce": "doubling"}
    assert ways(1 << 16) == {"all_reduce": "ring"}


def test_a_way_that_was_asked_for_is_taken():
    problem = Attention(32, 8, 128, 1, 1 << 17, phase="decode")
    candidate = Candidate("tree", algorithms.find("tree")["decode"], Mesh(cp=8), problem)

    _, runs = run(candidate, Site(dgx_h100(1)), {"all_reduce": "direct"})

    assert runs.timeline.about["ways"] == {"all_reduce": "direct"}
