"""The command: quick help, one line for every error, exit statuses."""

import importlib
import re
import subprocess
import sys
import time

import click
import pytest

from sim import commands
from sim.commands import run

SMALL = ["--cluster", "switch", "--gpus", "8", "--heads", "8", "--head-dim", "64", "--seq", "4K"]
TREE = ["--cluster", "dgx_h100", "--nodes", "2", "--heads", "8", "--head-dim", "64", "--seq", "4K"]
HEAVY = ("numba", "networkx", "numpy", "rich", "simpy", "mpi4py", "cupy")


def imported(*arguments):
    """The modules that a run of the command has imported."""
    code = f"import sys; from sim.commands import run; run({list(arguments)!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["simulate", "-h"], ["--version"], []])
def test_help_imports_nothing_heavy(arguments):
    assert imported(*arguments).isdisjoint(HEAVY)


def test_help_names_every_subcommand(capsys):
    assert run([]) == 0

    shown = capsys.readouterr().out
    for name in commands.SUBCOMMANDS:
        assert f"  {name}" in shown
        assert run([name, "--help"]) == 0


@pytest.mark.parametrize("name, text", commands.SUBCOMMANDS.items())
def test_a_subcommand_says_of_itself_what_the_list_says_of_it(name, text):
    command = importlib.import_module(f"sim.commands.{name}").command

    assert command.help.partition("\n")[0] == text


