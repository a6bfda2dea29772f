"""Our compiled CPU kernel beside torch's CPU flash kernel, forward and backward, one thread each.

    OPENBLAS_NUM_THREADS=1 python -m tests.bench.compare_torch [--rounds 7]

Both run in one process in turn; each figure is the least processor time of the rounds. Prints a Markdown table. Without
torch it says so and ends.
"""

import argparse
import importlib.util
import time

import numpy as np

from algorithms.ir.mask import CAUSAL, FULL
from algorithms.ir.score import Score
from executor.kernels import find

SHAPES = ((1024, 4, 64), (2048, 2, 64), (2048, 2, 128), (4096, 2, 64))  # tokens, heads, head size
ms = 1e-3


def fastest(calls, rounds):
    """Return the least processor seconds of each call, all of them in turn."""
    for call in calls:
        call()
    least = [np.inf] * len(calls)
    for _ in range(rounds):
        for k, call in enumerate(calls):
            start = time.thread_time()
            call()
            least[k] = min(least[k], time.thread_time() - start)
    return least


def beside(torch, dtype, shape, mask, rounds):
    """Return the seconds of our forward, torch's, our backward and torch's."""
    aten, kernel, rng = torch.ops.aten, find("numba"), np.random.default_rng(0)
    tokens, _, width = shape
    q, k, v, do = (rng.standard_normal(shape).astype(dtype) for _ in range(4))
    rows, score, causal = np.arange(tokens), Score(width**-0.5), mask == CAUSAL
    theirs = [torch.from_numpy(np.ascontiguousarray(x.transpose(1, 0, 2)[None])) for x in (q, k, v)]
    their_do = torch.from_numpy(np.ascontiguousarray(do.transpose(1, 0, 2)[None]))
    flash, flash_backward = (
        aten._scaled_dot_product_flash_attention_for_cpu,
        aten._scaled_dot_product_flash_attention_for_cpu_backward,
    )
    out, lse = kernel.attend(q, k, v, rows, rows, mask, score)
    delta, saved = (do * out).sum(-1), flash(*theirs, 0.0, causal)
    return fastest(
        (
            lambda: kernel.attend(q, k, v, rows, rows, mask, score),
            lambda: flash(*theirs, 0.0, causal),
            lambda: kernel.attend_backward(q, k, v, do, lse, delta, rows, rows, mask, score),
            lambda: flash_backward(their_do, *theirs, *saved[:2], 0.0, causal),
        ),
        rounds,
    )


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: nothing to compare with")
        return
    import torch

    torch.set_num_threads(1)
    print("| dtype | tokens x head size | mask | forward ms | torch / ours | backward ms | torch / ours |")
    print("|---|---|---|---|---|---|---|")
    for dtype in ("float64", "float32"):
        for shape in SHAPES:
            for name, mask in (("full", FULL), ("causal", CAUSAL)):
                ours, theirs, back, their_back = beside(torch, dtype, shape, mask, rounds)
                print(
                    f"| {dtype} | {shape[0]:,} x {shape[2]} | {name} | {ours / ms:.1f} | {theirs / ours:.2f} "
                    f"| {back / ms:.1f} | {their_back / back:.2f} |"
                )


if __name__ == "__main__":
    main()
