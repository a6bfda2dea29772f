"""All-gather KV: every rank gathers all keys and values and attends its own queries to them."""

from algorithms.ir import Attention, Partial, Rank, spmd
from algorithms.ops.all_gather import all_gather
from algorithms.ops.attend import attend
from algorithms.ops.load import load


@spmd("cp", layouts=("zigzag", "striped", "contiguous"))
def all_gather_kv(me: Rank, problem: Attention) -> Partial:
    """Attend rank i's queries to all keys in one call.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (P-1) * 2 * B * Hkv * (N/P) * D elements, none of it hidden; holds all keys and values.
    References:
        Llama Team. "The Llama 3 Herd of Models." 2024. arXiv:2407.21783, section 3.3.2.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])

    k, v = all_gather(k, v, over="cp")
    return attend(q, k, v)
