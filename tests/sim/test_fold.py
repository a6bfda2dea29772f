"""Folding: one rank a class stands for all, and every time stays what it was, bit for bit."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms import find
from algorithms.ir import Attention, Mesh
from algorithms.ways import DEFAULT
from sim import fold as folding
from sim.engine import run
from sim.fold import Partition, fold
from sim.lower import lower
from sim.network import Network
from sim.program import Program, freeze
from sim.simulate import Site
from sim.twins import merged
from tests.sim.drawn import meshed, programs
from tests.sim.graphs import MiB, ring_attention, shared_nic, shift, star, two_level, us
from topologies.basic import fully_connected, ring, switch
from topologies.dgx import dgx_a100, dgx_h100
from topologies.fabrics.fat_tree import fat_tree
from topologies.perlmutter import perlmutter

TREE = partial(fat_tree, leaf=4, oversubscription=2)  # two spines, hashed


def tree(ranks):
    return dgx_h100(-(-ranks // 8), TREE)


GRAPHS = [star, two_level, shared_nic, ring, switch, lambda ranks: two_level(ranks, node=3), fully_connected, tree]


def assert_same(frozen, folded):
    """Run both; every op on every rank starts and ends alike, every link carries as much."""
    whole, short = run(frozen), run(folded.frozen)
    for name in ("start", "end"):
        assert (getattr(whole, name) == getattr(short, name)[:, folded.ranks.of]).all()
    assert (whole.link_bytes == short.link_bytes[folded.links.of]).all()
    assert (whole.makespan, whole.instants) == (short.makespan, short.instants)


@settings(max_examples=300)
@given(meshed(), st.sampled_from(GRAPHS))
def test_folded_is_unfolded_for_every_op_and_rank(program, graph):
    frozen = freeze(program, Network(graph(program.ranks)))
    assert_same(frozen, fold(frozen, share=1.0))


@given(programs(), st.sampled_from(GRAPHS))
def test_so_it_is_for_programs_without_symmetry(program, graph):
    frozen = freeze(program, Network(graph(program.ranks)))
    folded = fold(frozen, share=1.0)
    assert_same(frozen, folded)


@pytest.mark.parametrize("cluster", [dgx_h100(3), dgx_a100(3), perlmutter(6), two_level(24), shared_nic(24), tree(24)])
@pytest.mark.parametrize(
    "name, axes",
    [
        ("ring", {"ring": 24}),
        ("attention2d", {"row": 4, "col": 6}),
        ("attention2d", {"row": 24, "col": 1}),
        ("all_gather_kv", {"cp": 24}),
        ("ulysses", {"ulysses": 24}),
        ("usp", {"ring": 3, "ulysses": 8}),
        ("ring", {"ring": 6, "tp": 4}),
    ],
)
@pytest.mark.parametrize("way", ["ring", "direct"])
@pytest.mark.parametrize("n, mask, layout", [(4096 * 48, "full", "contiguous"), (4099, "causal", "striped")])
def test_algorithms_fold_to_themselves(name, axes, way, cluster, n, mask, layout):
    for node in cluster.nodes:
        if "gpu" in node:
            cluster.nodes[node].setdefault("flop_rate", 1e15)
    problem = Attention(48, 48, 64, n, n, mask=mask, layout=layout)
    site = Site(cluster)
    lowered = lower(
        find(name)["prefill"](problem, Mesh(**axes)),
        site.machine,
        DEFAULT | {"all_gather": way, "reduce_scatter": way, "all_to_all": "pairwise"},
    )
    frozen = freeze(lowered.program, site.network)
    assert_same(frozen, fold(frozen, share=1.0))


def test_a_ring_over_machines_folds_to_one_machine():
    # of eight GPUs the last sends out of the machine and the first receives: eight classes, however many machines
    frozen = freeze(ring_attention(64, 100 * us, MiB, steps=5), Network(two_level(64)))
    folded = fold(frozen)
    assert folded.ranks.of.tolist() == [rank % 8 for rank in range(64)]
    assert folded.frozen.ranks == 8


def test_a_hash_treats_ranks_unlike_and_the_ideal_split_alike():
    program = Program(64)
    program.permute(shift(64, 12), MiB)  # every GPU sends to another leaf
    assert fold(freeze(program, Network(tree(64)))) is None
    assert fold(freeze(program, Network(merged(tree(64))))).frozen.ranks == 1


def test_a_flow_weighs_as_many_as_share_its_link():
    # all four GPUs of a machine send to the next machine over its one NIC, twice: on the way out and on the way in
    program = Program(16)
    program.permute(shift(16, 4), MiB)
    folded = fold(freeze(program, Network(shared_nic(16))))
    assert folded.frozen.ranks == 1
    (weights,) = folded.frozen.bare.weight
    assert weights.tolist() == [1, 4, 0, 0]  # out and in are one class of link: met twice, it constrains once


def test_a_straggler_is_a_class_of_its_own():
    cost = np.full(64, 100 * us)
    cost[20] *= 2
    folded = fold(freeze(ring_attention(64, cost, MiB, steps=5), Network(star(64))), share=1.0)
    assert np.bincount(folded.ranks.of)[folded.ranks.of[20]] == 1


def test_jitter_folds_to_nothing():
    cost = np.random.default_rng(0).uniform(50, 150, 64) * us
    assert fold(freeze(ring_attention(64, cost, MiB, steps=5), Network(star(64)))) is None


def test_a_partition_that_is_not_equitable_is_refused(monkeypatch):
    # whatever the hashes say: here all ranks are one colour, and so are all links
    cost = np.full(8, 100 * us)
    cost[3] *= 2
    one = Partition(np.zeros(8, np.int64), np.zeros(1, np.int64))
    links = Partition(np.zeros(16, np.int64), np.zeros(1, np.int64))
    monkeypatch.setattr(folding, "_refine", lambda *_: (one, links))
    alike = freeze(ring_attention(8, 100 * us, MiB), Network(star(8)))
    assert_same(alike, fold(alike))
    assert fold(freeze(ring_attention(8, cost, MiB), Network(star(8)))) is None
    narrow = replace(alike, capacity=alike.capacity * np.append(np.ones(15), [0.5, 1]))
    assert fold(narrow) is None
    half = Program(8)
    half.permute(np.where(np.arange(8) < 4, shift(8), -1), MiB)
    assert fold(freeze(half, Network(star(8)))) is None
