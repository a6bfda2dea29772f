"""Runs that MPI made are read, and put together again by the engine as they were."""

import pytest

from sim.beside import Beside
from sim.recorded import recorded
from tests.executor.ranks import command, needs_mpi

pytestmark = needs_mpi

RUNS = {
    "ring": ("--seq", "256"),
    "attention2d": ("--seq", "256", "--mesh", "row=1,col=2"),
    "ulysses": ("--seq", "256", "--phase", "train"),
    "tree": ("--seq", "256", "--phase", "decode"),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_two_ranks_is_replayed_as_it_was(name, tmp_path):
    path = tmp_path / "run.json"
    sizes = ("--heads", "2", "--head-dim", "16", "--repeats", "3", "--warmup", "1", "--kernel", "numpy")
    done = command("time", name, *RUNS[name], *sizes, "--oversubscribe", "--timeline", path, ranks=2)
    assert done.returncode == 0, done

    found = Beside.of(recorded(str(path)))

    assert found.measured.took.by_line
    assert found.replayed.makespan == pytest.approx(found.recorded.timeline.makespan, rel=1e-6)
    assert len(found.recorded.runs) == 3
