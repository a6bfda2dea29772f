"""docs/algorithms.md says of every algorithm what its code does: lines, paper, bytes moved, balance and refusals."""

import re
from math import gcd, log2
from pathlib import Path

import numpy as np
import pytest

import algorithms
from algorithms.ir import Attention, Inapplicable, Mesh
from algorithms.ops import work
from algorithms.ways.transfers import sent_bytes

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "algorithms.md").read_text()
B, H, HKV, D, DV, E, EO, EG = 2, 16, 4, 8, 6, 2, 4, 4
N = 672  # every layout deals it evenly to 8 ranks, and so do parts of a seventh
SIZES = {1: (8,), 2: (2, 4), 3: (2, 2, 2)}


def rows(title):
    """The rows of the table under a heading, as records by column."""
    table = [line for line in PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0].splitlines() if line.startswith("|")]
    head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    return [dict(zip(head, row, strict=True)) for row in body]


TRAINING, DECODING = rows("Prefill and training"), rows("Decode")
named = [pytest.param(row, id=row["algorithm"].strip("`")) for row in TRAINING]
decoding = [pytest.param(row, id=row["algorithm"].strip("`")) for row in DECODING]


def programs(row):
    return algorithms.find(row["algorithm"].strip("`"))


def problem(phase, **changes):
    n = 3 if phase == "decode" else N
    sizes = {"heads": H, "kv_heads": HKV, "head_dim": D, "head_dim_v": DV, "query_len": n, "key_len": N, "batch": B}
    return Attention(**sizes | {"mask": "causal", "phase": phase} | changes)


def axes_of(row):
    """Sizes of the axes, and the letters that the page has for them."""
    names, letters = zip(*(axis.split("=") for axis in row["axes"].split(", ")), strict=True)
    sizes = SIZES[len(names)]
    return dict(zip(names, sizes, strict=True)), dict(zip(letters, sizes, strict=True))


def amounts(phase, axes, letters):
    """What the letters of the formulas stand for."""
    n = 3 if phase == "decode" else N
    queries, keys = n * B * H, N * B * HKV
    first, second = (1, *axes.values())[-2:]
    moved = 1 - (gcd(first - 1, second - 1) + 1) / (first * second)  # (r, c) keeps its shard where r (C-1) = c
    known = {"Q": queries * D * E, "K": keys * (D + DV) * E, "S": queries * EO, "X": queries * DV * EO}
    known |= {"O": known["S"] + known["X"], "G": queries * DV * E, "dQ": queries * D * EG, "dK": keys * (D + DV) * EG}
    known |= {"P": 8, "T": moved, "c": max(1, letters.get("u", 1) // HKV), "log2": log2}
    return known | letters


def sent(schedule):
    return sum(int(sent_bytes(op, schedule.mesh).sum()) for op in schedule.ops)


def test_the_page_has_every_algorithm_of_every_phase_and_no_other():
    for table, phases in ((TRAINING, {"prefill", "train"}), (DECODING, {"decode"})):
        assert sorted(row["algorithm"].strip("`") for row in table) == [
            name for name in algorithms.names() if phases & set(algorithms.find(name))
        ]


@pytest.mark.parametrize("row", [*named, *decoding])
def test_lines_and_paper(row):
    path = ROOT / "algorithms" / f"{row['algorithm'].strip('`')}.py"
    text = path.read_text()

    assert int(row["lines"]) == len(text.splitlines())
    paper = re.search(r"\[([\d.]+)\]\(https://arxiv.org/abs/\1\)", row["paper"])
    assert (paper[1] if paper else row["paper"].split()[-1]) in text


@pytest.mark.parametrize("row", named)
@pytest.mark.parametrize("phase, column", [("prefill", "prefill moves"), ("train", "with the backward pass")])
def test_bytes_of_prefill_and_training(row, phase, column):
    program = programs(row).get(phase)
    if program is None:
        assert row[column] == "prefill only"
        return
    axes, letters = axes_of(row)
    schedule = program(problem(phase, layout=layout_of(row)), Mesh(**axes))

    assert sent(schedule) == pytest.approx(eval(row[column].strip("`"), {}, amounts(phase, axes, letters)), abs=0.5)


@pytest.mark.parametrize("row", decoding)
def test_bytes_of_decoding(row):
    axes, letters = axes_of(row)
    schedule = programs(row)["decode"](problem("decode"), Mesh(**axes))

    assert sent(schedule) == pytest.approx(eval(row["moves"].strip("`"), {}, amounts("decode", axes, letters)), abs=0.5)


@pytest.mark.parametrize("row", decoding)
def test_what_a_rank_ends_with(row):
    axes, _ = axes_of(row)
    out = programs(row)["decode"](problem("decode"), Mesh(**axes)).results["out"]

    assert row["a rank ends with"] == ("all of it" if out.type.width[0] == B * H else "its part of the heads")


def layout_of(row):
    return row["balance"].split()[1]


@pytest.mark.parametrize("row", named)
def test_balance_under_a_causal_mask(row):
    program, (axes, _) = programs(row)["prefill"], axes_of(row)
    asked = problem("prefill", layout=layout_of(row))
    schedule, pairs = program(asked, Mesh(**axes)), np.zeros(8)
    for op in schedule.ops:
        if op.kind == "attend":
            each = work(op, schedule.mesh.grid()).pairs * op.inputs[0].type.width[0]
            pairs += schedule.mesh.spread(np.broadcast_to(each, schedule.mesh.shape))

    assert layout_of(row) == program.tries(asked)[0]
    assert f"{pairs.max() / pairs.mean():.2f}" == row["balance"].split()[0]


REFUSED = {  # what is refused, by problem, axes and words of the reason
    "a degree that does not divide the heads": ({"heads": 9, "kv_heads": 3}, {}, "does not divide the 9 query heads"),
    "axes group and team that differ in size": ({}, {"group": 4, "team": 1}, "group.*team|team.*group"),
    "a mask that is not causal, another layout, cached keys": ({"mask": "full"}, {}, "causal"),
    "4, 6 or more than 72 ranks": ({}, {"ring": 4}, "4"),
    "a number of ranks that is no power of two": ({}, {"cp": 6}, "cp=6 is no power of two"),
    "ranks of a node that do not divide the heads": ({}, {"local": 5}, "local=5 does not divide"),
    "ranks that do not divide the heads": ({}, {"cp": 6}, "cp=6 does not divide"),
    "ranks that do not divide sequences times KV heads": ({}, {"cp": 6}, "cp=6 does not divide"),
}


@pytest.mark.parametrize("row", [*named, *decoding])
def test_what_is_refused(row):
    phase = "prefill" if row in TRAINING else "decode"
    asked = problem(phase, layout=layout_of(row) if row in TRAINING else "contiguous")
    if row["refuses"].startswith("nothing"):
        one_head = {"heads": 1, "kv_heads": 1, "batch": 1}
        for ranks in (3, 7):  # nothing that any mesh could divide
            axes = dict.fromkeys(axes_of(row)[0], ranks)
            programs(row)[phase](problem(phase, layout=asked.layout, **one_head), Mesh(**axes))
        return
    changes, other, words = REFUSED[row["refuses"]]
    with pytest.raises(Inapplicable, match=words):
        programs(row)[phase](problem(phase, layout=asked.layout, **changes), Mesh(**axes_of(row)[0] | other))
