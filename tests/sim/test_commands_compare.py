"""`ringloom compare` and `simulate`: what their answers carry, for people and for programs."""

import json

import numpy as np
import pytest

from algorithms import find
from algorithms.ir.timeline import Timeline
from sim.commands import run
from tests.sim.commands import answer, shown

NODE = ["--cluster", "dgx_h100", "--model", "llama3-8b", "--seq", "64K"]

FIELDS = {
    "algorithm": str,
    "mesh": dict,
    "layout": str,
    "ways": dict,
    "per": str,
    "time_s": float,
    "time_low_s": float,
    "time_high_s": float,
    "compute_s": float,
    "exposed_communication_s": float,
    "sent_bytes": dict,
    "peak_bytes": dict,
    "link_bytes": dict,
    "flop_rate": float,
    "mfu": float,
    "bound_s": float,
    "bottleneck": str,
}


@pytest.mark.parametrize("command", [["compare"], ["simulate", "ring"]])
def test_the_json_answer_has_every_field_and_nothing_else_is_on_stdout(command, capsys):
    found = answer(capsys, *command, *NODE)

    assert found["schema"] == f"ringloom.{command[0]}/1"
    assert found["ringloom"]
    assert found["cluster"]["name"] == "dgx_h100(1)"
    assert (found["problem"]["query_len"], found["problem"]["heads"], found["problem"]["cp"]) == (65536, 32, 8)
    assert all(isinstance(text, str) for text in found["assumptions"])
    assert isinstance(found["inapplicable"], list)
    for one in found["results"]:
        assert {name: type(one[name]) for name in FIELDS} == FIELDS
        assert one["sent_bytes"].keys() == one["peak_bytes"].keys() == {"min", "mean", "max"}
        assert one["time_low_s"] <= one["time_s"] <= one["time_high_s"]
        assert one["bound_s"] <= one["time_s"]
        assert 0 < one["mfu"] <= 1


def test_json_results_stand_best_first_and_those_that_cannot_run_have_reasons(capsys):
    found = answer(capsys, "compare", *NODE, "--tp", "2", "--algorithms", "ring,ulysses,tree")

    times = [one["time_s"] for one in found["results"]]
    assert times == sorted(times)
    assert [one["algorithm"] for one in found["inapplicable"]] == ["tree"]
    assert found["inapplicable"][0].keys() == {"algorithm", "mesh", "reason"}
    assert found["results"][0]["mesh"]["tp"] == 2


def test_the_number_that_a_size_stood_for_is_echoed(capsys):
    assert "queries 65,536, keys 65,536" in shown(capsys, "compare", *NODE)


def test_the_table_shows_the_best_of_each_algorithm_and_all_shows_every_one(capsys):
    def table(*options):
        return shown(capsys, "compare", *NODE, "--algorithms", "usp,ring", *options).partition("what to set:")[0]

    best, every = table(), table("--all")

    assert (best.count("ulysses="), best.count("ring=8 ")) == (1, 1)
    assert every.count(",ulysses=") == 8
    assert every.count("zigzag") == 5


def test_the_table_says_what_a_person_needs(capsys):
    text = shown(capsys, "compare", *NODE, "--mask", "full")

    for word in ("cluster", "bound", "busiest", "cannot run here:", "tree: it is written for decode", "assumptions:"):
        assert word in text
    assert "stated error of this model: 10% of compute, 25% of exposed communication" in text
    assert "cannot be told apart" in text
    assert all(len(line) <= 120 and line == line.rstrip() for line in text.splitlines())


def test_a_wider_stated_error_makes_more_ties(capsys):
    def ties(*errors):
        found = answer(capsys, "compare", *NODE, *errors)["results"]
        return sum(one["time_low_s"] <= found[0]["time_high_s"] for one in found)

    assert ties("--compute-error", "0", "--comm-error", "0") < ties() <= ties("--compute-error", "0.9")


def test_one_layer_unless_the_whole_model_is_asked_for(capsys):
    layer, model = (answer(capsys, "simulate", "ring", *NODE, *per) for per in ([], ["--per", "model"]))

    assert (layer["results"][0]["per"], model["results"][0]["per"]) == ("layer", "model")
    assert model["results"][0]["time_s"] == pytest.approx(32 * layer["results"][0]["time_s"])
    assert model["bound"]["seconds"] == pytest.approx(model["results"][0]["bound_s"])


def test_latent_attention_moves_one_tensor(capsys):
    widths = ["--heads", "128", "--kv-heads", "1", "--head-dim", "576", "--head-dim-v", "512", "--shared-kv"]
    found = answer(capsys, "compare", "--cluster", "dgx_h100", *widths, "--seq", "64K", "--algorithms", "ring")

    block = 576 * 65536 // 8 * 2  # one shared head of 576, tokens, bytes
    assert found["results"][0]["sent_bytes"]["max"] == 7 * block


