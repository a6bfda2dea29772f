"""`ringloom topology` and `doctor`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import topologies
from sim.commands import doctor, run
from topologies import fabrics


def test_every_topology_is_listed_with_what_it_is(capsys):
    assert run(["topology", "list"]) == 0
    known, _, joins = capsys.readouterr().out.partition("\n\n")

    lines = known.splitlines()
    assert [line.split()[0] for line in lines] == topologies.names()
    assert all(len(line.split()) > 3 for line in lines)
    assert not any("Return" in line for line in lines)
    assert any(line.endswith("  DGX H100 machines: eight H100 on NVSwitch, one NIC per GPU.") for line in lines)
    heading, *lines = joins.splitlines()
    assert heading.endswith("; any takes [nics, gbit, pxn=0, gpudirect=1] too):")
    assert heading.startswith("fabrics (--fabric NAME")
    assert [line.split()[0] for line in lines] == fabrics.names()
    assert lines[1].endswith("By a fat tree of two or three tiers. [oversubscription=1, leaf, spines, ports=64, tiers]")


def test_the_list_for_programs_has_what_can_be_chosen(capsys):
    assert run(["topology", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert list(found["topologies"]) == topologies.names()
    assert list(found["fabrics"]) == fabrics.names()
    assert found["fabric_options"]["rail"] == {"oversubscription": 1.0}
    assert found["common_fabric_options"] == {"nics": None, "gbit": None, "pxn": 0, "gpudirect": 1}
    assert found["fabric_options"]["fat_tree"]["leaf"] is None


def test_show_tells_of_machines_on_a_fabric(capsys):
    tree = ["--fabric", "fat_tree:oversubscription=2"]
    assert run(["topology", "show", "dgx_h100", "--nodes", "8", *tree]) == 0
    text = capsys.readouterr().out

    assert text.startswith("dgx_h100(8) on fat_tree(oversubscription=2)\n")
    assert "a leaf's links to its 16 spines carry together 1/2 of what its NICs do" in text
    assert "2 leaves of 32 NICs" in text


def test_show_tells_parts_speeds_and_sources(capsys):
    assert run(["topology", "show", "dgx_h100", "--nodes", "2"]) == 0
    text = capsys.readouterr().out

    assert text.startswith("dgx_h100(2)\n")
    for word in ("nodes", "links", "sources", "assumptions", "nvlink", "450 GB/s each way", "16"):
        assert word in text


def test_show_gives_json(capsys):
    assert run(["topology", "show", "switch", "--gpus", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert (found["name"], found["gpus"]) == ("switch(4)", 4)
    assert {row["section"] for row in found["rows"]} >= {"nodes", "links"}


def test_doctor_says_where_each_package_was_loaded_from(capsys):
    assert run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    root = Path(__file__).resolve().parents[2]
    assert found["loaded from"] == {name: str(root / name) for name in ("algorithms", "topologies", "sim", "executor")}
    assert sys.executable in found["versions"]["python"]
    assert found["GPU"].keys() == {"devices", "NCCL"}
    assert all(found["GPU"].values())
    assert found["MPI"].keys() == {"mpiexec", "library"}


def test_what_is_missing_is_told_with_the_remedy():
    told = doctor._probe("import no_such_module", "install it")

    assert told == "none: ModuleNotFoundError: No module named 'no_such_module'; install it"


def test_a_probe_that_ends_its_process_is_survived():
    assert doctor._probe("import os; os.abort()", "") == "none: the probe ended with status -6"


def test_doctor_asks_numba_where_it_keeps_the_engine(tmp_path):
    def cache(**changes):
        code = "from sim.commands import doctor; print(doctor._cache())"
        env = {**os.environ, "NUMBA_DISABLE_JIT": "0", "NUMBA_CACHE_DIR": str(tmp_path), **changes}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout

    assert cache().startswith(f"empty in {tmp_path}")
    assert cache(NUMBA_DISABLE_JIT="1").startswith("off")


def test_doctor_knows_that_nothing_can_be_kept(monkeypatch):
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setattr("sim.routes.paths", lambda: None)

    assert doctor._cache().startswith("none: neither sim/ nor the home can be written")
