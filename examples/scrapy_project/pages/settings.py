"""The settings of the project; all that is not here is Scrapy's."""

from __future__ import annotations

BOT_NAME = "pages"
SPIDER_MODULES = ["pages.spiders"]
ADDONS = {"scraper_service.addon.ScraperAddon": 500}
# Networks of your own that may be fetched from; all others that are private are refused.
EGRESS_ALLOW = ["127.0.0.1/32"]
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 0.25  # seconds between two requests to a host
CLOSESPIDER_PAGECOUNT = 100
