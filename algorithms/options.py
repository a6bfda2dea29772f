"""The problem's command-line options, shared by both commands, and the problem and mesh that they describe."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

import algorithms
from algorithms import models

if TYPE_CHECKING:
    from algorithms.ir import Attention, Program
    from algorithms.ir.job import Job

LARGEST_COUNT = 2**60
POWERS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
DTYPES = {  # what people type -> the name in full
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8": "float8_e4m3",
}
_COUNT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([KMGT]?)", re.IGNORECASE)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def parse_count(text: str, minimum: int = 1) -> int:
    """Read a count of tokens or heads in which K, M, G and T are powers of two: 1048576, 1M, 1.5K.

    Raises:
        ValueError: not a count, no whole number, below minimum or above 2**60.
    """
    shown = text if len(text) <= 40 else text[:37] + "..."
    match = _COUNT.fullmatch(text.strip()) if len(text) <= 40 else None
    if match is None:
        raise ValueError(f"expected digits with at most one of K, M, G, T after them, got {shown!r}")
    count = Fraction(match[1]) * POWERS[match[2].upper()]
    if count.denominator != 1:
        raise ValueError(f"expected a whole number, got {shown} = {float(count):.12g}")
    if not minimum <= count <= LARGEST_COUNT:
        raise ValueError(f"expected {minimum} to 2^60, got {shown}")
    return int(count)


def _counted(minimum: int = 1) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """Return what reads a count for click."""

    def read(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
        try:
            return None if text is None else parse_count(text, minimum)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return read


def count_option(name: str, help_text: str, default: str | None = None, minimum: int = 1) -> Callable[[Any], Any]:
    """Return an option that takes a count as people type it: 1048576, 1M, 0.5K."""
    shown = default is not None
    return click.option(
        name, callback=_counted(minimum), default=default, show_default=shown, metavar="N", help=help_text
    )


@dataclass(frozen=True)
class Asked:
    """What the problem's options said, as typed; None where nothing was said."""

    model: str | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    head_dim_v: int | None
    shared_kv: bool
    seq: int | None
    cached: int
    new: int | None
    batch: int
    mask: str
    lengths: str | None
    softcap: float
    alibi: bool
    sinks: bool
    phase: str
    dtype: str
    kv_dtype: str | None
    state_dtype: str
    grad_dtype: str
    layout: str
    tp: int
    cp: int | None
    dp: int
    mesh: str | None
    ways: str


def _name(name: str, metavar: str, default: str | None, help_text: str) -> Callable[[Any], Any]:
    """Return an option that takes a name."""
    return click.option(name, metavar=metavar, default=default, show_default=bool(default), help=help_text)


MASK_HELP = "full, causal, window:W, documents:L+L+...|FILE, or window:W (full) and documents with a comma."
SCORE_OPTIONS = (
    _name("--lengths", "L,L,...|FILE", None, "Tokens of each packed document, or of each sequence of a ragged decode."),
    click.option("--softcap", type=float, default=0.0, metavar="X", help="Cap scores: X * tanh(score / X)."),
    click.option("--alibi", is_flag=True, help="Bias scores by distance, a slope for each head."),
    click.option("--sinks", is_flag=True, help="One more logit a head, learned, that no value belongs to."),
)


