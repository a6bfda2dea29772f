"""How long tracing and simulating take: `make bench`. Results are kept in docs/performance.md."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ways import DEFAULT
from sim.lower import lower
from sim.network import Network
from sim.program import freeze
from sim.routing import Routing
from sim.simulate import Site, simulate
from topologies.dgx import dgx_h100
from topologies.options import build

pytestmark = pytest.mark.benchmark
FABRICS = ["rail:oversubscription=2", "fat_tree:oversubscription=2", "superpod", "dragonfly", "torus"]


def problem(ranks, mask, layout):
    return Attention(32, 8, 128, 16384 * ranks, 16384 * ranks, mask=mask, layout=layout)


@pytest.mark.parametrize("ranks", [1024, 16384])
def test_trace_a_zigzag_ring(benchmark, ranks):
    program = find("ring")["prefill"]
    schedule = benchmark.pedantic(program, (problem(ranks, "causal", "zigzag"), Mesh(ring=ranks)), rounds=3)
    assert len(schedule.ops) == 3 * ranks + 1


@pytest.mark.parametrize("nodes", [128, 2048])
@pytest.mark.parametrize("fabric", [*FABRICS, "rail_only", "single", "rail:nics=4,pxn=1,gpudirect=0"])
def test_build_a_graph(benchmark, fabric, nodes):
    graph, _ = benchmark.pedantic(build, ("dgx_h100", nodes, None, fabric), rounds=3, warmup_rounds=1)
    benchmark.extra_info["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    assert graph.number_of_edges() > 3 * 8 * nodes


@pytest.mark.parametrize("pairs", ["of attention2d", "all"])
@pytest.mark.parametrize("fabric", FABRICS)
def test_find_routes_of_1024(benchmark, fabric, pairs):
    graph, _ = build("dgx_h100", 128, None, fabric)
    rank = np.arange(1024)
    row, column = rank // 32 * 32 + (rank + 1) % 32, (rank + 32) % 1024
    source, target = np.tile(rank, 3), np.concatenate([row, column, rank % 32 * 32 + rank // 32])
    if pairs == "all":
        source, target = np.divmod(np.arange(1024**2), 1024)
    routes = benchmark.pedantic(
        lambda network: network.route(source, target), setup=lambda: ((Network(graph),), {}), rounds=3, warmup_rounds=1
    )
    assert len(routes) == len(source)


@pytest.mark.parametrize("name, axes", [("ring", {"ring": 1024}), ("attention2d", {"row": 32, "col": 32})])
@pytest.mark.parametrize("fabric", FABRICS)
def test_find_the_adaptive_routes_of_a_schedule(benchmark, fabric, name, axes):
    site = Site(build("dgx_h100", 128, None, fabric)[0], routing=Routing("adaptive"))
    schedule = find(name)["prefill"](problem(1024, "full", "contiguous"), Mesh(**axes))
    ends = freeze(lower(schedule, site.machine, DEFAULT).program, site.network).bare.dst
    source = np.broadcast_to(np.arange(1024), ends.shape)
    target = np.where(ends < 0, source, ends)
    routes = benchmark.pedantic(
        lambda network: network.route(source.ravel(), target.ravel()),
        setup=lambda: ((site.network.routed(site.routing),), {}),
        rounds=3,
        warmup_rounds=1,
    )
    assert len(routes) == ends.size


@pytest.mark.parametrize("mask, layout", [("full", "contiguous"), ("causal", "zigzag")])
def test_simulate_a_ring_of_1024(benchmark, mask, layout):
    site = Site(dgx_h100(128))
    schedule = find("ring")["prefill"](problem(1024, mask, layout), Mesh(ring=1024))
    timeline = benchmark.pedantic(simulate, (schedule, site), rounds=3, warmup_rounds=1)
    benchmark.extra_info["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    assert timeline.ranks == 1024


@pytest.mark.parametrize("name, axes", [("attention2d", {"row": 32, "col": 32}), ("all_gather_kv", {"cp": 1024})])
def test_simulate_other_algorithms_on_1024(benchmark, name, axes):
    site = Site(dgx_h100(128))
    schedule = find(name)["prefill"](problem(1024, "causal", "striped"), Mesh(**axes))
    benchmark.pedantic(simulate, (schedule, site), rounds=3, warmup_rounds=1)


def test_the_main_job(benchmark):
    command = [Path(sys.executable).parent / "ringloom", "compare", "--cluster", "dgx_h100", "--nodes", "8"]
    command += ["--model", "llama3-70b", "--seq", "1M", "--mask", "causal", "--json"]
    benchmark.pedantic(subprocess.run, (command,), {"check": True, "capture_output": True}, rounds=3, warmup_rounds=1)


def test_help(benchmark):
    command = [Path(sys.executable).parent / "ringloom", "--help"]
    benchmark.pedantic(subprocess.run, (command,), {"check": True, "capture_output": True}, rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("seq", ["256M", "268435457"])
def test_a_ring_of_16384_from_the_shell(seq, benchmark):
    command = [Path(sys.executable).parent / "ringloom", "simulate", "ring", "--cluster", "dgx_h100"]
    command += ["--nodes", "2048", "--model", "llama3-8b", "--seq", seq]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    benchmark.pedantic(subprocess.run, (command,), {"check": True, "capture_output": True}, rounds=1)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    benchmark.extra_info.update(user_s=used.ru_utime - before, peak_rss_mib=used.ru_maxrss // 1024)
    print(f"\n{seq}: {benchmark.extra_info}")
