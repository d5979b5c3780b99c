"""Entry of a page in a team's search index, and snippets for search results.

Converter processes make the entries, because they have the page's text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from attrs import frozen

from scraper_service.content.search.words import (
    fold,
    language_code,
    stems,
    tokens_of,
    words_of,
)
from scraper_service.content.stored_pages import compress
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_TEXT = 12_000  # characters of a page, from its beginning
MAX_TITLE = 300
USUAL_LANGUAGE = "en"
REMEMBERED = 30_000  # cached words of a language in a process
MAX_REMEMBERED = 30  # bytes; longer words rarely return
MAX_DESCRIPTION = 600
MORE_TIMES = 4  # occurrences of a word that count beside the first

_GOOD = frozenset({None, "ok", "truncated"})  # verdicts of pages worth finding
_QUOTES = re.compile(r"[\s\x00'\"\\]+")  # have a meaning in queries

# Kinds of marks: word of the title, word of the URL, host, file type, fact.
TITLE, URL, SITE, FILE, FACT = "title", "url", "site", "file", "is"
PAGE, NEWS, IMAGE = "page", "news", "image"


@frozen
class SearchEntry:
    """The entry of a page in the index. Stems and marks are separated by spaces."""

    #: Facts as JSON.
    facts: str
    #: Stems of the title.
    title: str
    #: Stems of the description and the URL.
    about: str
    #: Stems of the text, not in order. At most 1 + :data:`MORE_TIMES` occurrences of a
    #: word are there, since each tells less than the one before.
    body: str
    #: Conditions that the page meets, see :func:`mark`.
    marks: str
    #: Compressed text.
    text: bytes

    def pack(self) -> bytes:
        """Return the entry as bytes for transport between processes."""
        lines = (self.facts, self.title, self.about, self.body, self.marks)
        return b"\n".join((*(x.encode(errors="replace") for x in lines), self.text))


def unpack_entry(data: bytes) -> SearchEntry:
    """Return the entry that :meth:`SearchEntry.pack` packed."""
    *lines, text = data.split(b"\n", 5)
    facts, title, about, body, marks = (line.decode() for line in lines)
    return SearchEntry(facts, title, about, body, marks, text)


def mark(kind: str, text: str) -> str:
    """Return a mark, such as ``site:a.example``. Words of texts have no colon."""
    return f"{kind}:{_QUOTES.sub('_', text)}"


def search_entry(
    url: str, text: str, known: Mapping[str, Any], other: Mapping[str, Any], kind: str
) -> SearchEntry | None:
    """Return the entry of a page; None for a page without text or with a bad verdict.

    ``known`` and ``other`` are the page's metadata. ``kind`` is its file type, such as
    ``html`` or ``pdf``.
    """
    title = _one(known.get("title"))
    words, heading = text[: 2 * MAX_TEXT].split(), title.split()
    while heading and words[: len(heading)] == heading:  # from the head, then the h1
        del words[: len(heading)]
    text = " ".join(words)[:MAX_TEXT]
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
    stems_of = _stems[facts.get("language", "")]
    in_url = _url_tokens(url)
    titles = stems_of.join(_parts(facts.get("title", "")))
    about = stems_of.join(_parts(f"{facts.get('description', '')} {' '.join(in_url)}"))
    counts = Counter(_parts(text))
    again = [stems_of[k] * min(n - 1, MORE_TIMES) for k, n in counts.items() if n > 1]
    marks = [mark(TITLE, each) for each in titles.split()]
    marks += [mark(TITLE, each) for each in words_of(facts.get("title", ""))]
    marks += [mark(URL, fold(each)) for each in in_url]
    marks += [mark(SITE, each) for each in _sites(url)]
    marks += [mark(FILE, each) for each in _files(url, kind)]
    marks += [mark(FACT, PAGE)]
    marks += [mark(FACT, NEWS)] * ("date" in facts)
    marks += [mark(FACT, IMAGE)] * ("image" in facts)
    return SearchEntry(
        facts=json.dumps(facts, ensure_ascii=False),
        title=titles,
        about=about,
        body=stems_of.join(counts) + "".join(again),
        marks=" ".join(dict.fromkeys(marks)),
        text=compress(text.encode(errors="replace")),
    )


# Maps ASCII letters and digits to lower case, other ASCII characters to spaces.
_PLAIN = bytes(
    n if n > 127 else ord(chr(n).lower() if chr(n).isalnum() else " ")
    for n in range(256)
)


def _parts(text: str) -> list[bytes]:
    """Split a text at ASCII characters that are in no word, and fold ASCII letters.

    Only parts with other characters need :func:`tokens_of`, which takes far longer.
    """
    return text.encode(errors="replace").translate(_PLAIN).split()


class _Stems(dict[bytes, str]):
    """Cache of the stems in a part of a text, each with a space behind."""

    def __init__(self, language: str):
        super().__init__()
        self._language = language

    def __missing__(self, part: bytes) -> str:
        found = stems(list(dict.fromkeys(tokens_of(part.decode()))), self._language)
        joined = "".join(f"{each} " for each in found)
        if len(part) <= MAX_REMEMBERED:
            if len(self) >= REMEMBERED:
                self.clear()
            self[part] = joined
        return joined

    def join(self, parts: Iterable[bytes]) -> str:
        """Return the stems of parts."""
        return "".join(map(self.__getitem__, parts))


class _Languages(dict[str, _Stems]):
    """The cached stems of each language that this process has seen."""

    def __missing__(self, language: str) -> _Stems:
        found = self[language] = _Stems(language)
        return found


_stems = _Languages()


def _url_tokens(url: str) -> list[str]:
    parts = url_parts(url)
    host = (parts.hostname or "").removeprefix("www.")
    return tokens_of(unquote(f"{host} {parts.path} {parts.query}"))[:50]


def _sites(url: str) -> Iterable[str]:
    """Yield the host of a URL and its parent domains."""
    host = (url_parts(url).hostname or "").rstrip(".")
    while host:
        yield host
        _, _, host = host.partition(".")


def _files(url: str, kind: str) -> set[str]:
    _, dot, extension = url_parts(url).path.rpartition("/")[2].rpartition(".")
    found = {kind} if kind else set()
    if dot and extension.isalnum() and len(extension) <= 5:
        found.add(extension.lower())
    return found


def _language(tag: str, text: str) -> str:
    """Return the language for stems; empty for non-ASCII text of unknown language."""
    return language_code(tag) or (USUAL_LANGUAGE if text.isascii() else "")


def _one(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value or "")
    return " ".join(text.split())


def _image(known: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return URL and size of the image in a page's Open Graph metadata."""
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


