"""Characters of texts: searches in any case, whole numbers, texts on a single line."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DIGITS = 15  # Python refuses to parse numbers of some thousand digits
_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


class AnyCase:
    """A pattern in lower case that matches text in any case; several are alternatives.

    With ``re.IGNORECASE`` an expression tries all its alternatives at each character.
    Therefore it only searches texts that match in lower case, and few texts do.
    """

    def __init__(self, *patterns: str):
        pattern = "|".join(patterns)
        self._lower = re.compile(pattern)
        self._any = re.compile(pattern, re.IGNORECASE)

    def is_in(self, text: str) -> bool:
        """Return True if ``text`` has a match."""
        return self._lower.search(_lower(text)) is not None

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match in ``text``."""
        return self._any.search(text) if self.is_in(text) else None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Return all matches in ``text``."""
        return self._any.finditer(text) if self.is_in(text) else iter(())


def _lower(text: str) -> str:
    """Return ``text`` in lower case, with one letter for those that ``re`` takes as alike."""
    lower = text.lower()
    if lower.isascii():
        return lower
    return lower.replace("i\u0307", "i").replace("\u0131", "i").replace("\u017f", "s")


def parse_digits(text: str, default: int = 0) -> int:
    """Return ``text`` as a number; ``default`` if it has other characters than digits.

    A number with more than :data:`MAX_DIGITS` digits becomes the largest with as many.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()):
        return default
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= MAX_DIGITS else 10**MAX_DIGITS - 1


def printable(text: str, most: int | None = None) -> str:
    """Return ``text`` on one line, without control and direction characters.

    The result has at most ``most`` characters. A text that is cut ends in three dots.
    """
    words = " ".join(text.split())
    clean = "".join(c for c in words if unicodedata.category(c) not in _HARMFUL)
    if most is not None and len(clean) > most:
        return clean[: max(most - 3, 0)] + "..."[:most]
    return clean
