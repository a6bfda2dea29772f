"""Models: the attention of public ones, by name."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from algorithms import unknown


@dataclass(frozen=True, slots=True)
class Model:
    """The attention of a model, the same in each of its layers.

    Attributes:
        heads, kv_heads, head_dim, head_dim_v, shared_kv: as in `algorithms.ir.Attention`; of MLA the latent head.
        expanded: of MLA the widths of a query/key head and of a value head, once the latent is projected up to them;
            zeros where its config does not say. None: it is no MLA, or the widths are as typed.
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
    expanded: tuple[int, int] | None = None

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
