"""Which blocks of a page are kept, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen

from scraper_service.content.html.document import drop
from scraper_service.content.main_content.blocks import Walk
from scraper_service.content.main_content.drafts import Draft, is_chrome
from scraper_service.content.main_content.drops import below_article, drop_plain
from scraper_service.content.main_content.feature_table import Table
from scraper_service.content.main_content.kinds import (
    KINDS,
    Declared,
    Kind,
    built,
    kind_of,
)
from scraper_service.content.main_content.model import Model, model
from scraper_service.content.main_content.posts import add_bylines
from scraper_service.content.main_content.rules import correct
from scraper_service.content.main_content.tables import MAX_NAMES
from scraper_service.content.passes import compiled

MARKS = frozenset(
    "headerlink anchor-link anchorjs-link hash-link header-anchor mw-editsection".split()
)
MAX_BLOCKS = 20_000  # that are scored: 30 MB of numbers
SMALL = 60  # words outside of chrome: too few for the model to judge by
ENOUGH = 150  # words from which on it judges alone
WHOLE_PAGE = 600  # words with those of chrome, from which it judges in any case
ARTICLE = 0.6  # added to the bar where the page is surely an article: less stays
SURE = 0.8  # chance of an article, from which comments are none of it
LEAST_CERTAINTY = 0.6
CHROME_NAMES = -1.5  # a score of class names that on a small page means chrome
CHROME_CHANCE = 0.4  # on a small page, below which such names count


@frozen
class Verdict:
    """What was decided of a page. ``bar`` is the chance from which a block is kept;
    ``rules`` names for some blocks, by number, the rule that decided instead.
    ``table`` are their features, None when only rules were asked; ``posts`` are the
    elements of the posts of a forum.
    """

    walk: Walk
    kind: Kind
    chances: Any
    bar: float
    keep: list[bool]
    rules: dict[int, str]
    table: Table | None
    posts: list[Any] = field(factory=list)


def judge(body: Any, page: Declared, learned: Model | None = None) -> Verdict | None:
    """Judge the blocks of the cleaned ``body``; None when it has no text.

    ``page`` is what it declared before it was cleaned. At least one block is kept. The
    model, that of the weights file by default, does not judge pages of a few words or of
    very many blocks.
    """
    learned = learned or model()
    drop_marks(body)
    walk = Walk(body, learned.tables)
    if not len(walk.blocks):
        return None
    kind = kind_of(page.signs | built(walk), learned.kinds)
    if len(walk.blocks) > MAX_BLOCKS:
        keep = ~_chrome(walk, np.zeros(len(walk.blocks)))
        rules = dict.fromkeys(range(len(keep)), "a huge page: all but its chrome")
        return Verdict(walk, kind, keep * 1.0, 1.0, keep.tolist(), rules, None)
    chances, made = learned.chances(walk, kind.chances)
    return decide(walk, kind, chances, made, page.titles, learned.threshold)


def decide(
    walk: Walk,
    kind: Kind,
    chances: Any,
    made: Table,
    titles: tuple[str, ...],
    factor: float,
) -> Verdict:
    """Keep the blocks whose chance is worth it, and correct that by the rules.

    ``titles`` are those the page declares, ``factor`` is on the bar of the best F1.
    """
    rules: dict[int, str] = {}
    if kind.chances[KINDS.index("article")] >= SURE:
        comments = below_article(walk, made)
        chances = np.where(comments, 0.0, chances)
        rules.update(dict.fromkeys(np.flatnonzero(comments).tolist(), "a comment"))
    bar = threshold(chances, made.words) * factor
    bar *= 1 + ARTICLE * kind.chances[KINDS.index("article")]
    bar *= _certainty(walk, made)
    bar = min(bar, float(chances.max()))
    keep = chances >= bar
    if not bar:
        keep[:] = ~_chrome(walk, chances)
        every = range(len(keep))
        rules.update(dict.fromkeys(every, "a small page: all but its chrome"))
    draft = Draft(walk, made, chances, bar, keep, rules, titles)
    if bar:
        correct(draft)
    else:
        drop_plain(draft)
    posts = add_bylines(draft) if kind.name == "forum" else []
    return Verdict(walk, kind, chances, bar, keep.tolist(), rules, made, posts)


def drop_marks(body: Any) -> None:
    """Drop what stands beside headings to link to them or to edit below them."""
    for element in _marks(body):
        drop(element)


def _marks(body: Any) -> list[Any]:
    if compiled is not None:
        return compiled.classed(body, _is_mark, "a", "span")  # type: ignore[no-any-return]
    others: set[str | None] = {None}
    marks: list[Any] = []
    for element in body.iter("a", "span"):
        names = element.get("class")
        if names in others:
            continue
        if _is_mark(names):
            marks.append(element)
        else:
            others.add(names)
    return marks


def _is_mark(names: str) -> bool:
    return not MARKS.isdisjoint(names[:MAX_NAMES].split())


def threshold(chances: Any, words: Any) -> float:
    """Return the chance that is worth keeping a block for the best expected F1 in words.

    With blocks taken from the likeliest down, the expected F1 of the words kept rises to
    a top value; a block below half of that lowers it (Lewis, "Evaluating and optimizing
    autonomous text classification systems", 1995).
    """
    order = np.argsort(-chances, kind="stable")
    weight = words + 0.01
    hits = np.cumsum((chances * weight)[order])
    expected = 2 * hits / (np.cumsum(weight[order]) + hits[-1])
    return float(expected.max()) / 2


def _certainty(walk: Walk, made: Table) -> float:
    """Return how far the model is to be followed, from 0 for pages of a few words to 1.

    It was learned from whole pages: on small ones it takes too much for chrome. One of
    many words, nearly all in chrome, has its content there.
    """
    chrome = _in_chrome(walk)
    words = float(made.words[~chrome].sum())
    if words < SMALL:
        return LEAST_CERTAINTY if made.words.sum() >= WHOLE_PAGE else 0.0
    return min(max((words - SMALL) / (ENOUGH - SMALL), LEAST_CERTAINTY), 1.0)


def _chrome(walk: Walk, chances: Any) -> Any:
    """Tell of each block whether its elements, or names and chance, are those of chrome.

    None is, where all would be.
    """
    places, nodes = _in_chrome(walk), walk.nodes
    named = np.array([scores[0] for scores in nodes.scores]) <= CHROME_NAMES
    for number, parent in enumerate(nodes.parent[1:], 1):
        named[number] |= named[parent]
    named = named[walk.blocks.node] & (chances < CHROME_CHANCE)
    for chrome in (places | named, places):
        if not chrome.all():
            return chrome
    return np.zeros(len(walk.blocks), dtype=bool)


def _in_chrome(walk: Walk) -> Any:
    places = walk.blocks.places
    found = {own: is_chrome(own) for own in set(places)}
    return np.array([found[own] for own in places])
