"""Models: the attention of public ones, and of any whose config.json can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algorithms import unknown

LARGEST = 2**20  # heads, layers, widths: more is a mistake
LARGEST_FILE = 2**24  # bytes of a config.json

HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
WIDTH = ("hidden_size", "n_embd", "d_model", "dim")
NESTED = ("text_config", "llm_config", "language_config")  # where models of several modalities keep their text part

FULL = {"full_attention", "attention"}  # values of layer_types
OTHER_KINDS = {  # fields that only models with layers of another kind have
    "attention_chunk_size": "chunked attention",
    "attn_layer_period": "mamba layers",
    "attn_type_list": "linear attention",
    "block_types": "recurrent layers",
    "cross_attention_layers": "cross attention",
    "full_attention_interval": "linear attention",
    "hybrid_override_pattern": "mamba layers",
    "index_topk": "sparse attention",
    "layers_block_type": "mamba layers",
    "linear_attn_config": "linear attention",
    "ssm_cfg": "mamba layers",
    "state_size": "mamba layers",
}


@dataclass(frozen=True, slots=True)
class Model:
    """The attention of a model, the same in each of its layers.

    Attributes:
        heads, kv_heads, head_dim, head_dim_v, shared_kv: as in `algorithms.ir.Attention`.
        source: who says so; "recalled" marks numbers from memory.
        window: tokens that a query sees at most, itself included; 0: all.
    """

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int
    shared_kv: bool
    source: str
    window: int = 0


def _public(name: str, layers: int, heads: int, kv_heads: int, source: str) -> Model:
    """A model whose heads are 128 wide, as most are."""
    return Model(name, layers, heads, kv_heads, 128, 128, False, source)


_META = "github.com/meta-llama/llama-models models/sku_list.py"
_QWEN = "config.json of Qwen/{} on the hub, recalled; layers and heads as in its model card"
_MLA = "arXiv:2412.19437 section 4.2, recalled: kv_lora_rank 512 + qk_rope_head_dim 64, as one shared latent head"
MODELS = {
    model.name: model
    for model in (
        _public("llama3-8b", 32, 32, 8, f"{_META}, llama3_1_8b"),
        _public("llama3-70b", 80, 64, 8, f"{_META}, llama3_1_70b"),
        _public("llama3-405b", 126, 128, 8, f"{_META}, llama3_1_405b"),
        _public("qwen2.5-7b", 28, 28, 4, _QWEN.format("Qwen2.5-7B")),
        _public("qwen2.5-32b", 64, 40, 8, _QWEN.format("Qwen2.5-32B")),
        _public("qwen2.5-72b", 80, 64, 8, _QWEN.format("Qwen2.5-72B")),
        _public("gpt3-175b", 96, 96, 96, "arXiv:2005.14165 Table 2.1, recalled"),
        Model("deepseek-v3", 61, 128, 1, 576, 512, True, _MLA),
    )
}


def names() -> list[str]:
    """List the models that are known by name."""
    return sorted(MODELS)


def find(name: str) -> Model:
    """Return a model by name, or as its config.json says.

    Raises:
        ValueError: no model of that name, with the nearest; or the file is no config of a model with full attention
            throughout.
    """
    if name in MODELS:
        return MODELS[name]
    if name.endswith(".json") or "/" in name or Path(name).exists():
        return read(name)
    raise ValueError(unknown("model", name, names(), other="a config.json"))


def read(path: str | Path) -> Model:
    """Read the attention of a model from its config.json, as the hub's files are.

    Raises:
        ValueError: no such file, not JSON, a field is missing or absurd, or some layer is not full softmax attention.
    """
    config, where = _load(path), str(path)
    for key in NESTED:
        if isinstance(config.get(key), dict):
            config, where = config[key], f"{where} {key}"
            break
    _refuse_other_kinds(config, where)
    heads, layers = _integer(config, where, *HEADS), _integer(config, where, *LAYERS)
    window = _window(config, where)
    if config.get("kv_lora_rank") is not None:
        latent = _integer(config, where, "kv_lora_rank")
        rope = _integer(config, where, "qk_rope_head_dim")
        return Model(str(path), layers, heads, 1, latent + rope, latent, True, f"{where}, as one latent head", window)
    head_dim = _head_dim(config, where, heads)
    return Model(str(path), layers, heads, _kv_heads(config, where, heads), head_dim, head_dim, False, where, window)


def _load(path: str | Path) -> Mapping[str, Any]:
    """Read a file that holds one JSON object."""
    file = Path(path)
    if file.is_dir():
        raise ValueError(f"{path} is a folder: name the config.json in it")
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise ValueError(f"{path} is no model config: it has {file.stat().st_size} bytes")
        config = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"cannot read model config {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} is no model config: it holds no JSON object")
    return config


def _refuse_other_kinds(config: Mapping[str, Any], where: str) -> None:
    """Name a layer kind that is not full softmax attention: it is never approximated by one that is."""
    kinds = config.get("layer_types") or []
    if not isinstance(kinds, list):
        raise ValueError(f"layer_types must be a list: {where} has {_shown(kinds)}")
    for number, kind in enumerate(kinds):
        if kind not in FULL:
            raise ValueError(f"only full attention can be costed: layer {number} of {where} is {_shown(kind)}")
    for field, kind in OTHER_KINDS.items():
        if config.get(field) not in (None, [], {}):
            raise ValueError(f"only full attention can be costed: {where} has {kind} ({field})")


def _window(config: Mapping[str, Any], where: str) -> int:
    """The sliding window; where `use_sliding_window` is absent, a window is used."""
    if config.get("sliding_window") is None or config.get("use_sliding_window", True) is False:
        return 0
    return _integer(config, where, "sliding_window", most=2**48)


def _kv_heads(config: Mapping[str, Any], where: str, heads: int) -> int:
    """KV heads: one of multi-query models, as many as query heads where the file names none."""
    if config.get("multi_query") is True and not config.get("new_decoder_architecture"):
        return 1
    names = ("multi_query_group_num",) if config.get("multi_query_attention") is True else KV_HEADS
    kv_heads = _integer(config, where, *names, default=heads)
    if heads % kv_heads:
        raise ValueError(f"KV heads must divide the query heads: {where} has {kv_heads} and {heads}")
    return kv_heads


def _head_dim(config: Mapping[str, Any], where: str, heads: int) -> int:
    """Width of a head: said, or hidden size / heads."""
    said = _integer(config, where, "head_dim", "kv_channels", default=0)
    if said:
        return said
    hidden = _integer(config, where, *WIDTH)
    if hidden % heads:
        raise ValueError(f"heads must divide the hidden size where head_dim is absent: {where} has {heads}, {hidden}")
    return hidden // heads


def _integer(
    config: Mapping[str, Any], where: str, *fields: str, default: int | None = None, most: int = LARGEST
) -> int:
    """The first of these fields that is there; null counts as absent."""
    for field in fields:
        value = config.get(field)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ValueError(f"{field} must be an integer from 1 to {most}: {where} has {_shown(value)}")
        return value
    if default is None:
        raise ValueError(f"{where} has no {' or '.join(fields)}")
    return default


def _shown(value: object) -> str:
    """A value, cut to a length that fits a line."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
