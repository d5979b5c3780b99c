"""The status of a job as commands show it: its counts, its failed URLs and its log."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from scraper_service.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scraper_service.storage.jobs.job_log import JobLogbook

ACTIVE = ("queued", "scraping")
UUID_LENGTH = 36  # characters
MAX_SHOWN = 3  # ids in the error for an ambiguous prefix
LAST = "last"
# Codes of URLs that a rule left out, before the request or after it.
ROBOTS, EXTERNAL_LINK, CRAWL_DENIAL = "ROBOTS", "EXTERNAL_LINK", "CRAWL_DENIAL"


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


@frozen
class ShownJob:
    """What `jobs show` prints."""

    #: The job with its counts, as in the list of jobs.
    facts: dict[str, Any]
    failures: list[FailedUrl]
    #: The URLs that robots.txt refuses.
    refused: list[str]
    #: The Scrapy stats of the job.
    stats: dict[str, float]


def choose_id(text: str, ids: Sequence[str]) -> str:
    """Return the id in ``ids`` that begins with ``text``, or the first for ``last``.

    ``ids`` are ordered from the newest job to the oldest. Raises
    :exc:`click.ClickException` if no id or more than one id matches.
    """
    found = ids[:1] if text == LAST else [each for each in ids if each.startswith(text)]
    if not found:
        missing = "there are no jobs" if text == LAST else f"no job has an id {text}..."
        raise click.ClickException(f"{missing}; see `jobs list`")
    if len(found) > 1:
        shown = ", ".join(found[:MAX_SHOWN])
        more = ", ..." if len(found) > MAX_SHOWN else ""
        raise click.ClickException(
            f"{len(found)} jobs have an id {text}...: {shown}{more}"
        )
    return found[0]


def tell_left_out(urls: Iterable[str]) -> None:
    """Print the URLs of a batch that are left out."""
    for url in urls:
        click.echo(f"left out: {printable(str(url), 200)}", err=True)
