"""Memory of decoding: what the papers say that a rank holds, and what a served model's cache takes."""

import pytest

import algorithms
from algorithms.ir import Attention, Mesh
from algorithms.ir.order import peak_bytes
from algorithms.models import find as model
from algorithms.ways.transfers import sent_bytes

T, MB = 64_000, 1e6  # tokens of each rank's cache in the Tree paper's measurement


def peak(name, problem, **axes):
    """The most that any rank holds."""
    return int(peak_bytes(algorithms.find(name)["decode"](problem, Mesh(**axes))).max())


def decoding(heads, tokens, **changes):
    return Attention(heads, **{"kv_heads": heads, "head_dim": 128, "query_len": 1, "key_len": tokens} | changes)


@pytest.mark.parametrize("hidden, measured", [(2048, 524 * MB), (4096, 1040 * MB)])
def test_a_ring_holds_a_block_more_than_a_tree_as_measured_on_two_gpus(hidden, measured):
    # papers.md 3.2, elements of 2 bytes: ring 4 b t d + 2 b d, tree 2 b t d + 2 b d + 2 b nh. Both grow by states
    # that are kept in float32, some times d.
    heads, cache, p = hidden // 128, 2 * T * hidden * 2, 2
    problem = decoding(heads, T * p)

    ring, tree = peak("ring_pass_kv", problem, cp=p), peak("tree", problem, cp=p)

    assert ring - tree == pytest.approx(cache, rel=1e-4)
    assert ring - tree == pytest.approx(measured, rel=0.01)
    assert ring / tree == pytest.approx(
        (2 * cache + 2 * hidden * 2) / (cache + 2 * hidden * 2 + 2 * heads * 2), rel=1e-4
    )


@pytest.mark.parametrize("p, blocks", [(1, 1), (2, 2), (3, 3), (8, 3)])
def test_a_longer_ring_sends_one_block_on_while_it_receives_the_next(p, blocks):
    # The paper's 4 b t d is of two ranks. Of more, what comes cannot land where it is sent from, and the cache stays.
    problem = decoding(16, T * p)

    assert peak("ring_pass_kv", problem, cp=p) == pytest.approx(blocks * 2 * T * 2048 * 2, rel=1e-3)


@pytest.mark.parametrize("name", ["tree", "tree_packed", "tree_doubling", "helix", "gather_q"])
def test_all_others_hold_their_cache_and_what_one_step_needs(name):
    cache = 2 * T * 2048 * 2

    assert cache < peak(name, decoding(16, T * 8), cp=8) < cache * 1.001
    assert cache < peak("tree_two_level", decoding(16, T * 8), node=2, local=4) < cache * 1.001


def test_a_latent_cache_takes_the_latent_and_the_rope_columns_of_each_token():
    latent = model("deepseek-v3").form("decode")
    problem = Attention(
        latent.heads, latent.kv_heads, latent.head_dim, 1, 1 << 20, head_dim_v=latent.head_dim_v, shared_kv=True
    )
    a_token = (512 + 64) * 2  # kv_lora_rank + qk_rope_head_dim, in bfloat16: not heads times width

    assert peak("tree", problem, cp=8) == pytest.approx((1 << 17) * a_token, rel=0.01)
    # heads share the one latent head: splitting them copies the cache, splitting tokens does not
    assert peak("tree", problem, cp=4, tp=2) == pytest.approx((1 << 18) * a_token, rel=0.01)
    ring = algorithms.find("ring_pass_kv")["decode"](problem, Mesh(cp=8))
    assert sum(sent_bytes(op, ring.mesh) for op in ring.ops).tolist() == [7 * (1 << 17) * a_token] * 8


@pytest.mark.parametrize("tp, kv_heads", [(1, 8), (4, 2), (8, 1), (32, 1)])
def test_kv_heads_are_copied_where_tp_exceeds_them(tp, kv_heads):
    problem = decoding(32, T, kv_heads=8)

    assert peak("helix", problem, cp=1, tp=tp) == pytest.approx(2 * T * kv_heads * 128 * 2, rel=1e-3)


@pytest.mark.parametrize("kv_dtype, itemsize", [("bfloat16", 2), ("float8_e4m3", 1), ("float8_e5m2", 1)])
def test_a_cache_in_8_bits_takes_half_and_travels_as_half(kv_dtype, itemsize):
    problem = decoding(16, T * 4, kv_dtype=kv_dtype)
    block = 2 * T * 2048 * itemsize

    assert peak("helix", problem, cp=4) == pytest.approx(block, rel=1e-3)
    ring = algorithms.find("ring_pass_kv")["decode"](problem, Mesh(cp=4))
    assert sum(sent_bytes(op, ring.mesh) for op in ring.ops).tolist() == [3 * block] * 4
