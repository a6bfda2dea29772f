"""Inputs from a file: proven on as they are, or refused in one line, and never run as code."""

import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from executor import commands, launch
from executor.cases import Asked
from executor.errors import BadInput
from executor.inputs import read_inputs
from tests.executor.ranks import assert_refused, command, needs_mpi


def normal(*shape, dtype="float64"):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.fixture
def arrays():
    return {"q": normal(9, 4, 8), "k": normal(13, 2, 8), "v": normal(13, 2, 5)}


@pytest.fixture
def check(capsys, tmp_path, monkeypatch):
    """Check arrays, or the file that a function writes, on ranks in this process: status, stdout, stderr."""
    for name in (*launch.RANKS, *launch.SIZES, *launch.LOCAL_SIZES):
        monkeypatch.delenv(name, raising=False)

    def run(arrays, *words, name="all_gather_kv", ranks=2):
        file = tmp_path / "in.npz"
        arrays(file) if callable(arrays) else np.savez(file, **arrays)
        words = ["check", name, "--inputs", str(file), "--local", str(ranks), *words]
        status = launch.guarded(lambda: commands.cli.main(words, standalone_mode=False))
        return status, *capsys.readouterr()

    return run


def assert_one_line(done, *parts):
    status, out, err = done
    assert (status, out, err.count("\n")) == (2, "", 1), done
    assert all(part in err for part in parts), err


