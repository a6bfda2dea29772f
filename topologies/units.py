"""Units: SI constants, whole numbers as people type them, and numbers as people read them."""

import math
import re

KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12  # bytes, or bytes/s
KiB, MiB, GiB, TiB = 2**10, 2**20, 2**30, 2**40  # bytes
Gbit = 1e9 / 8  # bytes, or bytes/s: a port of 400 * Gbit carries 50 GB/s
ms, us, ns = 1e-3, 1e-6, 1e-9  # seconds
GFLOP, TFLOP, PFLOP = 1e9, 1e12, 1e15  # FLOP, or FLOP/s

LARGEST_COUNT = 2**60


def parse_whole(text: str, name: str, minimum: int = 1, maximum: int = LARGEST_COUNT) -> int:
    """Read a whole number written in plain digits: ranks, heads, layers, nodes.

    Raises:
        ValueError: anything else, or outside minimum..maximum.
    """
    digits = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", digits):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise ValueError(f"{name} must be a whole number in plain digits, got {shown!r}")
    return in_range(int(digits), name, minimum, maximum)


def in_range(value: int, name: str, minimum: int = 1, maximum: int = LARGEST_COUNT) -> int:
    """Return value if it is a whole number in minimum..maximum.

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}")
    if value > maximum:
        raise ValueError(f"{name} must be at most {maximum}, got {value}")
    return value


def format_seconds(seconds: float) -> str:
    """Write a time in s, ms, us or ns, to three significant digits."""
    return _scaled(seconds, ((1.0, "s"), (ms, "ms"), (us, "us"), (ns, "ns")))


def format_bytes(nbytes: float) -> str:
    """Write a size in B, KiB, MiB, GiB or TiB, to three significant digits."""
    return _scaled(nbytes, ((TiB, "TiB"), (GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB"), (1, "B")))


def format_rate(rate: float) -> str:
    """Write bytes/s as a data sheet does: B/s, kB/s, MB/s, GB/s or TB/s, powers of ten."""
    return _scaled(rate, ((TB, "TB/s"), (GB, "GB/s"), (MB, "MB/s"), (KB, "kB/s"), (1, "B/s")))


def format_flop_rate(rate: float) -> str:
    """Write FLOP/s in FLOP/s, GFLOP/s, TFLOP/s or PFLOP/s, to three significant digits."""
    return _scaled(rate, ((PFLOP, "PFLOP/s"), (TFLOP, "TFLOP/s"), (GFLOP, "GFLOP/s"), (1, "FLOP/s")))


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    """Write value in the largest unit of which there is at least one, after rounding."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {next(unit for size, unit in units if size == 1)}"
    size, unit = next((u for u in units if abs(value) >= u[0] * (1 - 5e-4)), units[-1])
    return f"{_three_digits(value / size)} {unit}"


def _three_digits(value: float) -> str:
    """Write value to three significant digits, never with an exponent."""
    magnitude = math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return f"{value:.{max(0, 2 - magnitude)}f}"
