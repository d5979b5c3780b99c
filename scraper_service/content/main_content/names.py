"""The feature table of a page, and the groups of page kinds."""

from __future__ import annotations

from collections.abc import Mapping  # read at run time by attrs
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = Any  # of numpy, one dimension


@define
class Table:
    """The features of the blocks of a page, and the positions of the blocks."""

    #: The features by name, a value per block.
    columns: Mapping[str, Array]
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


def group_chances(kind: Sequence[float]) -> list[float]:
    """Return the chance of each of :data:`GROUPS`; ``kind`` has that of each page kind."""
    chances = [0.0] * len(GROUPS)
    for number, chance in enumerate(kind):
        chances[GROUP_OF[number]] += chance
    return chances