def _options(dtype: str, state: str | None, grad: str | None, ways: str | None, said: str = "") -> tuple[Any, ...]:
    """The problem's options, with these defaults; said: of partial results, what None means."""
    return (
        _name("--model", "NAME|FILE", None, "A model by name, or its config.json."),
        count_option("--heads", "Query heads, in place of --model."),
        count_option("--kv-heads", "Key/value heads.  [default: as many as heads]"),
        count_option("--head-dim", "Width of a head, in place of --model."),
        count_option("--head-dim-v", "Width of a value head.  [default: as head-dim]"),
        click.option("--shared-kv", is_flag=True, help="Keys and values are one tensor (MLA)."),
        count_option("--seq", "Tokens: new ones in prefill and train, all in decode; 1M is 1048576."),
        count_option("--cached", "Tokens before the new ones (prefill).", "0", minimum=0),
        count_option("--new", "Tokens that a step asks about, of each sequence (decode).  [default: 1]"),
        count_option("--batch", "Sequences of the whole job.", "1"),
        _name("--mask", "MASK", "causal", MASK_HELP),
        *SCORE_OPTIONS,
        _name("--phase", "PHASE", "prefill", "prefill, train or decode."),
        _name("--dtype", "DTYPE", dtype, "Of activations."),
        _name("--kv-dtype", "DTYPE", None, "Of keys and values.  [default: as dtype]"),
        _name("--state-dtype", "DTYPE", state, f"Of partial results, kept and sent.{said}"),
        _name("--grad-dtype", "DTYPE", grad, f"Of gradients that are sent.{said}"),
        _name(
            "--layout",
            "LAYOUT",
            "auto",
            "How tokens are dealt to ranks: contiguous, zigzag, striped, documents (each by itself), pages:N (every "
            "rank a page in turn), or auto (compare: the best; simulate: the first).",
        ),
        count_option("--tp", "Ranks that split the heads.", "1"),
        count_option("--cp", "Ranks that split a sequence.  [default: all / (tp * dp)]"),
        count_option("--dp", "Ranks that split the batch.", "1"),
        _name("--mesh", "AXIS=N,...", None, "The mesh, slowest axis first, as row=8,col=8."),
        _name("--ways", "OP=WAY,...", ways, "How collectives run, as all_gather=ring."),
    )


SIMULATED = _options("bfloat16", "float32", "float32", "")
RUN = _options("float64", None, None, None, "  [default: as dtype, float32 at least]")  # as processors compute


def as_record(name: str, record: type[Any], options: Sequence[Callable[[Any], Any]]) -> Callable[[_Command], _Command]:
    """Return a decorator that gives a click command these options as one argument, a record of their values."""

    def decorate(command: _Command) -> _Command:
        @functools.wraps(command)
        def with_record(*args: Any, **given: Any) -> Any:
            made = record(**{field.name: given.pop(field.name) for field in fields(record)})
            return command(*args, **{name: made}, **given)

        decorated: Any = with_record
        for option in reversed(options):
            decorated = option(decorated)
        return cast(_Command, decorated)

    return decorate


def problem_options(command: _Command) -> _Command:
    """Give a click command the problem's options, as one argument `asked`."""
    return as_record("asked", Asked, SIMULATED)(command)


def run_options(command: _Command) -> _Command:
    """Give a click command the same for a run: in float64, and ways, state and gradient types are None unless said."""
    return as_record("asked", Asked, RUN)(command)


def algorithms_option(command: _Command) -> _Command:
    """Give a click command --algorithms, as argument algorithms."""
    help_text = "Names, aliases or FILE.py:NAME, separated by commas; or all."
    option = click.option("--algorithms", default="all", show_default=True, metavar="A,B,...", help=help_text)
    return option(command)


def algorithms_from(text: str) -> dict[str, dict[str, Program]]:
    """Return the programs, by phase, of each algorithm named, by the name to print.

    Raises:
        ValueError: no such algorithm, or none is named.
    """
    named = [name for part in text.split(",") if (name := part.strip())]
    if not named:
        raise ValueError("--algorithms names none: expected names separated by commas, or all")
    chosen: list[str] = []
    for name in named:
        chosen += algorithms.names() if name == "all" else [algorithms.ALIASES.get(name, name)]
    return {name: algorithms.find(name) for name in chosen}


