"""Errors of downloads over HTTP and in the browser, beside those of Scrapy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.exceptions import (
    DownloadConnectionRefusedError,
    DownloadFailedError,
    IgnoreRequest,
)

from scraper_service.options.urls import host_of

if TYPE_CHECKING:
    from scraper_service.options.scrape import ScrapeOptions


class CertificateError(DownloadFailedError):
    """Raised when the site's certificate or TLS handshake is invalid."""


class NoCommonTls(CertificateError):
    """Raised when the TLS handshake finds no common protocol. Retrying does not help."""


class ProxyFailed(DownloadConnectionRefusedError):
    """Raised when a proxy of the operator cannot be reached, or opens no connection."""


class TooManyRedirects(IgnoreRequest):
    """Raised when there are more redirects than ``REDIRECT_MAX_TIMES``."""


class BrowserMissing(DownloadFailedError):
    """Raised when no browser is usable. The text has the reason and the remedy."""


class SessionOver(Exception):
    """Raised for a step whose session ended before it was done."""


class BrowserGone(DownloadFailedError):
    """Raised when the browser, or the process of the page, ended before the result.

    ``had_begun`` is False if nothing of the page was requested yet. Then the page is not the
    cause.
    """

    had_begun = True


class NotAPage(DownloadFailedError):
    """Raised when the URL leads to a file that a browser would only save."""


class PageTooLarge(DownloadFailedError):
    """Raised when the page, or a file of it, is too large. The text has the limit."""

    def __init__(self, max_bytes: int):
        super().__init__(
            "The page is larger in the browser than this service accepts:"
            f" more than {max_bytes / 2**20:.4g} MiB."
        )


class ActionFailed(DownloadFailedError):
    """Raised when an action failed. The text has its index and the reason."""


class FileNotStored(DownloadFailedError):
    """Raised when a screenshot or PDF of the page could not be stored."""


class BrowserBusy(DownloadFailedError):
    """Raised when ``BROWSER_QUEUE`` pages already wait for the browser."""


class ConvertersBusy(DownloadFailedError):
    """Raised when other large pages of the team were read until the time of a page was over."""


class MovedOn(Exception):  # not a failure
    """Raised when the page moved to ``url``, which is fetched as after a redirect.

    ``state`` has the cookies and storage for it, as Playwright's storage state.
    """

    def __init__(self, url: str):
        super().__init__(url)
        self.url = url
        self.state: dict[str, Any] = {}


class SourceMissing(Exception):  # the name of its code is SOURCE_NOT_STORED
    """Raised when the response of a page is not stored, in a job that fetches nothing."""


class SourceUnreadable(SourceMissing):
    """Raised when the stored response of a page cannot be read now; the text says why."""

    def __init__(self, why: str):
        super().__init__(
            f"The response of this page cannot be read now: {why} Reprocess the job again"
            " when it can."
        )


SITE_BLOCKED = "The operator of this service does not allow this site."


class BlockedSite(IgnoreRequest):
    """Raised when a request would go to one of ``BLOCKED_SITES``."""


class RobotsRefused(IgnoreRequest):
    """Raised when the robots.txt of the site refuses a page. The text has the rule."""


class RobotsUnreachable(IgnoreRequest):
    """Raised when the robots.txt of the site is unreachable. The text has the reason."""


class SiteRefused(IgnoreRequest):
    """Raised when the options of the scrape exclude the site."""


def check_site(url: str, options: ScrapeOptions) -> None:
    """Raise :exc:`SiteRefused` if ``options`` exclude the site of ``url``."""
    if options.site_rules and not options.site_rules.allows(host_of(url)):
        rules, host = options.site_rules, host_of(url)
        is_strict = rules.only and host not in rules.only
        name = "strictConstrainToURLs" if is_strict else "threatProtection"
        raise SiteRefused(f"the site is excluded by {name}")
