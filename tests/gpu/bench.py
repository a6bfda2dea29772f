"""The steps of tests/gpu/all.sh that are not commands: exactness on the GPU, speed beside cuBLAS and torch, programs.

python -m tests.gpu.bench STEP [--play]: prints lines for people, and last one line of JSON.
"""

import argparse
import itertools
import json
import os
import statistics

import numpy as np

from algorithms.ir import Attention, Mesh
from algorithms.ir.mask import CAUSAL, FULL
from algorithms.ir.score import Score
from algorithms.ops import module
from executor.gpu import plan
from executor.gpu.glue import fused
from executor.kernels import cuda_tiles
from executor.launch import RANKS, said
from tests.executor.attention_cases import ORDERS, case, ratios
from tests.gpu.machine import Hosted, bfloat16, machine

MASKS = ("full", "causal", "window:11", "full,documents:30+1+40*9", "window:9,documents:30+1+40*9")
CHANGES = ({}, {"softcap": 2.0, "alibi": True})
PEER = "torch is not here: pip install torch"


def card(on):
    """What is measured."""
    return on.about()


def exact(on):
    """Every mask, order, change and dtype, small and across tiles of the real size: the worst error / bound."""
    kernel, worst = Hosted(on), {}
    halves = [np.dtype(np.float16), *([bfloat16()] if bfloat16() else [])]
    for dtype in (np.dtype(float), np.dtype(np.float32), *halves):
        for mask, order, changes in itertools.product(MASKS, ORDERS[: 1 if on.played else None], CHANGES):
            found = ratios(kernel, case(heads=(4, 2), dims=(19, 7), dtype=dtype, mask=mask, order=order, **changes))
            worst[dtype.name] = max(worst.get(dtype.name, 0.0), *found.values())
        # Narrow heads in float64: its reference of long doubles has no BLAS.
        dims = (4, 3) if dtype == np.float64 else (64, 64)
        for mask in () if on.played else ("full", "causal", "window:700"):
            found = ratios(kernel, case(n=1500, m=4700, heads=(2, 1), dims=dims, dtype=dtype, mask=mask))
            worst[dtype.name] = max(worst[dtype.name], *found.values())
        say(f"{dtype.name}: worst error / bound {worst[dtype.name]:.3g}")
    again = [kernel.attend(*case(n=300, m=300, heads=(4, 2)).block) for _ in range(2)]
    same = all(np.array_equal(a, b) for a, b in zip(*again, strict=True))
    say(f"two runs give the same bits: {same}")
    if max(worst.values()) > 1 or not same:
        raise SystemExit(f"not exact: {worst}")
    return {"worst_of_bound": worst, "same_bits": same}


def inputs(on, dtype, n, heads, dim, count=3):
    rng = np.random.default_rng(0)
    return [on.xp.asarray(rng.standard_normal((n, heads, dim)).astype(dtype)) for _ in range(count)]


def sizes(on):
    return (40, 2, 8) if on.played else (8192, 16, 128)


def flop(n, heads, dim, causal):
    pairs = n * (n + 1) / 2 if causal else n * n
    return 4.0 * pairs * heads * dim


