"""The problem: one attention layer, its sizes, types, mask, layout and phase."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import accumulate
from math import inf

import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Ints, ScheduleError
from algorithms.ir.layout import Layout, layout
from algorithms.ir.mask import FULL, Mask, as_mask
from algorithms.ir.pieces import Piece
from algorithms.ir.tokens import Runs

ITEMSIZE = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3": 1, "float8_e5m2": 1}
PHASES = ("prefill", "train", "decode")
LEAST_CAP, MOST_CAP = 1e-3, 1e9  # of scores: beyond them a gradient, or single precision, loses all its digits


class Inapplicable(ScheduleError):
    """An algorithm that cannot serve this problem on this mesh, and why."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention layer: sizes, types, mask, layout and phase.

    Attributes:
        heads, kv_heads: query heads and key/value heads (GQA: kv_heads divides heads; MQA: 1).
        head_dim, head_dim_v: width of a query/key head and of a value head (default: the same).
        query_len, key_len: sequence lengths; the queries are the last query_len of the key_len positions; in decode of
            several documents, the last of each, as many of one as of another.
        batch: sequences, folded into heads on arrays: a shard is (n, batch * heads, head_dim).
        shared_kv: keys and values are one tensor (latent attention): V is its first head_dim_v columns.
        dtype, kv_dtype, state_dtype, grad_dtype: of activations; of keys and values; of partial results, kept
            and travelling; of gradients in flight.
        mask: which keys a query sees; may be given as text (`algorithms.ir.mask.parse_mask`). layout: contiguous,
            zigzag, striped, pages:N or documents. phase: prefill, train or decode.
        scale: factor of the scores, default head_dim ** -0.5. softcap: scores become softcap * tanh(s / softcap), then;
            0: they do not. alibi: a score loses slope_h times the distance of query and key, then. sinks: each head has
            one more logit, learned, that no value belongs to.
    Raises:
        ScheduleError: a size below 1, kv_heads does not divide heads, more queries than keys, documents that do not
            add up to the keys, a softcap out of range, unknown names.
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
    mask: Mask = FULL
    layout: str = "contiguous"
    phase: str = "prefill"
    scale: float = 0.0
    softcap: float = 0.0
    alibi: bool = False
    sinks: bool = False

    def __post_init__(self) -> None:
        defaults = {
            "head_dim_v": self.head_dim_v or self.head_dim,
            "kv_dtype": self.kv_dtype or self.dtype,
            "scale": self.scale or float(self.head_dim) ** -0.5 if self.head_dim > 0 else 1.0,
            "mask": as_mask(self.mask),
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
        if self.phase not in PHASES:
            raise ScheduleError(unknown("phase", self.phase, PHASES))
        if not 0 < self.scale < inf:
            raise ScheduleError(f"scale must be a positive number, got {self.scale}")
        if self.softcap and not LEAST_CAP <= self.softcap <= MOST_CAP:
            raise ScheduleError(f"softcap must be {LEAST_CAP:g} to {MOST_CAP:g}, or 0 for none, got {self.softcap}")
        if self.mask.documents:
            self._check_documents()
        self.keys(1)  # refuses an unknown layout, and one that the mask does not allow

    def _check_documents(self) -> None:
        documents, total = self.mask.documents, sum(self.mask.documents)
        if total != self.key_len:
            raise ScheduleError(f"documents must add up to the keys: {len(documents)} have {total}, not {self.key_len}")
        if self.phase != "decode":
            return
        if self.query_len % len(documents) or self.query_len // len(documents) > min(documents):
            least = f"{len(documents)} documents of at least {min(documents)} tokens"
            raise ScheduleError(f"decode asks about the last tokens of each document: {self.query_len} of {least}")
        if self.batch > 1:
            raise ScheduleError(f"decode takes packed documents as its batch: got batch={self.batch} of them too")

    @property
    def cached(self) -> int:
        """Keys that are no queries: tokens cached by earlier calls."""
        return self.key_len - self.query_len

    @property
    def ragged(self) -> bool:
        """Whether the queries are the last tokens of each of several documents."""
        return self.phase == "decode" and bool(self.mask.documents)

    @property
    def query_pieces(self) -> tuple[Piece, ...]:
        """The queries of each document, in order; one piece where there are none."""
        pieces = self.key_pieces
        if self.ragged:
            new = self.query_len // len(pieces)
            return tuple(Piece(start + length - new, new) for start, length in pieces)
        cut = ((max(start, self.cached), start + length) for start, length in pieces)
        return tuple(Piece(start, end - start) for start, end in cut if end > start)

    @property
    def key_pieces(self) -> tuple[Piece, ...]:
        """The documents; one piece where there are none."""
        lengths = self.mask.documents or (self.key_len,)
        return tuple(Piece(end - length, length) for end, length in zip(accumulate(lengths), lengths, strict=True))

    @property
    def query_runs(self) -> Runs:
        """The positions of all queries, in order."""
        if not self.ragged:
            return Runs(np.array([self.cached]), np.array([self.query_len]), 1)
        start, count = np.array(self.query_pieces, dtype=np.int64).T
        return Runs(start, count, 1)

    def query_rows(self, positions: Ints) -> Ints:
        """The number of each query, in order, by its position; a position that is none gives what is no number."""
        if not self.ragged:
            return np.asarray(positions - self.cached)
        start, count = np.array(self.query_pieces, dtype=np.int64).T
        piece = np.clip(np.searchsorted(start, positions, side="right") - 1, 0, None)
        inside = positions - start[piece]
        return np.where((inside >= 0) & (inside < count[piece]), piece * count[0] + inside, -1)

    def queries(self, p: int) -> Layout:
        """Deal the query positions to p shards; those of several documents in decode each document's by itself."""
        if self.ragged or self.layout == "documents":
            return layout("documents", self.query_len, p, pieces=self.query_pieces)
        return layout(self.layout, self.query_len, p, self.cached)

    def keys(self, p: int) -> Layout:
        """Deal the key positions to p shards."""
        if self.layout != "documents":
            return layout(self.layout, self.key_len, p)
        if not self.mask.documents:
            raise ScheduleError(f"layout documents deals packed documents: mask {self.mask} has none")
        return layout("documents", self.key_len, p, pieces=self.key_pieces)

    def describe(self) -> dict[str, object]:
        """Every field by name, as results echo it."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"mask": str(self.mask)}


def require(condition: object, reason: str) -> None:
    """Refuse a problem that an algorithm cannot serve, saying why."""
    if not condition:
        raise Inapplicable(reason)
