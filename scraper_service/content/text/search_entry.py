"""What the index of scraped pages keeps of a page; made where the page is converted."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
from attrs import frozen

from scraper_service.content.text.search_terms import (
    folded,
    language_code,
    stem,
    stems,
    tokens_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

MAX_TEXT = 12_000  # characters of a page, from its beginning
MAX_TITLE = 300
USUAL_LANGUAGE = "en"
REMEMBERED = 40_000  # words of a language, in a process; most pages have few new ones
MAX_DESCRIPTION = 600
MAX_TERMS = 4000  # of a page, the most telling ones
# How much a word counts where it stands, once in the text being 1.
IN_TITLE, IN_URL, IN_DESCRIPTION = 6, 2, 1
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


@lru_cache(maxsize=20_000)  # most words of a page are on others, too
def term(kind: str, text: str) -> int:
    """Return the number that a term is known by in the index."""
    digest = blake2b(f"{kind}:{text}".encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


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
    weights: Counter[str] = Counter(tokens)
    for some, weight in (
        (titles, IN_TITLE),
        (about, IN_DESCRIPTION),
        (in_url, IN_URL),
    ):
        for token in some:
            weights[token] += weight
    norm = K1 * (1 - B + B * len(tokens) / USUAL_LENGTH)
    numbers, impacts = _impacts(weights, language, norm)
    facts_of_page = [(TITLE, each) for each in {*words_of(facts.get("title", ""))}]
    facts_of_page += [(TITLE, each) for each in {*stems(titles, language)}]
    facts_of_page += [(URL, folded(each)) for each in in_url]
    facts_of_page += [(SITE, each) for each in _sites(url)]
    facts_of_page += [(FILE, each) for each in _files(url, kind)]
    facts_of_page += [(KIND, NEWS)] * ("date" in facts)
    facts_of_page += [(KIND, IMAGE)] * ("image" in facts)
    more = np.array([term(*name) for name in dict.fromkeys(facts_of_page)], "<u8")
    more = more[~np.isin(more, numbers)]
    ones = np.ones(len(more), "u1")
    both = np.concatenate((numbers, more)), np.concatenate((impacts, ones))
    return both[0].tobytes() + both[1].tobytes()


def _impacts(
    weights: Mapping[str, int], language: str, norm: float
) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Return the terms of some tokens, each once, and what impact each has."""
    if not weights:
        return np.zeros(0, "<u8"), np.zeros(0, "u1")
    pairs = _numbers[language].of(weights)
    # Its stem, and itself where that is another word.
    numbers = np.concatenate((pairs[:, 0], pairs[:, 1]))
    heavy = np.tile(np.fromiter(weights.values(), float, len(weights)), 2)
    is_there = numbers > 0
    found, places = np.unique(numbers[is_there], return_inverse=True)
    total = np.bincount(places, heavy[is_there])
    if len(found) > MAX_TERMS:
        most = np.sort(np.argpartition(-total, MAX_TERMS)[:MAX_TERMS])
        found, total = found[most], total[most]
    impacts = (FULL * total / (total + norm)).astype("u1")
    return found.astype("<u8"), np.maximum(impacts, 1)


class _Numbers(dict[str, int]):
    """The terms of the tokens of a language: of the stem, of the word, 0 for the same.

    They are rows of a table; here is which row a token has.
    """

    def __init__(self, language: str):
        super().__init__()
        self._language = language
        self._rows = np.zeros((REMEMBERED, 2), "<u8")

    def of(self, tokens: Collection[str]) -> NDArray[np.uint64]:
        """Return a row for each token."""
        if len(self) + len(tokens) > REMEMBERED:
            self.clear()
        places = map(self.__getitem__, tokens)
        return self._rows[np.fromiter(places, np.int64, len(tokens))]

    def __missing__(self, token: str) -> int:
        root, word = stem(token, self._language), folded(token)
        place = self[token] = len(self)
        other = 0 if word == root else term(WORD, word)
        self._rows[place] = term(STEM, root), other
        return place


class _Languages(dict[str, _Numbers]):
    """Those of each language that pages of this process were in."""

    def __missing__(self, language: str) -> _Numbers:
        found = self[language] = _Numbers(language)
        return found


_numbers = _Languages()


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
