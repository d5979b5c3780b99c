"""Jobs of a service, followed from here."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scraper_service.cli.follow import (
    Follower,
    counted,
    exit_code,
    stop_signals,
    summary,
)
from scraper_service.cli.job_state import OutputFailed, ReaderGone
from scraper_service.cli.progress import Silent, progress
from scraper_service.cli.remote import Remote, RemoteError, RemoteSource
from scraper_service.cli.terminal import READER_GONE, end_at_once, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scraper_service.cli.job_state import Status
    from scraper_service.cli.options import Where
    from scraper_service.cli.output import Destination
    from scraper_service.cli.progress import Progress

T = TypeVar("T")
PATHS = {"crawl": "/v2/crawl", "batch": "/v2/batch/scrape"}


def asked(where: Where, work: Callable[[Remote], Awaitable[T]]) -> T:
    """Return what ``work`` makes of the service; raise :exc:`click.ClickException`."""
    assert where.server is not None
    remote = Remote(where.server, where.key)

    async def ask() -> T:
        async with remote:
            return await work(remote)

    try:
        return asyncio.run(ask())
    except RemoteError as error:
        if error.status == 400:
            raise click.UsageError(str(error)) from error
        raise click.ClickException(str(error)) from error


async def start(remote: Remote, kind: str, body: dict[str, Any]) -> str:
    """Start a job and return its id; addresses that are left out are told."""
    found = await remote.call("POST", PATHS[kind], body)
    for url in found.get("invalidURLs") or ():
        click.echo(f"left out: {printable(str(url), 200)}", err=True)
    return str(found["id"])


class RemoteRun:
    """Follow a job of a service: a new one of ``kind`` with ``body``, or a known one.

    Who interrupts a new one cancels it; a known one is only left alone.
    """

    def __init__(self, where: Where, place: Destination, *, quiet: bool):
        self._where = where
        self._place = place
        self._quiet = quiet
        self._progress: Progress = Silent(speaks=not quiet)
        self._stopped = asyncio.Event()
        self._signal = 0

    def run_new(self, kind: str, body: dict[str, Any]) -> int:
        """Return the exit code; raise :exc:`click.ClickException`."""

        async def work(remote: Remote) -> int:
            output = self._place.output()
            output.open()  # before there is a job
            self._listen()
            job_id = await start(remote, kind, body)
            return await self._follow(remote, job_id, output, is_new=True)

        return self._run(work)

    def run_known(self, job_id: str) -> int:
        """Return the exit code; raise :exc:`click.ClickException`."""

        async def work(remote: Remote) -> int:
            await remote.get(f"/v2/crawl/{job_id}?limit=1")  # is there such a job?
            output = self._place.output()
            output.open()
            self._listen()
            return await self._follow(remote, job_id, output, is_new=False)

        return self._run(work)

    def export(self, job_id: str) -> int:
        """Write what a job has so far; return the exit code, as :meth:`run_known`."""

        async def work(remote: Remote) -> int:
            source = RemoteSource(remote, job_id)
            status, pages = await source.poll(0)
            output = self._place.output()
            output.open()
            written = 0
            while pages:
                await asyncio.to_thread(output.write, pages)
                written += len(pages)
                status, pages = await source.poll(written)
            output.close(await source.failures())
            self._progress.say(f"{counted(written)} of a job that is {status.state}")
            return 0

        return self._run(work)

    def _run(self, work: Callable[[Remote], Awaitable[int]]) -> int:
        try:
            return asked(self._where, work)
        except OutputFailed as error:
            raise click.ClickException(str(error)) from error
        except ReaderGone:
            return READER_GONE
        finally:
            self._progress.stop()

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: int) -> None:
        if self._stopped.is_set():
            self._progress.stop()
            end_at_once(128 + number)
        self._signal = number
        self._stopped.set()

    async def _follow(
        self, remote: Remote, job_id: str, output: Any, *, is_new: bool
    ) -> int:
        place = self._place
        self._progress = progress(
            quiet=self._quiet,
            to_stdout=place.is_stdout,
            lists_pages=place.path is None,
        )
        follower = Follower(RemoteSource(remote, job_id), output, self._progress)
        again = self._command("resume" if not is_new else "export", job_id)
        try:
            status = await follower.follow(self._stopped)
            if self._stopped.is_set() and status.is_active and is_new:
                status = await self._cancel(remote, job_id, follower)
            ending = await follower.close(status)
        except RemoteError as error:
            text = (
                f"{error}; the job may go on there: {self._command('resume', job_id)}"
            )
            raise RemoteError(text, error.status) from error
        except (OutputFailed, ReaderGone) as error:
            if is_new:
                await remote.call("DELETE", f"/v2/crawl/{job_id}")
            if isinstance(error, OutputFailed):
                raise OutputFailed(f"{error}\nits pages so far: {again}") from error
            end = "cancelled" if is_new else "stopped"
            text = f"{end}: nobody reads the output any more"
            self._progress.say(f"{text}\nits pages so far: {again}")
            return READER_GONE
        self._progress.stop()
        if not self._signal:
            self._progress.say(summary(status, ending))
            if place.path is None and status.pages:
                words = f"{self._command('export', job_id)} -o FILE"
                self._progress.say(f"to keep them: {words}")
            return exit_code(status)
        if status.is_active:
            text = f"job {job_id} goes on at {remote.address}; to follow it: {again}"
        else:
            text = (
                f"{status.state}: {counted(status.pages)}; a service does not go on with a"
                f" cancelled job. Its pages: {again}"
            )
        self._progress.say(text)
        return 128 + self._signal

    async def _cancel(self, remote: Remote, job_id: str, follower: Follower) -> Status:
        self._progress.say("cancelling the job at the service")
        try:
            await remote.call("DELETE", f"/v2/crawl/{job_id}")
        except RemoteError as error:
            if error.status != 409:  # it has ended by itself
                raise
        return await follower.follow(self._stopped)

    def _command(self, verb: str, job_id: str) -> str:
        # Never with the key, which is not for a terminal's memory.
        words = ["scraper-service", "jobs", verb, job_id]
        return shlex.join([*words, "--server", str(self._where.server)])
