"""The garbage collector, paused: it walks a growing graph again and again, and finds nothing."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Let no garbage be looked for while many objects are made that all stay: a third of the time, or more."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
