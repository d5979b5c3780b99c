"""The feature table of a page, and the features of the names around a block."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

from scraper_service.content.passes import inherited, number_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.content.main_content.blocks import Walk

Array = Any  # of numpy, one dimension


@define
class Table:
    """The features of the blocks of a page, and the positions of the blocks."""

    #: The features by name, a value per block.
    columns: dict[str, Array]
    #: The number of words of each block.
    words: Array
    #: The node of each block.
    node: Array
    #: The parent of each node; 0 for the body.
    parent: Array
    #: The first block inside each node.
    start: Array
    #: The block behind the last block inside each node.
    end: Array
    #: The path number of each block's node.
    group: Array

    def matrix(self, names: Sequence[str]) -> Array:
        """Return the named columns as a matrix; each column is contiguous in memory."""
        columns = self.columns
        return np.array([columns[name] for name in names], dtype=np.float32).T


LEVELS = 4  # elements around a block with features of their own
# Groups of page kinds on which names mean about the same; and the group of each kind.
GROUPS = ("reading", "forum", "list", "product", "service")
GROUP_OF = (0, 2, 0, 1, 2, 3, 4)


def names(
    out: dict[str, Array],
    walk: Walk,
    kind: Sequence[float],
    made: Table,
) -> None:
    """Add the scores of the names around each block: for any page and for this kind.

    A name such as "comment" is content in a forum, but not below an article.
    """
    nodes = walk.nodes
    numbers, known = number_scores(nodes.scores)  # many nodes share their scores
    low, high, kind_low, kind_high = _by_kind(known, _kind_scores(walk, kind)).take(
        numbers, axis=1
    )
    _add(out, "names", low, high, made)
    _add(out, "kind names", kind_low, kind_high, made)


def _by_kind(known: Sequence[Any], kind_scores: Array) -> Array:
    """Return four rows: lowest and highest on any page, then on pages of this kind.

    The last of ``kind_scores`` is 0, therefore no lowest score is above 0 and no highest
    score is below 0.
    """
    rows: list[int] = []
    starts: list[int] = []
    for _, _, own in known:
        starts.append(len(rows))
        rows.append(-1)
        rows += own
    lows, highs, _ = zip(*known, strict=True)
    scores = kind_scores[rows]
    least = np.minimum.reduceat(scores, starts)
    most = np.maximum.reduceat(scores, starts)
    return np.array((lows, highs, least, most))


def _kind_scores(walk: Walk, kind: Sequence[float]) -> Array:
    """Return the score of each row of ``Tables.kind_names`` on this page, then 0."""
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
) -> None:
    """Add the lowest, highest and summed scores from the body, and the nearest scores."""
    parent = made.parent
    rows = inherited(parent.tolist(), low.tolist(), high.tolist())
    lowest, highest, sums = map(np.array, rows)
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
