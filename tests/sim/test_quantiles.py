"""Quantiles: measured factors, as they are."""

import json
import subprocess
import sys

import numpy as np
import pytest

from algorithms import find
from algorithms.ir import Attention, Mesh
from sim.jitter import Jitter
from sim.quantiles import Quantiles, mean, read
from sim.simulate import simulate
from topologies.basic import switch
from topologies.dgx import dgx_h100
from topologies.units import GB

POINTS = {0: 0.97, 0.1: 0.98, 0.5: 1.0, 0.9: 1.06, 1: 1.4}
MEASURED = Quantiles(POINTS, {"merge": {0: 1.0, 1: 1.5}})
SCHEDULE = find("ring")["prefill"](Attention(16, 4, 64, 65536, 65536), Mesh(ring=8))


def test_drawn_factors_have_the_quantiles_that_were_measured():
    factors = Jitter(MEASURED, seed=7).factors(3, 400_000, "attend")

    assert np.quantile(factors, list(POINTS)) == pytest.approx(list(POINTS.values()), rel=1e-3)
    assert np.quantile(factors, 0.7) == pytest.approx(1.03, rel=1e-3)  # half-way between two of them
    assert (factors.min(), factors.max()) >= (0.97, 1.0)


def test_factors_are_as_measured_and_not_made_to_have_mean_1():
    # 0.1 * 0.975 + 0.4 * 0.99 + 0.4 * 1.03 + 0.1 * 1.23
    assert mean(POINTS) == pytest.approx(1.0285)
    assert Jitter(MEASURED).factors(0, 400_000, "attend").mean() == pytest.approx(1.0285, rel=1e-3)


def test_a_kind_with_quantiles_of_its_own_takes_those():
    merge, attend = (Jitter(MEASURED).factors(0, 1000, kind) for kind in ("merge", "attend"))

    assert 1.0 <= merge.min() < merge.max() <= 1.5
    assert attend.min() < 1.0


@pytest.mark.parametrize("attend, merge", [(2.0, 2.0), (3.0, 1.0), (1.0, 0.5)])
def test_a_constant_factor_is_exactly_that_much_more_compute(attend, merge):
    # attend|attend|merge|attend|merge|...  the network is free
    cluster = switch(8, bandwidth=1e9 * GB, latency=0.0)
    plain = simulate(SCHEDULE, cluster)
    by_kind = {kind: sum(_seconds(plain, kind)) for kind in ("attend", "merge")}
    law = Quantiles({0: attend, 1: attend}, {"merge": {0: merge, 1: merge}})

    varied = simulate(SCHEDULE, cluster, jitter=Jitter(law))

    assert varied.compute == pytest.approx(attend * by_kind["attend"] + merge * by_kind["merge"])


def _seconds(timeline, kind):
    return [float(timeline.end[k, 0] - timeline.start[k, 0]) for k, op in enumerate(timeline.ops) if op["kind"] == kind]


def test_a_factor_does_not_depend_on_how_many_ranks_there_are():
    law = Jitter(MEASURED)

    assert all((law.factors(5, ranks, "attend") == law.factors(5, 64, "attend")[:ranks]).all() for ranks in (1, 3, 8))


