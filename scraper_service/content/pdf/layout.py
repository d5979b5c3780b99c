"""The layout of a PDF page: its tables, and its text blocks in reading order.

Tables have ruling lines, which are read from the drawings of the page, or are rows of cells.
Text columns may resemble a table.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from statistics import median
from typing import TYPE_CHECKING, Any

from attrs import evolve
from pypdfium2 import raw

from scraper_service.content.pdf.lines import (
    NEAR,
    WIDE_GAP,
    Block,
    Box,
    Cell,
    Hyphens,
    Line,
    RuledGrid,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SORTED = 1500  # blocks of a page; columns are not searched among more blocks
COLUMN_GAP = 6.0  # points between two columns
MAX_LEADING = 1.75  # line pitch in a paragraph, relative to the font size
MAX_DOUBLE = 2.7  # line pitch on pages with double spacing
MIN_DOUBLE = 6  # lines that prove double spacing
FULL = 30  # minimum width of a full line, relative to the font size
_Boxed = list[tuple[Box, Block]]

MAX_OBJECTS = 5000  # page objects examined
MAX_SEGMENTS = 20_000  # of all drawings of a page; more are a picture
MAX_CROSSINGS = 20_000  # pairs of lines compared
MIN_LENGTH = 6.0  # points of a ruling line


def fast_call(function: Any, result: Any, *arguments: Any) -> Any:
    """Return a PDFium function that takes plain numbers as pointers."""
    pointer = ctypes.cast(function, ctypes.c_void_p).value
    return ctypes.PYFUNCTYPE(result, *arguments)(pointer or 0)


_INT, _POINTER = ctypes.c_int, ctypes.c_void_p
_object = fast_call(raw.FPDFPage_GetObject, _POINTER, _POINTER, _INT)
_type = fast_call(raw.FPDFPageObj_GetType, _INT, _POINTER)
_count = fast_call(raw.FPDFPath_CountSegments, _INT, _POINTER)
_transform = fast_call(raw.FPDFPageObj_GetMatrix, _INT, _POINTER, _POINTER)
_segment = fast_call(raw.FPDFPath_GetPathSegment, _POINTER, _POINTER, _INT)
_point = fast_call(raw.FPDFPathSegment_GetPoint, _INT, _POINTER, _POINTER, _POINTER)
_kind = fast_call(raw.FPDFPathSegment_GetType, _INT, _POINTER)
_closes = fast_call(raw.FPDFPathSegment_GetClose, _INT, _POINTER)
MIN_ROWS = 3  # of a table with two columns; 2 with more columns, or a bold header
PROSE = 28  # characters; longer cells are lines of a text column
MIN_FILLED = 0.3  # share of the cells of a ruled table with text
LEADER = re.compile(r"\s*(?:\.\s?){4,}\s*")
_LABEL = re.compile(r"(?:[^\w\s]|[0-9a-zA-Z]{1,3}[.)]|\([0-9a-zA-Z]{1,4}\))\Z")
_Cells = dict[tuple[int, int], list[Line]]  # by row and column


def read_rules(page: Any) -> list[Box]:
    """Return the horizontal and vertical lines of a page as boxes without an area."""
    found: list[Box] = []
    handle = ctypes.cast(page, _POINTER).value
    left = MAX_SEGMENTS
    for index in range(min(raw.FPDFPage_CountObjects(page), MAX_OBJECTS)):
        item = _object(handle, index)
        if _type(item) == raw.FPDF_PAGEOBJ_PATH:
            count = _count(item)
            left -= count
            if left < 0:
                return []
            found += _segments(item, count)
    return found


def _segments(item: int, count: int) -> Iterable[Box]:
    matrix, xy = (ctypes.c_float * 6)(), (ctypes.c_float * 2)()
    at = ctypes.addressof(xy)
    _transform(item, ctypes.addressof(matrix))
    a, b, c, d, e, f = matrix
    begin = last = (0.0, 0.0)
    for index in range(count):
        segment = _segment(item, index)
        _point(segment, at, at + 4)
        x, y = xy
        point = a * x + c * y + e, b * x + d * y + f
        kind = _kind(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            begin = point
        ends = [(last, point)] if kind == raw.FPDF_SEGMENT_LINETO else []
        if _closes(segment):
            ends.append((point, begin))
        for (x0, y0), (x1, y1) in ends:
            width, height = abs(x1 - x0), abs(y1 - y0)
            if min(width, height) < 1 and max(width, height) >= MIN_LENGTH:
                yield min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
        last = point


def find_grids(rules: list[Box]) -> list[RuledGrid]:
    """Return the tables whose columns or rows are parted by lines."""
    across = _merge([r for r in rules if r[2] - r[0] > r[3] - r[1]], 0)
    upright = _merge([r for r in rules if r[2] - r[0] <= r[3] - r[1]], 1)
    if len(upright) * len(across) > MAX_CROSSINGS:
        return []
    groups: list[tuple[list[Box], set[Box]]] = []
    for rule in upright:
        touched = {h for h in across if _touch(h, rule)}
        joined = [group for group in groups if group[1] & touched]
        groups = [group for group in groups if not group[1] & touched]
        verticals = [rule, *(v for group in joined for v in group[0])]
        groups.append((verticals, touched.union(*(group[1] for group in joined))))
    grids = [_grid(verticals, horizontals) for verticals, horizontals in groups]
    alike: dict[tuple[int, int], list[Box]] = {}
    for h in set(across).difference(*(grid.across for grid in grids if grid)):
        alike.setdefault((round(h[0] / NEAR), round(h[2] / NEAR)), []).append(h)
    grids += [_grid([], found) for found in alike.values() if len(found) > 2]
    return [grid for grid in grids if grid is not None]


def _merge(rules: list[Box], low: int) -> list[Box]:
    """Join the pieces of lines: a table may have four lines for each cell."""
    found: list[Box] = []
    other = 1 - low
    for rule in sorted(rules, key=lambda rule: (round(rule[other]), rule[low])):
        last = found[-1] if found else rule
        is_piece = abs(rule[other] - last[other]) < 1 and rule[low] < last[low + 2] + 1
        if found and is_piece:
            found[-1] = (*last[:2], max(last[2], rule[2]), max(last[3], rule[3]))
        else:
            found.append(rule)
    return found


def _grid(upright: list[Box], across: Iterable[Box]) -> RuledGrid | None:
    rules = [*upright, *across]
    ends = [x for rule in rules for x in (rule[0], rule[2])]
    xs = _distinct([*(v[0] for v in upright), min(ends), max(ends)])
    ends = [y for rule in rules for y in (rule[1], rule[3])]
    ys = _distinct([*(h[1] for h in across), min(ends), max(ends)])
    grid = RuledGrid(upright, list(across), xs, ys[::-1])
    return None if upright and len(xs) < 3 else grid


def _touch(h: Box, v: Box) -> bool:
    is_within = h[0] - NEAR < v[0] < h[2] + NEAR
    return is_within and v[1] - NEAR < h[1] < v[3] + NEAR


def _distinct(numbers: list[float]) -> list[float]:
    found: list[float] = []
    for number in sorted(numbers):
        if not found or number - found[-1] > NEAR:
            found.append(number)
    return found


def has_leader(text: str) -> bool:
    """Return True if the text has a dot leader, as in a table of contents."""
    return (".." in text or ". ." in text) and bool(LEADER.search(text))


def _cells(line: Line) -> int:
    """Count the cells of a line; a bullet or number before a text is not counted."""
    count = len(line.cells)
    if count > 1 and _LABEL.match(line.cells[0].text):
        count -= 1
    if line.is_rotated or has_leader(line.text):
        return 1
    return count


def table_end(rows: list[Line], start: int) -> int:
    """Return the end of the run of multi-cell rows that begins at ``start``."""
    end = start
    while end < len(rows) and (_cells(rows[end]) > 1 or _is_cell(rows, start, end)):
        if end > start:
            above, row = rows[end - 1], rows[end]
            if not 0 < above.y0 - row.y0 < 4 * max(row.size, above.size):
                break
        end += 1
    return end


def _is_cell(rows: list[Line], start: int, at: int) -> bool:
    """Return True if a row is one cell, right of the first column, inside a table."""
    row = rows[at]
    if at == start or not row.cells or at + 1 == len(rows) or _cells(rows[at + 1]) < 2:
        return False
    first, *others = _column_edges(rows[start:at])
    crossed = sum(row.x0 < right + 1 and left - 1 < row.x1 for left, right in others)
    return row.x0 > first[1] + 1 and crossed < 2


def table(rows: list[Line]) -> list[Block] | None:
    """Return a table, or the text columns that resemble a table; else None."""
    edges = _column_edges(rows)
    if len(edges) < 2:
        return None
    if len(edges) == 2 and _are_columns(rows):
        return _split_columns(rows, edges)
    has_header = rows[0].is_bold and not rows[1].is_bold
    if len(rows) < (2 if len(edges) > 2 or has_header else MIN_ROWS):
        return None
    grid = []
    for row in rows:
        values = [""] * len(edges)
        for cell in row.cells:
            column = _column_of(cell.x0, edges)
            values[column] = f"{values[column]} {cell.text}".strip()
        grid.append(values)
    return [Block(rows, grid)]


def _are_columns(rows: list[Line]) -> bool:
    """Return True if two columns contain running text instead of table cells."""
    cells = [[row.cells[0].text for row in rows], [row.cells[-1].text for row in rows]]
    letters = min(median(map(len, column)) for column in cells)
    words = min(median(len(text.split()) for text in column) for column in cells)
    return letters > PROSE or (len(rows) > 5 and words >= 3)


def _column_edges(rows: list[Line]) -> list[tuple[float, float]]:
    """Return (left, right) of each column: the union of overlapping cells."""
    spans = sorted((cell.x0, cell.x1) for row in rows for cell in row.cells)
    edges: list[tuple[float, float]] = []
    for x0, x1 in spans:
        if edges and x0 < edges[-1][1] + 1:
            edges[-1] = (edges[-1][0], max(edges[-1][1], x1))
        else:
            edges.append((x0, x1))
    return edges


def _column_of(x: float, edges: list[tuple[float, float]]) -> int:
    found = (index for index, (_, right) in enumerate(edges) if x <= right)
    return next(found, len(edges) - 1)


def _split_columns(rows: list[Line], edges: list[tuple[float, float]]) -> list[Block]:
    columns: list[Block] = [Block([]) for _ in edges]
    for row in rows:
        for cell in row.cells:
            part = Line(cell.text, row.size, cell.x0, row.y0, cell.x1, row.y1, [cell])
            columns[_column_of(cell.x0, edges)].lines.append(part)
    return [column for column in columns if column.lines]


def with_ruled_table(lines: list[Line], grid: RuledGrid) -> list[Line]:
    """Return the lines with a line for the table of ``grid``, if that is a table."""
    kept: list[Line] = []
    cells: _Cells = {}
    start = None
    for line in lines:
        y = (line.y0 + line.y1) / 2
        parts = [_part(line, cell) for cell in line.cells]
        inside = [p for p in parts if grid.contains((p.x0 + p.x1) / 2, y)]
        for part in inside:
            cells.setdefault(grid.cell_at((part.x0 + part.x1) / 2, y), []).append(part)
        if inside and start is None:
            start = len(kept)
        kept += [part for part in parts if part not in inside] if inside else [line]
    if not grid.upright:
        cells = _by_gaps(cells)
    rows = _ruled_rows(cells, is_open=not grid.upright)
    count = (len(grid.xs) - 1) * (len(grid.ys) - 1)
    if start is None or not rows or len(cells) < MIN_FILLED * count:
        return lines  # a frame, form or chart
    if not grid.upright and any(_is_beyond(line, grid) for line in kept):
        return lines  # only some rows stand between the lines
    block = Block([part for parts in cells.values() for part in parts], rows)
    kept.insert(start, Line("", 0.0, *block.box, table=block))
    return kept


def _is_beyond(line: Line, grid: RuledGrid) -> bool:
    """Return True if a line has cells right above or below the lines of a table."""
    distance = max(line.y0 - grid.ys[0], grid.ys[-1] - line.y1)
    is_over = line.x0 < grid.xs[-1] and grid.xs[0] < line.x1
    return is_over and _cells(line) > 1 and distance < 2 * line.size


def _part(line: Line, cell: Cell) -> Line:
    return evolve(line, text=cell.text, x0=cell.x0, x1=cell.x1, cells=[cell], links=[])


def _by_gaps(cells: _Cells) -> _Cells:
    edges = _column_edges([part for parts in cells.values() for part in parts])
    found: _Cells = {}
    for (row, _), parts in cells.items():
        for part in parts:
            found.setdefault((row, _column_of(part.x0, edges)), []).append(part)
    return found


def _ruled_rows(cells: _Cells, *, is_open: bool) -> list[list[str]]:
    """Return the texts of the cells; no rows without several rows and columns.

    ``is_open`` is True if no lines part the columns. The lines of the page then part
    text, too: each row must have some cells, and a text in its first column.
    """
    columns = sorted({column for _, column in cells})
    bands = sorted({row for row, _ in cells})
    rows: list[list[str]] = []
    for band in bands:
        texts = [_texts(cells.get((band, column), [])) for column in columns]
        counts = [len(lines) for lines in texts]
        is_even = len(set(counts)) == 1
        if is_even and counts[0] > (2 if len(bands) > 1 and not is_open else 1):
            if is_open and min(median(map(len, lines)) for lines in texts) > PROSE:
                return []
            rows += map(list, zip(*texts, strict=True))  # no lines between the rows
        elif is_open and not _is_row(counts, len(bands)):
            return []
        else:
            rows.append([_join(lines) for lines in texts])
    return rows if min(len(rows), len(columns)) > 1 else []


def _is_row(counts: list[int], bands: int) -> bool:
    """Return True if the lines of the cells between two lines are no rows of their own."""
    if counts.count(0) > len(counts) - 2:
        return False
    return counts[0] < 2 or (counts[0] == 2 and counts.count(2) == 1 and bands > 2)


def _texts(parts: list[Line]) -> list[str]:
    rows = rows_of(parts, 0.35)
    return [" ".join(part.text for part in row) for row in rows]


def _join(lines: list[str]) -> str:
    text = ""
    for line in lines:
        end, link = Hyphens().joint(text, line) if text else (0, "")
        text = f"{text[:end]}{link}{line}"
    return text


# -- blocks and their order --------------------------------------------------------------


def blocks_in_order(lines: list[Line], grids: list[RuledGrid]) -> list[Block]:
    """Return the blocks of a page in reading order."""
    for ruled in grids:
        lines = with_ruled_table(lines, ruled)
    rows = _joined_rows(lines)
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


def _joined_rows(lines: list[Line]) -> list[Line]:
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
            _append_row(last, line)
        else:
            rows.append(line)
    return rows


def _append_row(first: Line, second: Line) -> None:
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
        usual = median(a.y0 - b.y0 for a, b in itertools.pairwise(block.lines))
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
    rotated = [block for block in blocks if block.lines[0].is_rotated]
    if rotated:
        upright = [block for block in blocks if not block.lines[0].is_rotated]
        return _sort(upright) + rotated if upright else rotated
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
