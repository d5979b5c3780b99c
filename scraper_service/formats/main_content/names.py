"""Features of the class names, ids and itemprops around a block."""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from scraper_service.formats.main_content.blocks import NO_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.formats.main_content.blocks import Walk
    from scraper_service.formats.main_content.features import Table

Array = Any  # of numpy, one dimension
LEVELS = 4  # elements around a block that are looked at one by one
# Kinds of page on which names mean about the same; and the group of each kind.
GROUPS = ("reading", "forum", "list", "product", "service")
GROUP_OF = (0, 2, 0, 1, 2, 3, 4)


def names(out: dict[str, Array], facts: Array, made: Table) -> None:
    """Add what the names of a block's elements say on any page.

    ``facts`` are by node: depth, own low and high score, low, high and sum from the top.
    """
    node, parent = made.node, made.parent
    out["names low"] = facts[3][node]
    out["names high"] = facts[4][node]
    out["names sum"] = facts[5][node]
    out["depth"] = facts[0][node]
    at = node
    for level in range(LEVELS):
        out[f"names low {level}"] = facts[1][at]
        out[f"names high {level}"] = facts[2][at]
        at = parent[at]
    out["names low far"] = facts[3][at]
    out["names high far"] = facts[4][at]


def kind_names(
    out: dict[str, Array], walk: Walk, kind: Sequence[float], made: Table
) -> None:
    """Score the names again by what they mean on such a page: a comment in a forum."""
    chances = [0.0] * len(GROUPS)
    for number, chance in enumerate(kind):
        chances[GROUP_OF[number]] += chance
    learned = walk.tables.kind_names
    scores: dict[str, float] = {}
    known: dict[frozenset[str], tuple[float, float]] = {NO_NAMES: (0.0, 0.0)}
    rows = []
    for node in walk.nodes:
        own = known.get(node.parts)
        if own is None:
            for part in node.parts:
                if part not in scores:
                    row = learned.get(part)
                    scores[part] = (
                        sum(map(mul, chances, row)) if row is not None else 0.0
                    )
            values = [scores[part] for part in node.parts]
            own = known[node.parts] = min(0.0, *values), max(0.0, *values)
        low, high = own
        if node.parent < 0:
            rows.append((low, high, low, high, low + high))
        else:
            above = rows[node.parent]
            rows.append(
                (
                    low,
                    high,
                    min(low, above[2]),
                    max(high, above[3]),
                    above[4] + low + high,
                )
            )
    facts = np.array(rows).T
    at = made.node
    out["kind names low"] = facts[2][at]
    out["kind names high"] = facts[3][at]
    out["kind names sum"] = facts[4][at]
    for level in range(LEVELS):
        out[f"kind names low {level}"] = facts[0][at]
        out[f"kind names high {level}"] = facts[1][at]
        at = made.parent[at]
    out["kind names low far"] = facts[2][at]
    out["kind names high far"] = facts[3][at]
