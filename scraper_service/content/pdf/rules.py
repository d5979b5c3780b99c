"""Reads the ruling lines of a PDF page, and finds the tables that they part."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from pypdfium2 import raw

from scraper_service.content.pdf.characters import fast_call
from scraper_service.content.pdf.lines import NEAR, RuledGrid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.pdf.lines import Box

MAX_OBJECTS = 5000  # page objects examined
MAX_SEGMENTS = 20_000  # of all drawings of a page; more are a picture
MAX_CROSSINGS = 20_000  # pairs of lines compared
MIN_LENGTH = 6.0  # points of a ruling line

_INT, _POINTER = ctypes.c_int, ctypes.c_void_p
_object = fast_call(raw.FPDFPage_GetObject, _POINTER, _POINTER, _INT)
_type = fast_call(raw.FPDFPageObj_GetType, _INT, _POINTER)
_count = fast_call(raw.FPDFPath_CountSegments, _INT, _POINTER)
_transform = fast_call(raw.FPDFPageObj_GetMatrix, _INT, _POINTER, _POINTER)
_segment = fast_call(raw.FPDFPath_GetPathSegment, _POINTER, _POINTER, _INT)
_point = fast_call(raw.FPDFPathSegment_GetPoint, _INT, _POINTER, _POINTER, _POINTER)
_kind = fast_call(raw.FPDFPathSegment_GetType, _INT, _POINTER)
_closes = fast_call(raw.FPDFPathSegment_GetClose, _INT, _POINTER)


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
    matrix, place = (ctypes.c_float * 6)(), (ctypes.c_float * 2)()
    at = ctypes.addressof(place)
    _transform(item, ctypes.addressof(matrix))
    a, b, c, d, e, f = matrix
    begin = last = (0.0, 0.0)
    for index in range(count):
        segment = _segment(item, index)
        _point(segment, at, at + 4)
        x, y = place
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
    across = _merged([r for r in rules if r[2] - r[0] > r[3] - r[1]], 0)
    upright = _merged([r for r in rules if r[2] - r[0] <= r[3] - r[1]], 1)
    if len(upright) * len(across) > MAX_CROSSINGS:
        return []
    groups: list[tuple[list[Box], set[Box]]] = []
    for rule in upright:
        touched = {h for h in across if _touch(h, rule)}
        joined = [group for group in groups if group[1] & touched]
        groups = [group for group in groups if not group[1] & touched]
        groups.append(
            (
                [rule, *(v for group in joined for v in group[0])],
                touched.union(*(group[1] for group in joined)),
            )
        )
    grids = [_grid(verticals, horizontals) for verticals, horizontals in groups]
    alike: dict[tuple[int, int], list[Box]] = {}
    for h in set(across).difference(*(grid.across for grid in grids if grid)):
        alike.setdefault((round(h[0] / NEAR), round(h[2] / NEAR)), []).append(h)
    grids += [_grid([], found) for found in alike.values() if len(found) > 2]
    return [grid for grid in grids if grid is not None]


def _merged(rules: list[Box], low: int) -> list[Box]:
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
    xs = _places([*(v[0] for v in upright), min(ends), max(ends)])
    ends = [y for rule in rules for y in (rule[1], rule[3])]
    ys = _places([*(h[1] for h in across), min(ends), max(ends)])
    grid = RuledGrid(upright, list(across), xs, ys[::-1])
    return None if upright and len(xs) < 3 else grid


def _touch(h: Box, v: Box) -> bool:
    is_within = h[0] - NEAR < v[0] < h[2] + NEAR
    return is_within and v[1] - NEAR < h[1] < v[3] + NEAR


def _places(numbers: list[float]) -> list[float]:
    """Return the distinct numbers in ascending order."""
    found: list[float] = []
    for number in sorted(numbers):
        if not found or number - found[-1] > NEAR:
            found.append(number)
    return found
