"""Options that need a browser, a language model or another program, or no file.

The checks apply to every entrance: a valid option without effect is refused.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from scraper_service.errors import OptionUnavailable
from scraper_service.options import formats
from scraper_service.options.crawl import CrawlOptions
from scraper_service.options.formats import (
    ROW_OF,
    UPLOAD,
    Branding,
    ChangeTracking,
    Screenshot,
)
from scraper_service.options.scrape import (
    CHANGE_WAIT_MS,
    DEFAULT_COUNTRY,
    GENERIC_COUNTRY,
    ScrapeOptions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from scraper_service.options.crawl import BatchOptions

HTTP = "http"
BROWSER = "browser"
PROFILE = "profile"  # the only such option that is dropped without a browser


def needs_browser(options: ScrapeOptions) -> str | None:
    """Return the name of an option that needs a browser, None if there is none.

    :data:`PROFILE` is returned only if no other option needs a browser.
    """
    if options.format(Screenshot):
        return "formats"
    for name in ("actions", "mobile", "session"):
        if getattr(options, name):
            return name
    # Change tracking sets this wait for rendered pages; the caller did not set it.
    tracked = options.format(ChangeTracking)
    is_automatic = tracked is not None and options.wait_for_ms == CHANGE_WAIT_MS
    if options.wait_for_ms and not is_automatic:
        return "wait_for_ms"
    return PROFILE if options.profile else None


def prefers_browser(options: ScrapeOptions) -> bool:
    """Return True if a browser gives better results: it reads style sheets."""
    return options.format(Branding) is not None


def why_not_rendered(options: ScrapeOptions, missing: str | None) -> str | None:
    """Return why no browser renders a page that came over HTTP, None if one may.

    ``missing`` is the reason why there is no browser, None if there is one.
    """
    if options.fast_mode:
        return "fastMode fetches pages over HTTP alone"
    if options.lockdown:
        return "lockdown takes stored responses as they are"
    return missing


def is_elsewhere(options: ScrapeOptions) -> bool:
    """Return True if the page is requested for another country than the default."""
    place = options.location
    return place is not None and place.country not in {DEFAULT_COUNTRY, GENERIC_COUNTRY}


NO_MODEL = (
    "it needs a language model, which the operator has not set up"
    " (SCRAPER_LLM_BASE_URL)"
)

NO_AGENT = (
    "The agent needs a language model, which the operator has not set up"
    " (SCRAPER_LLM_BASE_URL, SCRAPER_LLM_MODEL). Without a model, POST /v2/extract with"
    " enableWebSearch searches and reads pages."
)


def is_by_either(item: formats.Format) -> bool:
    """Return True if rules produce the format without a model, or after it failed."""
    if isinstance(item, formats.Json):
        return item.selectors is None
    if isinstance(item, formats.ChangeTracking):
        return item.selectors is None and "json" in item.modes
    return isinstance(item, formats.Summary)


def missing_model(settings: Mapping[str, Any]) -> str | None:
    """Return the reason why there is no language model, None if there is a model."""
    return None if settings["LLM_BASE_URL"] else NO_MODEL


def is_answered(item: formats.Format) -> bool:
    """Return True if a model produces the format, where there is a model."""
    return is_by_either(item) or ROW_OF[type(item)].by_model


def is_by_model(found: Iterable[formats.Format]) -> bool:
    """Return True if only a model produces the formats."""
    return all(ROW_OF[type(item)].by_model for item in found)


def asks_model(options: ScrapeOptions) -> bool:
    """Return True if a model reads the page, where there is a model."""
    return (
        options.only_clean_content
        or options.checks_injection
        or any(map(is_answered, options.formats))
    )


RECOGNISER = "tesseract"
NO_RECOGNISER = (
    "the PDF mode 'ocr' is not available here: it needs the program tesseract, "
    "which is not installed on this server"
)


def can_recognise_text() -> bool:
    """Return True if the program that recognises text in images is installed."""
    return shutil.which(RECOGNISER) is not None


_OF_A_BROWSER = {
    "actions": "an action",
    "formats": "format 'screenshot'",
    "mobile": "the mobile view",
    "session": "a session",
    "wait_for_ms": "waiting on a page",
}


def require_available(
    options: ScrapeOptions, browser: str | None = None, model: str | None = None
) -> None:
    """Check that every option can have an effect.

    ``browser`` is the reason why there is no browser, ``model`` why there is no language
    model; None if there is.

    :raises OptionUnavailable: for the first option that cannot.
    """
    for item in options.formats:
        if reason := ROW_OF[type(item)].missing:
            text = f"format {item.type!r} is not available here: {reason}"
            raise OptionUnavailable("formats", text)
    needed = needs_browser(options)
    if browser is not None and needed is not None and needed != PROFILE:
        raise OptionUnavailable(
            needed,
            f"{_OF_A_BROWSER[needed]} is not available here: {browser}",
            "SCRAPE_ACTIONS_NOT_SUPPORTED" if needed == "actions" else "BAD_REQUEST",
        )
    if model is not None:
        _require_no_model(options, model)
    pdf = options.pdf_parser
    if pdf is not None and pdf.mode == "ocr" and not can_recognise_text():
        raise OptionUnavailable("parsers", NO_RECOGNISER)


def _require_no_model(options: ScrapeOptions, reason: str) -> None:
    """Check that a page has a result without a model.

    The check for prompt injection is never left out, as it protects the caller.
    """
    if options.formats and is_by_model(options.formats):
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
    """Check that every option of a job and of its pages can have an effect.

    ``browser`` and ``model`` are as in :func:`require_available`.

    :raises OptionUnavailable: for the first option that cannot.
    """
    try:
        require_available(options.scrape, browser, model)
    except OptionUnavailable as error:
        error.nested = isinstance(options, CrawlOptions)
        raise


def require_researchable(model: str | None) -> None:
    """Check that deep research can be done: a language model plans and writes it.

    ``model`` is as in :func:`require_available`.

    :raises OptionUnavailable: without a language model.
    """
    if model is not None:
        text = f"deep research is not available here: {model}"
        raise OptionUnavailable("query", text, "LANGUAGE_MODEL_REQUIRED")


def require_agent(model: str | None) -> None:
    """Check that an agent can run: a language model chooses its steps.

    ``model`` is as in :func:`require_available`.

    :raises OptionUnavailable: without a language model.
    """
    if model is not None:
        raise OptionUnavailable("prompt", NO_AGENT, "LANGUAGE_MODEL_REQUIRED")


# Options without a meaning for a file: attribute, name, test. See docs/api/scrape.md, Uploads.
_NOT_OF_FILES: tuple[tuple[str, str, Callable[[ScrapeOptions], bool]], ...] = (
    ("actions", "actions", lambda o: bool(o.actions)),
    ("wait_for_ms", "waitFor", lambda o: bool(o.wait_for_ms)),
    ("mobile", "mobile", lambda o: o.mobile),
    ("location", "location", lambda o: o.location is not None),
    ("proxy", "proxy 'stealth'", lambda o: o.proxy == "stealth"),
    ("session", "session", lambda o: o.session is not None),
    ("profile", "profile", lambda o: o.profile is not None),
)


def require_parseable(options: ScrapeOptions) -> None:
    """Check that every option has a meaning for an uploaded file.

    :raises OptionUnavailable: for the first option that has none.
    """
    code = "PARSE_UNSUPPORTED_OPTIONS"
    for attribute, what, is_set in _NOT_OF_FILES:
        if is_set(options):
            message = f"{what} cannot be used with an uploaded file"
            raise OptionUnavailable(attribute, message, code)
    for item in options.formats:
        if UPLOAD in (row := ROW_OF[type(item)]).not_of:
            message = f"format {row.name!r} cannot be made of an uploaded file"
            raise OptionUnavailable("formats", message, code)
