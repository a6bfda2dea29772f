"""Configs: the attention of config.json files as the hub has them."""

import json

import pytest

from algorithms import models
from algorithms.configs import read
from algorithms.kinds import Kind

LLAMA = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8}


def config(tmp_path, **fields):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(fields))
    return path


def test_head_dim_is_hidden_size_over_heads_where_the_file_has_none(tmp_path):
    model = read(config(tmp_path, **LLAMA))

    assert (model.layers, model.heads, model.kv_heads) == (32, 32, 8)
    assert (model.head_dim, model.head_dim_v, model.shared_kv) == (128, 128, False)


@pytest.mark.parametrize("absent", [None, 5120 // 40 * 2])
def test_head_dim_that_is_said_is_taken_and_null_is_not_said(tmp_path, absent):
    # Mistral Nemo and Qwen3 have heads that are not hidden_size / heads wide
    model = read(config(tmp_path, **LLAMA, head_dim=absent))

    assert model.head_dim == (absent or 128)


def test_absent_key_value_heads_are_as_many_as_query_heads(tmp_path):
    fields = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}

    assert read(config(tmp_path, **fields)).kv_heads == 32


def test_the_text_part_of_a_model_of_several_modalities_is_read(tmp_path):
    vision = {"hidden_size": 1152, "num_attention_heads": 16, "num_hidden_layers": 27}

    model = read(config(tmp_path, text_config=LLAMA, vision_config=vision, num_attention_heads=7))

    assert model.heads == 32


def test_names_of_gpt2_are_known(tmp_path):
    model = read(config(tmp_path, n_embd=768, n_head=12, n_layer=12))

    assert (model.layers, model.heads, model.kv_heads, model.head_dim) == (12, 12, 12, 64)


@pytest.mark.parametrize(
    "fields, kv_heads",
    [
        ({"multi_query": True, "num_kv_heads": 32}, 1),  # Falcon 7B, StarCoder
        ({"multi_query": True, "num_kv_heads": 8, "new_decoder_architecture": True}, 8),  # Falcon 40B
        ({"multi_query_attention": True, "multi_query_group_num": 2}, 2),  # ChatGLM
        ({"attn_config": {"kv_n_heads": 8}}, 8),  # DBRX, MPT
        ({"attn_config": {"kv_n_heads": None}}, 32),
    ],
)
def test_multi_query_models_say_it_in_their_own_words(tmp_path, fields, kv_heads):
    fields = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, **fields}

    assert read(config(tmp_path, **fields)).kv_heads == kv_heads


def test_latent_attention_is_one_shared_head_of_rank_and_rope_or_all_its_heads(tmp_path):
    fields = {"num_attention_heads": 128, "num_hidden_layers": 61, "num_key_value_heads": 128, "hidden_size": 7168}

    latent = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128}
    known = models.MODELS["deepseek-v3"]
    for model in (read(config(tmp_path, **fields, **latent, qk_nope_head_dim=128)), known):
        one, all_heads = model.form("decode"), model.form("prefill")
        assert (one.kv_heads, one.head_dim, one.head_dim_v, one.shared_kv) == (1, 576, 512, True)
        assert (all_heads.kv_heads, all_heads.head_dim, all_heads.head_dim_v) == (128, 192, 128)
        assert not all_heads.shared_kv
        assert model.form("train") == all_heads


