"""Every CUDA source compiles to machine code for three generations of GPUs, all its kernels in it, without a GPU."""

import pytest

from executor.gpu import compile as compiling
from executor.gpu.compile import CompileError, Nvrtc, library
from executor.gpu.sources import ARCHITECTURES, FILES, KERNELS, every, home

LIBRARY = library()
MISSING = f"NVRTC is missing: pip install {compiling.WHEELS}"
MACHINE_CODE = b"\x7fELF"


@pytest.fixture(scope="module")
def nvrtc():
    if LIBRARY is None:
        pytest.skip(MISSING)
    return Nvrtc(LIBRARY)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", FILES)
def test_every_source_compiles_for_every_architecture(nvrtc, name, architecture):
    code = nvrtc.cubin(name, architecture)

    assert code.startswith(MACHINE_CODE)
    assert all(kernel.partition("<")[0].encode() in code for kernel in KERNELS[name])


def test_what_does_not_compile_is_said_with_the_compilers_words(nvrtc, monkeypatch):
    monkeypatch.setattr(compiling, "text", lambda name: "__global__ void broken( {")

    with pytest.raises(CompileError, match=r"states.cu for sm_90: (?s:.*)error"):
        nvrtc.cubin("states", "sm_90")


def test_a_source_never_asks_for_fast_and_wrong_arithmetic():
    assert not any("fast" in option for option in compiling.OPTIONS)


def test_every_kernel_has_a_home_and_others_have_none():
    assert [home(kernel) for kernel in every()] == [name for name, kernels in KERNELS.items() for _ in kernels]
    with pytest.raises(ValueError, match="no kernel softmax: expected one of softmax_tile"):
        home("softmax")
