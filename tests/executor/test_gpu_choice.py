"""What is said where there is no GPU, and what goes with what where there is one."""

import sys
import types
from typing import ClassVar

import pytest

from executor.errors import BadInput
from executor.gpu import choice, transports, visible
from executor.gpu.transports import cuda_aware, nccl
from tests.executor.ranks import assert_refused, command, needs_mpi


class Runtime:
    """CuPy's runtime on a machine with so many GPUs; a text is the error of a machine without a driver."""

    def __init__(self, gpus):
        self.gpus = gpus

    def getDeviceCount(self):  # noqa: N802
        if isinstance(self.gpus, str):
            raise RuntimeError(self.gpus)
        return self.gpus


class Device:
    used: ClassVar = []

    def __init__(self, number=0):
        self.id = number

    def use(self):
        self.used.append(self.id)


@pytest.fixture
def machine(monkeypatch):
    """A CuPy that sees so many GPUs."""

    def of(gpus):
        cuda = types.SimpleNamespace(runtime=Runtime(gpus), Device=Device)
        monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(__version__="14.2.0", cuda=cuda))
        monkeypatch.setattr(Device, "used", [])

    return of


def test_without_cupy_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BadInput, match=r"needs CuPy \(.*\): pip install 'ringloom\[cuda12\]' or 'ringloom\[cuda13\]'"):
        visible.require()


@pytest.mark.parametrize(
    "gpus, why", [("cudaErrorNoDevice: no device", "cudaErrorNoDevice"), (0, "driver reports none")]
)
def test_without_a_gpu_one_line_says_that_none_is_visible(machine, monkeypatch, gpus, why):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine(gpus)
    with pytest.raises(BadInput, match=rf"no GPU is visible to CuPy 14.2.0 \(.*{why}"):
        visible.require()


def test_gpus_that_are_hidden_are_named_so(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    machine(0)
    with pytest.raises(BadInput, match="CUDA_VISIBLE_DEVICES='' hides all"):
        visible.require()


@pytest.mark.parametrize("gpus, local_rank, used", [(4, 2, 2), (1, 3, 0), (2, 3, 1)])
def test_ranks_take_gpus_in_turn_and_share_them_where_there_are_more_ranks(machine, gpus, local_rank, used):
    machine(gpus)
    visible.choose(local_rank)
    assert Device.used == [used]


@pytest.mark.parametrize("value", ["1", "yes"])
def test_nothing_is_proven_with_tf32(value):
    with pytest.raises(BadInput, match=f"CUPY_TF32={value} makes products of float32 carry 10 bits"):
        visible.refuse_tf32({"CUPY_TF32": value})


@pytest.mark.parametrize("environ", [{}, {"CUPY_TF32": "0"}, {"CUPY_TF32": ""}])
def test_tf32_that_is_off_is_fine(environ):
    visible.refuse_tf32(environ)


@pytest.mark.parametrize(
    "device, kernel, found", [("cpu", "", "numba"), ("gpu", "", "cuda"), ("gpu", "torch", "torch"), ("cpu", "x", "x")]
)
def test_a_device_has_its_own_kernel_unless_another_is_asked_for(device, kernel, found):
    assert choice.kernel_for(device, kernel) == found  # an unknown one is refused by those who know all


@pytest.mark.parametrize(
    "places, line",
    [
        ([("a", "0"), ("a", "1"), ("b", "0")], ""),
        ([("a", "0"), ("b", "0"), ("a", "0")], "NCCL takes one rank a GPU, ranks 0 and 2 share 0 of a: use staged"),
    ],
)
def test_two_ranks_on_one_gpu_are_refused_for_nccl(places, line):
    assert nccl.shared(places) == line


class Alone:
    """A communicator of one rank."""

    def allgather(self, x):
        return [x]


def test_auto_takes_the_first_transport_that_can(monkeypatch):
    monkeypatch.setattr(nccl, "unable", lambda comm: "no NCCL")
    monkeypatch.setattr(cuda_aware, "unable", lambda comm: "")
    assert transports.choose("auto", Alone()) == "cuda-aware"
    monkeypatch.setattr(cuda_aware, "unable", lambda comm: "not CUDA-aware")
    assert transports.choose("auto", Alone()) == "staged"
    with pytest.raises(BadInput, match="--transport nccl: no NCCL"):
        transports.choose("nccl", Alone())


def test_an_unknown_transport_is_named_with_those_there_are():
    with pytest.raises(
        BadInput, match="no transport 'ncll': expected one of auto, cuda-aware, nccl, staged; nearest is"
    ):
        transports.choose("ncll", Alone())


class TestUnderMPI:
    pytestmark = needs_mpi

    def test_no_cupy_or_no_gpu_is_one_line_and_status_2_on_all_ranks(self):
        assert_refused(
            command("check", "ring", "--device", "gpu", ranks=2, timeout=60, CUDA_VISIBLE_DEVICES=""), "--device gpu"
        )
