"""States of pages for tests of single components."""

from __future__ import annotations

from typing import Any

from scrapy import Request

from scraper_service.crawling.page_state import STATE, PageState
from scraper_service.options.spider_arguments import page_options


def page_of(url: str, state: dict[str, Any], **meta: Any) -> Request:
    """Return the request for a page with fields of its state, and further ``meta``."""
    facts = {"scrape_id": "page", "source_url": url, **state}
    options = page_options({"url": url}).scrape
    return Request(url, meta={STATE: PageState(options=options, **facts), **meta})
