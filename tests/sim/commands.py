"""Commands run in this process, and what they print."""

import json

from sim.commands import run


def answer(capsys, *arguments):
    """What a command prints with --json, read."""
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def shown(capsys, *arguments):
    """What a command prints for people."""
    assert run([*arguments]) == 0
    return capsys.readouterr().out
