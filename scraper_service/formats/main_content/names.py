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
    nodes = walk.nodes
    scores = _kind_scores(walk, kind)
    known: dict[tuple[int, ...], tuple[float, float]] = {}
    for rows in set(nodes.kind_rows):
        values = [0.0, *(scores[row] for row in rows)]
        known[rows] = min(values), max(values)
    kind_low, kind_high = zip(*(known[rows] for rows in nodes.kind_rows), strict=True)
    order = np.argsort(depth, kind="stable")
    levels = np.split(order, np.cumsum(np.bincount(depth))[:-1])[1:]
    _add(out, "names", np.array(nodes.low), np.array(nodes.high), made, levels)
    _add(out, "kind names", np.array(kind_low), np.array(kind_high), made, levels)


def _kind_scores(walk: Walk, kind: Sequence[float]) -> list[float]:
    """Return what each row of the table of names by kind means on this page."""
    chances = [0.0] * len(GROUPS)
    for number, chance in enumerate(kind):
        chances[GROUP_OF[number]] += chance
    columns = walk.tables.kind_columns
    scores: list[float] = sum(map(mul, columns, chances), np.zeros(1)).tolist()
    return scores


def _add(
    out: dict[str, Array],
    name: str,
    low: Array,
    high: Array,
    made: Table,
    levels: Sequence[Array],
) -> None:
    """Add the lowest, highest and sum of scores from the top, and the nearest ones.

    ``low`` and ``high`` are by node, ``levels`` the nodes of each depth from 1 on.
    """
    lowest, highest, sums = low.copy(), high.copy(), low + high
    for level in levels:
        above = made.parent[level]
        lowest[level] = np.minimum(low[level], lowest[above])
        highest[level] = np.maximum(high[level], highest[above])
        sums[level] = sums[above] + low[level] + high[level]
    at = made.node
    out[f"{name} low"] = lowest[at]
    out[f"{name} high"] = highest[at]
    out[f"{name} sum"] = sums[at]
    for number in range(LEVELS):
        out[f"{name} low {number}"] = low[at]
        out[f"{name} high {number}"] = high[at]
        at = made.parent[at]
    out[f"{name} low far"] = lowest[at]
    out[f"{name} high far"] = highest[at]
