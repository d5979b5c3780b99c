"""Follow a job to its end: write its pages, show its progress and sum it up.

The job runs in this process or in a service.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import field, frozen

from scraper_service.cli.terminal import (
    CRAWL_DENIAL,
    FailedUrl,
    Progress,
    Silent,
    Status,
    end_at_once,
    progress,
)
from scraper_service.errors import plural, printable

if TYPE_CHECKING:
    from scraper_service.cli.outputs.output import Destination, Output


MAX_SHOWN = 3  # failures in the summary of a job without pages
UNCHANGED = "unchanged"  # as in scraper_service.items, whose import takes 0.1 s
# Text after a number of URLs, by the reason why they have no page. Reasons are those of
# scraper_service.discovery.Reason.
LEFT_OUT = {
    "blocked_site": "of a site that the operator has blocked",
    "discovery_depth": "more links away than --depth (maxDiscoveryDepth)",
    "duplicate": "with the page of another URL",
    UNCHANGED: "that have not changed since the earlier crawl (since)",
    "excluded": "that match --exclude (excludePaths)",
    "external": "of other sites",
    "external_home": "of other sites",
    "external_hop": "of other sites",
    "file_type": "of files that are no pages",
    "limit": "over --limit (limit)",
    "malformed": "that are no valid URLs",
    "nofollow": "of pages marked nofollow (--obey-nofollow)",
    "not_included": "that match no --include (includePaths)",
    "outside_path": "outside the path of the start URL (--entire-domain leaves it)",
    "path_depth": "with a path that is too deep (maxDepth)",
    "robots": "that robots.txt refuses",
    "scheme": "that are not http or https",
    "social_host": "of social networks",
    "subdomain": "of subdomains (--subdomains follows them)",
    "trap": "that look like an endless series",
}


#: Words of warnings of jobs, and what a command calls the same.
FLAGS = {
    "robotsBlocked in its errors lists them": "`scraper-service jobs show --json` lists them",
    "see allowExternalLinks": "see --external",
    "see allowSubdomains": "see --subdomains",
    "see crawlEntireDomain": "see --entire-domain",
    "see obeyNofollow": "see --obey-nofollow",
    "by includePaths": "by --include",
    "by excludePaths": "by --exclude",
    "below maxDiscoveryDepth": "below --depth",
}


class JobSource(Protocol):
    """Reads a job, from the local database or from a service."""

    job_id: str
    poll_s: float

    async def poll(self, skip: int) -> tuple[Status, list[bytes]]:
        """Return the state of the job, and its pages after the first ``skip``.

        State and pages are of the same moment.
        """

    async def current(self) -> str | None:
        """Return a URL that is being fetched, None if not known."""

    async def failures(self) -> list[FailedUrl]:
        """Return the URLs that have no page so far.

        URLs that robots.txt disallows are included only if the job has no page at all.
        """

    async def count_left_out(self) -> dict[str, int]:
        """Return the number of URLs by the reason why they have no page.

        Reasons in :data:`LEFT_OUT` are rules. Other reasons are errors.
        """


@frozen
class Ending:
    """The URLs without a page of a job that has ended."""

    #: The URLs of the job's list of errors.
    failures: Sequence[FailedUrl] = ()
    #: The number of other URLs by reason. It is read only if the job has no page.
    left_out: Mapping[str, int] = field(factory=dict)


class Follower:
    """Writes the pages of a job when they are ready, and shows the progress."""

    def __init__(self, source: JobSource, output: Output, progress: Progress):
        self._source = source
        self._output = output
        self._progress = progress
        self._written = 0

    async def follow(self, stopped: asyncio.Event) -> Status:
        """Write pages until the job has ended or ``stopped`` is set.

        Returns the last state of the job. All its pages are written by then. Exceptions
        of the output and the source are passed on.
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
        """Close the output, and return the URLs without a page.

        The result is empty if the job has not ended.
        """
        if status.is_active:
            await asyncio.to_thread(self._output.close, None)
            return Ending()
        failures = await self._source.failures()
        await asyncio.to_thread(self._output.close, failures)
        found = {} if status.pages else await self._source.count_left_out()
        return Ending(failures, {k: n for k, n in found.items() if k in LEFT_OUT})


