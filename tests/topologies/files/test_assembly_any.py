"""Whatever readers say of a machine: a graph under the laws, or one line."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.cluster import cluster
from topologies.files.assembly import machine_graph
from topologies.files.facts import CLASSES, Accelerator, MachineFacts, Port
from topologies.laws import check
from topologies.units import GB

FORMATS = (
    "nvidia-smi topo -m",
    "nvidia-smi nvlink -s",
    "rocm-smi --showtopo",
    "NCCL topology (XML)",
    "mthreads-gmi topo -m",
)
MODELS = (None, None, "NVIDIA A100-SXM4-80GB", "NVIDIA H100 PCIe", "gfx90a", "NVIDIA Z900", "AMD Radeon Q")


@st.composite
def machines(draw):
    count, nics = draw(st.integers(1, 9)), draw(st.integers(0, 4))
    first, model = draw(st.integers(0, 3)), draw(st.sampled_from(MODELS))
    ports = draw(st.sampled_from([None, None, (25 * GB,) * 4, (0.0,) * 6, (26.562 * GB, 0.0) * 6]))
    numa = st.none() | st.integers(0, 3)
    gpus = tuple(Accelerator(first + i, model, numa=draw(numa), ports=ports) for i in range(count))
    names = tuple(
        Port(f"mlx5_{i}", draw(st.sampled_from([None, 25 * GB, 50 * GB])), numa=draw(numa)) for i in range(nics)
    )
    pairs = list(combinations(range(first, first + count), 2))
    same = draw(st.none() | st.integers(1, 18))
    links = dict.fromkeys(pairs, same) if same else {}
    if draw(st.booleans()):
        links |= {pair: draw(st.integers(1, 18)) for pair in pairs if draw(st.booleans())}
    devices = [f"gpu{gpu.index}" for gpu in gpus] + [nic.name for nic in names]
    near = {}
    for a, b in combinations(devices, 2):
        if draw(st.booleans()):
            near[a, b] = near[b, a] = draw(st.sampled_from(CLASSES))
    return MachineFacts(
        "some.txt",
        draw(st.sampled_from(FORMATS)),
        gpus,
        names,
        links,
        draw(st.sampled_from(["nvlink", "xgmi"])),
        switched=draw(st.sampled_from([None, None, True, False])),
        near=near,
        peer_to_peer=draw(st.sampled_from([None, True, False])),
    )


def outcome(one, gpu, nic):
    """The graph, or the line that refuses it."""
    try:
        return machine_graph([one], gpu, nic), ""
    except ValueError as refusal:
        return None, str(refusal)


@settings(max_examples=300, deadline=None)
@given(
    one=machines(),
    gpu=st.sampled_from([None, "h100", "mi300x", "4090", "v100"]),
    nic=st.sampled_from([None, 25 * GB]),
    nodes=st.integers(1, 2),
)
def test_any_machine_is_a_graph_under_the_laws_or_refused_in_one_line(one, gpu, nic, nodes):
    graph, refusal = outcome(one, gpu, nic)
    if graph is None:
        assert "\n" not in refusal
        assert any(text in refusal for text in ("say --gpu", "leave --nic out", "they must be of one machine"))
        return
    if nodes > 1 and "network" not in graph.graph:
        nodes = 1
    check(cluster(graph, nodes))
    models = {data["gpu"] for _, data in graph.nodes(data=True) if data["kind"] == "gpu"}
    assert gpu or one.gpus[0].model or any(text.startswith("gpu: ") for text in graph.graph["assumptions"])
    assert len(models) == 1
