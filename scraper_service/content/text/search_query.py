"""The text of a search: words, phrases and operators, and what results they allow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from attrs import evolve, frozen

from scraper_service.content.text.search_terms import folded, is_unspaced, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# Interface document, 14.2.
RESEARCH_SITES = (
    *("arxiv.org", "scholar.google.com", "pubmed.ncbi.nlm.nih.gov"),
    *("researchgate.net", "nature.com", "science.org", "ieee.org", "acm.org"),
    *("springer.com", "wiley.com", "sciencedirect.com", "plos.org", "biorxiv.org"),
    "medrxiv.org",
)
MAX_PARTS = 64  # words, phrases and operators of one query; further ones are dropped

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
class Place:
    """Where a result may be: ``kind`` is ``site`` or ``file``.

    ``value`` is a host name, maybe with the beginning of a path, or an extension.
    """

    kind: str
    value: str

    @property
    def operator(self) -> str:
        """The place as engines write it."""
        return f"{'site' if self.kind == 'site' else 'filetype'}:{self.value}"

    def has(self, url: str) -> bool:
        """Tell whether an address is there, as far as it tells."""
        parts = urlsplit(url)
        if self.kind == "file":
            return unquote(parts.path).lower().endswith(f".{self.value}")
        domain, slash, path = self.value.partition("/")
        host = (parts.hostname or "").lower().rstrip(".")
        is_there = host == domain or host.endswith(f".{domain}")
        return is_there and (not slash or parts.path.startswith(f"/{path}"))


@frozen(kw_only=True)
class SearchQuery:
    """A query, read. Words and phrases are as written, without their quotes.

    A result has to be in one place of each group of ``places`` and in none of
    ``not_places``. ``in_url`` and ``in_title`` are words that have to stand there, the
    ones with ``not_`` words that may not. ``passed_on`` is for engines alone.
    """

    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    places: tuple[tuple[Place, ...], ...] = ()
    not_places: tuple[Place, ...] = ()
    in_url: tuple[str, ...] = ()
    not_in_url: tuple[str, ...] = ()
    in_title: tuple[str, ...] = ()
    not_in_title: tuple[str, ...] = ()
    passed_on: tuple[str, ...] = ()

    @property
    def asks_for_words(self) -> bool:
        """Whether there is anything but places and exclusions."""
        return bool(self.words or self.phrases or self.in_url or self.in_title)

    @property
    def is_strict(self) -> bool:
        """Whether results of an engine may have to be left out afterwards."""
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
        """Tell whether a result is what the query asks for, by what is shown of it.

        Types of files are left to the engine: an address need not tell them.
        """
        for group in self.places:
            is_told = all(place.kind == "site" for place in group)
            if is_told and not any(place.has(url) for place in group):
                return False
        if any(place.has(url) for place in self.not_places):
            return False
        address, heading = spaced(unquote(url)), spaced(title)
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
        shown = f"{heading}{spaced(description)}"
        if any(stands_in(text, shown) for text in self.without):
            return False
        shown += address
        return all(stands_in(text, shown) for text in self.phrases)


def parse_query(text: str) -> SearchQuery:
    """Return what a query asks for; nothing is an error, as with other engines."""
    found: dict[str, list[str]] = {}
    sites: list[Place] = []
    files: list[Place] = []
    not_places: list[Place] = []
    for part in list(_PART.finditer(text.replace("(", " ").replace(")", " ")))[
        :MAX_PARTS
    ]:
        name = (part["name"] or "").lower()
        value = part["quoted"] if part["quoted"] is not None else part["plain"]
        value = value.strip()
        if not value or (value in _JOINING and not name and part["quoted"] is None):
            continue
        if kind := _PLACES.get(name):
            place = Place(kind, _place_value(kind, value))
            goal = sites if kind == "site" else files
            (not_places if part["minus"] else goal).append(place)
        elif field := _FIELDS.get(name):
            found.setdefault(f"not_{field}" if part["minus"] else field, []).append(
                value
            )
        elif name in _PASSED_ON:
            found.setdefault("passed_on", []).append(part[0])
        else:
            whole = f"{part['name']}:{value}" if name else value
            kind = "phrases" if part["quoted"] is not None else "words"
            kind = "without" if part["minus"] else kind
            if words_of(whole):
                found.setdefault(kind, []).append(whole)
    places = tuple(tuple(group) for group in (sites, files) if group)
    texts = {name: tuple(dict.fromkeys(values)) for name, values in found.items()}
    return SearchQuery(places=places, not_places=tuple(not_places), **texts)


def narrowed(
    query: SearchQuery,
    categories: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> SearchQuery:
    """Return a query for results of some categories and domains only."""
    groups = (
        tuple(place for name in categories for place in places_of(name)),
        tuple(Place("site", domain) for domain in include),
    )
    return evolve(
        query,
        places=(*query.places, *(group for group in groups if group)),
        not_places=(*query.not_places, *(Place("site", name) for name in exclude)),
    )


def places_of(category: str) -> tuple[Place, ...]:
    """Return where the results of a category are."""
    if category == "github":
        return (Place("site", "github.com"),)
    if category == "pdf":
        return (Place("file", "pdf"),)
    return tuple(Place("site", name) for name in RESEARCH_SITES)


def category_of(url: str, categories: Iterable[str]) -> str | None:
    """Return the first of ``categories`` that an address belongs to, None for none."""
    for name in categories:
        if any(place.has(url) for place in places_of(name)):
            return name
    return None


def engine_text(
    text: str,
    categories: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> str:
    """Return the query as engines are asked, with operators for all conditions."""
    added = narrowed(SearchQuery(), categories, include, exclude)
    parts = [text]
    for group in added.places:
        either = " OR ".join(place.operator for place in group)
        parts.append(f"({either})" if len(group) > 1 else either)
    parts += [f"-{place.operator}" for place in added.not_places]
    return " ".join(parts)


def spaced(text: str) -> str:
    """Return the words of a text, folded, with one space around each."""
    return f" {' '.join(words_of(text))} "


def stands_in(text: str, spaced_text: str) -> bool:
    """Tell whether words stand in a text of :func:`spaced`, one behind the other."""
    return spaced(text) in spaced_text


def phrase_pattern(text: str) -> re.Pattern[str]:
    """Return what finds words in a folded text, one behind the other and nothing else.

    Quicker than :func:`stands_in` where the text is long.
    """
    words = re.findall(r"\w+", folded(text).replace("_", " "))
    if not words:
        return re.compile("")  # signs alone are everywhere
    first, *others = map(re.escape, words)
    inner = "".join(rf"[\W_]+{word}" for word in others)
    # In a script without spaces words have no edges. The first edge is looked for behind
    # the word: a pattern that begins with characters is found several times as fast.
    before = "" if is_unspaced(words[0][0]) else rf"(?<![^\W_]{first})"
    last = "" if is_unspaced(words[-1][-1]) else r"(?![^\W_])"
    return re.compile(f"{first}{before}{inner}{last}")


def _place_value(kind: str, value: str) -> str:
    if kind == "file":
        return folded(value).lstrip(".")
    value = re.sub(r"^[a-z]+://", "", value, flags=re.IGNORECASE)
    host, slash, path = value.partition("/")
    host = host.lower().removeprefix("*").strip(".")
    return f"{host}{slash}{path}" if path else host