@pytest.mark.parametrize(
    "arguments, binds",
    [
        (["--seq", "256K"], "compute"),
        (["--seq", "1M", "--phase", "decode"], "launches"),
        (["--seq", "1M", "--phase", "decode", "--batch", "64"], "memory"),
    ],
)
def test_what_the_gpus_are_busy_with_is_told_apart(arguments, binds, capsys):
    node = ["--cluster", "gb200_nvl72", "--gpus", "64", "--model", "llama3-405b", "--algorithms", "ring,tree"]

    assert answer(capsys, "compare", *node, *arguments)["results"][0]["bottleneck"] == binds


def test_only_assumptions_that_touch_a_result_are_listed(capsys):
    def names(*arguments):
        lines = answer(capsys, "simulate", *arguments)["assumptions"]
        return {line.partition(":")[0] for line in lines}

    one, two = names("ulysses", *NODE), names("ring", *NODE, "--nodes", "2")
    assert {"nvlink", "nvlink.latency", "comm_launch"} <= one
    assert not one & {"nic", "pcie", "nic.latency", "merge_nbytes", "reduce_nbytes", "decode_launch", "plain_share"}
    assert {"nic", "pcie", "nic.latency", "merge_nbytes", "fabric.latency"} <= two
    assert "nic" in names("ulysses", *NODE, "--assume", "nic=0.5")


def test_json_has_the_numbers_of_the_model_and_what_was_asked(capsys):
    found = answer(capsys, "compare", *NODE, "--assume", "merge_nbytes=12")

    assert found["costs"]["merge_nbytes"] == 12
    assert found["costs"]["nvlink"] == 0.82
    assert found["problem"]["layout"] == "auto"
    ties = [one["tie"] for one in found["results"]]
    assert ties == [one["time_low_s"] <= found["results"][0]["time_high_s"] for one in found["results"]]


@pytest.mark.parametrize(
    "phase, heads, form",
    [
        ("prefill", (128, 192, 128, False), "MLA expanded to its heads"),
        ("decode", (1, 576, 512, True), "MLA as one latent head"),
    ],
)
def test_a_latent_model_expands_to_its_heads_but_where_it_decodes(phase, heads, form, capsys):
    asked = ["compare", "--cluster", "dgx_h100", "--model", "deepseek-v3", "--seq", "64K", "--phase", phase]

    found, text = answer(capsys, *asked), shown(capsys, *asked)

    sizes = ("kv_heads", "head_dim", "head_dim_v", "shared_kv")
    assert tuple(found["problem"][name] for name in sizes) == heads
    assert found["problem"]["form"] == form
    assert f"), {form}\n" in text
    assert f"no exact schedule of {form} is faster" in " ".join(text.split())
    assert any("projection" in line and "not in it" in line for line in found["assumptions"])


def test_simulate_takes_the_squarest_mesh_that_can_run_the_algorithm(capsys):
    # ring=2,ulysses=3 is as near to square, but 3 does not divide 8 heads; of 7 ranks none but ulysses=1 does
    widths = ["--cluster", "switch", "--heads", "8", "--head-dim", "64", "--seq", "1K"]

    six, seven = (answer(capsys, "simulate", "usp", *widths, "--gpus", gpus)["results"][0] for gpus in ("6", "7"))

    assert (six["mesh"], seven["mesh"]) == ({"ring": 3, "ulysses": 2}, {"ring": 7, "ulysses": 1})


def test_compare_and_simulate_agree_on_every_repeat(capsys, tmp_path):
    measured = tmp_path / "measured.json"
    measured.write_text('{"quantiles": {"0": 0.9, "0.5": 1, "1": 1.5}, "kinds": {"merge": {"0": 1, "1": 1.1}}}')
    vary = ["--jitter", str(measured), "--seed", "7", "--repeats", "4", "--slow", "gpu:3=0.7"]

    compared = answer(capsys, "compare", *NODE, "--algorithms", "ring", "--layout", "zigzag", *vary)
    simulated = answer(capsys, "simulate", "ring", *NODE, "--layout", "zigzag", *vary)

    one, other = compared["results"][0], simulated["results"][0]
    assert len(one["times_s"]) == 4
    assert one == other | {name: one[name] for name in ("tie", "settings")}
    assert one["p10_s"] <= one["time_s"] == sorted(one["times_s"])[1] <= one["p90_s"]
    assert compared["jitter"] == simulated["jitter"]
    assert (compared["jitter"]["file"], compared["jitter"]["seed"], compared["jitter"]["repeats"]) == (
        str(measured),
        7,
        4,
    )
    assert compared["jitter"]["quantiles"] == {"0": 0.9, "0.5": 1.0, "1": 1.5}
    assert compared["faults"] == ["slow gpu:3=0.7"]
    assert any(
        "not made to have mean 1: it has 1.1; merge by quantiles of their own" in a for a in compared["assumptions"]
    )


