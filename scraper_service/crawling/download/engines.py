"""Chooses the engine for a page: plain HTTP or the browser."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, ClassVar

from attrs import define

from scraper_service.content.page_urls import is_route
from scraper_service.crawling.browser import chromium
from scraper_service.options.limits import (
    BROWSER,
    HTTP,
    PROFILE,
    is_elsewhere,
    needs_browser,
    prefers_browser,
    why_not_rendered,
)
from scraper_service.options.urls import origin
from scraper_service.shared_objects import Singletons

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.options.scrape import ScrapeOptions

SHELLS = 3  # in a row, until all pages of their site are taken for empty shells
REMEMBER_S = 3600.0  # that they are
MAX_SITES = 10_000


class Engines:
    """Chooses by the setting ``RENDER``, the options of the page, and its site."""

    _instances: ClassVar[Singletons[Engines]] = Singletons()

    def __init__(self, settings: BaseSettings):
        self._mode: str = settings["RENDER"]
        self._settings = settings
        self._sites: OrderedDict[object, _Site] = OrderedDict()

    @classmethod
    def shared(cls, settings: BaseSettings) -> Engines:
        """Return the engines of this process. All crawlers share what is known of sites."""
        names = ("RENDER", "CHROMIUM_PATH", "BROWSER_SANDBOX", "BROWSER_CDP_URL")
        key = tuple(str(settings[name]) for name in names)
        return cls._instances.get(key, lambda: cls(settings))

    @functools.cached_property
    def missing(self) -> str | None:
        """The reason why there is no browser, None if there is one."""
        return chromium.why_missing(self._settings)

    @property
    def missing_for_sessions(self) -> str | None:
        """The reason why there is no browser for sessions, None if there is one.

        A remote browser renders pages only: the browser of a session ends with it.
        """
        return chromium.why_none_here(self._settings)

    def choose(self, url: str, options: ScrapeOptions) -> str:
        """Return ``http`` or ``browser`` for the first fetch of a page."""
        needed = needs_browser(options)
        if needed not in {None, PROFILE}:
            return BROWSER
        wanted = (
            needed
            or self._mode == "always"
            or is_elsewhere(options)
            or prefers_browser(options)
            # The site sends its shell only: the browser keeps the route to itself.
            or (not options.fast_mode and (has_route(url) or self._has_shells(url)))
        )
        return BROWSER if wanted and self.missing is None else HTTP

    def looks_for_shells(self, options: ScrapeOptions) -> bool:
        """Return True if a page fetched over HTTP may be fetched again by the browser."""
        return why_not_rendered(options, self.missing) is None

    def _has_shells(self, url: str) -> bool:
        site = self._sites.get(origin(url))
        return site is not None and site.until > time.monotonic()

    def note_page(self, url: str, *, is_shell: bool) -> None:
        """Note if a page that came over HTTP is empty before its scripts run.

        After :data:`SHELLS` such pages in a row all pages of the site are rendered.
        """
        key = origin(url)
        if not is_shell:
            self._sites.pop(key, None)
            return
        site = self._sites.setdefault(key, _Site())
        site.shells += 1
        if site.shells >= SHELLS:
            site.until = time.monotonic() + REMEMBER_S
        self._sites.move_to_end(key)
        while len(self._sites) > MAX_SITES:
            self._sites.popitem(last=False)


def has_route(url: str) -> bool:
    """Return True if the page of a URL exists in a browser only, behind a ``#``."""
    return is_route(url.partition("#")[2])


@define
class _Site:
    """A site whose last page that came over HTTP was empty before its scripts run."""

    #: Such pages in a row.
    shells: int = 0
    #: All pages are rendered until then, by :func:`time.monotonic`.
    until: float = 0.0
