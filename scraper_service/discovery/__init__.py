"""Pure rules: which URLs a job may fetch, and which URLs are duplicates."""

from scraper_service.discovery.canonical_urls import (
    Originals,
    ParsedUrl,
    SeenLinks,
    crawl_key,
    normalize_url,
    page_key,
    sitemap_key,
)
from scraper_service.discovery.crawler_traps import TrapGuard
from scraper_service.discovery.scope_rules import (
    CrawlScope,
    LinkCheck,
    MapScope,
    Reason,
    Refusal,
    link_rows,
)
from scraper_service.discovery.sitemap import SitemapChoice

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
