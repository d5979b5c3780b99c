"""Why a browser brought no page."""

from __future__ import annotations

from scrapy.exceptions import DownloadFailedError


class BrowserMissing(DownloadFailedError):
    """There is no browser to be used; the text says why and what to do."""


class BrowserGone(DownloadFailedError):
    """The browser, or the process of the page, ended in the middle of it."""


class NotAPage(DownloadFailedError):
    """The address leads to a file that a browser would only save."""


class ActionFailed(DownloadFailedError):
    """An action could not be done; the text names its index and why."""


class BrowserBusy(DownloadFailedError):
    """As many pages wait for the browser as may."""
