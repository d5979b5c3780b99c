"""A verdict on its way, which the rules correct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

from scraper_service.content.main_content.blocks import PLACES, Walk
from scraper_service.content.main_content.feature_table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

SURE = 0.6  # chance of blocks that rules leave alone
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
    """A verdict on its way: ``keep`` by block, and the ``rules`` that decided.

    ``titles`` are what the page declares as its title.
    """

    walk: Walk
    made: Table
    chances: Any
    bar: float
    keep: Any
    rules: dict[int, str]
    titles: tuple[str, ...]

    def settle(self, numbers: Iterable[int], kept: bool, rule: str) -> None:
        """Keep or drop blocks by a rule."""
        for number in numbers:
            if bool(self.keep[number]) is not kept:
                self.keep[number] = kept
                self.rules[number] = rule

    def kept(self) -> list[int]:
        """Return the numbers of the blocks that are kept."""
        return [int(number) for number in np.flatnonzero(self.keep)]

    def is_sure(self, start: int, end: int) -> bool:
        """Tell whether the model is sure that these blocks are content."""
        weight = self.made.words[start:end] + 1.0
        return bool((self.chances[start:end] * weight).sum() >= SURE * weight.sum())

    def holder(self, block: int) -> tuple[int, int]:
        """Return the range of blocks in the element around that of ``block``."""
        around = self.made.parent[self.made.node[block]]
        return int(self.made.start[around]), int(self.made.end[around])


def is_chrome(places: int) -> bool:
    """Tell whether elements say of themselves that they are not content."""
    if places & _IN_CHROME:
        return True
    return bool(places & _IN_HEADER) and not places & _IN_SECTION
