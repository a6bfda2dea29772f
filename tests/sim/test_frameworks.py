"""Frameworks: the data is well formed, each rule types what its source says, and each limit holds."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

import algorithms
from algorithms.ir import Attention, Mesh
from algorithms.ir.job import Job
from algorithms.ir.layout import KINDS
from algorithms.ir.problem import PHASES
from sim.commands import run
from sim.compare import compare
from sim.frameworks.rules import find, frameworks, names
from sim.frameworks.settings import SCORES, Setting, setting, sizes, value
from sim.frameworks.shown import settings
from sim.simulate import Site
from topologies.basic import switch

RULES = [(one, rule) for one in frameworks() for rule in one.rules]
IDS = [f"{one.name}-{rule.algorithm}-{number}" for number, (one, rule) in enumerate(RULES)]
MASKS = ("full", "causal", "window", "documents")
TRAIN = Attention(64, 64, 128, 1 << 16, 1 << 16, mask="causal", phase="train", layout="zigzag")
PREFILL = replace(TRAIN, phase="prefill")
PACKED = replace(TRAIN, mask="documents:32768*2", layout="documents")
DECODE = Attention(64, 8, 128, 1, 1 << 20, mask="causal", phase="decode")
LATENT = Attention(128, 1, 576, 1, 1 << 20, head_dim_v=512, shared_kv=True, mask="causal", phase="decode")


def typed(framework, algorithm, problem, **mesh):
    return setting(find(framework), algorithm, problem, Mesh(**mesh))


@pytest.mark.parametrize("framework, rule", RULES, ids=IDS)
def test_a_rule_names_what_exists_and_who_says_so(framework, rule):
    assert rule.algorithm in algorithms.names()
    phases = algorithms.find(rule.algorithm)
    assert set(rule.phases) <= set(PHASES)
    assert set(rule.masks) <= set(MASKS)
    assert set(rule.scores) <= set(SCORES)
    assert set(rule.lacks) <= {*MASKS, *SCORES} - {*rule.masks, *rule.scores}
    assert set(rule.layouts) <= set(KINDS)
    assert set(rule.order) <= {"tp", "dp", *(axis for program in phases.values() for axis in program.axes)}
    assert rule.version
    assert rule.source
    assert "github.com/" in framework.source


@pytest.mark.parametrize("framework, rule", RULES, ids=IDS)
def test_the_expressions_of_a_rule_are_over_sizes_that_there_are(framework, rule):
    program = next(iter(algorithms.find(rule.algorithm).values()))
    known = sizes(replace(TRAIN, phase=rule.phases[0]), Mesh(**dict.fromkeys(program.axes, 2), tp=2))

    assert all(value(limit.needs, known) in (True, False) and limit.says for limit in rule.limits)
    assert "{" in rule.set


def test_no_rule_of_a_framework_hides_another():
    # of two rules of one algorithm the first that fits is taken: they must differ in what they fit
    for one in frameworks():
        fits = [(rule.algorithm, rule.phases, rule.layouts, rule.order, rule.limits) for rule in one.rules]
        assert len(fits) == len(set(fits))


def test_every_framework_of_the_folder_has_a_rule_and_is_found_by_its_other_names():
    assert [one.name for one in frameworks()] == names()
    assert all(one.rules and one.version and one.title for one in frameworks())
    assert find("TE") is find("transformer-engine") is find("transformer_engine")
    aliases = [alias for one in frameworks() for alias in one.aliases]
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(names())


def test_the_page_says_of_each_framework_what_is_recalled():
    page = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \|.*\|([^|]*)\|$", page, re.MULTILINE))

    assert sorted(rows.keys() - {"framework"}) == names()
    for one in frameworks():
        assert bool(rows[one.name].strip()) == any(rule.recalled for rule in one.rules), one.name


def test_an_unknown_framework_is_named_with_the_nearest():
    with pytest.raises(ValueError, match=r"^no framework 'megatorn': expected one of .*; nearest is megatron$"):
        find("megatorn")


@pytest.mark.parametrize(
    "framework, algorithm, mesh, layout, says",
    [
        ("transformer_engine", "ring", {"ring": 64}, "zigzag", 'cp_comm_type="p2p"), a cp_group of 64 ranks'),
        ("transformer_engine", "ulysses", {"ulysses": 64}, "contiguous", 'cp_comm_type="a2a"), a cp_group of 64'),
        ("transformer_engine", "all_gather_kv", {"cp": 64}, "zigzag", 'cp_comm_type="all_gather")'),
        ("transformer_engine", "usp", {"ring": 8, "ulysses": 4}, "zigzag", 'cp_comm_type="a2a+p2p"), of 4 and 8 ranks'),
        ("megatron", "ring", {"ring": 8, "tp": 4}, "zigzag", "--context-parallel-size 8 --cp-comm-type p2p"),
        ("megatron", "all_gather_kv", {"cp": 8}, "zigzag", "--context-parallel-size 8 --cp-comm-type all_gather"),
        ("megatron", "ulysses", {"ulysses": 8}, "contiguous", "--context-parallel-size 8 --cp-comm-type a2a"),
        (
            "megatron",
            "usp",
            {"ring": 8, "ulysses": 4},
            "zigzag",
            "--context-parallel-size 32 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 4 8",
        ),
        ("yunchang", "usp", {"ring": 8, "ulysses": 4}, "zigzag", "set_seq_parallel_pg(4, 8, rank, world_size, use_ul"),
        ("yunchang", "usp", {"ulysses": 4, "ring": 8}, "zigzag", "use_ulysses_low=False"),
        ("yunchang", "ring", {"ring": 8}, "striped", 'ring_impl_type="strip"'),
        ("ring_flash_attn", "ring", {"ring": 8}, "zigzag", "zigzag_ring_flash_attn_func("),
        ("ring_flash_attn", "ring", {"ring": 8}, "striped", "stripe_flash_attn_func("),
        ("ring_flash_attn", "ring", {"ring": 8}, "contiguous", "ring_flash_attn_func(q, k, v, causal=True"),
        ("ring_flash_attn", "all_gather_kv", {"cp": 8}, "contiguous", "llama3_flash_attn_varlen_func("),
        ("torchtitan", "ring", {"ring": 8}, "zigzag", "context_parallel_rotate_method alltoall"),
        ("torchtitan", "all_gather_kv", {"cp": 8}, "zigzag", "context_parallel_rotate_method allgather"),
        ("deepspeed", "ulysses", {"ulysses": 8}, "contiguous", "sequence_parallel_size=8"),
        ("internevo", "usp", {"ring": 8, "ulysses": 4}, "zigzag", "head_size=4, context_size=8, window_size=1"),
        ("internevo", "usp", {"ulysses": 4, "ring": 8}, "zigzag", "head_first=False"),
        (
            "internevo",
            "loongtrain",
            {"outer": 2, "inner": 4, "head": 8},
            "zigzag",
            "head_size=8, context_size=8, window_size=4, device_placement_strategy=dict(head_first=True",
        ),
        ("loongtrain", "loongtrain", {"head": 8, "outer": 2, "inner": 4}, "zigzag", "head_first=False"),
        ("ring_flash_attn", "all_gather_kv_heads", {"cp": 8}, "contiguous", "heads_k_stride=1, causal=True"),
    ],
)
def test_what_to_type_for_training(framework, algorithm, mesh, layout, says):
    found = typed(framework, algorithm, replace(TRAIN, layout=layout), **mesh)

    assert isinstance(found, Setting)
    assert says in found.set
    assert found.framework == find(framework).name


@pytest.mark.parametrize("framework, typed_there", [("te", "thd"), ("megatron", "p2p"), ("ring_flash_attn", "varlen")])
def test_packed_documents_are_dealt_each_by_itself(framework, typed_there):
    found = typed(framework, "ring", PACKED, ring=8)

    assert isinstance(found, Setting)
    assert typed_there in found.set
    odd = replace(PACKED, mask="documents:32767+32769")
    assert "must divide every document" in typed(framework, "ring", odd, ring=8)
    assert "deals tokens documents, not zigzag" in typed(framework, "ring", replace(PACKED, layout="zigzag"), ring=8)


SINKS = replace(TRAIN, kv_heads=8, sinks=True)


@pytest.mark.parametrize(
    "framework, algorithm, problem, mesh, reason",
    [
        ("te", "ring", replace(TRAIN, sinks=True), {"ring": 8}, "p2p takes no learnable sinks: a2a does (issue 2541)"),
        ("te", "ring", replace(TRAIN, mask="window:4096"), {"ring": 8}, "p2p takes no sliding window"),
        ("te", "usp", replace(TRAIN, mask="documents:32768*2"), {"ring": 2, "ulysses": 2}, "no packed documents (thd)"),
        ("te", "ulysses", replace(TRAIN, softcap=50.0), {"ulysses": 8}, "it is not known to take softcap"),
        ("megatron", "all_gather_kv", replace(TRAIN, sinks=True), {"cp": 8}, "all_gather takes no learnable sinks"),
        ("ring_flash_attn", "ring", replace(TRAIN, mask="window:64"), {"ring": 8}, "window_size is not supported"),
        ("ring_flash_attn", "all_gather_kv", replace(TRAIN, alibi=True, layout="contiguous"), {"cp": 8}, "no ALiBi"),
    ],
)
def test_masks_and_scores_that_are_not_taken_have_the_reason_that_is_known(framework, algorithm, problem, mesh, reason):
    assert reason in typed(framework, algorithm, problem, **mesh)


@pytest.mark.parametrize("problem", [SINKS, replace(SINKS, mask="window:128")])
def test_layers_with_sinks_and_windows_train_by_an_all_to_all(problem):
    for framework in ("te", "megatron"):
        assert "a2a" in typed(framework, "ulysses", replace(problem, layout="contiguous"), ulysses=8).set


@pytest.mark.parametrize(
    "framework, algorithm, problem, mesh, says",
    [
        (
            "tensorrt_llm",
            "attention2d",
            replace(PREFILL, layout="striped"),
            {"col": 8, "row": 4},
            "context_parallel_size: 32, cp_config: {cp_type: ATTN2D, row_size: 4, col_size: 8}",
        ),
        ("visualgen", "attention2d", replace(PREFILL, mask="full"), {"row": 4, "col": 8}, "attn2d_size=(4, 8)"),
        ("visualgen", "ring", replace(PREFILL, mask="full"), {"ring": 8}, "ring_size=8"),
        ("visualgen", "ulysses", replace(PREFILL, mask="full"), {"ulysses": 8}, "ulysses_size=8"),
        ("visualgen", "usp", replace(PREFILL, mask="full"), {"ring": 4, "ulysses": 2}, "ring_size=4, ulysses_size=2"),
        ("sglang", "all_gather_kv", PREFILL, {"cp": 8, "tp": 4}, "--tp-size 32 --attn-cp-size 8 --enable-prefill-cp"),
        (
            "vllm",
            "gather_q",
            DECODE,
            {"tp": 8, "cp": 2},
            "--tensor-parallel-size 16 --decode-context-parallel-size 2 --dcp-comm-backend ag_rs",
        ),
        ("vllm", "helix", LATENT, {"cp": 8}, "--tensor-parallel-size 8 --decode-context-parallel-size 8"),
        ("sglang", "gather_q", LATENT, {"cp": 8}, "--tp-size 8 --dcp-size 8 --dcp-comm-backend ag_rs"),
        ("sglang", "helix", LATENT, {"cp": 8}, "--dcp-comm-backend a2a --dcp-replicate-q-proj"),
        ("trtllm", "helix", LATENT, {"cp": 8, "tp": 2}, "context_parallel_size: 8, cp_config: {cp_type: HELIX, tokens"),
    ],
)
def test_what_to_type_for_serving(framework, algorithm, problem, mesh, says):
    found = typed(framework, algorithm, problem, **mesh)

    assert isinstance(found, Setting)
    assert says in found.set


@pytest.mark.parametrize(
    "framework, algorithm, problem, mesh, reason",
    [
        ("megatron", "attention2d", TRAIN, {"row": 8, "col": 8}, "megatron does not have it"),
        ("megatron", "ring", PREFILL, {"ring": 8}, "for train, not prefill"),
        ("megatron", "usp", TRAIN, {"ulysses": 8, "ring": 8}, "as --mesh ring=8,ulysses=8"),
        ("megatron", "ring", replace(TRAIN, layout="striped"), {"ring": 8}, "deals tokens zigzag, not striped"),
        ("megatron", "ring", replace(TRAIN, query_len=1000, key_len=1000), {"ring": 64}, "twice the CP size"),
        ("te", "ulysses", replace(TRAIN, kv_heads=8), {"ulysses": 64}, "must divide the KV heads"),
        ("te", "ulysses", replace(TRAIN, kv_heads=8), {"ulysses": 8, "tp": 2}, "must divide the KV heads"),
        ("te", "all_gather_kv", replace(TRAIN, head_dim_v=64), {"cp": 8}, "values as wide as keys"),
        ("te", "ring", replace(PREFILL, key_len=1 << 17), {"ring": 8}, "without cached keys"),
        ("ring_flash_attn", "ring", replace(TRAIN, mask="full", layout="striped"), {"ring": 6}, "must divide"),
        ("yunchang", "usp", TRAIN, {"ring": 4, "ulysses": 4, "tp": 4}, "no room for tensor parallelism"),
        (
            "tensorrt_llm",
            "attention2d",
            replace(PREFILL, mask="full"),
            {"col": 4, "row": 4},
            "takes a causal mask only",
        ),
        ("tensorrt_llm", "attention2d", replace(PREFILL, layout="striped"), {"col": 3, "row": 2}, "must divide"),
        ("visualgen", "ring", PREFILL, {"ring": 8}, "full attention only"),
        ("vllm", "gather_q", DECODE, {"tp": 4, "cp": 2}, "at most the tensor-parallel size / KV heads"),
        ("vllm", "gather_q", DECODE, {"cp": 2, "tp": 8}, "as --mesh tp=8,cp=2"),
        ("vllm", "helix", LATENT, {"cp": 1, "tp": 8}, "a DCP size above 1"),
        ("vllm", "tree", DECODE, {"cp": 8}, "vllm does not have it"),
        ("sglang", "helix", DECODE, {"tp": 8, "cp": 2}, "latent attention (MLA)"),
        ("trtllm", "helix", DECODE, {"cp": 2, "tp": 8}, "latent attention (MLA) only"),
    ],
)
def test_what_a_framework_does_not_do_has_a_reason(framework, algorithm, problem, mesh, reason):
    said = typed(framework, algorithm, problem, **mesh)

    assert isinstance(said, str)
    assert reason in said
    assert find(framework).name in said


def test_axes_of_one_rank_may_stand_anywhere():
    assert isinstance(typed("megatron", "usp", TRAIN, ulysses=8, ring=1), Setting)
    assert isinstance(typed("megatron", "ring", TRAIN, ring=8, tp=2), Setting)
    assert isinstance(typed("megatron", "ring", TRAIN, tp=2, ring=8), str)


NODES = ["--cluster", "dgx_h100", "--nodes", "2", "--model", "llama3-8b", "--seq", "64K", "--mask", "causal"]


def answer(capsys, *arguments):
    assert run(["compare", *NODES, *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def shown(capsys, *arguments):
    assert run(["compare", *NODES, *arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_answer_has_what_to_set_for_each_result(capsys):
    found = answer(capsys)

    usp = next(one for one in found["results"] if one["mesh"] == {"ring": 2, "ulysses": 8})
    assert [one["framework"] for one in usp["settings"]] == ["transformer_engine", "yunchang"]
    assert usp["settings"][0].keys() == {"framework", "version", "set", "note", "recalled", "source"}
    assert "use_ulysses_low=True" in usp["settings"][1]["set"]
    assert all("settings" in one for one in found["results"])
    assert found["framework"] is None


def test_a_framework_filters_what_is_tried_and_says_why_the_others_are_not(capsys):
    found = answer(capsys, "--framework", "te")

    assert found["framework"] == "transformer_engine"
    assert found["results"]
    for one in found["results"]:
        assert "transformer_engine" in [typed["framework"] for typed in one["settings"]]
    refused = {one["algorithm"]: one["reason"] for one in found["inapplicable"]}
    assert refused["attention2d"] == "transformer_engine does not have it"
    assert any("KV heads" in one["reason"] for one in found["partly"])
    assert {one["algorithm"] for one in [*found["results"], *found["inapplicable"]]} == set(algorithms.names())


def test_a_framework_that_places_axes_otherwise_is_offered_in_its_own_order(capsys):
    found = answer(capsys, "--framework", "tensorrt_llm")

    assert {one["algorithm"] for one in found["results"]} == {"attention2d"}
    wide = [list(one["mesh"]) for one in found["results"] if 1 not in one["mesh"].values()]
    assert wide
    assert all(axes == ["col", "row"] for axes in wide)


def test_what_no_framework_has_is_research_only(capsys):
    one = ["--algorithms", "attention2d", "--mesh", "row=4,col=4"]

    text = shown(capsys, *one)
    assert "attention2d on row=4,col=4, striped: research only, no framework known here has it like this; " in text
    assert "like this; tensorrt_llm: it places the axes as --mesh col=4,row=4" in text
    assert answer(capsys, *one)["results"][0]["settings"] == []


def test_ties_that_no_framework_has_stand_in_a_line_behind_those_that_one_has(capsys):
    text = shown(capsys, "--algorithms", "usp,startrail,burst", "--compute-error", "0.9")

    assert "ulysses=8, zigzag transformer_engine set_context" in text
    assert "research only, of those that tie: startrail on " in text
    assert text.count("research only") == 1


def test_the_winner_is_shown_with_what_to_type(capsys):
    text = shown(capsys, "--framework", "yunchang", "--algorithms", "usp,ring")

    assert "what to set:" in text
    assert "yunchang set_seq_parallel_pg(" in text
    assert "[0.6.1; " in text
    assert "transformer_engine" not in text


def test_decode_context_parallelism_is_carved_out_of_the_tensor_parallel_ranks(capsys):
    decode = ["--phase", "decode", "--tp", "8", "--framework", "vllm"]
    found = answer(capsys, *decode)

    assert {one["algorithm"] for one in found["results"]} == {"gather_q", "helix"}
    assert {tuple(one["mesh"].items()) for one in found["results"]} == {(("tp", 8), ("cp", 2))}
    assert "--tensor-parallel-size 16 --decode-context-parallel-size 2" in shown(capsys, *decode)


def test_an_order_of_axes_that_makes_no_difference_is_not_held_against_a_framework():
    site = Site(switch(16))
    programs = {"helix": algorithms.find("helix")}
    found = compare(programs, replace(DECODE, heads=16), Job(8, 2, 1), site)

    ((candidate, _),) = found.ranked
    assert list(candidate.mesh.axes) == ["cp", "tp"]
    assert (
        "--decode-context-parallel-size 2"
        in {typed.framework: typed.set for typed in settings(candidate).known}["vllm"]
    )
    assert settings(replace(candidate, alike=())).known == ()


def test_of_a_whole_model_a_framework_must_have_every_kind_of_layer():
    full, causal = replace(PREFILL, mask="full"), PREFILL
    options = {"framework": find("tensorrt_llm_visual_gen"), "layout": "zigzag"}
    programs = {"ring": algorithms.find("ring")}

    one = compare(programs, full, Job(1, 8, 1), Site(switch(8)), kinds=[(2, full)], **options)
    both = compare(programs, full, Job(1, 8, 1), Site(switch(8)), kinds=[(2, full), (1, causal)], **options)

    assert [settings(candidate).known[-1].framework for candidate, _ in one.ranked] == ["yunchang"]
    assert "tensorrt_llm_visual_gen" in [typed.framework for typed in settings(one.ranked[0][0]).known]
    assert both.results == []
    assert [one.reason for one in both.inapplicable] == [
        "tensorrt_llm_visual_gen: video generation: full attention only"
    ]


def test_a_framework_that_has_none_of_it_is_one_line(capsys):
    assert run(["compare", *NODES, "--framework", "deepspeed"]) == 2

    said = capsys.readouterr().err.splitlines()[-1]  # progress is before it where the machine is slow
    assert "no algorithm can run: " in said
    assert "deepspeed: for train, not prefill (ulysses)" in said


def test_an_unknown_framework_is_refused_before_any_work(capsys):
    assert run(["compare", *NODES, "--framework", "vlm"]) == 2

    assert "no framework 'vlm': expected one of" in capsys.readouterr().err


def test_settings_are_records_of_text():
    found = typed("megatron", "ring", TRAIN, ring=8)

    assert {field: type(text) for field, text in found._asdict().items()} == dict.fromkeys(Setting._fields, str)
    assert {one.name for one in fields(RULES[0][1])} >= {"algorithm", "source", "version", "recalled"}
