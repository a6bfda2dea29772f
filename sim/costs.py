"""What compute ops and collectives cost, beyond the bytes on the links: every number named and changeable."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from algorithms import unknown
from algorithms.ir.expr import Coords
from algorithms.ir.mesh import Mesh
from algorithms.ir.problem import ITEMSIZE, Attention
from algorithms.ir.schedule import Op
from algorithms.ops import Work, is_free, work
from sim import kernel_table
from sim.kernel_table import EIGHT, HALF, Fit
from sim.numbers import KERNELS, LAUNCHES, NUMBERS, assumption
from sim.state import Floats
from topologies.hardware import GPUS
from topologies.links import LINK_KINDS
from topologies.units import us

PEAK_OF = {"float64": "fp64", "float32": "fp32"}  # half and 8-bit types take the tensor cores' rates


LINK_SHARE = {"nvlink": 0.82, "xgmi": 0.75, "pcie": 0.87, "nic": 0.97}  # of others all


@dataclass(frozen=True)
class Costs:
    """Assumptions of the cost model; times in seconds.

    A cluster whose GPUs have no model name is idealised: it costs FLOP / flop_rate and bytes / bandwidth, no more.

    Attributes:
        kernel: attention kernel, one of kernel_table.KERNELS; None takes the fastest published for the GPU.
        attend_launch: of an attention kernel, as the fits assume it. decode_launch: of a split-KV decode and its
            combine kernel. glue_launch: of any other kernel. comm_launch: of a communication op.
        memory_share: share of the memory bandwidth that copies reach; decode_memory_share: that decode reaches.
        merge_nbytes: bytes a merge op moves per output element: 38 counts the cast, subtract, scale and update passes
            of an eager framework (24 to 38, as its compiler fuses them); about 12 fused.
        reduce_nbytes: bytes that a reduction inside a collective moves for each that arrives: reads 2, writes 1.
        plain_share: share of the peak reached where no kernel speed is published (float32, float64, other GPUs).
        link_share: share of its data-sheet bandwidth that a class of link reaches.
        launch: how kernels are started, one of numbers.LAUNCHES; `launched` changes it.
        said: names of the numbers that are the user's, not ours.
        measured: names of those that were measured on the cluster, each with where from (sim.cluster_costs).
    """

    kernel: str | None = None
    attend_launch: float = 5 * us
    decode_launch: float = 12 * us
    glue_launch: float = 3 * us
    comm_launch: float = 3 * us
    memory_share: float = 0.87
    decode_memory_share: float = 0.65
    merge_nbytes: float = 38.0
    reduce_nbytes: float = 3.0
    plain_share: float = 0.5
    link_share: Mapping[str, float] = field(default_factory=lambda: dict(LINK_SHARE))
    launch: str = "queued"
    said: frozenset[str] = frozenset()
    measured: Mapping[str, str] = field(default_factory=dict)

    def launched(self, how: str) -> Costs:
        """The assumptions with every launch as it is when kernels are started so; the rest of a launch stays.

        Args:
            how: queued, as the host runs ahead; eager, where kernels are too short for that; or captured in a graph.
        Raises:
            ValueError: no such way of starting them.
        """
        if how not in LAUNCHES:
            raise ValueError(unknown("launch", how, LAUNCHES))
        more = LAUNCHES[how].seconds - LAUNCHES[self.launch].seconds
        changed: dict[str, Any] = {name: self.value(name) + kernels * more for name, kernels in KERNELS.items()}
        return replace(self, launch=how, **changed)

    def value(self, name: str) -> float:
        """A number by the name that `--assume` takes: of a field, or of a class of link its share."""
        return float(self.link_share.get(name, 1.0) if name in LINK_KINDS else getattr(self, name))

    def values(self) -> dict[str, float]:
        """Every number by its name."""
        return {name: self.value(name) for name in NUMBERS}

    def assumptions(self, touched: Collection[str] = NUMBERS) -> list[str]:
        """Name the numbers that touch a result, and those that were said, with where they come from."""
        default = Costs().launched(self.launch)
        shown = [
            name
            for name in NUMBERS
            if name in self.said
            or (name in touched and (name in self.measured or not (name in LINK_KINDS and self.value(name) == 1)))
        ]
        return [
            *(
                assumption(
                    name,
                    self.value(name),
                    default.value(name),
                    name in self.said,
                    self.launch,
                    self.measured.get(name, ""),
                )
                for name in shown
            ),
            "communication does not slow the kernels it overlaps",
        ]


IDEAL = Costs(memory_share=1.0, decode_memory_share=1.0, merge_nbytes=0.0)


class Parts(NamedTuple):
    """Seconds of a compute op on each rank, its launch and the longer of the other two; and its FLOP there."""

    launch: Floats
    arithmetic: Floats
    memory: Floats
    flop: Any

    @property
    def seconds(self) -> Floats:
        """What it takes in all."""
        return np.asarray(self.launch + np.maximum(self.arithmetic, self.memory))


class Machine:
    """The GPUs that run a schedule, as numbers per rank.

    Attributes:
        flop_rate, memory_bandwidth: (P,), or one number where all ranks are alike; memory_bandwidth is inf where
            the graph has none. names: the model's name of each rank's GPU, "" for an idealised one; real: 1.0
            where there is a name, (P,), or one number.
        differs: whether ranks have GPUs of different kinds.
        is_measured: whether its times are those of a calibration, so that no assumption of ours touches them.
    """

    is_measured = False

    def __init__(self, graph: nx.DiGraph, gpus: list[str], costs: Costs) -> None:
        nodes = [graph.nodes[gpu] for gpu in gpus]
        self.names = [str(node.get("gpu", "")) for node in nodes]
        self.costs = costs if any(self.names) else IDEAL
        self.flop_rate = _shared([float(node["flop_rate"]) for node in nodes])
        self.memory_bandwidth = _shared([float(node.get("memory_bandwidth", np.inf)) for node in nodes])
        self.real = _shared([float(bool(name)) for name in self.names])
        self.differs = (
            any(x.ndim > 0 for x in (self.flop_rate, self.memory_bandwidth, self.real)) or len(set(self.names)) > 1
        )
        self._fits: dict[tuple[int, str, str], tuple[Floats, Floats, Floats, Floats]] = {}

    def seconds(self, op: Op, problem: Attention, coords: Coords, shape: tuple[int, ...]) -> Floats:
        """Seconds of a compute op on each rank, broadcastable to the mesh's shape."""
        return self.parts(op, problem, coords, shape).seconds

    def parts(self, op: Op, problem: Attention, coords: Coords, shape: tuple[int, ...]) -> Parts:
        """The parts of these seconds: the launch, then the longer of the arithmetic and the memory's."""
        counted = work(op, coords)
        if op.kind in ("attend", "attend_backward"):
            return self._attention(op, problem, counted, shape)
        if is_free(op):
            return Parts(np.zeros(()), np.zeros(()), np.zeros(()), counted.flop)
        nbytes = counted.nbytes
        if op.kind == "merge":
            out = op.inputs[2].type  # of which the rows may be on some ranks only
            nbytes = np.maximum(nbytes, self.costs.merge_nbytes * out.rows.at(coords) * out.row_elements)
        rate = self._on(shape, self.memory_bandwidth) * self.costs.memory_share
        launch = self._on(shape, self.real) * self.costs.glue_launch * (nbytes > 0)
        return Parts(np.asarray(launch), np.zeros(()), np.asarray(nbytes / rate), counted.flop)

    def _attention(self, op: Op, problem: Attention, counted: Work, shape: tuple[int, ...]) -> Parts:
        passes = "fwd" if op.kind == "attend" else "bwd"
        peak, best, start, edge = (self._on(shape, x) for x in self._fit(op.inputs[0].type, passes))
        keys = counted.pairs / np.maximum(counted.rows, 1)
        extra = (start + edge * counted.mixed) / np.maximum(keys, 1)
        arithmetic = counted.flop / (peak * best) * (1 + extra)
        decode = problem.phase == "decode"
        share = self.costs.decode_memory_share if decode else self.costs.memory_share
        memory = counted.nbytes / (self._on(shape, self.memory_bandwidth) * share)
        launch = self.costs.decode_launch if decode else self.costs.attend_launch
        parts = self._on(shape, self.real) * launch, arithmetic, memory
        started, computed, read = (np.asarray(np.where(counted.pairs > 0, x, 0.0)) for x in parts)  # empty: never runs
        return Parts(started, computed, read, counted.flop)

    def _fit(self, q: Any, passes: str) -> tuple[Floats, Floats, Floats, Floats]:
        """Peak, best share, start and edge tokens of each rank's GPU for this query type."""
        key = (q.width[1], passes, q.dtype)
        if key not in self._fits:
            rows = {name: fitted(name, *key, self.costs) for name in set(self.names)}
            peaks = self.peaks(q.dtype)
            columns = [_shared([rows[name][k] for name in self.names]) for k in range(3)]
            self._fits[key] = peaks, columns[0], columns[1], columns[2]
        return self._fits[key]

    def peaks(self, dtype: str) -> Floats:
        """Dense FLOP/s of each rank's GPU for a dtype, (P,), or one number where all are alike."""
        if not any(self.names):
            return self.flop_rate
        rates = np.broadcast_to(self.flop_rate, len(self.names))
        return _shared([peak(name, dtype) or float(rates[k]) for k, name in enumerate(self.names)])

    def reduce_seconds(self, nbytes: Any) -> Floats:
        """Seconds to reduce arriving blocks into one's own, inside the communication kernel."""
        return np.asarray(self.costs.reduce_nbytes * nbytes / (self.memory_bandwidth * self.costs.memory_share))

    def message_seconds(self, nbytes: Floats) -> Floats:
        """Seconds that a message of so many bytes takes beyond what its links do; asked where that was measured."""
        return np.zeros_like(nbytes)

    def native_seconds(self, op: Op, mesh: Mesh) -> Floats | None:
        """Seconds of a collective as the library itself carries it out, (P,), where that was measured."""
        return None

    def assumptions(self, problem: Attention, touched: Collection[str] = NUMBERS) -> list[str]:
        """Name what the times of a problem on these GPUs rest on: the kernel that runs, and the numbers."""
        if not any(self.names):
            return ["an idealised cluster: ops take FLOP / flop_rate or bytes / memory bandwidth, nothing is launched"]
        passes = ("fwd", "bwd") if problem.phase == "train" else ("fwd",)
        each = [(gpu, p) for gpu in sorted(set(self.names)) for p in passes]
        kernels = [_kernel_line(gpu, p, problem, self.costs) for gpu, p in each]
        plain = any(_fit(gpu, problem.head_dim, p, problem.dtype, self.costs) is None for gpu, p in each)
        return [*kernels, *self.costs.assumptions([x for x in touched if plain or x != "plain_share"])]

    def best_flop_rate(self, problem: Attention, passes: str) -> Floats:
        """FLOP/s that the kernel reaches on long full tiles, per rank."""
        best = {name: fitted(name, problem.head_dim, passes, problem.dtype, self.costs)[0] for name in set(self.names)}
        return np.asarray(self.peaks(problem.dtype) * np.array([best[name] for name in self.names]))

    @staticmethod
    def _on(shape: tuple[int, ...], x: Floats) -> Floats:
        return x if x.ndim == 0 else x.reshape(shape)


