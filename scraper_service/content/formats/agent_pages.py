"""What an agent keeps of the pages that it has read. Runs in the converter pool.

A long page becomes notes: the sentences that share words with the question.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from scraper_service.content.page_urls import without_fragment
from scraper_service.content.stored_pages import StoredPage, read_pages
from scraper_service.content.words import (
    COMMON,
    SearchWords,
    language_code,
    sentences,
    stems,
    tokens_of,
)
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Sequence


SHORTEST, LONGEST = 40, 400  # characters of a sentence
SHORTEST_WIDE = 15  # outside ASCII: some scripts need fewer characters
KEPT = 60  # sentences of one page
WHOLE = 6000  # characters of a page that is kept as it is; longer ones become notes
MAX_LINKS = 200  # of one page
MAX_DATA = 4000  # characters of the data of a page in a prompt


def sentences_for(page: StoredPage, query: str) -> list[str]:
    """Return the sentences of a page that share most words with ``query``, in order."""
    language = language_code(page.language) or "en"
    wanted = _words(query, language)
    said = [each.text for each in sentences(page.markdown or "")]
    said = [text for text in said if _may_stand(text)]
    shared = [len(_words(text, language) & wanted) for text in said]
    order = sorted(range(len(said)), key=lambda n: (-shared[n], n))
    return [said[n] for n in sorted(order[:KEPT])]


def _words(text: str, language: str) -> frozenset[str]:
    """Return the stems of the words of a text, without common words."""
    told = [word for word in tokens_of(text) if word not in COMMON and len(word) > 1]
    return frozenset(stems(told, language))


def _may_stand(text: str) -> bool:
    """Return True if a text is a whole sentence of some length, mostly of letters."""
    shortest = SHORTEST if text.isascii() else SHORTEST_WIDE
    if not shortest <= len(text) <= LONGEST or text.endswith((":", "?", "...", "…")):
        return False
    letters = sum(c.isalpha() or c.isspace() for c in text)
    return letters >= 0.7 * len(text)


@frozen(kw_only=True)
class AgentPage:
    """A page of an agent."""

    #: The requested URL.
    url: str
    #: The URL after redirects.
    final_url: str
    title: str
    description: str
    icon: str | None
    scrape_id: str | None
    #: The price of the page without what the agent adds.
    credits: int
    #: Tokens that a language model used for the data of the page.
    tokens: int
    #: Why the page has no usable content; None otherwise.
    error: str | None = None
    #: For a prompt: the data, and the page or the sentences that share words with it.
    text: str = field(default="", repr=False)
    #: Data by the schema of the request; None without any.
    data: Any = field(default=None, repr=False)
    #: Links that may be read, those that fit the prompt first.
    links: tuple[str, ...] = field(default=(), repr=False)


def agent_pages(bodies: Sequence[bytes], prompt: str, words: str) -> list[AgentPage]:
    """Return what is kept of the pages of these JSON objects.

    ``words`` are the search words of the prompt.
    """
    search = SearchWords(words)
    found = []
    for body, page in zip(map(json.loads, bodies), read_pages(bodies), strict=True):
        facts = body["metadata"]
        text = page.markdown or ""
        if len(text) > WHOLE:
            said = "\n".join(sentences_for(page, prompt))
            text = (said or text)[:WHOLE]
        error = page.error
        if error is None and not text.strip() and page.data is None:
            error = "it has no text"
        if page.data is not None:
            data = json.dumps(page.data, ensure_ascii=False)[:MAX_DATA]
            text = f"Data: {data}\n{text}"
        found.append(
            AgentPage(
                url=page.url,
                final_url=facts.get("url") or page.url,
                title=page.title or page.url,
                description=page.description or "",
                icon=page.icon,
                scrape_id=facts.get("scrapeId"),
                credits=facts.get("creditsUsed") or 0,
                tokens=page.tokens or 0,
                error=error,
                text=text,
                data=page.data,
                links=_links(body.get("links") or (), search),
            )
        )
    return found


def _links(given: Sequence[Any], search: SearchWords) -> tuple[str, ...]:
    links = dict.fromkeys(
        without_fragment(link)
        for link in given
        if isinstance(link, str) and url_parts(link).scheme in {"http", "https"}
    )
    return tuple(sorted(links, key=lambda u: -search.score(u, None, None)))[:MAX_LINKS]


def pages_text(pages: Sequence[AgentPage], limit: int) -> str:
    """Return the pages as numbered parts within ``limit`` bytes in UTF-8."""
    if not pages:
        return ""
    room = limit // len(pages)
    parts = []
    for number, page in enumerate(pages, 1):
        text = f"[{number}] {page.title[:200]} ({page.url})\n{page.text}"
        parts.append(cut(text, room - 2))
    return "\n\n".join(parts)


def cut(text: str, limit: int) -> str:
    """Return the start of a text within ``limit`` bytes in UTF-8."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return text
    return encoded[: max(0, limit)].decode(errors="ignore")
