"""The client that a page sees: device, location and language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.options.formats import Screenshot
from scraper_service.options.location import (
    DEFAULT_COUNTRY,
    GENERIC_COUNTRY,
    LANGUAGES,
    TIME_ZONES,
)

if TYPE_CHECKING:
    from scraper_service.options.location import Location
    from scraper_service.options.scrape import ScrapeOptions

DESKTOP = {"width": 1280, "height": 720}
MOBILE = {"width": 412, "height": 839}
MOBILE_SCALE = 2.625
LOCALE = "en-US"

_DESKTOP_AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/{major}.0.0.0 Safari/537.36 {name}"
)
_MOBILE_AGENT = (
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/{major}.0.0.0 Mobile Safari/537.36 {name}"
)


def user_agent(browser_version: str, name: str, *, mobile: bool) -> str:
    """Return the User-Agent of the browser. ``name`` has the operator's product tokens."""
    text = _MOBILE_AGENT if mobile else _DESKTOP_AGENT
    return text.format(major=browser_version.partition(".")[0], name=name)


def time_zone(place: Location | None) -> str | None:
    """Return the time zone of a location, None for the zone of the service."""
    if place is None or place.country == GENERIC_COUNTRY:
        return None
    return TIME_ZONES.get(place.country)


def languages(place: Location | None) -> tuple[str, ...]:
    """Return the languages of a location, best first."""
    if place is None:
        return (LOCALE, "en")
    if place.languages:
        return tuple(tag for tag in place.languages if tag != "*") or (LOCALE,)
    if place.country in {DEFAULT_COUNTRY, GENERIC_COUNTRY}:
        return (LOCALE, "en")
    language = LANGUAGES[place.country]
    return (f"{language}-{place.country}", language, "en")


def context_options(options: ScrapeOptions, version: str, name: str) -> dict[str, Any]:
    """Return the arguments of Playwright's ``new_context`` for a page."""
    shot = options.format(Screenshot)
    viewport = MOBILE if options.mobile else DESKTOP
    if shot and shot.viewport:
        viewport = {"width": shot.viewport.width, "height": shot.viewport.height}
    tags = languages(options.location)
    result: dict[str, Any] = {
        "accept_downloads": False,
        "has_touch": options.mobile,
        "ignore_https_errors": options.skip_tls_verification,
        "is_mobile": options.mobile,
        "locale": tags[0].replace("_", "-"),
        "permissions": [],
        "service_workers": "block",
        "user_agent": user_agent(version, name, mobile=options.mobile),
        "viewport": viewport,
    }
    if options.mobile:
        result["device_scale_factor"] = MOBILE_SCALE
    if zone := time_zone(options.location):
        result["timezone_id"] = zone
    return result
