"""The few rules that correct the model: what readers expect of any page."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

from scraper_service.formats.main_content.blocks import IN_CONSENT, PLACES, Walk
from scraper_service.formats.main_content.features import Table
from scraper_service.formats.main_content.tables import MAX_NAMES
from scraper_service.formats.tables import data_rows
from scraper_service.formats.words import shared_words

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST_IN_GAP = 0.3  # of the bar: the chance of a block that stays between others
MAX_GAP = 3  # blocks
NAVIGATION = 0.5  # share of the words kept, from which navigation is the content
OFFERS = 0.3  # share of the words of a page, up to which a section may go
LINK_PAGE = 0.5  # share of the words of a page that are links
LEAST_LINKS = 3
SHORT_LINK = 5  # words
LEAST_TABLE = 0.05  # of the bar, for a table with a header inside main or article
MAX_TITLE = 40  # words
MAX_HEADINGS = 10
LEAST_SHARED = 0.5  # of the words of a title or heading, with the other one
MOSTLY = 0.5  # of the words of a block, in links
LEAST_OFFER, MAX_OFFER = 4, 30  # words of a line that leads elsewhere
MAX_FORM = 60  # words
LEAST_TEXT = 40  # words of sentences that are no comments
WHOLE = frozenset({"pre", "table", "dl"})  # kept or dropped as one
MAX_WHOLES = 2_000  # judged as one; further ones block by block

_IN_CHROME, _IN_HEADER, _IN_SECTION, _IN_MAIN, _IN_NAV = (
    sum(1 << PLACES.index(name) for name in names.split())
    for names in (
        "nav footer aside dialog consent",
        "header",
        "main article section",
        "main article",
        "nav",
    )
)
_OFFER = re.compile(
    r"(?:related|read also|read more|read next|more from|more stories|you (?:may|might) also|"
    r"recommended|also read|trending|most (?:read|popular)|share this|who is online|"
    r"leave a (?:reply|comment))\b",
    re.IGNORECASE,
)

_NEWS_PARTS = ("newsletter", "subscri", "signup", "sign-up")
_NEWS = re.compile("newsletter|subscri|sign-?up", re.IGNORECASE)
_COMMENT_PARTS = ("comment", "disqus", "respond", "replies")  # of all such names
_COMMENTS = re.compile(
    r"(?:(?:post|article|entry|user|reader|page|wp|blog|view|all|fb)[-_]*)?"
    r"(?:comments?|disqus|respond|replies)(?:[-_]*(?:list|area|section|container|"
    r"wrap|wrapper|block|thread|box|body|content|holder|main|respond|form|feed|tree|"
    r"widget|comments))*[-_]*\d*",
    re.IGNORECASE,
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

    def holder(self, block: int) -> tuple[int, int]:
        """Return the range of blocks in the element around that of ``block``."""
        around = self.made.parent[self.made.node[block]]
        return int(self.made.start[around]), int(self.made.end[around])


def is_chrome(places: int) -> bool:
    """Tell whether elements say of themselves that they are not content."""
    if places & _IN_CHROME:
        return True
    return bool(places & _IN_HEADER) and not places & _IN_SECTION


def below_article(walk: Walk, made: Table) -> Any:
    """Tell of each block whether elements say that it is a comment on the article.

    None is, where there is hardly any text besides: then it may be the article.
    """
    nodes = walk.nodes
    found = np.zeros(len(walk.blocks), dtype=bool)
    title = nodes.start[nodes.tag.index("h1")] if "h1" in nodes.tag else -1
    named = {
        shape for shape in set(nodes.shape) if _is_comments(shape.partition(".")[2])
    }
    for number, (shape, own) in enumerate(zip(nodes.shape, nodes.own, strict=True)):
        if shape in named or (own and _is_comments(own)):
            start, end = nodes.start[number], nodes.end[number]
            found[start:end] |= not start <= title < end
    if (made.words * made.columns["sentence"] * ~found).sum() < LEAST_TEXT:
        found[:] = False
    return found


@lru_cache(maxsize=10_000)
def _is_comments(names: str) -> bool:
    lower = names.lower()
    if not [part for part in _COMMENT_PARTS if part in lower]:
        return False
    return any(map(_COMMENTS.fullmatch, names[:MAX_NAMES].split()))


def correct(draft: Draft) -> None:
    """Apply all rules; at least one block stays kept."""
    before = draft.keep.copy()
    _wholes(draft)
    _gaps(draft)
    _headings(draft)
    _link_rows(draft)
    _navigation(draft)
    _offers(draft)
    _forms(draft)
    _lone_headings(draft)
    blocks = draft.walk.blocks
    loose = (
        n for n, node in enumerate(blocks.node) if not node and not blocks.linked[n]
    )
    draft.settle(loose, True, "text of the body itself")
    _title(draft)
    _consent(draft)
    if not draft.keep.any():
        draft.keep[:] = before
        draft.rules.clear()


def _wholes(draft: Draft) -> None:
    """Keep or drop tables of data, code and definitions as a whole."""
    done, count = 0, 0
    nodes = draft.walk.nodes
    for node, tag in [pair for pair in enumerate(nodes.tag) if pair[1] in WHOLE]:
        start, end = nodes.start[node], nodes.end[node]
        if start < done or end - start < 2:
            continue
        count += 1
        if count > MAX_WHOLES:
            return
        least = draft.bar
        if tag == "table":
            element, places = nodes.element[node], nodes.places[node]
            if data_rows(element) is None:
                continue  # it is layout
            titled = next(element.iter("th"), None) is not None
            if titled and places & _IN_MAIN and not is_chrome(places):
                least = LEAST_TABLE * draft.bar
        span = slice(start, end)
        weight = draft.made.words[span] + 1.0
        whole = bool((draft.chances[span] * weight).sum() >= least * weight.sum())
        draft.settle(range(start, end), whole, f"as the whole {tag}")
        done = end


def _gaps(draft: Draft) -> None:
    """Keep the few blocks between two kept ones of one element, if they may be content."""
    columns = draft.made.columns
    kept = np.flatnonzero(draft.keep)
    for number in np.flatnonzero(np.diff(kept) > 1):
        before, behind = int(kept[number]), int(kept[number + 1])
        gap = range(before + 1, behind)
        start, end = draft.holder(before)
        if (
            len(gap) <= MAX_GAP
            and start <= before
            and behind < end
            and draft.chances[gap].min() >= LEAST_IN_GAP * draft.bar
            and columns["link density"][gap].max() < 0.9
            and not columns["in nav"][gap].any()
        ):
            draft.settle(gap, True, "between content")


def _headings(draft: Draft) -> None:
    """Keep a heading whose text is kept."""
    columns = draft.made.columns
    dropped = (columns["in heading"] > 0) & (columns["in nav"] == 0) & ~draft.keep
    for number in np.flatnonzero(dropped[:-1])[::-1].tolist():
        start, end = draft.holder(number)
        if draft.keep[number + 1] and start <= number and number + 1 < end:
            draft.settle((number,), True, "the heading of content")


def _link_rows(draft: Draft) -> None:
    """Drop rows of short links and nothing else, unless the page is made of links."""
    if draft.made.columns["page density"][0] > LINK_PAGE:
        return
    blocks = draft.walk.blocks
    rows = [
        number
        for number in draft.kept()
        if blocks.links[number] >= LEAST_LINKS
        and blocks.linked[number] > 0.9 * blocks.words[number]
        and blocks.words[number] < SHORT_LINK * blocks.links[number]
    ]
    if len(rows) < draft.keep.sum():
        draft.settle(rows, False, "a row of links")


def _navigation(draft: Draft) -> None:
    """Drop navigation elements, unless much of what is kept stands in them."""
    places, words = draft.walk.blocks.places, draft.made.words
    inside = [number for number in draft.kept() if places[number] & _IN_NAV]
    if words[inside].sum() < NAVIGATION * words[draft.keep].sum():
        draft.settle(inside, False, "navigation")


def _offers(draft: Draft) -> None:
    """Drop lines that lead elsewhere, and small sections whose heading says so."""
    columns, words = draft.made.columns, draft.made.words
    headed, density = columns["in heading"] > 0, columns["link density"]
    is_line = (density >= MOSTLY) & (words >= LEAST_OFFER) & (words <= MAX_OFFER)
    for number in np.flatnonzero(draft.keep & (headed | is_line)).tolist():
        if _OFFER.match(draft.walk.blocks.text[number].strip()):
            start, end = number, number + 1
            if headed[number]:
                start, end = draft.holder(number)
            if start == number and words[start:end].sum() <= OFFERS * words.sum():
                draft.settle(range(start, end), False, "a section of offers")


def _forms(draft: Draft) -> None:
    """Drop the few words around the field for an address to send news to."""
    nodes = draft.walk.nodes
    shapes = set(nodes.shape)  # few of all
    lower = " ".join(shapes).lower()
    if not [part for part in _NEWS_PARTS if part in lower]:
        return
    named = {shape for shape in shapes if _NEWS.search(shape.partition(".")[2])}
    for number, shape in enumerate(nodes.shape) if named else ():
        start, end = nodes.start[number], nodes.end[number]
        if (
            shape in named
            and draft.keep[start:end].any()
            and draft.made.words[start:end].sum() <= MAX_FORM
            and next(nodes.element[number].iter("input"), None) is not None
        ):
            draft.settle(range(start, end), False, "a form for news")


def _lone_headings(draft: Draft) -> None:
    """Drop a heading when all else in its section is dropped, unless it is a link.

    Those are the titles of cards, which lists are made of.
    """
    columns = draft.made.columns
    headed = (columns["in heading"] > 0) & (columns["link density"] < MOSTLY)
    if draft.keep.sum() < 2:
        return
    for number in np.flatnonzero(draft.keep & headed).tolist():
        start, end = draft.holder(number)
        if start == number and end - start > 1 and draft.keep[start:end].sum() == 1:
            draft.settle((number,), False, "a heading without text")


def _title(draft: Draft) -> None:
    """Keep the h1 outside of chrome that is the title: readers want it.

    Of several, it is one that shares words with what the page declares as its title.
    """
    nodes, texts = draft.walk.nodes, draft.walk.blocks.text
    headings = [
        (nodes.start[n], nodes.end[n], nodes.places[n])
        for n, tag in enumerate(nodes.tag)
        if tag == "h1" and nodes.end[n] > nodes.start[n]
    ][:MAX_HEADINGS]
    if len(headings) > 1 and draft.titles:
        headings = [
            (start, end, places)
            for start, end, places in headings
            if any(
                shared_words(" ".join(texts[start:end]), title) >= LEAST_SHARED
                for title in draft.titles
            )
        ]
    for start, end, places in headings[:1]:
        words = sum(draft.walk.blocks.words[start:end])
        if words <= MAX_TITLE and not is_chrome(places):
            draft.settle(range(start, end), True, "the title")


def _consent(draft: Draft) -> None:
    """Drop the text of a consent dialog, unless it is all there is."""
    places = draft.walk.blocks.places
    asked = [n for n in draft.kept() if places[n] & IN_CONSENT]
    if len(asked) < draft.keep.sum():
        draft.settle(asked, False, "a consent dialog")
