"""The executor of GPUs on real ranks of MPI, streams played: exact on each transport, and not when it does not wait."""

import json

import pytest

from tests.executor.ranks import needs_mpi, program
from tests.gpu import emulated

SOURCE = "import sys; from tests.gpu.over_mpi import main; import json; main(**json.loads(sys.argv[1]))"
TRANSPORTS = ("staged", "cuda-aware", "nccl")

pytestmark = [*needs_mpi, pytest.mark.skipif(emulated.COMPILER is None, reason=emulated.MISSING)]


def played(ranks, names=(), kernel="numpy", transport="staged", ways=None, forget=()):
    """Run programs on played GPUs; what rank 0 says of them."""
    asked = {"transport": transport, "kernel": kernel, "ways": ways, "names": names, "forget": forget}
    done = program(SOURCE, json.dumps(asked), ranks=ranks, MPIR_CVAR_ENABLE_HEAVY_YIELD="1", PYTHONWARNINGS="ignore")
    return done, json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_algorithm_is_exact_on_every_transport(ranks, transport):
    done, said = played(ranks, transport=transport)

    assert said, done.stderr
    assert said["wrong"] == []
    assert said["ran"] > 50


def test_the_kernel_of_gpus_serves_the_executor_of_gpus():
    done, said = played(2, ["ring", "attention2d", "tree"], kernel="cuda")

    assert said, done.stderr
    assert said["wrong"] == []


@pytest.mark.parametrize("ways", [{}, {"all_gather": "doubling", "reduce_scatter": "ring", "all_reduce": "doubling"}])
def test_collectives_go_any_way(ways):
    done, said = played(4, ["attention2d", "tree"], ways=ways)

    assert said, done.stderr
    assert said["wrong"] == []


@pytest.mark.parametrize(
    "forget, transport",
    [
        ("finish", "staged"),
        ("compute after communication", "staged"),
        *(("communication after compute", transport) for transport in TRANSPORTS),
    ],
)
def test_a_wait_that_is_forgotten_makes_a_wrong_result(forget, transport):
    done, said = played(2, ["ring", "attention2d"], transport=transport, forget=[forget])

    assert done.returncode != 0 or said["wrong"]
