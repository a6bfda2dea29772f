"""What a compute op means on one rank's arrays is what its module says it means."""

import numpy as np
import pytest

from algorithms.ir import Attention, Mesh
from algorithms.ring import ring_attention_train
from executor.interpret import Dense, bind, kernel_called
from executor.kernels import find

ROWS, COLS = np.array([3, 4, 9]), np.array([0, 4, 7, 8])


def schedule(**options):
    types = dict.fromkeys(("dtype", "state_dtype", "grad_dtype"), "float64") | options
    problem = Attention(
        **{"heads": 4, "kv_heads": 2, "head_dim": 6, "head_dim_v": 5, "mask": "causal"} | types,
        query_len=6,
        key_len=8,
        phase="train",
    )
    return ring_attention_train(problem, Mesh(ring=2))


def op_of(kind, **options):
    return next(op for op in schedule(**options).ops if op.kind == kind)


def arrays_of(op, rng):
    rows = {"q": 3, "k": 4}
    sizes = [rows["q"], rows["k"], rows["k"], rows["q"], rows["q"], rows["q"]]
    return [
        rng.standard_normal((n, *v.type.width)).astype(v.type.dtype) for n, v in zip(sizes, op.inputs, strict=False)
    ]


def where(op):
    return lambda tokens: ROWS if tokens is op.inputs[0].tokens else COLS


@pytest.mark.parametrize("kernel", ["numpy", "numba"])
@pytest.mark.parametrize("kind", ["attend", "attend_backward"])
@pytest.mark.parametrize("shared", [False, True])
def test_attention_by_a_kernel_is_attention_by_definition(kernel, kind, shared):
    op = op_of(kind, shared_kv=shared)
    arrays = arrays_of(op, np.random.default_rng(0))

    got = bind(op, where(op), find(kernel))(*arrays)
    meant = bind(op, where(op), Dense())(*arrays)

    assert len(got) == len(op.outputs)
    for a, b in zip(got, meant, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind, state", [("attend", "state_dtype"), ("attend_backward", "grad_dtype")])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_results_have_the_dtype_in_which_they_are_kept(kind, state, dtype):
    op = op_of(kind, **{state: dtype})

    got = bind(op, where(op), find("numpy"))(*arrays_of(op, np.random.default_rng(0)))

    assert [x.dtype.name for x in got] == [v.type.dtype for v in op.outputs] == [dtype] * len(got)


def test_an_unknown_kernel_is_named_with_those_there_are():
    with pytest.raises(
        ValueError, match="no kernel 'nunba': expected one of cuda, dense, numba, numpy, torch; nearest is numba"
    ):
        kernel_called("nunba")
