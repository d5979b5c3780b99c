"""Drops the articles of other pages, and kept blocks that are no content.

Sites with infinite scroll show the next article below the one that was requested, with a
heading and a URL of its own. List pages, live blogs and forums keep all their articles.
Rules drop navigation, offers, forms, buttons, comments and consent.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from scraper_service.content.html.cleaning import (
    ARTICLE_URLS,
    ARTICLES,
    special_elements,
)
from scraper_service.content.html.document import drop
from scraper_service.content.main_content.blocks import AROUND, IN_CONSENT, MAX_NAMES
from scraper_service.content.main_content.model import is_chrome
from scraper_service.content.page_urls import absolute
from scraper_service.content.passes import elements
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.html.document import Document
    from scraper_service.content.main_content.blocks import Walk
    from scraper_service.content.main_content.model import (
        Draft,
        PageDeclarations,
        Table,
    )

MAX_HEADINGS = 200
MAX_CLASS = 500  # characters of class names
MAX_NEXT = 5  # next articles; more are a list
LEAST_WORDS = 15  # of a next article; fewer are a card
# Types of schema.org whose pages have several posts.
_LISTS = frozenset(
    f"data:{name}"
    for name in (
        *("LiveBlogPosting", "DiscussionForumPosting", "QAPage", "CollectionPage"),
        *("Blog", "SearchResultsPage", "ProfilePage"),
    )
)


def drop_next_articles(document: Document, page: PageDeclarations) -> None:
    """Drop each article after the first one that has a heading and another page's URL.

    Articles whose URL is below the page's URL, such as its second page, stay. So do all
    articles if the first one has another page's URL, or if the ``h1`` stands outside of it.
    """
    is_declared = "og:article" in page.signs or any(
        sign.startswith("data:") and sign.endswith(("Article", "BlogPosting"))
        for sign in page.signs
    )
    if (document.is_home and not is_declared) or not _LISTS.isdisjoint(page.signs):
        return
    titles = list(islice(elements(document.body, "h1", "h2"), MAX_HEADINGS))
    heading = next((each for each in titles if each.tag == "h1"), None)
    if len(titles) < 2 or (heading is None and not is_declared):
        return
    articles = _articles(document, titles)
    if len(articles) < 2:
        return
    first, *others = articles
    if heading is not None and not _is_inside(heading, first):
        return
    known = _page_urls(document)
    if url := _other_url(first, document.base, known):
        if not is_declared or heading is None:
            return
        known.add(_key(url))  # the page has another URL than its article declares
    foreign = [
        each
        for each in others
        if _other_url(each, document.base, known)
        and len(" ".join(each.itertext()).split()) >= LEAST_WORDS
    ]
    if len(foreign) > MAX_NEXT:
        return
    for article in foreign:
        drop(article)


def _articles(document: Document, headings: list[Any]) -> list[Any]:
    """Return the outermost article around each heading, in document order.

    Other elements with a URL count as articles if they have an ``h1`` or the class of one,
    and are not around several articles.
    """
    possible = special_elements(document)[ARTICLES]
    if len(possible) < 2:
        return []
    known = set(possible)
    chains = [_chain(heading, known) for heading in headings]
    inside: dict[Any, set[Any]] = {}
    titled: set[Any] = set()
    for heading, chain in zip(headings, chains, strict=True):
        for outer in chain[:-1]:
            inside.setdefault(outer, set()).add(chain[-1])
        if heading.tag == "h1":
            titled.update(chain)
    found = []
    for chain in chains:
        for each in chain:
            is_alone = len(inside.get(each, ())) < 2
            if _is_article(each) or (is_alone and (each in titled or _is_named(each))):
                found.append(each)
                break
    return list(dict.fromkeys(found))


def _chain(heading: Any, known: set[Any]) -> list[Any]:
    """Return the elements around a heading that are in ``known``, the outermost first."""
    around = (heading, *heading.iterancestors())
    return [each for each in around if each in known][::-1]


def _is_article(element: Any) -> bool:
    return bool(element.tag == "article" or element.get("role") == "article")


def _is_named(element: Any) -> bool:
    names = (element.get("class") or "")[:MAX_CLASS].lower()
    return any(name in names for name in ("article", "post", "story", "entry"))


def _is_inside(element: Any, outer: Any) -> bool:
    return any(above is outer for above in element.iterancestors())


def _page_urls(document: Document) -> set[tuple[str, str, str]]:
    """Return the URL of the page, and those that it declares as its own."""
    parts = document.parts
    urls = [document.base]
    urls += [
        link.get("href", "")
        for link in parts.links
        if "canonical" in link.get("rel", "").lower().split()
    ]
    urls += [
        meta.get("content", "")
        for meta in parts.metas
        if meta.get("property") == "og:url"
    ]
    return {_key(full) for url in urls if (full := absolute(document.base, url))}


def _key(url: str) -> tuple[str, str, str]:
    """Return host, path and query of a URL, without differences of spelling."""
    parts = url_parts(url)
    path = parts.path.rstrip("/").removesuffix("/amp")
    return parts.netloc.lower().removeprefix("www."), path, parts.query


def _other_url(article: Any, base: str, known: set[tuple[str, str, str]]) -> str | None:
    """Return the URL of an article, unless it is one of the page."""
    given = [value for name, value in article.items() if name in ARTICLE_URLS and value]
    if not given:
        host = url_parts(base).netloc
        links = [
            link.get("href")
            for heading in islice(article.iter("h1", "h2"), 1)
            for link in (*heading.iter("a"), *heading.iterancestors("a"))
            if link.get("href") and 2 * _length(link) > _length(heading)
        ]
        # A link to another site is the source of a text, not its URL.
        given = [href for href in links[:1] if url_parts(href).netloc in {"", host}]
    for value in given:
        url = absolute(base, value.strip()) if "/" in value or "?" in value else None
        if url and url.startswith(("http:", "https:")):
            is_own = any(_is_part(_key(url), own) for own in known)
            return None if is_own else url
    return None


def _length(element: Any) -> int:
    return sum(map(len, element.itertext()))


def _is_part(key: tuple[str, str, str], own: tuple[str, str, str]) -> bool:
    """Return True for a URL of the page, or of one of its further pages."""
    if key[0] != own[0]:
        return False
    if not own[1]:
        return not key[1] and key[2] == own[2]
    return f"{key[1]}/".startswith(f"{own[1]}/")


# -- blocks that are no content --------------------------------------------------------

NAVIGATION = 0.5  # share of the kept words from which navigation counts as content
FEW_WORDS = 300  # a page with fewer words is small
OFFERS = 0.3  # maximum share of the page's words in a section that is dropped
LINK_PAGE = 0.5  # share of linked words above which the page consists of links
LEAST_LINKS = 3
SHORT_LINK = 5  # words
ONLY_LINKS = 0.9  # minimum share of linked words in a row of links
MOSTLY = 0.5  # minimum share of linked words in a line of links
LEAST_OFFER, MAX_OFFER = 3, 30  # words of a line with a link to other pages
MAX_FORM = 60  # words
MAX_BUTTON = 3  # words
MAX_IN_HEADING = 4  # elements between a text and its heading
LEAST_TEXT = 40  # minimum words of prose outside the comments
_IN_NAV, _IN_BUTTON, _IN_ASIDE = (
    1 << AROUND.index(name) for name in ("nav", "button", "aside")
)
_IN_MAIN = sum(1 << AROUND.index(name) for name in ("main", "article"))
_OFFER = re.compile(
    r"(?:related|read also|read more|read next|more from|more stories|you (?:may|might) also|"
    r"recommended|also read|trending|most (?:read|popular)|share this|who is online|"
    r"leave a (?:reply|comment)|(?:jump|skip) to)\b",
    re.IGNORECASE,
)

_UNFOLDING = frozenset({"aria-expanded", "aria-controls", "data-bs-toggle"})
_NEWS_PARTS = ("newsletter", "subscribe", "signup", "sign-up")
_COMMENT_PARTS = ("comment", "disqus", "respond", "replies")  # each match has a part
_COMMENTS = re.compile(
    r"(?:(?:post|article|entry|user|reader|page|wp|blog|view|all|fb)[-_]*)?"
    r"(?:comments?|disqus|respond|replies)(?:[-_]*(?:list|area|section|container|"
    r"wrap|wrapper|block|thread|box|body|content|holder|main|respond|form|feed|tree|"
    r"widget|comments))*[-_]*\d*",
    re.IGNORECASE,
)


def article_comments(walk: Walk, made: Table) -> Any:
    """Return per block True if its elements are named as comments on the article.

    If hardly any prose stands elsewhere, no block counts: the "comments" may be the article.
    """
    nodes = walk.nodes
    found = np.zeros(len(walk.blocks), dtype=bool)
    if not _has_part(walk, _COMMENT_PARTS):
        return found
    title = nodes.start[walk.titles[0]] if walk.titles else -1
    named = {shape for shape in walk.shapes if _is_comments(shape.partition(".")[2])}
    for number, (shape, own) in enumerate(zip(nodes.shape, nodes.own, strict=True)):
        if shape in named or (own and _is_comments(own)):
            start, end = nodes.start[number], nodes.end[number]
            found[start:end] |= not start <= title < end
    if (made.words * made.columns["sentence"] * ~found).sum() < LEAST_TEXT:
        found[:] = False
    return found


def _has_part(walk: Walk, parts: Iterable[str]) -> bool:
    """Return True if the class or id of a node has one of the parts."""
    names = walk.lower_names
    return any(part in names for part in parts)


@lru_cache(maxsize=10_000)
def _is_comments(names: str) -> bool:
    lower = names.lower()
    if not [part for part in _COMMENT_PARTS if part in lower]:
        return False
    return any(map(_COMMENTS.fullmatch, names[:MAX_NAMES].split()))


def drop_plain(draft: Draft) -> None:
    """Apply the rules that suit pages of a few words, too."""
    _link_rows(draft)
    _buttons(draft)


def drop_extras(draft: Draft) -> None:
    """Apply :func:`drop_plain` and the rules for navigation, offers, forms and headings."""
    drop_plain(draft)
    _navigation(draft)
    _offers(draft)
    _link_sections(draft)
    _forms(draft)
    _lone_headings(draft)


def _link_rows(draft: Draft) -> None:
    """Drop blocks of only short links, unless the page consists of links."""
    if draft.made.columns["page density"][0] > LINK_PAGE:
        return
    blocks = draft.walk.blocks
    rows = [
        number
        for number in draft.kept_blocks()
        if blocks.links[number] >= LEAST_LINKS
        and blocks.linked[number] > ONLY_LINKS * blocks.words[number]
        and blocks.words[number] < SHORT_LINK * blocks.links[number]
    ]
    if len(rows) < draft.keep.sum():
        draft.set_keep(rows, False, "a row of links")


def _navigation(draft: Draft) -> None:
    """Drop navigation elements, unless they contain much of the kept text.

    On small pages, where the model is weak, drop the blocks of all chrome elements. An
    aside of the main content without links is a note.
    """
    bits, words = draft.walk.blocks.places, draft.made.words
    linked = draft.walk.blocks.linked
    is_small = words.sum() < FEW_WORDS
    inside = [
        number
        for number in draft.kept_blocks()
        if bits[number] & _IN_NAV
        or (is_small and is_chrome(_without_note(bits[number], linked[number])))
    ]
    if words[inside].sum() < NAVIGATION * words[draft.keep].sum():
        draft.set_keep(inside, False, "navigation")


def _without_note(bits: int, linked: int) -> int:
    """Return the bits without that of an aside if the block is a note."""
    return bits & ~_IN_ASIDE if bits & _IN_MAIN and not linked else bits


def _offers(draft: Draft) -> None:
    """Drop linked lines and small sections that start like "Related" or "Read more"."""
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
                draft.set_keep(range(start, end), False, "a section of offers")


def _link_sections(draft: Draft) -> None:
    """Drop a heading and the links below it if their mean chance is below the bar.

    A section with much of the page's text stays: it is the content of a list page.
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
            draft.set_keep(range(start, end), False, "a section of links")


