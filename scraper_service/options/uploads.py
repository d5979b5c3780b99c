"""What cannot be asked of a file that a caller sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.errors import OptionUnavailable
from scraper_service.options import formats

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.options.scrape import ScrapeOptions

# Interface document, 20.1: what has no meaning for a file.
_NOT_OF_FILES: tuple[tuple[str, str, Callable[[ScrapeOptions], bool]], ...] = (
    ("actions", "actions", lambda o: bool(o.actions)),
    ("wait_for_ms", "waiting on a page", lambda o: bool(o.wait_for_ms)),
    ("mobile", "the mobile view", lambda o: o.mobile),
    ("location", "a location", lambda o: o.location is not None),
    ("proxy", "the proxy 'stealth'", lambda o: o.proxy == "stealth"),
    ("session", "a session", lambda o: o.session is not None),
    ("profile", "a profile", lambda o: o.profile is not None),
)
_FORMATS_NOT_OF_FILES: dict[type[formats.Format], str] = {
    formats.ChangeTracking: "changeTracking",
    formats.Screenshot: "screenshot",
    formats.Branding: "branding",
    formats.Audio: "audio",
    formats.Video: "video",
}


def require_parseable(options: ScrapeOptions) -> None:
    """Check that every option means something for a file that a caller sent.

    :raises OptionUnavailable: for the first that does not.
    """
    code = "PARSE_UNSUPPORTED_OPTIONS"
    for attribute, what, asked in _NOT_OF_FILES:
        if asked(options):
            message = f"{what} cannot be had with an uploaded file"
            raise OptionUnavailable(attribute, message, code)
    for item in options.formats:
        if name := _FORMATS_NOT_OF_FILES.get(type(item)):
            message = f"format {name!r} cannot be made of an uploaded file"
            raise OptionUnavailable("formats", message, code)
