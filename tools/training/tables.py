"""Counts which names, phrases, words and tags occur with content, and scores them."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from scraper_service.content.main_content.blocks import (
    MAX_FIRST_WORDS,
    MAX_NAMES,
    MAX_PHRASE_WORDS,
)
from scraper_service.content.main_content.model import GROUP_OF, GROUPS, KINDS
from scraper_service.content.passes import name_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_START = 200  # characters examined at the start of a block
PRIOR = 0.45  # prior share of content
STRENGTH = 2.0  # weight of the prior, in pages
LEAST_SITES = {"names": 6, "phrases": 4, "words": 8, "tags": 6}
GROUP_STRENGTH = 5.0  # weight of the score over all kinds, in pages
LEAST_SCORE = {"names": 0.25, "phrases": 0.25, "words": 0.6, "tags": 0.25}
_WORD = re.compile(r"[^\W\d_]+")


def counts(walk: Any, labels: Any) -> dict[str, dict[str, float]]:
    """Return for each name, phrase, word and tag of a page its share of content."""
    sums: dict[str, dict[str, list[float]]] = {
        table: defaultdict(lambda: [0.0, 0.0]) for table in LEAST_SITES
    }

    def add(table: str, key: str, weight: float, label: float) -> None:
        pair = sums[table][key]
        pair[0] += weight * label
        pair[1] += weight

    nodes, blocks = walk.nodes, walk.blocks
    used = labels >= 0
    content = (labels > 0.5).astype(float)
    weights = np.array([min(words, 60) + 2.0 for words in blocks.words]) * used
    below = np.concatenate(([0.0], np.cumsum(weights)))
    kept = np.concatenate(([0.0], np.cumsum(weights * content)))
    for number in range(1, len(nodes)):
        start, end = nodes.start[number], nodes.end[number]
        weight = below[end] - below[start]
        if not weight:
            continue
        label = (kept[end] - kept[start]) / weight
        element = walk.elements[number]
        own = element.get("class", "")[:MAX_NAMES]
        said = element.get("data-testid") or element.get("aria-label")
        others = (element.get("id"), element.get("itemprop"), said)
        names = " ".join((own, *filter(None, others)))
        for part in set(name_parts(names)):
            add("names", part, weight, label)
    for number in range(len(blocks)):
        if not used[number]:
            continue
        label = content[number]
        words = blocks.text[number][:MAX_START].split(None, MAX_FIRST_WORDS)[
            :MAX_FIRST_WORDS
        ]
        for word in {w.lower() for w in words}:
            add("words", word, 1.0, label)
        if len(words) <= MAX_PHRASE_WORDS:
            add("phrases", _phrase_of(words), 1.0, label)
        node = blocks.node[number]
        above = max(nodes.parent[node], 0)
        pair = f"{nodes.tag[above]} {nodes.tag[node]}"
        add("tags", pair, 1.0 + min(blocks.words[number], 60) / 10, label)
    return {
        table: {key: pair[0] / pair[1] for key, pair in rows.items() if pair[1]}
        for table, rows in sums.items()
    }


def tables(
    pages: Iterable[tuple[str, dict[str, dict[str, float]]]],
) -> dict[str, dict[str, float]]:
    """Return the scores over all pages; a page is (site, result of :func:`counts`)."""
    made: dict[str, dict[str, float]] = {}
    whole: dict[str, dict[str, list[float]]] = {t: {} for t in LEAST_SITES}
    sites: dict[str, dict[str, set[str]]] = {t: defaultdict(set) for t in LEAST_SITES}
    for site, page in pages:
        for table, rows in page.items():
            for key, share in rows.items():
                pair = whole[table].setdefault(key, [0.0, 0.0])
                pair[0] += share
                pair[1] += 1
                if len(sites[table][key]) < 10:
                    sites[table][key].add(site)
    for table, rows in whole.items():
        made[table] = {}
        for key, (share, count) in sorted(rows.items()):
            if not key or len(sites[table][key]) < LEAST_SITES[table]:
                continue
            score = math.log(
                (share + STRENGTH * PRIOR) / (count - share + STRENGTH * (1 - PRIOR))
            ) - math.log(PRIOR / (1 - PRIOR))
            if abs(score) >= LEAST_SCORE[table]:
                made[table][key] = round(score, 2)
    return made


def kind_names(
    pages: Iterable[tuple[str, str, dict[str, dict[str, float]]]],
) -> dict[str, list[float]]:
    """Return the scores of names by group of kinds; a page is (site, kind, counts).

    In a group with few pages, the score over all pages with the name dominates.
    """
    whole: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    parts: dict[str, list[list[float]]] = defaultdict(
        lambda: [[0.0, 0.0] for _ in GROUPS]
    )
    sites: dict[str, set[str]] = defaultdict(set)
    for site, kind, page in pages:
        group = GROUP_OF[KINDS.index(kind)]
        for name, share in page["names"].items():
            for pair in (whole[name], parts[name][group]):
                pair[0] += share
                pair[1] += 1
            sites[name].add(site)
    made = {}
    for name, (share, count) in sorted(whole.items()):
        if len(sites[name]) < LEAST_SITES["names"]:
            continue
        usual = (share + STRENGTH * PRIOR) / (count + STRENGTH)
        row = [
            round(_odds((s + GROUP_STRENGTH * usual) / (c + GROUP_STRENGTH)), 2)
            for s, c in parts[name]
        ]
        if max(map(abs, row)) >= LEAST_SCORE["names"]:
            made[name] = row
    return made


def _odds(share: float) -> float:
    share = min(max(share, 0.003), 0.997)
    return math.log(share / (1 - share)) - math.log(PRIOR / (1 - PRIOR))


def kind_weights(
    signs: Sequence[set[str]], kinds: Sequence[str], strength: float = 0.15
) -> dict[str, list[float]]:
    """Return the weights of a logistic regression from signs to kinds."""
    count: dict[str, int] = defaultdict(int)
    for own in signs:
        for sign in own:
            count[sign] += 1
    known = {sign for sign, pages in count.items() if pages >= 6}
    vectorizer = DictVectorizer()
    rows = vectorizer.fit_transform([dict.fromkeys(s & known, 1.0) for s in signs])
    fitted = LogisticRegression(C=strength, max_iter=400)
    fitted.fit(rows, [KINDS.index(kind) for kind in kinds])
    weights = {
        name: [round(float(w), 2) for w in fitted.coef_[:, column]]
        for name, column in vectorizer.vocabulary_.items()
        if np.abs(fitted.coef_[:, column]).max() >= 0.08
    }
    return {"": [round(float(b), 3) for b in fitted.intercept_], **weights}


def _phrase_of(words: Iterable[str]) -> str:
    """Return the words of a short text in lower case, without digits and punctuation."""
    return " ".join(_WORD.findall(" ".join(words).lower()))
