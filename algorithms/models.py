"""Models: the attention of public ones, by name."""

from __future__ import annotations

import os
from dataclasses import dataclass

from algorithms import unknown


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
    if name.endswith(".json") or "/" in name or os.path.exists(name):
        from algorithms.configs import read

        return read(name)
    raise ValueError(unknown("model", name, names(), other="a config.json"))
