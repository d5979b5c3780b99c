"""The learned model: a forest of small trees over the features of blocks.

``weights.json`` beside this module holds what ``tools/training/`` made of pages whose main
content is known. All trees are symmetric: one condition per depth, so that a block's
leaf is a number made of bits, and a page is scored by a few operations of numpy.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files  # an egg has no files
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from scraper_service.content.main_content.features import table
from scraper_service.content.main_content.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.main_content.blocks import Walk
    from scraper_service.content.main_content.feature_table import Table

WEIGHTS = "weights.json"
ROWS = 2_048  # blocks scored at once: what bounds the memory of a page of 100,000


@define
class Forest:
    """Symmetric trees. ``features`` names the columns; a tree is its conditions
    (column, border) and 2**depth leaves, of which the first is for none met.
    """

    features: list[str]
    columns: Any  # of every condition, trees side by side
    borders: Any
    leaves: Any  # trees x leaves
    bias: float
    depth: int
    _offsets: Any = field(init=False)
    # Trees share conditions: each is looked at once. Of each level, which ones.
    _single_columns: Any = field(init=False)
    _single_borders: Any = field(init=False)
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
        """Build it from what the weights file holds."""
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
        """Return the log odds of each row, a float32 matrix of the features' columns."""
        parts = [
            self._score(rows[start : start + ROWS])
            for start in range(0, len(rows), ROWS)
        ]
        return np.concatenate(parts)

    def _score(self, rows: Any) -> Any:
        # All trees and rows at once; a feature's numbers lie side by side.
        features = rows.T.take(self._single_columns, axis=0)
        met = (features > self._single_borders).view(np.uint8)
        leaf = np.zeros((len(self.leaves), len(rows)), dtype=np.uint8)
        for level, numbers in enumerate(self._levels):
            leaf |= met.take(numbers, axis=0) << level
        return self.leaves.take(leaf + self._offsets).sum(axis=0) + self.bias


@define
class Model:
    """Everything that was learned."""

    tables: Tables
    kinds: dict[str, list[float]]
    forest: Forest
    threshold: float

    def chances(self, walk: Walk, kind: Sequence[float]) -> tuple[Any, Table]:
        """Return for each block how likely it is main content, and its features."""
        made = table(walk, kind)
        rows = made.matrix(self.forest.features)
        return chance(self.forest.score(rows)), made


def chance(score: Any) -> Any:
    """Return the probability of log odds."""
    return 1.0 / (1.0 + np.exp(-np.clip(score, -30.0, 30.0)))


@cache
def model() -> Model:
    """Return the model of the weights file, read once a process."""
    data = json.loads(files(__package__).joinpath(WEIGHTS).read_bytes())
    return Model(
        Tables(**data["tables"]),
        data["kinds"],
        Forest.read(data["forest"]),
        data["threshold"],
    )
