"""The `ringloom-run` command: schedules run for real."""

from __future__ import annotations

import functools
import sys
from typing import Any

import click

from algorithms.options import MASK_HELP, SCORE_OPTIONS, count_option
from executor import launch
from executor.errors import BadInput

RANKS = click.IntRange(1, 4096)  # in one process, or to launch on this machine


def scored(command: Any) -> Any:
    """Give a command the options of documents and scores."""
    return functools.reduce(lambda made, option: option(made), reversed(SCORE_OPTIONS), command)


@click.group(no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run distributed attention for real: one rank a process under mpiexec, or all ranks in one process."""


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="all|NAME|FILE.py:NAME...")
@click.option("--phase", default="all", show_default=True, metavar="PHASE", help="prefill, train, decode or all.")
@click.option("--mask", metavar="MASK", help=f"{MASK_HELP}  [default: full, causal, and a few of the others]")
@scored
@click.option("--layout", default="all", show_default=True, metavar="LAYOUT", help="How tokens are dealt to ranks.")
@click.option("--mesh", metavar="AXIS=N,...", help="The mesh, slowest axis first.  [default: all that use all ranks]")
@count_option("--tp", "Ranks that split the heads.", "1")
@count_option("--dp", "Ranks that split the batch.", "1")
@count_option("--heads", "Query heads.  [default: several GQA ratios]")
@count_option("--kv-heads", "Key/value heads.")
@count_option("--head-dim", "Width of a head.")
@count_option("--head-dim-v", "Width of a value head.")
@click.option("--shared-kv", is_flag=True, help="Keys and values are one tensor (MLA).")
@count_option("--seq", "Tokens: new ones in prefill and train, all in decode.  [default: several]")
@count_option("--cached", "Tokens before them (prefill).", minimum=0)
@count_option("--new", "Tokens a step asks about, of each sequence (decode).")
@count_option("--batch", "Sequences of the whole job.  [default: dp]")
@click.option("--dtype", default="", metavar="DTYPE", help="float64, float32 or float16.  [default: float64]")
@click.option("--kv-dtype", default="", metavar="DTYPE", help="Of keys and values.  [default: as dtype]")
@click.option("--state-dtype", default="", metavar="DTYPE", help="Of partial results.  [default: float32 at least]")
@click.option("--ways", metavar="OP=WAY,...", help="Carry collectives out by our rounds of sends, as all_gather=ring.")
@click.option("--native", is_flag=True, help="Collectives of MPI's own: the default.")
@click.option(
    "--kernel", default="", metavar="KERNEL", help="numba, numpy, dense, cuda or torch.  [default: by device]"
)
@click.option("--device", default="cpu", show_default=True, metavar="DEVICE", help="Where arrays are: cpu or gpu.")
@click.option(
    "--transport", metavar="TRANSPORT", help="Between GPUs: staged, cuda-aware, nccl or auto.  [default: auto]"
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random inputs.")
@click.option("--inputs", metavar="FILE.npz", help="Arrays q, k, v (do, sinks), each (tokens, batch * heads, width).")
@click.option("--json", "as_json", is_flag=True, help="Print data and nothing else.")
@click.option("--timeline", metavar="FILE", help="Write when each op of the one case ran.")
@click.option("--local", type=RANKS, metavar="N", help="Run N ranks in this one process, without MPI.")
@click.option(
    "--launch",
    "launched",
    type=RANKS,
    metavar="N",
    help="Start `mpiexec -n N` of this command.",
)
def check(names: tuple[str, ...], local: int | None, launched: int | None, **options: Any) -> int:
    """Prove algorithms exact: run them, and compare with dense attention in float64 within stated bounds."""
    if launched is not None:
        if local is not None:
            raise BadInput(f"--local {local} and --launch {launched}: give one or the other")
        launch.again(launched, _without_launch(sys.orig_argv[1:]))  # as it was started: -m, or a script
    if local is not None:
        launch.refuse_ranks(f"--local {local}")
    from executor.proof import proved

    return proved(names, local, options)


def _without_launch(argv: list[str]) -> list[str]:
    kept, skip = [], False
    for word in argv:
        if not skip and word != "--launch" and not word.startswith("--launch="):
            kept.append(word)
        skip = word == "--launch"
    return kept


def main() -> None:
    """Run the command and end all ranks with its exit status."""
    launch.prepare()
    sys.exit(launch.guarded(lambda: cli.main(prog_name=launch.COMMAND, standalone_mode=False)))


if __name__ == "__main__":
    main()
