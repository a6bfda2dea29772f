"""16,384 ranks: a ring is 16,383 steps, and memory follows the steps, not the ranks."""

import json
import subprocess
import sys

import pytest

import algorithms
from algorithms.ir import Attention, Mesh

RANKS = 16_384
# In a process of its own, whose high-water mark is that of this trace alone. (tracemalloc takes 20 s here.)
TRACE = f"""
import json, pathlib, re, resource, sys
import algorithms
from algorithms.ir import Attention, Mesh
ring = algorithms.find("ring")["prefill"]
problem = Attention(32, 8, 128, {RANKS} * 1024, {RANKS} * 1024, mask="causal", layout="zigzag")
schedule = ring(problem, Mesh(ring={RANKS}))
permutes = [op for op in schedule.ops if op.kind == "permute"]
# What getrusage says on Linux is never less than what the process that started this one held.
status = pathlib.Path("/proc/self/status")
own = re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text()) if status.exists() else None
unit = 1 if sys.platform == "darwin" else 1024
largest = int(own[1]) * 1024 if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
print(json.dumps({{
    "ops": len(schedule.ops),
    "second": str(permutes[1].outputs[0].tokens),
    "last": str(permutes[-1].outputs[0].tokens),
    "peak": largest,
}}))
"""


@pytest.fixture(scope="module")
def traced():
    done = subprocess.run([sys.executable, "-c", TRACE], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_step_is_three_ops(traced):
    assert traced["ops"] == 3 + 1 + 3 * (RANKS - 1)


def test_tracing_stays_under_300_mib_with_the_interpreter_itself(traced):
    # A P-long array an op would be 6 GiB, a P x p table 2 GiB.
    assert traced["peak"] < 300 << 20


def test_the_last_step_is_as_short_as_the_second(traced):
    assert traced["second"] == f"zigzag {RANKS * 1024}/{RANKS}[((ring + {RANKS - 2}) % {RANKS})]"
    assert traced["last"] == f"zigzag {RANKS * 1024}/{RANKS}[((ring + 1) % {RANKS})]"


def test_a_grid_of_as_many_ranks_is_eight_ops():
    problem = Attention(32, 8, 128, RANKS * 1024, RANKS * 1024, mask="causal", layout="striped")

    assert len(algorithms.find("attention2d")["prefill"](problem, Mesh(row=128, col=128)).ops) == 8
