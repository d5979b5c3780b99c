"""The learned model: a forest of small decision trees over the features of blocks.

``tools/training/`` writes ``weights.json`` from pages whose main content is known. All
trees are symmetric: each depth has one condition. A block's leaf is therefore a number
with one bit per condition.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files  # works in an egg, too
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field

from scraper_service.content.main_content.features import ROWS, table
from scraper_service.content.main_content.kinds import ClassParts
from scraper_service.content.main_content.learned_scores import Tables
from scraper_service.content.passes import tree_sums

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.main_content.blocks import Walk
    from scraper_service.content.main_content.names import Table

WEIGHTS = "weights.json"


@define
class Forest:
    """A forest of symmetric trees.

    A tree has ``depth`` conditions (column, border) and 2**depth leaves. The first leaf is
    for rows that meet no condition.
    """

    #: The names of the feature columns.
    features: list[str]
    #: The feature of each condition as a number in ``features``, tree after tree.
    columns: Any
    #: The border of each condition; a value above the border meets the condition.
    borders: Any
    #: The values of the leaves, a row for each tree.
    leaves: Any
    #: The number added to the sum of the leaves.
    bias: float
    #: The number of conditions of each tree.
    depth: int
    #: The feature of each condition as a row of a feature table.
    rows: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        own = np.array([ROWS[name] for name in self.features], dtype=np.intp)
        self.rows = own[self.columns]

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

    def score(self, made: Table) -> Any:
        """Return the log odds of each block."""
        sums = tree_sums(made.values, self.rows, self.borders, self.leaves, self.depth)
        return np.asarray(sums) + self.bias


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
    #: The parts of class names in ``kinds``.
    class_parts: ClassParts = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        self.class_parts = ClassParts.of(self.kinds)

    def chances(self, walk: Walk, kind: Sequence[float]) -> tuple[Any, Table]:
        """Return for each block the probability of main content, and the features."""
        made = table(walk, kind)
        return chance(self.forest.score(made)), made


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
