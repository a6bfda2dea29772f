"""What each rank of tests/executor/test_gpu_mpi.py does: programs on a fake GPU, held to dense attention."""

import itertools
import json
import sys

from mpi4py import MPI

from algorithms.ir import Attention, Inapplicable, Mesh
from executor import interpret, mpi
from executor.arrays import random_inputs
from executor.exact import judge, reference
from executor.gpu import run as gpu_run
from executor.gpu.run import Runner
from tests.executor.drawn import PROGRAMS
from tests.gpu.emulated import Emulated
from tests.gpu.fake import FakeDevice, deferred
from tests.gpu.fake_nccl import FakeNccl

DOUBLE = {"dtype": "float64", "state_dtype": "float64", "grad_dtype": "float64"}


def problems(phase):
    new = 3 if phase == "decode" else 22
    for mask, more in (("causal", {}), ("full", {"softcap": 1.5, "alibi": True})):
        sizes = {"heads": 4, "kv_heads": 4, "head_dim": 5, "query_len": new, "key_len": 22}
        yield Attention(**sizes, **DOUBLE, mask=mask, phase=phase, **more)


def meshes(axes, ranks):
    for shape in itertools.product(range(1, ranks + 1), repeat=len(axes)):
        mesh = Mesh(**dict(zip(axes, shape, strict=True)))
        if mesh.size == ranks:
            yield mesh


def main(transport, kernel, ways, names, forget):
    comm = MPI.COMM_WORLD
    if kernel == "cuda":
        from executor.kernels import cuda_tiles

        engine = Emulated()
        cuda_tiles.engine = lambda: engine
    device = FakeDevice(forget=forget)
    gpu_run.bind = deferred(interpret.bind, device)
    runner = Runner(device, FakeNccl if transport == "nccl" else transport)
    streams, worst, ran = mpi.Streams(comm), {}, 0
    for name, phase in sorted(PROGRAMS):
        if names and name not in names:
            continue
        program = PROGRAMS[name, phase]
        for mesh, problem in itertools.product(meshes(program.axes, comm.size), problems(phase)):
            try:
                schedule = program(problem, mesh)
            except Inapplicable:
                continue
            arrays = random_inputs(problem)
            run = runner(schedule, arrays, comm, kernel, ways, streams)
            assert (run.end >= run.start).all()
            ranks = comm.gather((run.results, run.sent.tolist()), root=0)
            if ranks:
                parts = {key: [mine[key] for mine, _ in ranks] for key in run.results}
                share = judge(schedule, parts, reference(problem, arrays)).share
                worst[f"{name} {phase} {mesh}"] = max(share, worst.get(f"{name} {phase} {mesh}", 0))
                ran += 1
    if comm.rank == 0:
        print(json.dumps({"ran": ran, "worst": max(worst.values()), "wrong": [k for k, v in worst.items() if v > 1]}))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
