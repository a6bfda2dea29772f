"""What people paste: lines without quote marks, fences and what is left of colours; and words for what is in them."""

import re
from collections.abc import Iterable

from topologies.files.facts import FileError

MOST_LINES = 200_000  # 1,024 GPUs of 36 links each print 38,000
LONGEST_LINE = 100_000  # characters; a row of 1,024 devices has about 10,000

ELLIPSIS = re.compile(r"\[?(?:\.{2,}|\u2026)\]?")  # what stands for lines or columns that somebody left out
# Some viewers eat the escape character of a colour and show the rest, or write it in letters.
LOST_COLOUR = re.compile(r"(?:(?:\^\[|\\x1b|\\033|\\e|\u241b|\ufffd)\[(?:\d{1,3})?|\[\d{1,3})(?:;\d{1,3}){0,4}m")
QUOTE = re.compile(r"^[ \t]{0,8}>(?:[ \t]?>)*[ ]?")  # of a mail or an issue
FENCE = re.compile(r"[ \t]*(?:```|~~~)[\w-]*[ \t]*")


def lines(text: str, file: str, tool: str) -> list[str]:
    """Return the lines of a text, the first of them line 1; a fence, or what is longer than any row, becomes empty.

    Raises:
        FileError: there are more lines than MOST_LINES, which no output of the tool has.
    """
    count = text.count("\n") + 1
    if count > MOST_LINES:
        raise FileError(file, f"has {count:,} lines, more than any output of {tool}: keep the output alone")
    if "[" in text:
        text = LOST_COLOUR.sub("", text)
    return [_plain(line) for line in text.split("\n")]


def _plain(line: str) -> str:
    """Return a line without quote mark and trailing blanks; one that is too long to be of use is passed over."""
    line = QUOTE.sub("", line.rstrip(), count=1)
    return "" if len(line) > LONGEST_LINE or FENCE.fullmatch(line) else line


def quoted(text: str, most: int = 40) -> str:
    """Return a piece of a file as an error cites it: in quotes, printable, not long."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")


def several(names: Iterable[str]) -> str:
    """Return names in words: GPUs in ranges; more than three others are counted.

    Example:
        >>> several(["GPU0", "GPU2", "GPU3", "GPU4", "mlx5_0"])
        'GPU0, GPU2 .. GPU4, mlx5_0'
    """
    names = list(names)
    gpus = sorted(int(name[3:]) for name in names if re.fullmatch(r"GPU\d{1,4}", name))
    others = [name for name in names if not re.fullmatch(r"GPU\d{1,4}", name)]
    runs: list[list[int]] = []
    for gpu in gpus:
        if runs and gpu == runs[-1][-1] + 1:
            runs[-1].append(gpu)
        else:
            runs.append([gpu])
    said = [f"GPU{run[0]} .. GPU{run[-1]}" if len(run) > 2 else ", ".join(f"GPU{gpu}" for gpu in run) for run in runs]
    if len(said) > 6:
        said = [*said[:6], f"{len(said) - 6} more"]
    if len(others) > 3:
        others = [f"{len(others)} NICs"]
    return ", ".join(said + others)


def some(items: Iterable[str], most: int = 3) -> str:
    """Return the first of many items, and how many more there are."""
    items = list(items)
    return "; ".join(items[:most]) + (f"; and {len(items) - most} more" if len(items) > most else "")
