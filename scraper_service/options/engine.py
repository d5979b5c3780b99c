"""Which options only a browser can honour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.options.formats import Branding, ChangeTracking, Screenshot
from scraper_service.options.scrape import (
    CHANGE_WAIT_MS,
    DEFAULT_COUNTRY,
    GENERIC_COUNTRY,
)

if TYPE_CHECKING:
    from scraper_service.options.scrape import ScrapeOptions

HTTP = "http"
BROWSER = "browser"
PROFILE = "profile"  # the only one that is dropped where there is no browser


def needs_browser(options: ScrapeOptions) -> str | None:
    """Return the name of an option that has no effect without a browser, else None.

    :data:`PROFILE` if no other one has to be honoured.
    """
    if options.format(Screenshot):
        return "formats"
    for name in ("actions", "mobile", "session"):
        if getattr(options, name):
            return name
    # A tracked page waits if it is rendered; nobody asked for the wait itself.
    tracked = options.format(ChangeTracking)
    is_unasked = tracked is not None and options.wait_for_ms == CHANGE_WAIT_MS
    if options.wait_for_ms and not is_unasked:
        return "wait_for_ms"
    return PROFILE if options.profile else None


def prefers_browser(options: ScrapeOptions) -> bool:
    """Tell whether a browser sees more of what is asked for: it reads style sheets."""
    return options.format(Branding) is not None


def is_elsewhere(options: ScrapeOptions) -> bool:
    """Tell whether the page is to see a visitor of another country."""
    place = options.location
    return place is not None and place.country not in {DEFAULT_COUNTRY, GENERIC_COUNTRY}
