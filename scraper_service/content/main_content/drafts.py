"""The draft of a verdict, which the rules correct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

from scraper_service.content.main_content.blocks import PLACES, Walk
from scraper_service.content.main_content.names import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

SURE = 0.6  # mean chance from which rules leave a section alone
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

    def kept(self) -> list[int]:
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
