"""Scans of texts for the Markdown writer, and the hash of words of a text.

``texts.pyx`` has the same names.
"""

from __future__ import annotations

import json
import re
from zlib import crc32

# Texts that Markdown needs no change of, at any position.
_PLAIN = re.compile(r"(?:[^\x00- \x7f-\U0010ffff\\`*_<&~\[\]!]| (?! ))*")
_FINISHED = re.compile(r"(?![#+*>=~|:0-9-])(?:[^\n \ue060-\ue068]| (?! ))*", re.DOTALL)
_SAFE = re.compile(r"[^\x00- \x7f-\U0010ffff<>\\`|\"()\[\]&]*")
# The numbers that page builders put into the class names of their elements.
_NUMBER = re.compile(r"[_-]\d[0-9a-f]*(?=\Z|[\s_-])")
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


def without_numbers(names: str) -> str:
    """Return names without the numbers at the ends of their parts."""
    return _NUMBER.sub("", names)


def json_text(text: str) -> bytes:
    """Return a text as JSON in UTF-8."""
    return json.dumps(text, ensure_ascii=False).encode()


def word_counts(text: str) -> tuple[int, int]:
    """Return the number of words with letters or digits, and of ideographs outside."""
    ideographs = 0
    if not text.isascii():
        text, ideographs = _IDEOGRAPH.subn(" ", text)
    words = sum(any(map(str.isalnum, word)) for word in text.split())
    return words, ideographs


_BITS = 64
# 2**128 / golden ratio, odd, in parts of 32 bits, lowest first. The hash of a word is
# its CRC times this number, from the 40th bit on: these bits depend on all others.
_SPREAD = (0x5CEDC835, 0xF39CC060, 0x7F4A7C15, 0x9E3779B9)


def simhash(text: str) -> int:
    """Return 64 bits: those that most words of ``text`` have; 0 for no words."""
    words = set(text.lower().encode(errors="replace").split())
    if not words:
        return 0
    import numpy as np  # noqa: PLC0415  # not needed where this is compiled

    sums = np.fromiter(map(crc32, words), np.uint64, len(words))
    first, second, third, fourth = map(np.uint64, _SPREAD)
    low = ((sums * first) >> np.uint64(32)) + sums * second  # less than 2**64
    hashes = (
        (low >> np.uint64(8))
        + (sums * third << np.uint64(24))
        + (sums * fourth << np.uint64(56))
    )
    bits = np.unpackbits(hashes.astype("<u8").view(np.uint8), bitorder="little")
    counts = bits.reshape(-1, _BITS).sum(axis=0, dtype=np.uint32)
    most = np.packbits(counts > len(words) / 2, bitorder="little")
    return int.from_bytes(most.tobytes(), "little")
