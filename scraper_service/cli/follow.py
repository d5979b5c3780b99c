"""Follow a job to its end, wherever it runs: write its pages, show how far it is."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import field, frozen

from scraper_service.cli.job_state import CRAWL_DENIAL, Failure, Status
from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from scraper_service.cli.output import Output
    from scraper_service.cli.progress import Progress

MAX_SHOWN = 3  # failures, with a job that brought nothing
# Why a URL is not fetched, or its page not delivered: reasons of the service
# (scraper_service.discovery.Reason), as they follow a number of URLs.
LEFT_OUT = {
    "blocked_site": "of a site that the operator has blocked",
    "discovery_depth": "more links away than --depth (maxDiscoveryDepth)",
    "duplicate": "with the page of another URL",
    "excluded": "that match --exclude (excludePaths)",
    "external": "of other sites",
    "external_home": "of other sites",
    "external_hop": "of other sites",
    "file_type": "of files that are no pages",
    "limit": "over --limit (limit)",
    "malformed": "that are no valid URLs",
    "not_included": "that match no --include (includePaths)",
    "outside_path": "outside the path of the start URL (--entire-domain leaves it)",
    "path_depth": "with a path that is too deep (maxDepth)",
    "robots": "that robots.txt refuses",
    "scheme": "that are not http or https",
    "social_host": "of social networks",
    "subdomain": "of subdomains (--subdomains follows them)",
    "trap": "that look like an endless series",
}


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

    async def left_out(self) -> dict[str, int]:
        """Return how many addresses have each reason, of those that have one.

        Reasons are those of :data:`LEFT_OUT`, others are errors.
        """


@frozen
class Ending:
    """What became of the URLs of a job that has ended, beside its pages.

    ``failures`` are listed URLs, ``left_out`` counts the others by their reason; it is
    read only where the job has no page.
    """

    failures: Sequence[Failure] = ()
    left_out: Mapping[str, int] = field(factory=dict)


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

    async def close(self, status: Status) -> Ending:
        """End the output of a job; return what brought no page, if it has ended."""
        if status.is_active:
            await asyncio.to_thread(self._output.close, None)
            return Ending()
        failures = await self._source.failures()
        await asyncio.to_thread(self._output.close, failures)
        found = {} if status.pages else await self._source.left_out()
        return Ending(failures, {k: n for k, n in found.items() if k in LEFT_OUT})


def stop_signals() -> list[signal.Signals]:
    """Return the signals that end a command; not those that it is to ignore.

    ``nohup`` and shells that start it in the background say so.
    """
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [s for s in wanted if signal.getsignal(s) is not signal.SIG_IGN]


def exit_code(status: Status) -> int:
    """Return 0 for a job that was completed and brought a page, else 1."""
    return 0 if status.state == "completed" and status.pages else 1


def counted(pages: int) -> str:
    """Return a number of pages in words."""
    return f"{pages} page{'s' * (pages != 1)}"


def summary(status: Status, ending: Ending) -> str:
    """Return sentences about a job that has ended: how, and why if there is nothing."""
    words = [f"{status.state}: {counted(status.pages)}"]
    failed = [each for each in ending.failures if not each.is_left_out]
    if failed:
        words.append(f"{len(failed)} failed")
    denied = [each for each in ending.failures if each.code == CRAWL_DENIAL]
    left_out = sum(ending.left_out.values()) + len(denied) * (not status.pages)
    if left_out:
        words.append(f"{left_out} left out")
    lines = [", ".join(words)]
    lines += [text for text in (status.error, status.warning) if text]
    if not status.pages:
        lines += [
            f"{f.url}: {f.error} ({f.code})" for f in [*failed, *denied][:MAX_SHOWN]
        ]
        most = sorted(ending.left_out.items(), key=lambda each: -each[1])
        lines += [f"left out: {count} {LEFT_OUT[reason]}" for reason, count in most]
        if not (failed or left_out or status.error or status.warning):
            lines.append("the site named no page that the job may fetch")
    return "\n".join(map(printable, lines))