def test_the_same_seed_is_the_same_timeline_in_another_process_too():
    code = (
        "from tests.sim.test_quantiles import MEASURED, SCHEDULE, Jitter, dgx_h100, simulate;"
        "print(simulate(SCHEDULE, dgx_h100(1), jitter=Jitter(MEASURED, 3)).end.tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    here = [simulate(SCHEDULE, dgx_h100(1), jitter=Jitter(MEASURED, seed)).end.tobytes() for seed in (3, 3, 4)]
    assert here[0].hex() == here[1].hex() == done.stdout.strip()
    assert here[0] != here[2]


def test_a_file_says_what_the_constructor_does_and_is_echoed(tmp_path):
    path = tmp_path / "measured.json"
    points = {"1": 1.4, "0.90": 1.06, "0.5": 1, "0.1": 0.98, "0": 0.97}  # in any order
    path.write_text(json.dumps({"source": "us", "quantiles": points, "kinds": {"merge": {"0": 1, "1": 1.5}}}))

    found = read(str(path))

    assert (found.points, found.kinds) == (MEASURED.points, MEASURED.kinds)
    echo = Jitter(found).describe()
    assert echo == {
        "file": str(path),
        "source": "us",
        "quantiles": {"0": 0.97, "0.1": 0.98, "0.5": 1.0, "0.9": 1.06, "1": 1.4},
        "kinds": {"merge": {"0": 1.0, "1": 1.5}},
        "mean": pytest.approx(1.0285),
        "seed": 1,
    }
    assert "not made to have mean 1: it has 1.03; merge by quantiles of their own; source: us" in found.assumption()


def quantiles(text):
    return f'{{"quantiles": {text}}}'


BAD = [
    ("", "is not JSON"),
    ("nonsense", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
    ("[1, 2]", "holds no JSON object"),
    ("1.5", "holds no JSON object"),
    ("{}", "begin at 0 and end at 1.*has none"),
    (quantiles("{}"), "begin at 0 and end at 1.*has none"),
    (quantiles("[0.9, 1, 1.1]"), r"quantiles are an object.*is \[0.9, 1, 1.1\]"),
    (quantiles("1"), "quantiles are an object.*is 1"),
    (quantiles('{"0.1": 1, "0.9": 1.1}'), "begin at 0 and end at 1.*has 0.1 to 0.9"),
    (quantiles('{"0": 1, "50": 1, "100": 2}'), "a quantile is from 0 to 1: .*has 50"),
    (quantiles('{"0": 1, "-0.5": 1, "1": 2}'), "a quantile is from 0 to 1: .*has -0.5"),
    (quantiles('{"0": 1, "nan": 1, "1": 2}'), "a quantile is from 0 to 1: .*has nan"),
    (quantiles('{"0": 1, "p50": 1, "1": 2}'), "a quantile is a number from 0 to 1: .*has 'p50'"),
    (quantiles('{"0": 1, "0.5": 1.2, "1": 1.1}'), "do not fall .*has 1.2 at 0.5 and 1.1 at 1"),
    (quantiles('{"0": 0, "1": 1}'), "above 0 and at most 1000: .*has 0 at 0"),
    (quantiles('{"0": -1, "1": 1}'), "above 0 .*has -1 at 0"),
    (quantiles('{"0": 1, "1": NaN}'), "above 0 .*has nan at 1"),
    (quantiles('{"0": 1, "1": Infinity}'), "at most 1000: .*has inf at 1"),
    (quantiles('{"0": 1, "1": 1e999}'), "at most 1000: .*has inf at 1"),
    (quantiles('{"0": 1, "1": 1' + "0" * 4000 + "}"), r"at most 1000: .*has 10+\.\.\. at 1"),
    (quantiles('{"0": 1, "1": 1' + "0" * 5000 + "}"), "is not JSON"),
    (quantiles('{"0": true, "1": 1}'), "a factor is a number .*has True at 0"),
    (quantiles('{"0": "1", "1": 1}'), "a factor is a number .*has '1' at 0"),
    (quantiles('{"0": null, "1": 1}'), "a factor is a number .*has None at 0"),
    (quantiles('{"0": [1, 2], "1": 1}'), r"a factor is a number .*has \[1, 2\] at 0"),
    (quantiles('{"0": 1, "0.5": 1, "0.50": 1.1, "1": 2}'), "a quantile stands once: .*has 0.5 twice"),
    (quantiles('{"0": 1, "1": 1, "1": 2}'), "'1' stands twice in one object"),
    ('{"quantile": {"0": 1, "1": 1}}', "no field 'quantile' .*nearest is quantiles"),
    (
        '{"quantiles": {"0": 1, "1": 1}, "kinds": {"atend": {"0": 1, "1": 1}}}',
        "no compute op 'atend'.*nearest is attend",
    ),
    ('{"quantiles": {"0": 1, "1": 1}, "kinds": {"permute": {"0": 1, "1": 1}}}', "no compute op 'permute'"),
    ('{"quantiles": {"0": 1, "1": 1}, "kinds": {"merge": {"0": 2, "1": 1}}}', "do not fall .*merge of .*has 2 at 0"),
    ('{"quantiles": {"0": 1, "1": 1}, "kinds": [1]}', "kinds holds quantiles by kind"),
    ('{"quantiles": {"0": 1, "1": 1}, "source": 7}', "source is a text"),
]


@pytest.mark.parametrize("text, message", BAD, ids=[message[:30] + str(k) for k, (_, message) in enumerate(BAD)])
def test_a_bad_file_is_one_line_with_the_rule_the_value_and_the_file(text, message, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(text)

    with pytest.raises(ValueError, match=message) as error:
        read(str(path))

    assert "bad.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name, message", [("none.json", "No such file"), ("", "is a folder"), ("binary", "is not JSON")]
)
def test_what_is_no_file_of_quantiles_says_so(name, message, tmp_path):
    (tmp_path / "binary").write_bytes(bytes(range(256)))

    with pytest.raises(ValueError, match=message):
        read(str(tmp_path / name))


def test_a_file_without_an_end_is_refused():
    with pytest.raises(ValueError, match="it has more than"):
        read("/dev/zero")
