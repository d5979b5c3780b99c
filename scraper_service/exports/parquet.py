"""Parquet files, by pyarrow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from scraper_service.exports.markdown_zip import OutputBuffer
from scraper_service.exports.tables import cell_text, value_at

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUP_ROWS = 1000
GROUP_BYTES = 8 * 2**20  # of rows in memory, as JSON; a larger row is a group alone
# Columns of integers; all others are texts.
NUMBERS = frozenset(
    ["statusCode", "depth"]
    + [
        f"metadata.{name}"
        for name in (
            *("statusCode", "creditsUsed", "tokenCount", "tokensUsed", "wordCount"),
            *("numPages", "totalPages", "concurrencyQueueDurationMs"),
        )
    ]
)


class ParquetFile:
    """Writes rows with ``columns``, which are paths for :func:`value_at`.

    Data that are no text are JSON. Pages are compressed by Zstandard.
    """

    def __init__(self, columns: Sequence[str]):
        self._schema = pa.schema(
            [(name, pa.int64() if name in NUMBERS else pa.string()) for name in columns]
        )
        self._out = OutputBuffer()
        self._writer = ParquetWriter(
            pa.PythonFile(self._out, "w"), self._schema, compression="zstd"
        )
        self._columns: dict[str, list[Any]] = {name: [] for name in columns}
        self._rows = 0
        self._bytes = 0

    def head(self) -> bytes:
        return self._out.take()

    def add(self, row: bytes) -> bytes:
        values = json.loads(row)
        for name, column in self._columns.items():
            column.append(_cell(name, value_at(values, name)))
        self._rows += 1
        self._bytes += len(row)
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._write_group()
        return self._out.take()

    def end(self) -> bytes:
        if self._rows:
            self._write_group()
        self._writer.close()
        return self._out.take()

    def _write_group(self) -> None:
        table = pa.table(self._columns, self._schema)
        self._writer.write_table(table, row_group_size=GROUP_ROWS)
        for column in self._columns.values():
            column.clear()
        self._rows = self._bytes = 0


def _cell(name: str, value: Any) -> int | str | None:
    if name in NUMBERS:
        return value if isinstance(value, int) else None
    text = cell_text(value)
    # A lone surrogate of a page is no character.
    return None if text is None else text.encode("utf-8", "replace").decode()
