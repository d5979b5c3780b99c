"""Jobs in this process, without a service: the same engine on the same database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scraper_service.cli.catalogue import keys_of_options
from scraper_service.cli.follow import (
    Ending,
    Follower,
    counted,
    exit_code,
    stop_signals,
    summary,
)
from scraper_service.cli.job_state import Failure, OutputFailed, ReaderGone, Status
from scraper_service.cli.output import STDOUT, Destination
from scraper_service.cli.progress import Silent, progress
from scraper_service.cli.record import JobTaken, RunRecord
from scraper_service.cli.terminal import READER_GONE, end_at_once, end_when_interrupted

if TYPE_CHECKING:
    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.cli.output import Output
    from scraper_service.cli.progress import Progress
    from scraper_service.options.jobs import BatchOptions, CrawlOptions
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Job

DEFAULT_DATA_DIR = "data"
RESOLVER_THREADS = 64  # a name that does not resolve blocks one for seconds


def open_database(settings: Settings) -> Database:
    """Return the job database; raise :exc:`click.ClickException`."""
    from scraper_service.errors import DatabaseUnusable
    from scraper_service.storage.database import Database

    try:
        return Database.shared(settings)
    except DatabaseUnusable as error:
        raise click.ClickException(str(error)) from error


def new_job(connection: Connection, options: CrawlOptions | BatchOptions) -> Job:
    """Store a job that nobody runs but the command that made it."""
    from scraper_service.storage import admission
    from scraper_service.storage import jobs as store
    from scraper_service.storage.job_records import LOCAL_TEAM, Job

    store.make_team(connection, LOCAL_TEAM)
    terms = admission.Terms(team_id=LOCAL_TEAM)
    job = admission.create_job(connection, terms, options, 2)
    assert isinstance(job, Job)  # there is no limit and no idempotency key
    return job


def known_job(connection: Connection, job_id: str) -> Job:
    """Return a job; raise :exc:`click.ClickException`."""
    from scraper_service.storage import jobs as store

    job = store.get_job(connection, job_id, None)
    if job is None:
        raise click.ClickException(f"no job has the id {job_id}; see `jobs list`")
    return job


def keys_of_job(job: Job | CrawlOptions | BatchOptions) -> tuple[str, ...]:
    """Return the keys that the pages of a job have, beside their metadata."""
    from scraper_service.options.job_arguments import options_from_json
    from scraper_service.storage.job_records import Job

    if isinstance(job, Job):
        return keys_of_options(
            options_from_json(job.kind, json.loads(job.options)).scrape
        )
    return keys_of_options(job.scrape)


def status_of(job: Job) -> Status:
    """Return how far a job is."""
    return Status(
        state=job.state.value,
        total=job.total,
        pages=job.pages,
        failed=job.failed,
        pending=job.open,
        warning=job.warning,
        error=job.error,
    )


class DatabaseSource:
    """A job of the database, as :class:`~scraper_service.cli.follow.Source`."""

    poll_s = 0.25

    def __init__(self, database: Database, job_id: str):
        self._database = database
        self.job_id = job_id

    async def poll(self, skip: int) -> tuple[Status, list[bytes]]:
        return await self._database.read(self._poll, skip)

    def _poll(self, connection: Connection, skip: int) -> tuple[Status, list[bytes]]:
        job = known_job(connection, self.job_id)
        return status_of(job), self.read_pages(connection, skip)

    def read_pages(self, connection: Connection, skip: int) -> list[bytes]:
        from scraper_service.storage import jobs as store

        return store.read_pages(connection, self.job_id, skip, None)

    async def current(self) -> str | None:
        from scraper_service.storage import job_listing as listing

        return await self._database.read(listing.read_current, self.job_id)

    async def failures(self) -> list[Failure]:
        return await self._database.read(self.read_failures)

    def read_failures(self, connection: Connection) -> list[Failure]:
        from scraper_service.storage import job_listing as listing

        rows = listing.read_errors(connection, self.job_id)
        found = [Failure(row.url, row.code, row.error) for row in rows]
        if not known_job(connection, self.job_id).pages:
            refused = listing.read_robots_blocked(connection, self.job_id)
            found += [Failure.of_robots(url) for url in refused]
        return found

    async def left_out(self) -> dict[str, int]:
        return await self._database.read(self._read_left_out)

    def _read_left_out(self, connection: Connection) -> dict[str, int]:
        from scraper_service.storage import job_listing as listing

        return listing.count_addresses(connection, self.job_id)[1]


class LocalRun:
    """One job, run by this process until it has ended or is interrupted.

    ``asked`` are the options of a new job, or the id of one that goes on. The pages of
    the latter go where those of its earlier run went, unless ``place`` is given.
    """

    def __init__(
        self,
        settings: Settings,
        asked: CrawlOptions | BatchOptions | str,
        place: Destination | None,
        *,
        quiet: bool,
    ):
        from scrapy.crawler import AsyncCrawlerProcess

        # First of all: it installs the reactor that everything else imports.
        self._process = AsyncCrawlerProcess(settings)
        self._settings = settings
        self._database = open_database(settings)
        self._asked = asked
        self._place = place
        self._quiet = quiet
        self._progress: Progress = Silent(speaks=not quiet)
        self._stopped = asyncio.Event()
        self._signal = 0
        self._result: int | BaseException = 1
        self._task: asyncio.Task[None] | None = None

    def run(self) -> int:
        """Return the exit code; raise :exc:`click.ClickException`."""
        from twisted.internet import reactor

        end_when_interrupted()  # until the run listens itself
        reactor.callWhenRunning(self._start)
        self._process.start(stop_after_crawl=False, install_signal_handlers=False)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def _start(self) -> None:
        # The reactor calls this before it runs the loop.
        self._task = asyncio.get_event_loop().create_task(self._main())

    async def _main(self) -> None:
        from twisted.internet import reactor

        from scraper_service.crawling.converter_pool.pool import ConverterPool
        from scraper_service.crawling.page_index import SearchIndex
        from scraper_service.errors import ServiceUnavailable

        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(RESOLVER_THREADS, "resolver"))
        for number in stop_signals():
            loop.add_signal_handler(number, self._signalled, number)
        try:
            self._result = await self._run()
        except (JobTaken, OutputFailed, ServiceUnavailable, OSError) as error:
            self._result = click.ClickException(str(error))
        except BaseException as error:  # raised again by run()
            self._result = error
        self._progress.stop()
        await SearchIndex.close_all()
        ConverterPool.shared(self._settings).close()
        self._database.close()
        reactor.stop()

    def _signalled(self, number: int) -> None:
        if self._stopped.is_set():
            self._progress.stop()
            end_at_once(128 + number)
        self._signal = number
        self._stopped.set()
        self._progress.say("stopping: pages under way end first; again to end at once")

    async def _run(self) -> int:
        from scraper_service.services.job_runner import LocalRunner
        from scraper_service.storage.frontier import leases

        if isinstance(self._asked, str):
            job = await self._database.read(known_job, self._asked)
            place, output = self._place, None
        else:
            place = self._place or Destination(STDOUT, keys=keys_of_job(self._asked))
            output = place.output()
            output.open()  # before there is a job
            job = await self._database.write(new_job, self._asked)
        with RunRecord(Path(self._settings["DATA_DIR"]), job.id) as record:
            if record.owner is not None:
                # It is gone: its leases need not run out by themselves.
                await self._database.write(leases.forget_worker, record.owner)
            if output is None:
                place = record.resumed(place).of_pages(keys_of_job(job))
                output = place.output()
                output.open()
            assert place is not None
            self._runner = LocalRunner(self._process, self._database, only=job.id)
            record.note(self._runner.owner, place)
            try:
                status, ending = await self._deliver(job, place, output)
            except ReaderGone:
                text = "stopped: nobody reads the output any more"
                self._progress.say(f"{text}\n{self._how_to_resume(job)}")
                return READER_GONE
            if not status.is_active:
                record.forget()
        if status.is_active:
            self._progress.say(
                f"stopped: {counted(status.pages)}\n{self._how_to_resume(job)}"
            )
            return 128 + self._signal
        self._progress.say(summary(status, ending))
        if place.path is None and status.pages:
            self._progress.say(f"to keep them: {self._command('export', job)} -o FILE")
        return exit_code(status)

    async def _deliver(
        self, job: Job, place: Destination, output: Output
    ) -> tuple[Status, Ending]:
        """Run the job and write its pages; all there are, however that ended."""
        self._progress = progress(
            quiet=self._quiet,
            to_stdout=place.is_stdout,
            lists_pages=place.path is None,
        )
        source = DatabaseSource(self._database, job.id)
        follower = Follower(source, output, self._progress)
        try:
            if job.is_active:
                await self._runner.open()
            await follower.follow(self._stopped)
            await self._halt()
            status = await follower.follow(self._stopped)
            self._progress.stop()
            return status, await follower.close(status)
        except ReaderGone:
            await self._halt()
            raise
        except OutputFailed as error:
            await self._halt()
            raise OutputFailed(f"{error}\n{self._how_to_resume(job)}") from error

    async def _halt(self) -> None:
        """Stop the crawler: what it was given and has not fetched is given back."""
        self._stopped.set()
        await self._runner.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.getfloat("SHUTDOWN_TIMEOUT_S")):
                await self._process.stop()

    def _how_to_resume(self, job: Job) -> str:
        return f"to go on: {self._command('resume', job)}"

    def _command(self, verb: str, job: Job) -> str:
        words = ["scraper-service", "jobs", verb, job.id]
        if (data_dir := self._settings["DATA_DIR"]) != DEFAULT_DATA_DIR:
            words += ["--data-dir", data_dir]
        return shlex.join(words)
