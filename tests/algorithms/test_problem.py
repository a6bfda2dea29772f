"""The problem: defaults that the field expects, and sizes that no layer can have refused in one line."""

import pytest

from algorithms.ir import Attention, Inapplicable, Mesh, ScheduleError, require
from algorithms.ir.problem import ITEMSIZE

LAYER = {"heads": 32, "kv_heads": 8, "head_dim": 128, "query_len": 1024, "key_len": 1024}


def test_what_is_left_out_follows_from_what_is_said():
    problem = Attention(**LAYER, dtype="float16")

    assert problem.head_dim_v == 128
    assert problem.kv_dtype == "float16"
    assert problem.scale == 128**-0.5
    assert (problem.state_dtype, problem.grad_dtype) == ("float32", "float32")


def test_cached_tokens_are_the_keys_before_the_first_query():
    assert Attention(**LAYER | {"query_len": 24}).cached == 1000


def test_latent_attention_takes_v_from_k():
    problem = Attention(128, 1, 576, 4096, 4096, head_dim_v=512, shared_kv=True)

    assert (problem.head_dim, problem.head_dim_v) == (576, 512)


def test_describe_echoes_every_field():
    described = Attention(**LAYER).describe()

    assert described["heads"] == 32
    assert described["kv_dtype"] == "bfloat16"
    assert Attention(**described) == Attention(**LAYER)


def test_every_dtype_has_a_size():
    assert ITEMSIZE["bfloat16"] == 2
    for dtype in ITEMSIZE:
        assert Attention(**LAYER, dtype=dtype).kv_dtype == dtype


@pytest.mark.parametrize(
    "change, message",
    [
        ({"heads": 0}, "heads must be an integer from 1 to 2^48, got 0"),
        ({"kv_heads": -8}, "kv_heads must be an integer from 1 to 2^48, got -8"),
        ({"query_len": 1.5}, "query_len must be an integer from 1 to 2^48, got 1.5"),
        ({"key_len": 10**20}, "key_len must be an integer from 1 to 2^48, got 1"),
        ({"head_dim": True}, "head_dim must be an integer from 1 to 2^48, got True"),
        ({"head_dim": 0}, "head_dim must be an integer from 1 to 2^48, got 0"),
        ({"batch": 0}, "batch must be an integer from 1 to 2^48, got 0"),
        ({"kv_heads": 5}, "kv_heads=5 must divide heads=32"),
        ({"query_len": 2048}, "queries are the last of the keys: 2048 queries, 1024 keys"),
        ({"query_len": 1, "key_len": 2**44}, "too large to count: pairs must stay below 2^62 and bytes below 2^56"),
        ({"shared_kv": True, "head_dim_v": 256}, "shared_kv takes V from K: head_dim_v=256 > head_dim=128"),
        ({"dtype": "bf16"}, "no dtype 'bf16': expected one of float64"),
        ({"state_dtype": "int8"}, "no state_dtype 'int8'"),
        ({"mask": "banded"}, "no mask 'banded': expected one of full, causal"),
        ({"layout": "zig"}, "no layout 'zig': expected one of contiguous, zigzag, striped"),
        ({"phase": "infer"}, "no phase 'infer': expected one of prefill, train, decode"),
        ({"scale": -0.5}, "scale must be a positive number, got -0.5"),
        ({"scale": float("nan")}, "scale must be a positive number, got nan"),
        ({"scale": float("inf")}, "scale must be a positive number, got inf"),
    ],
)
def test_what_no_layer_can_have_is_refused(change, message):
    with pytest.raises(ScheduleError) as refusal:
        Attention(**LAYER | change)

    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


def test_an_algorithm_refuses_what_it_cannot_serve():
    require(True, "never said")
    with pytest.raises(Inapplicable, match="the reason"):
        require(False, "the reason")


@pytest.mark.parametrize(
    "mesh, reason",
    [
        (Mesh(tp=64, ring=2), "tp=64 does not divide heads=32 and kv_heads=8"),
        (Mesh(tp=3, ring=2), "tp=3 does not divide heads=32 and kv_heads=8"),
        (Mesh(dp=2, ring=2), "dp=2 does not divide batch=3"),
    ],
)
def test_a_job_that_does_not_divide_is_inapplicable(mesh, reason):
    import algorithms

    with pytest.raises(Inapplicable, match=reason):
        algorithms.find("ring")["prefill"](Attention(**LAYER, batch=3), mesh)
