"""What `check` proves an algorithm on: problems small enough to run by the thousand, and where bugs live.

Unless the user says otherwise: full and causal, all layouts, query heads per KV head from 1 to all, values of another
width than keys, one tensor for both, lengths that no mesh divides, fewer tokens than ranks, cached tokens; and a
window, packed documents, capped and biased scores and sinks, a few of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, NamedTuple

from algorithms.ir import Attention, Mesh, Program, ScheduleError
from algorithms.ir.job import Job, share_out
from algorithms.ir.layout import KINDS
from algorithms.ir.mask import CAUSAL, FULL, Mask
from algorithms.ir.problem import PHASES
from executor.errors import BadInput

HEAD_DIM, OTHER_DIM = 8, 5


@dataclass(frozen=True)
class Asked:
    """What the user said to check; None and () where nothing was said."""

    phases: Sequence[str] = PHASES
    masks: Sequence[Mask] = ()  # full, causal, and a few of the others
    layouts: Sequence[str] = ()  # all
    softcap: float = 0.0
    alibi: bool = False
    sinks: bool = False
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

    @property
    def documents(self) -> tuple[int, ...]:
        """The documents of the one mask that was said, if it has any."""
        return self.masks[0].documents if len(self.masks) == 1 else ()

    @property
    def widely(self) -> bool:
        """Whether nothing was said of masks, scores or lengths, so that a few of all kinds are proven."""
        said = self.masks or self.softcap or self.alibi or self.sinks or self.given is not None
        return not (said or self.length_said)


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
            for layout in asked.layouts or KINDS:
                if posed := problems(program, asked, job, layout):
                    found += [Case(name, program, mesh, layout, posed) for mesh in fitting]
    if asked.layouts and not found and not inapplicable:
        raise BadInput(f"layout {asked.layouts[0]} deals packed documents: say --lengths or --mask documents:...")
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
    """The problems of one layout: masks x heads; GQA and latent attention at unusual lengths; a few other masks.

    Raises:
        BadInput: one of them cannot be.
    """
    dtype = asked.dtype or "float64"
    dtypes = {"dtype": dtype, "kv_dtype": asked.kv_dtype, "state_dtype": asked.state_dtype or state_of(dtype)}
    common: dict[str, Any] = dtypes | {"grad_dtype": dtypes["state_dtype"], "phase": program.phase, "layout": layout}
    common |= {"batch": asked.batch or job.dp, "softcap": asked.softcap, "alibi": asked.alibi, "sinks": asked.sinks}
    shapes, (usual, *special) = heads(asked, job), lengths(program.phase, asked, job.cp)
    sizes = [h | usual for h in shapes] + [h | n for h in shapes[1::2] or shapes for n in special]
    chosen = [size | {"mask": mask} for mask, size in itertools.product(asked.masks or (FULL, CAUSAL), sizes)]
    if asked.widely:
        more = others(program.phase, [usual, *special], common["batch"])
        chosen += [shapes[len(shapes) // 4] | one for one in more]
    if layout == "documents":
        chosen = [one for one in chosen if one["mask"].documents]
    try:
        return tuple(Attention(**common | one) for one in chosen)
    except ScheduleError as error:
        raise BadInput(str(error)) from None


def others(phase: str, sizes: Sequence[Mapping[str, int]], batch: int) -> list[dict[str, Any]]:
    """A problem for each of the other masks and scores, in uneven documents, one of a single token.

    In decode documents are the batch, which must be 1.
    """
    usual, last = sizes[0], sizes[-1] if phase == "prefill" else sizes[0]
    n = usual["key_len"]
    window = {**usual, "mask": Mask(True, n // 3), "sinks": True}
    if phase == "decode" and batch > 1:
        return [window]
    packed: tuple[int, ...] = (n // 3, 1, n - n // 3 - 1)
    if phase == "decode":
        packed, usual, last = (n // 3, n - n // 3), *[{"query_len": 2, "key_len": n}] * 2
    return [
        window,
        {**usual, "mask": Mask(True, 0, packed), "alibi": True},
        {**usual, "mask": Mask(False, 0, packed), "softcap": 1.5},
        {**last, "mask": Mask(True, n // 4, packed), "softcap": 1.5, "alibi": True, "sinks": True},
    ]


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
    elif asked.length_said or asked.documents:
        new = asked.seq or (sum(asked.documents) or uneven) - (asked.cached if asked.documents and asked.cached else 0)
        sequences = max(1, len(asked.documents))
        pairs = [((asked.new or 1) * sequences, new)] if phase == "decode" else [(new, new + (asked.cached or 0))]
    elif phase == "decode":
        pairs = [(1, uneven), (min(3, few), few)]
    else:
        pairs = [(uneven, uneven), (few, few)] + [(2 * cp + 1, uneven)] * (phase == "prefill")
    return [{"query_len": queries, "key_len": keys} for queries, keys in dict.fromkeys(pairs)]
