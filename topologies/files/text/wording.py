"""What readers say about a text: values cut to fit a line, and remarks that are gathered instead of repeated."""

from collections.abc import Iterable

MOST_SHOWN = 40  # characters of a value
MOST_PLACES = 3  # named in one remark


def shown(value: object) -> str:
    """Write a value of a file on one line, cut to a length that fits."""
    text = ascii(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def listed(names: Iterable[str], most: int = 6) -> str:
    """Write some names, and how many more there are."""
    every = list(names)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"


class Remarks:
    """What was mended, skipped or is odd; the same said of many places becomes one line."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def add(self, remark: str, place: str = "") -> None:
        """Note something, and where it is so."""
        places = self._places.setdefault(remark, [])
        self._counts[remark] = self._counts.get(remark, 0) + 1
        if place and len(places) < MOST_PLACES:
            places.append(place)

    def lines(self) -> tuple[str, ...]:
        """Return a line a remark, in the order in which they came up."""
        return tuple(self._line(remark) for remark in self._places)

    def _line(self, remark: str) -> str:
        places, more = self._places[remark], self._counts[remark] - len(self._places[remark])
        if not places:
            return remark
        return f"{remark}: {', '.join(places)}{f' and {more} more' if more else ''}"
