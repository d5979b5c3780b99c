"""The content of a stored page, for a page that has not changed since."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.page_status import EMPTY_SHELL
from scraper_service.content.stored_pages import decompress
from scraper_service.items import PageContent

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Metadata of the fetch, which the new page has of its own. The others stay.
_OF_FETCH = frozenset(
    {
        *("sourceURL", "url", "statusCode", "scrapeId", "sourceScrapeId"),
        *("contentType", "xRobotsTag", "proxyUsed", "engine", "timezone"),
        *("cacheState", "cachedAt", "creditsUsed", "unchanged", "tokensUsed", "error"),
        *("changeStatus", "sitemapLastmod"),
    }
)
_OF_CONTENT = {
    "answeredBy": "answered_by",
    "numPages": "num_pages",
    "totalPages": "total_pages",
    "tokenCount": "token_count",
    "losses": "losses",
}
ERROR_STATUS = 400
COMPARED = frozenset({"markdown", "json"})
_CAPITAL = re.compile("[A-Z]")


def repeated_content(packed: bytes, *, is_asked: bool) -> PageContent | None:
    """Return the content of a page from its compressed JSON.

    None for a page without text, or one with a warning about the moment of its fetch. With ``is_asked`` a language
    model has read it, and any warning may be about a failure of the model. Runs in the
    converter pool.
    """
    page: dict[str, Any] = json.loads(decompress(packed))
    metadata = page.pop("metadata")
    warning = page.pop("warning", None)
    if "concurrencyLimited" in metadata or (is_asked and warning):
        return None
    if metadata.get("verdict") == EMPTY_SHELL:  # what it embeds may be readable by now
        return None
    facts: dict[str, Any] = {"known": {}, "other": {}}
    if warning:
        facts["warnings"] = (warning,)
    for name, value in metadata.items():
        if name in _OF_CONTENT:
            facts[_OF_CONTENT[name]] = value
        elif name not in _OF_FETCH:
            # Names of our own are in camelCase; an underscore is of a <meta> of the site.
            facts["other" if "_" in name else "known"][name] = value
    values = {
        _CAPITAL.sub(lambda found: "_" + found[0].lower(), name): _encode(value)
        for name, value in page.items()
    }
    return PageContent(values=values, **facts)


def change_since(
    base: bytes | str, values: Mapping[str, bytes]
) -> tuple[str, str | None]:
    """Return ``new``, ``same`` or ``changed`` for a page and an earlier page of its URL.

    ``base`` is the compressed JSON of the earlier page, or the hashes of its texts as JSON,
    which are returned, too. ``values`` are the JSON texts of the new page. Markdown and data
    are compared, or all values without them; white space does not count. An error page of
    the site is no earlier page. Runs in the converter pool.
    """
    if isinstance(base, bytes):
        page: dict[str, Any] = json.loads(decompress(base))
        if page.pop("metadata").get("statusCode", 200) >= ERROR_STATUS:
            return "new", None
        page.pop("warning", None)
        base = json.dumps(_hashes(page))
    known = json.loads(base)
    new = _hashes({_camel(name): json.loads(text) for name, text in values.items()})
    return "same" if new.items() <= known.items() else "changed", base


def _hashes(values: Mapping[str, Any]) -> dict[str, str]:
    """Return hashes of what is compared of a page, by name."""
    names = values.keys() & COMPARED or values.keys()
    return {name: _hash(values[name]) for name in sorted(names)}


def _hash(value: Any) -> str:
    is_text = isinstance(value, str)
    text = "".join(value.split()) if is_text else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")
