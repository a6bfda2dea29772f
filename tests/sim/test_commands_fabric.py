"""--fabric and --routing: any machine on any fabric, what was taken is said, and the spread over seeds is shown."""

import numpy as np
import pytest

from algorithms.ir.timeline import Timeline
from tests.sim.commands import answer, shown

JOB = ["--cluster", "dgx_h100", "--nodes", "4", "--model", "llama3-8b", "--seq", "128K"]
TREE = ["--fabric", "fat_tree:leaf=8,oversubscription=2"]
GRID = ["simulate", "attention2d", *JOB, *TREE, "--mesh", "row=4,col=8"]


def times(found):
    return found["results"][0]["times_s"]


@pytest.mark.parametrize("cluster", ["dgx_a100", "dgx_h100", "hgx_h200", "hgx_h800", "perlmutter", "gb200_nvl72"])
@pytest.mark.parametrize("fabric", ["rail:oversubscription=4", "single", "fat_tree:oversubscription=4"])
def test_any_machine_runs_on_any_fabric(cluster, fabric, capsys):
    job = ["--cluster", cluster, "--nodes", "2", "--fabric", fabric, "--model", "llama3-8b", "--seq", "16K"]
    found = answer(capsys, "compare", *job, "--algorithms", "all_gather_kv")

    named = fabric.replace(":", "(") + ")" * (":" in fabric)
    assert found["cluster"]["fabric"] == named
    assert found["cluster"]["name"] == f"{cluster}(2) on {named}"
    assert found["routing"]["name"] == ("ecmp" if fabric.startswith("fat_tree") else "static")


def test_an_oversubscribed_fabric_is_slower_and_says_which_link_it_is(capsys):
    job = ["simulate", "ulysses", *JOB]  # every pair sends
    free, tight = (answer(capsys, *job, "--fabric", f"rail:oversubscription={o}") for o in (1, 8))

    assert free["results"][0]["time_s"] < tight["results"][0]["time_s"]
    assert tight["hot_links"][0]["kind"] == "fabric"
    assert any("from a rail to the spine 1/8 of what its NICs have" in text for text in tight["assumptions"])


def test_the_answer_names_the_routing_and_what_it_rests_on(capsys):
    found = answer(capsys, *GRID, "--routing", "ecmp:seed=5", "--repeats", "1")

    assert found["routing"]["name"] == "ecmp"
    assert found["routing"]["seed"] == 5
    assert found["routing"]["pairs_with_equal_paths"] > 0
    assert found["routing"]["most_equal_paths"] == 4
    assert any(text.startswith("routing: hashed ECMP, one path for each pair") for text in found["assumptions"])
    assert any("carry together 1/2 of what its NICs do" in text for text in found["assumptions"])


def test_repeats_take_one_seed_after_the_other_and_give_their_band(capsys):
    found = answer(capsys, *GRID, "--routing", "ecmp:seed=3", "--repeats", "5")
    alone = [answer(capsys, *GRID, "--routing", f"ecmp:seed={k}", "--repeats", "1") for k in range(3, 8)]

    assert found["routing"]["seeds"] == [3, 4, 5, 6, 7]
    assert times(found) == [times(one)[0] for one in alone]
    assert len(set(times(found))) > 1
    (band,) = found["results"]
    assert min(times(found)) <= band["p10_s"] <= band["time_s"] <= band["p90_s"] <= max(times(found))
    middle = next(one for one in alone if one["routing"]["seed"] == found["routing"]["seed"])
    assert band["time_s"] == middle["results"][0]["time_s"] == np.median(times(found))
    assert band["link_bytes"] == middle["results"][0]["link_bytes"]
    assert middle["hot_links"] == found["hot_links"]


def test_without_a_word_a_tree_is_hashed_and_repeated(capsys):
    text = shown(capsys, *GRID)

    assert "on fat_tree(leaf=8, oversubscription=2)" in text
    assert "\nrouting    ecmp, seed " in text
    assert "over 10 repeats with routing ecmp, seeds 1 to 10; the middle one is shown" in " ".join(text.split())


def test_a_job_under_one_leaf_has_nothing_to_repeat(capsys):
    found = answer(capsys, "simulate", "ring", *JOB, "--fabric", "fat_tree")

    assert "seeds" not in found["routing"]
    assert found["routing"]["pairs_with_equal_paths"] == 0
    assert len(set(times(found))) == 1
    for command in (["simulate", "ring"], ["compare", "--algorithms", "ring"]):
        text = shown(capsys, *command, *JOB, "--fabric", "fat_tree")
        assert not any(word in text for word in ("varies", "routing  ", "p10", "band of repeats"))


