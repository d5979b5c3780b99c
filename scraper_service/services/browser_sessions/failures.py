"""The failures of steps that callers get to know, with their sentences."""

from __future__ import annotations

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
)

from scraper_service.crawling.page_errors import page_error
from scraper_service.errors import ServiceUnavailable
from scraper_service.llm.model import ModelError

FAILURES = (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ModelError,
    OSError,
    ServiceUnavailable,
)


def reason_of(error: BaseException) -> str:
    """Return the sentence for a caller about a failed step."""
    from scraper_service.crawling.browser.held_page import NoPage  # noqa: PLC0415

    if isinstance(error, NoPage):
        return f"{str(error)[:1].upper()}{str(error)[1:]}."
    if isinstance(error, ModelError):
        return f"The language model gave no usable answer: {error.reason}."
    if isinstance(error, ServiceUnavailable):
        return str(error)
    return page_error(error).message
