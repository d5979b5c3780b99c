"""Words that the end of a line breaks: whether their hyphen is one of their own."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_BROKEN = re.compile(r"(?:[^\W\d_]+[-\u2010])*([^\W\d_]+)[-\u2010]\Z")
_FIRST = re.compile(r"[^\W\d_]+")
_COMPOUND = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)+")


class Hyphens:
    """The words of a file that have hyphens inside a line."""

    def __init__(self, lines: Iterable[str] = ()):
        found: set[str] = set()
        for line in lines:
            if "-" in line or "\u2010" in line:
                found.update(_COMPOUND.findall(line))
        self._pairs = {
            pair
            for word in found
            for pair in _pairs(re.split("[-\u2010]", word.lower()))
        }

    def joint(self, before: str, after: str) -> tuple[int, str]:
        """Return where the text before the end of a line ends, and what comes between.

        A hyphen goes where a word goes on, unless the file writes the word with one, or
        capitals stand before it, as in "PDF-based".
        """
        broken = _BROKEN.search(before) if before[-1:] in {"-", "\u2010"} else None
        if broken is None or not after[:1].islower():
            return len(before), " "
        first = _FIRST.match(after)
        pair = (broken[1].lower(), first[0].lower() if first else "")
        if pair in self._pairs or (len(broken[1]) > 1 and broken[1].isupper()):
            return len(before), ""
        return len(before) - 1, ""


def _pairs(words: list[str]) -> Iterable[tuple[str, str]]:
    return itertools.pairwise(words)
