"""Kinds of layers: how many layers of a model attend alike, and how they change the problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from algorithms.fields import flag, integer, positive, shown

if TYPE_CHECKING:
    from algorithms.ir import Attention
    from algorithms.ir.mask import Mask

FULL = ("full_attention", "attention")  # values of layer_types
SLIDING = "sliding_attention"
PATTERNS = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4}  # every how many layers one is full, if unsaid
WITH_SINKS = ("gpt_oss",)  # models that have a learnable sink a head, and no field for it


@dataclass(frozen=True, slots=True)
class Kind:
    """Layers that attend alike, as a change of the problem.

    Attributes:
        layers: how many there are.
        window: tokens that a query sees at most, itself included; 0: all that the problem's mask lets it see.
        softcap: limit of the logits; 0: none. sinks: whether each head has a learnable sink.
    """

    layers: int
    window: int = 0
    softcap: float = 0.0
    sinks: bool = False

    def change(self, problem: Attention, whose: str) -> Attention:
        """The problem as these layers have it.

        Raises:
            ValueError: the window is narrower than the sequence, and the mask is not causal; or the cap is another.
        """
        changes: dict[str, Any] = {}
        if 0 < self.window < problem.key_len:
            changes["mask"] = _windowed(problem.mask, self.window, whose)
        if self.softcap:
            if problem.softcap not in (0.0, self.softcap):
                raise ValueError(f"{whose} caps its scores at {self.softcap:g}: softcap {problem.softcap:g} is another")
            changes["softcap"] = self.softcap
        if self.sinks:
            changes["sinks"] = True
        return replace(problem, **changes) if changes else problem


def _windowed(mask: Mask, window: int, whose: str) -> Mask:
    """A mask with a window besides; of two windows the narrower counts."""
    if not mask.causal:
        raise ValueError(f"a sliding window is causal, and {whose} has one of {window}: the mask is {mask.short}")
    return replace(mask, window=min(window, mask.window or window))


def read_kinds(config: Mapping[str, Any], where: str, layers: Callable[[], int]) -> tuple[Kind, ...]:
    """The kinds of layers of a config, in the order of their first layer.

    Args:
        layers: reads how many layers there are; a layer that cannot be costed is refused before.
    Raises:
        ValueError: a layer is neither full nor sliding attention; a field is missing or absurd.
    """
    types = _layer_types(config, where)
    count = layers()
    if 0 < len(types) < count:
        raise ValueError(f"layer_types must name all {count} layers: {where} has {len(types)}")
    softcap = positive(config, where, "attn_logit_softcapping")
    sinks = config.get("model_type") in WITH_SINKS
    windows = Counter(_windows(config, where, types[:count], count))
    return tuple(Kind(number, window, softcap, sinks) for window, number in windows.items())


def _layer_types(config: Mapping[str, Any], where: str) -> list[str]:
    """The entry of each layer in layer_types; empty where it is absent.

    Where it is absent, the sizes of mamba's state tell; where it is there, they may be its family's only.
    """
    types = config.get("layer_types") or []
    if not isinstance(types, list):
        raise ValueError(f"layer_types must be a list: {where} has {shown(types)}")
    for number, kind in enumerate(types):
        if kind not in (*FULL, SLIDING):
            raise ValueError(f"only softmax attention can be costed: layer {number} of {where} is {shown(kind)}")
    if not types and config.get("mamba_d_state") is not None:
        raise ValueError(f"only softmax attention can be costed: {where} has mamba layers (mamba_d_state)")
    return types


def _windows(config: Mapping[str, Any], where: str, types: list[str], layers: int) -> list[int]:
    """The window of each layer; where `use_sliding_window` is absent, a window is used."""
    used = flag(config, where, "use_sliding_window") if "use_sliding_window" in config else True
    slides = [kind == SLIDING for kind in types] or _slides(config, where, layers)
    if not used or not any(slides):
        return [0] * layers
    window = integer(config, where, "sliding_window", most=2**48)
    return [window if sliding else 0 for sliding in slides]


def _slides(config: Mapping[str, Any], where: str, layers: int) -> list[bool]:
    """Which layers have a sliding window where layer_types does not say: all but every so-manyth, or the last ones."""
    unsaid = PATTERNS.get(str(config.get("model_type")), 0)
    if every := integer(config, where, "sliding_window_pattern", "_sliding_window_pattern", default=unsaid):
        return [(number + 1) % every != 0 for number in range(layers)]
    if config.get("sliding_window") is None:
        return [False] * layers
    full = 0  # the first layers, which have none
    if config.get("use_sliding_window") and config.get("max_window_layers"):
        full = integer(config, where, "max_window_layers")
    return [number >= full for number in range(layers)]
