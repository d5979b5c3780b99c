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
from scraper_service.options.jobs import CrawlOptions
from scraper_service.options.scrape import DEFAULT_COUNTRY, ScrapeOptions

if TYPE_CHECKING:
    from scraper_service.options.jobs import BatchOptions

RECOGNISER = "tesseract"

_BROWSER = "it needs a browser engine, which this release does not have"
_MODEL = "it needs a language model, which this release does not have"
_MEDIA = "it needs a media extractor, which this release does not have"

FORMATS_UNAVAILABLE: dict[type[formats.Format], str] = {
    formats.Screenshot: _BROWSER,
    formats.Branding: _BROWSER,
    formats.Json: _MODEL,
    formats.Summary: _MODEL,
    formats.Question: _MODEL,
    formats.Highlights: _MODEL,
    formats.Query: _MODEL,
    formats.ChangeTracking: "it needs stored pages, which this release does not keep",
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


@frozen
class Limit:
    """An option that cannot be used when ``asked`` holds."""

    attribute: str
    message: str
    asked: Callable[[ScrapeOptions], bool]
    code: str = "BAD_REQUEST"


LIMITS = (
    Limit(
        "actions",
        f"actions are not available here: they need {_BROWSER.removeprefix('it needs ')}",
        lambda o: bool(o.actions),
        "SCRAPE_ACTIONS_NOT_SUPPORTED",
    ),
    Limit(
        "wait_for_ms",
        f"waiting on a page is not available here: {_BROWSER}",
        lambda o: o.wait_for_ms > 0,
    ),
    Limit(
        "mobile",
        f"the mobile view is not available here: {_BROWSER}",
        lambda o: o.mobile,
    ),
    Limit(
        "proxy",
        "proxy 'stealth' is not available here: it needs a pool of proxies, "
        "which this release does not have",
        lambda o: o.proxy == "stealth",
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
    (
        lambda o: o.profile is not None,
        "The browser profile was not used: this release has no browser engine.",
    ),
    (
        lambda o: o.location is not None and o.location.country != DEFAULT_COUNTRY,
        "The country was not used: pages are fetched from the service's own address.",
    ),
)


@frozen
class JobLimit:
    """An option of a job of which only ``accepted`` can be used."""

    attribute: str
    accepted: tuple[Any, ...]
    message: str


JOB_LIMITS = (JobLimit("prompt", (None,), f"a prompt is not available here: {_MODEL}"),)


def require_available(options: ScrapeOptions) -> None:
    """Check that every option can be honoured.

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
    for limit in LIMITS:
        if limit.asked(options):
            raise OptionUnavailable(limit.attribute, limit.message, limit.code)


def require_job_available(options: CrawlOptions | BatchOptions) -> None:
    """Check that every option of a job and of its pages can be honoured.

    :raises OptionUnavailable: for the first that cannot.
    """
    try:
        require_available(options.scrape)
    except OptionUnavailable as error:
        error.nested = isinstance(options, CrawlOptions)
        raise
    for limit in JOB_LIMITS:
        if getattr(options, limit.attribute, limit.accepted[0]) not in limit.accepted:
            raise OptionUnavailable(limit.attribute, limit.message)


def remarks(options: ScrapeOptions) -> tuple[str, ...]:
    """Return a sentence for each option that was accepted and has no effect here."""
    return tuple(text for applies, text in REMARKS if applies(options))
