"""JSON Lines: a page object in each line, in UTF-8."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scraper_service.exports.tables import value_at

if TYPE_CHECKING:
    from collections.abc import Sequence


class JsonlWriter:
    """Writes each row as it is, or an object with the paths ``fields`` alone.

    Each field is a key of its object, with null for a missing value.
    """

    def __init__(self, fields: Sequence[str] = ()):
        self._fields = tuple(fields)

    def head(self) -> bytes:
        return b""

    def add(self, row: bytes) -> bytes:
        if not self._fields:
            return row + b"\n"
        values = json.loads(row)
        chosen = {path: value_at(values, path) for path in self._fields}
        text = json.dumps(chosen, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace") + b"\n"

    def end(self) -> bytes:
        return b""
