"""The feature table of a page, and the scores of names on pages of its kind."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.content.main_content.blocks import Walk

Array = Any  # of numpy, one dimension


@define
class Table:
    """The features of the blocks of a page, and the positions of the blocks."""

    #: The features by name, a value per block.
    columns: dict[str, Array]
    #: All features, a row for each.
    values: Array
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
        rows = {name: number for number, name in enumerate(self.columns)}
        numbers = [rows[name] for name in names]
        return self.values[numbers].astype(np.float32).T


# Groups of page kinds on which names mean about the same; and the group of each kind.
GROUPS = ("reading", "forum", "list", "product", "service")
GROUP_OF = (0, 2, 0, 1, 2, 3, 4)


def kind_scores(walk: Walk, kind: Sequence[float]) -> Array:
    """Return the score of each row of ``Tables.kind_names`` on this page, then 0."""
    chances = [0.0] * len(GROUPS)
    for number, chance in enumerate(kind):
        chances[GROUP_OF[number]] += chance
    columns = walk.tables.kind_columns
    scores = np.zeros(columns.shape[1] + 1)
    scores[:-1] = sum(map(mul, columns, chances), np.zeros(1))
    return scores
