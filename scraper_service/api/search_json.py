"""The results of a search as JSON: what both versions have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.page_json import encode, page_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.items import Page
    from scraper_service.services.searching import Result

_EMPTY = frozenset({b"", b"null", b'""', b"[]", b"{}"})


def item(facts: Mapping[str, Any], page: Page | None = None) -> bytes:
    """Return a result; of a page that failed only why, of another one all of it.

    What is None is left out: a key with null would make another thing of the result.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    if page is None:
        return encode(known)
    if page.failure is not None:
        return encode({**known, "metadata": _failure(page)})
    return encode(known)[:-1] + b"," + page_json(page)[1:]


def has_content(result: Result) -> bool:
    """Tell whether any of the formats that were asked for came out of a page."""
    page = result.page
    if page is None or page.failure is not None:
        return False
    return any(value.strip() not in _EMPTY for value in page.values.values())


def failed_item(facts: Mapping[str, Any], page: Page) -> bytes:
    """Return a result whose page has nothing to show."""
    known = {name: value for name, value in facts.items() if value is not None}
    return encode({**known, "metadata": _failure(page)})


def joined(items: list[bytes]) -> bytes:
    return b"[%s]" % b",".join(items)


def _failure(page: Page) -> dict[str, Any]:
    facts = page.metadata
    error = page.failure.message if page.failure else facts.error
    return {
        # PY and JS take any number; 0 says that no answer came.
        "statusCode": facts.status_code or 0,
        "error": error or "No content found.",
        "proxyUsed": facts.proxy_used,
        "scrapeId": facts.scrape_id,
        "sourceURL": facts.source_url,
    }
