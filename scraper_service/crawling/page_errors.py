"""Errors of pages, and the codes and texts that callers get for them.

The texts do not contain resolved IP addresses or states of connections, which would
describe internal networks to callers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)

from scraper_service.crawling.egress import ForbiddenDestination, ForbiddenPort
from scraper_service.items import PageError
from scraper_service.options.urls import host_of

if TYPE_CHECKING:
    from scraper_service.items import MapFound
    from scraper_service.options.scrape import ScrapeOptions

logger = logging.getLogger(__name__)

SITE_BLOCKED = "The operator of this service does not allow this site."


class PageFailure(Exception):
    """The base of errors that have their own code for callers."""

    code: ClassVar[str]
    #: The text for callers. None for the message of the error.
    text: ClassVar[str | None] = None


# -- the network ---------------------------------------------------------------------------


class CertificateError(PageFailure, DownloadFailedError):
    """Raised when the site's certificate or TLS handshake is invalid."""

    code = "SCRAPE_SSL_ERROR"
    text = (
        "The secure connection failed: the certificate of the site is not valid."
        " With skipTlsVerification it can be fetched all the same."
    )


class NoCommonTls(CertificateError):
    """Raised when the TLS handshake finds no common protocol. Retrying does not help."""

    text = (
        "The secure connection failed: the site speaks no TLS that this service"
        " speaks, or none at all. A URL with http:// may work."
    )


class ProxyFailed(PageFailure, DownloadConnectionRefusedError):
    """Raised when a proxy of the operator cannot be reached, or opens no connection."""

    code = "SCRAPE_SITE_ERROR"
    text = (
        "The proxy that the operator has set up for this site cannot be reached, or"
        " opens no connection to it."
    )


class TooManyRedirects(PageFailure, IgnoreRequest):
    """Raised when there are more redirects than ``REDIRECT_MAX_TIMES``."""

    code = "SCRAPE_SITE_ERROR"
    text = "The site redirects too often; the URL may lead back to itself."


class HostBusy(PageFailure, DownloadTimeoutError):
    """Raised when the pace of a host admits a request only after its deadline.

    ``opens_at`` is the time for another try, by the clock of the pace.
    """

    code = "SCRAPE_TIMEOUT"
    text = (
        "The site takes no further requests for now, and would not have in time."
        " A longer timeout, or a later request, may help."
    )

    def __init__(self, name: str, opens_at: float):
        super().__init__(f"{name} takes no further request in time")
        self.opens_at = opens_at


class ConvertersBusy(PageFailure, DownloadFailedError):
    """Raised when other large pages of the team were read until the time of a page was over."""

    code = "SCRAPE_TIMEOUT"
    text = (
        "The page is large, and other large pages of the team were read and converted"
        " until its time was over. A longer timeout may help."
    )


# -- the browser ---------------------------------------------------------------------------


class BrowserMissing(DownloadFailedError):
    """Raised when no browser is usable. The text has the reason and the remedy."""


class BrowserBusy(PageFailure, DownloadFailedError):
    """Raised when ``BROWSER_QUEUE`` pages already wait for the browser."""

    code = "CONCURRENCY_QUEUE_TIMEOUT"
    text = "Too many pages wait for the browser. A later request may help."


class BrowserGone(PageFailure, DownloadFailedError):
    """Raised when the browser, or the process of the page, ended before the result.

    ``had_begun`` is False before the first request of the page. Then the page is not the cause.
    """

    code = "SCRAPE_SITE_ERROR"
    text = (
        "The browser ended while it showed the page, two times with no other page"
        " beside it; the page may need more memory than it can have."
    )
    had_begun = True


class SessionOver(Exception):
    """Raised for a step whose session ended before it was done."""


class NotAPage(DownloadFailedError):
    """Raised when the URL leads to a file that a browser would only save."""


class PageTooLarge(PageFailure, DownloadFailedError):
    """Raised when the page, or a file of it, is too large. The text has the limit."""

    code = "SCRAPE_SITE_ERROR"

    def __init__(self, max_bytes: int):
        super().__init__(
            "The page is larger in the browser than this service accepts:"
            f" more than {max_bytes / 2**20:.4g} MiB."
        )


class ActionFailed(PageFailure, DownloadFailedError):
    """Raised when an action failed. The text has its index and the reason."""

    code = "SCRAPE_ACTION_ERROR"


class FileNotStored(PageFailure, DownloadFailedError):
    """Raised when a screenshot or PDF of the page could not be stored."""

    code = "SCRAPE_ALL_ENGINES_FAILED"


class MovedOn(Exception):  # not a failure
    """Raised when the page moved to ``url``, which is fetched as after a redirect.

    ``state`` has the cookies and storage for it, as Playwright's storage state.
    """

    def __init__(self, url: str):
        super().__init__(url)
        self.url = url
        self.state: dict[str, Any] = {}


# -- stored responses ----------------------------------------------------------------------


class SourceMissing(PageFailure):
    """Raised when a job without fetches finds no stored response of a page."""

    code = "SOURCE_NOT_STORED"
    text: ClassVar[str | None] = (
        "The response of this page is not stored any more, or never was:"
        " its job may have expired or been deleted."
    )


