"""What may be printed: text of strangers without control characters."""

from __future__ import annotations

import unicodedata

_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str, most: int | None = None) -> str:
    """Return ``text`` on one line, without what steers a terminal or turns writing.

    At most ``most`` characters, the last one a dot or three.
    """
    words = " ".join(text.split())
    clean = "".join(c for c in words if unicodedata.category(c) not in _HARMFUL)
    if most is not None and len(clean) > most:
        return clean[: max(most - 3, 0)] + "..."[:most]
    return clean