def speed(on):
    """TFLOP/s of blocks by the CUDA kernel, forward and backward, and their share of cuBLAS's largest products."""
    (n, heads, dim), results = sizes(on), {}
    at = np.arange(n)
    for dtype in filter(None, (np.dtype(float), np.dtype(np.float32), bfloat16())):
        peak = results[f"{dtype.name} cuBLAS"] = products(on, dtype)
        say(f"{dtype.name}: cuBLAS {peak:.1f} TFLOP/s")
        q, k, v, do = inputs(on, dtype, n, heads, dim, 4)
        for mask, pieces in itertools.product((FULL, CAUSAL), (3, 1) if dtype.itemsize == 2 else (3,)):
            cuda_tiles.PIECES = pieces
            block = q, k, v, at, at, mask, Score(dim**-0.5)
            forward = on.seconds(lambda block=block: cuda_tiles.attend(*block))
            out, lse = cuda_tiles.attend(*block)
            delta = (do.astype(out.dtype) * out).sum(axis=2)
            gradient = (q, k, v, do, lse, delta, *block[3:])
            back = on.seconds(lambda gradient=gradient: cuda_tiles.attend_backward(*gradient))
            rates = (
                flop(n, heads, dim, mask.causal) / forward / 1e12,
                2.5 * flop(n, heads, dim, mask.causal) / back / 1e12,
            )
            name = f"{dtype.name} {mask}" + f" pieces {pieces}" * (dtype.itemsize == 2)
            results[name] = {
                "forward": rates[0],
                "backward": rates[1],
                "share": rates[0] / peak,
                "backward_share": rates[1] / peak,
            }
            say(
                f"{name}: {rates[0]:.1f} forward, {rates[1]:.1f} backward TFLOP/s, "
                f"{rates[0] / peak:.0%} and {rates[1] / peak:.0%}"
            )
        cuda_tiles.PIECES = 3
    return results


def products(on, dtype):
    """TFLOP/s of one large product."""
    from executor.gpu.gemm import matrices, multiply

    n = 32 if on.played else 8192
    a, b = (x[None, :, 0] for x in inputs(on, dtype, n, 1, n, 2))
    out = on.xp.empty((1, n, n), dtype=np.float32 if dtype.itemsize < 8 else float)
    terms = [matrices(on.engine, x) for x in (a, b, out)]
    return 2.0 * n**3 / on.seconds(lambda: multiply(on.engine, *terms)) / 1e12


def tiles(on):
    """Which tile sizes are fastest: shares of the cache by widths, in float64, float32 and bfloat16."""
    (n, heads, dim), results = sizes(on), {}
    at, kept = np.arange(n), (plan.CACHE_SHARE, plan.WIDTH)
    for dtype in filter(None, (np.dtype(float), np.dtype(np.float32), bfloat16())):
        q, k, v = inputs(on, dtype, n, heads, dim)
        for share, width in itertools.product((6, 3, 1.5, 0.5), (1024, 2048, 4096)):
            plan.CACHE_SHARE, plan.WIDTH = share, width
            plan._plans.clear()
            block = q, k, v, at, at, FULL, Score(dim**-0.5)
            rate = flop(n, heads, dim, False) / on.seconds(lambda block=block: cuda_tiles.attend(*block), 3) / 1e12
            results[f"{dtype.name} cache/{share} x {width}"] = rate
        best = max((name for name in results if name.startswith(dtype.name)), key=results.get)
        say(f"best: {best}, {results[best]:.1f} TFLOP/s; cache/3 x 2048 {results[f'{dtype.name} cache/3 x 2048']:.1f}")
    plan.CACHE_SHARE, plan.WIDTH = kept
    return results


def flash(on):
    """The same block in bfloat16 by torch's flash kernel, by our wrapper of it, and by our own kernel."""
    try:
        import torch
    except ImportError:
        say(PEER)
        return {"skipped": PEER}
    from executor.kernels import torch_flash

    if on.played or bfloat16() is None:
        say("a GPU and ml_dtypes are needed")
        return {"skipped": "a GPU and ml_dtypes are needed"}
    (n, heads, dim), results, at = sizes(on), {}, np.arange(sizes(on)[0])
    q, k, v = inputs(on, bfloat16(), n, heads, dim)
    theirs = [torch.from_dlpack(x.view("int16")).view(torch.bfloat16).movedim(1, 0)[None] for x in (q, k, v)]
    operator = torch.ops.aten._scaled_dot_product_flash_attention
    for mask in (FULL, CAUSAL):
        torch.cuda.synchronize()
        with torch_flash._in_stream(torch, on.xp):
            alone = on.seconds(lambda causal=mask.causal: operator(*theirs, 0.0, causal))
        block = q, k, v, at, at, mask, Score(dim**-0.5)
        wrapped = on.seconds(lambda block=block: torch_flash.attend(*block))
        own = on.seconds(lambda block=block: cuda_tiles.attend(*block))
        rate = flop(n, heads, dim, mask.causal) / 1e12
        results[str(mask)] = {"torch": rate / alone, "kernel torch": rate / wrapped, "kernel cuda": rate / own,
                              "ratio": alone / wrapped}  # fmt: skip
        say(f"bfloat16 {mask}: torch {rate / alone:.0f}, through DLPack {rate / wrapped:.0f} "
            f"({alone / wrapped:.2f} of it), kernel cuda {rate / own:.0f} TFLOP/s")  # fmt: skip
    return results


