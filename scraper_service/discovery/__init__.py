"""May this address be followed, and is it one that the job knows: pure rules."""

from scraper_service.discovery.canonical_urls import Address, followed, page_key, read
from scraper_service.discovery.crawler_traps import TrapGuard
from scraper_service.discovery.scope_rules import CrawlScope, MapScope, Reason, Refusal
from scraper_service.discovery.seen_urls import Originals, SeenLinks
from scraper_service.discovery.sitemap_choice import (
    SitemapChoice,
    crawl_key,
    crawl_key_of,
    sitemap_key,
)

__all__ = [
    "Address",
    "CrawlScope",
    "MapScope",
    "Originals",
    "Reason",
    "Refusal",
    "SeenLinks",
    "SitemapChoice",
    "TrapGuard",
    "crawl_key",
    "crawl_key_of",
    "followed",
    "page_key",
    "read",
    "sitemap_key",
]
