"""Searches of a team's pages: queries, the entries of the index, and snippets.

A query has words, phrases and operators, and filters results. Converter processes make the
entry of a page, because they have its text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from attrs import evolve, frozen

from scraper_service.content.stored_pages import compress
from scraper_service.content.words import (
    fold,
    is_unspaced,
    language_code,
    stems,
    tokens_of,
    words_of,
)
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Domains of the category ``research``.
RESEARCH_SITES = (
    *("arxiv.org", "scholar.google.com", "pubmed.ncbi.nlm.nih.gov"),
    *("researchgate.net", "nature.com", "science.org", "ieee.org", "acm.org"),
    *("springer.com", "wiley.com", "sciencedirect.com", "plos.org", "biorxiv.org"),
    "medrxiv.org",
)
MAX_PARTS = 64  # words, phrases and operators of a query; further ones are dropped

_PART = re.compile(
    r"""(?P<minus>-(?=\S))?
        (?:(?P<name>[a-z]+):)?
        (?:["“](?P<quoted>[^"”]*)["”]?|(?P<plain>[^\s"“”]+))""",
    re.VERBOSE | re.IGNORECASE,
)
_PASSED_ON = frozenset({"related", "imagesize", "larger"})
_CONDITIONS = {"site": "site", "filetype": "file", "ext": "file"}
_FIELDS = {"inurl": "in_url", "allinurl": "in_url", "intitle": "in_title"}
_FIELDS["allintitle"] = "in_title"
_JOINING = frozenset({"OR", "AND", "|"})


@frozen
class UrlCondition:
    """A condition on where a result is."""

    #: ``site`` or ``file``.
    kind: str
    #: Host name, with the start of a path or without, or file extension.
    value: str

    @property
    def operator(self) -> str:
        """The condition as a search operator."""
        return f"{'site' if self.kind == 'site' else 'filetype'}:{self.value}"

    def has(self, url: str) -> bool:
        """Return True if a URL meets the condition, judged by the URL alone."""
        parts = url_parts(url)
        if self.kind == "file":
            return unquote(parts.path).lower().endswith(f".{self.value}")
        domain, slash, path = self.value.partition("/")
        host = (parts.hostname or "").lower().rstrip(".")
        is_there = host == domain or host.endswith(f".{domain}")
        return is_there and (not slash or parts.path.startswith(f"/{path}"))


@frozen(kw_only=True)
class SearchQuery:
    """A parsed query. Words and phrases are as written, without quotes."""

    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    #: Words and phrases that a result must not have.
    without: tuple[str, ...] = ()
    #: A result must meet one condition of each group.
    conditions: tuple[tuple[UrlCondition, ...], ...] = ()
    #: A result must meet none of these conditions.
    not_conditions: tuple[UrlCondition, ...] = ()
    #: Words that the URL must have.
    in_url: tuple[str, ...] = ()
    #: Words that the URL must not have.
    not_in_url: tuple[str, ...] = ()
    #: Words that the title must have.
    in_title: tuple[str, ...] = ()
    #: Words that the title must not have.
    not_in_title: tuple[str, ...] = ()

    @property
    def is_strict(self) -> bool:
        """Whether the results of an engine need a check by :meth:`allows`."""
        sites = (each.kind == "site" for group in self.conditions for each in group)
        return any(sites) or evolve(self, words=(), conditions=()) != SearchQuery()

    def allows(self, url: str, title: str, description: str) -> bool:
        """Return True if the URL, title and description of a result match the query.

        File types are left to the engine, because a URL need not show its file type.
        """
        for group in self.conditions:
            is_told = all(each.kind == "site" for each in group)
            if is_told and not any(each.has(url) for each in group):
                return False
        if any(each.has(url) for each in self.not_conditions):
            return False
        shown_url, heading = pad_words(unquote(url)), pad_words(title)
        lower = unquote(url).lower()
        if not all(word.lower() in lower for word in self.in_url):
            return False
        if any(stands_in(word, shown_url) for word in self.not_in_url):
            return False
        if not all(stands_in(word, heading) for word in self.in_title):
            return False
        if any(stands_in(word, heading) for word in self.not_in_title):
            return False
        shown = f"{heading}{pad_words(description)}"
        if any(stands_in(text, shown) for text in self.without):
            return False
        shown += shown_url
        return all(stands_in(text, shown) for text in self.phrases)


def parse_query(text: str) -> SearchQuery:
    """Parse a query; as in other search engines, every text is valid."""
    found: dict[str, list[str]] = {}
    sites: list[UrlCondition] = []
    files: list[UrlCondition] = []
    not_conditions: list[UrlCondition] = []
    text = text.replace("(", " ").replace(")", " ")
    for part in islice(_PART.finditer(text), MAX_PARTS):
        name = (part["name"] or "").lower()
        value = part["quoted"] if part["quoted"] is not None else part["plain"]
        value = value.strip()
        if not value or (value in _JOINING and not name and part["quoted"] is None):
            continue
        if kind := _CONDITIONS.get(name):
            condition = UrlCondition(kind, _condition_value(kind, value))
            goal = sites if kind == "site" else files
            (not_conditions if part["minus"] else goal).append(condition)
        elif field := _FIELDS.get(name):
            goal_name = f"not_{field}" if part["minus"] else field
            found.setdefault(goal_name, []).append(value)
        elif name not in _PASSED_ON:
            whole = f"{part['name']}:{value}" if name else value
            kind = "phrases" if part["quoted"] is not None else "words"
            kind = "without" if part["minus"] else kind
            if words_of(whole):
                found.setdefault(kind, []).append(whole)
    conditions = tuple(tuple(group) for group in (sites, files) if group)
    texts = {name: tuple(dict.fromkeys(values)) for name, values in found.items()}
    return SearchQuery(
        conditions=conditions, not_conditions=tuple(not_conditions), **texts
    )


def narrow_query(
    query: SearchQuery,
    categories: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> SearchQuery:
    """Return a query that is limited to categories and domains."""
    groups = (
        tuple(each for name in categories for each in conditions_of(name)),
        tuple(UrlCondition("site", domain) for domain in include),
    )
    excluded = (UrlCondition("site", name) for name in exclude)
    return evolve(
        query,
        conditions=(*query.conditions, *filter(None, groups)),
        not_conditions=(*query.not_conditions, *excluded),
    )


def conditions_of(category: str) -> tuple[UrlCondition, ...]:
    """Return the conditions of a category; a result meets at least one."""
    if category == "github":
        return (UrlCondition("site", "github.com"),)
    if category == "pdf":
        return (UrlCondition("file", "pdf"),)
    return tuple(UrlCondition("site", name) for name in RESEARCH_SITES)


def category_of(url: str, categories: Iterable[str]) -> str | None:
    """Return the first of ``categories`` that a URL belongs to, or None."""
    for name in categories:
        if any(each.has(url) for each in conditions_of(name)):
            return name
    return None


def engine_text(
    text: str,
    categories: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> str:
    """Return the query for search engines, with operators for all conditions."""
    added = narrow_query(SearchQuery(), categories, include, exclude)
    parts = [text]
    for group in added.conditions:
        either = " OR ".join(each.operator for each in group)
        parts.append(f"({either})" if len(group) > 1 else either)
    parts += [f"-{each.operator}" for each in added.not_conditions]
    return " ".join(parts)


def pad_words(text: str) -> str:
    """Return the folded words of a text, with single spaces between and around."""
    return f" {' '.join(words_of(text))} "


def stands_in(text: str, spaced_text: str) -> bool:
    """Return True if words occur in a text of :func:`pad_words`, in sequence."""
    return pad_words(text) in spaced_text


def phrase_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that finds words in sequence in a folded text.

    The pattern is faster than :func:`stands_in` on long texts.
    """
    words = re.findall(r"\w+", fold(text).replace("_", " "))
    if not words:
        return re.compile("")  # a phrase without words matches every text
    first, *others = map(re.escape, words)
    inner = "".join(rf"[\W_]+{word}" for word in others)
    # In a script without spaces words have no edges. The first edge is checked after
    # the word: patterns that begin with literal characters are several times as fast.
    before = "" if is_unspaced(words[0][0]) else rf"(?<![^\W_]{first})"
    last = "" if is_unspaced(words[-1][-1]) else r"(?![^\W_])"
    return re.compile(f"{first}{before}{inner}{last}")


