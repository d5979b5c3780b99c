"""Features of the class names, ids and itemprops around a block."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.formats.main_content.blocks import Walk
    from scraper_service.formats.main_content.features import Table

Array = Any  # of numpy, one dimension
LEVELS = 4  # elements around a block that are looked at one by one
# Kinds of page on which names mean about the same; and the group of each kind.
GROUPS = ("reading", "forum", "list", "product", "service")
GROUP_OF = (0, 2, 0, 1, 2, 3, 4)


def names(
    out: dict[str, Array],
    walk: Walk,
    kind: Sequence[float],
    made: Table,
    depth: Array,
) -> None:
    """Add what the names of a block's elements say on any page, and on such a page.

    A comment in a forum is not one below an article. ``depth`` is by node.
    """
    nodes, parent = walk.nodes, made.parent
    scores = _kind_scores(walk, kind)
    known: dict[tuple[int, ...], tuple[float, float]] = {}
    for rows in set(nodes.kind_rows):
        values = [0.0, *(scores[row] for row in rows)]
        known[rows] = min(values), max(values)
    kind_low, kind_high = zip(*(known[rows] for rows in nodes.kind_rows), strict=True)
    low, high = np.array((nodes.low, kind_low)), np.array((nodes.high, kind_high))
    lowest, highest, sums = low.copy(), high.copy(), low + high  # from the top
    order = np.argsort(depth, kind="stable")
    for level in np.split(order, np.cumsum(np.bincount(depth))[:-1])[1:]:
        above = parent[level]
        lowest[:, level] = np.minimum(low[:, level], lowest[:, above])
        highest[:, level] = np.maximum(high[:, level], highest[:, above])
        sums[:, level] = sums[:, above] + low[:, level] + high[:, level]
    for row, name in enumerate(("names", "kind names")):
        at = made.node
        out[f"{name} low"] = lowest[row, at]
        out[f"{name} high"] = highest[row, at]
        out[f"{name} sum"] = sums[row, at]
        for number in range(LEVELS):
            out[f"{name} low {number}"] = low[row, at]
            out[f"{name} high {number}"] = high[row, at]
            at = parent[at]
        out[f"{name} low far"] = lowest[row, at]
        out[f"{name} high far"] = highest[row, at]


def _kind_scores(walk: Walk, kind: Sequence[float]) -> list[float]:
    """Return what each row of the table of names by kind means on this page."""
    chances = [0.0] * len(GROUPS)
    for number, chance in enumerate(kind):
        chances[GROUP_OF[number]] += chance
    columns = walk.tables.kind_columns
    scores: list[float] = sum(map(mul, columns, chances), np.zeros(1)).tolist()
    return scores