def test_jitter_and_hash_vary_together(capsys):
    found = answer(capsys, *GRID, "--jitter", "0.1", "--repeats", "3")
    hashed = answer(capsys, *GRID, "--repeats", "3")
    still = answer(capsys, *GRID, "--routing", "static", "--jitter", "0.1", "--repeats", "3")
    seventh = answer(capsys, *GRID, "--routing", "ecmp:seed=7", "--jitter", "0.1", "--repeats", "3")

    assert found["jitter"] == {"spread": 0.1, "seed": 1, "repeats": 3}
    assert found["routing"]["seeds"] == [1, 2, 3]
    assert seventh["routing"]["seeds"] == [7, 8, 9]
    assert len({*times(found), *times(hashed), *times(still), *times(seventh)}) == 12
    text = " ".join(shown(capsys, *GRID, "--jitter", "0.1", "--repeats", "1").split())
    assert "over 1 repeat with jitter 0.1, seed 1 and routing ecmp, seed 1; the middle one" in text


def test_the_ideal_is_never_slower_than_the_hash_and_static_says_that_it_does_not_spread(capsys):
    hashed, ideal = (answer(capsys, *GRID, *how) for how in ([], ["--routing", "ideal"]))

    assert ideal["results"][0]["time_s"] < min(times(hashed))
    assert "seeds" not in ideal["routing"]
    assert len(times(ideal)) == 1
    assert any("split equally" in text for text in ideal["assumptions"])
    assert "routing    ideal: every flow is split equally" in shown(capsys, *GRID, "--routing", "ideal")
    assert "routing    static, the first of equal paths: " in shown(capsys, *GRID, "--routing", "static")


def test_compare_ranks_by_the_median_over_seeds_and_widens_the_interval(capsys, tmp_path):
    job = ["compare", *JOB, *TREE, "--algorithms", "attention2d,ring", "--mesh", "row=4,col=8"]
    timeline = tmp_path / "timeline.json"
    (several,) = answer(capsys, *job, "--repeats", "5", "--timeline", str(timeline))["results"]
    alone = [answer(capsys, *job, "--routing", f"ecmp:seed={k}", "--repeats", "1")["results"][0] for k in range(1, 6)]

    assert several["times_s"] == [one["time_s"] for one in alone]
    alone.sort(key=lambda one: one["time_s"])
    low, middle, high = alone[0], alone[2], alone[-1]
    assert [several[name] for name in ("p10_s", "time_s", "p90_s")] == [one["time_s"] for one in (low, middle, high)]
    for end, one, edge in (("p10_s", "time_low_s", low), ("p90_s", "time_high_s", high)):
        assert several[one] == pytest.approx(middle[one] * edge["time_s"] / middle["time_s"])
        assert several[end] == edge["time_s"]
    assert Timeline.read(timeline).makespan == several["time_s"]


def test_compare_keeps_the_middle_of_hash_and_jitter_together(capsys, tmp_path):
    job = [*JOB, *TREE, "--mesh", "row=4,col=8", "--jitter", "0.1", "--repeats", "4"]
    timeline = tmp_path / "timeline.json"
    ranked = answer(capsys, "compare", "--algorithms", "attention2d", *job, "--timeline", str(timeline))
    alone = answer(capsys, "simulate", "attention2d", *job, "--layout", ranked["results"][0]["layout"])

    assert times(ranked) == times(alone)
    assert ranked["results"][0]["time_s"] == Timeline.read(timeline).makespan
    assert ranked["routing"]["seeds"] == alone["routing"]["seeds"] == [1, 2, 3, 4]
    text = " ".join(shown(capsys, "compare", "--algorithms", "attention2d", *job).split())
    assert "4 repeats with jitter 0.1, seed 1 and routing ecmp, seeds 1 to 4; their median ranks" in text
    assert "p10..p90" in text


def test_compare_says_which_seeds_it_took(capsys):
    job = ["compare", *JOB, *TREE, "--algorithms", "ring"]

    assert answer(capsys, *job)["routing"]["seeds"] == list(range(1, 11))
    text = shown(capsys, *job)
    assert "routing  ecmp: " in text
    assert "varies   10 repeats with routing ecmp, seeds 1 to 10; their median ranks" in text
    assert "routing  ecmp, seed 7: " in shown(capsys, *job, "--routing", "ecmp:seed=7", "--repeats", "1")


def test_a_link_that_goes_down_is_gone_round(capsys):
    up = answer(capsys, *GRID, "--repeats", "1")
    link = up["hot_links"][0]["link"].replace(" -> ", "-")
    down = answer(capsys, *GRID, "--repeats", "1", "--down", f"link:{link}")

    assert up["hot_links"][0]["kind"] == "fabric"
    assert down["results"][0]["time_s"] != up["results"][0]["time_s"]
    assert down["hot_links"][0]["link"] != up["hot_links"][0]["link"]