@pytest.mark.parametrize("missing", ["qk_nope_head_dim", "v_head_dim"])
def test_latent_attention_of_unknown_heads_can_be_decoded_only(tmp_path, missing):
    fields = {"num_attention_heads": 16, "num_hidden_layers": 2, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    fields |= {"qk_nope_head_dim": 128, "v_head_dim": 128, missing: None}

    model = read(config(tmp_path, **fields))

    assert model.form("decode").head_dim == 576
    with pytest.raises(ValueError, match=r"prefill of latent attention .* has no qk_nope_head_dim and v_head_dim"):
        model.form("prefill")


@pytest.mark.parametrize(
    "fields, window",
    [
        ({"sliding_window": 131072, "use_sliding_window": False}, 0),  # Qwen2
        ({"sliding_window": 4096}, 4096),  # Mistral 7B v0.1
        ({"sliding_window": None}, 0),  # Mistral 7B v0.3
        ({"sliding_window": 4096, "use_sliding_window": True}, 4096),
        ({}, 0),
    ],
)
def test_a_sliding_window_counts_unless_the_model_does_not_use_it(tmp_path, fields, window):
    assert read(config(tmp_path, **LLAMA, **fields)).kinds == (Kind(32, window),)


ALTERNATE = ["sliding_attention", "full_attention"] * 16


@pytest.mark.parametrize(
    "fields, kinds",
    [
        ({"layer_types": ALTERNATE, "sliding_window": 128}, (Kind(16, 128), Kind(16))),
        ({"layer_types": ALTERNATE, "sliding_window": 128, "use_sliding_window": False}, (Kind(32),)),
        ({"layer_types": ["attention"] * 32, "sliding_window": 128}, (Kind(32),)),
        ({"layer_types": [*ALTERNATE, "full_attention"], "sliding_window": 128}, (Kind(16, 128), Kind(16))),  # with MTP
        ({"sliding_window_pattern": 6, "sliding_window": 1024}, (Kind(27, 1024), Kind(5))),  # Gemma 3: every 6th
        ({"_sliding_window_pattern": 1, "sliding_window": 1024}, (Kind(32),)),
        ({"model_type": "gemma3_text", "sliding_window": 1024}, (Kind(27, 1024), Kind(5))),
        ({"model_type": "gemma2", "sliding_window": 4096}, (Kind(16, 4096), Kind(16))),
        ({"model_type": "cohere2", "sliding_window": 4096, "sliding_window_pattern": None}, (Kind(24, 4096), Kind(8))),
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 28}, (Kind(28), Kind(4, 64))),  # Qwen2
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0}, (Kind(32, 64),)),
        ({"use_sliding_window": False, "sliding_window": 64, "max_window_layers": 28}, (Kind(32),)),
        ({"sliding_window": 64, "max_window_layers": 28}, (Kind(32, 64),)),
        ({"attn_logit_softcapping": 50}, (Kind(32, softcap=50.0),)),
        ({"model_type": "gpt_oss"}, (Kind(32, sinks=True),)),
    ],
)
def test_layers_of_different_kinds_are_counted_in_the_order_of_their_first(tmp_path, fields, kinds):
    model = read(config(tmp_path, **LLAMA, **fields))

    assert model.kinds == kinds
    assert model.layers == 32


def test_layer_types_that_are_all_full_attention_are_accepted(tmp_path):
    assert read(config(tmp_path, **LLAMA, layer_types=["full_attention"] * 32)).layers == 32


