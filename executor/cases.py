"""What `check` proves an algorithm on: problems small enough to run by the thousand, and where bugs live.

Unless the user says otherwise: both masks, all layouts, query heads per KV head from 1 to all, values of another
width than keys, one tensor for both, lengths that no mesh divides, fewer tokens than ranks, cached tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, NamedTuple

from algorithms.ir import Attention, Mesh, Program, ScheduleError
from algorithms.ir.job import Job, share_out
from algorithms.ir.layout import LAYOUTS
from algorithms.ir.mask import MASKS
from algorithms.ir.problem import PHASES
from executor.errors import BadInput

HEAD_DIM, OTHER_DIM = 8, 5


@dataclass(frozen=True)
class Asked:
    """What the user said to check; None and () where nothing was said."""

    phases: Sequence[str] = PHASES
    masks: Sequence[str] = MASKS
    layouts: Sequence[str] = LAYOUTS
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    head_dim_v: int | None = None
    shared_kv: bool = False
    seq: int | None = None
    cached: int | None = None
    new: int | None = None
    given: tuple[int, int] | None = None  # query and key lengths of inputs from a file
    batch: int | None = None
    dtype: str = ""  # float64
    kv_dtype: str = ""
    state_dtype: str = ""
    tp: int = 1
    dp: int = 1
    mesh: str | None = None

    @property
    def shape_said(self) -> bool:
        """Whether the user chose heads and widths."""
        return self.shared_kv or any((self.heads, self.kv_heads, self.head_dim, self.head_dim_v))

    @property
    def length_said(self) -> bool:
        """Whether the user chose lengths."""
        return any(x is not None for x in (self.seq, self.cached, self.new))


class Case(NamedTuple):
    """One program on one mesh, and the problems to prove it on, all of one layout."""

    algorithm: str
    program: Program
    mesh: Mesh
    layout: str
    problems: tuple[Attention, ...]


def cases(
    algorithms: Mapping[str, Mapping[str, Program]], asked: Asked, ranks: int, have: str
) -> tuple[list[Case], list[tuple[str, str]]]:
    """List what to prove on so many ranks, and the algorithms whose axes are not the mesh's, with the reason.

    Args:
        have: who has the ranks, to end a message: "MPI has 4".
    Raises:
        BadInput: a mesh of another size than the ranks, a problem that cannot be.
    """
    job = shared(asked, ranks, have)
    found: list[Case] = []
    inapplicable: list[tuple[str, str]] = []
    for name, programs in algorithms.items():
        if not programs.keys() & set(asked.phases):
            inapplicable.append((name, f"is written for {', '.join(programs)}, not {', '.join(asked.phases)}"))
        for program in (p for phase, p in programs.items() if phase in asked.phases):
            fitting = job.meshes(program.axes, program.equal)
            if not fitting:
                needs = ", ".join(program.axes)
                inapplicable.append((name, f"{program.phase} needs mesh axes {needs}, got {asked.mesh}"))
            for mesh, layout in itertools.product(fitting, asked.layouts):
                found.append(Case(name, program, mesh, layout, problems(program, asked, job, layout)))
    return found, inapplicable


def shared(asked: Asked, ranks: int, have: str) -> Job:
    """How all these ranks are shared out.

    Raises:
        BadInput: they cannot be, or some are left.
    """
    try:
        job = share_out(ranks, have, tp=asked.tp, dp=asked.dp, mesh=asked.mesh)
    except ScheduleError as error:
        raise BadInput(str(error)) from None
    if job.size != ranks:
        shown = f"mesh {asked.mesh}" if asked.mesh else f"tp={job.tp}, cp={job.cp}, dp={job.dp}"
        raise BadInput(f"{shown} uses {job.size} ranks: {have}; a proof uses all of them")
    return job


def problems(program: Program, asked: Asked, job: Job, layout: str) -> tuple[Attention, ...]:
    """The problems of one layout: masks x heads; and GQA and latent attention at unusual lengths.

    Raises:
        BadInput: one of them cannot be.
    """
    dtype = asked.dtype or "float64"
    dtypes = {"dtype": dtype, "kv_dtype": asked.kv_dtype, "state_dtype": asked.state_dtype or state_of(dtype)}
    common: dict[str, Any] = dtypes | {"grad_dtype": dtypes["state_dtype"], "phase": program.phase, "layout": layout}
    common["batch"] = asked.batch or job.dp
    shapes, (usual, *special) = heads(asked, job), lengths(program.phase, asked, job.cp)
    sizes = [h | usual for h in shapes] + [h | n for h in shapes[1::2] or shapes for n in special]
    try:
        return tuple(Attention(mask=mask, **size, **common) for mask, size in itertools.product(asked.masks, sizes))
    except ScheduleError as error:
        raise BadInput(str(error)) from None


def state_of(dtype: str) -> str:
    """The dtype of partial results: half types are kept in float32."""
    return "float64" if dtype == "float64" else "float32"


def heads(asked: Asked, job: Job) -> list[dict[str, Any]]:
    """Heads and widths: as said, or MHA, GQA, MQA and latent attention, with heads that the ranks divide."""
    many = asked.heads or _many(job.cp, job.tp)
    if asked.shape_said:
        width = asked.head_dim or HEAD_DIM
        kv_heads = asked.kv_heads or (1 if asked.shared_kv else many)
        return [_shape(many, kv_heads, width, asked.head_dim_v or width, asked.shared_kv)]
    return [
        _shape(many, many, HEAD_DIM, HEAD_DIM),
        _shape(many, many // 2, HEAD_DIM, HEAD_DIM),
        _shape(many, 1, HEAD_DIM, OTHER_DIM),
        _shape(many, 1, HEAD_DIM, OTHER_DIM, shared_kv=True),
    ]


def _many(cp: int, tp: int) -> int:
    """A number of heads, even and at least 4, that every way of splitting them divides."""
    least = lcm(2, cp * tp)
    return least * -(-4 // least)


def _shape(heads: int, kv_heads: int, head_dim: int, head_dim_v: int, shared_kv: bool = False) -> dict[str, Any]:
    widths = {"head_dim": head_dim, "head_dim_v": head_dim_v, "shared_kv": shared_kv}
    return {"heads": heads, "kv_heads": kv_heads, **widths}


def lengths(phase: str, asked: Asked, cp: int) -> list[dict[str, int]]:
    """Query and key lengths: as said, or uneven, then fewer than ranks, and with cached tokens."""
    uneven, few = 4 * cp + 3, max(1, cp - 1)
    if asked.given is not None:
        pairs = [asked.given]
    elif asked.length_said:
        keys = asked.seq or uneven
        pairs = [(asked.new or 1, keys)] if phase == "decode" else [(keys, keys + (asked.cached or 0))]
    elif phase == "decode":
        pairs = [(1, uneven), (min(3, few), few)]
    else:
        pairs = [(uneven, uneven), (few, few)] + [(2 * cp + 1, uneven)] * (phase == "prefill")
    return [{"query_len": queries, "key_len": keys} for queries, keys in dict.fromkeys(pairs)]
