"""The `ringloom` command: each subcommand is a module of this folder, imported when it is called."""

from __future__ import annotations

import gc
import importlib
import io
import os
import signal
import sys

import click

SUBCOMMANDS = {  # stated here so that --help imports none of them
    "compare": "Rank algorithms for a cluster and a problem, best first.",
    "simulate": "Look at ALGORITHM in depth: where its time, its bytes and its memory go.",
    "validate": "Put what was measured, or published, beside what is predicted.",
    "topology": "List, show, import or check clusters.",
    "calibrate": "Turn logs of communication (nccl-tests, OSU, Kineto) into the costs of a cluster.",
    "doctor": "Say what is installed, what is missing and why, and where each package was loaded from.",
}

LONGEST = 1000  # characters of a message


class _Lazy(click.Group):
    """A group that imports a subcommand when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = importlib.import_module(f"sim.commands.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in SUBCOMMANDS:
            from algorithms import unknown

            raise click.UsageError(unknown("command", args[0], SUBCOMMANDS))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the version and stop."""
    if asked:
        click.echo(f"ringloom {version()}")
        ctx.exit()


def version() -> str:
    """Return the version installed."""
    from importlib import metadata

    try:
        return metadata.version("ringloom")
    except metadata.PackageNotFoundError:
        return "not installed"


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def cli() -> None:
    """Time distributed attention on any cluster that can be described."""


def main() -> None:
    """Run the command; every error is one line, and no traceback reaches a user."""
    _steady_streams()
    signal.signal(signal.SIGTERM, _leave)
    gc.set_threshold(200_000, 20, 20)  # a schedule is a million small objects that stay
    status = run(sys.argv[1:])
    gc.freeze()  # else all that is left is looked through once more at exit, for a second at 16,384 ranks
    sys.exit(status)


def _leave(*_: object) -> None:
    """End on SIGTERM by an exception, so that half-written files are cleared away."""
    sys.exit(128 + signal.SIGTERM)


def _steady_streams() -> None:
    """Let no stream fail: one that was closed swallows what it gets, one of few characters shows ? for others."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def run(arguments: list[str]) -> int:
    """Run the command with these arguments.

    Returns:
        The exit status: 0 done, 2 bad input, 130 interrupted, 1 anything else, such as a run that can never end.
    """
    try:
        status = cli.main(arguments or ["--help"], prog_name="ringloom", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except (KeyboardInterrupt, click.Abort):
        print("ringloom: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader has gone, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("RINGLOOM_DEBUG"):
            raise
        bad_input = _is_bad_input(error)
        print(f"ringloom: {_line(error, bad_input)}", file=sys.stderr)
        return 2 if bad_input else 1


def _is_bad_input(error: Exception) -> bool:
    """Whether an error is about what the user gave: ours are, and click's."""
    return isinstance(error, (ValueError, click.ClickException))


def _line(error: Exception, bad_input: bool) -> str:
    """An error in one line: no control characters, and no more of what was typed than can be read."""
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(text.split()))
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 200]} ... {text[-195:]}"
    if bad_input or getattr(error, "is_answer", False):
        return text
    return f"{type(error).__name__}: {text} (RINGLOOM_DEBUG=1 shows where)"
