"""State and errors of a job, as the command line shows them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.storage.jobs.job_log import JobLogbook

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


def utc(seconds: float) -> str:
    """Return a time as ISO 8601 with seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def logbook_json(logbook: JobLogbook) -> dict[str, Any]:
    """Return the log of a job as JSON: ``log`` and ``reasons``."""
    return {
        "log": [
            {"time": utc(each.at), "event": each.kind, **each.facts}
            for each in logbook.entries
        ],
        "reasons": [
            {"code": code, "count": count, "error": text}
            for code, count, text in logbook.reasons
        ],
    }


def logbook_lines(logbook: JobLogbook) -> Iterator[str]:
    """Yield the log of a job as text."""
    for each in logbook.entries:
        facts = ", ".join(
            f"{name} {value if isinstance(value, str) else json.dumps(value)}"
            for name, value in each.facts.items()
        )
        yield f"{utc(each.at)}  {each.kind:10}  {facts}".rstrip()
    for code, count, text in logbook.reasons:
        yield f"{count} x {code}: {text}".rstrip(": ")
