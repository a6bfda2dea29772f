"""An algorithm of the caller's own, FILE.py:NAME: its code may print, fail or try to end the process."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from algorithms.ir import Attention, Inapplicable, Mesh, Program, Schedule, ScheduleError
from algorithms.ir.laws import check


def load(path: str, function: str) -> dict[str, Program]:
    """Return the algorithm of that name in a file, by its phase.

    Raises:
        ValueError: no such file or algorithm, or the file fails to load.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise ValueError(f"no file {path!r} to load algorithm {function!r} from")
    module = _module(file, path)
    program = getattr(module, function, None)
    if not isinstance(program, Program):
        have = [name for name, x in vars(module).items() if isinstance(x, Program)]
        raise ValueError(f"{path} has no @spmd function {function!r}: it has {', '.join(have) or 'none'}")
    return {program.phase: program}


def _module(file: Path, path: str) -> ModuleType:
    """Run a file once and return its module."""
    name = f"{file.stem}_{hashlib.sha1(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with aside():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"{path} does not load: {type(error).__name__}: {error}{_line(error, file)}") from error
    return module


def traced(name: str, program: Program, problem: Attention, mesh: Mesh) -> Schedule:
    """Trace an algorithm and hold it to the laws.

    Args:
        name: what messages call it.
    Raises:
        Inapplicable: it cannot serve this problem on this mesh.
        ScheduleError: it breaks a law, or its code fails; the message names the line.
    """
    with _told(name, program):
        schedule = program(problem, mesh)
        check(schedule)
    return schedule


def written(name: str, program: Program, problem: Attention, mesh: Mesh) -> Schedule:
    """Trace an algorithm without holding the whole to the laws; it raises as `traced` does."""
    with _told(name, program):
        return program(problem, mesh)


@contextlib.contextmanager
def _told(name: str, program: Program) -> Iterator[None]:
    """Turn whatever somebody else's code raises into one line that names the algorithm and the line of its file."""
    try:
        with aside():
            yield
    except Inapplicable:
        raise
    except (Exception, SystemExit) as error:  # leaving with status 0 would look like an answer
        what = f": {error}" if isinstance(error, ScheduleError) else f" fails: {type(error).__name__}: {error}"
        raise ScheduleError(f"{name}{what}{_line(error, Path(_file(program)))}") from error


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Send what somebody else's code prints to stderr: stdout is for answers."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _file(program: Program) -> str:
    return program.body.__code__.co_filename if hasattr(program.body, "__code__") else ""


def _line(error: BaseException, file: Path) -> str:
    """The line of the file that an error came through, if it did."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if Path(at.filename) == file]
    return f" (line {lines[-1]})" if lines else ""
