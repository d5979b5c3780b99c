"""Numbers the blocks of a page's Markdown, and drops blocks by number.

A language model chooses the blocks to drop.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scraper_service.content.text.fingerprint import is_open

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_SHOWN = 600  # characters of a block: enough to classify it


def numbered(value: bytes) -> str:
    """Return the Markdown of a JSON text with a number before each block."""
    return "\n\n".join(
        f"[{number}] {block[:MAX_SHOWN]}"
        for number, block in enumerate(_blocks(json.loads(value)), 1)
    )


def without(value: bytes, numbers: Collection[int]) -> bytes:
    """Return the JSON text of Markdown without the blocks of these numbers.

    Return ``value`` unchanged if no block would remain.
    """
    blocks = _blocks(json.loads(value))
    kept = [block for n, block in enumerate(blocks, 1) if n not in numbers]
    if not kept:
        return value
    return json.dumps("\n\n".join(kept), ensure_ascii=False).encode()


def _blocks(markdown: str) -> list[str]:
    found: list[str] = []
    waiting = ""
    for part in markdown.split("\n\n"):
        block = f"{waiting}\n\n{part}" if waiting else part
        waiting = block if is_open(block) else ""
        if not waiting:
            found.append(block)
    return [*found, waiting] if waiting else found
