"""Features of the class names, ids and itemprops around a block."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.formats.main_content.blocks import Walk
    from scraper_service.formats.main_content.features import Table
    from scraper_service.formats.main_content.tables import NameScores

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
    # The same scores stand at many nodes, and have one identity there.
    each = list(map(id, nodes.scores))
    known = dict(zip(each, nodes.scores, strict=True))
    numbers = dict(zip(known, range(len(known)), strict=True))
    low, high, kind_low, kind_high = _by_kind(
        list(known.values()), _kind_scores(walk, kind)
    ).take([numbers[key] for key in each], axis=1)
    order = np.argsort(depth, kind="stable")
    levels = np.split(order, np.cumsum(np.bincount(depth))[:-1])[1:]
    _add(out, "names", low, high, made, levels)
    _add(out, "kind names", kind_low, kind_high, made, levels)


def _by_kind(known: Sequence[NameScores], kind_scores: Array) -> Array:
    """Return four rows: lowest and highest, on any page and on one of these scores.

    The last of ``kind_scores`` is 0, which the lowest and the highest never pass.
    """
    rows: list[int] = []
    starts: list[int] = []
    for _, _, own in known:
        starts.append(len(rows))
        rows.append(-1)
        rows += own
    scores = kind_scores[rows]
    lows, highs, _ = zip(*known, strict=True)
    least = np.minimum.reduceat(scores, starts)
    most = np.maximum.reduceat(scores, starts)
    return np.array((lows, highs, least, most))


def _kind_scores(walk: Walk, kind: Sequence[float]) -> Array:
    """Return what each row of the table of names by kind means on this page, and 0."""
    chances = [0.0] * len(GROUPS)
    for number, chance in enumerate(kind):
        chances[GROUP_OF[number]] += chance
    columns = walk.tables.kind_columns
    scores = np.zeros(columns.shape[1] + 1)
    scores[:-1] = sum(map(mul, columns, chances), np.zeros(1))
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
    parent = made.parent
    lowest, highest, sums = low, high, low + high
    # Each turn looks twice as far up; the body is its own parent.
    above, seen = parent, 1
    while seen <= len(levels):
        lowest = np.minimum(lowest, lowest[above])
        highest = np.maximum(highest, highest[above])
        above, seen = above[above], 2 * seen
    for level in levels:
        sums[level] = sums[parent[level]] + low[level] + high[level]
    at = made.node
    out[f"{name} low"] = lowest[at]
    out[f"{name} high"] = highest[at]
    out[f"{name} sum"] = sums[at]
    for number in range(LEVELS):
        out[f"{name} low {number}"] = low[at]
        out[f"{name} high {number}"] = high[at]
        at = parent[at]
    out[f"{name} low far"] = lowest[at]
    out[f"{name} high far"] = highest[at]
