"""Bytes of the parts of a layer, for formulas that add them up over all ranks.

Conventions: one lse a row and head; queries, keys and values in bfloat16 (2 bytes) unless said, partial states in
float32 (4), gradients in flight in float32 (4).
"""

from algorithms.ir import Attention
from algorithms.ways.transfers import sent_bytes

B, H, HKV, D, DV = 3, 12, 2, 8, 6
E, EO, EG = 2, 4, 4
LENGTHS = [(240, 240), (37, 41), (3, 7)]


def problem(n, m, **changes):
    return Attention(H, HKV, D, n, m, batch=B, head_dim_v=DV, mask="causal", **{"layout": "zigzag"} | changes)


def sent(schedule, kind=None, over=None, **chosen):
    """Bytes that all ranks send, in ops of one kind or all, over some axes or all."""
    ops = [op for op in schedule.ops if kind in (None, op.kind) and over in (None, op.over)]
    return int(sum(sent_bytes(op, schedule.mesh, chosen).sum() for op in ops))


def queries(n, heads=H):
    return n * B * heads * D * E


def keys_and_values(m, heads=HKV, e=E):
    return m * B * heads * (D + DV) * e


def state(n):
    return n * B * H * (DV + 1) * EO  # out, and one lse


def query_side(n):
    return queries(n) + n * B * H * (DV * E + 2 * EO)  # q and do; lse and delta


def query_gradients(n, e=EG):
    return n * B * H * D * e


def gradients(m, heads=HKV, e=EG):
    return keys_and_values(m, heads, e)  # dk and dv


def hops(way, p):
    """How often the blocks of one sender travel in an all-to-all, over its p - 1 receivers."""
    distances = range(1, p)
    return {
        "direct": p - 1,
        "pairwise": p - 1,
        "ring": sum(distances),  # from neighbour to neighbour
        "doubling": sum(d.bit_count() for d in distances),  # once for each binary digit of the distance
    }[way]
