"""Notes on pages for a question: the sentences that share words with the question.

A language model writes its report from these notes. Runs in the converter pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from scraper_service.content.text.search_terms import (
    COMMON,
    language_code,
    stems,
    tokens_of,
)
from scraper_service.content.text.sentences import sentences
from scraper_service.content.text.stored_pages import StoredPage, read_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

SHORTEST, LONGEST = 40, 400  # characters of a sentence
SHORTEST_WIDE = 15  # outside ASCII: some scripts need fewer characters
KEPT = 60  # sentences of one page


@frozen(kw_only=True)
class Note:
    """What a report needs of one page."""

    url: str
    title: str
    description: str
    icon: str | None = None
    #: Sentences in page order.
    said: tuple[str, ...] = field(default=(), repr=False)


def notes(bodies: Sequence[bytes], query: str) -> list[Note | None]:
    """Return notes on the pages of these JSON objects; None for pages without text."""
    return [
        None if page.error or not page.markdown else _note(page, query)
        for page in read_pages(bodies)
    ]


def _note(page: StoredPage, query: str) -> Note:
    language = language_code(page.language) or "en"
    wanted = _words(query, language)
    said = [each.text for each in sentences(page.markdown or "")]
    said = [text for text in said if _may_stand(text)]
    shared = [len(_words(text, language) & wanted) for text in said]
    order = sorted(range(len(said)), key=lambda n: (-shared[n], n))
    return Note(
        url=page.url,
        title=page.title or page.url,
        description=page.description or "",
        icon=page.icon,
        said=tuple(said[n] for n in sorted(order[:KEPT])),
    )


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


def excerpts(pages: Sequence[Note], limit: int) -> str:
    """Return the sentences as a numbered part per page, within ``limit`` characters."""
    if not pages:
        return ""
    room = limit // len(pages)
    parts = []
    for number, page in enumerate(pages, 1):
        text = f"[{number}] {page.title} ({page.url})\n"
        for said in page.said:
            if len(text) + len(said) + 1 > room:
                break
            text += said + "\n"
        parts.append(text)
    return "\n".join(parts)


def source_list(pages: Sequence[Note]) -> str:
    """Return the numbered list of the pages."""
    rows = [f"{n}. [{page.title}]({page.url})" for n, page in enumerate(pages, 1)]
    return "\n".join(["## Sources", "", *rows])
