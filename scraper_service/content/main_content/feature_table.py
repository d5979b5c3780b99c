"""The features of the blocks of one page, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = Any  # of numpy, one dimension


@define
class Table:
    """The rows of one page, by columns, and where its blocks stand."""

    columns: dict[str, Array]
    words: Array
    node: Array  # of each block
    parent: Array  # of each node
    start: Array
    end: Array
    group: Array  # blocks of one path have one number

    def matrix(self, names: Sequence[str]) -> Array:
        """Return the named columns side by side, each in one piece of memory."""
        columns = self.columns
        return np.array([columns[name] for name in names], dtype=np.float32).T
