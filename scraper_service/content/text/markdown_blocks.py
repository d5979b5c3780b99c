"""The blocks of a page's Markdown, to be compared with those of other pages."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scraper_service.items import BlockT

MAX_BLOCKS = 500  # of a page that are compared


def markdown_blocks(markdown: str) -> tuple[BlockT, ...]:
    """Return hash (64 bits, signed) and place of the blocks that have words.

    The place is that in the JSON text of the Markdown: first byte, and the one after the
    last. Code with blank lines in it is one block.
    """
    found: list[BlockT] = []
    start = 1  # behind the quote
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
    """Tell whether a fence of code has no end in the block."""
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
        text = text[: -len(rb"\n\n")]  # what stood before the last block
    return b'"%s"' % text
