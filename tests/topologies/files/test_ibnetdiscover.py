"""ibnetdiscover: each cable once, at the speed of its data; hosts by the names of their cards."""

from pathlib import Path

import pytest

from topologies.files import ibnetdiscover
from topologies.files.facts import FileError
from topologies.files.text.speeds import parse_speed, port_rate
from topologies.units import GB, Gbit

DATA = Path(__file__).parents[2] / "data" / "files"


def read(text, file="ib.txt"):
    assert ibnetdiscover.looks_like(text)
    return ibnetdiscover.read(text, file)


def blocks():
    return (DATA / "ib_blocks.txt").read_text()


def test_every_cable_is_there_once_though_it_is_listed_from_both_ends():
    facts = read(blocks())
    between = [(one.a, one.b) for one in facts.cables if one.a.startswith(("leaf", "spine"))]

    assert facts.switches == ("leaf0", "leaf1", "spine0", "spine1")
    assert len(facts.cables) == 3 * 2 + 2 * 2 * 2
    assert sorted(map(tuple, map(sorted, between))) == sorted(
        (f"leaf{r}", f"spine{s}") for r in (0, 1) for s in (0, 1) for _ in (0, 1)
    )
    assert not any("one end" in note for note in facts.notes)


def test_hosts_are_sorted_as_people_count_and_what_is_no_host_is_left_out_aloud():
    facts = read(blocks())

    assert list(facts.hosts) == ["box1", "box2", "box10", "idle"]
    assert [port.name for port in facts.hosts["box10"]] == ["mlx5_0", "mlx5_1"]
    assert facts.hosts["box1"][0].guid == "bb" + "0" * 12
    assert facts.hosts["idle"][0].bandwidth is None
    assert "2 aggregation nodes inside switches are no hosts" in facts.notes
    assert "1 cards name no host (MT4129 ConnectX7   Mellanox Technologies): left out" in facts.notes


def test_a_cable_slower_than_the_others_of_its_kind_trained_down():
    facts = read(blocks())
    (slow,) = [one for one in facts.cables if one.expected is not None]

    assert (slow.a, slow.b, slow.text) == ("box10/mlx5_1", "leaf1", "4xHDR")
    assert (slow.bandwidth, slow.expected) == (25 * GB, 50 * GB)
    assert any("box10/mlx5_1 - leaf1 (4xHDR)" in note for note in facts.notes)


def test_the_form_of_one_line_a_port():
    facts = read((DATA / "ib_ports.txt").read_text())
    rates = {one.a: (one.bandwidth, one.expected) for one in facts.cables}

    assert facts.switches == ("Loose Switch of a Maker", "edge one")
    assert list(facts.hosts) == ["cell2", "cell3", "cell4", "cell 1"]
    assert rates["cell2/HCA-1"] == (12.5 * GB, None)
    assert rates["cell3/HCA-1"] == (0.25 * GB, 12.5 * GB)  # one lane of SDR
    assert rates["cell4/HCA-1"] == (None, None)
    assert "1 cables have no rate that is known" in facts.notes


def test_a_part_of_a_listing_says_that_it_is_one():
    whole = blocks()
    facts = read(whole[: whole.index("\nvendid", whole.index("leaf1:MQM9701/U1"))])

    assert any("listed from one end only" in note and "part of a listing" in note for note in facts.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: text.index('"S-00aa000000000020"') + 12], r"^ib.txt, line \d+: a line of a port is cut"),
        (lambda text: text[text.index("[1]") :], r"^ib.txt, line 1: a port comes before the Switch or Ca"),
        (
            lambda text: text.replace('[2]\t"H-00bb000000000010"', '[1]\t"H-00bb000000000010"', 1),
            "port 1 of MF0;leaf0:MQM9701/U1 is joined to two: box1 mlx5_0 and box2 mlx5_0",
        ),
        (lambda text: text.replace('Ca\t1 "H-', "Ca\t1 ", 1), "the head of a device is cut"),
    ],
)
def test_a_listing_that_is_cut_or_contradicts_itself_is_refused(change, message):
    with pytest.raises(FileError, match=message):
        ibnetdiscover.read(change(blocks()), "ib.txt")


def test_names_that_several_cards_or_switches_have_are_told_apart():
    text = blocks().replace("box2 mlx5_0", "box1 mlx5_0").replace("leaf1:", "leaf0:")
    facts = read(text)

    assert [port.name for port in facts.hosts["box1"]] == ["mlx5_0", "mlx5_0#2", "mlx5_1"]
    assert facts.switches[:2] == ("leaf0", "leaf0#2")
    assert any("several hosts may be called so" in note for note in facts.notes)


def test_boards_of_one_chassis_are_switches_of_their_own():
    facts = read(
        blocks().replace("leaf0:MQM9701/U1", "tall:MQM8790/L01/U1").replace("leaf1:MQM9701/U1", "tall:MQM8790/L02/U1")
    )

    assert facts.switches[2:] == ("tall.L01", "tall.L02")


@pytest.mark.parametrize(
    ("width", "speed", "gbit"),
    [
        (4, "SDR", 8),
        (4, "QDR", 32),
        (4, "FDR10", 40),
        (4, "EDR", 100),
        (2, "HDR", 100),
        (4, "NDR", 400),
        (4, "XDR", 800),
    ],
)
def test_rates_are_those_of_data_after_coding(width, speed, gbit):
    assert port_rate(width, speed) == pytest.approx(gbit * Gbit)


def test_fdr_is_a_little_less_than_its_name():
    assert port_rate(4, "FDR") == pytest.approx(54.545 * Gbit, rel=1e-4)
    assert port_rate(4, "ABC") is None


@pytest.mark.parametrize(
    ("text", "gbit"),
    [
        ("400G", 400),
        ("200Gb", 200),
        ("100 Gbps", 100),
        ("100gbe", 100),
        ("50GB/s", 400),
        ("ndr", 400),
        ("HDR100", 100),
        ("2xHDR", 100),
        ("ndr200", 200),
        ("edr", 100),
        ("efa", 100),
        ("slingshot", 200),
        ("12.5GB/s", 100),
    ],
)
def test_speeds_as_people_type_them(text, gbit):
    assert parse_speed(text) == pytest.approx(gbit * Gbit)


@pytest.mark.parametrize("text", ["400", "", "fast", "-400G", "0G", "1e9G", "9" * 12 + "G", "400Gx", "nan"])
def test_what_is_no_speed_is_refused(text):
    with pytest.raises(ValueError, match=r"^nic "):
        parse_speed(text)
