"""Which engine fetches a page: plain HTTP, or the browser where it has to be."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, ClassVar

from scraper_service.crawling.browser import chromium
from scraper_service.options.engine import (
    BROWSER,
    HTTP,
    PROFILE,
    is_elsewhere,
    needs_browser,
    prefers_browser,
)
from scraper_service.options.origins import origin

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.options.scrape import ScrapeOptions

REMEMBER_S = 3600.0  # a site whose pages are empty shells
MAX_SITES = 10_000


class Engines:
    """Decides by ``RENDER``, by what the caller asks for, and by what a site needs."""

    _shared: ClassVar[dict[tuple[str, ...], Engines]] = {}

    def __init__(self, settings: BaseSettings):
        self._mode: str = settings["RENDER"]
        self._settings = settings
        self._shells: OrderedDict[object, float] = OrderedDict()  # until when, by site

    @classmethod
    def shared(cls, settings: BaseSettings) -> Engines:
        """Return the one of this process: what is known of sites helps all crawlers."""
        key = tuple(
            str(settings[n]) for n in ("RENDER", "CHROMIUM_PATH", "BROWSER_SANDBOX")
        )
        if key not in cls._shared:
            cls._shared[key] = cls(settings)
        return cls._shared[key]

    @property
    def missing(self) -> str | None:
        """Why there is no browser, None if there is one."""
        return chromium.why_missing(self._settings)

    def choose(self, url: str, options: ScrapeOptions) -> str:
        """Return ``http`` or ``browser`` for a page that was not tried yet."""
        needed = needs_browser(options)
        if needed not in {None, PROFILE}:
            return BROWSER
        wanted = (
            needed
            or self._mode == "always"
            or is_elsewhere(options)
            or prefers_browser(options)
            or (
                not options.fast_mode
                and self._shells.get(origin(url), 0) > time.monotonic()
            )
        )
        return BROWSER if wanted and self.missing is None else HTTP

    def looks_for_shells(self, options: ScrapeOptions) -> bool:
        """Tell whether a page that came over HTTP may be fetched again by the browser."""
        return not options.fast_mode and not options.lockdown and self.missing is None

    def remember_shell(self, url: str) -> None:
        """Note that the pages of a site are empty before their scripts run."""
        self._shells[origin(url)] = time.monotonic() + REMEMBER_S
        self._shells.move_to_end(origin(url))
        while len(self._shells) > MAX_SITES:
            self._shells.popitem(last=False)
