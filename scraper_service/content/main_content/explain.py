"""Explains why the blocks of a page are kept or dropped: rules, features and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scraper_service.content.html.cleaning import clean
from scraper_service.content.html.document import parse
from scraper_service.content.main_content.kinds import read_declarations
from scraper_service.content.main_content.model import model
from scraper_service.content.main_content.verdicts import judge

if TYPE_CHECKING:
    from scraper_service.content.main_content.model import Forest, Table
    from scraper_service.content.main_content.verdicts import Verdict

MAIN = 3  # features per block
SHOWN = 160  # characters of a block's text
PATH = 3  # elements in the path of a block


def explain(html: str | bytes, url: str) -> dict[str, Any]:
    """Return the kind of the page, its evidence, and the verdict on each block.

    ``{"kind", "kinds": {name: chance}, "evidence": [{sign, weight}], "bar", "blocks":
    [{number, keep, chance, words, path, rule, features: [{name, value, weight}], text}]}``.
    A block is kept if its ``chance`` reaches ``bar``. A ``rule`` names the rule that
    overruled the chance. Weights are log odds; a weight above 0 favours keeping. The
    weights of all features add up to the block's score minus a constant; the three strongest
    are listed.
    """
    document = parse(html, url)
    page = read_declarations(document)
    clean(document)
    verdict = judge(document.body, page)
    if verdict is None:
        return {"kind": None, "kinds": {}, "evidence": [], "bar": None, "blocks": []}
    weights: list[dict[str, float]] = [{}] * len(verdict.keep)
    if verdict.table is not None:
        weights = effects(model().forest, verdict.table)
    return {
        "kind": verdict.kind.name,
        "kinds": {n: round(c, 3) for n, c in verdict.kind.by_name().items()},
        "evidence": [
            {"sign": sign, "weight": weight} for sign, weight in verdict.kind.evidence
        ],
        "bar": round(verdict.bar, 3),
        "blocks": [_block(verdict, number, own) for number, own in enumerate(weights)],
    }


def _block(verdict: Verdict, number: int, own: dict[str, float]) -> dict[str, Any]:
    blocks = verdict.walk.blocks
    columns = verdict.table.columns if verdict.table else {}
    main = sorted(own, key=lambda name: -abs(own[name]))[:MAIN]
    return {
        "number": number,
        "keep": verdict.keep[number],
        "chance": round(float(verdict.chances[number]), 3),
        "words": blocks.words[number],
        "path": _path(verdict, blocks.node[number]),
        "rule": verdict.rules.get(number),
        "features": [
            {
                "name": name,
                "value": round(float(columns[name][number]), 3),
                "weight": round(own[name], 2),
            }
            for name in main
        ],
        "text": " ".join(blocks.text[number].split())[:SHOWN],
    }


def effects(forest: Forest, made: Table) -> list[dict[str, float]]:
    """Return for each block the contribution of each feature to its score.

    Each condition of a tree halves the reachable leaves. Its contribution is the mean of
    the reachable leaves after the condition minus the mean before.
    """
    rows = made.matrix(forest.features)
    result: list[dict[str, float]] = []
    columns = forest.columns.reshape(len(forest.leaves), forest.depth)
    borders = forest.borders.reshape(columns.shape)
    every = np.arange(len(forest.leaves))
    for row in rows:
        met = row[columns] > borders
        left = forest.leaves
        sums = np.zeros(len(forest.features))
        for level in reversed(range(forest.depth)):
            parts = left.reshape(len(left), 2, -1)
            chosen = parts[every, met[:, level].astype(np.intp)]
            change = chosen.mean(axis=1) - left.mean(axis=1)
            np.add.at(sums, columns[:, level], change)
            left = chosen
        result.append(dict(zip(forest.features, sums.tolist(), strict=True)))
    return result


def _path(verdict: Verdict, node: int) -> str:
    """Return the tags and classes of the innermost elements around a block."""
    names: list[str] = []
    nodes = verdict.walk.nodes
    while node > 0 and len(names) < PATH:
        own = verdict.walk.elements[node].get("class", "").split()[:2]
        names.append(".".join([nodes.tag[node], *own]))
        node = nodes.parent[node]
    return " > ".join(reversed(names)) or "body"
