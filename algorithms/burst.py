"""BurstAttention: keys pass in the forward pass, queries with all that is theirs in the backward pass."""

from collections.abc import Mapping

from algorithms.ir import Attention, Partial, Rank, Value, spmd
from algorithms.ops.delta import delta
from algorithms.ops.load import load, load_gradient
from algorithms.ops.sink import sink
from algorithms.ops.sink_gradient import sink_gradients
from algorithms.rings import attend_passing, differentiate_passing, of_queries


@spmd("outer", "inner", nested=("outer", "inner"), layouts=("documents", "zigzag", "striped", "contiguous"))
def burst(me: Rank, problem: Attention) -> Partial:
    """Attend rank i's queries to every key, passing around W inner rings of w ranks; with W = 1 this is a ring.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends W * (w-1) blocks of 2 * B * Hkv * (N/P) * D elements to the inner ring and W-1 to the outer.
    References:
        Sun et al. "BurstAttention." 2024. arXiv:2403.09347; Sun et al. "BurstEngine." 2025. arXiv:2509.19836
        (topology-aware: the inner ring inside a machine, the outer across).
    """
    (o, i), (W, w) = me.coords, me.sizes
    n = o * w + i
    q, k, v = load(me, problem, problem.queries(W * w)[n], problem.keys(W * w)[n])

    return attend_passing(q, k, v, rings=[("outer", W), ("inner", w)])


@spmd(
    "outer", "inner", nested=("outer", "inner"), phase="train", layouts=("documents", "zigzag", "striped", "contiguous")
)
def burst_train(me: Rank, problem: Attention) -> Mapping[str, Value]:
    """Run the forward pass, then pass queries, do, lse and delta around, dq following them home; dk and dv stay.

    Shapes:
        as burst, and do (n_i, B*H, D) -> dq, dk, dv shaped as q, k, v.
    Cost:
        backward sends, of N/P rows, W * (w-1) blocks of q, do, lse and delta and W * w of dq to the inner ring, W-1 and
        W to the outer: 3 * B * H * D elements a row where a ring sends 4 * B * Hkv * D, so fewer with as many KV heads
        as query heads, more from two query heads a KV head on. dq has communicators of its own (the authors' dq_group)
        and goes home in each inner ring before it goes on.
    References:
        Sun et al. 2024. arXiv:2403.09347; delta travels in place of out, as with the authors' optimize_bwd_comm.
    """
    (o, i), (W, w) = me.coords, me.sizes
    n, rings = o * w + i, [("outer", W), ("inner", w)]
    q, k, v = load(me, problem, problem.queries(W * w)[n], problem.keys(W * w)[n])

    part = sink(attend_passing(q, k, v, rings=rings))

    do = load_gradient(me, problem, q.tokens)
    side = (q, do, part.lse, d := delta(do, part.out))
    (dk, dv), (dq,) = differentiate_passing(side, of_queries(k, v), rings, lane=1)
    return {**part._asdict(), "dq": dq, "dk": dk, "dv": dv, **sink_gradients(part.lse, d, over=("outer", "inner"))}
