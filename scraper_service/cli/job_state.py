"""How far a job is, and what became of its URLs, as the command line tells it."""

from __future__ import annotations

from attrs import frozen

# Codes of URLs that a rule leaves out: before they are fetched, or their page.
ROBOTS, EXTERNAL_LINK, CRAWL_DENIAL = "ROBOTS", "EXTERNAL_LINK", "CRAWL_DENIAL"
ACTIVE = ("queued", "scraping")


class OutputFailed(Exception):
    """What was asked for could not be written; the text is a sentence."""


class ReaderGone(Exception):
    """Nobody reads standard output any more."""


@frozen
class Failure:
    """An address of a job that brought no page."""

    url: str
    code: str
    error: str

    @classmethod
    def of_robots(cls, url: str) -> Failure:
        return cls(url, ROBOTS, "robots.txt refuses it")

    @property
    def is_left_out(self) -> bool:
        """Whether a rule left it out: nothing went wrong."""
        return self.code in {ROBOTS, EXTERNAL_LINK, CRAWL_DENIAL}


@frozen(kw_only=True)
class Status:
    """How far a job is; None is not known. ``pages`` are those delivered."""

    state: str
    total: int
    pages: int
    failed: int | None = None
    pending: int | None = None
    warning: str | None = None
    error: str | None = None

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE
