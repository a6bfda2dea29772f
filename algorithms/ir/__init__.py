"""The language: problems, masks, layouts, meshes, schedules, and the tracer that writes them."""

from algorithms.ir.expr import Expr, ScheduleError, where
from algorithms.ir.mesh import Mesh, parse_mesh
from algorithms.ir.problem import Attention, Inapplicable, require
from algorithms.ir.schedule import Op, Partial, Schedule, TensorType, Value
from algorithms.ir.trace import Program, Rank, spmd, tracing

__all__ = [
    "Attention",
    "Expr",
    "Inapplicable",
    "Mesh",
    "Op",
    "Partial",
    "Program",
    "Rank",
    "Schedule",
    "ScheduleError",
    "TensorType",
    "Value",
    "parse_mesh",
    "require",
    "spmd",
    "tracing",
    "where",
]
