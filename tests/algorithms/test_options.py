"""Options: what people type becomes the problem and the job that they mean."""

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import algorithms
from algorithms.ir import ScheduleError
from algorithms.ir.mask import CAUSAL, Mask
from algorithms.masks import mask_from
from algorithms.options import (
    algorithms_from,
    job_from,
    parse_count,
    problem_from,
    problem_options,
    problems_from,
)

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


@pytest.mark.parametrize(
    "text, count",
    [
        ("1M", 1_048_576),
        ("1m", 1_048_576),
        ("1.5K", 1536),
        (".5K", 512),
        ("2.0", 2),
        ("5.", 5),
        ("8192", 8192),
        (" 3G ", 3 << 30),
        ("1T", 2**40),
        ("1000000", 1_000_000),
        ("1048576T", 2**60),
    ],
)
def test_k_m_g_t_are_powers_of_two(text, count):
    assert parse_count(text) == count


@given(st.integers(1, 2**20), st.sampled_from(["", "K", "M", "G", "T"]))
def test_a_suffix_multiplies_by_1024_for_each_step(count, suffix):
    assert parse_count(f"{count}{suffix}") == count * 1024 ** ["", "K", "M", "G", "T"].index(suffix)


@pytest.mark.parametrize(
    "text, number", [("1.3K", "1331.2"), ("0.5", "0.5"), ("1.0000001M", "1048576.10486"), ("0.0001K", "0.1024")]
)
def test_a_fraction_that_is_no_whole_number_is_refused_and_written_out(text, number):
    with pytest.raises(ValueError, match=f"^expected a whole number, got {text} = {number}$"):
        parse_count(text)


NO_COUNTS = ["", " ", ".", "K", "nan", "inf", "1e6", "1KK", "1KB", "1,024", "0x10", "1_000", "--1", "1 M", "1\n2"]


@pytest.mark.parametrize("text", [*NO_COUNTS, "\N{ARABIC-INDIC DIGIT THREE}", "9" * 5000])
def test_what_is_no_count_is_refused_in_one_short_line(text):
    with pytest.raises(ValueError, match=r"^expected digits with at most one of K, M, G, T") as refusal:
        parse_count(text)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 140


@pytest.mark.parametrize("text", ["0", "-1K", "2097152T", "9" * 30])
def test_a_count_out_of_range_is_refused(text):
    with pytest.raises(ValueError, match=rf"^expected 1 to 2\^60, got {text}$"):
        parse_count(text)


def test_zero_is_a_count_where_it_is_allowed():
    assert parse_count("0", minimum=0) == 0


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


def test_a_models_window_is_the_mask_where_it_cuts_something(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"num_attention_heads": 8, "num_hidden_layers": 1, "hidden_size": 512, "sliding_window": 1024}')

    assert problem_from(asked("--model", str(path), "--seq", "1024")).mask == CAUSAL
    assert problem_from(asked("--model", str(path), "--seq", "1025")).mask == Mask(True, 1024)
    assert problem_from(asked("--model", str(path), "--seq", "1025", "--mask", "window:9")).mask == Mask(True, 9)
    packed = problem_from(asked("--model", str(path), "--lengths", "2000,50")).mask
    assert packed == Mask(True, 1024, (2000, 50))


def test_layers_that_see_most_stand_first_and_windows_that_cut_nothing_make_no_kind():
    def kinds(seq):
        return [
            (n, str(one.mask), one.sinks) for n, one in problems_from(asked("--model", "gpt-oss-20b", "--seq", seq))
        ]

    assert kinds("64K") == [(12, "causal", True), (12, "window:128", True)]
    assert kinds("128") == [(24, "causal", True)]


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


def test_all_can_stand_among_names():
    chosen = algorithms_from("all,ring,p2p")

    assert list(chosen) == algorithms.names()


# -- masks, documents and scores -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, mask",
    [
        ("window:4K", Mask(True, 4096)),
        ("documents:1K+512*2", Mask(True, 0, (1024, 512, 512))),
        ("window:1K,documents:1.5K+1K", Mask(True, 1024, (1536, 1024))),
        ("full,documents:3+4", Mask(False, 0, (3, 4))),
    ],
)
def test_counts_in_a_mask_may_have_k(text, mask):
    assert mask_from(text) == mask