def _condition_value(kind: str, value: str) -> str:
    if kind == "file":
        return fold(value).lstrip(".")
    value = re.sub(r"^[a-z]+://", "", value, flags=re.IGNORECASE)
    host, slash, path = value.partition("/")
    host = host.lower().removeprefix("*").strip(".")
    return f"{host}{slash}{path}" if path else host


# -- entries of the index ---------------------------------------------------------------

MAX_TEXT = 12_000  # characters of a page, from its beginning
MAX_TITLE = 300
USUAL_LANGUAGE = "en"
REMEMBERED = 30_000  # cached words of a language in a process
MAX_REMEMBERED = 30  # bytes; longer words rarely return
MAX_DESCRIPTION = 600
MORE_TIMES = 4  # occurrences of a word that count after the first

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
    stems_of = _stems(facts.get("language", ""))
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
    """Cache of the stems in a part of a text, each with a final space."""

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


@cache
def _stems(language: str) -> _Stems:
    return _Stems(language)


def _url_tokens(url: str) -> list[str]:
    parts = url_parts(url)
    host = (parts.hostname or "").removeprefix("www.")
    return tokens_of(unquote(f"{host} {parts.path} {parts.query}"))[:50]


def _sites(url: str) -> Iterable[str]:
    host = (url_parts(url).hostname or "").rstrip(".")
    while host:
        yield host
        _, _, host = host.partition(".")


def _files(url: str, kind: str) -> Iterator[str]:
    """Yield the file type of a page, then the extension of its URL, perhaps the same."""
    if kind:
        yield kind
    _, dot, extension = url_parts(url).path.rpartition("/")[2].rpartition(".")
    if dot and extension.isalnum() and len(extension) <= 5:
        yield extension.lower()


def _language(tag: str, text: str) -> str:
    """Return the language for stems; empty for non-ASCII text of unknown language."""
    return language_code(tag) or (USUAL_LANGUAGE if text.isascii() else "")


def _one(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value or "")
    return " ".join(text.split())


def _image(known: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return URL and size of the image in a page's Open Graph metadata."""
    image = _one(known.get("og_image") or other.get("og:image"))
    if not image.startswith(("http://", "https://")):
        return {}
    sizes = {
        name: int(size)
        for name in ("width", "height")
        if (size := _one(other.get(f"og:image:{name}"))).isascii()
        and size.isdigit()
        and len(size) <= 6  # digits
    }
    return {"image": image[:2000], **sizes}


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
