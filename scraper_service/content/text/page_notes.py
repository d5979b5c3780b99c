"""Notes on a page for a question: the sentences that share words with the question.

A language model gets them in place of a long page. Runs in the converter pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.content.text.search_terms import (
    COMMON,
    language_code,
    stems,
    tokens_of,
)
from scraper_service.content.text.sentences import sentences

if TYPE_CHECKING:
    from scraper_service.content.text.stored_pages import StoredPage

SHORTEST, LONGEST = 40, 400  # characters of a sentence
SHORTEST_WIDE = 15  # outside ASCII: some scripts need fewer characters
KEPT = 60  # sentences of one page


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
