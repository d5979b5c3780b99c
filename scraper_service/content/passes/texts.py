"""Scans of texts for the Markdown writer; ``texts.pyx`` has the same names."""

from __future__ import annotations

import re

# Texts that Markdown needs no change of, at any position.
_PLAIN = re.compile(r"(?:[^\x00- \x7f-\U0010ffff\\`*_<&~\[\]!]| (?! ))*")
_FINISHED = re.compile(r"(?![#+*>=~|:0-9-])(?:[^\n \ue060-\ue068]| (?! ))*", re.DOTALL)
_SAFE = re.compile(r"[^\x00- \x7f-\U0010ffff<>\\`|\"()\[\]&]*")
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def simple_text(text: str, _in_label: bool) -> str | None:
    """Return the Markdown of a text without signs to escape; None if it may have any."""
    return text if _PLAIN.fullmatch(text) else None


def is_finished(text: str) -> bool:
    """Return True if a collected paragraph is its Markdown already."""
    return _FINISHED.fullmatch(text) is not None


def is_safe_url(url: str) -> bool:
    """Return True if a URL is certainly safe between the parentheses of a link."""
    return _SAFE.fullmatch(url) is not None


def word_counts(text: str) -> tuple[int, int]:
    """Return the number of words with letters or digits, and of ideographs outside."""
    ideographs = 0
    if not text.isascii():
        text, ideographs = _IDEOGRAPH.subn(" ", text)
    words = sum(any(map(str.isalnum, word)) for word in text.split())
    return words, ideographs
