"""Ring pass-Q: keys stay, queries visit every rank, and what each visit found goes home in one all-to-all."""

from algorithms.ir import Attention, Partial, Rank, require, spmd
from algorithms.ops.attend import attend
from algorithms.ops.load import load, load_keys, load_queries, shard_width
from algorithms.ops.permute import permute
from algorithms.ops.reduce_scatter import merge_visits


@spmd("cp", layouts=("zigzag", "striped", "contiguous"))
def pass_q(me: Rank, problem: Attention) -> Partial:
    """Attend the passing blocks of new queries to rank i's keys, cached and new.

    Shapes:
        per rank: q (n_i, B*H, D), k, v (m_i, B*Hkv, D) -> out (n_i, B*H, D), lse (n_i, B*H).
    Cost:
        sends (P-1) * B * H * (T/P) * D elements of T new queries around, and as many of (out, lse) home. Keys do
        not move, however many are cached: less than pass-KV where T / (T + C) < 2 Hkv / H. Holds P partial states.
    References:
        Yang et al. "Context Parallelism for Scalable Million-Token Inference." 2024. arXiv:2411.01783.
    """
    (i,), (p,) = me.coords, me.sizes
    q, k, v = load(me, problem, problem.queries(p)[i], problem.keys(p)[i])
    mine = q

    visits = [attend(q, k, v)]
    for _ in range(1, p):
        q = permute(q, over="cp", shift=1)
        visits.append(attend(q, k, v))
    return merge_visits(visits, over="cp", like=mine, way="direct")


@spmd("cp", phase="decode")
def pass_q_decode(me: Rank, problem: Attention) -> Partial:
    """Attend the passing queries of some sequences (or KV heads of one) to rank i's keys of those.

    Shapes:
        per rank: q (n, B*H/P, D), k, v (m_i, B*Hkv, D) -> out (n, B*H/P, D), lse (n, B*H/P).
    Cost:
        sends (P-1)/P * n*B*H*D elements of q around, and as many of (out, lse) home. P-1 steps of latency.
    Raises:
        Inapplicable: P does not divide B * Hkv, the pairs of a sequence and a KV head that are dealt.
    References:
        Yang et al. 2024. arXiv:2411.01783: the sequences of a batch are dealt to ranks, and queries passed around.
    """
    (i,), (p,) = me.coords, me.sizes
    pairs, _ = shard_width(me.mesh, problem, problem.kv_heads, problem.head_dim)
    require(pairs % p == 0, f"cp={p} does not divide {pairs}, the sequences times their KV heads, which it deals")
    q = mine = load_queries(me, problem, problem.queries(1)[0], heads="cp")

    visits = []
    for step in range(p):
        if step:
            q = permute(q, over="cp", shift=1)
        k, v = load_keys(me, problem, problem.keys(p)[i], part=(i - step) % p, parts=p)
        visits.append(attend(q, k, v))
    return merge_visits(visits, over="cp", like=mine, way="direct")
