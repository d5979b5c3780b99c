"""Drops the articles of other pages that a script appended to an article.

Sites with infinite scroll show the next article below the one that was requested, with a
heading and a URL of its own. List pages, live blogs and forums keep all their articles.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.cleaning import (
    ARTICLE_URLS,
    ARTICLES,
    special_elements,
)
from scraper_service.content.html.document import drop
from scraper_service.content.page_urls import absolute
from scraper_service.content.passes import elements
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document
    from scraper_service.content.main_content.kinds import PageDeclarations

MAX_HEADINGS = 200
MAX_NAMES = 500  # characters of class names
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
    """Drop each article behind the first one that has a heading and another page's URL.

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
    names = (element.get("class") or "")[:MAX_NAMES].lower()
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
