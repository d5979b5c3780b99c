"""The feature table of a page, and the features of the names around a block."""

from __future__ import annotations

from array import array
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

from scraper_service.content.passes import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.content.main_content.blocks import Walk
    from scraper_service.content.main_content.learned_scores import NameScores

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
    # Many nodes share the same scores object.
    numbered = _numbered if compiled is None else compiled.numbered
    numbers, *known = numbered(nodes.scores)
    low, high, kind_low, kind_high = _by_kind(known, _kind_scores(walk, kind)).take(
        np.frombuffer(numbers, np.int64), axis=1
    )
    inherited = _inherited if compiled is None else _compiled_inherited
    _add(out, "names", low, high, made, inherited(made.parent, low, high))
    below = inherited(made.parent, kind_low, kind_high)
    _add(out, "kind names", kind_low, kind_high, made, below)


def _numbered(scores: list[NameScores]) -> tuple[array[int] | array[float], ...]:
    """Return five arrays: a number per node for its scores, and the distinct scores.

    The distinct scores are four arrays: lowest scores, highest scores, rows, starts. The
    rows refer to ``Tables.kind_names``. A -1 precedes the rows of each score, and ``starts``
    has the position of this -1.
    """
    each = list(map(id, scores))
    known = dict(zip(each, scores, strict=True))
    places = dict(zip(known, range(len(known)), strict=True))
    rows: list[int] = []
    starts: list[int] = []
    for _, _, own in known.values():
        starts.append(len(rows))
        rows.append(-1)
        rows += own
    lows, highs, _ = zip(*known.values(), strict=True)
    numbers = [places[key] for key in each]
    return (
        array("q", numbers),
        array("d", lows),
        array("d", highs),
        array("q", rows),
        array("q", starts),
    )


def _by_kind(known: Sequence[Any], kind_scores: Array) -> Array:
    """Return four rows: lowest and highest on any page, then on pages of this kind.

    The last of ``kind_scores`` is 0, therefore no lowest score is above 0 and no highest
    score is below 0.
    """
    lows, highs = (np.frombuffer(part, np.float64) for part in known[:2])
    rows, starts = (np.frombuffer(part, np.int64) for part in known[2:])
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


def _inherited(parent: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return per node the lowest, highest and sum of the scores from the body to it."""
    least, most = low.tolist(), high.tolist()
    lowest, highest, sums = least[:], most[:], (low + high).tolist()
    for number, above in enumerate(parent.tolist()[1:], 1):
        lowest[number] = min(least[number], lowest[above])
        highest[number] = max(most[number], highest[above])
        sums[number] = sums[above] + least[number] + most[number]
    return np.array(lowest), np.array(highest), np.array(sums)


def _compiled_inherited(
    parent: Array, low: Array, high: Array
) -> tuple[Array, Array, Array]:
    found = compiled.inherited(parent, low, high)
    return tuple(np.frombuffer(part) for part in found)  # type: ignore[return-value]


def _add(
    out: dict[str, Array],
    name: str,
    low: Array,
    high: Array,
    made: Table,
    inherited: tuple[Array, Array, Array],
) -> None:
    """Add the lowest, highest and summed scores from the body, and the nearest scores."""
    parent = made.parent
    lowest, highest, sums = inherited
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