def test_version_is_that_of_the_distribution(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"ringloom {commands.version()}\n"


BAD = [
    (["compar"], "no command 'compar': expected one of compare, .*; nearest is compare"),
    (["compare"], "a problem needs --model"),
    (["compare", "--seq"], "requires an argument"),
    (["compare", "--foo", "1"], "--foo"),
    (["compare", *SMALL, "--algorithms", "rnig"], "no algorithm 'rnig': .*nearest is ring"),
    (["compare", *SMALL, "--algorithms", "nowhere.py:f"], "no file 'nowhere.py'"),
    (["compare", *SMALL, "--cluster", "swich"], "no topology 'swich': .*nearest is switch"),
    (["compare", "--model", "lama3-8b", "--seq", "1K"], "no model 'lama3-8b': .*nearest is llama3-8b"),
    (["compare", "--model", "{tmp}", "--seq", "1K"], "is a folder"),
    (["compare", "--model", "{tmp}/binary.json", "--seq", "1K"], "is not JSON"),
    (["compare", "--model", "{tmp}/none.json", "--seq", "1K"], "No such file"),
    (["compare", "--model", "{tmp}/window.json", "--seq", "1K"], "'chunked_attention'"),
    (["compare", *SMALL, "--mask", "causl"], "no mask 'causl': .*nearest is causal"),
    (["compare", *SMALL, "--phase", "prefil"], "no phase 'prefil': .*nearest is prefill"),
    (["compare", *SMALL, "--layout", "zigzga"], "no layout 'zigzga': .*nearest is zigzag"),
    (["compare", *SMALL, "--ways", "all_gather=rnig"], "no way 'rnig' for all_gather: .*nearest is ring"),
    (["compare", *SMALL, "--ways", "gather=ring"], "no collective 'gather'"),
    (["compare", *SMALL, "--kernel", "FA5"], "no kernel 'FA5': .*nearest is FA"),
    (["compare", *SMALL, "--placement", "greedy"], "no placement 'greedy': expected one of identity"),
    (["compare", *SMALL, "--placement", "snak"], "no placement 'snak': .*nearest is snake"),
    (["simulate", "ring", *SMALL, "--placement", "list:0,1,2,3,4,5,6,1"], "ranks 1 and 7 both have GPU 1"),
    (
        ["simulate", "ring", *SMALL, "--placement", "list:0,1,2,3,4,5,6,8"],
        "GPU 8: .* has GPUs 0 to 7",
    ),
    (["simulate", "ring", *SMALL, "--placement", "list:0,1"], "placement lists 2 GPUs: the job has 8 ranks"),
    (["simulate", "ring", *SMALL, "--placement", "list:0,-1"], "GPU numbers separated by commas, got '-1'"),
    (["simulate", "ring", *SMALL, "--placement", "shuffle:x"], "a seed in plain digits, as shuffle:1, got 'x'"),
    (["compare", *SMALL, "--per", "modle"], "no --per 'modle': .*nearest is model"),
    (["compare", *SMALL, "--per", "model"], "--per model needs --model"),
    (["compare", *SMALL, "--mesh", "row=3,col=4"], r"mesh row=3,col=4 needs 12 ranks: cluster switch\(8\) has 8 GPUs"),
    (["compare", *SMALL, "--tp", "16"], "needs 16 ranks: cluster"),
    (["compare", *SMALL, "--mesh", "tp=8"], r"it runs over mesh axes ring, not none \(ring\b"),
    (["compare", *SMALL, "--dp", "2"], r"no algorithm can run: .*dp=2 does not divide batch=1 \(.*ring"),
    (["compare", *SMALL, "--seq", "1.3K"], r"'--seq': expected a whole number, got 1.3K = 1331.2"),
    (["compare", *SMALL, "--seq", "-1"], "'--seq': expected 1 to"),
    (["compare", *SMALL, "--seq", "NaN"], "'--seq': expected digits"),
    (["compare", *SMALL, "--seq", "1T"], "too large to count"),
    (["compare", *SMALL, "--gpus", "0"], "gpus must be at least 1"),
    (["compare", *SMALL, "--gpus", "99999999"], "gpus must be at most"),
    (["compare", *SMALL, "--compute-error", "nan"], "--compute-error must be from 0 to below 1, got nan"),
    (["compare", *SMALL, "--comm-error", "-0.1"], "--comm-error must be from 0 to below 1"),
    (["compare", *SMALL, "--comm-error", "much"], "'much' is not a valid float"),
    (["compare", *SMALL, "--trace", "{tmp}"], "is a folder"),
    (["compare", *SMALL, "--trace", "{tmp}/none/trace.json"], "is in no folder that exists"),
    (["compare", *SMALL, "--timeline", "{tmp}/none/timeline.json"], "is in no folder that exists"),
    (["compare", *SMALL, "--timeline", ""], "--timeline is a folder"),
    (["compare", *SMALL, "--timeline", "{tmp}/window.json/t.json"], "is in no folder that exists"),
    (["compare", *SMALL, "--trace", "n" * 300], "cannot be written: File name too long"),
    (["compare", *SMALL, "--trace", "t.json", "--timeline", "./t.json"], "--trace and --timeline name one file"),
    (["compare", *SMALL, "--assume", "nvlink=1e-300"], "is a share: at least"),
    (["compare", *SMALL, "--assume", "nvlink=0.5"], r"--assume nvlink=0.5 changes nothing: switch\(8\) is idealised"),
    (["compare", *SMALL, "--kernel", "FA3"], r"--kernel FA3 changes nothing: switch\(8\) is idealised"),
    (["compare", *SMALL, "--launch", "eager"], r"--launch eager changes nothing: switch\(8\) is idealised"),
    (["compare", *SMALL, "--launch", "egaer"], "no launch 'egaer': .*nearest is eager"),
    (["compare", *SMALL, "--launch", ""], "no launch ''"),
    (["compare", "--model", "m" * 5000, "--seq", "1K"], "no model 'mmm"),
    (["simulate"], "ALGORITHM"),
    (["simulate", "rign", *SMALL], "no algorithm 'rign': .*nearest is ring"),
    (["simulate", "tree", *SMALL], "tree cannot run: it is written for decode, not prefill"),
    (["simulate", "usp", *SMALL, "--mesh", "ring=8"], "it runs over mesh axes ring, ulysses, not ring"),
    (["simulate", "ulysses", *SMALL, "--cp", "7"], "does not divide the 8 query heads"),
    (["simulate", "ring,usp", *SMALL], "takes one algorithm"),
    (["simulate", "ring", *SMALL, "--slow", "gpu:8=0.5"], r"no GPU 8 in cluster switch\(8\): it has 0 to 7"),
    (["simulate", "ring", *SMALL, "--slow", "gpu:1=0"], "a factor is above 0 and at most 1, got 0"),
    (["simulate", "ring", *SMALL, "--down", "link:gpu1-swich"], "no link 'gpu1-swich' .*nearest is gpu1-switch"),
    (["simulate", "ring", *SMALL, "--down", "link:gpu1-switch@5ms..2ms"], "5ms..2ms runs backwards"),
    (["simulate", "ring", *SMALL, "--down", "link:gpu1-switch"], "permute 4 on stream ring has no path from rank"),
    (["simulate", "ring", *SMALL, "--late", "gpu:9=1ms"], "no GPU 9"),
    (["simulate", "ring", *SMALL, "--background", "nic=0.3"], "no class of link 'nic'"),
    (["simulate", "ring", *SMALL, "--reroute-delay", "1ms"], "--reroute-delay is for --down"),
    (["simulate", "ring", *SMALL, "--seed", "1"], "--seed is for --jitter"),
    (["simulate", "ring", *SMALL, "--repeats", "3"], "--repeats is for --jitter"),
    (["simulate", "ring", *SMALL, "--jitter", "0"], "--jitter is a relative deviation above 0"),
    (["simulate", "ring", *SMALL, "--jitter", "0.1", "--repeats", "0"], "--repeats must be 1 to"),
    (["simulate", "ring", *SMALL, "--ways", "all_gather=ring"], "--ways all_gather .*ring has no collective but perm"),
    (["compare", *SMALL, "--algorithms", "ring", "--ways", "all_gather=ring"], "--ways all_gather changes nothing"),
    (["simulate", "ulysses", *SMALL, "--barrier", "all_gather"], "--barrier all_gather .*ulysses has all_to_all"),
    (["simulate", "ulysses", *SMALL, "--barrier", "all_gahter"], "no collective 'all_gahter' for --barrier: .*nearest"),
    (["simulate", "ulysses", *SMALL, "--drift", "all_gather"], "--drift is for all_to_all"),
    (["simulate", "ring", *SMALL, "--chunks", "4"], "--chunks changes nothing: ring has no collective but permute"),
    (["simulate", "ulysses", *SMALL, "--channels", "4"], "--channels 4 needs --chunks"),
    (["simulate", "ulysses", *SMALL, "--chunk-size", "-1"], "'--chunk-size'"),
    (["compare", *TREE, "--fabric", "fattree"], "no fabric 'fattree': .*; nearest is fat_tree"),
    (["compare", *TREE, "--fabric", "fat_tree:leafs=8"], "no option for fabric fat_tree: 'leafs': .*nearest is leaf"),
    (
        ["compare", *TREE, "--fabric", "fat_tree:oversubscription=3"],
        "10.67 uplinks: no whole number; say how many spines",
    ),
    (["topology", "show", "--nodes", "128", "--fabric", "fat_tree:ports=8"], "has room for 128 NICs: here are 1024"),
    (["simulate", "ring", *SMALL, "--fabric", "single"], "--fabric single: switch takes no fabric"),
    (["simulate", "ring", *TREE, "--routing", "ecm"], "no routing 'ecm': .*; nearest is ecmp"),
    (
        ["simulate", "ring", *TREE, "--routing", "ecmp:seed=x"],
        "--routing takes static, ecmp, ecmp:seed=N, ideal or adaptive, got",
    ),
    (["simulate", "ring", *TREE, "--routing", "ecmp:seed=" + "9" * 30], "from 0 to below 2"),
    (
        ["simulate", "ring", *TREE, "--routing", "ecmp"],
        r"ecmp changes nothing: on dgx_h100\(2\) no flow has equal paths",
    ),
    (
        ["simulate", "ring", *TREE, "--fabric", "fat_tree", "--repeats", "3"],
        "--repeats changes nothing: .* no flow has eq",
    ),
    (
        ["compare", *TREE, "--algorithms", "ring", "--repeats", "3"],
        "--repeats is for --jitter and --routing ecmp: nothing varies",
    ),
    (["compare", *TREE, "--algorithms", "ring", "--fabric", "fat_tree", "--repeats", "0"], "--repeats must be 1 to"),
    (["compare", *TREE, "--algorithms", "ring", "--fabric", "fat_tree", "--repeats", "3"], "--repeats changes nothing"),
    (["compare", *TREE, "--algorithms", "ring", "--routing", "ecmp"], "--routing ecmp changes nothing"),
    (["simulate", "ring", *TREE, "--routing", "ideal"], "--routing ideal changes nothing"),
    (["simulate", "ring", *TREE, "--fabric", "fat_tree", "--seed", "1"], "the hash has its own, --routing ecmp:seed=N"),
    (
        ["simulate", "ring", *TREE, "--routing", "static", "--repeats", "3"],
        "--repeats is for --jitter and --routing ecmp",
    ),
    (["simulate", "ring", *TREE, "--fabric", "fat_tree:leaf=8", "--repeats", "0"], "--repeats must be 1 to"),
    (["compare", *SMALL, "--slow", "gpu:8=0.5"], r"no GPU 8 in cluster switch\(8\)"),
    (["compare", *SMALL, "--reroute-delay", "1ms"], "--reroute-delay is for --down"),
    (["compare", *SMALL, "--down", "link:gpu1-switch"], "no algorithm can run: .*has no path from rank"),
    (["compare", *SMALL, "--seed", "1"], "--seed is for --jitter"),
    (["compare", *SMALL, "--jitter", "1"], "--jitter is a relative deviation above 0"),
    (["compare", *SMALL, "--jitter", "nan"], "--jitter is a relative deviation .* got nan"),
    (["compare", *SMALL, "--jitter", "5%"], "cannot read file of quantiles 5%: .*a relative deviation, as 0.05"),
    (["simulate", "ring", *SMALL, "--jitter", ""], "cannot read file of quantiles : No such file"),
    (["simulate", "ring", *SMALL, "--jitter", "{tmp}/binary.json"], "binary.json is not JSON"),
    (["compare", *SMALL, "--jitter", "{tmp}/window.json"], "no field 'layer_types' for .*window.json"),
    (["compare", *SMALL, "--jitter", "{tmp}"], "is a folder"),
    (["compare", *SMALL, "--jitter", "0.1", "--repeats", "1001"], "--repeats must be 1 to"),
    (["compare", *SMALL, "--jitter", "0.1", "--seed", "-1"], "--seed must be from 0"),
    (["compare", *SMALL, "--algorithms", "ring", "--chunks", "4"], "--chunks changes nothing: no algorithm .*permute"),
    (["compare", *SMALL, "--algorithms", "ring,usp", "--barrier", "broadcast"], "--barrier broadcast changes nothing"),
    (["compare", *SMALL, "--algorithms", "ring", "--drift", "all_to_all"], "--drift all_to_all changes nothing"),
    (
        ["compare", *SMALL, "--algorithms", "ring,ulysses", "--chunk-size", "1"],
        "--chunk-size 1 cuts .* than 1024 chunks",
    ),
    (["compare", *SMALL, "--channels", "2"], "--channels 2 needs --chunks"),
    (["topology"], "Missing command"),
    (["topology", "show", "dgx_h10"], "no topology 'dgx_h10': .*nearest is dgx_h100"),
    (["topology", "show", "--nodes", "-1"], "nodes must be at least 1"),
    (["doctor", "now"], "unexpected extra argument"),
]


PROGRESS = re.compile(r"^ringloom: \w+: +\d+%, .*\n", re.MULTILINE)  # said when a machine is slow


@pytest.mark.parametrize("arguments, message", BAD, ids=[" ".join(a[:1] + a[-2:]) for a, _ in BAD])
def test_bad_input_is_one_line_of_ours_and_status_2(arguments, message, tmp_path, capsys):
    (tmp_path / "binary.json").write_bytes(bytes(range(256)))
    (tmp_path / "window.json").write_text('{"layer_types": ["chunked_attention"]}')

    status = run([argument.replace("{tmp}", str(tmp_path)) for argument in arguments])

    out, err = capsys.readouterr()
    said = PROGRESS.sub("", err)
    assert (status, out) == (2, "")
    assert said.startswith("ringloom: ")
    assert said.count("\n") == 1
    assert said.endswith("\n")
    assert "Traceback" not in err
    assert re.search(message, said), err


@pytest.mark.parametrize("typed", ["x" * 5000, "\x1b[31mred", "two\nlines", "\udcff"])
def test_a_message_fits_a_screen_and_shows_no_control_characters(typed, capsys):
    for option in ("--mesh", "--ways", "--assume", "--comm-error", "--cluster", f"--{typed}"):
        assert run(["compare", *SMALL, option, typed]) == 2

        line, end, rest = capsys.readouterr().err.partition("\n")
        assert (end, rest) == ("\n", "")
        assert len(line) < 1020
        assert line.isprintable()


@pytest.fixture
def failing(monkeypatch):
    """Make `ringloom doctor` raise what is given."""

    def prepare(error):
        @click.command("doctor")
        def command():
            raise error

        monkeypatch.setattr("sim.commands.doctor.command", command)

    importlib.import_module("sim.commands.doctor")
    return prepare


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("two\nlines"), MemoryError(), OSError(5, "no disk")])
def test_a_mistake_of_ours_is_one_line_and_status_1(error, failing, capsys, monkeypatch):
    monkeypatch.delenv("RINGLOOM_DEBUG", raising=False)
    failing(error)

    assert run(["doctor"]) == 1

    err = capsys.readouterr().err
    assert err.startswith(f"ringloom: {type(error).__name__}: ")
    assert err.count("\n") == 1


