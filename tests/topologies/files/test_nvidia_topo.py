"""The table of `nvidia-smi topo -m` is read as it is printed, in every form that people paste it in."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.files.facts import CLASSES, FileError
from topologies.files.nvidia_topo import looks_like, read
from topologies.files.text import load
from topologies.units import GB

DATA = Path(__file__).parents[2] / "data" / "files"


def of(name):
    path = str(DATA / f"{name}.txt")
    return read(load(path), path)


def table(*rows, header="GPU0 GPU1 CPU Affinity NUMA Affinity"):
    return "\n".join((f"     {header}", *rows))


def both_ways(near):
    return {**near, **{(b, a): path for (a, b), path in near.items()}}


def test_tabs_empty_cells_a_legend_and_the_shell_around():
    facts = of("topo_tabs")

    assert [(gpu.index, gpu.numa) for gpu in facts.gpus] == [(0, 0), (1, 1)]
    assert [nic.name for nic in facts.nics] == ["mlx5_0", "mlx5_3"]
    assert (facts.links, facts.link_kind, facts.switched, facts.peer_to_peer) == ({(0, 1): 4}, "nvlink", None, None)
    assert facts.near == both_ways(
        {
            ("gpu0", "mlx5_0"): "PIX",
            ("gpu0", "mlx5_3"): "SYS",
            ("gpu1", "mlx5_0"): "SYS",
            ("gpu1", "mlx5_3"): "PXB",
            ("mlx5_0", "mlx5_3"): "SYS",
        }
    )
    assert facts.notes == ("NIC0 .. NIC1 are called as the NIC legend has them: mlx5_0 .. mlx5_3",)


def test_two_columns_that_run_together_are_taken_apart_where_the_other_rows_have_them():
    facts = of("topo_fused")

    assert [gpu.numa for gpu in facts.gpus] == [0, 7, 1]
    assert facts.links == {(0, 1): 2, (0, 2): 2, (1, 2): 2}
    assert facts.near["gpu0", "NIC0"] == "PIX"
    assert facts.near["NIC0", "gpu1"] == "PXB"
    assert facts.format == "mthreads-gmi topo -m"
    assert facts.notes == (
        "the NIC legend does not name NIC0",
        "MT# (MTLinks) is counted like NV# (NVLinks)",
        "taken as PCIe classes: MPB as PXB, SPB as PIX",
        "'112-127,240-2547' of GPU1 runs two columns together: read as 112-127,240-254 and 7",
    )


def test_every_row_run_together_is_read_by_the_header_unless_that_lost_its_indentation():
    header = "        GPU0     GPU1     CPU Affinity   NUMA Affinity"
    rows = "GPU0    X        PIX      112-127,240-2547\nGPU1    PIX      X        112-127,240-2546"

    assert [gpu.numa for gpu in read(f"{header}\n{rows}", "f").gpus] == [7, 6]
    lost = read(f"{header.strip()}\n{rows}", "f")
    assert [gpu.numa for gpu in lost.gpus] == [None, None]
    assert "the row ends with 1 fields, the header with 2: passed over" in lost.notes[0]


def test_a_range_of_numa_nodes_or_none_is_not_said():
    facts = of("topo_range")

    assert [gpu.numa for gpu in facts.gpus] == [None, None, 1, None]
    assert facts.notes == (
        "the NUMA node of GPU0, GPU1 is a range (0-1): taken as not said",
        "no NUMA node is given for GPU3",
    )


def test_a_table_of_peer_to_peer_access_follows():
    facts = of("topo_p2p")

    assert facts.peer_to_peer is True
    assert facts.near == both_ways({("gpu0", "gpu1"): "PHB"})
    assert facts.notes == ("there is no NUMA column: the NUMA nodes of the GPUs are not said",)


@pytest.mark.parametrize(
    ("words", "allowed", "note"),
    [
        ("OK OK OK", True, ""),
        ("GNS GNS GNS", False, "no peer-to-peer access over PCIe (GPU0-GPU1 GNS; GPU0-GPU2 GNS; GPU1-GPU2 GNS)"),
        ("OK CNS CNS", False, "(GPU0-GPU2 CNS; GPU1-GPU2 CNS): taken as none, though 1 of 3 pairs may"),
        ("U U U", None, "peer-to-peer access is shown as unknown (U)"),
    ],
)
def test_peer_to_peer_access_alone(words, allowed, note):
    a, b, c = words.split()
    text = f" GPU0 GPU1 GPU2\n GPU0 X {a} {b}\n GPU1 {a} X {c}\n GPU2 {b} {c} X\n"

    facts = read(text, "f")

    assert facts.format == "nvidia-smi topo -p2p"
    assert len(facts.gpus) == 3
    assert (facts.peer_to_peer, facts.links, facts.near) == (allowed, {}, {})
    assert note in facts.notes[-1]


def test_pairs_with_nvlink_say_nothing_of_peer_to_peer_access_over_pcie():
    links = "GPU0 X NV1 SYS\nGPU1 NV1 X PHB\nGPU2 SYS PHB X"
    peers = "GPU0 X OK CNS\nGPU1 OK X CNS\nGPU2 CNS CNS X"

    facts = read(f" GPU0 GPU1 GPU2\n{links}\n GPU0 GPU1 GPU2\n{peers}", "f")

    assert facts.peer_to_peer is False
    assert facts.notes[-1] == "no peer-to-peer access over PCIe (GPU0-GPU2 CNS; GPU1-GPU2 CNS)"


def test_where_both_directions_differ_the_worse_is_taken_and_said():
    facts = read(" GPU0 GPU1 GPU2\nGPU0 X NV12 PIX\nGPU1 NV11 X PHB\nGPU2 SYS NV2 X", "f")

    assert facts.links == {(0, 1): 11}
    assert facts.near == both_ways({("gpu0", "gpu2"): "SYS", ("gpu1", "gpu2"): "PHB"})
    assert "GPU1 to GPU0 is NV11, GPU0 to GPU1 is NV12" in facts.notes[0]
    assert "GPU2 to GPU1 is NV2, GPU1 to GPU2 is PHB" in facts.notes[0]


def test_a_header_made_by_hand_and_a_legend_in_one_line():
    rows = ["GPU0 X PIX 0-3 0", "NIC0 PIX X", "NIC Legend: NIC0: mlx5_2 NIC1: mlx5_3", "NIC0: is near GPU0"]

    facts = read(table(*rows, header="GPU0 NIC0 Affinity NUMA"), "f")

    assert (facts.gpus[0].numa, facts.nics[0].name) == (0, "mlx5_2")
    assert "NIC1 of the NIC legend has no column" in facts.notes


def test_a_gpu_that_is_not_shown_is_said_and_the_others_keep_their_numbers():
    facts = read(" GPU0 GPU1 GPU4\nGPU0 X NV4 SYS\nGPU1 NV4 X SYS\nGPU4 SYS SYS X", "f")

    assert [gpu.index for gpu in facts.gpus] == [0, 1, 4]
    assert "GPU2, GPU3 not shown" in facts.notes


def test_ports_in_the_same_paste_are_read_too():
    status = (DATA / "nvlink_status.txt").read_text()

    facts = read(f"{table('GPU0 X NV1 0-3 0', 'GPU1 NV1 X 0-3 0')}\n$ nvidia-smi nvlink -s\n{status}", "f")

    assert [gpu.ports for gpu in facts.gpus] == [(25.781 * GB, 0.0), (25.781 * GB, 25.781 * GB)]
    assert facts.gpus[0].model == "Tesla V100-SXM2-16GB"
    assert facts.link_bandwidth == 25.781 * GB
    assert "nvidia-smi nvlink -s in the same paste is read with it" in facts.notes


def test_the_same_table_twice_is_one_machine():
    one = table("GPU0 X NV1 0-3 0", "GPU1 NV1 X 0-3 0")

    assert read(f"{one}\n{one}", "f").notes == ("the table of line 1 stands again in line 4",)


FIRST, SECOND = "GPU0 X PIX 0-23 0", "GPU1 PIX X 0-23 0"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (table(FIRST), "line 2: the paste ends after row GPU0; row GPU1 is missing: paste the whole output"),
        (
            table("GPU0 X"),
            "line 2: the paste ends inside row GPU0; rows GPU0, GPU1 are missing: paste the whole output",
        ),
        (table(SECOND), "line 1: the table lacks row GPU0: paste the whole output"),
        (table(), "line 1: the paste ends after the header; rows GPU0, GPU1 are missing"),
        (
            table(FIRST, "GPU1 PIX"),
            "line 3: the paste ends inside row GPU1; row GPU1 is missing: paste the whole output",
        ),
        (table(FIRST, "GPU1 PIX", "Legend:"), "line 3: row GPU1 has 1 of 2 entries"),
        (table("GPU0 X", SECOND), "line 2: row GPU0 has 1 of 2 entries"),
        (
            table("GPU0 X PIX SYS 0-23 0", SECOND),
            "line 2: row GPU0 has more entries than the header in line 1 has devices",
        ),
        (table(FIRST, SECOND, "GPU2 SYS SYS 0-23 0"), "line 4: row 'GPU2' has no column in the header"),
        (table(FIRST, SECOND, "mlx5_0 SYS SYS"), "line 4: row 'mlx5_0' has no column in the header"),
        (table(FIRST, "..."), "line 3: '...' stands for row GPU1: paste the whole output"),
        (table(FIRST, header="GPU0 ... GPU7"), "line 1: '...' stands for columns that were left out"),
        (table("GPU0 X ... 0-3", header="GPU0 GPU1 GPU2"), "line 2: '...' in row GPU0 stands for entries left out"),
        (table(FIRST, header="GPU0 GPU0"), "line 1: 'GPU0' stands twice in the header"),
        (table(FIRST, FIRST, SECOND), "line 3: row GPU0 stands twice, first in line 2"),
        (
            table("GPU0 X HCCS", "GPU1 HCCS X"),
            "line 2: row GPU0, column GPU1: unknown class 'HCCS', expected one of X, NV#",
        ),
        (table("GPU0 X X", SECOND), "line 2: row GPU0, column GPU1: unknown class 'X'"),
        (table("GPU0 NV1 PIX", SECOND), "line 2: row GPU0, column GPU0: 'NV1', expected X"),
        (table("GPU0 X NV0", "GPU1 NV0 X"), "unknown class 'NV0'"),
        (table(FIRST, SECOND).split("\n", 1)[1], "line 1: row GPU0 has no header above it: paste the whole output"),
        (
            table("GPU0 X NV2", "mlx5_0 NV2 X", header="GPU0 mlx5_0"),
            "line 3: row mlx5_0, column GPU0: NV2, but a NIC has no such links",
        ),
        (
            table(FIRST, SECOND) + "\n" + table(FIRST.replace("PIX", "SYS"), SECOND.replace("PIX", "SYS")),
            "line 4: a second, different table follows that of line 1: save each machine as a file",
        ),
        (
            table(FIRST, SECOND) + "\n" + table("GPU0 X OK", "GPU2 OK X", header="GPU0 GPU2"),
            "line 4: this table has GPU0, GPU2, another one GPU0, GPU1",
        ),
        (table("GPU0 X OK", "GPU1 PIX X"), "line 3: row GPU1, column GPU0: 'PIX', expected one of OK, CNS"),
        (table("GPU0 OK OK", "GPU1 OK X"), "line 2: row GPU0, column GPU0: 'OK', expected X"),
        (table(FIRST, SECOND) + "\nNIC0: mlx5_0\nNIC0: mlx5_1", "line 5: NIC0 is mlx5_0 before and mlx5_1 here"),
        (
            table(
                "GPU0 X PIX SYS", "NIC0 PIX X SYS", "NIC1 SYS SYS X", "NIC0: a0", "NIC1: a0", header="GPU0 NIC0 NIC1"
            ),
            "line 1: two devices are called 'a0'",
        ),
        (table("GPU0 X PIX", "gpu0 PIX X", header="GPU0 gpu0"), "line 1: two devices are called 'gpu0'"),
        ("\n".join([table(FIRST, SECOND)] * 17), "holds more than 16 tables"),
        (table(FIRST, SECOND) + "\nGPU 7: A100 (UUID: GPU-a)", "GPU7 of nvidia-smi -L is not in the table"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(text, wrong):
    assert looks_like(text) or not any(word in text for word in ("X", "PIX"))
    with pytest.raises(FileError) as error:
        read(text, "paste.txt")
    assert str(error.value).startswith("paste.txt")
    assert wrong in str(error.value)
    assert str(error.value).isprintable()


def test_a_paste_that_ends_inside_a_field():
    with pytest.raises(FileError) as error:
        of("topo_cut")
    missing = "rows GPU1 .. GPU3, mlx5_0 are missing"
    assert f"topo_cut.txt, line 3: the paste ends inside row GPU1; {missing}: paste" in str(error.value)


def test_more_devices_than_any_machine_are_refused():
    header = " ".join(f"GPU{i}" for i in range(1025))

    with pytest.raises(FileError, match="line 1: a table of more than 1,024 devices is refused"):
        read(f" {header}\nGPU0 X", "f")


@st.composite
def machines(draw):
    """GPUs, NICs, the class of each pair, NUMA nodes; and a layout: separator, width, what stands around."""
    gpus, nics = draw(st.integers(1, 9)), draw(st.integers(0, 3))
    names = [f"GPU{i}" for i in range(gpus)] + [f"mlx5_{i}" for i in range(nics)]
    path = st.sampled_from(CLASSES)
    linked = st.one_of(st.integers(1, 36).map("NV{}".format), path)
    entries = {}
    for i, a in enumerate(names):
        for b in names[:i]:
            entries[a, b] = entries[b, a] = draw(linked if a.startswith("GPU") else path)
    numa = [draw(st.none() | st.integers(0, 15)) for _ in range(gpus)]
    return names, entries, numa


@given(machines(), st.data())
@settings(derandomize=True)
def test_a_printed_machine_reads_back_exactly(machine, data):
    names, entries, numa = machine
    tabs, quote = data.draw(st.booleans()), data.draw(st.sampled_from(["", "    ", "> ", "\t"]))
    affinity = data.draw(st.sampled_from(["0-23", "0,2,4", "0", "0-15,64-79"]))
    memory = data.draw(st.booleans())  # whether there is a column GPU NUMA ID
    titles = ["CPU Affinity", "NUMA Affinity"] + ["GPU NUMA ID"] * memory
    printed = [["", *names, *titles]]
    for i, a in enumerate(names):
        fields = [a, *(" X " if a == b else entries[a, b] for b in names)]
        if i < len(numa):
            node = "N/A" if numa[i] is None else str(numa[i])
            fields += [affinity, node] + (["", "N/A"] if tabs else ["N/A"]) * memory
        printed.append(fields)
    width = data.draw(st.integers(5, 17))
    ended = [
        "\t".join(row) if tabs else "".join(f"{word:<{max(width, len(word) + 1)}}" for word in row).rstrip()
        for row in printed
    ]
    before, after = data.draw(st.sampled_from([("", ""), ("$ nvidia-smi topo -m\n", "\n\nLegend:\n\n  X    = Self\n")]))
    text = before + "\n".join(quote + line for line in ended) + after

    facts = read(text, "f")

    assert looks_like(text)
    assert [gpu.numa for gpu in facts.gpus] == numa
    assert [nic.name for nic in facts.nics] == [name for name in names if name.startswith("mlx")]
    called = {name: name.lower() for name in names}
    expected = {(called[a], called[b]): path for (a, b), path in entries.items() if path in CLASSES}
    assert facts.near == expected
    links = {(int(a[3:]), int(b[3:])): int(path[2:]) for (a, b), path in entries.items() if path.startswith("NV")}
    assert facts.links == {pair: count for pair, count in links.items() if pair[0] < pair[1]}
