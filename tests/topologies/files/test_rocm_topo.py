"""The blocks of `rocm-smi --showtopo` are read for what each of them says; one that is missing leaves that open."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.files.facts import FileError
from topologies.files.rocm_topo import looks_like, read

DATA = Path(__file__).parents[2] / "data" / "files"

HEADINGS = {
    "weight": "Weight between two GPUs",
    "hops": "Hops between two GPUs",
    "type": "Link Type between two GPUs",
    "access": "Link accessibility between two GPUs",
}


def of(name):
    return read((DATA / f"{name}.txt").read_text(), name)


def block(kind, *rows):
    names = [f"GPU{i}" for i in range(len(rows))]
    header = "       " + "".join(f"{name:<13}" for name in names)
    lines = [f"{a:<7}" + "".join(f"{word:<13}" for word in row.split()) for a, row in zip(names, rows, strict=True)]
    return "\n".join([f"===== {HEADINGS[kind]} =====", header, *lines, "", ""])


ONE_LINK = "how many xGMI links join a pair is not said: 1 is counted; nor is their rate"
CLASSES = "PCIe pairs: 2 hops are taken as PHB, 3 as SYS; PCIe switches are not shown"


def test_only_a_weight_of_one_hop_is_a_link_of_its_own():
    facts = of("rocm_topo")

    assert [(gpu.index, gpu.numa) for gpu in facts.gpus] == [(0, 0), (1, 1), (2, 1)]
    assert (facts.links, facts.link_kind, facts.link_bandwidth) == ({(0, 1): 1, (1, 2): 1}, "xgmi", None)
    assert facts.near == {}
    assert facts.notes == (ONE_LINK, "xGMI through other GPUs, no link of their own: GPU0-GPU2 of weight 30")


def test_weights_alone_tell_xgmi_from_pcie():
    facts = of("rocm_weights")

    assert [gpu.numa for gpu in facts.gpus] == [0, 0, None]
    assert facts.links == {}
    assert facts.near["gpu0", "gpu1"] == facts.near["gpu1", "gpu0"] == "PHB"
    assert facts.near["gpu0", "gpu2"] == "SYS"
    assert facts.notes == (
        "no NUMA node is given for GPU2",
        "no table of hops or type: taken from the others, weight 15 as xGMI, 40 as PCIe",
        CLASSES,
    )


def test_types_alone_do_not_tell_which_pairs_are_joined():
    facts = read(block("type", "0 XGMI PCIE", "XGMI 0 PCIE", "PCIE PCIE 0"), "f")

    assert (facts.links, facts.near) == ({(0, 1): 1}, {})
    assert "which xGMI pairs are joined directly is not said: all are taken so" in facts.notes


def test_hops_alone_tell_xgmi_from_pcie():
    facts = read(block("hops", "0 1 3", "1 0 2", "3 2 0"), "f")

    assert facts.links == {(0, 1): 1}
    assert (facts.near["gpu0", "gpu2"], facts.near["gpu1", "gpu2"]) == ("SYS", "PHB")


def test_numa_lines_alone_name_the_gpus():
    facts = read("GPU[0]\t\t: (Topology) Numa Node: 1\nGPU[0]\t\t: (Topology) Numa Affinity: 0\n", "f")

    assert [(gpu.index, gpu.numa) for gpu in facts.gpus] == [(0, 0)]
    assert facts.format == "rocm-smi --showtoponuma"
    assert facts.notes == (
        "Numa Node and Affinity of GPU0 differ: the affinity is taken",
        "no table of weight, hops or type: how the GPUs meet is not said",
    )


def test_models_and_access_are_read_where_they_are_shown():
    series = "GPU[0]\t\t: Card Series: \t\tAMD Instinct MI210\nGPU[1]\t\t: Card series: \t\tAMD Instinct MI210\n"

    open_to_all = read(series + block("access", "True True", "True True"), "f")
    closed = read(block("access", "True False", "False True"), "f")

    assert [gpu.model for gpu in open_to_all.gpus] == ["AMD Instinct MI210"] * 2
    assert open_to_all.peer_to_peer is True
    assert closed.peer_to_peer is False
    assert "no peer-to-peer access: GPU0-GPU1; GPU1-GPU0" in closed.notes


def test_where_both_directions_differ_the_worse_is_taken_and_said():
    facts = read(block("weight", "0 15", "40 0") + block("type", "0 XGMI", "PCIE 0"), "f")

    assert (facts.links, facts.near["gpu0", "gpu1"]) == ({}, "PHB")
    assert "weight of GPU0 to GPU1 is 15, of GPU1 to GPU0 40: the worse of both directions is taken" in facts.notes
    assert "type of GPU0 to GPU1 is XGMI, of GPU1 to GPU0 PCIE: the worse of both directions is taken" in facts.notes


def test_the_same_output_twice_is_one_machine():
    text = (DATA / "rocm_topo.txt").read_text()

    assert read(text + text, "f") == read(text, "f")


WEIGHTS = block("weight", "0 15", "15 0")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (WEIGHTS.rstrip().rsplit("\n", 1)[0], "line 3: the paste ends after row GPU0; row GPU1 is missing"),
        (WEIGHTS.rstrip()[:-1], "line 4: the paste ends inside row GPU1; row GPU1 is missing"),
        (WEIGHTS.rstrip()[:-30], "line 3: the paste ends after row GPU0; row GPU1 is missing"),
        (WEIGHTS + "==== Hops between two GPUs ====", "line 6: no table under this heading (hops between two gpus)"),
        (
            WEIGHTS.replace("15 ", "XGMI "),
            "line 3: row GPU0, column GPU1 of the table of weight: 'XGMI', expected a number",
        ),
        (block("type", "0 15", "15 0"), "column GPU1 of the table of type: '15', expected XGMI or PCIE"),
        (block("weight", "1 15", "15 0"), "column GPU0 of the table of weight: '1', expected 0"),
        (
            WEIGHTS + block("weight", "0 40", "40 0"),
            "line 7: a second, different table of weight follows that of line 2",
        ),
        (
            WEIGHTS + block("hops", "0 1 1", "1 0 1", "1 1 0"),
            "line 7: the table of hops has other GPUs than the one before",
        ),
        (
            WEIGHTS.replace("Weight", "Width") + "ROCm System Management",
            "line 2: a table under the heading 'width between",
        ),
        (WEIGHTS + "GPU 0 : (Topology) Numa Node: 0", "line 6: the NUMA lines of GPU1 are missing: paste the whole"),
        (
            WEIGHTS + "\n".join(f"GPU {i} : (Topology) Numa Node: 0" for i in range(3)),
            "line 8: the rows of GPU2 are missing",
        ),
        (WEIGHTS + "GPU 0 : (Topology) Numa Aff", "line 6: 'GPU 0 : (Topology) Numa Aff', expected a line such as"),
        (
            "GPU[0] : (Topology) Numa Node: 0\nGPU[0] : (Topology) Numa Node: 1",
            "line 2: Numa Node of GPU 0 stands twice",
        ),
        ("== ROCm System Management Interface ==", "holds no table and no NUMA line: paste the whole output"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_place(text, wrong):
    assert looks_like(text)
    with pytest.raises(FileError) as error:
        read(text, "paste.txt")
    assert wrong in str(error.value)
    assert str(error.value).isprintable()


@given(st.integers(2, 9).flatmap(lambda n: st.lists(st.sampled_from([15, 30, 40, 72]), min_size=n * n, max_size=n * n)))
@settings(derandomize=True)
def test_printed_weights_and_types_read_back_exactly(flat):
    n = int(len(flat) ** 0.5)
    weight = [[0 if i == j else flat[min(i, j) * n + max(i, j)] for j in range(n)] for i in range(n)]
    kind = [["XGMI" if 0 < w < 40 else "PCIE" if w else "0" for w in row] for row in weight]
    text = block("weight", *(" ".join(map(str, row)) for row in weight)) + block("type", *map(" ".join, kind))

    facts = read(text, "f")

    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    assert facts.links == {(i, j): 1 for i, j in pairs if i < j and weight[i][j] == 15}
    assert facts.near == {
        (f"gpu{i}", f"gpu{j}"): "PHB" if weight[i][j] == 40 else "SYS" for i, j in pairs if weight[i][j] >= 40
    }
