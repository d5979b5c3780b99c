"""What this release cannot do, and what it does without effect.

The checks apply to every entrance: a valid option is refused here, not silently dropped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.errors import OptionUnavailable
from scraper_service.options import formats
from scraper_service.options.engine import PROFILE, needs_browser
from scraper_service.options.jobs import CrawlOptions
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from scraper_service.options.jobs import BatchOptions

RECOGNISER = "tesseract"

_MODEL = "it needs a language model, which this release does not have"
_MEDIA = "it needs a media extractor, which this release does not have"

FORMATS_UNAVAILABLE: dict[type[formats.Format], str] = {
    formats.Branding: "it needs the styles of a page, which this release does not read",
    formats.Json: _MODEL,
    formats.Summary: _MODEL,
    formats.Question: _MODEL,
    formats.Highlights: _MODEL,
    formats.Query: _MODEL,
    formats.Product: "it needs structured data, which this release does not read",
    formats.Menu: "it needs structured data, which this release does not read",
    formats.Audio: _MEDIA,
    formats.Video: _MEDIA,
}

_FORMAT_CODES: dict[type[formats.Format], str] = {
    formats.Branding: "SCRAPE_BRANDING_NOT_SUPPORTED",
}


def can_recognise_text() -> bool:
    """Tell whether the program that reads text in pictures is installed."""
    return shutil.which(RECOGNISER) is not None


_OF_A_BROWSER = {
    "actions": "an action",
    "formats": "format 'screenshot'",
    "mobile": "the mobile view",
    "session": "a session",
    "wait_for_ms": "waiting on a page",
}


@frozen
class Limit:
    """An option that cannot be used when ``asked`` holds."""

    attribute: str
    message: str
    asked: Callable[[ScrapeOptions], bool]
    code: str = "BAD_REQUEST"


LIMITS = (
    Limit(
        "parsers",
        "the parser 'image' is not available here: it needs the program tesseract, "
        "which is not installed on this server",
        lambda o: o.reads_images and not can_recognise_text(),
    ),
    Limit(
        "parsers",
        "the PDF mode 'ocr' is not available here: it needs the program tesseract, "
        "which is not installed on this server",
        lambda o: (
            o.pdf_parser is not None
            and o.pdf_parser.mode == "ocr"
            and not can_recognise_text()
        ),
    ),
)

REMARKS: tuple[tuple[Callable[[ScrapeOptions], bool], str], ...] = (
    (
        lambda o: o.only_clean_content,
        "The clean-up by a language model was left out: this release has none.",
    ),
)


@frozen
class JobLimit:
    """An option of a job of which only ``accepted`` can be used."""

    attribute: str
    accepted: tuple[Any, ...]
    message: str


JOB_LIMITS = (JobLimit("prompt", (None,), f"a prompt is not available here: {_MODEL}"),)


def require_available(options: ScrapeOptions, browser: str | None = None) -> None:
    """Check that every option can be honoured.

    ``browser`` says why there is no browser, None if there is one.

    :raises OptionUnavailable: for the first that cannot.
    """
    for item in options.formats:
        if reason := FORMATS_UNAVAILABLE.get(type(item)):
            name = item.key if isinstance(item, formats.Json) else item.type
            raise OptionUnavailable(
                "formats",
                f"format {name!r} is not available here: {reason}",
                _FORMAT_CODES.get(type(item), "BAD_REQUEST"),
            )
    needed = needs_browser(options)
    if browser is not None and needed is not None and needed != PROFILE:
        raise OptionUnavailable(
            needed,
            f"{_OF_A_BROWSER[needed]} is not available here: {browser}",
            "SCRAPE_ACTIONS_NOT_SUPPORTED" if needed == "actions" else "BAD_REQUEST",
        )
    for limit in LIMITS:
        if limit.asked(options):
            raise OptionUnavailable(limit.attribute, limit.message, limit.code)


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


def require_job_available(
    options: CrawlOptions | BatchOptions, browser: str | None = None
) -> None:
    """Check that every option of a job and of its pages can be honoured.

    ``browser`` as in :func:`require_available`.

    :raises OptionUnavailable: for the first that cannot.
    """
    try:
        require_available(options.scrape, browser)
    except OptionUnavailable as error:
        error.nested = isinstance(options, CrawlOptions)
        raise
    for limit in JOB_LIMITS:
        if getattr(options, limit.attribute, limit.accepted[0]) not in limit.accepted:
            raise OptionUnavailable(limit.attribute, limit.message)


def remarks(options: ScrapeOptions) -> tuple[str, ...]:
    """Return a sentence for each option that was accepted and has no effect here."""
    return tuple(text for applies, text in REMARKS if applies(options))
