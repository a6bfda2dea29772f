"""Somebody's own FILE.py under `check`: whatever its code does, a proof is a proof, and nobody waits for ever."""

import json
import re

import pytest

from executor import commands, launch
from tests.executor.ranks import assert_refused, command, needs_mpi, program

HEAD = """
import os, sys
from algorithms.ir import spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load
from algorithms.ops.merge import merge
from algorithms.ops.permute import permute

RANK = int(os.environ.get("PMI_RANK", 0))
KEPT = []


def ring(me, problem, shift=1):
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    part = attend(q, k, v)
    for _ in range(1, p):
        k, v = permute(k, v, over="ring", shift=shift)
        part = merge(part, attend(q, k, v))
    return part


@spmd("ring")
def mine(me, problem):
"""


@pytest.fixture
def file(tmp_path):
    """Write an algorithm with this body, and return the words that check it."""

    def write(body):
        path = tmp_path / "mine.py"
        path.write_text(HEAD + "".join(f"    {line}\n" for line in body.strip().splitlines()))
        return ["check", f"{path}:mine", "--phase", "prefill", "--mask", "full", "--layout", "zigzag"]

    return write


@pytest.fixture
def here(capsys, monkeypatch, file):
    """Check an algorithm on ranks in this process: status, stdout, stderr."""
    for name in (*launch.RANKS, *launch.SIZES, *launch.LOCAL_SIZES):
        monkeypatch.delenv(name, raising=False)

    def run(body, *more, ranks=3):
        words = [*file(body), "--local", str(ranks), *more]
        status = launch.guarded(lambda: commands.cli.main(words, standalone_mode=False))
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    "body, told",
    [
        ("sys.exit(0)", "fails: SystemExit: 0"),
        ("return nothing", "fails: NameError: name 'nothing' is not defined"),
        ("return mine(problem, me.mesh)", "fails: RecursionError"),
        ("if me.coords[0]: pass", "S12: "),
        ("ring(me, problem)", "S10: mine returns the state (out, lse), or results by name: got None"),
        ("return ring(me, problem, shift=me.coords[0])", "S4: "),
        ("KEPT.append(ring(me, problem))\nreturn KEPT[0]", "S2: mine: result out is "),
        (
            "from dataclasses import replace\npart = ring(me, problem)\n"
            "return part._replace(out=replace(part.out, id=99))",
            "S2: mine: result out is %99, which nothing writes",
        ),
    ],
)
def test_code_that_gives_no_schedule_is_refused_in_one_line(here, body, told):
    status, out, err = here(body)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err


# All hops first, all reads after: with 4 ranks a third block comes while two are still to be read.
EARLY = """
(i,), (p,) = me.coords, me.sizes
q, *block = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
blocks = [block]
for _ in range(1, p):
    blocks.append(permute(*blocks[-1], over="ring", shift=1))
part = attend(q, *blocks[0])
for block in blocks[1:]:
    part = merge(part, attend(q, *block))
return part
"""


def test_what_breaks_a_law_of_buffers_is_refused_though_its_numbers_would_be_right(here):
    status, _, err = here(EARLY, ranks=4)

    assert status == 2
    assert "S9: mine: " in err


@pytest.mark.parametrize(
    "body, told",
    [
        ('return {"out": ring(me, problem).out}', "S10: mine: prefill has results out, lse: no lse"),
        ('return {"lse": ring(me, problem).lse}', "S10: mine: prefill has results out, lse: no out"),
        ('part = ring(me, problem)\nreturn {"out": part.lse, "lse": part.out}', "S10: "),
        ('return {**ring(me, problem)._asdict(), "dq": ring(me, problem).out}', "nothing is known of such"),
        ("return ring(me, problem, shift=0)", "S8: mine: result out of rank 0 has not met every key exactly once"),
    ],
)
def test_results_that_are_not_the_result_fail(here, body, told):
    status, out, err = here(body)

    assert (status, err) == (1, "")
    assert "FAIL: 1 of 1 lines" in out
    assert told in out


def test_what_it_prints_does_not_get_among_the_answers(here):
    status, out, err = here("print('so far so good')\nreturn ring(me, problem)", "--json")

    assert status == 0
    assert json.loads(out)["results"][0]["exact"] is True
    assert "so far so good" in err


class TestUnderMPI:
    pytestmark = needs_mpi

    @pytest.mark.parametrize(
        "body, told",
        [
            ("return ring(me, problem, shift=1 + RANK % 2)", "rank 1 traced other schedules than rank 0"),
            ("return attend(*load(me, problem, problem.queries(3)[RANK], problem.keys(3)[RANK]))", "rank 1 traced"),
            ("sys.exit(0)", "fails: SystemExit: 0"),
        ],
    )
    def test_ranks_that_would_wait_for_each_other_for_ever_are_refused(self, file, body, told):
        assert_refused(command(*file(body), ranks=3, timeout=60), told)

    def test_a_rank_that_leaves_alone_ends_the_others(self, file):
        body = "if RANK == 1: sys.exit(0)\nreturn ring(me, problem)"
        source = "from executor import commands, launch\nlaunch.PATIENCE = 0.5\ncommands.main()"

        done = program(source, *file(body), ranks=3, timeout=60)

        assert done.returncode != 0
        assert re.search(r"fails: SystemExit: 0 \(line \d+\) \(on rank 1 only\)", done.stderr)
        assert done.stderr.count("ringloom-run") == 1
