"""Measured attention: what tiles of some shapes took, and so what a tile of another takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from algorithms.ir.expr import Ints
from algorithms.ir.tokens import Runs
from sim.curves import Surface
from sim.state import Floats

Key = tuple[str, str, int, bool]  # pass, type, head size, no mask
FULL, SEEN, CUT = "full", "seen", "cut"  # no mask; a mask that hides nothing here; one whose edge cuts the tile


class Tile(NamedTuple):
    """One measured tile of one KV head: its query rows and keys, visible pairs, and what one head took."""

    heads: int
    rows: int
    keys: int
    pairs: float
    seconds: float


@dataclass(frozen=True)
class Attend:
    """Attention of one pass, type and head size, under masks or not.

    Attributes:
        fixed: seconds of an op however few its heads. pair: seconds a visible pair and KV head.
        edge_rows, edge: seconds a row more where the mask's edge cuts tiles of so many rows.
        scale: of another head size than asked for, by how much more FLOP.
        label: names it. note: what to say of it, "" for nothing.
    """

    label: str
    fixed: float
    pair: Surface
    edge_rows: Floats
    edge: Floats
    scale: float = 1.0
    note: str = ""

    def seconds(self, rows: Ints, keys: Ints, pairs: Ints, cut: Ints) -> Floats:
        """Seconds of one KV head, on each rank.

        Args:
            rows: query rows that the head serves. keys, pairs: of its tile, and visible.
            cut: rows through which the mask's edge runs, as `crossings` counts.
        """
        r, k, n, c = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (rows, keys, pairs, cut)))
        each = self.pair.at(r, np.where(c > 0, k, np.minimum(k, n / np.maximum(r, 1))))
        edge = np.interp(np.log(np.maximum(r, 1)), np.log(self.edge_rows), self.edge)
        return np.asarray(self.scale * np.maximum(0.0, each * n + edge * c))

    def beyond(self, rows: Ints, keys: Ints) -> list[str]:
        """What goes beyond the tiles that were measured."""
        found = [self.note] if self.note else []
        most_rows, most_keys = self.pair.most
        for what, size, most in (("rows", np.max(rows), most_rows), ("keys", np.max(keys), most_keys)):
            if size > 2 * most:
                found.append(f"{self.label}: extrapolated from {most:,.0f} to {size:,.0f} {what}")
        return found


class Attends:
    """All attention that was measured."""

    def __init__(self, known: Mapping[Key, Attend], best: Mapping[tuple[str, str], float]) -> None:
        """Answer by pass, type, head size, and whether there is no mask."""
        self.known, self._best = known, best

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Attends:
        """Read the rows of a cluster file."""
        sorts: dict[tuple[str, str, int], dict[str, list[Tile]]] = {}
        best: dict[tuple[str, str], float] = {}
        for row in rows:
            passes, dtype, dim = str(row["passes"]), str(row["dtype"]), int(row["head_dim"])
            heads, queries, keys = (int(row[x]) for x in ("heads", "rows", "keys"))
            tile = Tile(heads, queries, keys, float(row["pairs"]), float(row["seconds"]))
            sorts.setdefault((passes, dtype, dim), {}).setdefault(str(row["mask"]), []).append(tile)
            rate = (4 if passes == "fwd" else 10) * dim * tile.heads * tile.pairs / tile.seconds
            best[passes, dtype] = max(best.get((passes, dtype), 0.0), rate)
        known: dict[Key, Attend] = {}
        for (passes, dtype, dim), tiles in sorts.items():
            label = f"attention {passes} {dtype}"
            full, seen = tiles.get(FULL, []), tiles.get(SEEN, [])
            low = [tile for tile in full if tile.rows < min((t.rows for t in seen), default=tile.rows + 1)]
            for no_mask, whole in ((True, full or seen), (False, low + seen)):
                if whole:
                    cut = [] if no_mask else tiles.get(CUT, [])
                    known[passes, dtype, dim, no_mask] = _attend(label, _fixed(full or seen), whole, cut)
        return cls(known, best)

    def of_op(self, passes: str, dtype: str, head_dim: int, no_mask: bool) -> Attend | None:
        """The attention measured at the nearest head size; None where none was of this pass and type."""
        sizes = [dim for p, d, dim, mask in self.known if (p, d, mask) == (passes, dtype, no_mask)]
        if not sizes:
            return None
        near = min(sizes, key=lambda dim: abs(np.log(dim / head_dim)))
        found = self.known[passes, dtype, near, no_mask]
        if near == head_dim:
            return found
        note = f"{found.label}: measured at head size {near}, taken in proportion at {head_dim}"
        return replace(found, scale=head_dim / near, note=note)

    def best(self, passes: str, dtype: str) -> float:
        """FLOP/s of the fastest tile, 0 where none was measured."""
        return self._best.get((passes, dtype), 0.0)


def crossings(q: Runs, k: Runs) -> Ints:
    """How often a query row lies within a run of keys: there the causal edge cuts it, in each run by itself.

    Strided shards that were gathered lie side by side, and the edge runs through every one of them.
    """
    first, last = k.start[..., None, :], k.start[..., None, :] + k.step * (k.count[..., None, :] - 1)
    start, count = q.start[..., :, None], q.count[..., :, None]
    before = np.clip(-((start - first) // q.step), 0, count)  # rows before the first key
    upto = np.clip((last - start) // q.step + 1, 0, count)  # rows up to the last
    return np.asarray(np.maximum(0, upto - before).sum(axis=(-2, -1)))


def _attend(label: str, fixed: float, whole: Sequence[Tile], cut: Sequence[Tile]) -> Attend:
    """Take the fixed cost off each shape, which leaves its seconds a pair; what a cut tile takes more is the edge's."""
    shapes: dict[tuple[int, int], Tile] = {}
    for tile in sorted(whole):  # of several numbers of heads the most count
        shapes[tile.rows, tile.keys] = tile
    tiles = list(shapes.values())
    least = 0.05  # of an op's time at least is its heads'
    each = [max(least * t.seconds, t.seconds - fixed) / (t.heads * t.pairs) for t in tiles]
    pair = Surface([t.rows for t in tiles], [t.keys for t in tiles], each)
    edges = {t.rows: ((t.seconds - fixed) / t.heads - _scalar(pair, t) * t.pairs) / t.rows for t in sorted(cut)}
    rows = np.array(sorted(edges) or [1], np.float64)
    return Attend(label, fixed, pair, rows, np.array([edges.get(int(r), 0.0) for r in rows]))


def _scalar(pair: Surface, tile: Tile) -> float:
    return float(pair.at(np.array([float(tile.rows)]), np.array([float(tile.keys)]))[0])


def _fixed(tiles: Sequence[Tile]) -> float:
    """Seconds of no heads: where a shape was measured with several numbers of heads, the least so found."""
    shapes: dict[tuple[int, int], dict[int, float]] = {}
    for tile in tiles:
        shapes.setdefault((tile.rows, tile.keys), {})[tile.heads] = tile.seconds
    found = []
    for by_heads in shapes.values():
        if len(by_heads) > 1:
            few, many = min(by_heads), max(by_heads)
            found.append((many * by_heads[few] - few * by_heads[many]) / (many - few))
    return max(0.0, min(found, default=0.0))
