"""Files as clusters: `topology import`, `--cluster FILE`, what is assumed on stderr, and what cannot be."""

import json
import os
import threading
from pathlib import Path

import pytest

from sim.commands import run
from tests.sim.commands import answer

DATA = Path(__file__).parents[1] / "data" / "files"
TOPO, LISTING = str(DATA / "topo_h100.txt"), str(DATA / "ib_blocks.txt")
PROBLEM = ["--model", "llama3-8b", "--seq", "16K", "--algorithms", "all_gather_kv"]


def test_compare_answers_for_a_pasted_file_in_one_command_with_its_assumptions(capsys):
    assert run(["compare", "--cluster", TOPO, "--nodes", "2", *PROBLEM, "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)

    assert found["cluster"]["name"] == "topo_h100.txt(2)"
    assert "ringloom: assumes H100-SXM5-80: topo_h100.txt does not name the GPU; say --gpu\n" in err
    for fact in ("gpu: H100-SXM5-80; ", "nvlink: through NVSwitches, ", "nic.bandwidth: 400 Gbit/s; "):
        assert any(text.startswith(fact) for text in found["assumptions"])


def test_what_is_said_is_no_guess(capsys):
    assert (
        run(["compare", "--cluster", TOPO, "--nodes", "2", "--gpu", "h200", "--nic", "200G", *PROBLEM, "--json"]) == 0
    )
    out, err = capsys.readouterr()

    assert "assumes" not in err
    assert "nic.bandwidth: 200 Gbit/s; as asked for" in json.loads(out)["assumptions"]


def test_a_file_stands_on_any_fabric(capsys):
    found = answer(capsys, "compare", "--cluster", TOPO, "--nodes", "2", "--fabric", "single", *PROBLEM)
    assert found["cluster"]["name"] == "topo_h100.txt(2) on single"


@pytest.mark.parametrize("suffix", ["json", "yaml", "graphml"])
def test_import_writes_a_file_that_is_the_same_cluster(suffix, tmp_path, capsys):
    path = str(tmp_path / f"my.{suffix}")
    assert run(["topology", "import", TOPO, "--nodes", "2", "-o", path]) == 0
    shown = capsys.readouterr().out
    first, second = (
        answer(capsys, "compare", "--cluster", name, *more, *PROBLEM)
        for name, more in ((TOPO, ["--nodes", "2"]), (path, []))
    )

    assert f"written to {path}" in shown
    assert [one["time_s"] for one in first["results"]] == [one["time_s"] for one in second["results"]]
    assert set(second["assumptions"]) == set(first["assumptions"])


def test_import_prints_what_was_read_assumed_and_left_out(capsys):
    assert run(["topology", "import", TOPO, "--gpu", "h100"]) == 0
    out = " ".join(capsys.readouterr().out.split())

    assert "topo_h100.txt(1): 8 GPUs, from " in out
    assert "nvlink through NVSwitches, 18 links a GPU; as cables to 7 peers they would be 126" in out
    assert "topo_h100.txt: NICs mlx5_4: no GPU's nearest" in out
    assert "nvlink.bandwidth https://" in out


def test_a_listing_is_a_cluster_and_a_fabric(capsys):
    assert answer(capsys, "topology", "show", LISTING)["gpus"] == 6
    assert run(["topology", "show", "dgx_h100", "--nodes", "2", "--fabric", LISTING]) == 2
    assert "has 0 hosts of at least 8 connected cards" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topology", "show", "dgx_h100", "--gpu", "h100"], "--gpu h100: dgx_h100 has GPUs of its own"),
        (["topology", "show", "dgx_h100", "--nic", "400G"], "--nic: dgx_h100 has NICs of its own"),
        (["topology", "show", TOPO, "--nic", "400"], "nic 400: say the unit, as 400G"),
        (["topology", "show", TOPO, "--gpu", "h1000"], "no GPU 'h1000': expected one of"),
        (["topology", "show", TOPO, "--gpu", "a100"], "A100-SXM4-80 has 12: say --gpu"),
        (["topology", "show", f"{TOPO},{DATA / 'none.txt'}"], "none.txt: cannot be read: No such file"),
        (["topology", "show", "dgx_h100", "--nodes", "2", "--fabric", TOPO], "nvidia-smi topo -m lists no network"),
        (["topology", "import", TOPO, "-o", "my.txt"], "-o my.txt: the suffix says the format"),
        (["topology", "import", TOPO, "-o", "no/such/folder/my.json"], "is in no folder that exists"),
        (["topology", "import"], "Missing argument 'FILE...'"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(arguments, message, capsys):
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["dgx_h100", "rail", "a,b.txt", "a.txt:x", "mine.py", "mine.py:f", "two\nlines", "-"])
def test_a_file_may_have_any_name(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(Path(TOPO).read_text())
    Path("nvlink.txt").write_text(
        "GPU 0: NVIDIA H100 80GB HBM3\n" + "".join(f"  Link {i}: 26.562 GB/s\n" for i in range(18))
    )
    assert run(["topology", "import", "--", name]) == 0
    assert "8 GPUs" in capsys.readouterr().out
    run(["topology", "import", "--", name, "nvlink.txt"])
    assert "nvlink.txt (nvidia-smi nvlink -s)" in " ".join(capsys.readouterr().out.split())


def test_import_has_one_of_ours_as_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["topology", "import", "dgx_h100", "--nodes", "2", "-o", "mine.json"]) == 0
    assert json.loads(Path("mine.json").read_text())["name"] == "dgx_h100(2)"


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["nothere"], "nothere: cannot be read: No such file or directory"),
        ([""], "'': cannot be read: "),
        ([TOPO, ""], "'': cannot be read: "),
        (["."], ".: cannot be read: Is a directory"),
        (["folder"], "folder: cannot be read: Is a directory"),
    ],
)
def test_a_path_that_leads_to_no_file_is_refused(paths, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert run(["topology", "import", *paths]) == 2
    assert capsys.readouterr().err.startswith(f"ringloom: {said}")


def test_a_cluster_can_come_through_a_pipe(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text(Path(TOPO).read_text()))
    writer.start()
    assert run(["topology", "show", "pipe"]) == 0
    writer.join()
    assert "pipe(1)" in capsys.readouterr().out
