"""Options: what people type becomes the problem and the job that they mean."""

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import topologies.units
from algorithms.ir import ScheduleError
from algorithms.options import algorithms_from, job_from, parse_count, problem_from, problem_options

WIDTHS = ["--heads", "8", "--head-dim", "64", "--seq", "1K"]


def asked(*arguments):
    """What the options say, as a command gets it."""
    got = []

    @click.command()
    @problem_options
    def command(asked):
        got.append(asked)

    done = CliRunner().invoke(command, [*arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return got[0]


def outcome(parse, text):
    try:
        return parse(text)
    except ValueError:
        return "refused"


@pytest.mark.parametrize(
    "text", ["1", "1M", "1m", "0.5K", "1.3K", ".5G", "5.", "1e6", "-1", "0", "nan", "", "K", "1KB"]
)
def test_both_packages_read_a_count_by_the_same_rule(text):
    assert outcome(parse_count, text) == outcome(topologies.units.parse_count, text)


@given(st.from_regex(r"[+-]?[0-9]{0,22}(\.[0-9]{0,6})?[KMGTkmgtx]?", fullmatch=True))
def test_both_packages_read_any_count_by_the_same_rule(text):
    assert outcome(parse_count, text) == outcome(topologies.units.parse_count, text)


def test_a_million_tokens_are_two_to_the_twentieth():
    assert parse_count("1M") == 1 << 20
    with pytest.raises(ValueError, match=r"a whole number, got 1.3K = 1331.2"):
        parse_count("1.3K")


def test_prefill_asks_about_the_new_tokens_and_sees_the_cached_ones_too():
    problem = problem_from(asked(*WIDTHS, "--cached", "3K"))

    assert (problem.query_len, problem.key_len, problem.cached) == (1024, 4096, 3072)


def test_decode_asks_about_the_last_token_of_all():
    problem = problem_from(asked(*WIDTHS, "--phase", "decode"))

    assert (problem.query_len, problem.key_len) == (1, 1024)


def test_decode_may_ask_about_several_tokens():
    assert problem_from(asked(*WIDTHS, "--phase", "decode", "--new", "4")).query_len == 4


def test_a_model_gives_the_widths():
    problem = problem_from(asked("--model", "llama3-70b", "--seq", "1M"))

    assert (problem.heads, problem.kv_heads, problem.head_dim, problem.key_len) == (64, 8, 128, 1 << 20)


def test_widths_default_to_multi_head_attention():
    problem = problem_from(asked(*WIDTHS))

    assert (problem.kv_heads, problem.head_dim_v, problem.shared_kv) == (8, 64, False)


def test_short_names_of_types_are_accepted():
    problem = problem_from(asked(*WIDTHS, "--dtype", "bf16", "--kv-dtype", "fp8", "--state-dtype", "fp32"))

    assert (problem.dtype, problem.kv_dtype, problem.state_dtype) == ("bfloat16", "float8_e4m3", "float32")


def test_a_window_longer_than_the_sequence_cuts_nothing(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"num_attention_heads": 8, "num_hidden_layers": 1, "hidden_size": 512, "sliding_window": 1024}')

    assert problem_from(asked("--model", str(path), "--seq", "1024")).mask == "causal"
    with pytest.raises(ValueError, match="sliding_window 1024 < 1025"):
        problem_from(asked("--model", str(path), "--seq", "1025"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--seq", "1K"], "needs --model, or --heads and --head-dim"),
        (["--heads", "8", "--seq", "1K"], "needs --model, or --heads and --head-dim"),
        (["--heads", "8", "--head-dim", "64"], "needs --seq"),
        ([*WIDTHS, "--model", "llama3-8b"], "--model says what --heads, --head-dim would"),
        ([*WIDTHS, "--model", "llama3-8b", "--shared-kv"], "--model says what .*--shared-kv would"),
        ([*WIDTHS, "--kv-heads", "3"], "kv_heads=3 must divide heads=8"),
        ([*WIDTHS, "--mask", "causl"], "no mask 'causl': .*nearest is causal"),
        ([*WIDTHS, "--phase", "trian"], "no phase 'trian': .*nearest is train"),
        ([*WIDTHS, "--layout", "zig"], "no layout 'zig': .*nearest is zigzag"),
        ([*WIDTHS, "--dtype", "bfloat15"], "no dtype 'bfloat15': .*nearest is bfloat16"),
        ([*WIDTHS, "--phase", "train", "--cached", "1"], "--cached 1 is for prefill"),
        ([*WIDTHS, "--new", "2"], "--new 2 is for decode"),
        ([*WIDTHS, "--phase", "decode", "--new", "1025"], "1025 queries, 1024 keys"),
        (["--heads", "8", "--head-dim", "64", "--seq", "1T"], "too large to count"),
        (["--heads", "1G", "--head-dim", "1M", "--seq", "1M"], "too large to count"),
    ],
)
def test_options_that_make_no_problem_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        problem_from(asked(*arguments))


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "nan", "1e3", "two", "1" * 50])
@pytest.mark.parametrize("option", ["--heads", "--seq", "--tp", "--batch"])
def test_an_absurd_number_is_refused_with_its_option(option, text):
    with pytest.raises(click.BadParameter) as caught:
        asked(option, text)

    assert option in caught.value.format_message()


