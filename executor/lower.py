"""Lowering: a schedule becomes one rank's flat list of calls, in the fixed order, all lookups done beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.ir import Op, Schedule
from algorithms.ir.order import Step, lifetimes

Call = Callable[[], None]
Function = Callable[..., Any]
Slots = list[Any]


class Communication(NamedTuple):
    """A communication op on one rank: post starts it on the inputs, wait ends what post returned."""

    post: Function
    wait: Callable[[Any], Sequence[Any]]


class Program(NamedTuple):
    """One rank's program: the calls to make, what each stands for, and the slots its values live in."""

    calls: tuple[Call, ...]
    lines: tuple[Step, ...]
    slots: Slots


def lower(schedule: Schedule, compute: Callable[[Op], Function], communicate: Callable[[Op], Communication]) -> Program:
    """Bind every line of the fixed order to what it does on one rank.

    Args:
        compute: what a compute op does with its input arrays; it returns its outputs.
        communicate: how a communication op is posted and waited for.
    """
    size = 1 + max((v.id for op in schedule.ops for v in op.outputs), default=0)
    slots: Slots = [None] * (size + len(schedule.ops))  # values, then what each post returned
    started: dict[int, Communication] = {}
    calls: list[Call] = []
    lines: list[Step] = []
    for step, _, ended in lifetimes(schedule):
        action, op = step
        inputs, outputs, dead = ([v.id for v in values] for values in (op.inputs, op.outputs, ended))
        pending = size + op.id
        if action == "run":
            calls.append(run(compute(op), inputs, outputs, dead, slots))
        elif action == "post":
            started[op.id] = communicate(op)
            calls.append(_post(started[op.id].post, inputs, pending, slots))
        else:
            calls.append(_wait(started.pop(op.id).wait, pending, outputs, dead, slots))
        lines.append(step)
    return Program(tuple(calls), tuple(lines), slots)


def run(function: Function, inputs: list[int], outputs: list[int], dead: list[int], slots: Slots) -> Call:
    """Return the call of a line that reads slots, computes, writes slots and lets go of others."""

    def call() -> None:
        for slot, array in zip(outputs, function(*[slots[i] for i in inputs])):  # noqa: B905, the hot loop
            slots[slot] = array
        for slot in dead:
            slots[slot] = None

    return call


def _post(post: Function, inputs: list[int], pending: int, slots: Slots) -> Call:
    def call() -> None:
        slots[pending] = post(*[slots[i] for i in inputs])

    return call


def _wait(
    wait: Callable[[Any], Sequence[Any]], pending: int, outputs: list[int], dead: list[int], slots: Slots
) -> Call:
    def call() -> None:
        for slot, array in zip(outputs, wait(slots[pending])):  # noqa: B905, the hot loop
            slots[slot] = array
        slots[pending] = None
        for slot in dead:
            slots[slot] = None

    return call


def execute(program: Program, clock: Callable[[], float]) -> NDArray[np.float64]:
    """Make all calls; return when each ended, after the time of the start: (lines + 1,)."""
    times = [clock()]
    note = times.append
    for call in program.calls:
        call()
        note(clock())
    return np.array(times)


def spans(program: Program, times: NDArray[np.float64], ops: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """When each op started and ended, (ops,) twice: a communication op from its post to the end of its wait."""
    start, end = np.zeros((2, ops))
    for number, (action, op) in enumerate(program.lines):
        if action != "wait":
            start[op.id] = times[number]
        if action != "post":
            end[op.id] = times[number + 1]
    return start, end


def waits(program: Program, times: NDArray[np.float64], ops: int) -> NDArray[np.float64]:
    """When each communication op began to be waited for, (ops,); a compute op when it ended."""
    begun = np.zeros(ops)
    for number, (action, op) in enumerate(program.lines):
        if action != "post":
            begun[op.id] = times[number + (action == "run")]
    return begun
