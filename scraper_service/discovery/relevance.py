"""Chooses the pages that fit a prompt or schema, by the words of URLs and titles.

Runs in the converter pool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from scraper_service.content.words import SearchWords
from scraper_service.discovery.map_results import BETWEEN
from scraper_service.options.urls import host_of, url_parts

RowT: TypeAlias = tuple[str, str | None, str | None]  # URL, title, description

# Up to this number, pages of a site without fitting words are read too: URLs may have no
# words.
UNFITTING_PAGES = 10
MAX_NAMES = 30  # names of schema fields that are searched for
MAX_LEVELS = 5  # levels of a schema
# Words of prompts without a topic.
IDLE = frozenset(
    "a about all also an and any are as at be by can data details do each every extract"
    " fetch field fields find for from get give has have her his how i in including info"
    " information is it its list may me my of on or our out page pages please provide"
    " return s scrape search should show site summarise summarize tell that the their"
    " them these they this those to us using value values want was we website were what"
    " when where which who will with would you your".split()
)

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def search_text(prompt: str | None, schema: Mapping[str, Any] | None) -> str:
    """Return the search words of a prompt and of the field names of a schema."""
    texts = islice(_names(schema or {}, 0), MAX_NAMES)
    words = _WORD.findall(" ".join([prompt or "", *texts]).lower())
    found: dict[str, None] = {}
    for word in words:
        if word not in IDLE:
            found[_singular(word)] = None
    return " ".join(found)


def _names(schema: Mapping[str, Any], level: int) -> Iterator[str]:
    """Yield the names of a schema's fields, each level before the levels below it."""
    fields = schema.get("properties")
    below = [schema.get("items")]
    if isinstance(fields, Mapping):
        for name in fields:
            yield _HUMP.sub(" ", str(name)).replace("_", " ")
        below += fields.values()
    if level < MAX_LEVELS:
        for item in below:
            if isinstance(item, Mapping):
                yield from _names(item, level + 1)


def _singular(word: str) -> str:
    """Return a word without the plural s; the result is a part of both forms."""
    is_plural = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if is_plural else word


def rows_of(slices: Sequence[bytes]) -> list[RowT]:
    """Return the rows of a map with slices of JSON objects."""
    rows = json.loads(b"[" + BETWEEN.join(slices) + b"]")
    return [(row["url"], row.get("title"), row.get("description")) for row in rows]


def pages_of_site(
    slices: Sequence[bytes], start: str, text: str, limit: int
) -> list[str]:
    """Return up to ``limit`` URLs of a map that fit a text, in the order of the map.

    Only URLs with the path of ``start`` or a path below it count. If few URLs fit, others
    follow, up to :data:`UNFITTING_PAGES` in all. Without a text all URLs fit.
    """
    path = url_parts(start).path.rstrip("/")
    rows = [
        row
        for row in rows_of(slices)
        if f"{url_parts(row[0]).path}/".startswith(f"{path}/")
    ]
    if not text:
        return [row[0] for row in rows[:limit]]
    words = SearchWords(text)
    fitting = [row[0] for row in rows if words.score(*row)]
    room = max(0, UNFITTING_PAGES - len(fitting))
    known = set(fitting)
    others = [row[0] for row in rows if row[0] not in known][:room]
    return [*fitting, *others][:limit]


def pages_elsewhere(
    pages: Sequence[bytes], urls: Sequence[str], text: str, limit: int
) -> list[str]:
    """Return up to ``limit`` links to other hosts that fit a text, best first.

    ``pages`` are the JSON of pages with their links. Links to the hosts of ``urls`` are
    left out.
    """
    own = {"", *(_host(url) for url in urls)}
    words = SearchWords(text)
    scores: dict[str, int] = {}
    for body in pages:
        for link in json.loads(body).get("links") or ():
            if link not in scores and _host(link) not in own:
                scores[link] = words.score(link, None, None) if text else 1
    fitting = sorted((url for url in scores if scores[url]), key=lambda u: -scores[u])
    return fitting[:limit]


def _host(url: str) -> str:
    return host_of(url).removeprefix("www.")