def test_the_table_shows_the_band_beside_the_stated_error(capsys):
    text = shown(capsys, "compare", *NODE, "--jitter", "0.05", "--repeats", "3")

    assert "\nvaries   3 repeats with jitter 0.05, seed 1; their median ranks\n" in text
    assert all(heading in text for heading in ("p10..p90", " +- "))
    assert "overlap within the band of repeats and the stated error" in text
    assert "time: the median of the repeats" in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_what_changes_nothing_for_some_is_noted_and_echoed(capsys):
    asked = [
        "compare",
        *NODE,
        "--algorithms",
        "ring,ulysses,attention2d",
        "--chunks",
        "4",
        "--ways",
        "all_gather=direct",
    ]
    notes = [
        "--ways all_gather changes nothing for ring, ulysses: no all_gather there",
        "--chunks changes nothing for ring: no collective but permute there",
    ]

    found, text = answer(capsys, *asked), shown(capsys, *asked)

    assert sorted(found["notes"]) == sorted(_by_name(notes, found))
    assert found["pacing"] == {"chunks": 4}
    assert "\npace     4 chunks\n" in text
    assert all(note in text for note in found["notes"])


def _by_name(notes, found):
    """The notes with the algorithms in the order of their results."""
    order = list(dict.fromkeys(one["algorithm"] for one in found["results"]))
    if order.index("ulysses") < order.index("ring"):
        notes = [note.replace("ring, ulysses", "ulysses, ring") for note in notes]
    return notes


def test_repeats_of_a_model_are_its_layers(capsys):
    vary = ["--jitter", "0.05", "--repeats", "3"]
    layer, model = (answer(capsys, "simulate", "ring", *NODE, *vary, *per) for per in ([], ["--per", "model"]))

    for name in ("time_s", "p10_s", "p90_s", "times_s"):
        assert model["results"][0][name] == pytest.approx(32 * np.array(layer["results"][0][name]))
    assert any(text.startswith("repeats of a model: ") for text in model["assumptions"])


def test_the_timeline_of_the_best_is_its_middle_repeat(tmp_path, capsys):
    timeline = tmp_path / "timeline.json"
    vary = ["--jitter", "0.1", "--repeats", "5", "--phase", "decode", "--slow", "gpu:1=0.5"]

    best = answer(capsys, "compare", *NODE, *vary, "--timeline", str(timeline))["results"][0]

    written = Timeline.read(timeline)
    assert written.makespan == best["time_s"] == sorted(best["times_s"])[2]
    assert written.about["jitter"]["repeat"] == best["times_s"].index(best["time_s"])


def test_decode_ranks_the_algorithms_of_decode(capsys):
    found = answer(capsys, "compare", *NODE, "--phase", "decode", "--batch", "4")

    ranked = {one["algorithm"] for one in found["results"]}
    assert ranked >= {"tree", "tree_packed", "tree_doubling", "tree_two_level", "helix", "gather_q", "ring_pass_kv"}
    assert all("decode" in find(name) for name in ranked)
    assert (found["problem"]["query_len"], found["problem"]["key_len"]) == (1, 65536)


def test_captured_kernels_help_the_decode_that_has_most_of_them(capsys):
    def seconds(*launch):
        found = answer(capsys, "compare", *NODE, "--phase", "decode", *launch)
        return {one["algorithm"]: one["time_s"] for one in found["results"]}

    queued, captured, eager = seconds(), seconds("--launch", "captured"), seconds("--launch", "eager")

    # tree: attend starts 2 kernels, weigh and normalise 1 each, three all-reduces 1 each; helix: attend 2, exchange 1
    for name, kernels in (("tree", 7), ("helix", 3)):
        assert queued[name] - captured[name] == pytest.approx(kernels * 1.5e-6, rel=1e-6)
        assert eager[name] - queued[name] == pytest.approx(kernels * 3e-6, rel=1e-6)


