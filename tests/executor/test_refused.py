"""What cannot run is refused in one line by one rank, with every rank ended."""

import pytest

from executor import commands, launch
from tests.executor.ranks import assert_refused, command, needs_mpi


@pytest.fixture
def refused(capsys, monkeypatch):
    """Refuse a command in this process: its one line."""
    for name in (*launch.RANKS, *launch.SIZES, *launch.LOCAL_SIZES):
        monkeypatch.delenv(name, raising=False)

    def run(*words):
        status = launch.guarded(lambda: commands.cli.main(["check", *words], standalone_mode=False))
        out, err = capsys.readouterr()
        assert (status, out) == (2, "")
        assert err.startswith("ringloom-run: error: ")
        assert err.count("\n") == 1
        return err

    return run


@pytest.mark.parametrize(
    "words, parts",
    [
        (["nowhere.py:mine"], ["no file 'nowhere.py' to load algorithm 'mine' from"]),
        (["ring", "--mesh", "ring=1"], ["mesh ring=1 uses 1 ranks: 2 in one process"]),
        (["ring", "--mesh", "ring"], ["a mesh is written axis=size", "got 'ring'"]),
        (["ring", "--mesh", "ring=x"], ["a mesh is written axis=size", "got 'ring=x'"]),
        (["ring", "--mesh", "row=1,col=2"], ["nothing to check", "needs mesh axes ring, got row=1,col=2"]),
        (["ring", "--tp", "3"], ["tp=3", "2 in one process"]),
        (["ring", "--state-dtype", "bf16"], ["state_dtype bfloat16 cannot be run"]),
        (["ring", "--state-dtype", "fp8"], ["state_dtype float8_e4m3 cannot be run"]),
        (["helix", "--kv-dtype", "fp8"], ["kv_dtype float8_e4m3 cannot be run", "expected float64, float32, float16"]),
        (["ring", "--dtype", "flaot64"], ["no dtype 'flaot64'", "nearest is float64"]),
        (
            ["ring", "--kernel", "nunba"],
            ["no kernel 'nunba': expected one of cuda, dense, numba, numpy, torch; nearest"],
        ),
        (
            ["ring", "--kernel", "cuda"],
            ["--kernel cuda is for --device gpu; --device cpu takes numba, numpy, dense, t"],
        ),
        (["ring", "--kernel", "numba", "--device", "gpu"], ["--kernel numba is for --device cpu", "takes cuda, torch"]),
        (["ring", "--device", "tpu"], ["no device 'tpu': expected one of cpu, gpu"]),
        (["ring", "--transport", "nccl"], ["--transport nccl is between GPUs: it needs --device gpu"]),
        (["ring", "--layout", "zagzig"], ["no layout 'zagzig'"]),
        (["ring", "--mask", "casual"], ["no mask 'casual'"]),
        (["ring", "--mask", "window:0"], ["a window has 1 to 2^48 tokens: got '0' in mask window:0"]),
        (["ring", "--mask", "documents:5+0"], ["a document has 1 to 2^48 tokens: got '0'"]),
        (["ring", "--mask", "documents:5+4", "--seq", "10"], ["documents must add up to the keys: 2 have 9, not 10"]),
        (["ring", "--lengths", "nowhere.txt"], ["no file 'nowhere.txt' to read the lengths of documents from"]),
        (["ring", "--layout", "documents", "--mask", "causal"], ["layout documents deals packed documents: say --len"]),
        (["tree", "--phase", "decode", "--lengths", "9,2", "--new", "3"], ["the last tokens of each document: 6 of 2"]),
        (["ring", "--softcap", "-1"], ["softcap must be 0.001 to 1e+09, or 0 for none, got -1.0"]),
        (["ring", "--softcap", "high"], ["Invalid value for '--softcap'"]),
        (["ring", "--phase", "training"], ["no phase 'training'", "nearest is train"]),
        (["ring", "--phase", "decode"], ["nothing to check: ring: is written for prefill, train, not decode"]),
        (["tree", "--ways", "all_reduce=tree"], ["no way 'tree' for all_reduce"]),
        (["tree", "--ways", "all_reduce=ring", "--native"], ["--native and --ways"]),
        (["ulysses", "--heads", "3"], ["nothing to check", "ulysses degree 2 does not divide the 3 query heads"]),
        (["ring", "--heads", "-1"], ["--heads", "-1"]),
        (["ring", "--heads", "4", "--kv-heads", "3"], ["kv_heads=3 must divide heads=4"]),
        (["ring", "--shared-kv", "--head-dim-v", "9"], ["head_dim_v=9 > head_dim=8"]),
        (["ring", "--seq", "1.0001K"], ["--seq", "whole number"]),
        (["ring", "--seq", "64G"], ["too"]),
        (["ring", "--inputs", "nowhere.npz"], ["inputs nowhere.npz cannot be read as .npz: no such file"]),
        (["ring", "--inputs", ""], ["cannot be read as .npz: no such file"]),
        (["ring", "--timeline", "t.json"], ["--timeline needs ranks that run at once"]),
        (["ring", "--launch", "2"], ["--local 2 and --launch 2: give one or the other"]),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else None,
)
def test_bad_input_is_one_line(words, parts, refused):
    line = refused(*words, "--local", "2")

    assert all(part in line for part in parts), line


ONE = ["ring", "--phase", "prefill", "--mask", "full", "--layout", "zigzag", "--heads", "2", "--seq", "4"]


@pytest.mark.parametrize(
    "words, parts",
    [
        (["rnig"], ["no algorithm 'rnig'", "nearest is ring"]),
        (["ring", "--mesh", "ring=4"], ["mesh ring=4 needs 4 ranks: MPI has 2"]),
        (["ring", "--dtype", "fp8"], ["dtype float8_e4m3 cannot be run", "float64, float32, float16"]),
        (["ring", "--sequence", "4"], ["No such option '--sequence'"]),
        (["--seq", "4"], ["Missing argument"]),
        (["ring", "--timeline", "nowhere/t.json"], ["--timeline is of one case"]),
        ([*ONE, "--timeline", "nowhere/t.json"], ["--timeline nowhere/t.json cannot be written"]),
        ([*ONE, "--timeline", "README.md/t.json"], ["--timeline README.md/t.json cannot be written"]),
        (["ring", "--inputs", "README.md"], ["inputs README.md cannot be read as .npz"]),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else None,
)
class TestUnderMPI:
    pytestmark = needs_mpi

    def test_bad_input_is_one_line_of_rank_0_and_ends_every_rank(self, words, parts):
        assert_refused(command("check", *words, ranks=2, timeout=60), *parts)
