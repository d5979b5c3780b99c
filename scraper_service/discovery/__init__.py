"""Pure rules: which URLs a job may fetch, and which URLs are duplicates."""

from scraper_service.discovery.canonical_urls import (
    Originals,
    ParsedUrl,
    SeenLinks,
    normalize_url,
    page_key,
)
from scraper_service.discovery.crawler_traps import TrapGuard
from scraper_service.discovery.link_checks import LinkCheck, link_rows
from scraper_service.discovery.scope_rules import CrawlScope, MapScope, Reason, Refusal
from scraper_service.discovery.sitemap import (
    SitemapChoice,
    crawl_key,
    sitemap_key,
)

__all__ = [
    "CrawlScope",
    "LinkCheck",
    "MapScope",
    "Originals",
    "ParsedUrl",
    "Reason",
    "Refusal",
    "SeenLinks",
    "SitemapChoice",
    "TrapGuard",
    "crawl_key",
    "link_rows",
    "normalize_url",
    "page_key",
    "sitemap_key",
]