HAVE = "cluster dgx_h100(1) has 8 GPUs"


def test_the_sequence_takes_the_ranks_that_heads_and_batch_leave():
    job = job_from(asked("--tp", "2", "--dp", "2"), 64, "")

    assert (job.tp, job.cp, job.dp) == (2, 16, 2)


def test_tp_is_fastest_and_dp_slowest():
    job = job_from(asked("--tp", "2", "--dp", "2"), 8, HAVE)

    assert list(job.mesh({"ring": 2}).axes.items()) == [("dp", 2), ("ring", 2), ("tp", 2)]


def test_axes_of_one_rank_are_left_out_of_the_mesh():
    assert list(job_from(asked(), 8, HAVE).mesh({"ring": 8}).axes) == ["ring"]


def test_a_typed_mesh_may_place_tp_and_dp_itself():
    job = job_from(asked("--mesh", "tp=2,ring=2,dp=2"), 8, HAVE)

    assert (job.tp, job.cp, job.dp) == (2, 2, 2)
    assert list(job.mesh(job.axes).axes) == ["tp", "ring", "dp"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--mesh", "row=3,col=4"], "mesh row=3,col=4 needs 12 ranks: cluster dgx_h100"),
        (["--mesh", "ring=8", "--tp", "2"], "mesh ring=8 needs 16 ranks"),
        (["--tp", "16"], "mesh dp=1,cp=1,tp=16 needs 16 ranks"),
        (["--cp", "9"], "mesh dp=1,cp=9,tp=1 needs 9 ranks"),
        (["--tp", "3"], "tp=3 times dp=1 must divide the ranks"),
        (["--mesh", "row=2,col=2", "--cp", "8"], "cp=8 contradicts mesh row=2,col=2, whose cp is 4"),
        (["--mesh", "ring=2,tp=2", "--tp", "4"], "tp=4 contradicts mesh"),
        (["--mesh", "ring"], "a mesh is written"),
        (["--mesh", "ring=2,ring=2"], "named twice"),
    ],
)
def test_a_job_that_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ScheduleError, match=message):
        job_from(asked(*arguments), 8, HAVE)


def test_names_of_frameworks_are_accepted_and_printed_as_ours():
    assert list(algorithms_from("p2p,a2a,a2a+p2p")) == ["ring", "ulysses", "usp"]
    assert list(algorithms_from("ring,p2p")) == ["ring"]


def test_no_algorithm_is_refused():
    with pytest.raises(ValueError, match="names none"):
        algorithms_from(" , ")
