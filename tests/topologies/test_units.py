"""Sizes read as powers of two, and numbers written without loss of their order of magnitude."""

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
    parse_count,
    parse_whole,
    us,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1M", 1_048_576),
        ("1m", 1_048_576),
        ("128K", 131_072),
        ("1.5K", 1536),
        (".5K", 512),
        ("2.0", 2),
        ("8192", 8192),
        (" 3G ", 3 * GiB),
        ("1T", 2**40),
        ("1000000", 1_000_000),
        ("1048576T", 2**60),
    ],
)
def test_k_m_g_t_are_powers_of_two(text, count):
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["1.3K", "0.5", "1.0000000001M", "0.0001K"])
def test_a_fraction_that_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="seq must be a whole number"):
        parse_count(text, "seq")


def test_the_refusal_says_what_the_fraction_would_have_been():
    with pytest.raises(ValueError, match=r"^seq must be a whole number, got 1\.3K = 1331\.2$"):
        parse_count("1.3K", "seq")


NO_COUNTS = [
    "",
    " ",
    ".",
    "K",
    "nan",
    "inf",
    "1e6",
    "1KK",
    "1KB",
    "1,024",
    "0x10",
    "1_000",
    "--1",
    "1 M",
    "1\n2",
]


@pytest.mark.parametrize("text", [*NO_COUNTS, "\N{ARABIC-INDIC DIGIT THREE}", "9" * 5000])
def test_what_is_no_count_is_refused_in_one_short_line(text):
    with pytest.raises(ValueError, match=r"^seq must be digits") as refusal:
        parse_count(text, "seq")
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 140


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("0", "at least 1, got 0"),
        ("-1K", "at least 1, got -1024"),
        ("2097152T", "at most"),
        ("9" * 30, "at most"),
    ],
)
def test_a_count_out_of_range_is_refused(text, rule):
    with pytest.raises(ValueError, match=f"seq must be {rule}"):
        parse_count(text, "seq")


def test_zero_is_a_count_where_it_is_allowed():
    assert parse_count("0", "cached", minimum=0) == 0


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
    assert parse_count(str(count)) == count == parse_whole(str(count), "count")


@given(st.integers(1, 2**20), st.sampled_from(["K", "M", "G", "T"]))
def test_a_suffix_multiplies_by_1024_for_each_step(count, suffix):
    assert parse_count(f"{count}{suffix}") == count * 1024 ** ("KMGT".index(suffix) + 1)


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
    assert float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit] == pytest.approx(
        seconds, rel=5.1e-3
    )
    assert "e" not in number
