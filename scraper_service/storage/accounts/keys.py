"""What is secret in the environment.

A module of its own, without Scrapy: converter processes import it.
"""

from __future__ import annotations

import os

# Never in the environment of a converter.
_NAMES = (
    *("SCRAPER_API_KEYS", "SCRAPER_DATABASE_URL", "SCRAPER_KEY_SECRET"),
    *("SCRAPER_BRAVE_API_KEY", "SCRAPER_LLM_API_KEY", "SCRAPER_PROXIES"),
    *("SCRAPER_SCRAPYD_NODES", "SCRAPER_SEARXNG_URL", "SCRAPER_SERPER_API_KEY"),
    *("SCRAPER_WEBHOOK_SECRETS", "SCRAPER_WEBHOOK_URL"),
    *("SCRAPYD_PASSWORD", "SCRAPYD_USERNAME"),
)


def forget_secrets() -> None:
    """Remove what is secret from the environment; the settings have it."""
    for name in _NAMES:
        os.environ.pop(name, None)