def _forms(draft: Draft) -> None:
    """Drop the few words around the email field of a newsletter form."""
    nodes = draft.walk.nodes
    if not _has_part(draft.walk, _NEWS_PARTS):
        return
    shapes = draft.walk.shapes
    named = {shape for shape in shapes if _is_for_news(shape)}
    for number, shape in enumerate(nodes.shape) if named else ():
        start, end = nodes.start[number], nodes.end[number]
        if (
            shape in named
            and draft.keep[start:end].any()
            and draft.made.words[start:end].sum() <= MAX_FORM
            and next(draft.walk.elements[number].iter("input"), None) is not None
        ):
            draft.set_keep(range(start, end), False, "a form for news")


def _is_for_news(shape: str) -> bool:
    names = shape.partition(".")[2].lower()
    return bool(names) and any(part in names for part in _NEWS_PARTS)


def _buttons(draft: Draft) -> None:
    """Drop the texts of buttons, except buttons that unfold a section."""
    blocks, nodes = draft.walk.blocks, draft.walk.nodes
    found = []
    for number in draft.kept_blocks():
        if not blocks.places[number] & _IN_BUTTON or blocks.words[number] > MAX_BUTTON:
            continue
        node = blocks.node[number]
        while node > 0 and nodes.tag[node] != "button":
            node = nodes.parent[node]
        if node > 0 and _UNFOLDING.isdisjoint(draft.walk.elements[node].attrib):
            found.append(number)
    if len(found) < draft.keep.sum():
        draft.set_keep(found, False, "a button")


