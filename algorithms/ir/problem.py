"""The problem: one attention layer, its sizes, types, mask, layout and phase."""

from __future__ import annotations

from dataclasses import dataclass, fields

from algorithms import unknown
from algorithms.ir.expr import ScheduleError
from algorithms.ir.layout import Layout, layout
from algorithms.ir.mask import check_mask

ITEMSIZE = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3": 1, "float8_e5m2": 1}
PHASES = ("prefill", "train", "decode")


class Inapplicable(ScheduleError):
    """An algorithm that cannot serve this problem on this mesh, and why."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention layer: sizes, types, mask, layout and phase.

    Attributes:
        heads, kv_heads: query heads and key/value heads (GQA: kv_heads divides heads; MQA: 1).
        head_dim, head_dim_v: width of a query/key head and of a value head (default: the same).
        query_len, key_len: sequence lengths; the queries are the last query_len of the key_len positions.
        batch: sequences, folded into heads on arrays: a shard is (n, batch * heads, head_dim).
        shared_kv: keys and values are one tensor (latent attention): V is its first head_dim_v columns.
        dtype, kv_dtype, state_dtype, grad_dtype: of activations; of keys and values; of partial results, kept
            and travelling; of gradients in flight.
        mask: full or causal. layout: contiguous, zigzag, striped or pages:N. phase: prefill, train or decode.
        scale: factor of the scores, default head_dim ** -0.5.
    Raises:
        ScheduleError: a size below 1, kv_heads does not divide heads, more queries than keys, unknown names.
    """

    heads: int
    kv_heads: int
    head_dim: int
    query_len: int
    key_len: int
    batch: int = 1
    head_dim_v: int = 0
    shared_kv: bool = False
    dtype: str = "bfloat16"
    kv_dtype: str = ""
    state_dtype: str = "float32"
    grad_dtype: str = "float32"
    mask: str = "full"
    layout: str = "contiguous"
    phase: str = "prefill"
    scale: float = 0.0

    def __post_init__(self) -> None:
        defaults = {
            "head_dim_v": self.head_dim_v or self.head_dim,
            "kv_dtype": self.kv_dtype or self.dtype,
            "scale": self.scale or float(self.head_dim) ** -0.5 if self.head_dim > 0 else 1.0,
        }
        for name, value in defaults.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        for name in ("heads", "kv_heads", "head_dim", "head_dim_v", "query_len", "key_len", "batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**48:
                raise ScheduleError(f"{name} must be an integer from 1 to 2^48, got {value}")
        if self.heads % self.kv_heads:
            raise ScheduleError(f"kv_heads={self.kv_heads} must divide heads={self.heads}")
        if self.query_len > self.key_len:
            raise ScheduleError(f"queries are the last of the keys: {self.query_len} queries, {self.key_len} keys")
        pairs = self.query_len * self.key_len
        elements = self.batch * self.heads * max(self.head_dim, self.head_dim_v) * self.key_len
        if pairs > 2**62 or 8 * elements > 2**56:  # a rank may hold, and send, a hundred times the bytes
            sizes = f"{self.query_len} queries, {self.key_len} keys, {self.heads} heads, batch {self.batch}"
            raise ScheduleError(f"too large to count: pairs must stay below 2^62 and bytes below 2^56, got {sizes}")
        if self.shared_kv and self.head_dim_v > self.head_dim:
            raise ScheduleError(f"shared_kv takes V from K: head_dim_v={self.head_dim_v} > head_dim={self.head_dim}")
        for name in ("dtype", "kv_dtype", "state_dtype", "grad_dtype"):
            if getattr(self, name) not in ITEMSIZE:
                raise ScheduleError(unknown(name, getattr(self, name), ITEMSIZE))
        check_mask(self.mask)
        self.keys(1)  # refuses an unknown layout
        if self.phase not in PHASES:
            raise ScheduleError(unknown("phase", self.phase, PHASES))
        if not 0 < self.scale < float("inf"):
            raise ScheduleError(f"scale must be a positive number, got {self.scale}")

    @property
    def cached(self) -> int:
        """Key positions before the first query: tokens cached by earlier calls."""
        return self.key_len - self.query_len

    def queries(self, p: int) -> Layout:
        """Deal the query positions to p shards."""
        return layout(self.layout, self.query_len, p, self.cached)

    def keys(self, p: int) -> Layout:
        """Deal the key positions to p shards."""
        return layout(self.layout, self.key_len, p)

    def describe(self) -> dict[str, object]:
        """Every field by name, as results echo it."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def require(condition: object, reason: str) -> None:
    """Refuse a problem that an algorithm cannot serve, saying why."""
    if not condition:
        raise Inapplicable(reason)
