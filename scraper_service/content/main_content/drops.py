"""The rules that drop what the model kept: what leads elsewhere, asks or comments."""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from scraper_service.content.main_content.blocks import IN_CONSENT, PLACES
from scraper_service.content.main_content.drafts import is_chrome
from scraper_service.content.main_content.tables import MAX_NAMES

if TYPE_CHECKING:
    from scraper_service.content.main_content.blocks import Walk
    from scraper_service.content.main_content.drafts import Draft
    from scraper_service.content.main_content.feature_table import Table

NAVIGATION = 0.5  # share of the words kept, from which navigation is the content
FEW_WORDS = 300  # of a page
OFFERS = 0.3  # share of the words of a page, up to which a section may go
LINK_PAGE = 0.5  # share of the words of a page that are links
LEAST_LINKS = 3
SHORT_LINK = 5  # words
ONLY_LINKS = 0.9  # share of the words of a block, in links
MOSTLY = 0.5  # of the words of a block, in links
LEAST_OFFER, MAX_OFFER = 3, 30  # words of a line that leads elsewhere
MAX_FORM = 60  # words
MAX_BUTTON = 3  # words
MAX_IN_HEADING = 4  # elements around a text in a heading
LEAST_TEXT = 40  # words of sentences that are no comments
_IN_NAV, _IN_BUTTON = (1 << PLACES.index(name) for name in ("nav", "button"))
_OFFER = re.compile(
    r"(?:related|read also|read more|read next|more from|more stories|you (?:may|might) also|"
    r"recommended|also read|trending|most (?:read|popular)|share this|who is online|"
    r"leave a (?:reply|comment)|(?:jump|skip) to)\b",
    re.IGNORECASE,
)

_UNFOLDING = frozenset({"aria-expanded", "aria-controls", "data-bs-toggle"})
_NEWS_PARTS = ("newsletter", "subscribe", "signup", "sign-up")
_NEWS = re.compile("newsletter|subscribe|sign-?up", re.IGNORECASE)
_COMMENT_PARTS = ("comment", "disqus", "respond", "replies")  # of all such names
_COMMENTS = re.compile(
    r"(?:(?:post|article|entry|user|reader|page|wp|blog|view|all|fb)[-_]*)?"
    r"(?:comments?|disqus|respond|replies)(?:[-_]*(?:list|area|section|container|"
    r"wrap|wrapper|block|thread|box|body|content|holder|main|respond|form|feed|tree|"
    r"widget|comments))*[-_]*\d*",
    re.IGNORECASE,
)


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


def drop_plain(draft: Draft) -> None:
    """Apply the rules that hold on pages of a few words, too."""
    _link_rows(draft)
    _buttons(draft)


def drop_extras(draft: Draft) -> None:
    """Apply the rules of this module but :func:`drop_consent`, which is the last."""
    drop_plain(draft)
    _navigation(draft)
    _offers(draft)
    _link_sections(draft)
    _forms(draft)
    _lone_headings(draft)


def _link_rows(draft: Draft) -> None:
    """Drop rows of short links and nothing else, unless the page is made of links."""
    if draft.made.columns["page density"][0] > LINK_PAGE:
        return
    blocks = draft.walk.blocks
    rows = [
        number
        for number in draft.kept()
        if blocks.links[number] >= LEAST_LINKS
        and blocks.linked[number] > ONLY_LINKS * blocks.words[number]
        and blocks.words[number] < SHORT_LINK * blocks.links[number]
    ]
    if len(rows) < draft.keep.sum():
        draft.settle(rows, False, "a row of links")


def _navigation(draft: Draft) -> None:
    """Drop navigation elements, unless much of what is kept stands in them.

    On pages of few words, of which the model knows little, all that says it is chrome.
    """
    places, words = draft.walk.blocks.places, draft.made.words
    is_small = words.sum() < FEW_WORDS
    inside = [
        number
        for number in draft.kept()
        if places[number] & _IN_NAV or (is_small and is_chrome(places[number]))
    ]
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
            if (
                start == number
                and words[start:end].sum() <= OFFERS * words.sum()
                and not (headed[number] and draft.is_sure(start, end))
            ):
                draft.settle(range(start, end), False, "a section of offers")


def _link_sections(draft: Draft) -> None:
    """Drop a heading with links below it that are unlikely as a whole.

    One that holds much of the page stays: it is the list that the page is for.
    """
    columns, words = draft.made.columns, draft.made.words
    density = columns["link density"]
    for number in np.flatnonzero(draft.keep & (columns["in heading"] > 0)).tolist():
        start, end = draft.holder(number)
        if start != number or end - start < LEAST_LINKS:
            continue
        below = slice(start + 1, end)
        is_much = words[start:end].sum() > OFFERS * words.sum()
        if is_much or density[below].min() < ONLY_LINKS:
            continue
        weight = words[start:end] + 1.0
        likely = (draft.chances[start:end] * weight).sum()
        if likely < draft.bar * weight.sum():
            draft.settle(range(start, end), False, "a section of links")


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


def _buttons(draft: Draft) -> None:
    """Drop what buttons say, but not the headings of what they unfold."""
    blocks, nodes = draft.walk.blocks, draft.walk.nodes
    found = []
    for number in draft.kept():
        if not blocks.places[number] & _IN_BUTTON or blocks.words[number] > MAX_BUTTON:
            continue
        node = blocks.node[number]
        while node > 0 and nodes.tag[node] != "button":
            node = nodes.parent[node]
        if node > 0 and _UNFOLDING.isdisjoint(nodes.element[node].attrib):
            found.append(number)
    if len(found) < draft.keep.sum():
        draft.settle(found, False, "a button")


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


def drop_empty_headings(draft: Draft) -> None:
    """Drop a heading when all below it is dropped, up to the next one or the end.

    Not the title of the page, and no heading that is a link.
    """
    columns = draft.made.columns
    headed = (columns["in heading"] > 0) & (columns["link density"] < MOSTLY)
    kept = draft.kept()
    found = []
    for number, behind in itertools.pairwise(kept):
        if headed[number] and behind - number > 1 and columns["in heading"][behind]:
            level, following = _level(draft, number), _level(draft, behind)
            if level > 1 and 0 < following <= level:
                found.append(number)
    if len(kept) > LEAST_LINKS and headed[kept[-1]] and not headed[kept[-2]]:
        number = kept[-1]
        around = draft.made.parent[draft.made.parent[draft.made.node[number]]]
        if _level(draft, number) > 1 and draft.made.end[around] > number + 1 and around:
            found.append(number)
    draft.settle(found, False, "a heading without text")


def _level(draft: Draft, number: int) -> int:
    """Return the level of the heading around a block, 0 outside of any."""
    nodes = draft.walk.nodes
    node = draft.walk.blocks.node[number]
    for _ in range(MAX_IN_HEADING):
        tag = nodes.tag[node]
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            return int(tag[1])
        node = max(nodes.parent[node], 0)
    return 0


def drop_consent(draft: Draft) -> None:
    """Drop the text of a consent dialog, unless it is all there is."""
    places = draft.walk.blocks.places
    asked = [n for n in draft.kept() if places[n] & IN_CONSENT]
    if len(asked) < draft.keep.sum():
        draft.settle(asked, False, "a consent dialog")
