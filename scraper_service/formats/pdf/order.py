"""From lines to blocks, and the order in which a reader takes them."""

from __future__ import annotations

import itertools
import re
from statistics import median

from attrs import define

from scraper_service.formats.pdf.lines import Line

MAX_SORTED = 1500  # blocks of a page; beyond it columns are not looked for
COLUMN_GAP = 6.0  # points between two columns
MIN_ROWS = 3  # of a table, or 2 of more than two cells
PROSE = 28  # letters of a cell that is a line of a column rather than a cell
MAX_LEADING = 1.75  # from line to line in one paragraph, in sizes of the letters
MAX_DOUBLE = 2.7  # the same where most lines of the page are so far apart
MIN_DOUBLE = 6  # lines that say so
FULL = 30  # width of a line that goes on in the next one, in sizes of the letters

_LABEL = re.compile(r"(?:[^\w\s]|[0-9a-zA-Z]{1,3}[.)]|\([0-9a-zA-Z]{1,4}\))\Z")
_LEADER = re.compile(r"\s*(?:\.\s?){4,}\s*")


@define
class Block:
    """Lines which belong together; ``rows`` are the cells of one that is a table.

    ``is_listing`` marks an entry of a table of contents. ``margin`` is where code
    begins on the page, in points.
    """

    lines: list[Line]
    rows: list[list[str]] | None = None
    is_listing: bool = False
    margin: float = 0.0

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The place on the page: left, bottom, right, top."""
        return (
            min(line.x0 for line in self.lines),
            min(line.y0 for line in self.lines),
            max(line.x1 for line in self.lines),
            max(line.y1 for line in self.lines),
        )


_Boxed = list[tuple[tuple[float, float, float, float], Block]]


def blocks_in_order(lines: list[Line]) -> list[Block]:
    """Return the blocks of a page as they are read."""
    rows = _rows(lines)
    leading = _leading(rows)
    found: list[Block] = []
    start = 0
    while start < len(rows):
        end = _table_end(rows, start)
        table = _table(rows[start:end]) if end - start > 1 else None
        if table is not None:
            found += table
            start = end
            continue
        _append(found, rows[start], leading)
        start += 1
    fixed = [block for block in found if block.lines[0].is_fixed]
    margin = min((line.x0 for b in fixed for line in b.lines), default=0.0)
    for block in fixed:
        block.margin = margin
    return _ordered(found)


def _rows(lines: list[Line]) -> list[Line]:
    """Join what stands beside each other, follows in the file, and is one line."""
    rows: list[Line] = []
    for line in lines:
        last = rows[-1] if rows else None
        if (
            last is not None
            and not (line.turned or last.turned)
            and abs(line.y0 - last.y0) < 0.35 * min(line.size, last.size)
            and 0 <= line.x0 - last.x1 + 1
        ):
            _join(last, line)
        else:
            rows.append(line)
    return rows


def _join(first: Line, second: Line) -> None:
    shift = len(first.text) + 1
    if second.x0 - first.x1 > 1.5 * first.size:
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


def _has_leader(text: str) -> bool:
    """Tell whether dots lead from an entry to its page; most text has none in a row."""
    return (".." in text or ". ." in text) and bool(_LEADER.search(text))


def _cells(line: Line) -> int:
    """Count the cells; a bullet or a number before a text is no cell of its own."""
    count = len(line.cells)
    if count > 1 and _LABEL.match(line.cells[0].text):
        count -= 1
    if line.turned or _has_leader(line.text):
        return 1
    return count


def _table_end(rows: list[Line], start: int) -> int:
    """Return where the rows of several cells end that begin at ``start``."""
    end = start
    while end < len(rows) and _cells(rows[end]) > 1:
        if end > start:
            above, row = rows[end - 1], rows[end]
            if not 0 < above.y0 - row.y0 < 4 * max(row.size, above.size):
                break
        end += 1
    return end


def _table(rows: list[Line]) -> list[Block] | None:
    """Return a table, or the columns of text that only look like one; else None."""
    edges = _column_edges(rows)
    if len(edges) < 2:
        return None
    if len(edges) == 2 and _are_columns(rows):
        return _split_columns(rows, edges)
    if len(rows) < (2 if len(edges) > 2 else MIN_ROWS):
        return None
    grid = []
    for row in rows:
        values = [""] * len(edges)
        for cell in row.cells:
            place = _place(cell.x0, edges)
            values[place] = f"{values[place]} {cell.text}".strip()
        grid.append(values)
    return [Block(rows, grid)]


def _are_columns(rows: list[Line]) -> bool:
    """Tell two columns of text, written line by line, from a table."""
    cells = [[row.cells[0].text for row in rows], [row.cells[-1].text for row in rows]]
    letters = min(median(map(len, column)) for column in cells)
    words = min(median(len(text.split()) for text in column) for column in cells)
    return letters > PROSE or (len(rows) > 5 and words >= 3)


def _column_edges(rows: list[Line]) -> list[tuple[float, float]]:
    """Return (left, right) of the columns: what cells of all rows cover together."""
    spans = sorted((cell.x0, cell.x1) for row in rows for cell in row.cells)
    edges: list[tuple[float, float]] = []
    for x0, x1 in spans:
        if edges and x0 < edges[-1][1] + 1:
            edges[-1] = (edges[-1][0], max(edges[-1][1], x1))
        else:
            edges.append((x0, x1))
    return edges


def _place(x: float, edges: list[tuple[float, float]]) -> int:
    for index, (_, right) in enumerate(edges):
        if x <= right:
            return index
    return len(edges) - 1


def _split_columns(rows: list[Line], edges: list[tuple[float, float]]) -> list[Block]:
    columns: list[Block] = [Block([]) for _ in edges]
    for row in rows:
        for cell in row.cells:
            part = Line(cell.text, row.size, cell.x0, row.y0, cell.x1, row.y1, [cell])
            columns[_place(cell.x0, edges)].lines.append(part)
    return [column for column in columns if column.lines]


def _append(blocks: list[Block], line: Line, leading: float) -> None:
    last = blocks[-1] if blocks else None
    is_listing = _has_leader(line.text)
    if is_listing:
        short = _LEADER.sub(" \u2026 ", line.text).strip(" \u2026")
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
    """Tell whether ``line`` is the next one of a block."""
    last = block.lines[-1]
    if line.turned or last.turned:
        return line.turned == last.turned
    size = max(line.size, last.size)
    if abs(line.size - last.size) > 0.12 * size:
        return False
    if line.is_fixed != last.is_fixed and (
        block.lines[0].is_fixed
        or abs(line.x0 - last.x0) > 1
        or last.x1 - last.x0 < FULL * size
    ):
        return False  # code begins or ends; else a line of a paragraph that names code
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
    """Return how far apart lines of a paragraph may be, in sizes of the letters."""
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


def _ordered(blocks: list[Block]) -> list[Block]:
    """Sort blocks unless the order of the file makes sense, as it mostly does.

    Turned text, as of axes or a stamp at the margin, comes last.
    """
    turned = [block for block in blocks if block.lines[0].turned]
    if turned:
        upright = [block for block in blocks if not block.lines[0].turned]
        return _ordered(upright) + turned if upright else turned
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


def _is_wrong(
    a: tuple[float, float, float, float], b: tuple[float, float, float, float]
) -> bool:
    """Tell whether ``b`` stands above ``a`` without being in a column further right."""
    return b[1] >= a[3] - 1 and b[0] < a[2]


def _has_columns(boxed: _Boxed) -> bool:
    boxes = [box for box, _ in boxed[:200]]
    return any(
        a[1] < b[3] and b[1] < a[3] and (a[2] <= b[0] or b[2] <= a[0])
        for n, a in enumerate(boxes)
        for b in boxes[n + 1 :]
    )


def _by_strips(boxed: _Boxed) -> list[Block]:
    """Sort into strips from the top, and columns from the left inside them."""
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
    """Cut at the gaps of the projection on one axis."""
    ordered = sorted(boxed, key=lambda item: item[0][low])
    groups: list[_Boxed] = []
    edge = float("-inf")
    for item in ordered:
        if item[0][low] >= edge + gap or not groups:
            groups.append([])
        groups[-1].append(item)
        edge = max(edge, item[0][high])
    return groups[::-1] if reverse else groups