LENGTH = 240  # characters of a snippet
LOOKED_AT = 8000  # characters of the text that are searched
STEP = 60  # characters between two candidates
PREFIX = 4  # least letters that two forms of a word share


def snippet(text: str, description: str, words: Sequence[str]) -> str:
    """Return the description of a page if it has all words, else a part of its text.

    The part is the first with the most words, cut at spaces. If no part has any word,
    the description is preferred.
    """
    wanted = {word[: max(PREFIX, len(word) - 3)] for word in words if word}
    about = fold(description)
    if description and all(word in about for word in wanted):
        return _cut(description, 0)
    text = text[:LOOKED_AT]
    plain = fold(text)
    if not wanted or len(plain) != len(text):
        plain = text.lower() if len(text.lower()) == len(text) else text
    best, most = 0, 0
    for start in range(0, max(1, len(plain) - LENGTH // 2), STEP):
        part = plain[start : start + LENGTH]
        count = sum(word in part for word in wanted)
        if count > most:
            best, most = start, count
            if most == len(wanted):
                break
    if not most and description:
        return _cut(description, 0)
    return _cut(text, best)


def _cut(text: str, start: int) -> str:
    """Return a part of a text from a word near ``start``, with dots where it is cut."""
    if start:
        space = text.find(" ", start, start + STEP)
        start = start if space < 0 else space + 1
    end = start + LENGTH
    if end >= len(text):
        return ("… " if start else "") + text[start:]
    space = text.rfind(" ", start, end)
    end = end if space <= start else space
    return f"{'… ' if start else ''}{text[start:end]} …"
