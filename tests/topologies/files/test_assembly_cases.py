"""Outputs that people have published: each whole one is a graph under the laws, each broken one a line."""

from pathlib import Path

import pytest

from topologies.files.assembly import topology
from topologies.files.facts import FileError
from topologies.laws import check

CASES = Path(__file__).parents[3] / ".." / "shared" / "cases"
FORMATS = ("topo_m", "rocm_topo", "nvlink_status", "nccl_topo_xml", "nccl_graph_xml", "ibnetdiscover", "astra_network")
FILES = sorted(path for name in FORMATS for path in (CASES / name).glob("*") if path.is_file())
BROKEN = {
    "18-dgx2-16-nv6-truncated-paste.txt": "the paste ends inside row GPU4",
    "19-2017-8gpu-mlx4-trailing-blanks-truncated.txt": "the paste ends after row GPU4",
    "07-ports-unquoted-name.txt": "shows no host with a card that is connected to a switch",  # one open port
}
# Case -> GPU and what stands between two GPUs, as its source states them.
KNOWN = {
    "03-a100-8-narrow.txt": ("A100-SXM4-80", 8, "nvswitch"),
    "04-h100-8-narrow.txt": ("H100-SXM5-80", 8, "nvswitch"),
    "07-a100-4-nv4-2hca-inline-names-tabs.txt": ("A100-SXM4-80", 4, None),
    "02-azure-ndv4-topo.xml": ("A100-SXM4-80", 8, "nvswitch"),
    "05-aws-p4d-24xl-topo.xml": ("A100-SXM4-40", 8, "nvswitch"),
    "11-rccl-8p_940.xml": ("MI300X-192", 8, None),
    "13-rccl-16p1h.xml": ("MI250X-GCD-64", 16, None),
    "01-mi210-4gpu-showtopo.txt": ("MI210-64", 4, None),
}

pytestmark = pytest.mark.skipif(not FILES, reason="the published outputs are not in ../shared/cases")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_whole_document_is_a_graph_under_the_laws_and_a_broken_one_a_line(path):
    if path.name in BROKEN:
        with pytest.raises(FileError, match=BROKEN[path.name]) as refusal:
            topology([str(path)])
        assert "\n" not in str(refusal.value)
        return
    graph = topology([str(path)])()

    check(graph)
    guessed = [text for text in graph.graph["assumptions"] if text.startswith("gpu: ")]
    named = {data["gpu"] for _, data in graph.nodes(data=True) if data["kind"] == "gpu"}
    assert guessed or not graph.graph["warnings"] or len(named) == 1
    if path.name in KNOWN:
        gpu, count, between = KNOWN[path.name]
        assert named == {gpu}
        assert sum(kind == "gpu" for _, kind in graph.nodes(data="kind")) == count
        assert (between is None) == ("nvswitch" not in {node.rpartition("/")[2] for node in graph})
