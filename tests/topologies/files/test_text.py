"""Files as people save them become the same text: packed, coloured, from Windows; what is no text is refused."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.files.facts import FileError
from topologies.files.text import MOST, load
from topologies.files.text.paste import lines, quoted, several

TEXT = "GPU0\tX\nGPU1 \N{DEGREE SIGN}\n"


def saved(tmp_path, raw):
    path = tmp_path / "file.txt"
    path.write_bytes(raw)
    return str(path)


@pytest.mark.parametrize(
    "raw",
    [
        TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r").encode(),
        TEXT.encode("utf-8-sig"),
        TEXT.encode("utf-16"),
        ("\ufeff" + TEXT).encode("utf-16-be"),
        TEXT.replace(" ", "\xa0").encode(),
        TEXT.replace(" ", "\u2028\u200b").encode(),
        f"\x1b[4m{TEXT[:4]}\x1b[0m\x1b]0;title\x07{TEXT[4:]}".encode(),
        gzip.compress(TEXT.encode()),
        gzip.compress(TEXT[:3].encode()) + gzip.compress(TEXT[3:].encode()),
    ],
    ids=[
        "plain",
        "crlf",
        "cr",
        "bom",
        "utf-16",
        "utf-16-be",
        "nbsp",
        "other blanks",
        "ansi",
        "gzip",
        "two gzip members",
    ],
)
def test_a_text_is_the_same_however_it_was_saved(tmp_path, raw):
    assert load(saved(tmp_path, raw)) == TEXT


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        (b"", "is empty"),
        (b" \n\t\n", "is empty"),
        (b"a\nb\x00c", r"line 2: is no text: it holds the character '\\x00'"),
        (b"a\n\nb\x0c", r"line 3: is no text: it holds the character '\\x0c'"),
        (
            "".join(map(chr, range(0xE000, 0xE800))).encode(),
            "it holds 2,048 different characters that cannot be printed",
        ),
        (b"caf\xe9", "is no utf-8 text: byte 3 is 0xe9"),
        (b"\xff\xfea", "is no utf-16 text"),
        (b"x" * (MOST + 1), "is larger than 32 MiB"),
        (gzip.compress(b"x" * (MOST + 1), mtime=0), "is larger than 32 MiB"),
        (gzip.compress(b"GPU0" * 99, mtime=0)[:-9], "is cut, its end is missing"),
        (gzip.compress(b"GPU0", mtime=0)[:12] + b"\xff" * 9, "cannot be unpacked"),
        (gzip.compress(b"", mtime=0) * 1500, "more than 1024 gzip files in one"),
    ],
)
def test_what_is_no_text_is_refused_in_one_line(tmp_path, raw, wrong):
    with pytest.raises(FileError, match=wrong) as error:
        load(saved(tmp_path, raw))
    assert "\n" not in str(error.value)


def test_glyphs_of_a_font_of_its_own_are_shown_as_unknown(tmp_path):
    assert load(saved(tmp_path, "\ue0b0 GPU0".encode())) == "\ufffd GPU0"


@pytest.mark.parametrize("path", ["", "no such file", "a\0b", ".", "no\nsuch"])
def test_a_file_that_cannot_be_read_is_said_to_be_so(path):
    with pytest.raises(FileError, match="cannot be read") as error:
        load(path)
    assert str(error.value).isprintable()


@given(st.binary(max_size=300))
@settings(derandomize=True)
def test_any_bytes_are_a_text_or_one_line(tmp_path_factory, raw):
    path = saved(tmp_path_factory.getbasetemp(), raw)
    try:
        said = load(path).strip()
        assert said.replace("\n", "").replace("\t", "").isprintable()
    except FileError as error:
        said = str(error) if str(error).isprintable() else ""
    assert said


def test_lines_lose_quote_marks_fences_and_what_is_left_of_colours():
    pasted = "> ```text\n> > \tGPU0  \n[4mGPU0[0m\tX\n^[[1;32mGPU1^[[m [mlx5_0]\n```"

    assert lines(pasted, "f", "a tool") == ["", "\tGPU0", "GPU0\tX", "GPU1 [mlx5_0]", ""]


def test_more_lines_than_any_output_are_refused():
    with pytest.raises(FileError, match="has 200,001 lines, more than any output of a tool"):
        lines("\n" * 200_000, "f", "a tool")


def test_names_in_words():
    assert several(["GPU0", "GPU2", "GPU3", "GPU4", "mlx5_0"]) == "GPU0, GPU2 .. GPU4, mlx5_0"
    assert several([f"NIC{i}" for i in range(5)]) == "5 NICs"
    assert quoted("a\u2028" + "b" * 90) == repr("a\u2028" + "b" * 35 + "...")