def model_from(asked: Asked) -> models.Model:
    """Return the model that --model names, or that the widths describe.

    Raises:
        ValueError: both are given, or neither.
    """
    widths = ("heads", "kv_heads", "head_dim", "head_dim_v", "shared_kv")
    given = ["--" + name.replace("_", "-") for name in widths if getattr(asked, name)]
    if asked.model is not None:
        if given:
            raise ValueError(f"--model says what {', '.join(given)} would: give one or the other")
        return models.find(asked.model)
    if asked.heads is None or asked.head_dim is None:
        raise ValueError("a problem needs --model, or --heads and --head-dim")
    kv_heads, values = asked.kv_heads or asked.heads, asked.head_dim_v or asked.head_dim
    return models.Model("", 1, asked.heads, kv_heads, asked.head_dim, values, asked.shared_kv, "as given")


def problem_from(asked: Asked) -> Attention:
    """Return the attention of one layer, of those that see most.

    With --layout auto it is laid out contiguously, a ragged batch by sequence.

    Raises:
        ValueError: an option is missing, absurd or at odds with another; a name is unknown.
    """
    return problems_from(asked)[0][1]


def problems_from(asked: Asked) -> list[tuple[int, Attention]]:
    """Return, of each kind of layers of the model, how many there are and the attention of one; the widest first.

    Raises:
        ValueError: as `problem_from`.
    """
    from algorithms.ir import Attention
    from algorithms.masks import mask_from

    model = model_from(asked).form(asked.phase)
    mask = mask_from(asked.mask, asked.lengths)
    queries, keys = _lengths(asked, mask.documents)
    ragged = asked.phase == "decode" and mask.documents
    problem = Attention(
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        head_dim_v=model.head_dim_v,
        shared_kv=model.shared_kv,
        query_len=queries,
        key_len=keys,
        batch=asked.batch,
        mask=mask,
        softcap=asked.softcap,
        alibi=asked.alibi,
        sinks=asked.sinks,
        phase=asked.phase,
        layout=("documents" if ragged else "contiguous") if asked.layout == "auto" else asked.layout,
        dtype=DTYPES.get(asked.dtype, asked.dtype),
        kv_dtype=DTYPES.get(asked.kv_dtype or "", asked.kv_dtype or ""),
        state_dtype=DTYPES.get(asked.state_dtype, asked.state_dtype),
        grad_dtype=DTYPES.get(asked.grad_dtype, asked.grad_dtype),
    )
    layers: dict[Attention, int] = {}
    for kind in model.of_kinds:  # a window that cuts nothing makes no kind of its own
        changed = kind.change(problem, model.name)
        layers[changed] = layers.get(changed, 0) + kind.layers
    return [(number, changed) for changed, number in layers.items()]


def _lengths(asked: Asked, documents: tuple[int, ...]) -> tuple[int, int]:
    """Queries and keys: decode asks about its last tokens, of each document, the others about all that are new."""
    if asked.cached and asked.phase != "prefill":
        raise ValueError(f"--cached {asked.cached} is for prefill: {asked.phase} has all its tokens in --seq")
    if asked.new is not None and asked.phase != "decode":
        raise ValueError(f"--new {asked.new} is for decode: all tokens of {asked.phase} are new but --cached")
    seq = asked.seq or sum(documents) - asked.cached
    if seq < 1:
        told = f": {len(documents)} documents have {sum(documents)}, --cached {asked.cached}" if documents else ""
        raise ValueError(f"a problem needs --seq, its tokens{told}")
    if asked.phase == "decode":
        return (asked.new or 1) * max(1, len(documents)), seq
    return seq, seq + asked.cached


def job_from(asked: Asked, ranks: int, have: str) -> Job:
    """Return how the job's ranks are shared out, as `algorithms.ir.job.share_out` does.

    Args:
        ranks: how many there are. have: who has them, to end a message: "cluster dgx_h100(1) has 8 GPUs".
    """
    from algorithms.ir.job import share_out

    return share_out(ranks, have, tp=asked.tp, cp=asked.cp, dp=asked.dp, mesh=asked.mesh)
