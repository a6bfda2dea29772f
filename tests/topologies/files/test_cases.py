"""Outputs that people have published: each is read, refused for what it lacks, or is of no known format."""

from pathlib import Path

import pytest

from topologies.files import READERS, find
from topologies.files.facts import FileError, MachineFacts
from topologies.files.text import load

CASES = Path(__file__).parents[3] / ".." / "shared" / "cases"
FILES = sorted(path for path in CASES.glob("*/*") if path.is_file())

pytestmark = pytest.mark.skipif(not FILES, reason="the published outputs are not in ../shared/cases")

READER = {
    "astra_network": "astra_network",
    "ibnetdiscover": "ibnetdiscover",
    "nccl_graph_xml": "nccl_graph",
    "nccl_topo_xml": "nccl_topo",
    "nvlink_status": "nvlink_status",
    "rocm_topo": "rocm_topo",
    "topo_m": "nvidia_topo",
}
CUT = {
    "topo_m/18-dgx2-16-nv6-truncated-paste.txt": "line 6: the paste ends inside row GPU4; "
    "rows GPU4 .. GPU15 and those of 10 NICs are missing: paste the whole output",
    "topo_m/19-2017-8gpu-mlx4-trailing-blanks-truncated.txt": "line 6: the paste ends after row GPU4; "
    "rows GPU5 .. GPU7, mlx4_0 are missing: paste the whole output",
}


def name(path):
    return path.relative_to(CASES).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_published_output_is_claimed_by_the_reader_of_its_format_alone(path):
    expected = READER.get(path.parent.name)
    text = load(str(path))
    claims = [name for name in READERS if find(name).looks_like(text)]

    assert claims == ([expected] if expected else [])


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.parent.name in ("topo_m", "rocm_topo", "nvlink_status")], ids=name
)
def test_a_whole_output_of_a_machine_is_read_and_a_cut_one_says_what_is_missing(path):
    text = load(str(path))
    try:
        said = find(READER[path.parent.name]).read(text, path.name)
    except FileError as error:
        said = str(error).removeprefix(f"{path.name}, ")

    if name(path) in CUT:
        assert said == CUT[name(path)]
    else:
        assert isinstance(said, MachineFacts)
