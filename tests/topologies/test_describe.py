"""The rows about a topology count everything in it once."""

import pytest

import topologies
from topologies.describe import Row, describe
from topologies.dgx import dgx_h100
from topologies.units import GB, us


@pytest.mark.parametrize("name", topologies.names())
def test_rows_count_every_node_and_link_once(name):
    graph = topologies.find(name)(4)
    rows = describe(graph)
    count = {s: sum(row.count for row in rows if row.section == s) for s in ("nodes", "links")}
    assert count == {"nodes": graph.number_of_nodes(), "links": graph.number_of_edges()}
    assert sum(row.section == "sources" for row in rows) == len(graph.graph["sources"])
    assert sum(row.section == "assumptions" for row in rows) == len(graph.graph["assumptions"])
    assert all(row.text for row in rows if row.section != "nodes")


def test_a_dgx_h100_in_rows():
    rows = describe(dgx_h100(2))
    assert rows[0] == Row("nodes", "gpu", "H100-SXM5-80, 989 TFLOP/s, 80 GB, 3.35 TB/s", 16)
    assert Row("links", "nvlink", "450 GB/s each way, 500 ns", 32, 450 * GB, 0.5 * us) in rows
    assert Row("links", "fabric", "100 GB/s each way, 250 ns", 16, 100 * GB, 0.25 * us) in rows


def test_gpus_that_differ_have_rows_of_their_own():
    graph = dgx_h100(1)
    graph.nodes["node0/gpu3"]["flop_rate"] /= 2
    assert [row.count for row in describe(graph) if row.name == "gpu"] == [7, 1]