async def export_pages(source: JobSource, output: Output) -> tuple[Status, int]:
    """Write the pages that a job has so far; return its status and their number."""
    status, pages = await source.poll(0)
    output.open()
    written = 0
    while pages:
        await asyncio.to_thread(output.write, pages)
        written += len(pages)
        status, pages = await source.poll(written)
    output.close(await source.failures())
    return status, written


class ShownRun:
    """The display of a run, and its stop by a signal."""

    #: What the first signal prints; the second one ends the process.
    stopping: str | None = None

    def __init__(self, *, quiet: bool):
        self._quiet = quiet
        self._progress = Silent() if quiet else Progress()
        self._stopped = asyncio.Event()
        self._signal = 0

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        if self._stopped.is_set():
            self._progress.stop()
            end_at_once(128 + number)
        self._signal = number
        self._stopped.set()
        if self.stopping:
            self._progress.say(self.stopping)

    def _show(self, target: Destination) -> None:
        """Begin the display that suits standard error and the output."""
        self._progress = progress(
            quiet=self._quiet,
            to_stdout=target.is_stdout,
            lists_pages=target.path is None,
        )

    def _end(
        self, status: Status, ending: Ending, target: Destination, export: str
    ) -> int:
        """Print the summary of a job that has ended; return the exit code.

        ``export`` is the command that writes pages that were only listed.
        """
        self._progress.say(summary(status, ending))
        if target.path is None and status.pages:
            self._progress.say(f"to keep them: {export} -o FILE")
        return exit_code(status, ending)


def stop_signals() -> list[signal.Signals]:
    """Return the signals that end a command.

    Signals that the process ignores are left out. ``nohup`` and shells that start a
    process in the background make it ignore signals.
    """
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [s for s in wanted if signal.getsignal(s) is not signal.SIG_IGN]


def exit_code(status: Status, ending: Ending) -> int:
    """Return 0 for a job that was completed and brought a page, else 1.

    A crawl with ``since`` succeeds, too, if all that it found is unchanged pages.
    """
    has_pages = status.pages or ending.left_out.get(UNCHANGED)
    return 0 if status.state == "completed" and has_pages else 1


def in_words_of_shell(warning: str) -> str:
    """Return a warning of a job with flags of commands instead of options of the API."""
    for of_api, flag in FLAGS.items():
        warning = warning.replace(of_api, flag)
    return warning


def summary(status: Status, ending: Ending) -> str:
    """Return the result of a job that has ended, and reasons if it has no pages."""
    words = [f"{status.state}: {plural(status.pages, 'page')}"]
    failed = [each for each in ending.failures if not each.is_left_out]
    if failed:
        words.append(f"{len(failed)} failed")
    denied = [each for each in ending.failures if each.code == CRAWL_DENIAL]
    left_out = sum(ending.left_out.values()) + len(denied) * (not status.pages)
    if left_out:
        words.append(f"{left_out} left out")
    lines = [", ".join(words)]
    warning = in_words_of_shell(status.warning or "")
    lines += [text for text in (status.error, warning) if text]
    if not status.pages:
        lines += [
            f"{f.url}: {f.error} ({f.code})" for f in [*failed, *denied][:MAX_SHOWN]
        ]
        most = sorted(ending.left_out.items(), key=lambda each: -each[1])
        lines += [f"left out: {count} {LEFT_OUT[reason]}" for reason, count in most]
        if not (failed or left_out or status.error or status.warning):
            lines.append("the site named no page that the job may fetch")
    return "\n".join(map(printable, lines))
