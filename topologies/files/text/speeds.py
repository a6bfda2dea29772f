"""Speeds of network ports as people and tools write them: 4xNDR, hdr100, 400G, 50GB/s, efa."""

import math
import re

from topologies.units import GB, MB, Gbit, format_rate

# Gbit/s of data on one lane, after line coding: SDR, DDR and QDR signal 2.5, 5 and 10 Gbit/s in 8b/10b; FDR10 and FDR
# 10.3125 and 14.0625 and EDR 25.78125 in 64b/66b; HDR and what follows double EDR. InfiniBand Architecture
# Specification, volume 2 (link speeds); https://www.infinibandta.org/infiniband-roadmap/ rounds them.
LANE = {
    "SDR": 2.0,
    "DDR": 4.0,
    "QDR": 8.0,
    "FDR10": 10.0,
    "FDR": 14.0625 * 64 / 66,
    "EDR": 25.0,
    "HDR": 50.0,
    "NDR": 100.0,
    "XDR": 200.0,
}
LANES = 4  # of a port, unless said
# Words for a port that are no InfiniBand rate, in Gbit/s; facts of the makers, as of AWS's p4d and p5 and Cassini.
WORDS = {"efa": 100.0, "slingshot": 200.0, "slingshot11": 200.0, "cassini": 200.0, "opa": 100.0, "omnipath": 100.0}
LEAST, MOST = 1 * MB, 1e6 * GB  # bytes/s of a port: beyond them a number is a mistake

_RATE = re.compile(r"(?:([0-9]{1,2})x ?)?(FDR10|[SDQFEHNX]DR)(?:-?([0-9]{1,4}))?", re.IGNORECASE)
_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) ?([a-z/]*)", re.IGNORECASE)
_BITS = ("g", "gb", "gbit", "gbps", "gb/s", "gbit/s", "gbits", "gbits/s", "gbe", "ge")


def port_rate(width: int, speed: str) -> float | None:
    """Return the bytes/s of data of an InfiniBand port of so many lanes in one direction, None if unknown."""
    lane = LANE.get(speed.upper())
    return lane * width * Gbit if lane and width else None


def parse_speed(text: str) -> float:
    """Read the speed of a NIC, in bytes/s in one direction.

    G, Gb, Gbit and Gbps are gigabits a second, as ports are sold; GB/s (with a capital B) and GBps are gigabytes. A
    rate such as ndr is of four lanes unless said, as 2xHDR or hdr100.

    Raises:
        ValueError: it is none.
    """
    word = text.strip()
    rate, number = _RATE.fullmatch(word), _NUMBER.fullmatch(word)
    speed: float | None = None
    if word.lower() in WORDS:
        speed = WORDS[word.lower()] * Gbit
    elif rate:
        speed = float(rate[3]) * Gbit if rate[3] else port_rate(int(rate[1] or LANES), rate[2])
    elif number and number[2] in ("GB/s", "GBps", "GBs"):
        speed = float(number[1]) * GB
    elif number and number[2].lower() in _BITS:
        speed = float(number[1]) * Gbit
    elif number:
        raise ValueError(f"nic {word[:40]}: say the unit, as {number[1]}G (Gbit/s) or {number[1]}GB/s")
    if speed is None or not math.isfinite(speed):
        raise ValueError(f"nic must be a speed, such as 400G, 50GB/s, ndr, hdr100 or efa, got {word[:40]!r}")
    if not LEAST <= speed <= MOST:
        raise ValueError(f"nic is a speed from {format_rate(LEAST)} to {format_rate(MOST)}, got {word[:40]}")
    return speed
