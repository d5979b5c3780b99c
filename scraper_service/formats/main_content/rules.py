"""The few rules that correct the model: what readers expect of any page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define

from scraper_service.formats.main_content.blocks import IN_CONSENT, PLACES, Walk
from scraper_service.formats.main_content.features import Table
from scraper_service.formats.tables import data_rows

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
    r"(?:related|read more|read next|more from|more stories|you (?:may|might) also|"
    r"recommended|also read|trending|most (?:read|popular)|share this|who is online|"
    r"leave a (?:reply|comment))\b",
    re.IGNORECASE,
)


@define
class Draft:
    """A verdict on its way: ``keep`` by block, and the ``rules`` that decided."""

    walk: Walk
    made: Table
    chances: Any
    bar: float
    keep: Any
    rules: dict[int, str]

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


def correct(draft: Draft) -> None:
    """Apply all rules; at least one block stays kept."""
    before = draft.keep.copy()
    _wholes(draft)
    _gaps(draft)
    _headings(draft)
    _link_rows(draft)
    _navigation(draft)
    _offers(draft)
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
    for node, tag in enumerate(nodes.tag):
        if tag not in WHOLE:
            continue
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
    """Drop small sections whose heading says that they lead elsewhere."""
    words, headed = draft.made.words, draft.made.columns["in heading"] > 0
    for number in np.flatnonzero(draft.keep & headed).tolist():
        if _OFFER.match(draft.walk.blocks.text[number].strip()):
            start, end = draft.holder(number)
            if start == number and words[start:end].sum() <= OFFERS * words.sum():
                draft.settle(range(start, end), False, "a section of offers")


def _lone_headings(draft: Draft) -> None:
    """Drop a heading when all else in its section is dropped."""
    headed = draft.made.columns["in heading"] > 0
    if draft.keep.sum() < 2:
        return
    for number in np.flatnonzero(draft.keep & headed).tolist():
        start, end = draft.holder(number)
        if start == number and end - start > 1 and draft.keep[start:end].sum() == 1:
            draft.settle((number,), False, "a heading without text")


def _title(draft: Draft) -> None:
    """Keep the first h1 outside of chrome: readers want it, whatever was learned."""
    nodes = draft.walk.nodes
    for node, tag in enumerate(nodes.tag):
        if tag == "h1" and nodes.end[node] > nodes.start[node]:
            span = range(nodes.start[node], nodes.end[node])
            words = sum(draft.walk.blocks.words[span.start : span.stop])
            if words <= MAX_TITLE and not is_chrome(nodes.places[node]):
                draft.settle(span, True, "the title")
            return


def _consent(draft: Draft) -> None:
    """Drop the text of a consent dialog, unless it is all there is."""
    places = draft.walk.blocks.places
    asked = [n for n in draft.kept() if places[n] & IN_CONSENT]
    if len(asked) < draft.keep.sum():
        draft.settle(asked, False, "a consent dialog")
