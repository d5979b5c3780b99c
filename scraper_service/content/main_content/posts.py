"""Posts: keep the author and date of each post, and separate posts by rules."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from lxml import etree

from scraper_service.content.characters import AnyCase
from scraper_service.content.main_content.blocks import MAX_NAMES, PLACES
from scraper_service.content.main_content.model import is_chrome
from scraper_service.content.metadata.marks import DATED_TAGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scraper_service.content.main_content.model import Draft

LEAST_POST = 10  # minimum kept words of a post, counted in blocks of LEAST_BLOCK
LEAST_BLOCK = 5  # words
MOST_OF_PAGE = 0.6  # maximum share of the kept words in a post
MAX_BYLINE = 6  # words of a byline; longer ones are added only if there are no others
MAX_NAMED = 16  # words of a block that may name an author or a date
MAX_NEAR = 3  # elements around a block whose names are examined
MAX_INSIDE = 20  # elements inside a block that are examined
_ITEMS = frozenset({"li", "tr", "td", "dd", "dt"})  # already separate in the Markdown
_AUTHOR = AnyCase(
    r"(?:^|[\s_-])(?:user|poster|nick(?:name)?|handle|by)(?=$|[\s_-])|author|user-?name|byline",
)
_PROFILE = re.compile(
    r"/(?:u|users?|members?|memberlist|profile|people|authors?)[/.?]|[?&]u(?:ser)?=(?!http)",
    re.IGNORECASE,
)
_DATE = AnyCase(
    r"\b(?:19|20)\d\d\b|\b\d+\s*(?:[smhdwy]|mo|min\w*|hours?|days?|weeks?|months?|years?)\b"
    r"|\bago\b|\b\d{1,2}:\d\d",
)
_IN_QUOTATION = 1 << PLACES.index("blockquote")
_ATTRIBUTION = re.compile("[:\uff1a]\\W*\\Z")
_DATED = AnyCase(r"date|time|posted|publish|created")


def add_bylines(draft: Draft) -> list[Any]:
    """Keep the author and date of each post; return the elements of the posts.

    A post is an element with text and a byline whose siblings also have both.
    """
    nodes, blocks = draft.walk.nodes, draft.walk.blocks
    start, end = draft.made.start, draft.made.end
    _attribute(draft)
    kinds = _kinds(draft)
    if not kinds:
        return []
    words = np.where(draft.made.words >= LEAST_BLOCK, draft.made.words, 0) * draft.keep
    own = _sums(words, start, end)
    total = own[0]
    signed = np.zeros(len(blocks))
    signed[list(kinds)] = 1
    places = list(zip(nodes.parent, nodes.tag, strict=True))
    full = np.flatnonzero((own > 0) & (_sums(signed, start, end) > 0)).tolist()
    beside = Counter(places[node] for node in full)
    authors: dict[int, list[int]] = {}
    dates: dict[int, list[int]] = {}
    for number, (is_author, is_date) in kinds.items():
        node = blocks.node[number]
        while node > 0 and not (own[node] and beside[places[node]] > 1):
            node = nodes.parent[node]
        if node > 0:
            if is_author:
                authors.setdefault(node, []).append(number)
            if is_date:
                dates.setdefault(node, []).append(number)
    posts = {
        node
        for node in (*authors, *dates)
        if LEAST_POST <= own[node] <= MOST_OF_PAGE * total
    }
    lists = {places[node] for node in posts}
    # Longer and shorter siblings are posts too if they have an author and a date.
    posts |= {n for n in authors.keys() & dates.keys() if places[n] in lists}
    for found in (authors, dates):
        for node in posts & found.keys():
            numbers = found[node]
            if draft.keep[numbers].any():
                continue
            if found is authors:  # a name such as "user-date" may mark a date alone
                numbers = [n for n in numbers if not kinds[n][1]] or numbers
            short = [n for n in numbers if blocks.words[n] <= MAX_BYLINE] or numbers
            draft.set_keep(short[:1], True, "a byline")
    return [draft.walk.elements[node] for node in full if places[node] in lists]


def _attribute(draft: Draft) -> None:
    """Keep the few words before a quotation that name its author."""
    blocks, keep = draft.walk.blocks, draft.keep
    numbers = [
        number
        for number in np.flatnonzero(~keep[:-1] & keep[1:]).tolist()
        if blocks.words[number] <= MAX_BYLINE
        and blocks.places[number + 1] & _IN_QUOTATION
        and _ATTRIBUTION.search(blocks.text[number])
    ]
    draft.set_keep(numbers, True, "who is quoted")


def _sums(values: Any, start: Any, end: Any) -> Any:
    """Return per node the sum of the values of its blocks."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return sums[end] - sums[start]


def _kinds(draft: Draft) -> dict[int, tuple[bool, bool]]:
    """Return for short blocks with an author or a date: (is author, is date)."""
    blocks, known = draft.walk.blocks, set(draft.walk.elements)
    found = {}
    for number, count in enumerate(blocks.words):
        if count <= MAX_NAMED and not is_chrome(blocks.places[number]):
            kind = _kind(draft, number, known)
            if any(kind):
                found[number] = kind
    return found


def _kind(draft: Draft, number: int, known: set[Any]) -> tuple[bool, bool]:
    """Return whether a short block names an author, and whether it names a date."""
    text = draft.walk.blocks.text[number].strip()
    if len(text) < 2:  # a letter in place of an avatar
        return False, False
    is_author = is_date = False
    for element in _near(draft, number, known):
        attributes = element.attrib
        if element.tag in DATED_TAGS:
            is_date = True
        elif element.tag == "a" and _PROFILE.search(attributes.get("href", "")):
            is_author = True
        names = " ".join(
            attributes[name]
            for name in ("class", "itemprop", "rel")
            if name in attributes
        )[:MAX_NAMES]
        if names:
            is_named, may_be_dated = _signs(names)
            is_author = is_author or is_named
            is_date = is_date or (may_be_dated and _DATE.is_in(text))
    return is_author, is_date


@lru_cache(maxsize=4096)
def _signs(names: str) -> tuple[bool, bool]:
    """Return whether names are those of an author, and whether they may be of a date."""
    is_named = _AUTHOR.is_in(names)
    return is_named, is_named or _DATED.is_in(names)


def _near(draft: Draft, number: int, known: set[Any]) -> Iterator[Any]:
    """Yield the elements that contain little but this block, and the elements inside."""
    nodes = draft.walk.nodes
    node = first = draft.walk.blocks.node[number]
    for _ in range(MAX_NEAR):
        if node == 0 or nodes.end[node] - nodes.start[node] > MAX_NEAR:
            break
        yield draft.walk.elements[node]
        node = nodes.parent[node]
    waiting = [child for child in draft.walk.elements[first] if child not in known]
    for _ in range(MAX_INSIDE):
        if not waiting:
            return
        element = waiting.pop()
        if isinstance(element.tag, str):
            yield element
            waiting += [child for child in element if child not in known]


def separate_posts(posts: Iterable[Any]) -> None:
    """Insert an ``<hr>`` between the posts that are still in the tree."""
    seen: set[Any] = set()
    for post in posts:
        above = post.getparent()
        if above is None or post.tag in _ITEMS:
            continue
        if above in seen:
            post.addprevious(etree.Element("hr"))
        seen.add(above)
