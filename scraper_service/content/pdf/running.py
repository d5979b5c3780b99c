"""Running heads and feet: what repeats at the edges of pages, and page numbers."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scraper_service.content.pdf.lines import Line, PageText

MIN_REPEATED = 3  # pages with the same header or footer
MIN_NUMBERED = 0.6  # of the pages, which have the page number that counts on
MIN_SHARE = 0.4  # of the pages, which have one at this place

_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_END_NUMBER = re.compile(r"^\W*(\d+)(?=\W|$)|(?<!\S)(\d+)\W*$")


def drop_repeated(pages: list[PageText]) -> None:
    """Remove the header and footer lines that stand on many pages."""
    if len(pages) <= 3:
        return
    edges = [_edge(page) for page in pages]
    counts: Counter[tuple[str, int]] = Counter()
    offsets: Counter[int] = Counter()
    for number, edge in enumerate(edges):
        counts.update({_running(line) for line in edge})
        offsets.update({n - number for line in edge for n in _numbers(line)})
    shares: Counter[int] = Counter()
    for (_, place), count in counts.items():
        shares[place] += count if count >= MIN_REPEATED else 0
    # One text on most pages, or the names of chapters, each on some.
    places = {place for place, n in shares.items() if n >= MIN_SHARE * len(pages)}
    numbered = {n for n, count in offsets.items() if count >= MIN_NUMBERED * len(pages)}
    for number, (page, edge) in enumerate(zip(pages, edges, strict=True)):
        unwanted = {
            id(line)
            for line in edge
            if (_running(line)[1] in places and counts[_running(line)] > 1)
            or any(n - number in numbered for n in _numbers(line))
        }
        if unwanted and len(unwanted) < len(page.lines):
            page.lines = [line for line in page.lines if id(line) not in unwanted]


def _running(line: Line) -> tuple[str, int]:
    return _DIGITS.sub("#", line.text), round(line.y0 / 4)


def _numbers(line: Line) -> set[int]:
    """Return the numbers at the ends of a line, one of which may be the page's."""
    found = (first or last for first, last in _END_NUMBER.findall(line.text))
    return {int(number) for number in found if len(number) < 6}


def _edge(page: PageText) -> list[Line]:
    """Return the lines at the top and bottom which stand apart from the text."""
    lines = sorted(
        (line for line in page.lines if not line.turned), key=lambda line: -line.y1
    )
    return [*_apart(lines), *_apart(lines[::-1])]


def _apart(lines: list[Line]) -> list[Line]:
    """Return the first lines up to a gap; none where there is no such gap."""
    for index, (line, following) in enumerate(itertools.pairwise(lines)):
        gap = max(line.y0 - following.y1, following.y0 - line.y1)
        if gap > 0.6 * line.size:
            return lines[: index + 1]
    return []
