"""Run a job in this process, without a service, on the same engine and database.

Each run has a file, ``DATA_DIR/runs/<job id>.json``, with its owner and the destination
of its pages. The process holds a lock on the file while it lives. Another process
therefore detects at once that a run has died, and resumes its job without waiting for
its leases to expire.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs
import click

from scraper_service.cli.follow import Ending, Follower, ShownRun
from scraper_service.cli.outputs import OutputFailed, ReaderGone
from scraper_service.cli.outputs.output import STDOUT, Destination, destination
from scraper_service.cli.outputs.page_files import keys_of_options
from scraper_service.cli.terminal import (
    READER_GONE,
    FailedUrl,
    Status,
    end_when_interrupted,
)
from scraper_service.errors import DatabaseUnusable, ServiceUnavailable, plural
from scraper_service.options.jobs import options_from_json
from scraper_service.options.limits import Retention
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import LOCAL_TEAM, Job
from scraper_service.storage.jobs import admission, job_rows, job_urls

if TYPE_CHECKING:
    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.cli.outputs.output import Output
    from scraper_service.options.jobs import BatchOptions, CrawlOptions


class JobTaken(Exception):
    """Raised when another process of this machine runs the job."""


class RunRecord:
    """The exclusive right to run a job; use as a context manager.

    ``owner`` is the process of the earlier run, which is dead. ``destination`` is the
    output of that run. Both are None if the job had no earlier run. The constructor raises
    :exc:`JobTaken` and :exc:`OSError`.
    """

    def __init__(self, data_dir: Path, job_id: str):
        self._path = _path(data_dir, job_id)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise JobTaken(f"job {job_id} is run by another command now") from None
        facts = self._read()
        self.owner: str | None = facts.get("owner")
        given = facts.get("destination")
        self.destination = Destination(**given) if given else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()

    def resume_destination(self, chosen: Destination | None) -> Destination:
        """Return the destination of a resumed job.

        This is ``chosen`` if it is not None, else the destination of the earlier run, else standard
        output. The output of the earlier run may be overwritten.
        """
        earlier = self.destination
        target = chosen or earlier or destination(None, None, overwrite=False)
        if earlier is not None and earlier.path == target.path:
            return attrs.evolve(target, overwrite=True)
        return target

    def note(self, owner: str, destination: Destination) -> None:
        """Store the owner of this run and the destination of its pages."""
        facts = {"owner": owner, "destination": attrs.asdict(destination)}
        self._file.seek(0)
        self._file.truncate()
        json.dump(facts, self._file)
        self._file.flush()

    def forget(self) -> None:
        """Delete the record, after the job has ended."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        self._file.seek(0)
        try:
            found = json.load(self._file)
        except ValueError:  # a new file, or its writer was killed
            return {}
        return found if isinstance(found, dict) else {}