def fitted(gpu: str, head_dim: int, passes: str, dtype: str, costs: Costs) -> tuple[float, float, float]:
    """Best share of the peak, start and edge tokens of the kernel that a GPU runs."""
    if not gpu:
        return 1.0, 0.0, 0.0
    fit = _fit(gpu, head_dim, passes, dtype, costs)
    return (costs.plain_share, 0.0, 0.0) if fit is None else (fit.best, fit.start, kernel_table.edge(fit))


def _fit(gpu: str, head_dim: int, passes: str, dtype: str, costs: Costs) -> Fit | None:
    if dtype in PEAK_OF:
        return None
    bits = HALF if ITEMSIZE[dtype] == 2 else EIGHT
    return kernel_table.find(gpu, head_dim, passes, bits, costs.kernel)


def _kernel_line(gpu: str, passes: str, problem: Attention, costs: Costs) -> str:
    fit = _fit(gpu, problem.head_dim, passes, problem.dtype, costs)
    if fit is None:
        lacks = gpu in GPUS and _rate(problem.dtype) not in GPUS[gpu].flop_rates
        other = f", nor a {_rate(problem.dtype)} peak: it is taken to be the GPU's flop_rate" if lacks else ""
        return f"attention {passes} on {gpu}: no published kernel speed for {problem.dtype}{other}"
    other = "" if (fit.gpu, fit.head_dim) == (kernel_table.chip(gpu), problem.head_dim) else ", the nearest published"
    other += ", forward and backward together" if fit.passes != passes else ""
    return (
        f"attention {passes} on {gpu}: {fit.kernel}, fitted to its speed on {fit.gpu} at head size {fit.head_dim}"
        f"{other} (rms 3% over all fits; {fit.source})"
    )


def peak(gpu: str, dtype: str) -> float | None:
    """Dense FLOP/s of a GPU for a dtype, that of bfloat16 where it has none for it; None for an idealised one."""
    return float(GPUS[gpu].flop_rates.get(_rate(dtype)) or GPUS[gpu].flop_rate) if gpu in GPUS else None


def _rate(dtype: str) -> str:
    """What a GPU's rate for a dtype is called."""
    half = "fp16" if dtype == "float16" else "bf16"
    return PEAK_OF.get(dtype) or ("fp8" if ITEMSIZE[dtype] == 1 else half)


def _shared(values: list[float]) -> Floats:
    """One number where all ranks are alike, else one a rank."""
    return np.asarray(values[0] if len(set(values)) == 1 else values, dtype=np.float64)
