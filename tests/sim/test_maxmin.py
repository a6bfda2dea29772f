"""Max-min fairness against a solver of fractions written apart, and against its definition."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from sim.engine import Engine, run
from sim.program import Program, freeze
from sim.state import TRANSFER


class Bundle:
    """Any routes at all: flow k goes from rank 2k to rank 2k + 1 over routes[k], without latency."""

    def __init__(self, capacity, routes):
        self.name, self.ranks, self.pad, self.routes = "bundle", 2 * len(routes), len(capacity), routes
        self.capacity = np.append(np.array(capacity, float), np.inf)
        self.latency = np.zeros(len(capacity) + 1)
        self.links = [(f"a{link}", f"b{link}") for link in range(len(capacity))]

    def route(self, source, destination):
        table = np.full((len(source), max(map(len, self.routes))), self.pad)
        for row, (s, d) in enumerate(zip(source, destination, strict=True)):
            if s != d:
                table[row, : len(self.routes[s // 2])] = self.routes[s // 2]
        return table


def sends(sizes, starts=None):
    """Return the program of Bundle's flows."""
    ranks = 2 * len(sizes)
    program, dst, nbytes, wait = Program(ranks), np.full(ranks, -1), np.zeros(ranks), np.zeros(ranks)
    dst[::2] = np.arange(1, ranks, 2)
    nbytes[::2] = sizes
    wait[::2] = starts if starts is not None else 0
    program.permute(dst, nbytes, after=[program.compute(wait)])
    return program


@st.composite
def bundles(draw):
    """Draw integer capacities and routes of 1-4 links."""
    links = draw(st.integers(1, 8))
    capacity = draw(st.lists(st.integers(1, 60), min_size=links, max_size=links))
    route = st.lists(st.integers(0, links - 1), min_size=1, max_size=min(4, links), unique=True)
    return capacity, draw(st.lists(route, min_size=1, max_size=14))


def fair_rates(capacity, routes):
    """Raise all rates together, a step at a time to the next full link; a flow on a full link stays."""
    rates, growing = [Fraction(0)] * len(routes), set(range(len(routes)))
    while growing:
        room = []
        for link, width in enumerate(capacity):
            through = [k for k, route in enumerate(routes) if link in route]
            climbers = len(growing.intersection(through))
            if climbers:
                room.append((Fraction(width) - sum(rates[k] for k in through)) / climbers)
        for k in growing:
            rates[k] += min(room)
        load = [sum(rates[k] for k, route in enumerate(routes) if link in route) for link in range(len(capacity))]
        growing = {k for k in growing if all(load[link] < capacity[link] for link in routes[k])}
    return rates


def first_rates(network, sizes):
    """Return the rates of the flows after the first instant."""
    env = simpy.Environment()
    engine = Engine(env, freeze(sends(sizes), network), burst=False)
    env.step()
    (slots,) = np.nonzero(engine.state.phase == TRANSFER)
    assert len(slots) == len(sizes)
    return engine.state.rate[slots]


@given(bundles())
def test_rates_equal_those_of_exact_fractions(case):
    capacity, routes = case
    rates = first_rates(Bundle(capacity, routes), [1e6] * len(routes))
    assert rates == pytest.approx([float(rate) for rate in fair_rates(capacity, routes)], rel=1e-13)


@given(bundles())
def test_every_flow_has_a_bottleneck(case):
    # The definition: some link on the way is full, and no flow on it is faster.
    capacity, routes = case
    rates = first_rates(Bundle(capacity, routes), [1e6] * len(routes))
    through = [[k for k, route in enumerate(routes) if link in route] for link in range(len(capacity))]
    for link, width in enumerate(capacity):
        assert rates[through[link]].sum() <= width * (1 + 1e-12)
    for k, route in enumerate(routes):
        assert any(
            rates[through[link]].sum() >= capacity[link] * (1 - 1e-12)
            and rates[k] >= rates[through[link]].max() * (1 - 1e-12)
            for link in route
        )


def exact_ends(capacity, routes, sizes, starts):
    """Return when each flow ends, in fractions: rates change when a flow starts or ends."""
    left, ends, now = dict(enumerate(map(Fraction, sizes))), {}, Fraction(0)
    while left:
        moving = [k for k in left if starts[k] <= now]
        rates = fair_rates(capacity, [routes[k] for k in moving])
        due = [now + left[k] / rate for k, rate in zip(moving, rates, strict=True)]
        then = min(due + [Fraction(starts[k]) for k in left if starts[k] > now])
        for k, rate in zip(moving, rates, strict=True):
            left[k] -= rate * (then - now)
            if left[k] == 0:
                ends[k] = then
                del left[k]
        now = then
    return [float(ends[k]) for k in range(len(routes))]


@given(bundles(), st.data())
def test_flows_that_come_and_go_end_when_fractions_say(case, data):
    capacity, routes = case
    count = len(routes)
    sizes = data.draw(st.lists(st.integers(1, 1000), min_size=count, max_size=count))
    starts = data.draw(st.lists(st.integers(0, 40), min_size=count, max_size=count))

    spans = run(freeze(sends(sizes, starts), Bundle(capacity, routes)))

    exact = exact_ends(capacity, routes, sizes, starts)
    assert spans.end[1, ::2] == pytest.approx(exact, rel=1e-11)
    for link in range(len(capacity)):
        assert spans.link_bytes[link] == sum(sizes[k] for k in range(count) if link in routes[k])


@given(bundles(), st.integers(2, 5))
def test_one_flow_of_weight_n_is_n_flows_bit_for_bit(case, copies):
    # What folding rests on: n alike flows on a shared link, and one of them that counts n times.
    capacity, routes = case
    many = Bundle(capacity, [route for route in routes for _ in range(copies)])
    one = Bundle(capacity, routes)
    frozen = freeze(sends([1e6 + k for k in range(len(routes))]), one)
    bare = frozen.bare._replace(weight=frozen.bare.weight * np.int32(copies))
    weighted = dataclasses.replace(frozen, network=one, bare=bare, capacity=one.capacity)

    unfolded = run(freeze(sends([1e6 + k for k in range(len(routes)) for _ in range(copies)]), many))
    folded = run(weighted)

    assert (unfolded.end[1, :: 2 * copies] == folded.end[1, ::2]).all()
    assert (unfolded.link_bytes == folded.link_bytes).all()
