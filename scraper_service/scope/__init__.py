"""May this address be followed, and is it one that the job knows: pure rules."""

from scraper_service.scope.addresses import followed, page_key
from scraper_service.scope.choice import SitemapChoice, crawl_key, sitemap_key
from scraper_service.scope.rules import CrawlScope, MapScope, Reason, Refusal
from scraper_service.scope.seen import Originals, SeenLinks
from scraper_service.scope.traps import TrapGuard

__all__ = [
    "CrawlScope",
    "MapScope",
    "Originals",
    "Reason",
    "Refusal",
    "SeenLinks",
    "SitemapChoice",
    "TrapGuard",
    "crawl_key",
    "followed",
    "page_key",
    "sitemap_key",
]