@pytest.mark.parametrize(
    "fields, kind",
    [
        ({"layer_types": ["full_attention", "chunked_attention"]}, "layer 1 of .* is 'chunked_attention'"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "layer 0 of .* is 'linear_attention'"),
        ({"layer_types": ["mamba"]}, "'mamba'"),
        ({"layer_types": [None]}, "None"),
        ({"layer_types": "full_attention"}, "layer_types must be a list"),
        ({"attention_chunk_size": 8192}, "chunked attention"),  # Llama 4
        ({"attn_layer_period": 8}, "mamba layers"),  # Jamba
        ({"full_attention_interval": 4}, "linear attention"),  # Qwen3-Next
        ({"index_topk": 2048}, "sparse attention"),  # DeepSeek V3.2
        ({"layer_types": [["full_attention"]]}, "layer 0 of .* is \\['full_attention'\\]"),
        ({"layer_types": [{}]}, "layer 0 of .* is {}"),
        ({"blocksparse_block_size": 64}, "block-sparse attention"),  # Phi-3-small
        ({"attn_layer_indices": [9, 18], "mamba_d_state": 256}, "mamba layers"),  # Bamba
        ({"mamba_d_state": 256}, "mamba layers"),  # Falcon-H1, Hymba
        ({"full_attn_idxs": [2], "conv_L_cache": 3}, "convolution layers"),  # LFM2
        ({"attention_hidden_size": 4096}, "recurrent layers"),  # RWKV
        ({"attention_window": [512] * 32}, "local attention"),  # Longformer
        ({"model_type": "big_bird"}, "block-sparse attention"),
        ({"is_encoder_decoder": True}, "cross attention"),  # T5
        ({"block_configs": [{}]}, "layers that are all alike"),  # Nemotron
        ({"num_key_value_heads_per_layer": [4, 2]}, "layers that are all alike"),
    ],
)
def test_a_layer_that_is_not_softmax_attention_is_named_and_refused(tmp_path, fields, kind):
    with pytest.raises(ValueError, match=kind):
        read(config(tmp_path, **LLAMA, **fields))


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"num_attention_heads": None}, "has no num_attention_heads"),
        ({"num_attention_heads": 0}, "num_attention_heads must be an integer from 1"),
        ({"num_attention_heads": -8}, "num_attention_heads must be an integer from 1"),
        ({"num_attention_heads": "32"}, "must be an integer"),
        ({"num_attention_heads": True}, "must be an integer"),
        ({"num_attention_heads": 10**30}, "must be an integer"),
        ({"num_attention_heads": float("nan")}, "must be an integer"),
        ({"num_hidden_layers": None}, "has no num_hidden_layers"),
        ({"hidden_size": None}, "has no hidden_size"),
        ({"hidden_size": 4095}, "heads must divide the hidden size"),
        ({"num_key_value_heads": 5}, "KV heads must divide the query heads"),
        ({"kv_lora_rank": 512}, "has no qk_rope_head_dim"),
        ({"sliding_window": -1}, "sliding_window must be"),
        ({"sliding_window": 4096, "use_sliding_window": "false"}, "use_sliding_window must be true or false"),
        ({"multi_query": "yes"}, "multi_query must be true or false"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types must name all 32 layers: .* has 3"),
        ({"layer_types": ["sliding_attention"] * 32}, "has no sliding_window"),
        ({"sliding_window_pattern": 6}, "has no sliding_window"),
        ({"sliding_window_pattern": "LLLG", "sliding_window": 9}, "sliding_window_pattern must be an integer"),
        ({"attn_logit_softcapping": -1}, "attn_logit_softcapping must be a positive number"),
        ({"attn_logit_softcapping": True}, "attn_logit_softcapping must be a positive number"),
        ({"attn_logit_softcapping": float("inf")}, "attn_logit_softcapping must be a positive number"),
        ({"text_config": {}}, "text_config has no num_hidden_layers"),
    ],
)
def test_a_missing_or_absurd_field_is_named_in_one_line(tmp_path, fields, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(config(tmp_path, **{**LLAMA, **fields}))

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
        (b"\xff\xfe\x00\x01", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1, 2]", "holds no JSON object"),
        (b"null", "holds no JSON object"),
        (b'{"num_attention_heads": ' + b"9" * 5000 + b"}", "is not JSON: Exceeds the limit"),
    ],
)
def test_a_file_that_is_no_config_is_refused_in_one_line(tmp_path, content, message):
    path = tmp_path / "config.json"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=message) as caught:
        read(path)

    assert "\n" not in str(caught.value)


def test_a_device_without_an_end_is_no_config():
    with pytest.raises(ValueError, match="/dev/zero is no model config: it has more than"):
        read("/dev/zero")


def test_fields_that_only_name_what_is_not_there_refuse_nothing(tmp_path):
    # Granite's dense models keep the mamba fields of their family, and decoders say that they are no encoder-decoder
    fields = {"layer_types": ["attention"] * 32, "mamba_d_state": 256, "is_encoder_decoder": False}

    assert read(config(tmp_path, **LLAMA, **fields)).layers == 32


def test_the_text_part_may_be_nested_twice(tmp_path):
    # Qwen2.5-Omni
    assert read(config(tmp_path, thinker_config={"text_config": LLAMA})).source.endswith("thinker_config text_config")
