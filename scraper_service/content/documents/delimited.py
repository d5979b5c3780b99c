"""Tables as text: comma-separated values and their relatives."""

from __future__ import annotations

import csv
import io
import re

from scraper_service.content.documents.markup import MAX_CELLS, Draft, escape
from scraper_service.content.documents.sheets import Cell, Grid, sheets_html

SAMPLE = 64 * 1024  # characters by which the delimiter is told
MAX_FIELD = 2**20  # characters
DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"[-+(]?[\d.,\s'%\u00a0]*\d[\d.,\s'%\u00a0)]*\Z")


def read_delimited(text: str, *, tabs: bool = False) -> Draft | None:
    """Return the table in ``text``, None if it is none; ``tabs`` are expected then."""
    csv.field_size_limit(MAX_FIELD)
    dialect = _dialect(text[:SAMPLE], tabs=tabs)
    grid = Grid()
    left = MAX_CELLS
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text), dialect)):
            if left < len(row):
                grid.is_cut = True
                break
            left -= len(row)
            for column, value in enumerate(row):
                if shown := value.strip():
                    is_text = not _NUMBER.match(shown[:50])
                    content = escape(shown).replace("\n", "<br>")
                    grid.put(number, column, Cell(content, is_text))
    except csv.Error:
        return None
    if len({column for row in grid.cells.values() for column in row}) < 2:
        return None
    warnings: list[str] = []
    return Draft(body=sheets_html([grid], warnings), warnings=warnings, raw=text)


def _dialect(sample: str, *, tabs: bool) -> type[csv.Dialect]:
    """Return how the values are kept apart: the sign that rows have equally often."""
    lines = [line for line in sample.split("\n")[:50] if line.strip()]
    delimiter = "\t" if tabs else ","
    best = 0.0
    for sign in ("\t",) if tabs else DELIMITERS:
        counts = [_count(line, sign) for line in lines]
        least = min(counts, default=0)
        usual = max(set(counts), key=counts.count) if counts else 0
        agreed = counts.count(usual) / max(len(counts), 1)
        score = agreed * (1 + min(least, 1)) if usual else 0.0
        if score > best:
            best, delimiter = score, sign

    class Dialect(csv.excel):
        pass

    Dialect.delimiter = delimiter
    return Dialect


def _count(line: str, sign: str) -> int:
    """Count ``sign`` outside of quotation marks."""
    return sum(part.count(sign) for part in line.split('"')[::2])
