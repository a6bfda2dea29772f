"""The command as a process: signals, and streams that are closed or know few characters."""

import os
import subprocess
import sys

import pytest

from tests.sim.test_commands import SMALL


@pytest.mark.parametrize("arguments", [["compare", *SMALL], ["topology", "show", "switch"], ["topology", "list"]])
def test_a_terminal_of_few_characters_gets_lines_of_those(arguments):
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    code = f"import sys; sys.argv[1:] = {arguments!r}; from sim.commands import main; main()"

    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)

    assert (done.returncode, b"?" in done.stdout, done.stdout.isascii()) == (0, False, True)


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_stream_that_was_closed_swallows_what_it_is_given(closed):
    code = "import sys; sys.argv[1:] = ['topology', 'show']; from sim.commands import main; main()"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = f'exec "$0" -c "$1" {"1" if closed == "stdout" else "2"}>&-'

    done = subprocess.run(["sh", "-c", command, sys.executable, code], check=False, **streams)

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_has_gone_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    code = "from sim.commands import main; import sys; sys.argv = ['ringloom', 'topology', 'list']; main()"

    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)

    assert done.stderr == ""
    assert done.returncode == 1


def test_a_run_that_is_terminated_clears_away_what_it_was_writing(tmp_path):
    code = (
        "import os, signal, time\n"
        "import sim.commands.doctor as doctor\n"
        "from algorithms.ir.timeline import whole\n"
        "def report():\n"
        "    with whole('t.json') as file:\n"
        "        file.write('half')\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(60)\n"
        "doctor.report = report\n"
        "import sys; sys.argv = ['ringloom', 'doctor']\n"
        "from sim.commands import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=50
    )

    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (143, "", [])


def test_a_run_that_is_interrupted_leaves_no_traceback(tmp_path):
    code = (
        "import os, signal, threading, time\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "import sim.commands.doctor as doctor\n"
        "doctor.report = lambda: time.sleep(60)\n"
        "import sys; sys.argv = ['ringloom', 'doctor']\n"
        "from sim.commands import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 130
    assert done.stderr.strip() == "ringloom: interrupted"
