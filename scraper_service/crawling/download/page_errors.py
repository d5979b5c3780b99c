"""Maps exceptions of downloads to the error codes and texts for callers.

The texts do not contain resolved IP addresses or states of connections, which would
describe internal networks to callers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)

from scraper_service.crawling.download.download_errors import (
    SITE_BLOCKED,
    ActionFailed,
    BlockedSite,
    BrowserBusy,
    BrowserGone,
    BrowserMissing,
    CertificateError,
    ConvertersBusy,
    FileNotStored,
    NoCommonTls,
    PageTooLarge,
    ProxyFailed,
    RobotsRefused,
    RobotsUnreachable,
    SiteRefused,
    SourceMissing,
    SourceUnreadable,
    TooManyRedirects,
)
from scraper_service.crawling.download.egress import ForbiddenDestination, ForbiddenPort
from scraper_service.crawling.download.page_cache import LockdownMiss, NoCachedData
from scraper_service.crawling.politeness.host_pace import HostBusy
from scraper_service.items import PageError

if TYPE_CHECKING:
    from scraper_service.items import MapFound

logger = logging.getLogger(__name__)

# The message of the exception is the text: the rule of robots.txt, or its error.
ROBOTS: dict[type[BaseException], str] = {
    RobotsRefused: "robots",
    RobotsUnreachable: "ROBOTS_UNREACHABLE",
}
# As above: the failed action, the size of the page, or the failure of the store.
RENDERING: dict[type[BaseException], str] = {
    ActionFailed: "SCRAPE_ACTION_ERROR",
    PageTooLarge: "SCRAPE_SITE_ERROR",
    FileNotStored: "SCRAPE_ALL_ENGINES_FAILED",
}

BAD_PORT = (
    "Port {0} is on the list of ports that no page comes from (bad ports of the Fetch"
    " standard). The operator can allow it for a network:"
    " SCRAPER_EGRESS_ALLOW=NETWORK@{0}."
)

# The first matching class counts, so subclasses come first.
FAILURES: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        ForbiddenDestination,
        "UNSUPPORTED_SITE",
        (
            "The URL leads to a network that this service does not fetch from."
            " Its operator can allow it with SCRAPER_EGRESS_ALLOW."
        ),
    ),
    (BlockedSite, "UNSUPPORTED_SITE", SITE_BLOCKED),
    (
        SiteRefused,
        "UNSUPPORTED_SITE",
        "The site is excluded by the threatProtection of this request or of its team.",
    ),
    (
        SourceMissing,
        "SOURCE_NOT_STORED",
        (
            "The response of this page is not stored any more, or never was:"
            " its job may have expired or been deleted."
        ),
    ),
    (
        LockdownMiss,
        "SCRAPE_LOCKDOWN_CACHE_MISS",
        "No stored copy of this page exists, and lockdown forbids to fetch it.",
    ),
    (
        NoCachedData,
        "SCRAPE_NO_CACHED_DATA",
        (
            "No stored copy of this page is as old as minAge requires."
            " Without minAge the page is fetched."
        ),
    ),
    (
        TooManyRedirects,
        "SCRAPE_SITE_ERROR",
        "The site redirects too often; the URL may lead back to itself.",
    ),
    (
        HostBusy,
        "SCRAPE_TIMEOUT",
        (
            "The site takes no further requests for now, and would not have in time."
            " A longer timeout, or a later request, may help."
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
        NoCommonTls,
        "SCRAPE_SSL_ERROR",
        (
            "The secure connection failed: the site speaks no TLS that this service"
            " speaks, or none at all. A URL with http:// may work."
        ),
    ),
    (
        CertificateError,
        "SCRAPE_SSL_ERROR",
        (
            "The secure connection failed: the certificate of the site is not valid."
            " With skipTlsVerification it can be fetched all the same."
        ),
    ),
    (
        ProxyFailed,
        "SCRAPE_SITE_ERROR",
        (
            "The proxy that the operator has set up for this site cannot be reached, or"
            " opens no connection to it."
        ),
    ),
    (
        DownloadConnectionRefusedError,
        "SCRAPE_SITE_ERROR",
        "The site refuses connections.",
    ),
    (
        BrowserGone,
        "SCRAPE_SITE_ERROR",
        (
            "The browser ended while it showed the page, two times with no other page"
            " beside it; the page may need more memory than it can have."
        ),
    ),
    (
        BrowserBusy,
        "CONCURRENCY_QUEUE_TIMEOUT",
        "Too many pages wait for the browser. A later request may help.",
    ),
    (
        ConvertersBusy,
        "SCRAPE_TIMEOUT",
        (
            "The page is large, and other large pages of the team were read and converted"
            " until its time was over. A longer timeout may help."
        ),
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
    for refusal, code in (*ROBOTS.items(), *RENDERING.items()):
        if isinstance(cause, refusal):
            return PageError(code, str(cause))
    if isinstance(cause, SourceUnreadable):
        return PageError("SOURCE_NOT_STORED", str(cause))
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
    errors = [page_error(cause) for _, cause in found.failures]
    return next((e for e in errors if e.code not in ROBOTS.values()), errors[0])


def map_warnings(found: MapFound) -> list[str]:
    """Return the warnings of a map for its caller."""
    failed = [
        f"{name} could not be read: {page_error(cause).message}"
        for name, cause in found.failures
    ]
    return [*failed, *found.warnings]
