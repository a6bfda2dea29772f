"""The `ringloom-run` command: schedules run for real."""

from __future__ import annotations

import functools
import sys
from typing import Any

import click

from algorithms.options import MASK_HELP, SCORE_OPTIONS, Asked, algorithms_option, count_option, run_options
from executor import launch
from executor.errors import BadInput

RANKS = click.IntRange(1, 4096)  # in one process, or to launch on this machine


def scored(command: Any) -> Any:
    """Give a command the options of documents and scores."""
    return functools.reduce(lambda made, option: option(made), reversed(SCORE_OPTIONS), command)


def _placed(command: Any) -> Any:
    """Give a command that times the options of how its ranks are started and bound."""
    options = (
        click.option("--no-pin", "pin", flag_value=False, default=True, help="Do not bind each rank to a core."),
        click.option(
            "--oversubscribe", is_flag=True, help="Allow more ranks than cores, which time each other's turns."
        ),
        click.option("--launch", "launched", type=RANKS, metavar="N", help="Start `mpiexec -n N` of this command."),
    )
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


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
        _launch(launched)
    if local is not None:
        launch.refuse_ranks(f"--local {local}")
    from executor.proof import proved

    return proved(names, local, options)


@cli.command("time")
@click.argument("name", metavar="NAME|FILE.py:NAME")
@run_options
@click.option("--native", is_flag=True, help="Collectives of MPI's own: the default.")
@click.option("--kernel", default="numba", show_default=True, metavar="KERNEL", help="numba, numpy or dense.")
@click.option("--warmup", type=click.IntRange(0), default=3, show_default=True, help="Runs before those that count.")
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True, help="Runs that count.")
@click.option("--seconds", type=float, metavar="S", help="Stop after so long, but not before 3 runs that count.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random inputs.")
@click.option("--timeline", metavar="FILE", help="Write when each op of the run nearest the median ran.")
@click.option("--json", "as_json", is_flag=True, help="Print data and nothing else.")
@_placed
def timed(name: str, asked: Asked, launched: int | None, **wanted: Any) -> int:
    """Time an algorithm for real: median over runs of the rank that ends last."""
    _launch(launched)
    from executor.time_command import Wanted
    from executor.time_command import timed as answered

    return answered(name, asked, Wanted(**wanted))


@cli.command("calibrate")
@click.option("--out", required=True, metavar="FILE.json", help="The cluster file to write, for --cluster FILE.json.")
@algorithms_option
@click.option(
    "--dtype", "dtypes", default="float64,float32", show_default=True, metavar="DTYPE,...", help="Types to measure."
)
@click.option("--head-dim", type=click.IntRange(1, 1024), default=64, show_default=True, help="Width of a head.")
@click.option("--kernel", default="numba", show_default=True, metavar="KERNEL", help="numba, numpy or dense.")
@click.option(
    "--rounds", type=click.IntRange(3), metavar="N", help="How often each is measured.  [default: 9, quick: 5]"
)
@click.option("--quick", is_flag=True, help="Fewer shapes and sizes, no backward pass: seconds in place of minutes.")
@_placed
def calibrate(launched: int | None, **wanted: Any) -> int:
    """Measure this machine: kernels, messages, collectives and glue, as a cluster file with its costs."""
    _launch(launched)
    from executor.calibration.command import Wanted, calibrated

    return calibrated(Wanted(**wanted))


def _launch(ranks: int | None) -> None:
    """Become mpiexec where that was asked for."""
    if ranks is not None:
        launch.again(ranks, _without_launch(sys.orig_argv[1:]))  # as it was started: -m, or a script


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
