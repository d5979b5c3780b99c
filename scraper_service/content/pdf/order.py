"""Groups lines into blocks, sorts blocks into reading order, drops headers and footers."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from scraper_service.content.pdf.lines import HEADING_RATIO, WIDE_GAP, Block, Box, Line
from scraper_service.content.pdf.tables import (
    LEADER,
    has_leader,
    table,
    table_end,
    with_ruled_table,
)

if TYPE_CHECKING:
    from scraper_service.content.pdf.lines import PageText, RuledGrid

MAX_SORTED = 1500  # blocks of a page; columns are not searched among more blocks
COLUMN_GAP = 6.0  # points between two columns
MAX_LEADING = 1.75  # line pitch in a paragraph, relative to the font size
MAX_DOUBLE = 2.7  # line pitch on pages with double spacing
MIN_DOUBLE = 6  # lines that prove double spacing
FULL = 30  # minimum width of a full line, relative to the font size


_Boxed = list[tuple[Box, Block]]


def blocks_in_order(lines: list[Line], grids: list[RuledGrid]) -> list[Block]:
    """Return the blocks of a page in reading order."""
    for ruled in grids:
        lines = with_ruled_table(lines, ruled)
    rows = _rows(lines)
    leading = _leading(rows)
    found: list[Block] = []
    start = 0
    while start < len(rows):
        end = table_end(rows, start)
        grid = table(rows[start:end]) if end - start > 1 else None
        if grid is not None:
            found += grid
            start = end
            continue
        if block := rows[start].table:
            found.append(block)
        else:
            _append(found, rows[start], leading)
        start += 1
    fixed = [block for block in found if block.lines[0].is_fixed]
    margin = min((line.x0 for b in fixed for line in b.lines), default=0.0)
    for block in fixed:
        block.margin = margin
    return _sort(found)


def _rows(lines: list[Line]) -> list[Line]:
    """Join consecutive pieces of the file that stand on the same line."""
    rows: list[Line] = []
    for line in lines:
        last = rows[-1] if rows else None
        if (
            last is not None
            and not (line.is_rotated or last.is_rotated)
            and abs(line.y0 - last.y0) < 0.35 * min(line.size, last.size)
            and 0 <= line.x0 - last.x1 + 1
        ):
            _join(last, line)
        else:
            rows.append(line)
    return rows


def _join(first: Line, second: Line) -> None:
    shift = len(first.text) + 1
    if second.x0 - first.x1 > WIDE_GAP * first.size:
        first.cells += second.cells
    else:
        first.cells[-1].text += f" {second.cells[0].text}"
        first.cells[-1].x1 = second.cells[0].x1
        first.cells += second.cells[1:]
    first.text = f"{first.text} {second.text}"
    first.links += [(a + shift, b + shift, to) for a, b, to in second.links]
    first.x1 = max(first.x1, second.x1)
    first.y0, first.y1 = min(first.y0, second.y0), max(first.y1, second.y1)
    first.is_bold = first.is_bold and second.is_bold
    if len(second.text) > shift:
        first.size = second.size


def _append(blocks: list[Block], line: Line, leading: float) -> None:
    last = blocks[-1] if blocks else None
    is_listing = has_leader(line.text)
    if is_listing:
        short = LEADER.sub(" \u2026 ", line.text).strip(" \u2026")
        line.text = short
        line.links = []
    if (
        last is not None
        and last.rows is None
        and not (is_listing or last.is_listing)
        and _continues(last, line, leading)
    ):
        last.lines.append(line)
    else:
        blocks.append(Block([line], is_listing=is_listing))


def _continues(block: Block, line: Line, leading: float) -> bool:
    """Return True if ``line`` continues a block."""
    last = block.lines[-1]
    if line.is_rotated or last.is_rotated:
        return line.is_rotated == last.is_rotated
    size = max(line.size, last.size)
    if abs(line.size - last.size) > 0.12 * size:
        return False
    if line.is_fixed != last.is_fixed and (
        block.lines[0].is_fixed
        or abs(line.x0 - last.x0) > 1
        or last.x1 - last.x0 < FULL * size
    ):
        return False  # code begins or ends; else the paragraph only mentions code
    pitch = last.y0 - line.y0
    if not 0 < pitch <= leading * size:
        return False
    if len(block.lines) > 1:
        usual = median(
            a.y0 - b.y0 for a, b in zip(block.lines, block.lines[1:], strict=False)
        )
        if pitch > 1.3 * usual:
            return False
    return line.x0 < last.x1 and last.x0 < line.x1


def _leading(rows: list[Line]) -> float:
    """Return the maximum line pitch in a paragraph, relative to the font size."""
    if len(rows) <= MIN_DOUBLE:
        return MAX_LEADING
    pitches = [
        ((above.y0 - row.y0) / row.size, row.text[:1].islower())
        for above, row in itertools.pairwise(rows)
        if row.size == above.size > 0 and row.x0 < above.x1 and above.x0 < row.x1
    ]
    double = [pitch for pitch in pitches if MAX_LEADING < pitch[0] <= MAX_DOUBLE]
    if len(double) < max(MIN_DOUBLE, 0.6 * len(pitches)):
        return MAX_LEADING
    usual = median(pitch for pitch, _ in double)
    even = sum(abs(pitch - usual) < 0.05 * usual for pitch, _ in double)
    goes_on = sum(is_lower for _, is_lower in double)
    is_text = even > 0.7 * len(double) and goes_on > 0.3 * len(double)
    return 1.1 * usual if is_text else MAX_LEADING


def _sort(blocks: list[Block]) -> list[Block]:
    """Sort the blocks, unless the file's order is plausible (as in most files).

    Rotated text, such as axis labels or a stamp in the margin, comes last.
    """
    turned = [block for block in blocks if block.lines[0].is_rotated]
    if turned:
        upright = [block for block in blocks if not block.lines[0].is_rotated]
        return _sort(upright) + turned if upright else turned
    if len(blocks) < 2:
        return blocks
    boxed = [(block.box, block) for block in blocks]
    steps = sum(_is_wrong(a, b) for (a, _), (b, _) in itertools.pairwise(boxed))
    if not steps:
        return blocks
    if steps <= 2 and len(blocks) > 8 * steps and _has_columns(boxed):
        return blocks
    if len(blocks) > MAX_SORTED:
        return sorted(blocks, key=lambda b: (-b.box[3], b.box[0]))
    return _by_strips(boxed)


def _is_wrong(a: Box, b: Box) -> bool:
    """Return True if ``b`` stands above ``a``, but not in a column further right."""
    return b[1] >= a[3] - 1 and b[0] < a[2]


def _has_columns(boxed: _Boxed) -> bool:
    boxes = [box for box, _ in boxed[:200]]
    return any(
        a[1] < b[3] and b[1] < a[3] and (a[2] <= b[0] or b[2] <= a[0])
        for n, a in enumerate(boxes)
        for b in boxes[n + 1 :]
    )


def _by_strips(boxed: _Boxed) -> list[Block]:
    """Sort into strips from the top, and inside each strip into columns from the left."""
    strips = _split(boxed, low=1, high=3, gap=0.0, reverse=True)
    ordered: list[Block] = []
    while strips:
        group = strips.pop(0)
        columns = _columns(group)
        while strips and len(merged := _columns(group + strips[0])) > 1:
            group, columns = group + strips.pop(0), merged
        for column in columns:
            column.sort(key=lambda item: (-item[0][3], item[0][0]))
            ordered += [block for _, block in column]
    return ordered


def _columns(boxed: _Boxed) -> list[_Boxed]:
    return _split(boxed, low=0, high=2, gap=COLUMN_GAP, reverse=False)


def _split(
    boxed: _Boxed, *, low: int, high: int, gap: float, reverse: bool
) -> list[_Boxed]:
    """Split the blocks at the gaps of their projection on one axis."""
    ordered = sorted(boxed, key=lambda item: item[0][low])
    groups: list[_Boxed] = []
    edge = float("-inf")
    for item in ordered:
        if item[0][low] >= edge + gap or not groups:
            groups.append([])
        groups[-1].append(item)
        edge = max(edge, item[0][high])
    return groups[::-1] if reverse else groups


MIN_REPEATED = 3  # pages with the same header or footer text
MIN_NUMBERED = 0.6  # minimum share of pages with a consecutive page number
MIN_SHARE = 0.4  # minimum share of pages with a repeated text at the same height

_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_WORD = re.compile(r"[^\W\d_]{2}")
# The page number begins or ends a cell, as in "Page 3 of 10" and "Tides | 3/10".
_TOTAL = r"(?:\s*(?:/|\b[^\W\d_]{1,3}\b)\s*\d+)?"
_FIRST_NUMBER = re.compile(
    r"(?:^|[|\xb7\u2022])\W{0,5}(?:(?:p[a\xe1]g\w*|p\.|seite)\W{0,5})?(\d{1,5})"
    rf"{_TOTAL}(?![\w.,)])",
    re.IGNORECASE,
)
_END_NUMBER = re.compile(
    rf"{_FIRST_NUMBER.pattern}|(?<![\w.,])(\d{{1,5}}){_TOTAL}\W*$", re.IGNORECASE
)


def drop_repeated(pages: list[PageText]) -> None:
    """Remove headers, footers and page numbers that stand on many pages.

    They differ by no more than the page number, and a header is not in larger print.
    """
    if len(pages) <= 3:
        return
    edges, text_size = _edges(pages)
    offsets = Counter(
        offset
        for number, edge in enumerate(edges)
        for offset in {n - number for line, _ in edge for n in _numbers(line.text)}
    )
    numbered = {n for n, count in offsets.items() if count >= MIN_NUMBERED * len(pages)}
    running = []
    for number, edge in enumerate(edges):
        numbers = {number + n for n in numbered}
        running.append(
            [
                (line, *_words(line, numbers, line.size < text_size, is_top=is_top))
                for line, is_top in edge
            ]
        )
    counts = Counter(
        key
        for found in running
        for key in {(text, _height(line)) for line, text, _ in found}
    )
    shares = Counter[int]()
    for (_, place), count in counts.items():
        shares[place] += count if count >= MIN_REPEATED else 0
    # The same text on most pages, or chapter names that each stand on some pages.
    places = {place for place, n in shares.items() if n >= MIN_SHARE * len(pages)}
    for page, found in zip(pages, running, strict=True):
        unwanted = {
            id(line)
            for line, text, is_numbered in found
            if is_numbered
            or (_height(line) in places and counts[text, _height(line)] > 1)
        }
        if unwanted and len(unwanted) < len(page.lines):
            page.lines = [line for line in page.lines if id(line) not in unwanted]


def _height(line: Line) -> int:
    return round(line.y0 / 4)


def _numbers(text: str) -> set[int]:
    """Return the numbers at both ends of a text: candidates for the page number."""
    return {int(first or last) for first, last in _END_NUMBER.findall(text)}


def _words(
    line: Line, numbers: set[int], is_small: bool, *, is_top: bool
) -> tuple[str, bool]:
    """Return the text with a sign for the page number, which is one of ``numbers``.

    Also return whether the page number stands apart from other words.
    """

    def mask(match: re.Match[str]) -> str:
        return "#" if int(match[match.lastindex or 1]) in numbers else match[0]

    bare = _DIGITS.sub("#", line.text)
    if not _WORD.search(bare):
        return bare, bool(_numbers(line.text) & numbers)
    texts = []
    is_apart = False
    for text in [cell.text for cell in line.cells] or [line.text]:
        bare = _DIGITS.sub("#", text)
        is_bare = not _WORD.search(bare)
        # "Chapter 3" at the top of a page may be a heading.
        may_end = is_bare or is_small or not is_top
        words = (_END_NUMBER if may_end else _FIRST_NUMBER).sub(mask, text)
        is_apart |= is_bare and words != text
        texts.append(bare if is_bare and is_small else words)
    return " ".join(texts), is_apart and not (is_top and line.is_bold)


def _edges(pages: list[PageText]) -> tuple[list[list[tuple[Line, bool]]], float]:
    """Return the lines that a gap separates from the text, and the text's size.

    True marks lines at the top, where large ones are headings and left out.
    """
    found = []
    texts: dict[str, Line] = {}
    for page in pages:
        lines = [line for line in page.lines if not line.is_rotated]
        lines.sort(key=lambda line: -line.y1)
        top = _apart(lines)
        found.append((top, _apart(lines[::-1])))
        texts |= {line.text: line for line in lines[len(top) :]}
    sizes = Counter[float]()
    for text, line in texts.items():
        sizes[line.size] += len(text)
    size = max(sizes, key=sizes.__getitem__, default=0.0)
    edges = [
        [(line, True) for line in top if line.size < HEADING_RATIO * size]
        + [(line, False) for line in bottom]
        for top, bottom in found
    ]
    return edges, size


def _apart(lines: list[Line]) -> list[Line]:
    """Return the first lines up to a gap; no lines if there is no gap."""
    for index, (line, following) in enumerate(itertools.pairwise(lines)):
        gap = max(line.y0 - following.y1, following.y0 - line.y1)
        if gap > 0.6 * line.size:
            return lines[: index + 1]
    return []
