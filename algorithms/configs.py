"""Configs: the attention of a model from its config.json, as the hub's files are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from algorithms.fields import flag, integer
from algorithms.files import json_object
from algorithms.kinds import read_kinds
from algorithms.models import Model

HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "kv_n_heads")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
WIDTH = ("hidden_size", "n_embd", "n_embed", "d_model", "dim")
NESTED = ("thinker_config", "text_config", "llm_config", "language_config")  # of models of several modalities

OTHER_KINDS = {  # fields that only models with layers of another kind have
    "attention_chunk_size": "chunked attention",
    "attention_hidden_size": "recurrent layers",
    "attention_layers": "local attention",
    "attention_window": "local attention",
    "attn_layer_indices": "mamba layers",
    "attn_layer_period": "mamba layers",
    "attn_type_list": "linear attention",
    "block_types": "recurrent layers",
    "blocksparse_block_size": "block-sparse attention",
    "conv_L_cache": "convolution layers",
    "cross_attention_layers": "cross attention",
    "full_attention_interval": "linear attention",
    "global_attn_every_n_layers": "local attention",
    "global_attn_idx": "sliding windows in some layers",
    "hybrid_layer_pattern": "sliding windows in some layers",
    "hybrid_override_pattern": "mamba layers",
    "index_topk": "sparse attention",
    "is_encoder_decoder": "cross attention",
    "layer_group_size": "linear attention",
    "layers_block_type": "mamba layers",
    "linear_attn_config": "linear attention",
    "lru_width": "recurrent layers",
    "mamba_d_ssm": "mamba layers",
    "mb_per_layer": "mamba layers",
    "sparse_config": "sparse attention",
    "ssm_cfg": "mamba layers",
    "state_size": "mamba layers",
}
UNLIKE = ("block_configs", "global_head_dim", "num_key_value_heads_per_layer")  # fields of layers that are not alike
OTHER_MODELS = {  # model_type, where no field tells
    "big_bird": "block-sparse attention",
    "bigbird_pegasus": "block-sparse attention",
    "reformer": "hashed attention",
}


def read(path: str | Path) -> Model:
    """Read the attention of a model from its config.json.

    Raises:
        ValueError: no such file, not JSON, a field is missing or absurd, or some layer is neither full softmax
            attention nor that in a sliding window.
    """
    config, where = _load(path), str(path)
    while key := next((key for key in NESTED if isinstance(config.get(key), dict)), None):
        config, where = config[key], f"{where} {key}"
    _refuse_other_kinds(config, where)
    kinds = read_kinds(config, where, lambda: integer(config, where, *LAYERS))
    heads, layers = integer(config, where, *HEADS), sum(kind.layers for kind in kinds)
    if config.get("kv_lora_rank") is not None:
        return _latent(config, where, Model(str(path), layers, heads, 1, 0, 0, True, where, kinds))
    head_dim = _head_dim(config, where, heads)
    return Model(str(path), layers, heads, _kv_heads(config, where, heads), head_dim, head_dim, False, where, kinds)


def _latent(config: Mapping[str, Any], where: str, model: Model) -> Model:
    """Fill in the widths of latent attention: of its one latent head, and of the heads that it expands to."""
    latent, rope = integer(config, where, "kv_lora_rank"), integer(config, where, "qk_rope_head_dim")
    nope = integer(config, where, "qk_nope_head_dim", default=0)
    values = integer(config, where, "v_head_dim", default=0)
    expanded = (nope + rope, values) if nope else (0, 0)
    return replace(model, head_dim=latent + rope, head_dim_v=latent, expanded=expanded)


def _load(path: str | Path) -> Mapping[str, Any]:
    named = re.fullmatch(r"[\w.-]+/[\w.-]+", str(path)) and not str(path).endswith(".json")  # as a hub names models
    hint = "; nothing is downloaded: save its config.json and name the file" if named else ""
    return json_object(path, "model config", hint=hint)


def _refuse_other_kinds(config: Mapping[str, Any], where: str) -> None:
    """Name a layer kind that is not softmax attention, full or windowed: it is never approximated by one that is."""
    for field, kind in OTHER_KINDS.items():
        if config.get(field) not in (None, False, [], {}):
            raise ValueError(f"only full attention can be costed: {where} has {kind} ({field})")
    for name, kind in OTHER_MODELS.items():
        if config.get("model_type") == name:
            raise ValueError(f"only full attention can be costed: {where} has {kind} (model_type {name})")
    for field in UNLIKE:
        if config.get(field) is not None:
            raise ValueError(f"only layers that are all alike can be costed: {where} has {field}")


def _kv_heads(config: Mapping[str, Any], where: str, heads: int) -> int:
    """KV heads: one of multi-query models, as many as query heads where the file names none."""
    if flag(config, where, "multi_query") and not flag(config, where, "new_decoder_architecture"):
        return 1
    names = ("multi_query_group_num",) if flag(config, where, "multi_query_attention") else KV_HEADS
    inner = config.get("attn_config")  # of MPT and DBRX
    fields = {**inner, **config} if isinstance(inner, dict) else config
    kv_heads = integer(fields, where, *names, default=heads)
    if heads % kv_heads:
        raise ValueError(f"KV heads must divide the query heads: {where} has {kv_heads} and {heads}")
    return kv_heads


def _head_dim(config: Mapping[str, Any], where: str, heads: int) -> int:
    """Width of a head: said, or hidden size / heads."""
    said = integer(config, where, "head_dim", "kv_channels", default=0)
    if said:
        return said
    hidden = integer(config, where, *WIDTH)
    if hidden % heads:
        raise ValueError(f"heads must divide the hidden size where head_dim is absent: {where} has {heads}, {hidden}")
    return hidden // heads
