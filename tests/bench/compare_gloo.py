"""Our ring beside the same ring written by hand over torch.distributed's gloo with torch's CPU flash kernel.

    mpiexec -n 2 python -m tests.bench.compare_gloo [--rounds 15] [--heads 4] [--head-dim 64]

Both run in the same two processes, a core each, one thread each, in turn: what disturbs one disturbs the other. Prints
a Markdown table of medians and of the median of the ratios of neighbouring runs. Without torch it says so and ends.
"""

import argparse
import importlib.util
import sys

from executor import launch

launch.prepare()  # before numpy is loaded

import numpy as np  # noqa: E402

from algorithms.ir import Attention, Mesh  # noqa: E402
from algorithms.ring import ring_attention  # noqa: E402

SIZES, DTYPES, PORT = (1024, 2048, 4096), ("float64", "float32"), 29_655
ms = 1e-3


def by_hand(torch, dist, rank, ranks, q, k, v):
    """Ring attention as one writes it with torch: blocks (1, H, n, D), K and V in one message, exact merges."""
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, own = torch.from_numpy(q), torch.from_numpy(np.stack([k, v]))

    def run():
        kv, out, lse = own, None, None
        for step in range(ranks):
            requests = []
            if step < ranks - 1:
                came = torch.empty_like(own)
                requests = [dist.irecv(came, (rank - 1) % ranks), dist.isend(kv, (rank + 1) % ranks)]
            part, part_lse = flash(q, kv[0], kv[1], 0.0, False)
            if out is None:
                out, lse = part, part_lse
            else:
                total = torch.logaddexp(lse, part_lse)
                out = out * torch.exp(lse - total).unsqueeze(-1) + part * torch.exp(part_lse - total).unsqueeze(-1)
                lse = total
            for request in requests:
                request.wait()
            kv = came if step < ranks - 1 else kv
        return out

    return run


def ours(problem, ranks, streams, arrays, kernel):
    """The schedule, lowered once."""
    import time

    from executor import mpi
    from executor.interpret import kernel_called
    from executor.lower import execute

    schedule = ring_attention(problem, Mesh(ring=ranks))
    program = mpi.lowered(schedule, arrays, streams, kernel_called(kernel), None, [0] * len(schedule.ops))

    def run():
        execute(program, time.perf_counter)
        return program.slots[schedule.results["out"].id]

    return run


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--kernel", default="numba")
    wish = parser.parse_args()
    comm = launch.world()
    rank, ranks = comm.Get_rank(), comm.Get_size()
    if importlib.util.find_spec("torch") is None:
        if rank == 0:
            print("skipped: torch is missing: pip install torch", file=sys.stderr)
        return
    import torch
    import torch.distributed as dist

    from executor.arrays import random_inputs
    from executor.calibration.items import Item, measured
    from executor.environment import cpu, load, mpi_library
    from executor.mpi import Streams
    from executor.pinning import settle

    how = settle(comm, True, False)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{PORT}", rank=rank, world_size=ranks)
    streams, before = Streams(comm), load()[0]
    lines = []
    for dtype in DTYPES:
        for n in SIZES:
            sizes = {"heads": wish.heads, "kv_heads": wish.heads, "head_dim": wish.head_dim}
            problem = Attention(**sizes, query_len=n, key_len=n, dtype=dtype, state_dtype=dtype)
            arrays = random_inputs(problem)
            mine = slice(rank * n // ranks, (rank + 1) * n // ranks)
            blocks = [np.ascontiguousarray(arrays[x][mine].transpose(1, 0, 2))[None] for x in "qkv"]
            runs = ours(problem, ranks, streams, arrays, wish.kernel), by_hand(torch, dist, rank, ranks, *blocks)
            a, b = runs[0](), runs[1]().numpy()[0].transpose(1, 0, 2)
            error = float(np.abs(a - b).max())
            assert error < 1000 * np.finfo(dtype).eps, error
            taken = []

            def both(runs=runs, taken=taken):
                import time

                for run in runs:
                    comm.Barrier()
                    begun = time.perf_counter()
                    run()
                    taken.append(time.perf_counter() - begun)

            measured([Item("pairs", {}, both)], comm, 3, wish.rounds)
            longest = np.array(comm.allgather(taken)).max(0)[6:].reshape(-1, 2)
            our, their = np.median(longest, axis=0) / ms
            ratio = np.median(longest[:, 1] / longest[:, 0])
            least = longest.min(0) / ms
            lines.append(
                f"| {dtype} | {n:,} | {our:.2f} | {their:.2f} | {ratio:.2f} | {least[0]:.2f} | {least[1]:.2f} |"
            )
    if rank == 0:
        print(f"{cpu()}, {mpi_library()}, torch {torch.__version__}, {how}, load {before} to {load()[0]}\n")
        print("| dtype | N | ours ms | gloo ms | gloo / ours, median of pairs | our least | its least |")
        print("|---|---|---|---|---|---|---|")
        print("\n".join(lines), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