def is_run_here(data_dir: Path, job_id: str) -> bool:
    """Return True if a command on this machine runs the job. Services do not count."""
    try:
        found = os.open(_path(data_dir, job_id), os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(found, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(found)
    return False


def forget_run(data_dir: Path, job_id: str) -> None:
    """Delete the record of a stopped run, after its job has ended."""
    if not is_run_here(data_dir, job_id):
        _path(data_dir, job_id).unlink(missing_ok=True)


def _path(data_dir: Path, job_id: str) -> Path:
    return data_dir / "runs" / f"{job_id}.json"


DEFAULT_DATA_DIR = "data"
RESOLVER_THREADS = 64  # a name that does not resolve blocks one for seconds
LOOK_S = 1.0  # between two looks for a pause


def open_database(settings: Settings) -> Database:
    """Return the job database; raise :exc:`click.ClickException`."""
    try:
        return Database.shared(settings)
    except DatabaseUnusable as error:
        raise click.ClickException(str(error)) from error


def new_job(
    connection: Connection, options: CrawlOptions | BatchOptions, retention_s: float
) -> Job:
    """Store a job of the local team, which services do not run."""
    job_rows.make_team(connection, LOCAL_TEAM)
    terms = admission.Terms(team_id=LOCAL_TEAM, retention_s=retention_s)
    job = admission.create_job(connection, terms, options, 2)
    assert isinstance(job, Job)  # these terms have no limit and no idempotency key
    return job


def require_job(connection: Connection, job_id: str) -> Job:
    """Return a job; raise :exc:`click.ClickException`."""
    job = job_rows.get_job(connection, job_id, None)
    if job is None:
        raise click.ClickException(f"no job has the id {job_id}; see `jobs list`")
    return job


def keys_of_job(job: Job | CrawlOptions | BatchOptions) -> tuple[str, ...]:
    """Return the keys of the pages of a job, without metadata."""
    if isinstance(job, Job):
        return keys_of_options(
            options_from_json(job.kind, json.loads(job.options)).scrape
        )
    return keys_of_options(job.scrape)


def status_of(job: Job) -> Status:
    """Return the status of a job."""
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
    """A :class:`~scraper_service.cli.follow.JobSource` for a job in the database."""

    poll_s = 0.25

    def __init__(self, database: Database, job_id: str):
        self.database = database
        self.job_id = job_id

    async def poll(self, skip: int) -> tuple[Status, list[bytes]]:
        return await self.database.read(self._poll, skip)

    def _poll(self, connection: Connection, skip: int) -> tuple[Status, list[bytes]]:
        job = require_job(connection, self.job_id)
        return status_of(job), job_rows.read_pages(connection, self.job_id, skip)

    async def current(self) -> str | None:
        return await self.database.read(job_urls.read_current, self.job_id)

    async def failures(self) -> list[FailedUrl]:
        return await self.database.read(self.read_failures)

    def read_failures(self, connection: Connection) -> list[FailedUrl]:
        rows, _ = job_urls.read_errors(connection, self.job_id)
        found = [FailedUrl(row.url, row.code, row.error) for row in rows]
        if not require_job(connection, self.job_id).pages:
            refused = job_urls.read_robots_blocked(connection, self.job_id)
            found += [FailedUrl.of_robots(url) for url in refused]
        return found

    def read_robots_blocked(self, connection: Connection) -> list[str]:
        return job_urls.read_robots_blocked(connection, self.job_id)

    async def count_left_out(self) -> dict[str, int]:
        return await self.database.read(self._read_left_out)

    def _read_left_out(self, connection: Connection) -> dict[str, int]:
        return job_urls.count_by_state(connection, self.job_id)[1]


class LocalRun(ShownRun):
    """A run of one job in this process, until the job has ended or is interrupted.

    ``work`` are the options of a new job, or the id of a job to resume. The pages of a
    resumed job go to the destination of its earlier run, unless ``target`` is given.
    """

    stopping = "stopping: pages under way end first; again to end at once"

    def __init__(
        self,
        settings: Settings,
        work: CrawlOptions | BatchOptions | str,
        target: Destination | None,
        *,
        quiet: bool,
    ):
        from scrapy.crawler import AsyncCrawlerProcess

        super().__init__(quiet=quiet)
        # First of all: this installs the reactor, which other modules import.
        self._process = AsyncCrawlerProcess(settings)
        self._settings = settings
        self._database = open_database(settings)
        self._work = work
        self._target = target
        self._is_paused = False
        self._result: int | BaseException = 1
        self._task: asyncio.Task[None] | None = None

    def run(self) -> int:
        """Run the job and return the exit code; raise :exc:`click.ClickException`."""
        from twisted.internet import reactor

        end_when_interrupted()  # until the run handles signals itself
        reactor.callWhenRunning(self._start)
        self._process.start(stop_after_crawl=False, install_signal_handlers=False)
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def _start(self) -> None:
        # The reactor calls this before the event loop runs.
        self._task = asyncio.get_event_loop().create_task(self._main())

    async def _main(self) -> None:
        from twisted.internet import reactor

        from scraper_service.crawling.converter_pool.page_conversion import (
            ConverterPool,
        )
        from scraper_service.crawling.pipelines.pages import SearchIndex
        from scraper_service.shared_objects import begin_collections

        begin_collections()
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(RESOLVER_THREADS, "resolver"))
        self._listen()
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

    async def _run(self) -> int:
        from scraper_service.services.job_runner import LocalRunner
        from scraper_service.storage.frontier.leases import Frontier

        if isinstance(self._work, str):
            job = await self._database.read(require_job, self._work)
            target, output = self._target, None
        else:
            target = self._target or Destination(STDOUT, keys=keys_of_job(self._work))
            output = target.output()
            output.open()  # before the job is created
            kept_s = Retention.of(self._settings).seconds(None)
            job = await self._database.write(new_job, self._work, kept_s)
        with RunRecord(Path(self._settings["DATA_DIR"]), job.id) as record:
            if record.owner is not None:
                # The earlier owner is dead: end its leases before they expire.
                await Frontier(self._database, record.owner).end_leases()
            if output is None:
                target = record.resume_destination(target).of_pages(keys_of_job(job))
                output = target.output()
                output.open()
            assert target is not None
            self._runner = LocalRunner(self._process, self._database, only=job.id)
            record.note(self._runner.owner, target)
            try:
                status, ending = await self._deliver(job, target, output)
            except ReaderGone:
                text = "stopped: nobody reads the output any more"
                self._progress.say(f"{text}\n{self._how_to_resume(job)}")
                return READER_GONE
            if not status.is_active:
                record.forget()
        if status.is_active:
            how = "paused" if self._is_paused else "stopped"
            why = f"; {self._command('log', job)} says why" if self._is_paused else ""
            text = f"{how}: {plural(status.pages, 'page')}{why}"
            self._progress.say(f"{text}\n{self._how_to_resume(job)}")
            return 1 if self._is_paused else 128 + self._signal
        return self._end(status, ending, target, self._command("export", job))

    async def _deliver(
        self, job: Job, target: Destination, output: Output
    ) -> tuple[Status, Ending]:
        """Run the job and write its pages.

        All pages are written, also if the run was interrupted.
        """
        self._show(target)
        source = DatabaseSource(self._database, job.id)
        follower = Follower(source, output, self._progress)
        try:
            if job.is_active:
                await self._runner.open()
            watch = asyncio.ensure_future(self._stop_when_paused(job))
            try:
                await follower.follow(self._stopped)
            finally:
                watch.cancel()
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

    async def _stop_when_paused(self, job: Job) -> None:
        """Stop once something has paused the job, such as the disk quota of its team."""
        while True:
            await asyncio.sleep(LOOK_S)
            found = await self._database.read(require_job, job.id)
            if found.is_active and found.paused_at is not None:
                self._is_paused = True
                self._stopped.set()
                return

    async def _halt(self) -> None:
        """Stop the crawler, and release the leases of URLs that are not fetched."""
        from scraper_service.services.job_runner import stop_crawlers

        self._stopped.set()
        await self._runner.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.getfloat("SHUTDOWN_TIMEOUT_S")):
                await stop_crawlers(self._process)
        await self._runner.leave()

    def _how_to_resume(self, job: Job) -> str:
        return f"to go on: {self._command('resume', job)}"

    def _command(self, verb: str, job: Job) -> str:
        words = ["scraper-service", "jobs", verb, job.id]
        if (data_dir := self._settings["DATA_DIR"]) != DEFAULT_DATA_DIR:
            words += ["--data-dir", data_dir]
        return shlex.join(words)
