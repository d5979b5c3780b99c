"""Why a browser brought no page."""

from __future__ import annotations

from typing import Any

from scrapy.exceptions import DownloadFailedError


class BrowserMissing(DownloadFailedError):
    """There is no browser to be used; the text says why and what to do."""


class BrowserGone(DownloadFailedError):
    """The browser, or the process of the page, ended in the middle of it.

    ``had_begun`` is False if nothing of the page had been asked for yet: then the page
    cannot have ended it.
    """

    had_begun = True


class NotAPage(DownloadFailedError):
    """The address leads to a file that a browser would only save."""


class PageTooLarge(DownloadFailedError):
    """The page, or a file of it, is larger than may be taken; the text says how large."""

    def __init__(self, max_bytes: int):
        super().__init__(
            "The page is larger in the browser than this service accepts:"
            f" more than {max_bytes / 2**20:.4g} MiB."
        )


class ActionFailed(DownloadFailedError):
    """An action could not be done; the text names its index and why."""


class BrowserBusy(DownloadFailedError):
    """As many pages wait for the browser as may."""


class MovedOn(Exception):  # what happened; it fails nothing
    """The page moved to ``url``, which has to be asked for like any other redirect.

    ``state`` are the cookies and storage that go with it, as Playwright has them.
    """

    def __init__(self, url: str):
        super().__init__(url)
        self.url = url
        self.state: dict[str, Any] = {}
