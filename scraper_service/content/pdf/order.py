"""From lines to blocks, and the order in which a reader takes them."""

from __future__ import annotations

import itertools
from statistics import median

from scraper_service.content.pdf.grids import LEADER, has_leader, table, table_end
from scraper_service.content.pdf.lines import Block, Box, Line

MAX_SORTED = 1500  # blocks of a page; beyond it columns are not looked for
COLUMN_GAP = 6.0  # points between two columns
MAX_LEADING = 1.75  # from line to line in one paragraph, in sizes of the letters
MAX_DOUBLE = 2.7  # the same where most lines of the page are so far apart
MIN_DOUBLE = 6  # lines that say so
FULL = 30  # width of a line that goes on in the next one, in sizes of the letters


_Boxed = list[tuple[Box, Block]]


def blocks_in_order(lines: list[Line]) -> list[Block]:
    """Return the blocks of a page as they are read."""
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


def _is_wrong(a: Box, b: Box) -> bool:
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
