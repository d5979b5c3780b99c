"""State and errors of a job, as the command line shows them."""

from __future__ import annotations

from attrs import frozen

# Codes of URLs that a rule left out, before the request or after it.
ROBOTS, EXTERNAL_LINK, CRAWL_DENIAL = "ROBOTS", "EXTERNAL_LINK", "CRAWL_DENIAL"
ACTIVE = ("queued", "scraping")


class OutputFailed(Exception):
    """Raised when the output cannot be written; the text is a sentence."""


class ReaderGone(Exception):
    """Raised when the reader of standard output has closed the pipe."""


@frozen
class FailedUrl:
    """A URL of a job that has no page, because of an error or a rule."""

    url: str
    code: str
    error: str

    @classmethod
    def of_robots(cls, url: str) -> FailedUrl:
        return cls(url, ROBOTS, "robots.txt refuses it")

    @property
    def is_left_out(self) -> bool:
        """Return True if a rule left the URL out: this is no error."""
        return self.code in {ROBOTS, EXTERNAL_LINK, CRAWL_DENIAL}


@frozen(kw_only=True)
class Status:
    """The state of a job and the counts of its URLs; None if not known."""

    state: str
    #: The URLs that the job has accepted.
    total: int
    #: The delivered pages.
    pages: int
    failed: int | None = None
    pending: int | None = None
    warning: str | None = None
    error: str | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE
