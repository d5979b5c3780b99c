"""Parses whole numbers in attributes of pages and documents."""

from __future__ import annotations

MAX_DIGITS = 15  # Python refuses to parse numbers of some thousand digits


def parse_digits(text: str, default: int = 0) -> int:
    """Return ``text`` as a number; ``default`` if it has other characters than digits.

    A number with more than :data:`MAX_DIGITS` digits becomes the largest with as many.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()):
        return default
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= MAX_DIGITS else 10**MAX_DIGITS - 1