def worst(done):
    status, out, err = done
    assert (status, err) == (0, "")
    return json.loads(out)["results"][0]["worst"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("memory", ["C", "F"])
def test_inputs_are_proven_on_in_any_order_of_bytes_and_of_axes(arrays, check, order, memory):
    stored = {name: np.asarray(x.astype(x.dtype.newbyteorder(order)), order=memory) for name, x in arrays.items()}

    assert "9 of 13 tokens, 4/2 heads x 8/5, float64" in worst(check(stored, "--json"))


def test_what_else_is_in_the_file_is_left_alone(arrays, check):
    arrays["notes"] = np.array([object], dtype=object)

    assert "9 of 13 tokens" in worst(check(arrays, "--json"))


def test_the_batch_is_one_sequence_for_each_rank_of_dp(check):
    folded = {"q": normal(9, 8, 8), "k": normal(13, 4, 8), "v": normal(13, 4, 5)}

    assert "4/2 heads" in worst(check(folded, "--dp", "2", "--json", ranks=4))
    assert "2/1 heads" in worst(check(folded, "--dp", "2", "--batch", "4", "--json", ranks=4))


@pytest.mark.parametrize("scale", [1e-310, 0.0])
def test_numbers_below_the_smallest_normal_one_are_rounded_as_it_is(arrays, check, scale):
    assert worst(check({name: x * scale for name, x in arrays.items()}, "--json", name="ring")) is not None


def test_gradients_are_asked_for_where_the_file_has_one(arrays, check):
    arrays |= {"q": normal(13, 4, 8), "do": normal(13, 4, 5)}

    status, out, _ = check(arrays, "--json", name="ring")

    assert (status, {row["phase"] for row in json.loads(out)["results"]}) == (0, {"prefill", "train"})


@pytest.mark.parametrize(
    "spoil, parts",
    [
        (lambda a: a["k"].__setitem__((2, 1, 3), np.nan), ["inputs must be finite: k[2, 1, 3] is nan"]),
        (lambda a: a["q"].__setitem__((0, 0, 0), np.inf), ["inputs must be finite: q[0, 0, 0] is inf"]),
        (lambda a: a.update(q=a["q"] * 1e200, k=a["k"] * 1e200), ["float64 has no products of numbers over"]),
        (lambda a: a.update(q=a["q"] * 1e9, k=a["k"] * 1e9), ["scores may reach", "too few weights apart"]),
        (lambda a: a.pop("k"), ["no array k"]),
        (lambda a: a.update(q=a["q"][0]), ["q must be (tokens, batch * heads, width), got shape (4, 8)"]),
        (lambda a: a.update(q=a["q"][:0]), ["q must be (tokens, batch * heads, width), got shape (0, 4, 8)"]),
        (lambda a: a.update(k=a["k"][:5]), ["9 queries, 5 keys"]),
        (lambda a: a.update(k=a["k"][..., :7]), ["input k must be float64 (13, 2, 8), got float64 (13, 2, 7)"]),
        (lambda a: a.update(k=a["k"].astype("float32")), ["input k must be float64 (13, 2, 8), got float32"]),
        (lambda a: a.update(q=a["q"].astype("int64")), ["no dtype 'int64'"]),
        (lambda a: a.update(q=a["q"].astype("complex128")), ["no dtype 'complex128'"]),
        (lambda a: a.update(q=np.array([[[print]]])), ["cannot be read as .npz: Object arrays cannot be loaded"]),
        (lambda a: a.update(v=a["v"][:, :1]), ["input v must be float64 (13, 2, 5), got float64 (13, 1, 5)"]),
    ],
)
def test_arrays_that_cannot_be_run_are_refused(arrays, check, spoil, parts):
    spoil(arrays)

    assert_one_line(check(arrays), *parts)


def header(shape):
    """A file whose arrays are all header."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()

    def write(file):
        with zipfile.ZipFile(file, "w") as opened:
            for name in "qkv":
                opened.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)

    return write


def spoilt(change):
    """A file that was good, with some bytes changed."""

    def write(file):
        np.savez_compressed(file, q=normal(9, 4, 8), k=normal(13, 2, 8), v=normal(13, 2, 5))
        data = bytearray(file.read_bytes())
        change(data, data.find(b"PK\x01\x02"))
        file.write_bytes(data)

    return write


def bomb(file):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name in "qkv":
            opened.writestr(f"{name}.npy", b"")
    data = bytearray(file.read_bytes())
    data[(at := data.find(b"PK\x01\x02")) + 24 : at + 28] = b"\xfe\xff\xff\xff"
    file.write_bytes(data)


def one_array(file):
    with file.open("wb") as opened:
        np.save(opened, normal(3, 3))


BROKEN = {
    "empty": lambda file: file.write_bytes(b""),
    "text": lambda file: file.write_bytes(b"no zip"),
    "cut short": lambda file: file.write_bytes(b"PK\x03\x04 cut short"),
    "pickle": lambda file: file.write_bytes(pickle.dumps(os.getcwd)),
    "npy": one_array,
    "folder": lambda file: file.mkdir(),
    "pipe": lambda file: os.mkfifo(file),
    "terabytes": header("(1000000000000, 4, 8)"),
    "overflow": header("(1" + "0" * 30 + ", 4, 8)"),
    "negative": header("(-1, 4, 8)"),
    "half a header": header("(9, 4"),
    "compressed noise": spoilt(lambda data, entry: data.__setitem__(slice(80, 140), bytes(60))),
    "encrypted": spoilt(lambda data, entry: (data.__setitem__(6, 1), data.__setitem__(entry + 8, 1))),
    "no such method": spoilt(lambda data, entry: (data.__setitem__(8, 99), data.__setitem__(entry + 10, 99))),
}


@pytest.mark.parametrize("write", BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_no_npz_is_refused(check, write):
    assert_one_line(check(write), "in.npz cannot be read as .npz: ")


def test_a_file_that_unpacks_to_more_than_the_memory_is_refused_unread(check, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 2**16)

    assert_one_line(check(bomb), "are too large to run here")


def test_sizes_and_types_that_the_file_says_are_not_said_again(arrays, tmp_path):
    np.savez(tmp_path / "in.npz", **arrays)

    for asked, told in (Asked(seq=9), "leave out --seq"), (Asked(dtype="float32"), "are float64: leave out --dtype"):
        with pytest.raises(BadInput, match=told):
            read_inputs(str(tmp_path / "in.npz"), asked)


class TestUnderMPI:
    pytestmark = needs_mpi

    def test_a_file_is_refused_by_rank_0_alone(self, arrays, tmp_path):
        arrays["q"][1, 2, 3] = np.nan
        np.savez(tmp_path / "in.npz", **arrays)

        done = command("check", "ring", "--inputs", tmp_path / "in.npz", ranks=2, timeout=60)

        assert_refused(done, "inputs must be finite: q[1, 2, 3] is nan")


def test_sinks_in_the_file_are_the_problems(arrays, check):
    arrays |= {"sinks": np.array([0.5, 80.0, -3.0, 0.0])}

    assert "sinks" in worst(check(arrays, "--mask", "causal", "--json"))
    assert "sinks" in worst(check(arrays | {"do": normal(9, 4, 5)}, "--mask", "window:4", "--json", name="ring"))
    assert_one_line(check(arrays | {"sinks": normal(3)}, "--mask", "full"), "input sinks must be float64 (4,)")


def test_sinks_that_are_asked_for_must_be_in_the_file(arrays, check):
    assert_one_line(check(arrays, "--mask", "full", "--sinks"), "input sinks is missing: expected float64 (4,)")


def test_arrays_of_packed_documents_and_of_a_ragged_batch(arrays, check):
    assert "documents:6+7" in worst(check(arrays, "--lengths", "6,7", "--json"))
    ragged = arrays | {"q": normal(4, 4, 8)}  # the last two of each
    assert "documents:6+7 4 of 13" in worst(
        check(ragged, "--lengths", "6,7", "--phase", "decode", "--json", name="tree")
    )


def test_a_cap_brings_scores_together_that_would_prove_nothing(check):
    arrays = {"q": normal(200, 1, 8, dtype="float32"), "k": normal(200, 1, 8, dtype="float32")}
    large = {name: 200 * x for name, x in arrays.items()} | {"v": normal(200, 1, 5, dtype="float32")}

    assert_one_line(check(large, "--mask", "causal", "--phase", "prefill"), "tells too few weights apart")
    status, _, _ = check(large, "--mask", "causal", "--softcap", "50", "--phase", "prefill")
    assert status == 0
