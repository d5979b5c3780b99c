"""Finds duplicates: fingerprints of texts, and hashes of Markdown blocks.

The fingerprints of near-duplicate texts differ in few bits.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scraper_service.items import BlockT

MAX_TEXT = 200_000  # characters that count


def fingerprint(text: str) -> int:
    """Return the simhash of the words of ``text``: 64 bits, 0 for no words.

    Each word counts once, and the order of words does not matter. Texts that share
    98 % of their words differ in about 4 bits; texts that share half of their words
    differ in about 21. The result is the same in every process.

    Source: Charikar, Similarity estimation techniques from rounding algorithms, 2002.
    """
    from scraper_service.content.passes import simhash  # noqa: PLC0415  # converters only

    return int(simhash(text[:MAX_TEXT]))


def distance(one: int, other: int) -> int:
    """Return the number of bits in which two fingerprints differ."""
    return (one ^ other).bit_count()


MAX_BLOCKS = 500  # blocks of a page that are compared


def markdown_blocks(markdown: str) -> tuple[BlockT, ...]:
    """Return hash, start and end of each block with words.

    The hash has 64 bits, signed. Start and end (exclusive) count bytes in the JSON text
    of the Markdown. Code with blank lines is a single block.
    """
    found: list[BlockT] = []
    start = 1  # after the opening quote
    waiting = ""
    for part in markdown.split("\n\n"):
        block = f"{waiting}\n\n{part}" if waiting else part
        if is_open(block):
            waiting = block
            continue
        waiting = ""
        size = len(json.dumps(block, ensure_ascii=False).encode()) - 2
        if len(found) < MAX_BLOCKS and any(map(str.isalnum, block)):
            found.append((_hash(block), start, start + size))
        start += size + len(r"\n\n")
    return tuple(found)


def is_open(block: str) -> bool:
    """Return True if the block leaves a code fence open."""
    if "```" not in block and "~~~" not in block:
        return False
    lines = (line.lstrip(" >-+*0123456789.") for line in block.split("\n"))
    return sum(line.startswith(("```", "~~~")) for line in lines) % 2 == 1


def _hash(block: str) -> int:
    text = " ".join(block.split()).encode(errors="replace")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def without_blocks(value: bytes, spans: list[tuple[int, int]]) -> bytes:
    """Return the JSON text of Markdown without the blocks at ``spans``, in order."""
    parts, last = [], 1
    for start, end in spans:
        parts.append(value[last:start])
        last = min(end + len(rb"\n\n"), len(value) - 1)
    parts.append(value[last:-1])
    text = b"".join(parts)
    if text and spans and spans[-1][1] == len(value) - 1:
        text = text[: -len(rb"\n\n")]  # the separator before the last block
    return b'"%s"' % text
