"""What a topology of NCCL's says, with the quirks that published ones have."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.files import nccl_topo, read
from topologies.files.facts import FileError
from topologies.files.text import load
from topologies.units import Gbit

DATA = Path(__file__).parents[2] / "data" / "files"
CASES = Path(__file__).parents[3] / ".." / "shared" / "cases" / "nccl_topo_xml"
FILES = sorted(CASES.glob("*.xml"))
NEGATIVE = '<nvlink target="b" count="-1"/>'
GEN3, GEN4 = 8e9 / 8 * 128 / 130, 16e9 / 8 * 128 / 130  # bytes/s of a lane


def said(body, version="1"):
    """The facts of a machine with one CPU that holds these elements."""
    return nccl_topo.read(f'<system version="{version}"><cpu numaid="0">{body}</cpu></system>', "topo.xml")


def gpu(dev, bus, inside="", link='link_speed="16 GT/s" link_width="16"'):
    return f'<pci busid="{bus}" class="0x030200" {link}><gpu dev="{dev}" sm="80">{inside}</gpu></pci>'


@pytest.fixture
def nvswitch():
    return read(str(DATA / "nccl_topo.xml"))


def test_gpus_and_nics_have_the_numa_node_of_their_cpu_in_any_order(nvswitch):
    assert [(gpu.index, gpu.bus, gpu.numa) for gpu in nvswitch.gpus] == [
        (0, "0000:13:00.0", 0),
        (1, "0000:23:00.0", 0),
        (2, "0000:93:00.0", 1),
        (3, "0000:94:00.0", 1),
    ]
    assert [(nic.name, nic.numa, nic.guid) for nic in nvswitch.nics] == [
        ("mlx5_3", 1, "beef00"),
        ("mlx5_18", 1, "beef00"),
        ("mlx5_0", 0, "beef01"),
    ]
    assert {gpu.model for gpu in nvswitch.gpus} == {"A100 SXM4 80GB"}


@pytest.mark.parametrize(
    ("vendor", "device", "card"),
    [
        ("0x15b3", "0x101b", "ConnectX-6"),
        ("0x1D0F", "0xEFA0", "EFA of p4d"),
        ("0x15b3", "0x101c", None),
        ("", "", None),
    ],
)
def test_a_nic_is_the_card_that_its_pci_ids_say(vendor, device, card):
    nic = f'<pci busid="2" class="0x020000" vendor="{vendor}" device="{device}"/>'

    assert [one.card for one in said(gpu(0, "1") + nic).nics] == [card]


def test_the_cpus_are_named_where_all_are_alike():
    def with_cpus(*models):
        cpus = "".join(
            f'<cpu numaid="{i}" vendor="GenuineIntel" familyid="6" modelid="{model}">{gpu(i, str(i))}</cpu>'
            for i, model in enumerate(models)
        )
        return nccl_topo.read(f'<system version="1">{cpus}</system>', "topo.xml").cpu

    assert with_cpus(143, 143) == ("GenuineIntel", 6, 143)
    assert with_cpus(143, 85) is None
    assert said(gpu(0, "1")).cpu is None


def test_links_to_several_switches_add_up_and_the_fewer_of_two_gpus_count(nvswitch):
    # gpu0 5, gpu1 4, gpu2 2 + 3, gpu3 3 + 2
    assert nvswitch.switched
    assert nvswitch.links == {(0, 1): 4, (0, 2): 5, (0, 3): 5, (1, 2): 4, (1, 3): 4, (2, 3): 5}
    assert any("different numbers of links" in note for note in nvswitch.notes)


def test_the_link_of_a_device_is_the_one_above_it_and_a_card_of_two_ports_shares_it(nvswitch):
    tree = nvswitch.tree
    up = {node: next(iter(tree[node].items())) for node in ("gpu0", "gpu1", "gpu2", "gpu3", "mlx5_0")}

    assert up["gpu2"][1]["bandwidth"] == pytest.approx(16 * GEN4)
    assert up["gpu3"][1]["bandwidth"] == pytest.approx(8 * GEN4)
    assert up["gpu0"][1]["bandwidth"] is None  # link_speed="" link_width="0"
    assert up["gpu1"][1]["bandwidth"] is None  # 2.5 GT/s
    assert up["mlx5_0"][1]["bandwidth"] == pytest.approx(16 * GEN4)
    (card,) = {*tree["mlx5_3"]}
    assert {*tree["mlx5_18"]} == {card}
    assert tree[card]["mlx5_3"]["bandwidth"] == pytest.approx(5e9 / 8 * 8 / 10 * 16)
    assert tree["cpu0"]["cpu1"] == {"kind": "socket", "bandwidth": None}
    assert all(tree.edges[b, a]["bandwidth"] == data["bandwidth"] for a, b, data in tree.edges(data=True))


def test_two_devices_meet_at_a_switch_several_switches_a_cpu_or_beyond(nvswitch):
    assert nvswitch.near["gpu2", "gpu3"] == "PIX"
    assert nvswitch.near["gpu2", "mlx5_3"] == "PIX"
    assert nvswitch.near["mlx5_3", "mlx5_18"] == "PIX"
    assert nvswitch.near["gpu1", "mlx5_0"] == "PXB"
    assert nvswitch.near["gpu0", "gpu1"] == "PHB"
    assert nvswitch.near["gpu0", "gpu2"] == "SYS"


def test_a_rate_that_no_port_has_is_kept_and_said(nvswitch):
    assert [nic.bandwidth for nic in nvswitch.nics] == [180 * Gbit, 200 * Gbit, 200 * Gbit]
    assert "speed 180000 Mb/s is that of no port: kept as printed: mlx5_3" in nvswitch.notes
    assert "ports of one guid, on one card: mlx5_3 and mlx5_18" in nvswitch.notes


def test_class_codes_say_what_a_file_made_by_hand_holds_and_bus_ids_number_it():
    facts = read(str(DATA / "nccl_topo_flat.xml"))

    assert [(gpu.index, gpu.bus) for gpu in facts.gpus] == [(0, "020e:00:00.0"), (1, "020f:00:00.0")]
    assert [(nic.name, nic.bus, nic.bandwidth) for nic in facts.nics] == [
        ("nic0", "021e:00:00.0", None),
        ("nic1", "021f:00:00.0", None),
    ]
    assert facts.switched is None
    assert facts.gpus[0].numa is None
    assert set(facts.near.values()) == {"PIX"}
    for part in ("made up for a PCIe switch", "no <gpu>", "no <net>", "numaid", "link width 1"):
        assert any(part in note for note in facts.notes), part


def test_gpus_of_rccl_have_the_name_of_their_device_or_of_their_architecture():
    facts = read(str(DATA / "nccl_topo_rccl.xml"))

    assert [gpu.model for gpu in facts.gpus] == ["gfx90a", "gfx90a", "Instinct MI300X"]
    assert facts.link_kind == "xgmi"
    assert facts.switched is False


def test_of_links_that_two_gpus_count_differently_the_smaller_count_is_kept_and_said():
    facts = read(str(DATA / "nccl_topo_rccl.xml"))

    assert facts.links == {(0, 1): 3, (1, 2): 2}
    assert any("gpu0 lists 4 to gpu1, which lists 3" in note for note in facts.notes)
    assert any("gpu2 to 0000:09:00.0" in note for note in facts.notes)


def test_an_interface_that_software_made_is_left_out_and_another_without_a_device_is_kept():
    facts = read(str(DATA / "nccl_topo_rccl.xml"))

    assert [(nic.name, nic.bandwidth) for nic in facts.nics] == [("eth0", None)]
    assert facts.tree["cpu0"]["eth0"]["bandwidth"] is None
    assert any("veth1a2b" in note for note in facts.notes)


@pytest.mark.parametrize(
    "speed, width, rate",
    [
        ("8 GT/s", "16", 16 * GEN3),
        ("16.0 GT/s PCIe", "8", 8 * GEN4),
        ("32 GT/s", "16", 32 * GEN4),
        ("5.0 GT/s PCIe", "16", 16 * 5e9 / 8 * 8 / 10),
        ("64.0 GT/s PCIe", "16", 16 * 64e9 / 8 * 242 / 256),
        ("2.5 GT/s", "16", None),
        ("16 GT/s", "1", None),
        ("16 GT/s", "0", None),
        ("16 GT/s", "-1", None),
        ("Unknown speed", "63", None),
        ("", "16", None),
        ("17 GT/s", "16", None),
    ],
)
def test_bytes_a_second_are_lanes_times_transfers_less_the_encoding(speed, width, rate):
    facts = said(gpu(0, "a", link=f'link_speed="{speed}" link_width="{width}"'))

    bandwidth = facts.tree["gpu0"]["cpu0"]["bandwidth"]
    assert bandwidth == (None if rate is None else pytest.approx(rate))
    assert (bandwidth is None) == any("link speed" in note or "link width" in note for note in facts.notes)


def test_hosts_of_one_rack_are_apart_but_for_their_nvlinks():
    switch = '<nvlink target="ff" count="18" tclass="0x068000"/>'
    cpus = "".join(f'<cpu host_hash="0x{n}" numaid="0">{gpu(0, "0000:01:00.0", switch)}</cpu>' for n in range(2))
    facts = nccl_topo.read(f'<system version="1">{cpus}</system>', "rack.xml")

    assert [one.index for one in facts.gpus] == [0, 1]
    assert facts.links == {(0, 1): 18}
    assert [facts.tree.nodes[f"gpu{i}"]["host"] for i in range(2)] == ["host0", "host1"]
    assert not facts.tree.has_edge("cpu0", "cpu1")
    assert not facts.near


@pytest.mark.parametrize(
    "text, wrong",
    [
        ((DATA / "nccl_topo_cut.xml").read_text(), "line 14: the text ends inside <gpu> of line 14, which is never "),
        ('<pci busid="a"/>', "line 1: begins with <pci>: expected <system> around all"),
        ('\n\n<cpu numaid="0"><pci/></cpu>', "line 3: begins with <cpu>: expected <system> around all"),
        ("</pci>\n</cpu></system>", "line 1: </pci> closes what was never opened: the beginning of the document"),
        ("<system>\n<cpu>\n</system>", "line 3: <cpu> of line 2 is not closed where another tag closes"),
        ("<system/>\n<system/>", "line 2: more follows after the end of <system>: one file holds one document"),
        ("<system", "line 1: the text ends inside its first tag"),
        ("<system><cpu numaid=0/></system>", "line 1: is no XML: not well-formed (invalid token)"),
        ("<system/>", "line 1: names no GPU: no <cpu> with a <pci> in it"),
        (
            '<system><cpu><pci busid="0000:00:1b.0"/></cpu></system>',
            "line 1: names no GPU: none of its 1 <pci> has a <gpu>, or a class code of one (0x03, 0x12)",
        ),
        (f"<system><cpu>{gpu(0, 'a')}\n{gpu(0, 'b')}</cpu></system>", "line 2: two GPUs are dev 0"),
        (f"<system><cpu>{gpu('x', 'a')}</cpu></system>", "line 1: dev of a <gpu> is 'x': no number"),
        (
            f"<system><cpu>{gpu(0, 'a', NEGATIVE)}</cpu></system>",
            "line 1: count of an <nvlink> is '-1': expected 1 to 64",
        ),
        (
            f'<system><cpu>{gpu(0, "a")}<nic><net name="n"/><net name="n"/></nic></cpu></system>',
            "line 1: two NICs are alike: n",
        ),
        (f'<system><cpu>{gpu(0, "a")}<nic><net name="gpu0"/></nic></cpu></system>', "two devices are called gpu0"),
    ],
)
def test_a_broken_document_is_refused_in_a_line_that_says_what_and_where(text, wrong):
    assert nccl_topo.looks_like(text)
    with pytest.raises(FileError) as error:
        nccl_topo.read(text, "topo.xml")

    assert wrong in str(error.value)
    assert str(error.value).isprintable()


def test_a_prompt_before_and_after_is_passed_over():
    facts = nccl_topo.read(f"$ cat topo.xml\n<system><cpu>{gpu(0, 'a')}</cpu></system>\n$ ", "topo.xml")

    assert len(facts.gpus) == 1


@st.composite
def trees(draw):
    """A PCIe tree: text of its elements, bytes/s above each GPU and each NIC by name, and its NVLinks."""
    gpus, nics, text = {}, {}, []
    shape = draw(st.lists(st.lists(st.sampled_from(["gpu", "nic"]), max_size=4), min_size=1, max_size=4))
    shape[0].append("gpu")
    rates = {"8 GT/s": GEN3, "16.0 GT/s PCIe": GEN4, "32 GT/s": 2 * GEN4}
    number = sum(kinds.count("gpu") for kinds in shape)
    counts = {(a, b): draw(st.integers(0, 6)) for a in range(number) for b in range(a)}
    for switch, kinds in enumerate(shape):
        text.append(f'<pci busid="s{switch}" class="0x060400" link_speed="16 GT/s" link_width="16">')
        for kind in kinds:
            speed, width = draw(st.sampled_from(sorted(rates))), draw(st.sampled_from([4, 8, 16]))
            link = f'link_speed="{speed}" link_width="{width}"'
            if kind == "gpu":
                n = len(gpus)
                links = "".join(
                    f'<nvlink target="g{a + b - n}" count="{count}" tclass="0x030200"/>'
                    for (a, b), count in counts.items()
                    if n in (a, b) and count
                )
                text.append(gpu(n, f"g{n}", links, link))
                gpus[f"gpu{n}"] = rates[speed] * width
            else:
                name = f"mlx5_{len(nics)}"
                text.append(
                    f'<pci busid="n" class="0x020700" {link}><nic><net name="{name}" speed="1000"/></nic></pci>'
                )
                nics[name] = rates[speed] * width
        text.append("</pci>")
    return "".join(text), gpus | nics, {(b, a): count for (a, b), count in counts.items() if count}


@given(tree=trees())
@settings(max_examples=50)
def test_a_tree_is_read_as_it_was_written(tree):
    text, rates, links = tree
    facts = said(text)

    devices = {node for node, kind in facts.tree.nodes(data="kind") if kind in ("gpu", "nic")}
    assert devices == set(rates)
    for device in devices:
        ((_, data),) = facts.tree[device].items()
        assert data["bandwidth"] == pytest.approx(rates[device])
    assert facts.links == links


@pytest.mark.skipif(not FILES, reason="the published topologies are not in ../shared/cases")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_published_topology_holds_the_gpus_that_its_index_says(path):
    facts = nccl_topo.read(load(str(path)), path.name)

    gpus = {"11": 8, "13": 16, "14": 8, "15": 3, "16": 4}.get(path.name[:2], 8)
    nics = {"05": 4, "06": 4, "14": 4, "15": 1, "16": 1}.get(path.name[:2], 8)
    per_gpu = {"11": {7}, "13": {7}, "14": {3}, "16": {3}}.get(path.name[:2], {0})
    assert (len(facts.gpus), len(facts.nics)) == (gpus, nics)
    ends = [sum(count for pair, count in facts.links.items() if one.index in pair) for one in facts.gpus]
    assert set(ends) <= per_gpu | {6, 7, 8}
    assert {one.index for one in facts.gpus} == set(range(gpus))