def glue(on):
    """A merge of states as one kernel, beside its meaning op by op: GB/s of what it must read and write."""
    n, heads, dim = sizes(on)
    out_a, out_b = inputs(on, np.float32, n, heads, dim, 2)
    lse_a, lse_b = (x[:, :, 0].copy() for x in (out_a, out_b))
    nbytes = 3 * (out_a.nbytes + lse_a.nbytes)
    one = fused(on.engine)["merge"]
    rates = {
        "one kernel": nbytes / on.seconds(lambda: one(out_a, lse_a, out_b, lse_b)) / 1e9,
        "op by op": nbytes / on.seconds(lambda: module("merge").meaning(on.xp, out_a, lse_a, out_b, lse_b)) / 1e9,
    }
    say(", ".join(f"{name}: {rate:.0f} GB/s" for name, rate in rates.items()))
    return rates


def programs(on):
    """Ring and attention2d on the ranks of MPI, which may share the GPU: medians of the run and of its attention."""
    from mpi4py import MPI

    from algorithms.attention2d import attention2d
    from algorithms.ring import ring_attention
    from executor import mpi
    from executor.arrays import random_inputs
    from executor.gpu.run import Runner

    comm, results = MPI.COMM_WORLD, {}
    runner, streams = Runner(on.device(), "staged"), mpi.Streams(comm)
    n, heads, dim = sizes(on)
    for dtype in filter(None, ("float64", "bfloat16" if bfloat16() else None)):
        state = "float64" if dtype == "float64" else "float32"
        problem = Attention(heads, heads, dim, n, n, dtype=dtype, kv_dtype=dtype, state_dtype=state)
        arrays = random_inputs(problem)
        for program, mesh in (
            (ring_attention, Mesh(ring=comm.size)),
            (attention2d, Mesh(row=max(1, comm.size // 2), col=min(2, comm.size))),
        ):
            schedule, ends = program(problem, mesh), []
            compute = [op.id for op in schedule.ops if op.kind == "attend"]
            for _ in range(2 if on.played else 7):
                run = runner(schedule, arrays, comm, "cuda", None, streams)
                ends.append(
                    (comm.allreduce(float(run.end.max()), MPI.MAX), float((run.end - run.start)[compute].sum()))
                )
            end, attending = (statistics.median(x) for x in zip(*ends[1:], strict=True))
            name = f"{schedule.name} {mesh} {dtype}"
            results[name] = {"ms": 1e3 * end, "attend_ms": 1e3 * attending}
            say(f"{name}, {comm.size} ranks: {1e3 * end:.2f} ms, attend {1e3 * attending:.2f} ms")
    return {"ranks": comm.size, **results}


STEPS = {f.__name__: f for f in (card, exact, speed, tiles, flash, glue, programs)}


def say(line):
    """Print on rank 0; a step of one process does not start MPI."""
    if said(RANKS, os.environ) in (None, 0):
        print(line, flush=True)


def main():
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("step", choices=STEPS)
    words.add_argument("--play", action="store_true", help="without a GPU: to try the step; its seconds mean nothing")
    asked = words.parse_args()
    say(json.dumps(STEPS[asked.step](machine(asked.play))))


if __name__ == "__main__":
    main()
