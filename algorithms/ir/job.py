"""A whole job: how its ranks are shared out over heads (tp), sequence (cp) and batch (dp)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

from algorithms.ir.expr import ScheduleError
from algorithms.ir.mesh import JOB_AXES, Mesh, parse_mesh


@dataclass(frozen=True)
class Job:
    """Ranks that split the heads, the sequence and the batch.

    Attributes:
        axes: the mesh as typed, slowest axis first; None where it is to be chosen.
    """

    tp: int
    cp: int
    dp: int
    axes: Mapping[str, int] | None = None

    @property
    def size(self) -> int:
        """Ranks of the job."""
        return self.tp * self.cp * self.dp

    def mesh(self, axes: Mapping[str, int]) -> Mesh:
        """The mesh of the whole job: dp slowest and tp fastest, unless the axes place them."""
        outer = {"dp": self.dp} if self.dp > 1 and "dp" not in axes else {}
        inner = {"tp": self.tp} if self.tp > 1 and "tp" not in axes else {}
        return Mesh(**outer, **axes, **inner)

    def meshes(self, axes: Sequence[str], equal: Sequence[str] = ()) -> list[Mesh]:
        """The meshes over an algorithm's axes: the one typed, if those are its axes, or every split of cp over them.

        Args:
            equal: axes that must have one size; other splits are left out.
        """
        if self.axes is None:
            splits = (dict(zip(axes, sizes, strict=True)) for sizes in factorisations(self.cp, len(axes)))
            return [self.mesh(split) for split in splits if len({split[axis] for axis in equal}) <= 1]
        return [self.mesh(self.axes)] if set(self.axes) - set(JOB_AXES) == set(axes) else []

    def orders(
        self, mesh: Mesh, axes: Sequence[str], *, nested: Sequence[str] = (), tp_outside: bool = False
    ) -> Iterator[Mesh]:
        """The same sizes with an algorithm's axes in every other order; none where the mesh was typed.

        Args:
            mesh: one of `meshes(axes)`. An axis of one rank stays where it is: its place changes nothing.
            nested: axes that stay in this order, the first outside the next.
            tp_outside: also each order with tp slower than the algorithm's axes, not the fastest.
        """
        if self.axes is not None:
            return
        wide = [axis for axis in axes if mesh.axes[axis] > 1]
        fixed = [axis for axis in nested if axis in wide]
        for order in permutations(wide):
            if [axis for axis in order if axis in fixed] != fixed:
                continue
            placed = iter(order)
            split = {a: mesh.axes[a] for a in (next(placed) if axis in wide else axis for axis in axes)}
            tried = [self.mesh(split)]
            if tp_outside and wide and self.tp > 1:
                tried.append(self.mesh({"tp": self.tp, **split}))
            yield from (other for other in tried if other != mesh)


def factorisations(p: int, axes: int) -> Iterator[tuple[int, ...]]:
    """List all ways to write p as a product of `axes` sizes, in order."""
    if axes == 1:
        yield (p,)
        return
    for first in (d for d in range(1, p + 1) if p % d == 0):
        yield from ((first, *rest) for rest in factorisations(p // first, axes - 1))


def share_out(
    ranks: int, have: str, *, tp: int = 1, cp: int | None = None, dp: int = 1, mesh: str | None = None
) -> Job:
    """Share a number of ranks out; cp takes all that tp and dp leave, unless said.

    Args:
        have: who has the ranks, to end a message: "cluster dgx_h100(1) has 8 GPUs".
        mesh: as typed, "row=8,col=8"; it may name tp and dp too.
    Raises:
        ScheduleError: more ranks are needed than there are, or the numbers contradict each other.
    """
    if mesh is not None:
        job, shown = _typed(mesh, tp, cp, dp), f"mesh {mesh}"
    else:
        if cp is None and ranks % (tp * dp) and tp * dp <= ranks:
            raise ScheduleError(f"tp={tp} times dp={dp} must divide the ranks: {have}; or say cp")
        job = Job(tp, cp or max(1, ranks // (tp * dp)), dp)
        shown = f"mesh dp={job.dp},cp={job.cp},tp={job.tp}"
    if job.size > ranks:
        raise ScheduleError(f"{shown} needs {job.size} ranks: {have}")
    return job


def _typed(mesh: str, tp: int, cp: int | None, dp: int) -> Job:
    """The job of a mesh that was typed; tp, cp and dp may only say the same."""
    axes = parse_mesh(mesh)
    split = prod(size for axis, size in axes.items() if axis not in JOB_AXES)
    job = Job(axes.get("tp", tp), split, axes.get("dp", dp), axes)
    for name, said in (("tp", tp), ("dp", dp), ("cp", cp or split)):
        if said not in (1, getattr(job, name)) or (name == "cp" and said != split):
            raise ScheduleError(f"{name}={said} contradicts mesh {mesh}, whose {name} is {getattr(job, name)}")
    return job
