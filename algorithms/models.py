"""Models: the attention of public ones, by name."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from algorithms import unknown
from algorithms.kinds import Kind


@dataclass(frozen=True, slots=True)
class Model:
    """The attention of a model: heads that are the same in each of its layers, and layers of one kind or several.

    Attributes:
        heads, kv_heads, head_dim, head_dim_v, shared_kv: as in `algorithms.ir.Attention`; of MLA the latent head.
        expanded: of MLA the widths of a query/key head and of a value head, once the latent is projected up to them;
            zeros where its config does not say. None: it is no MLA, or the widths are as typed.
        source: who says so; "recalled" marks numbers from memory.
        kinds: its layers by what they see, all of which makes `layers`; (): all alike, and nothing special.
    """

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    head_dim_v: int
    shared_kv: bool
    source: str
    kinds: tuple[Kind, ...] = ()
    expanded: tuple[int, int] | None = None

    @property
    def of_kinds(self) -> tuple[Kind, ...]:
        """Its kinds of layers, at least one, those that see most first."""
        kinds = self.kinds or (Kind(self.layers),)
        return tuple(sorted(kinds, key=lambda kind: (kind.window > 0, -kind.window)))

    def form(self, phase: str) -> Model:
        """The heads that a phase computes with: MLA expands to all its heads, but decodes with its one latent head.

        Raises:
            ValueError: the heads that it must expand to are not known.
        """
        if self.expanded is None or phase == "decode":
            return self
        if not all(self.expanded):
            fields = "qk_nope_head_dim and v_head_dim"
            raise ValueError(f"{phase} of latent attention expands it to its heads: {self.name} has no {fields}")
        wide, values = self.expanded
        return replace(self, kv_heads=self.heads, head_dim=wide, head_dim_v=values, shared_kv=False)

    def form_text(self, phase: str) -> str:
        """Which form of MLA a phase computes with; empty of other attention."""
        if self.expanded is None:
            return ""
        return "MLA as one latent head" if phase == "decode" else "MLA expanded to its heads"

    def assumption(self, phase: str) -> list[str]:
        """What the choice of a form leaves out, as a line."""
        if self.expanded is None:
            return []
        if phase == "decode":
            return [f"{self.form_text(phase)}, weights absorbed: the projections into and out of it are not in it"]
        return [f"{self.form_text(phase)}: every head's keys and values move; the up-projection is not in it"]


def _public(name: str, layers: int, heads: int, kv_heads: int, source: str) -> Model:
    """A model whose heads are 128 wide, as most are."""
    return Model(name, layers, heads, kv_heads, 128, 128, False, source)


def _recalled(
    name: str, hub: str, heads: tuple[int, int, int], full: int, slide: int, window: int, **every: Any
) -> Model:
    """A model of full and sliding layers from memory; heads are of queries, of keys, and their width."""
    kinds = (Kind(slide, window, **every), *([Kind(full, **every)] if full else []))
    query, keys, wide = heads
    source = f"config.json of {hub} on the hub, recalled"
    return Model(name, full + slide, query, keys, wide, wide, False, source, kinds)


_META = "github.com/meta-llama/llama-models models/sku_list.py"
_QWEN = "config.json of Qwen/{} on the hub, recalled; layers and heads as in its model card"
_MLA = (
    "config.json of DeepSeek-V3 on the hub, recalled: kv_lora_rank 512, qk_nope_head_dim 128, qk_rope_head_dim 64, "
    "v_head_dim 128"
)
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
        _recalled("mistral-7b-v0.1", "mistralai/Mistral-7B-v0.1", (32, 8, 128), 0, 32, 4096),
        _recalled("gemma-2-9b", "google/gemma-2-9b", (16, 8, 256), 21, 21, 4096, softcap=50.0),
        _recalled("gemma-2-27b", "google/gemma-2-27b", (32, 16, 128), 23, 23, 4096, softcap=50.0),
        _recalled("gemma-3-12b", "google/gemma-3-12b-pt", (16, 8, 256), 8, 40, 1024),
        _recalled("gemma-3-27b", "google/gemma-3-27b-pt", (32, 16, 128), 10, 52, 1024),
        _recalled("gpt-oss-20b", "openai/gpt-oss-20b", (64, 8, 64), 12, 12, 128, sinks=True),
        _recalled("gpt-oss-120b", "openai/gpt-oss-120b", (64, 8, 64), 18, 18, 128, sinks=True),
        Model("deepseek-v3", 61, 128, 1, 512 + 64, 512, True, _MLA, expanded=(128 + 64, 128)),
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
