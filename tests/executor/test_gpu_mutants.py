"""Mutants of the GPU kernel, in its source and around it, break the bounds; missing barriers show in some order."""

from itertools import pairwise

import numpy as np
import pytest

from executor.gpu import plan
from executor.gpu.plan import Plan
from executor.kernels import cuda_tiles
from tests.executor.attention_cases import case, ratios
from tests.executor.test_gpu_kernels import play
from tests.executor.test_kernels_mutants import diagonal_block
from tests.gpu import emulated
from tests.gpu.emulated import Emulated, built

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason=emulated.MISSING)

FORWARD, BACKWARD = ("out", "lse"), ("dq", "dk", "dv")
CHANGING = {"softcap": 1.5, "alibi": True, "heads": (4, 2)}
SOFTMAX_MASK = "if (mixed && (cols[j] < low || cols[j] > high)) x = least<T>();"
GRADIENT_MASK = "whole == least<T>() || (mixed && (cols[j] < low || cols[j] > high))"
SHUFFLES = "    for (int step = 16; step; step >>= 1) mine = join(mine, __shfl_xor_sync(0xffffffffu, mine, step));\n"
MASKED = {"mask": "window:30"}

# name -> pairs of old and new text, the results it must break, the case it shows in
MUTANTS = {
    "no mask": ([(SOFTMAX_MASK, "")], FORWARD, {}),
    "last key lost": ([(SOFTMAX_MASK, SOFTMAX_MASK.replace("> high", ">= high"))], FORWARD, {}),
    "first key lost": ([(SOFTMAX_MASK, SOFTMAX_MASK.replace("< low", "<= low"))], FORWARD, MASKED),
    "a key too many": ([(SOFTMAX_MASK, SOFTMAX_MASK.replace("> high", "> high + 1"))], FORWARD, {}),
    "earlier sums not scaled": ([("if (factor != 1)", "if (false)")], ("out",), {}),
    "earlier total not scaled": ([("total[state] * factor + sum", "total[state] + sum")], FORWARD, {}),
    "maximum not kept": ([("        top[state] = now;\n", "")], FORWARD, {}),
    "half a warp": ([(f"{SHUFFLES}    if (lane == 0) shared[warp]",
                      f"{SHUFFLES.replace('16', '8')}    if (lane == 0) shared[warp]")], FORWARD, {}),
    "unseen rows not grounded": ([("now == least<T>() ? T(0) : now", "now")], FORWARD, {}),
    "rows of another head": ([("sums[state * dim + d] / seen", "sums[(state - head * gridDim.x) * dim + d] / seen")],
                             ("out",), CHANGING),
    "backward without a mask": ([(GRADIENT_MASK, "whole == least<T>()")], BACKWARD, {}),
    "backward's last key lost": ([(GRADIENT_MASK, GRADIENT_MASK.replace("> high", ">= high"))], BACKWARD, {}),
    "backward without delta": ([("p * (weights[start + j] - own)", "p * weights[start + j]")], ("dq", "dk"), {}),
    "slope of the cap forgotten": ([("if (softcap > 0) {", "if (false) {")], ("dq", "dk"), CHANGING),
    "cap after bias": ([("logit(s[j], softcap, slope, here, cols[j])",
                         "logit(logit(s[j], T(0), slope, here, cols[j]), softcap, T(0), here, cols[j])")],
                       FORWARD, CHANGING),
    "distance off by one": ([("T(at < col ? col - at : at - col)", "T(at < col ? col - at : at - col + (col > 20))")],
                            FORWARD + BACKWARD, CHANGING),
}  # fmt: skip
RACES = {
    "no barrier before the warps' results are read": [
        ("    if (lane == 0) shared[warp] = mine;\n    __syncthreads();\n", "    if (lane == 0) shared[warp] = mine;\n")
    ],
    "no barrier before the block's result is read": [
        ("        if (lane == 0) shared[32] = mine;\n    }\n    __syncthreads();\n",
         "        if (lane == 0) shared[32] = mine;\n    }\n")
    ],
}  # fmt: skip
KERNELS = ("softmax_tile<double, double>", "gradient_tile<double>", "finish_rows<double>")


def mutated(number, threads=None):
    every = tuple(tuple(edits) for edits in (*(edits for edits, _, _ in MUTANTS.values()), *RACES.values()))
    return Emulated(library=built("attention", every, KERNELS), mutant=number, threads=threads)


def test_the_library_of_mutants_without_one_is_exact(monkeypatch):
    play(monkeypatch, mutated(0))
    for changes in ({}, MASKED, {"softcap": 1.5, "alibi": True}):
        found = ratios(cuda_tiles, diagonal_block("float64", **changes))
        assert max(found.values()) <= 1, found


@pytest.mark.parametrize("number, name", list(enumerate(MUTANTS, 1)))
def test_each_bound_catches_each_mutant_of_the_source(monkeypatch, number, name):
    play(monkeypatch, mutated(number), width=64 if name == "half a warp" else 16)
    _, broken, changes = MUTANTS[name]
    c = diagonal_block("float64", **changes) if "heads" not in changes else grouped(changes)
    if name == "unseen rows not grounded":
        c = c._replace(rows=c.rows - 3)

    found = ratios(cuda_tiles, c)

    assert min(found[result] for result in broken) > 1, found
    if broken == BACKWARD or name.startswith("slope of the cap"):
        assert max(found[result] for result in FORWARD) <= 1, found


def grouped(changes):
    c = case(n=64, m=64, **changes)
    return c._replace(rows=np.arange(64), cols=np.arange(64))


@pytest.mark.parametrize("number, name", list(enumerate(RACES, 1 + len(MUTANTS))))
def test_a_missing_barrier_shows_in_some_order_of_threads(monkeypatch, number, name):
    play(monkeypatch, mutated(number, threads=96))
    worst = []
    for order in (0, 1, 2):
        monkeypatch.setenv("RINGLOOM_ORDER", str(order))
        worst.append(max(ratios(cuda_tiles, diagonal_block("float64")).values()))
    assert max(worst) > 1, worst


TILES, PLANNED = Plan.tiles, cuda_tiles.planned


def lost(self, span):
    tiles = list(TILES(self, span))
    return tiles[:1] + tiles[2:]


def counted_twice(self, span):
    tiles = list(TILES(self, span))
    return tiles[:2] + tiles[1:]


def stale(self, span):
    tiles = list(TILES(self, span))
    return tiles[:1] + [(old[0], new[1]) for old, new in pairwise(tiles)]


def unmasked(self, span):
    return [(keys, False) for keys, _ in TILES(self, span)]


@pytest.mark.parametrize("broken", [lost, counted_twice, stale, unmasked])
def test_each_bound_catches_each_mutant_of_the_tiles(monkeypatch, broken):
    play(monkeypatch, Emulated())
    monkeypatch.setattr(plan.Plan, "tiles", broken)

    found = ratios(cuda_tiles, diagonal_block("float64"))

    assert min(found.values()) > 1, found


def test_each_bound_catches_a_scale_off_by_a_thousandth(monkeypatch):
    play(monkeypatch, Emulated())
    c = diagonal_block("float64")
    off = Wrong(lambda block: (*block[:-1], block[-1]._replace(scale=block[-1].scale * 1.001)))

    found = ratios(off, c)

    assert min(found.values()) > 1, found


class Wrong:
    """The kernel, given other arguments than it should be."""

    def __init__(self, change):
        self.change = change

    def attend(self, *block):
        return cuda_tiles.attend(*self.change(block))

    def attend_backward(self, *block):
        return cuda_tiles.attend_backward(*self.change(block))
