"""Problems, meshes and ways as hypothesis draws them, and how a run is held against dense attention."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import algorithms
from algorithms import ways
from algorithms.ir import Attention, Inapplicable, Mesh
from algorithms.ir.job import factorisations
from algorithms.ir.layout import LAYOUTS
from algorithms.ir.mask import Mask
from executor.arrays import random_inputs
from executor.exact import judge, reference

PROGRAMS = {(name, phase): p for name in algorithms.names() for phase, p in algorithms.find(name).items()}
STATES = {"float64": ["float64"], "float32": ["float32", "float64"], "float16": ["float32", "float64"]}


@st.composite
def meshes(draw, program, largest=64):
    """A mesh for a program's axes, sometimes with tp and dp beside them, in any order."""
    ranks = draw(st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 64]).filter(lambda n: n <= largest))
    names = (*program.axes, "tp", "dp")
    shapes = (dict(zip(names, shape, strict=True)) for shape in factorisations(ranks, len(names)))
    shape = draw(st.sampled_from([s for s in shapes if len({s[axis] for axis in program.equal}) <= 1]))
    return Mesh(**dict(draw(st.permutations(list(shape.items())))))


@st.composite
def tokens(draw, phase, batch):
    """Lengths, and a mask and a layout for them: documents are a batch of their own in decode."""
    new, cached = draw(st.integers(1, 4 if phase == "decode" else 70)), draw(st.integers(0, 70))
    layout = draw(st.sampled_from([*LAYOUTS, "pages:4"]))
    causal, window = draw(st.sampled_from([(False, 0), (True, 0), (True, draw(st.integers(1, 40)))]))
    if (phase == "decode" and batch > 1) or draw(st.booleans()):
        return {"query_len": new, "key_len": new + cached, "mask": Mask(causal, window), "layout": layout}
    if phase == "decode":
        lengths = draw(st.lists(st.integers(new, new + 20), min_size=1, max_size=5))
        new *= len(lengths)
    else:
        ends = draw(st.sets(st.integers(1, new + cached), max_size=5)) | {new + cached}
        lengths = np.diff([0, *sorted(ends)]).tolist()
    dealt = draw(st.sampled_from([layout, "documents"]))
    return {"query_len": new, "key_len": sum(lengths), "mask": Mask(causal, window, tuple(lengths)), "layout": dealt}


@st.composite
def scores(draw):
    """What changes the scores: mostly nothing."""
    softcap, alibi, sinks = draw(st.sampled_from([(0.0, False, False), (0.0, False, True), (1.5, True, True)]))
    return {"softcap": softcap, "alibi": alibi, "sinks": sinks}


@st.composite
def problems(draw, phase, mesh):
    """A problem that the mesh's tp and dp divide."""
    tp, dp = mesh.axes["tp"], mesh.axes["dp"]
    kv_heads = draw(st.sampled_from([1, 2, 3])) * draw(st.sampled_from([1, tp]))
    group = draw(st.sampled_from([1, 2, 3])) * draw(st.sampled_from([tp, mesh.size]))
    shared, width = draw(st.booleans()), draw(st.integers(1, 9))
    batch = dp * draw(st.integers(1, 2))
    dtype = draw(st.sampled_from(list(STATES)))
    state = draw(st.sampled_from(STATES[dtype]))
    return Attention(
        heads=kv_heads * group,
        kv_heads=kv_heads,
        head_dim=width,
        head_dim_v=draw(st.integers(1, width if shared else 9)),
        shared_kv=shared,
        batch=batch,
        dtype=dtype,
        state_dtype=state,
        grad_dtype=state,
        phase=phase,
        **draw(tokens(phase, batch)),
        **draw(scores()),
    )


@st.composite
def schedules(draw, largest=64):
    """Any algorithm, traced for a problem it can serve."""
    _, phase = key = draw(st.sampled_from(sorted(PROGRAMS)))
    mesh = draw(meshes(PROGRAMS[key], largest))
    try:
        return PROGRAMS[key](draw(problems(phase, mesh)), mesh)
    except Inapplicable:
        assume(False)


def chosen_ways():
    """A way for every collective."""
    return st.fixed_dictionaries({kind: st.sampled_from(ways.names(kind)) for kind in ways.COLLECTIVES})


def judged(schedule, run, seed=0, **options):
    """Run a schedule on random inputs and compare: the run, and its verdict."""
    arrays = random_inputs(schedule.problem, seed)
    ran = run(schedule, arrays, **options)
    return ran, judge(schedule, ran.results, reference(schedule.problem, arrays))
