"""Measured: a machine whose costs were measured on it, by `ringloom-run calibrate`, in place of assumptions.

An attention op on a rank takes

    fixed + kv_heads * (u(rows, keys) * pairs + e(rows) * cut rows)

with rows the query rows that one KV head serves, pairs the visible ones, u the seconds a pair of a tile of such a
shape, and e what the mask's edge costs a row, once for each run of keys in which it cuts it: both as measured, straight
between measurements on logarithmic axes. Any other op takes what its kind took for as many bytes; a collective what the
library took among as many ranks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np

from algorithms.ir.environment import MEASURED, UNSTEADY
from algorithms.ir.expr import Coords
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import Attention
from algorithms.ir.schedule import Op
from algorithms.ops import Work, is_free, touched, variant, work
from sim.costs import IDEAL, Costs, Machine, Parts
from sim.curves import Curve
from sim.measured_attention import Attends, crossings
from sim.numbers import NUMBERS
from sim.state import Floats

COPY = "copy"  # the kind of row that stands in for an op that was not measured
LONGEST, MOST = 1e9, 2.0**60  # seconds of a measurement; anything else that is counted
TOLD = {  # the columns that tell rows apart
    "kernels": ("passes", "mask", "dtype"),
    "collectives": ("kind", "how", "dtype"),
    "glue": ("kind", "dtype"),
    "gemm": ("dtype",),
}
Rows = Sequence[Mapping[str, Any]]


def machine_of(graph: nx.DiGraph, gpus: list[str], costs: Costs) -> Machine:
    """Return the GPUs of a graph: with the costs that were measured there, if some were."""
    return Measured(graph, gpus, costs) if "measured" in graph.graph else Machine(graph, gpus, costs)


class Measured(Machine):
    """The ranks of a machine that was measured; all are alike.

    Attributes:
        record: the measurements, as the cluster file has them.
    """

    is_measured = True

    def __init__(self, graph: nx.DiGraph, gpus: list[str], costs: Costs) -> None:
        """Read the measurements of a graph.

        Raises:
            ValueError: they are of another schema, or a row lacks what its kind has.
        """
        super().__init__(graph, gpus, costs)
        self.costs, self.name = IDEAL, str(graph.graph.get("name"))
        self.real = np.zeros(())
        self.record: Mapping[str, Any] = graph.graph["measured"]
        links = [data["bandwidth"] for _, _, data in graph.edges(data=True)]
        self.link_bandwidth = float(min(links)) if links else np.inf
        self._beyond: set[str] = set()
        try:
            with np.errstate(all="ignore"):  # what is not sound is refused below
                self._read()
        except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"measured costs of {self.name}: a row has no sound {error}") from None
        except ValueError as error:
            raise ValueError(f"measured costs of {self.name}: {error}") from None

    def _read(self) -> None:
        if self.record.get("schema") != MEASURED:
            raise ValueError(f"expected {MEASURED}, got schema {self.record.get('schema')!r}")
        self.line = float(self.record["overhead"]["line_s"])
        self.gemm = {str(row["dtype"]): float(row["flop_rate"]) for row in self.record["gemm"]}
        self.attention = Attends.of(self.record["kernels"])
        self.exchange = Curve(*_columns(self.record["exchange"]))
        self.glue = _by(self.record["glue"], "kind", "dtype")
        self.collectives = _by(self.record["collectives"], "kind", "how", "dtype", "ranks")
        self._check()

    def _check(self) -> None:
        for table, names in TOLD.items():
            for row in self.record[table]:
                for name in names:
                    if not isinstance(row[name], str):
                        raise ValueError(f"{table}: {name} must be a text, got {row[name]!r:.40}")
        if not isinstance(self.record["environment"], Mapping):
            raise ValueError("environment must be a mapping")
        for table in ("kernels", "exchange", "collectives", "glue"):
            for row in self.record[table]:
                _positive(table, row, "seconds", "low", "high", most=LONGEST)
        for row in self.record["kernels"]:
            _positive("kernels", row, "head_dim", "heads", "rows", "keys", "pairs", least=1)
        for table in ("exchange", "collectives", "glue"):
            for row in self.record[table]:
                _positive(table, row, "nbytes", least=1)
        _positive("overhead", self.record["overhead"], "line_s", most=LONGEST)
        for row in self.record["gemm"]:
            _positive("gemm", row, "flop_rate")

    def parts(self, op: Op, problem: Attention, coords: Coords, shape: tuple[int, ...]) -> Parts:
        """The parts of an op's seconds: what it costs however small, and the rest."""
        zero, counted = np.zeros(()), work(op, coords)
        if is_free(op):
            return Parts(zero, zero, zero, counted.flop)
        if op.kind in ("attend", "attend_backward"):
            fixed, rest = self._tile(op, counted, coords)
            return Parts(np.where(counted.pairs > 0, self.line + fixed, self.line), rest, zero, counted.flop)
        curve = self._curve(op.kind, op.inputs[-1].type.dtype)
        self._note(op.kind, float(np.max(counted.nbytes)), curve)
        return Parts(np.asarray(self.line), zero, curve.at(counted.nbytes), counted.flop)

    def _tile(self, op: Op, counted: Work, coords: Coords) -> tuple[Floats, Floats]:
        q, k = op.inputs[0].type, op.inputs[1].type
        passes, kv_heads = "fwd" if op.kind == "attend" else "bwd", k.width[0]
        known = self.attention.of_op(passes, q.dtype, q.width[1], op.params["mask"].short == "full")
        if known is None:
            have = ", ".join(sorted({f"{p} {dtype}" for p, dtype, *_ in self.attention.known})) or "none"
            raise ValueError(f"{self.name} has no attention {passes} {q.dtype} measured: it has {have}")
        group = q.width[0] // kv_heads
        crossed = crossings(op.inputs[0].tokens.runs(coords), op.inputs[1].tokens.runs(coords)) * (counted.mixed > 0)
        cut = np.maximum(crossed, counted.rows * (counted.mixed > 0)) * group
        seconds = known.seconds(counted.rows * group, k.rows.at(coords), counted.pairs * group, cut)
        self._beyond.update(known.beyond(counted.rows * group, k.rows.at(coords)))
        return np.asarray(known.fixed), np.where(counted.pairs > 0, kv_heads * seconds, 0.0)

    def _curve(self, kind: str, dtype: str) -> Curve:
        found = self.glue.get((kind, dtype))
        if found is None:
            self._beyond.add(f"{kind} {dtype}: not measured, taken to be a copy of its bytes")
            found = self.glue.get((COPY, "uint8"))
        if found is None:
            raise ValueError(f"{self.name} has no {kind} {dtype} measured, nor a copy")
        return found

    def _note(self, what: str, size: float, curve: Curve) -> None:
        if not curve.reaches(size):
            self._beyond.add(f"{what}: extrapolated from {curve.sizes[-1]:,.0f} to {size:,.0f} bytes")

    def message_seconds(self, nbytes: Floats) -> Floats:
        """What the exchange of as many bytes took, less what the links take."""
        self._note("exchange", float(nbytes.max()), self.exchange)
        return np.maximum(0.0, 2 * self.line * (nbytes > 0) + self.exchange.at(nbytes) - nbytes / self.link_bandwidth)

    def native_seconds(self, op: Op, mesh: Mesh) -> Floats | None:
        """What the library took for the collective among as many ranks; None where that was not measured."""
        key = op.kind, variant(op), op.inputs[0].type.dtype, str(mesh.count(op.over))
        found = self.collectives.get(key)
        if found is None:
            self._beyond.add(f"{' '.join(x for x in key[:3] if x)} among {key[3]}: not measured, made of exchanges")
            return None
        nbytes = mesh.by_group(touched(op, mesh.grid()), op.over).max(axis=1)
        self._note(" ".join(x for x in key[:2] if x), float(nbytes.max()), found)
        seconds = np.empty(mesh.size)
        seconds[mesh.groups(op.over)] = (2 * self.line + found.at(nbytes))[:, None]
        return seconds

    def reduce_seconds(self, nbytes: Any) -> Floats:
        """Seconds to combine arriving blocks with one's own: as an addition of as many, which touches three."""
        kinds = [key for key in self.glue if key[0] in ("add", COPY)]
        return self.glue[kinds[0]].at(3 * np.asarray(nbytes, np.float64)) if kinds else np.zeros_like(nbytes)

    def peaks(self, dtype: str) -> Floats:
        """FLOP/s of a large matrix product in that type, of the widest type measured where it was not."""
        return np.asarray(self.gemm.get(dtype) or max(self.gemm.values(), default=float(self.flop_rate.max())))

    def best_flop_rate(self, problem: Attention, passes: str) -> Floats:
        """FLOP/s of the fastest tile measured."""
        return np.asarray(self.attention.best(passes, problem.dtype) or self.peaks(problem.dtype))

    def assumptions(self, problem: Attention, touched: Collection[str] = NUMBERS) -> list[str]:
        """Say when and where the costs were measured, how steady they were, and what goes beyond them."""
        about = dict(self.record["environment"])
        rows = [row for name in ("kernels", "exchange", "collectives", "glue") for row in self.record[name]]
        unsteady = sum(row["high"] > UNSTEADY * row["low"] for row in rows)
        load, hosts = (_listed(about.get(name)) for name in ("load_before", "hosts"))
        when = f"measured {about.get('date', 'on an unknown date')} on {', '.join(map(str, hosts))}"
        return [
            f"costs: {when}, load {load[0]}; medians of {len(rows)} sizes and kinds, "
            f"{unsteady} of which varied by more than {UNSTEADY:g} from p10 to p90",
            *sorted(self._beyond),
        ]


def _listed(value: Any) -> list[Any]:
    """What the environment says, as a list that is not empty."""
    return value if isinstance(value, list) and value else ["?"]


def _positive(table: str, row: Mapping[str, Any], *names: str, least: float = 0.0, most: float = MOST) -> None:
    for name in names:
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most or value == 0:
            rule = f"at least {least:g}" if least else "a number above 0"
            rule += f" and at most {most:g}" if isinstance(value, int | float) and value > most else ""
            raise ValueError(f"{table}: {name} must be {rule}, got {value!r:.40}")


def _columns(rows: Rows) -> tuple[list[float], list[float]]:
    return [float(row["nbytes"]) for row in rows], [float(row["seconds"]) for row in rows]


def _by(rows: Rows, *names: str) -> dict[tuple[str, ...], Curve]:
    """A curve for each of the things measured that these columns tell apart."""
    sorts: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        sorts.setdefault(tuple(str(row[name]) for name in names), []).append(row)
    return {key: Curve(*_columns(same)) for key, same in sorts.items()}
