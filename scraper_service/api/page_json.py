"""A page as JSON, the same in both versions (interface document, parts 7 and 8).

Values come as JSON text from the converter pool and are only joined here.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scraper_service.items import Page, PageMetadata

# Keys that stand for facts of ours: a page's own <meta> never takes their place.
RESERVED = frozenset(
    {
        "answeredBy",
        "cacheState",
        "cachedAt",
        "canonicalUrl",
        "concurrencyLimited",
        "concurrencyQueueDurationMs",
        "contentType",
        "creditsUsed",
        "duplicateOf",
        "engine",
        "error",
        "feeds",
        "headline",
        "numPages",
        "ogLocaleAlternate",
        "postprocessorsUsed",
        "proxyUsed",
        "readingTime",
        "scrapeId",
        "sourceURL",
        "statusCode",
        "timezone",
        "tokensUsed",
        "totalPages",
        "url",
        "verdict",
        "verdictEvidence",
        "wordCount",
        "xRobotsTag",
    }
)
# A client renames ours so (``num_pages``), and checks their types: what a page says under
# such a name would make all pages of a job unreadable to it.
_RENAMED = frozenset(name.lower() for name in RESERVED)


def _is_reserved(name: str) -> bool:
    return name in RESERVED or (
        "_" in name and name.replace("_", "").lower() in _RENAMED
    )


@lru_cache(maxsize=256)
def camel(name: str) -> str:
    """Return the JSON spelling of a name of ours: ``raw_html`` is ``rawHtml``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def page_json(page: Page) -> bytes:
    """Return the page object: what was asked for, ``metadata``, ``warning``."""
    members = [(camel(name), value) for name, value in page.values.items()]
    members.append(("metadata", encode(metadata(page.metadata))))
    if page.warning:
        members.append(("warning", encode(page.warning)))
    joined = b",".join(b'"%s":%s' % (name.encode(), value) for name, value in members)
    return b"{%s}" % joined


def metadata(facts: PageMetadata) -> dict[str, Any]:
    """Return the metadata object; what is not known is left out."""
    result: dict[str, Any] = {
        name: value for name, value in facts.other.items() if not _is_reserved(name)
    }
    result.update((camel(name), value) for name, value in facts.known.items())
    ours = {
        "sourceURL": facts.source_url,
        "url": facts.url,
        "statusCode": facts.status_code,
        "scrapeId": facts.scrape_id,
        "contentType": facts.content_type,
        "xRobotsTag": facts.robots_tag,
        "proxyUsed": facts.proxy_used,
        "engine": facts.engine,
        "timezone": facts.time_zone,
        "cacheState": facts.cache_state,
        "cachedAt": None if facts.cached_at is None else iso(facts.cached_at),
        "creditsUsed": facts.credits_used,
        "answeredBy": facts.answered_by,
        "tokensUsed": facts.tokens_used,
        "numPages": facts.num_pages,
        "totalPages": facts.total_pages,
        "error": facts.error,
        "duplicateOf": facts.duplicate_of,
        "concurrencyLimited": None if facts.queued_ms is None else True,
        "concurrencyQueueDurationMs": facts.queued_ms,
    }
    result.update((name, value) for name, value in ours.items() if value is not None)
    return result


def iso(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(value: Any) -> bytes:
    """Return ``value`` as compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
