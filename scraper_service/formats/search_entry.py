"""What the index of scraped pages keeps of a page; made where the page is converted."""

from __future__ import annotations

import heapq
import json
import struct
import zlib
from collections import Counter
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from attrs import frozen

from scraper_service.formats.search_text import (
    folded,
    language_code,
    stem,
    stems,
    tokens_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_TEXT = 20_000  # characters of a page
MAX_TITLE = 300
USUAL_LANGUAGE = "en"
REMEMBERED = 40_000  # words, in a process; most pages have few that are new
MAX_DESCRIPTION = 600
MAX_TERMS = 4000  # of a page, the most telling ones
# How much a word counts where it stands, once in the text being 1.
IN_TITLE, IN_URL, IN_DESCRIPTION = 6.0, 2.0, 1.0
# BM25 (Robertson and Zaragoza, 2009); the usual length is that of pages, in words, and
# no average, so that what was written once stays true.
K1, B, USUAL_LENGTH = 1.2, 0.75, 400
FULL = 255  # the impact of a word that could not stand in a page more often

_GOOD = frozenset({None, "ok", "truncated"})  # verdicts of pages that are worth finding
_HEAD = struct.Struct("<3I")

# Of the language's words, stems of words, words of titles and addresses, facts.
WORD, STEM, TITLE, URL, SITE, FILE, KIND = "w", "s", "t", "u", "h", "f", "k"
NEWS, IMAGE = "news", "image"


@frozen
class SearchEntry:
    """A page in the index: its facts as JSON, its text, its terms (:func:`terms_of`)."""

    facts: str
    text: bytes
    terms: bytes

    def packed(self) -> bytes:
        """Return it as it travels between processes."""
        facts = self.facts.encode()
        head = _HEAD.pack(len(facts), len(self.text), len(self.terms))
        return head + facts + self.text + self.terms


def unpacked(data: bytes) -> SearchEntry:
    """Return what :meth:`SearchEntry.packed` packed."""
    facts, text, _ = _HEAD.unpack_from(data)
    start, middle = _HEAD.size, _HEAD.size + facts
    behind = middle + text
    return SearchEntry(data[start:middle].decode(), data[middle:behind], data[behind:])


def term(kind: str, text: str) -> int:
    """Return the number that a term is known by in the index."""
    digest = blake2b(f"{kind}:{text}".encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@lru_cache(maxsize=REMEMBERED)
def numbers_of(token: str, language: str) -> tuple[int, ...]:
    """Return the terms of a token: its stem's, and its own if that is another word."""
    root, word = stem(token, language), folded(token)
    number = term(STEM, root)
    return (number,) if word == root else (number, term(WORD, word))


def search_entry(
    url: str, text: str, known: Mapping[str, Any], other: Mapping[str, Any], kind: str
) -> SearchEntry | None:
    """Return the entry of a page; None if there is nothing to find in it.

    ``known`` and ``other`` are its metadata, ``kind`` is what sort of file it is, such
    as ``html`` or ``pdf``.
    """
    title = _one(known.get("title"))
    text = " ".join(text[: 2 * MAX_TEXT].split())[:MAX_TEXT]
    while title and text.startswith(title):  # once of the head, once of the heading
        text = text.removeprefix(title).lstrip()
    if known.get("verdict") not in _GOOD or not (text or title):
        return None
    facts = {
        "title": title[:MAX_TITLE],
        "description": _one(known.get("description"))[:MAX_DESCRIPTION],
        "language": _language(_one(known.get("language")), text),
        "date": _one(known.get("published_time"))[:40],
        **_image(known, other),
    }
    facts = {name: value for name, value in facts.items() if value}
    return SearchEntry(
        json.dumps(facts, ensure_ascii=False),
        zlib.compress(text.encode(errors="replace"), 1),
        terms_of(url, text, facts, kind),
    )


def terms_of(url: str, text: str, facts: Mapping[str, Any], kind: str) -> bytes:
    """Return the terms of a page, by number: 8 bytes each, then a byte of impact each.

    The impact of a word (1 to 255) grows with how often it stands in the page, less and
    less so, and falls with the length of the page; in a title it counts more.
    """
    language = facts.get("language", "")
    tokens = tokens_of(text)
    titles, in_url = tokens_of(facts.get("title", "")), _url_tokens(url)
    about = tokens_of(facts.get("description", ""))
    found: dict[int, float] = {}
    parts = ((tokens, 1.0), (titles, IN_TITLE), (about, IN_DESCRIPTION))
    for some, weight in (*parts, (in_url, IN_URL)):
        for token, count in Counter(some).items():
            for number in numbers_of(token, language):
                found[number] = found.get(number, 0) + weight * count
    norm = K1 * (1 - B + B * len(tokens) / USUAL_LENGTH)
    most: Iterable[tuple[int, float]] = found.items()
    if len(found) > MAX_TERMS:
        most = heapq.nlargest(MAX_TERMS, most, itemgetter(1))
    impacts = {
        number: int(FULL * weight / (weight + norm)) or 1 for number, weight in most
    }
    facts_of_page = [(TITLE, each) for each in {*words_of(facts.get("title", ""))}]
    facts_of_page += [(TITLE, each) for each in {*stems(titles, language)}]
    facts_of_page += [(URL, folded(each)) for each in in_url]
    facts_of_page += [(SITE, each) for each in _sites(url)]
    facts_of_page += [(FILE, each) for each in _files(url, kind)]
    facts_of_page += [(KIND, NEWS)] * ("date" in facts)
    facts_of_page += [(KIND, IMAGE)] * ("image" in facts)
    for name in facts_of_page:
        impacts.setdefault(term(*name), 1)
    return struct.pack(f"<{len(impacts)}Q", *impacts) + bytes(impacts.values())


def _url_tokens(url: str) -> list[str]:
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    return tokens_of(unquote(f"{host} {parts.path} {parts.query}"))[:50]


def _sites(url: str) -> Iterable[str]:
    """Yield the host of an address, and the domains it belongs to."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    while host:
        yield host
        _, _, host = host.partition(".")


def _files(url: str, kind: str) -> set[str]:
    _, dot, extension = urlsplit(url).path.rpartition("/")[2].rpartition(".")
    found = {kind} if kind else set()
    if dot and extension.isalnum() and len(extension) <= 5:
        found.add(extension.lower())
    return found


def _language(tag: str, text: str) -> str:
    """Return the language whose stems are taken; of short texts it may be unknown."""
    return language_code(tag) or (USUAL_LANGUAGE if text.isascii() else "")


def _one(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value or "")
    return " ".join(text.split())


def _image(known: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the picture that a page names as its own."""
    address = _one(known.get("og_image") or other.get("og:image"))
    if not address.startswith(("http://", "https://")):
        return {}
    sizes = {
        name: int(size)
        for name in ("width", "height")
        if (size := _one(other.get(f"og:image:{name}"))).isascii()
        and size.isdigit()
        and len(size) <= 6  # digits
    }
    return {"image": address[:2000], **sizes}
