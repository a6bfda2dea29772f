"""Files that a command is to write."""

import os

import click

CLUSTERS = ("json", "yaml", "yml", "graphml")
cluster_output = click.option(
    "-o", "--output", metavar="FILE", help=f"Write the cluster here: {', '.join(CLUSTERS)}, by its suffix."
)


def check_cluster(output: str | None) -> None:
    """Refuse a cluster file that could not be written, before the work.

    Raises:
        ValueError: its suffix, or why not.
    """
    if output is None:
        return
    if output.rpartition(".")[2].lower() not in CLUSTERS:
        raise ValueError(f"-o {output}: the suffix says the format, one of {', '.join(CLUSTERS)}")
    if text := fault(output):
        raise ValueError(f"-o {output} {text}")


def fault(path: str) -> str:
    """Why a file cannot be written; empty if nothing is known against it."""
    folder = os.path.dirname(os.path.abspath(path))
    if not path or os.path.isdir(path):
        return "is a folder"
    if not os.path.isdir(folder):
        return "is in no folder that exists"
    try:
        os.stat(path)
    except FileNotFoundError:
        return "" if os.access(folder, os.W_OK) else "is in a folder that cannot be written"
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    return ""