def test_the_trace_and_the_timeline_of_the_best_are_written(tmp_path, capsys):
    trace, timeline = tmp_path / "trace.json", tmp_path / "timeline.json"

    found = answer(capsys, "compare", *NODE, "--trace", str(trace), "--timeline", str(timeline))

    best = found["results"][0]
    other = json.loads(trace.read_text())["otherData"]
    assert (other["algorithm"], other["mesh"], other["layout"]) == (best["algorithm"], best["mesh"], best["layout"])
    assert Timeline.read(timeline).makespan == best["time_s"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["timeline.json", "trace.json"]


def test_an_algorithm_from_a_file_is_taken_wherever_a_name_is(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(
        "from algorithms.ir import spmd\n"
        "from algorithms.ring import ring_attention\n"
        "mine = spmd('ring')(lambda me, problem: ring_attention.body(me, problem))\n"
    )

    compared = answer(capsys, "compare", *NODE, "--algorithms", f"{path}:mine,ring", "--layout", "zigzag")["results"]
    simulated = answer(capsys, "simulate", f"{path}:mine", *NODE, "--layout", "zigzag")["results"]

    assert compared[0]["time_s"] == compared[1]["time_s"] == simulated[0]["time_s"]


def test_simulate_shows_where_time_bytes_and_memory_go(capsys):
    text = shown(capsys, "simulate", "attention2d", *NODE)

    assert "attention2d, mesh row=2,col=4, layout striped" in text
    assert "all_gather by ring, reduce_scatter by ring" in text
    for word in ("exposed", "times the bound", "bottleneck", "nvlink", "peak memory:", "load q", "attend"):
        assert word in text


def test_simulate_accounts_for_every_op_and_for_all_of_the_peak(capsys):
    found = answer(capsys, "simulate", "ring", *NODE)

    kinds = {(one["stream"], one["kind"]): one for one in found["ops"]}
    assert {key: one["ops"] for key, one in kinds.items()} == {
        ("compute", "attend"): 8,
        ("ring", "permute"): 7,
        ("compute", "merge"): 7,
    }
    assert kinds["ring", "permute"]["sent"] == found["results"][0]["sent_bytes"]["max"]
    assert sum(one["nbytes"] for one in found["peak"]["live"]) == found["results"][0]["peak_bytes"]["max"]


def test_ways_are_taken_and_echoed(capsys):
    found = answer(capsys, "simulate", "attention2d", *NODE, "--ways", "all_gather=direct")

    assert found["results"][0]["ways"] == {"all_gather": "direct", "reduce_scatter": "ring"}


def test_fewer_ranks_than_gpus_use_the_first_ones(capsys):
    found = answer(capsys, "simulate", "ring", *NODE, "--mesh", "ring=4")

    assert (found["cluster"]["gpus"], found["cluster"]["used"]) == (8, 4)
    assert found["results"][0]["mesh"] == {"ring": 4}


GPT_OSS = ["--cluster", "dgx_h100", "--model", "gpt-oss-20b", "--seq", "64K"]


def test_a_model_of_two_kinds_of_layers_adds_them_up(capsys):
    one = ["--algorithms", "ring", "--layout", "contiguous"]
    model = answer(capsys, "compare", *GPT_OSS, *one, "--per", "model")
    layer = answer(capsys, "compare", *GPT_OSS, *one)
    widths = ["--heads", "64", "--kv-heads", "8", "--head-dim", "64", "--sinks", "--mask", "window:128"]
    slide = answer(capsys, "compare", "--cluster", "dgx_h100", *widths, "--seq", "64K", *one)

    total, full, window = (found["results"][0] for found in (model, layer, slide))
    assert total["time_s"] == pytest.approx(12 * full["time_s"] + 12 * window["time_s"])
    assert [(kind["layers"], kind["mask"]) for kind in total["kinds"]] == [(12, "causal"), (12, "window:128")]
    assert [kind["time_s"] for kind in total["kinds"]] == pytest.approx([12 * full["time_s"], 12 * window["time_s"]])
    assert model["bound"]["seconds"] == pytest.approx(12 * layer["bound"]["seconds"] + 12 * slide["bound"]["seconds"])
    assert model["problem"]["kinds"] == [{"layers": 12, "mask": "causal"}, {"layers": 12, "mask": "window:128"}]
    assert window["time_s"] < full["time_s"]


def test_what_the_times_are_of_is_said_where_layers_differ(capsys):
    kinds = "gpt-oss-20b has 12 with mask causal and 12 with mask window:128"

    layer, model = (
        shown(capsys, "compare", *GPT_OSS, "--algorithms", "ring", *per) for per in ([], ["--per", "model"])
    )

    assert "of one layer, attention only; the layer has mask causal" in layer
    assert f"{kinds}: --per model adds them up" in layer
    assert "of all layers of the model, attention only" in model
    assert f"{kinds}\n" in model


def test_simulate_runs_one_layer_and_says_so_of_a_model_of_several_kinds(capsys):
    assert run(["simulate", "ring", *GPT_OSS, "--per", "model"]) == 2

    assert "simulate runs one layer, and gpt-oss-20b has 12 with mask causal and 12" in capsys.readouterr().err
