"""Max-min fairness against a solver of fractions written apart, and against its definition."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from sim.engine import Engine, run
from sim.program import freeze
from sim.state import TRANSFER
from tests.sim.bundles import Bundle, bundles, sends


def fair_rates(capacity, routes, weights=None):
    """Raise all rates by their weights, a step at a time to the next full link; a flow on a full link stays."""
    weights = weights or [1] * len(routes)
    rates, growing = [Fraction(0)] * len(routes), set(range(len(routes)))
    while growing:
        room = []
        for link, width in enumerate(capacity):
            through = [k for k, route in enumerate(routes) if link in route]
            climbers = sum(weights[k] for k in growing.intersection(through))
            if climbers:
                room.append((Fraction(width) - sum(rates[k] for k in through)) / climbers)
        for k in growing:
            rates[k] += weights[k] * min(room)
        load = [sum(rates[k] for k, route in enumerate(routes) if link in route) for link in range(len(capacity))]
        growing = {k for k in growing if all(load[link] < capacity[link] for link in routes[k])}
    return rates


def first_rates(network, sizes, weights=None):
    """Return the rates of the flows after the first instant."""
    env = simpy.Environment()
    engine = Engine(env, freeze(sends(sizes, weights=weights), network), burst=False)
    env.step()
    (slots,) = np.nonzero(engine.state.phase == TRANSFER)
    assert len(slots) == len(sizes)
    return engine.state.rate[slots]


@given(bundles())
def test_rates_equal_those_of_exact_fractions(case):
    capacity, routes = case
    rates = first_rates(Bundle(capacity, routes), [1e6] * len(routes))
    assert rates == pytest.approx([float(rate) for rate in fair_rates(capacity, routes)], rel=1e-13)


@given(bundles(), st.data())
def test_weighted_rates_equal_those_of_exact_fractions(case, data):
    capacity, routes = case
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(routes), max_size=len(routes)))
    rates = first_rates(Bundle(capacity, routes), [1e6] * len(routes), weights)
    assert rates == pytest.approx([float(rate) for rate in fair_rates(capacity, routes, weights)], rel=1e-13)


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
