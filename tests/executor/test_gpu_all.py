"""tests/gpu/all.sh without a GPU: it stops at once; with one played, or with stand-ins, every step is what it says."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.executor.ranks import ROOT, clean
from tests.gpu import emulated
from tests.gpu.unpack import unpack

pytestmark = [
    pytest.mark.xdist_group("mpi"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="all.sh needs bash"),
]
HAS_GPU = importlib.util.find_spec("cupy") is not None
needs_compiler = pytest.mark.skipif(emulated.COMPILER is None, reason=emulated.MISSING)


def all_sh(*arguments, timeout=300, **environ):
    words = ["bash", str(ROOT / "tests/gpu/all.sh"), *map(str, arguments)]
    environ = clean(PYTHON=sys.executable) | environ
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=timeout)


@pytest.mark.skipif(HAS_GPU, reason="CuPy is installed")
def test_without_a_gpu_it_stops_at_once_with_one_line(tmp_path):
    done = all_sh("", tmp_path)

    assert done.returncode == 2
    assert re.fullmatch(r"all.sh: error: --device gpu needs CuPy \(.*\): pip install .*\n", done.stderr)
    assert not (tmp_path / "results.json").exists()


@pytest.mark.parametrize(
    "arguments, environ, line",
    [
        (["nowhere"], {}, "no folder nowhere of wheels"),
        (["."], {"DEVICE": "cpu"}, "wheels: there are no wheels in ."),
        ([], {"DEVICE": "tpu"}, "DEVICE is gpu or cpu, got tpu"),
        ([], {"PYTHON": "no-such-python"}, "no Python called no-such-python: say PYTHON=..."),
    ],
)
def test_bad_input_is_one_line(arguments, environ, line, tmp_path):
    done = all_sh(*(arguments or [""]), tmp_path, **environ)

    assert (done.returncode, done.stderr) == (2, f"all.sh: error: {line}\n")


@needs_compiler
def test_steps_run_on_a_played_gpu_and_leave_their_data(tmp_path):
    steps = ["card", "exact", "speed", "flash", "glue", "tiles", "programs-2"]
    done = all_sh("", tmp_path, DEVICE="cpu", ONLY=" ".join(steps))

    found = json.loads((tmp_path / "results.json").read_text())
    assert done.returncode == 0, done.stdout
    assert {one["step"] for one in found["steps"]} <= set(steps)
    assert found["card"] == {"gpu": "none, played on the host"}
    assert all(one["passed"] and one["data"] for one in found["steps"])
    assert (tmp_path / "results.txt").read_text().count("-- ok") == len(found["steps"])


STAND_IN = """#!/usr/bin/env bash
# A Python whose GPU is there and whose steps do nothing; the words of commands are read as they would be.
case "$*" in
  *require*) exit 0 ;;
  *getDeviceCount* | *support*) echo 0 ;;
  "-m executor.commands check "*)
    shift 3
    exec {python} -c 'import sys; from executor.commands import check; check.make_context("", sys.argv[1:])' "$@" ;;
  "-m tests.gpu.bench "*)
    shift 2
    exec {python} -c 'import sys; from tests.gpu.bench import STEPS; assert sys.argv[1] in STEPS' "$@" ;;
  "-m pytest "*) exec {python} "$@" --collect-only ;;
  *) exec {python} "$@" ;;
esac
"""


def test_every_command_line_can_be_read_and_steps_that_fail_do_not_stop_the_others(tmp_path):
    folder, out = tmp_path / "bin", tmp_path / "out"
    folder.mkdir()
    stand_in, mpiexec = folder / "python", folder / "mpiexec"
    stand_in.write_text(STAND_IN.replace("{python}", sys.executable))
    mpiexec.write_text('#!/usr/bin/env bash\nshift 2\nexec "$@"\n')
    for program in (stand_in, mpiexec):
        program.chmod(0o755)

    done = all_sh("", out, PYTHON=str(stand_in), PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")

    steps = {one["step"]: one for one in json.loads((out / "results.json").read_text())["steps"]}
    refused = {"nccl-2", "cuda-aware-2", "tf32-refused"}  # should end with 2 on one GPU; a stand-in refuses nothing
    assert done.returncode == 1, done.stdout
    assert {name for name, one in steps.items() if not one["passed"]} == refused, done.stdout
    assert len(steps) == 20
    assert f"failed: {', '.join(name for name in steps if name in refused)}" in done.stdout


def test_a_step_that_outlasts_its_limit_is_ended_and_reported(tmp_path):
    slow = tmp_path / "python"
    slow.write_text(
        f'#!/usr/bin/env bash\ncase "$*" in *bench*) sleep 60 ;; *require*) ;; *) exec {sys.executable} "$@" ;; esac\n'
    )
    slow.chmod(0o755)
    source = (ROOT / "tests/gpu/all.sh").read_text()
    quick = tmp_path / "quick.sh"
    quick.write_text(source.replace("bench card 40", "bench card 1").replace('$(dirname "$0")/../..', str(ROOT)))
    quick.write_text(quick.read_text().replace('[ "$limit" -lt 5 ]', '[ "$limit" -lt 1 ]'))

    environ = clean(PYTHON=str(slow), ONLY="card")
    done = subprocess.run(
        ["bash", quick, "", tmp_path / "out"], env=environ, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 1
    assert "-- FAILED: card, status 124" in done.stdout


def test_wheels_are_unpacked_with_their_programs_and_libraries(tmp_path):
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "thing-1-py3-none-any.whl", "w") as wheel:
        for name in ("thing/__init__.py", "thing-1.data/data/lib/libthing.so", "thing-1.data/data/bin/thing"):
            wheel.writestr(name, "")

    unpack(wheels, site)

    assert (site / "thing/__init__.py").exists()
    assert (site / "lib/libthing.so").exists()
    assert os.access(site / "bin/thing", os.X_OK)
