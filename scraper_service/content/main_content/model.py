"""The learned model: a forest of small decision trees over the features of blocks.

``tools/training/`` writes ``weights.json`` from pages whose main content is known. All
trees are symmetric: each depth has one condition. A block's leaf is therefore a number
with one bit per condition. The scores make the draft of a verdict, which the rules correct.
"""

from __future__ import annotations

import json
from collections.abc import Mapping  # read at run time by attrs
from functools import cache
from importlib.resources import files  # works in an egg, too
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field, frozen

from scraper_service.content.main_content.blocks import PLACES, Tables, Walk
from scraper_service.content.main_content.kinds import KINDS, ClassParts
from scraper_service.content.passes import feature_rows, tree_sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Array = Any  # of numpy, one dimension
# Groups of page kinds on which names mean about the same; and the group of each kind.
GROUPS = ("reading", "forum", "list", "product", "service")
GROUP_OF = (0, 2, 0, 1, 2, 3, 4)
LEVELS = 4  # elements around a block with features of their own
REACHES = (4, 12)  # blocks before and behind whose means are features
# Places that add no information to the other features.
_USELESS = frozenset({"details", "p", "a", "dl", "consent"})
_SHIFTED = ("words", "link density", "tag")
_SPREAD = ("link density", "words", "sentence", "first words")
_BITS = [
    (f"in {name}", 1 << number)
    for number, name in enumerate(PLACES)
    if name not in _USELESS
]
WEIGHTS = "weights.json"
SURE = 0.6  # mean chance from which rules leave a section alone


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


def group_chances(kind: Sequence[float]) -> list[float]:
    """Return the chance of each of :data:`GROUPS`; ``kind`` has that of each page kind."""
    chances = [0.0] * len(GROUPS)
    for number, chance in enumerate(kind):
        chances[GROUP_OF[number]] += chance
    return chances


def _names() -> Iterator[str]:
    """Yield the names of the features."""
    yield from ("words", "link density", "links", "word length", "ends a sentence")
    yield from ("commas", "sentences", "first words", "phrase", "inline names")
    yield from ("same before", "same behind", "sentence", "tag", "depth")
    for group in ("names", "kind names"):
        yield from (f"{group} low", f"{group} high", f"{group} sum")
        for level in range(LEVELS):
            yield from (f"{group} low {level}", f"{group} high {level}")
        yield from (f"{group} low far", f"{group} high far")
    yield from (name for name, _ in _BITS)
    for level in range(LEVELS):
        parts = ("share", "density", "prose", "blocks")
        yield from (f"{part} {level}" for part in parts)
    yield from ("big share", "big density", "big distance")
    yield from ("alike", "item words", "item density", "item prose", "items share")
    yield from ("own siblings", "depth beside h1", "h1 shared")
    yield from ("position", "number", "number from end")
    yield from ("heading words", "heading phrase", "heading distance", "heading names")
    yield from ("in text", "from text", "text share", "from first sentence")
    yield "prose before"
    yield from ("group blocks", "group words", "group share", "group density")
    yield "group sentences"
    for name in _SHIFTED:
        yield from (f"{name} before", f"{name} behind")
    for reach in REACHES:
        yield from (f"{name} around {reach}" for name in _SPREAD)
    yield from ("page words", "page blocks", "page density", "page prose")
    yield from ("page items", "page articles", "page has h1")
    yield from (f"kind {name}" for name in KINDS)
    yield from ("share of main", "share of article")


NAMES = tuple(_names())
#: The row of each feature in a feature table.
ROWS = {name: number for number, name in enumerate(NAMES)}
_FIRST_KIND = ROWS[f"kind {KINDS[0]}"]


@frozen
class Columns(Mapping[str, Array]):
    """The rows of a feature table by name; few of them are asked for."""

    #: A row for each of :data:`NAMES`.
    values_by_row: Array

    def __getitem__(self, name: str) -> Array:
        return self.values_by_row[ROWS[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


def table(walk: Walk, kind: Sequence[float]) -> Table:
    """Return the features of all blocks; ``kind`` has the chance of each page kind."""
    nodes, blocks = walk.nodes, walk.blocks
    values, words, *wholes = feature_rows(
        ROWS,
        LEVELS,
        nodes,
        blocks,
        tags=walk.tables.tags_inside,
        kind_rows=walk.tables.kind_rows,
        kind_chances=group_chances(kind),
        bits=_BITS,
        headings=walk.titles,
        articles=nodes.tag.count("article"),
        shifted=_SHIFTED,
        spread=_SPREAD,
        reaches=REACHES,
    )
    values = np.asarray(values)
    values[_FIRST_KIND : _FIRST_KIND + len(KINDS)] = np.array(kind)[:, None]
    return Table(
        Columns(values),
        values,
        np.asarray(words),
        *(np.asarray(each, dtype=np.intp) for each in wholes),
    )


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


_IN_CHROME, _IN_HEADER, _IN_SECTION = (
    sum(1 << PLACES.index(name) for name in names.split())
    for names in (
        "nav footer aside dialog consent",
        "header",
        "main article section",
    )
)


@define
class Draft:
    """The draft of a verdict on a page's blocks."""

    #: The nodes and blocks of the page.
    walk: Walk
    #: The features of the blocks.
    made: Table
    #: Per block, the probability of main content.
    chances: Any
    #: The chance from which the model keeps a block.
    bar: float
    #: Per block, True if the block is kept.
    keep: Any
    #: The rule that changed ``keep``, by block number.
    rules: dict[int, str]
    #: The titles that the page declares.
    titles: tuple[str, ...]
    #: The block of the title; -1 if none was found.
    title: int = -1

    def set_keep(self, numbers: Iterable[int], kept: bool, rule: str) -> None:
        """Keep or drop blocks, and record ``rule`` for each changed block."""
        for number in numbers:
            if bool(self.keep[number]) is not kept:
                self.keep[number] = kept
                self.rules[number] = rule

    def kept_blocks(self) -> list[int]:
        """Return the numbers of the kept blocks."""
        found: list[int] = np.flatnonzero(self.keep).tolist()
        return found

    def is_sure(self, start: int, end: int) -> bool:
        """Return True if the mean chance of these blocks reaches :data:`SURE`."""
        weight = self.made.words[start:end] + 1.0
        return bool((self.chances[start:end] * weight).sum() >= SURE * weight.sum())

    def holder(self, block: int) -> tuple[int, int]:
        """Return the range of blocks in the parent of the node of ``block``."""
        around = self.made.parent[self.made.node[block]]
        return int(self.made.start[around]), int(self.made.end[around])


def is_chrome(places: int) -> bool:
    """Return True if the place bits mark navigation, footer, aside, dialog or header."""
    if places & _IN_CHROME:
        return True
    return bool(places & _IN_HEADER) and not places & _IN_SECTION
