"""Compute costs: the published kernel speeds come back, and idealised GPUs cost arithmetic alone."""

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim import kernel_table
from sim.bound import bound, flop, visible_pairs
from sim.costs import Costs, Machine
from sim.simulate import Site, simulate
from topologies.basic import switch
from topologies.dgx import dgx_a100, dgx_h100, hgx_h200
from topologies.nvl72 import gb200_nvl72
from topologies.units import TFLOP, us

# machine, kernel, head_dim, heads, kv_heads, batch, length, mask, pass, published TFLOP/s (hardware facts 4.1)
POINTS = [
    (dgx_h100, "FA3", 128, 16, 16, 1, 16384, "causal", "fwd", 616),
    (dgx_h100, "FA3", 128, 16, 16, 2, 8192, "full", "fwd", 646),
    (dgx_h100, "FA3", 64, 32, 32, 4, 4096, "causal", "fwd", 420),
    (dgx_h100, "FA2", 128, 16, 16, 1, 16384, "causal", "fwd", 335),
    (dgx_h100, "FA3", 128, 16, 16, 1, 16384, "full", "bwd", 561),
    (hgx_h200, "cuDNN", 128, 64, 8, 1, 32768, "causal", "fwd", 688),
    (gb200_nvl72, "cuDNN", 128, 64, 8, 2, 16384, "causal", "fwd", 1708),
    (dgx_a100, "FA2", 128, 16, 16, 2, 8192, "causal", "fwd", 192),
]


@pytest.mark.parametrize("machine, kernel, dim, heads, kv, batch, n, mask, passes, tflops", POINTS)
def test_published_kernel_speeds_come_back(machine, kernel, dim, heads, kv, batch, n, mask, passes, tflops):
    phase = "train" if passes == "bwd" else "prefill"
    problem = Attention(heads, kv, dim, n, n, batch=batch, mask=mask, phase=phase)
    schedule = find("ring")[phase](problem, Mesh(ring=1))
    site = Site(machine(1), Costs(kernel=kernel))

    kind = "attend_backward" if passes == "bwd" else "attend"
    op = next(op for op in schedule.ops if op.kind == kind)
    seconds = float(site.machine.seconds(op, problem, schedule.mesh.grid(), schedule.mesh.shape).max())

    useful = flop(problem)[passes == "bwd"]
    assert useful / seconds == pytest.approx(tflops * TFLOP, rel=0.096)  # the fit's own worst residual


def test_an_idealised_gpu_costs_its_arithmetic_and_nothing_else():
    problem = Attention(8, 8, 64, 1024, 1024, mask="causal")
    schedule = find("ring")["prefill"](problem, Mesh(ring=1))

    timeline = simulate(schedule, switch(1, flop_rate=2 * TFLOP))

    assert timeline.makespan == pytest.approx(4 * 8 * 64 * 1024 * 1025 / 2 / (2 * TFLOP), rel=1e-12)


def test_an_idealised_gpu_with_a_memory_reaches_all_of_its_bandwidth():
    # a merge reads two states and writes one; nothing is lost, launched or moved besides
    problem, rows, bandwidth = Attention(8, 8, 64, 1024, 1024), 512, 1e9
    graph = switch(2, flop_rate=1e20, bandwidth=1e20, latency=0.0)
    for rank in range(2):
        graph.nodes[f"gpu{rank}"]["memory_bandwidth"] = bandwidth
    schedule = find("ring")["prefill"](problem, Mesh(ring=2))

    timeline = simulate(schedule, graph)

    merge = next(op.id for op in schedule.ops if op.kind == "merge")
    took = timeline.end[merge, 0] - timeline.start[merge, 0]
    assert took == pytest.approx(3 * rows * 8 * (64 + 1) * 4 / bandwidth, rel=1e-9)


def test_an_empty_tile_is_not_launched():
    problem = Attention(8, 8, 64, 4096, 4096, mask="causal")  # contiguous: rank 0 sees nothing of rank 1's keys
    schedule = find("ring")["prefill"](problem, Mesh(ring=2))
    site = Site(dgx_h100(1))
    second = [op for op in schedule.ops if op.kind == "attend"][1]

    seconds = Machine(site.graph, site.network.gpus[:2], Costs()).seconds(second, problem, schedule.mesh.grid(), (2,))

    assert seconds[0] == 0.0 < seconds[1]


def test_decode_reads_the_cache_at_the_stated_share_of_memory_bandwidth():
    # one token, 8 KV heads of 128, 1M keys in bfloat16: 4 GiB at 65 % of 3350 GB/s
    problem = Attention(64, 8, 128, 1, 1 << 20, phase="decode")
    schedule = find("tree")["decode"](problem, Mesh(cp=1))

    timeline = simulate(schedule, dgx_h100(1))

    attend = next(op.id for op in schedule.ops if op.kind == "attend")
    took = timeline.end[attend, 0] - timeline.start[attend, 0]
    assert took == pytest.approx(12 * us + 2 * 8 * 128 * 2**20 * 2 / (0.65 * 3350e9), rel=1e-4)


