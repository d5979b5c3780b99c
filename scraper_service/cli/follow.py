"""Follow a job to its end, wherever it runs: write its pages, show how far it is."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.cli.output import Failure, Output
    from scraper_service.cli.progress import Progress

ACTIVE = ("queued", "scraping")
MAX_SHOWN = 3  # failures, with a job that brought nothing


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


class Source(Protocol):
    """Where a job can be looked at: the database here, or a service."""

    job_id: str
    poll_s: float

    async def poll(self, skip: int) -> tuple[Status, list[bytes]]:
        """Return the state of the job and pages from number ``skip``, of one moment."""

    async def current(self) -> str | None:
        """Return an address that is being fetched, None if that is not known."""

    async def failures(self) -> list[Failure]:
        """Return the addresses that brought no page so far.

        Those that robots.txt refuses only where there is no page at all.
        """


class Follower:
    """Writes the pages of a job as they come, and shows how far it is."""

    def __init__(self, source: Source, output: Output, progress: Progress):
        self._source = source
        self._output = output
        self._progress = progress
        self._written = 0

    async def follow(self, stopped: asyncio.Event) -> Status:
        """Return the last state of the job, when it has ended or ``stopped`` is set.

        All pages that it has then are written. Raises what output and source raise.
        """
        source, progress = self._source, self._progress
        while True:
            status, pages = await source.poll(self._written)
            if pages:
                await asyncio.to_thread(self._output.write, pages)
                self._written += len(pages)
                progress.pages(pages)
            goes_on = progress.is_live and status.is_active
            progress.show(status, await source.current() if goes_on else None)
            if pages and self._written < status.pages:
                continue
            if not status.is_active or stopped.is_set():
                return status
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), source.poll_s)

    async def close(self, status: Status) -> list[Failure]:
        """End the output of a job; return what brought no page, if it has ended."""
        failures = [] if status.is_active else await self._source.failures()
        ended = None if status.is_active else failures
        await asyncio.to_thread(self._output.close, ended)
        return failures


def stop_signals() -> list[signal.Signals]:
    """Return the signals that end a command; not those that it is to ignore.

    ``nohup`` and shells that start it in the background say so.
    """
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [s for s in wanted if signal.getsignal(s) is not signal.SIG_IGN]


def exit_code(status: Status) -> int:
    """Return 0 for a job that was completed and brought a page, else 1."""
    return 0 if status.state == "completed" and status.pages else 1


def counted(status: Status) -> str:
    """Return how many pages a job has delivered."""
    return f"{status.pages} page{'s' * (status.pages != 1)}"


def summary(status: Status, failures: Sequence[Failure]) -> str:
    """Return sentences about a job that has ended: how, and why if there is nothing."""
    words = [f"{status.state}: {counted(status)}"]
    if failures:
        words.append(f"{len(failures)} failed")
    lines = [", ".join(words)]
    lines += [text for text in (status.error, status.warning) if text]
    if not status.pages:
        shown = failures[:MAX_SHOWN]
        lines += [f"{f.url}: {f.error} ({f.code})" for f in shown]
    return "\n".join(map(printable, lines))
