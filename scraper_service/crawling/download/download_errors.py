"""What the download handlers raise beside Scrapy's own errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import (
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
)

if TYPE_CHECKING:
    from scraper_service.storage.politeness.pace import HostBusy


class CertificateError(DownloadFailedError):
    """The site's certificate, or its TLS, did not stand the check."""


class NoCommonTls(CertificateError):
    """The site speaks no TLS that we speak, or none at all; no option changes that."""


class SiteBusy(DownloadTimeoutError):
    """The pace of the site leaves no time for the request before its deadline.

    ``opens_at`` (:func:`time.monotonic`) is when it is worth to ask again.
    """

    def __init__(self, busy: HostBusy):
        super().__init__(str(busy))
        self.opens_at = busy.opens_at


class TooManyRedirects(IgnoreRequest):
    """A chain of redirects is longer than ``REDIRECT_MAX_TIMES``."""