@pytest.mark.parametrize("content", ["300\n1K\n700\n", "300,1K,700", "  300 1K\t700", "300,\n1024,\n700\n"])
def test_documents_may_stand_in_a_file(content, tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text(content)

    assert mask_from(f"documents:{path}") == Mask(True, 0, (300, 1024, 700))
    assert mask_from(f"window:9,documents:{path}") == Mask(True, 9, (300, 1024, 700))
    assert mask_from("full", str(path)) == Mask(False, 0, (300, 1024, 700))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "must have 1 to 2\\^20 lengths of documents, got 0"),
        (b"300\nabc\n", "length 1 of a document: expected digits with at most one of K, M, G, T after them, got 'abc'"),
        (b"300,,700", "length 1 of a document: expected digits with at most one of K, M, G, T after them, got ''"),
        (b"300,\n,700", "length 1 of a document: expected digits .*, got ''"),
        (b"300,700,\n", "length 2 of a document: expected digits .*, got ''"),
        (b"300 0", r"length 1 of a document: expected 1 to 2\^60, got 0"),
        (b"\xff\xfe300", "length 0 of a document: expected digits"),
        (b"1 " * (2**20 + 1), "must have 1 to 2\\^20 lengths of documents, got 1048577"),
    ],
)
def test_a_file_that_holds_no_lengths_is_refused(content, message, tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=message) as refusal:
        mask_from(f"documents:{path}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["documents:lenghts.txt", "documents:"])
def test_a_file_that_is_not_there_is_named(text, tmp_path):
    with pytest.raises(ValueError, match=r"no file 'lenghts.txt' to read|a document has 1 to 2\^48 tokens: got ''"):
        mask_from(text)


def test_prefill_and_train_of_documents_have_all_their_tokens():
    for phase in ("prefill", "train"):
        problem = problem_from(asked(*WIDTHS[:4], "--phase", phase, "--lengths", "700,300,24"))

        assert (problem.query_len, problem.key_len, problem.mask) == (1024, 1024, Mask(True, 0, (700, 300, 24)))


def test_cached_tokens_are_the_first_of_the_documents():
    problem = problem_from(asked(*WIDTHS[:4], "--cached", "800", "--mask", "full,documents:700+324"))

    assert (problem.query_len, problem.key_len) == (224, 1024)
    assert problem.query_runs.positions().tolist() == list(range(800, 1024))


def test_a_ragged_batch_decodes_the_last_tokens_of_each_sequence():
    problem = problem_from(asked(*WIDTHS[:4], "--phase", "decode", "--lengths", "1000,3000,24", "--new", "2"))

    assert (problem.query_len, problem.key_len, problem.batch, problem.layout) == (6, 4024, 1, "documents")
    assert problem.query_runs.positions().tolist() == [998, 999, 3998, 3999, 4022, 4023]


def test_scores_are_as_typed():
    problem = problem_from(asked(*WIDTHS, "--softcap", "30", "--alibi", "--sinks"))

    assert (problem.softcap, problem.alibi, problem.sinks) == (30.0, True, True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([*WIDTHS, "--mask", "window:0"], r"a window has 1 to 2\^48 tokens: got '0'"),
        ([*WIDTHS, "--mask", "documents:1000+25"], "documents must add up to the keys: 2 have 1025, not 1024"),
        ([*WIDTHS, "--mask", "documents:1000+0+24"], r"a document has 1 to 2\^48 tokens: got '0'"),
        ([*WIDTHS, "--lengths", "1000,24", "--mask", "documents:1024"], "both say the documents, give one of them"),
        ([*WIDTHS, "--lengths", "1000,,24"], "lengths 1000,,24: length 1 of a document: expected digits .*, got ''"),
        ([*WIDTHS, "--layout", "documents"], "layout documents deals packed documents: mask causal has none"),
        ([*WIDTHS, "--softcap", "-1"], "softcap must be 0.001 to 1e.09, or 0 for none, got -1"),
        ([*WIDTHS, "--softcap", "nan"], "softcap must be 0.001 to 1e.09, or 0 for none, got nan"),
        ([*WIDTHS, "--softcap", "1e-320"], "softcap must be 0.001 to 1e.09, or 0 for none, got 1e-320"),
        ([*WIDTHS, "--softcap", "1e300"], "softcap must be 0.001 to 1e.09, or 0 for none, got 1e.300"),
        (
            [*WIDTHS[:4], "--phase", "decode", "--lengths", "9,2", "--new", "3"],
            "decode asks about the last tokens of each document: 6 of 2 documents of at least 2 tokens",
        ),
        (
            [*WIDTHS[:4], "--phase", "decode", "--lengths", "9,2", "--batch", "2"],
            "decode takes packed documents as its batch: got batch=2 of them too",
        ),
        ([*WIDTHS[:4], "--cached", "2K", "--lengths", "9,2"], "needs --seq, its tokens: 2 documents have 11"),
    ],
)
def test_documents_and_scores_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message) as refusal:
        problem_from(asked(*arguments))
    assert "\n" not in str(refusal.value)
