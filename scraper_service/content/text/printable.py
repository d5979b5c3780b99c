"""Text of strangers on one line of a terminal or a file."""

from __future__ import annotations

import unicodedata

_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str, most: int | None = None) -> str:
    """Return ``text`` on one line, without control and direction characters.

    The result has at most ``most`` characters. A text that is cut ends in three dots.
    """
    words = " ".join(text.split())
    clean = "".join(c for c in words if unicodedata.category(c) not in _HARMFUL)
    if most is not None and len(clean) > most:
        return clean[: max(most - 3, 0)] + "..."[:most]
    return clean