class SourceUnreadable(SourceMissing):
    """Raised with the reason when a stored response cannot be read now."""

    text = None

    def __init__(self, why: str):
        super().__init__(
            f"The response of this page cannot be read now: {why} Reprocess the job again"
            " when it can."
        )


class LockdownMiss(PageFailure, IgnoreRequest):
    """Raised when a page of a lockdown scrape is not in the cache."""

    code = "SCRAPE_LOCKDOWN_CACHE_MISS"
    text = "No stored copy of this page exists, and lockdown forbids to fetch it."


class NoCachedData(PageFailure, IgnoreRequest):
    """Raised when no stored response is as recent as the caller requires."""

    code = "SCRAPE_NO_CACHED_DATA"
    text = (
        "No stored copy of this page is as old as minAge requires."
        " Without minAge the page is fetched."
    )


# -- sites that are not fetched ------------------------------------------------------------


class BlockedSite(PageFailure, IgnoreRequest):
    """Raised when a request would go to one of ``BLOCKED_SITES``."""

    code = "UNSUPPORTED_SITE"
    text = SITE_BLOCKED


class SiteRefused(PageFailure, IgnoreRequest):
    """Raised when the options of the scrape exclude the site."""

    code = "UNSUPPORTED_SITE"
    text = (
        "The site is excluded by the threatProtection of this request or of its team."
    )


class RobotsRefused(PageFailure, IgnoreRequest):
    """Raised when the robots.txt of the site refuses a page. The text has the rule."""

    code = "robots"


class RobotsUnreachable(PageFailure, IgnoreRequest):
    """Raised when the robots.txt of the site is unreachable. The text has the reason."""

    code = "ROBOTS_UNREACHABLE"


def check_site(url: str, options: ScrapeOptions) -> None:
    """Raise :exc:`SiteRefused` if ``options`` exclude the site of ``url``."""
    if options.site_rules and not options.site_rules.allows(host_of(url)):
        rules, host = options.site_rules, host_of(url)
        is_strict = rules.only and host not in rules.only
        name = "strictConstrainToURLs" if is_strict else "threatProtection"
        raise SiteRefused(f"the site is excluded by {name}")


# -- codes and texts -----------------------------------------------------------------------

BAD_PORT = (
    "Port {0} is on the list of ports that no page comes from (bad ports of the Fetch"
    " standard). The operator can allow it for a network:"
    " SCRAPER_EGRESS_ALLOW=NETWORK@{0}."
)

#: Errors of others. The first matching class counts, so subclasses come first.
FAILURES: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        ForbiddenDestination,
        "UNSUPPORTED_SITE",
        (
            "The URL leads to a network that this service does not fetch from."
            " Its operator can allow it with SCRAPER_EGRESS_ALLOW."
        ),
    ),
    (
        DownloadTimeoutError,
        "SCRAPE_TIMEOUT",
        "The page did not load in time. A longer timeout may help.",
    ),
    (
        CannotResolveHostError,
        "SCRAPE_DNS_RESOLUTION_ERROR",
        "The host name of the URL does not resolve. Check its spelling.",
    ),
    (
        DownloadConnectionRefusedError,
        "SCRAPE_SITE_ERROR",
        "The site refuses connections.",
    ),
    (
        ResponseDataLossError,
        "SCRAPE_SITE_ERROR",
        "The site broke off in the middle of its response.",
    ),
    (
        DownloadCancelledError,
        "SCRAPE_SITE_ERROR",
        "The response of the site is larger than this service accepts.",
    ),
    (
        UnsupportedURLSchemeError,
        "SCRAPE_SITE_ERROR",
        "The URL cannot be fetched: only http and https can.",
    ),
    (
        DownloadFailedError,
        "SCRAPE_SITE_ERROR",
        "The site closed the connection or did not speak HTTP.",
    ),
)


def page_error(cause: BaseException) -> PageError:
    """Return the code and text for ``cause``. Logs an unknown cause."""
    if isinstance(cause, PageFailure):
        logger.debug("%s: %s", cause.code, cause)
        return PageError(cause.code, cause.text or str(cause))
    if isinstance(cause, BrowserMissing):
        return PageError(
            "SCRAPE_ACTIONS_NOT_SUPPORTED", f"The page needs a browser: {cause}."
        )
    if isinstance(cause, ForbiddenPort):
        return PageError("UNSUPPORTED_SITE", BAD_PORT.format(cause.port))
    for kind, code, message in FAILURES:
        if isinstance(cause, kind):
            logger.debug("%s: %s", code, cause)
            return PageError(code, message)
    logger.error("a page failed in an unforeseen way", exc_info=cause)
    return PageError("SCRAPE_ALL_ENGINES_FAILED", "The page could not be fetched.")


def map_failure(found: MapFound) -> PageError | None:
    """Return the error of a map without any result, None otherwise.

    The failure of the site is preferred to the state of its robots.txt.
    """
    if found.count or not found.failures:
        return None
    causes = [cause for _, cause in found.failures]
    of_robots = (RobotsRefused, RobotsUnreachable)
    return page_error(
        next((c for c in causes if not isinstance(c, of_robots)), causes[0])
    )


def map_warnings(found: MapFound) -> list[str]:
    """Return the warnings of a map for its caller."""
    failed = [
        f"{name} could not be read: {page_error(cause).message}"
        for name, cause in found.failures
    ]
    return [*failed, *found.warnings]
