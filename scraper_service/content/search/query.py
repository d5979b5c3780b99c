"""Parses search queries (words, phrases, operators) and filters results by them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from attrs import evolve, frozen

from scraper_service.content.search.words import fold, is_unspaced, words_of
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

# Domains of the category ``research``.
RESEARCH_SITES = (
    *("arxiv.org", "scholar.google.com", "pubmed.ncbi.nlm.nih.gov"),
    *("researchgate.net", "nature.com", "science.org", "ieee.org", "acm.org"),
    *("springer.com", "wiley.com", "sciencedirect.com", "plos.org", "biorxiv.org"),
    "medrxiv.org",
)
MAX_PARTS = 64  # words, phrases and operators of a query; the rest is dropped

_PART = re.compile(
    r"""(?P<minus>-(?=\S))?
        (?:(?P<name>[a-z]+):)?
        (?:["“](?P<quoted>[^"”]*)["”]?|(?P<plain>[^\s"“”]+))""",
    re.VERBOSE | re.IGNORECASE,
)
_PASSED_ON = frozenset({"related", "imagesize", "larger"})
_PLACES = {"site": "site", "filetype": "file", "ext": "file"}
_FIELDS = {"inurl": "in_url", "allinurl": "in_url", "intitle": "in_title"}
_FIELDS["allintitle"] = "in_title"
_JOINING = frozenset({"OR", "AND", "|"})


@frozen
class PlaceCondition:
    """A condition on where a result is."""

    #: ``site`` or ``file``.
    kind: str
    #: Host name, with the start of a path or without, or file extension.
    value: str

    @property
    def operator(self) -> str:
        """The place as a search operator."""
        return f"{'site' if self.kind == 'site' else 'filetype'}:{self.value}"

    def has(self, url: str) -> bool:
        """Return True if a URL is in this place, judged by the URL alone."""
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
    #: A result must be in one place of each group.
    places: tuple[tuple[PlaceCondition, ...], ...] = ()
    #: A result must be in none of these places.
    not_places: tuple[PlaceCondition, ...] = ()
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
        return bool(
            self.phrases
            or self.without
            or self.not_places
            or self.in_url
            or self.not_in_url
            or self.in_title
            or self.not_in_title
            or any(place.kind == "site" for group in self.places for place in group)
        )

    def allows(self, url: str, title: str, description: str) -> bool:
        """Return True if the URL, title and description of a result match the query.

        File types are left to the engine, because a URL need not show its file type.
        """
        for group in self.places:
            is_told = all(place.kind == "site" for place in group)
            if is_told and not any(place.has(url) for place in group):
                return False
        if any(place.has(url) for place in self.not_places):
            return False
        address, heading = pad_words(unquote(url)), pad_words(title)
        if any(
            word not in unquote(url).lower() for word in map(str.lower, self.in_url)
        ):
            return False
        if any(stands_in(word, address) for word in self.not_in_url):
            return False
        if not all(stands_in(word, heading) for word in self.in_title):
            return False
        if any(stands_in(word, heading) for word in self.not_in_title):
            return False
        shown = f"{heading}{pad_words(description)}"
        if any(stands_in(text, shown) for text in self.without):
            return False
        shown += address
        return all(stands_in(text, shown) for text in self.phrases)


def parse_query(text: str) -> SearchQuery:
    """Parse a query; as in other search engines, every text is valid."""
    found: dict[str, list[str]] = {}
    sites: list[PlaceCondition] = []
    files: list[PlaceCondition] = []
    not_places: list[PlaceCondition] = []
    for part in list(_PART.finditer(text.replace("(", " ").replace(")", " ")))[
        :MAX_PARTS
    ]:
        name = (part["name"] or "").lower()
        value = part["quoted"] if part["quoted"] is not None else part["plain"]
        value = value.strip()
        if not value or (value in _JOINING and not name and part["quoted"] is None):
            continue
        if kind := _PLACES.get(name):
            place = PlaceCondition(kind, _condition_value(kind, value))
            goal = sites if kind == "site" else files
            (not_places if part["minus"] else goal).append(place)
        elif field := _FIELDS.get(name):
            found.setdefault(f"not_{field}" if part["minus"] else field, []).append(
                value
            )
        elif name not in _PASSED_ON:
            whole = f"{part['name']}:{value}" if name else value
            kind = "phrases" if part["quoted"] is not None else "words"
            kind = "without" if part["minus"] else kind
            if words_of(whole):
                found.setdefault(kind, []).append(whole)
    places = tuple(tuple(group) for group in (sites, files) if group)
    texts = {name: tuple(dict.fromkeys(values)) for name, values in found.items()}
    return SearchQuery(places=places, not_places=tuple(not_places), **texts)


def narrow_query(
    query: SearchQuery,
    categories: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> SearchQuery:
    """Return a query that is limited to categories and domains."""
    groups = (
        tuple(place for name in categories for place in conditions_of(name)),
        tuple(PlaceCondition("site", domain) for domain in include),
    )
    return evolve(
        query,
        places=(*query.places, *(group for group in groups if group)),
        not_places=(
            *query.not_places,
            *(PlaceCondition("site", name) for name in exclude),
        ),
    )


def conditions_of(category: str) -> tuple[PlaceCondition, ...]:
    """Return the places of a category; a result is in at least one."""
    if category == "github":
        return (PlaceCondition("site", "github.com"),)
    if category == "pdf":
        return (PlaceCondition("file", "pdf"),)
    return tuple(PlaceCondition("site", name) for name in RESEARCH_SITES)


def category_of(url: str, categories: Iterable[str]) -> str | None:
    """Return the first of ``categories`` that a URL belongs to, or None."""
    for name in categories:
        if any(place.has(url) for place in conditions_of(name)):
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
    for group in added.places:
        either = " OR ".join(place.operator for place in group)
        parts.append(f"({either})" if len(group) > 1 else either)
    parts += [f"-{place.operator}" for place in added.not_places]
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
    # In a script without spaces words have no edges. The first edge is checked behind
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
