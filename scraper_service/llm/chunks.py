"""Long texts in pieces that a model can read, and their answers made one again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BYTES_PER_TOKEN = 3  # fewer than any usual text has, so that a count is never too low
# Where a text may be cut, best first.
_BORDERS = ("\n\n", "\n", ". ", "。", " ")


def token_count(text: str) -> int:
    """Return how many tokens a text has at most, more or less."""
    return len(text.encode(errors="replace")) // BYTES_PER_TOKEN + 1


def pieces(text: str, most_tokens: int) -> Iterator[str]:
    """Yield ``text`` in pieces of at most ``most_tokens``, cut between paragraphs."""
    most_bytes = most_tokens * BYTES_PER_TOKEN - 1
    start = 0
    while start == 0 or start < len(text):
        end = start + _fitting(text[start : start + most_bytes], most_bytes)
        if end < len(text):
            end = _border(text, start, end)
        yield text[start:end].strip()
        start = max(end, 1)


def _fitting(text: str, most_bytes: int) -> int:
    """Return how many characters of a text have at most so many bytes."""
    encoded = text.encode(errors="replace")
    return max(1, len(encoded[:most_bytes].decode(errors="ignore")))


def _border(text: str, start: int, end: int) -> int:
    for border in _BORDERS:
        found = text.rfind(border, (start + end) // 2, end)
        if found > 0:
            return found + len(border)
    return end


def merged(values: Iterable[Any]) -> Any:
    """Return the answers to the pieces of one text as one.

    Objects are joined key by key, lists one behind the other without repetition; of
    plain values the first that says anything stays.
    """
    result: Any = None
    for value in values:
        result = _joined(result, value)
    return result


def _joined(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        return {
            key: _joined(first.get(key), second.get(key)) for key in {**first, **second}
        }
    if isinstance(first, list) and isinstance(second, list):
        seen: dict[str, Any] = {}
        for item in (*first, *second):
            seen.setdefault(json.dumps(item, sort_keys=True), item)
        return list(seen.values())
    return second if first in (None, "", [], {}) and second is not None else first
