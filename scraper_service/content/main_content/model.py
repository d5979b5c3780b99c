"""The learned model: a forest of small decision trees over the features of blocks.

``tools/training/`` writes ``weights.json`` from pages whose main content is known. All
trees are symmetric: each depth has one condition. A block's leaf is therefore a number
with one bit per condition, and a few numpy operations score a page.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files  # works in an egg, too
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from scraper_service.content.main_content.features import table
from scraper_service.content.main_content.learned_scores import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.main_content.blocks import Walk
    from scraper_service.content.main_content.names import Table

WEIGHTS = "weights.json"
ROWS = 2_048  # blocks scored at once; bounds the memory for a page of 100,000 blocks


@define
class Forest:
    """A forest of symmetric trees.

    A tree has ``depth`` conditions (column, border) and 2**depth leaves. The first leaf is
    for rows that meet no condition.
    """

    #: The names of the feature columns.
    features: list[str]
    #: The feature column of each condition, tree after tree.
    columns: Any
    #: The border of each condition; a value above the border meets the condition.
    borders: Any
    #: The values of the leaves, a row for each tree.
    leaves: Any
    #: The number added to the sum of the leaves.
    bias: float
    #: The number of conditions of each tree.
    depth: int
    #: The index of each tree's first leaf.
    _offsets: Any = field(init=False)
    #: The columns of the distinct conditions; trees share conditions.
    _single_columns: Any = field(init=False)
    #: The borders of the distinct conditions.
    _single_borders: Any = field(init=False)
    #: For each depth, the number of each tree's distinct condition.
    _levels: list[Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._offsets = np.arange(len(self.leaves))[:, None] * self.leaves.shape[1]
        pairs = list(zip(self.columns.tolist(), self.borders.tolist(), strict=True))
        singles = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        columns, borders = zip(*singles, strict=True)
        self._single_columns = np.array(columns, dtype=np.intp)
        self._single_borders = np.array(borders, dtype=np.float32)[:, None]
        numbers = np.array([singles[pair] for pair in pairs], dtype=np.intp)
        self._levels = [numbers[level :: self.depth] for level in range(self.depth)]

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Forest:
        """Return the forest of a weights file."""
        names, depth = data["features"], data["depth"]
        numbers = {name: number for number, name in enumerate(names)}
        columns = [numbers[c[0]] for tree in data["trees"] for c in tree["if"]]
        borders = [c[1] for tree in data["trees"] for c in tree["if"]]
        return cls(
            names,
            np.array(columns, dtype=np.intp),
            np.array(borders, dtype=np.float32),
            np.array([tree["then"] for tree in data["trees"]]),
            data["bias"],
            depth,
        )

    def score(self, rows: Any) -> Any:
        """Return the log odds of each row of a float32 matrix with the feature columns."""
        parts = [
            self._score(rows[start : start + ROWS])
            for start in range(0, len(rows), ROWS)
        ]
        return np.concatenate(parts)

    def _score(self, rows: Any) -> Any:
        # All trees and rows at once; the values of a feature are contiguous in memory.
        features = rows.T.take(self._single_columns, axis=0)
        met = (features > self._single_borders).view(np.uint8)
        leaf = np.zeros((len(self.leaves), len(rows)), dtype=np.uint8)
        for level, numbers in enumerate(self._levels):
            leaf |= met.take(numbers, axis=0) << level
        return self.leaves.take(leaf + self._offsets).sum(axis=0) + self.bias


@define
class Model:
    """Everything in the weights file."""

    #: The scores of names, words and pairs of tags.
    tables: Tables
    #: The weights of each sign of a page's kind, in the order of ``kinds.KINDS``.
    kinds: dict[str, list[float]]
    #: The trees over the features of a block.
    forest: Forest
    #: The factor on the bar of the best expected F1.
    threshold: float

    def chances(self, walk: Walk, kind: Sequence[float]) -> tuple[Any, Table]:
        """Return for each block the probability of main content, and the features."""
        made = table(walk, kind)
        rows = made.matrix(self.forest.features)
        return chance(self.forest.score(rows)), made


def chance(score: Any) -> Any:
    """Return the probability for log odds."""
    return 1.0 / (1.0 + np.exp(-np.clip(score, -30.0, 30.0)))


@cache
def model() -> Model:
    """Return the model in the weights file; each process reads it once."""
    data = json.loads(files(__package__).joinpath(WEIGHTS).read_bytes())
    return Model(
        Tables(**data["tables"]),
        data["kinds"],
        Forest.read(data["forest"]),
        data["threshold"],
    )