def _lone_headings(draft: Draft) -> None:
    """Drop a heading if everything else in its section is dropped.

    Linked headings stay: they are titles of cards.
    """
    columns = draft.made.columns
    headed = (columns["in heading"] > 0) & (columns["link density"] < MOSTLY)
    if draft.keep.sum() < 2:
        return
    for number in np.flatnonzero(draft.keep & headed).tolist():
        start, end = draft.holder(number)
        if start == number and end - start > 1 and draft.keep[start:end].sum() == 1:
            draft.set_keep((number,), False, "a heading without text")


def drop_empty_headings(draft: Draft) -> None:
    """Drop a heading if all text up to the next heading or the end is dropped.

    The title of the page and linked headings stay.
    """
    columns = draft.made.columns
    headed = (columns["in heading"] > 0) & (columns["link density"] < MOSTLY)
    kept = draft.kept_blocks()
    found = []
    for number, after in itertools.pairwise(kept):
        if headed[number] and after - number > 1 and columns["in heading"][after]:
            level, following = _level(draft, number), _level(draft, after)
            if level > 1 and 0 < following <= level:
                found.append(number)
    if len(kept) > LEAST_LINKS and headed[kept[-1]] and not headed[kept[-2]]:
        number = kept[-1]
        around = draft.made.parent[draft.made.parent[draft.made.node[number]]]
        if _level(draft, number) > 1 and draft.made.end[around] > number + 1 and around:
            found.append(number)
    draft.set_keep(found, False, "a heading without text")


def _level(draft: Draft, number: int) -> int:
    """Return the level of the heading around a block; 0 outside a heading."""
    nodes = draft.walk.nodes
    node = draft.walk.blocks.node[number]
    for _ in range(MAX_IN_HEADING):
        tag = nodes.tag[node]
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            return int(tag[1])
        node = max(nodes.parent[node], 0)
    return 0


def drop_consent(draft: Draft) -> None:
    """Drop the text of a consent dialog, unless nothing else is kept."""
    bits = draft.walk.blocks.places
    dialog = [n for n in draft.kept_blocks() if bits[n] & IN_CONSENT]
    if len(dialog) < draft.keep.sum():
        draft.set_keep(dialog, False, "a consent dialog")