def test_types_without_a_published_kernel_take_the_named_share_of_their_peak():
    problem = Attention(16, 16, 128, 8192, 8192, dtype="float64", state_dtype="float64")

    seconds = simulate(find("ring")["prefill"](problem, Mesh(ring=1)), dgx_h100(1)).makespan

    assert seconds == pytest.approx(5 * us + flop(problem)[0] / (0.5 * 33.5 * TFLOP), rel=1e-12)


@pytest.mark.parametrize(
    "kernel, message",
    [("FA9", "no kernel 'FA9': expected one of .* nearest is FA"), ("FA4", "no published speed")],
)
def test_unknown_kernels_are_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel_table.find("H100-SXM5-80", 128, "fwd", kernel_table.HALF, kernel)


def test_every_assumption_is_named_with_its_value():
    costs = Costs(
        attend_launch=1 * us,
        decode_launch=2 * us,
        glue_launch=4 * us,
        comm_launch=7 * us,
        memory_share=0.11,
        decode_memory_share=0.12,
        merge_nbytes=13,
        reduce_nbytes=16,
        plain_share=0.14,
        link_share={"nic": 0.15},
    )
    text = " ".join(costs.assumptions())

    launches = ("attend_launch: 1 us", "decode_launch: 2 us", "glue_launch: 4 us", "comm_launch: 7 us")
    shares = ("memory_share: 11%", "decode_memory_share: 12%", "plain_share: 14%", "nic: 15%")
    for shown in (*launches, *shares, "merge_nbytes: 13 bytes per element", "reduce_nbytes: 16 bytes"):
        assert shown in text


def test_keys_and_values_in_8_bits_are_read_in_half_the_time():
    def memory(kv_dtype):
        problem = Attention(32, 8, 128, 1, 1 << 20, phase="decode", kv_dtype=kv_dtype)
        schedule = find("helix")["decode"](problem, Mesh(cp=8))
        (op,) = (op for op in schedule.ops if op.kind == "attend")
        return float(Site(dgx_h100(1)).machine.parts(op, problem, schedule.mesh.grid(), (8,)).memory.max())

    assert memory("float8_e4m3") == pytest.approx(memory("bfloat16") / 2, rel=1e-3)
    assert memory("bfloat16") == pytest.approx(2 * (1 << 17) * 8 * 128 * 2 / (0.65 * 3350e9), rel=1e-3)


def test_a_reduction_inside_a_collective_moves_what_is_assumed():
    def seconds(**costs):
        return Site(dgx_h100(1), Costs(**costs)).machine.reduce_seconds(1e9)

    assert seconds() == pytest.approx(3e9 / (0.87 * 3350e9))
    assert seconds(reduce_nbytes=6.0) == pytest.approx(2 * seconds())


@pytest.mark.parametrize("mask, cached, pairs", [("full", 0, 100), ("causal", 0, 55), ("causal", 7, 55 + 70)])
def test_visible_pairs(mask, cached, pairs):
    assert visible_pairs(Attention(1, 1, 8, 10, 10 + cached, mask=mask)) == pairs


def test_the_bound_names_what_binds():
    site = Site(dgx_h100(1))
    prefill = bound(Attention(32, 8, 128, 1 << 17, 1 << 17), Mesh(ring=8), site)
    decode = bound(Attention(32, 8, 128, 1, 1 << 20, phase="decode"), Mesh(cp=8), site)

    assert prefill.what == "compute"
    assert prefill.seconds == pytest.approx(4 * 32 * 128 * 2.0**34 / (8 * 0.6695 * 989.4 * TFLOP))
    assert decode.what == "memory"
    assert decode.seconds == pytest.approx(2 * 8 * 128 * 2.0**20 * 2 / (8 * 3350e9), rel=1e-4)


def test_alike_gpus_are_one_number():
    assert np.ndim(Site(dgx_h100(4)).machine.flop_rate) == 0


def test_the_kernel_that_runs_is_named():
    def named(head_dim):
        return Site(hgx_h200(1)).machine.assumptions(Attention(8, 8, head_dim, 1024, 1024))[0]

    assert "cuDNN, fitted to its speed on H200 at head size 128 (rms" in named(128)
    assert "FA3, fitted to its speed on H100 at head size 64, the nearest published (rms" in named(64)
    assert len(Site(switch(2)).machine.assumptions(Attention(8, 8, 64, 1024, 1024))) == 1