def test_the_traceback_is_there_for_those_who_ask(failing, monkeypatch):
    monkeypatch.setenv("RINGLOOM_DEBUG", "1")
    failing(RuntimeError("why"))

    with pytest.raises(RuntimeError, match="why"):
        run(["doctor"])


def test_an_interrupt_ends_with_status_130_and_one_line(failing, capsys):
    failing(KeyboardInterrupt())

    assert run(["doctor"]) == 130
    assert capsys.readouterr().err.strip() == "ringloom: interrupted"


def test_progress_goes_to_stderr_alone_a_line_at_a_time(monkeypatch, capsys):
    from sim.commands import progress

    monkeypatch.setattr(progress, "SECONDS", 0.01)
    with progress.progress("comparing") as report:
        report(0.5, "ring on ring=8")
        time.sleep(0.2)

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("ringloom: comparing: 50%, ring on ring=8\n") == 1  # a text that stays is said once


def test_compiling_is_announced_only_before_there_is_a_compiled_engine(monkeypatch, tmp_path, capsys):
    from sim.commands import progress

    def said():
        with progress.progress("comparing") as report:
            report(0.0, "ring on ring=8")
            time.sleep(0.1)
        return capsys.readouterr().err

    monkeypatch.setattr(progress, "SECONDS", 0.01)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert "ring on ring=8; a first run compiles the engine" in said()
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "step.run-1.py311.nbi").touch()
    assert said().splitlines()[-1] == "ringloom: comparing: 0%, ring on ring=8"
