"""What this release cannot do, and what it does without effect.

The checks apply to every entrance: a valid option is refused here, not silently dropped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.errors import OptionUnavailable
from scraper_service.options import formats
from scraper_service.options.engine import PROFILE, needs_browser
from scraper_service.options.jobs import CrawlOptions
from scraper_service.options.model import BY_MODEL
from scraper_service.options.scrape import ScrapeOptions

if TYPE_CHECKING:
    from scraper_service.options.jobs import BatchOptions

RECOGNISER = "tesseract"

_MEDIA = "it needs a media extractor, which this release does not have"

FORMATS_UNAVAILABLE: dict[type[formats.Format], str] = {
    formats.Audio: _MEDIA,
    formats.Video: _MEDIA,
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
        "the PDF mode 'ocr' is not available here: it needs the program tesseract, "
        "which is not installed on this server",
        lambda o: (
            o.pdf_parser is not None
            and o.pdf_parser.mode == "ocr"
            and not can_recognise_text()
        ),
    ),
)


def require_available(
    options: ScrapeOptions, browser: str | None = None, model: str | None = None
) -> None:
    """Check that every option can be honoured.

    ``browser`` says why there is no browser, ``model`` why there is no language model;
    None if there is one.

    :raises OptionUnavailable: for the first that cannot.
    """
    for item in options.formats:
        if reason := FORMATS_UNAVAILABLE.get(type(item)):
            name = item.key if isinstance(item, formats.Json) else item.type
            raise OptionUnavailable(
                "formats",
                f"format {name!r} is not available here: {reason}",
            )
    needed = needs_browser(options)
    if browser is not None and needed is not None and needed != PROFILE:
        raise OptionUnavailable(
            needed,
            f"{_OF_A_BROWSER[needed]} is not available here: {browser}",
            "SCRAPE_ACTIONS_NOT_SUPPORTED" if needed == "actions" else "BAD_REQUEST",
        )
    if model is not None:
        _require_no_model(options, model)
    for limit in LIMITS:
        if limit.asked(options):
            raise OptionUnavailable(limit.attribute, limit.message, limit.code)


def _require_no_model(options: ScrapeOptions, reason: str) -> None:
    """Check that a page has something to answer without a model.

    A check for the caller's safety is never left out.
    """
    if options.formats and all(isinstance(f, BY_MODEL) for f in options.formats):
        name = options.formats[0].type
        text = f"format {name!r} is not available here: {reason}"
        raise OptionUnavailable("formats", text)
    if options.check_prompt_injection:
        text = f"the check for prompt injection is not available here: {reason}"
        raise OptionUnavailable("check_prompt_injection", text)
    if options.checks_injection:
        text = f"the check for prompt injection is not available here: {reason}"
        raise OptionUnavailable("formats", text)


def require_job_available(
    options: CrawlOptions | BatchOptions,
    browser: str | None = None,
    model: str | None = None,
) -> None:
    """Check that every option of a job and of its pages can be honoured.

    ``browser`` and ``model`` as in :func:`require_available`.

    :raises OptionUnavailable: for the first that cannot.
    """
    try:
        require_available(options.scrape, browser, model)
    except OptionUnavailable as error:
        error.nested = isinstance(options, CrawlOptions)
        raise
