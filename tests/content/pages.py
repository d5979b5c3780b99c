"""Sources and options for the tests of this package, every field given."""

from __future__ import annotations

import json
from typing import Any

from scraper_service.content.convert import make_content
from scraper_service.items import PageContent, PageSource
from scraper_service.options import formats
from scraper_service.options.scrape import ScrapeOptions

URL = "https://site.example/dir/page.html"

KINDS = {
    "markdown": formats.Markdown(),
    "html": formats.Html(),
    "raw_html": formats.RawHtml(),
    "links": formats.Links(),
    "images": formats.Images(),
    "raw_base64": formats.RawBase64(),
}


def options(*names: str | Any, **changes: Any) -> ScrapeOptions:
    chosen = [KINDS[n] if isinstance(n, str) else n for n in names or ("markdown",)]
    fields: dict[str, Any] = {
        "formats": chosen,
        "headers": (),
        "include_tags": (),
        "exclude_tags": (),
        "only_main_content": False,
        "only_clean_content": False,
        "timeout_ms": None,
        "wait_for_ms": 0,
        "mobile": False,
        "parsers": (),
        "actions": (),
        "location": None,
        "skip_tls_verification": True,
        "remove_base64_images": True,
        "fast_mode": False,
        "block_ads": True,
        "proxy": "auto",
        "max_age_ms": 0,
        "min_age_ms": None,
        "store_in_cache": True,
        "lockdown": False,
        "zero_data_retention": False,
        "site_rules": None,
        "profile": None,
    }
    return ScrapeOptions(**(fields | changes))


def source(
    body: str | bytes, content_type: str = "text/html; charset=utf-8", **changes: Any
) -> PageSource:
    raw = body.encode() if isinstance(body, str) else body
    fields: dict[str, Any] = {
        "url": URL,
        "status": 200,
        "body": raw,
        "content_type": content_type,
        "find_links": True,
    }
    return PageSource(**(fields | changes))


def convert(
    body: str | bytes,
    *names: str | Any,
    content_type: str = "text/html; charset=utf-8",
    **changes: Any,
) -> PageContent:
    return make_content(source(body, content_type), options(*names, **changes))


def value(content: PageContent, name: str) -> Any:
    return json.loads(content.values[name])


def markdown(body: str | bytes, **changes: Any) -> str:
    return value(convert(body, "markdown", **changes), "markdown")
