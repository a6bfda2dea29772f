"""Whole numbers read strictly, and numbers written without loss of their order of magnitude."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.units import (
    GB,
    TFLOP,
    Gbit,
    GiB,
    format_bytes,
    format_flop_rate,
    format_rate,
    format_seconds,
    in_range,
    ns,
    parse_whole,
    us,
)


@pytest.mark.parametrize("text", ["1K", "1.0", "", "nan", "8 8", "1" * 50])
def test_plain_numbers_have_no_suffix(text):
    with pytest.raises(ValueError, match="nodes must be a whole number in plain digits"):
        parse_whole(text, "nodes")


@pytest.mark.parametrize("value", [True, 2.0, "2", None, math.nan])
def test_a_size_is_an_integer(value):
    with pytest.raises(ValueError, match="nodes must be a whole number"):
        in_range(value, "nodes")


@given(st.integers(1, 2**60))
def test_plain_digits_read_back(count):
    assert parse_whole(str(count), "count") == count


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (format_seconds(1.5), "1.50 s"),
        (format_seconds(999.6e-6), "1.00 ms"),
        (format_seconds(0.5 * us), "500 ns"),
        (format_seconds(0.25 * ns), "0.250 ns"),
        (format_seconds(0), "0 s"),
        (format_seconds(-2e-3), "-2.00 ms"),
        (format_seconds(math.inf), "inf s"),
        (format_bytes(512), "512 B"),
        (format_bytes(1023.9), "1.00 KiB"),
        (format_bytes(1000 * 1024), "1000 KiB"),
        (format_bytes(1.5 * GiB), "1.50 GiB"),
        (format_rate(450 * GB), "450 GB/s"),
        (format_rate(400 * Gbit), "50.0 GB/s"),
        (format_rate(3350 * GB), "3.35 TB/s"),
        (format_flop_rate(989.4 * TFLOP), "989 TFLOP/s"),
        (format_flop_rate(0), "0 FLOP/s"),
    ],
)
def test_numbers_are_written_to_three_digits_in_the_largest_unit(written, expected):
    assert written == expected


@given(st.floats(1e-9, 1e6))
def test_a_written_time_is_right_to_three_digits(seconds):
    number, unit = format_seconds(seconds).split()
    assert float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit] == pytest.approx(seconds, rel=5.1e-3)
    assert "e" not in number
