"""The features of the model: a row of numbers for each block of a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from scraper_service.content.main_content.blocks import PLACES
from scraper_service.content.main_content.kinds import KINDS
from scraper_service.content.main_content.names import Array, Table, group_chances
from scraper_service.content.passes import feature_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scraper_service.content.main_content.blocks import Walk

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
