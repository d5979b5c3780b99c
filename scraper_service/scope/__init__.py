"""May this address be followed, and is it one that the job knows: pure rules."""

from scraper_service.scope.addresses import Address, followed, page_key, read
from scraper_service.scope.choice import (
    SitemapChoice,
    crawl_key,
    crawl_key_of,
    sitemap_key,
)
from scraper_service.scope.rules import CrawlScope, MapScope, Reason, Refusal
from scraper_service.scope.seen import Originals, SeenLinks
from scraper_service.scope.traps import TrapGuard

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
