"""The client of commands without a service: spiders of this process, and its job database."""

from __future__ import annotations

import asyncio
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from scraper_service.cli.follow import export_pages
from scraper_service.cli.local_run import (
    DatabaseSource,
    LocalRun,
    forget_run,
    is_run_here,
    keys_of_job,
    open_database,
    require_job,
)
from scraper_service.cli.options import with_flag
from scraper_service.cli.outputs import OutputFailed, ReaderGone
from scraper_service.cli.settings import (
    check_egress,
    fetch_settings,
    load_settings,
    operator,
)
from scraper_service.cli.terminal import (
    UUID_LENGTH,
    ShownJob,
    choose_id,
    end_when_interrupted,
    leave_pipe,
    tell_left_out,
    utc,
)
from scraper_service.errors import (
    InvalidOptions,
    OptionUnavailable,
    ServiceError,
    plural,
    printable,
)
from scraper_service.items import Page, upload_of
from scraper_service.options import limits
from scraper_service.options import v2_requests as requests
from scraper_service.options.jobs import ChangeRequest, RetryRequest, options_from_json
from scraper_service.options.limits import Retention
from scraper_service.storage.accounts import audit
from scraper_service.storage.files import page_sources
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.frontier.job_counts import read_stats
from scraper_service.storage.job_records import LOCAL_TEAM, JobState
from scraper_service.storage.jobs import earlier_pages, job_control, job_rows
from scraper_service.storage.jobs.admission import Terms, create_job_of_sources
from scraper_service.storage.jobs.job_log import read_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.cli.options import Wanted
    from scraper_service.cli.outputs.output import Destination
    from scraper_service.options.jobs import (
        BatchOptions,
        CrawlOptions,
        ReprocessRequest,
    )
    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.job_control import RetriedJob
    from scraper_service.storage.jobs.job_log import JobLogbook

    #: Why there is no browser, and why there is no language model; None if there is.
    MissingT = tuple[str | None, str | None]


class LocalClient:
    """Does the work of commands in this process, see :mod:`scraper_service.cli.clients`."""

    def __init__(self, overrides: tuple[str, ...], data_dir: str | None):
        self._overrides = overrides
        self._options = {"LOG_LEVEL": "ERROR", "DATA_DIR": data_dir}

    # -- pages

    def scrape(self, body: dict[str, Any]) -> dict[str, Any]:
        settings, missing = self._fetching()
        options = _read(requests.page_options, body)
        _check(limits.require_available, options.scrape, *missing)
        if options.scrape.max_age_ms:
            text = "--max-age: only a service keeps pages; see --server"
            raise click.UsageError(text)
        pages, _ = run_spider(settings, "scrape", page=options)
        return _object_of(settings, only_page(pages, options.url))

    def parse(self, name: str, data: bytes, body: dict[str, Any]) -> dict[str, Any]:
        settings, missing = self._fetching()
        upload = _read(lambda _: upload_of(name, "", data), None)
        options = attrs.evolve(_read(requests.parse_options, body), url=upload.name)
        _check(limits.require_parseable, options.scrape)
        _check(limits.require_available, options.scrape, *missing)
        pages, _ = run_spider(settings, "scrape", page=options, upload=upload)
        return _object_of(settings, only_page(pages, options.url))

    def map(self, body: dict[str, Any]) -> tuple[list[dict[str, str]], list[str]]:
        from scraper_service.crawling.page_errors import (
            map_failure,
            map_warnings,
        )

        options = _read(requests.map_options, body)
        settings, _ = self._fetching()
        links, spider = run_spider(settings, "map", options=options)
        url = printable(options.url)
        if spider.found is None:
            raise click.ClickException(f"{url}: Map timed out (MAP_TIMEOUT)")
        if failure := map_failure(spider.found):
            raise click.ClickException(f"{url}: {failure.message} ({failure.code})")
        return [link.as_dict() for link in links], map_warnings(spider.found)

    def search(self, body: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
        settings, (browser, _) = self._fetching()
        options = _read(requests.search_options, body)
        if options.scrape is not None:
            _check(limits.require_available, options.scrape, browser)
        items, spider = run_spider(settings, "search", options=options)
        if spider.failure is not None:
            raise click.ClickException(printable(spider.failure))
        found = [
            _object_of(settings, item) if isinstance(item, Page) else item.as_dict()
            for item in items
        ]
        return found, list(spider.found.warnings)

    # -- jobs

    def start(self, kind: str, body: dict[str, Any]) -> str:
        raise click.UsageError("--detach needs a service: --server")

    def run(
        self, kind: str, body: dict[str, Any], target: Destination, *, quiet: bool
    ) -> int:
        settings, missing = self._fetching()
        options = _job_options(kind, body, missing)
        return LocalRun(settings, options, target, quiet=quiet).run()

    def newest(self, most: int | None) -> list[dict[str, Any]]:
        """Return the jobs of all teams with their counts, the newest first."""
        jobs = self._reading(job_rows.all_jobs) if self._has_jobs() else []
        return [self._facts(job) for job in jobs[:most]]

    def find(self, text: str) -> str:
        """Return the full id of a job. ``text`` is an id, a prefix or ``last``."""
        if not self._has_jobs():
            data_dir = self._settings["DATA_DIR"]
            raise click.ClickException(
                f"no jobs are kept in {data_dir}; name another folder with --data-dir"
            )
        if len(text) == UUID_LENGTH:
            return text
        return choose_id(text, [job.id for job in self._reading(job_rows.all_jobs)])

    def show(self, job_id: str) -> ShownJob:
        facts = self._facts(self._reading(require_job, job_id))
        source = DatabaseSource(open_database(self._settings), job_id)
        return ShownJob(
            facts,
            self._reading(source.read_failures),
            self._reading(source.read_robots_blocked),
            self._reading(read_stats, job_id),
        )

    def log(self, text: str) -> tuple[dict[str, Any], JobLogbook]:
        """Return a job with its counts, and what happened to it; see :meth:`find`."""
        job_id = self.find(text)
        facts = self._facts(self._reading(require_job, job_id))
        return facts, self._reading(read_log, job_id)

    def cancel(self, job_id: str) -> None:
        job = self._writing(_cancel, job_id, operator(self._settings))
        if job.state is not JobState.CANCELLED:
            raise click.ClickException(f"job {job_id} is {job.state} already")
        forget_run(self._data_dir, job_id)

    def pause(self, job_id: str) -> None:
        self._writing(_pause, job_id, True, operator(self._settings))

    def retry(self, job_id: str, codes: tuple[str, ...]) -> tuple[int, str | None]:
        """Return the number of pages that are fetched again, and a warning."""
        retried = self._writing(_retry, job_id, codes)
        return retried.retried, retried.warning

    def reprocess(self, job_id: str, body: dict[str, Any]) -> tuple[str, int]:
        """Start a job of the stored pages of another one. Return its id and their number."""
        job = self._writing(_reprocess, job_id, body, self._settings)
        return job.id, job.open

    def resume(self, job_id: str, wanted: Wanted) -> int:
        check_egress(self._settings)
        self._writing(_pause, job_id, False, operator(self._settings))
        target = wanted.destination_if_named()
        return LocalRun(self._settings, job_id, target, quiet=wanted.quiet).run()

    def export(self, job_id: str, target: Destination, *, quiet: bool) -> int:
        job = self._reading(require_job, job_id)
        target = target.of_pages(keys_of_job(job))
        try:
            written = asyncio.run(self._export(job, target))
        except OutputFailed as error:
            raise click.ClickException(str(error)) from error
        except ReaderGone:
            leave_pipe()
        if not quiet:
            text = f"{plural(written, 'page')} of a job that is {job.state}"
            click.echo(text, err=True)
        return 0

    async def _export(self, job: Job, target: Destination) -> int:
        """Write the pages of a job, or its responses; return their number."""
        database = open_database(self._settings)
        if not target.is_archive:
            source = DatabaseSource(database, job.id)
            return (await export_pages(source, target.output()))[1]
        from scraper_service.crawling.download.stored_responses import source_files
        from scraper_service.exports.job_exports import Export, ExportQuery, Exports
        from scraper_service.exports.running_export import ExportFailed

        if not await database.read(page_sources.has_sources, job.id):
            raise click.ClickException(
                f"job {job.id} has not kept the responses of its pages"
                " (SCRAPER_KEEP_SOURCES, zero data retention)"
            )
        export = Export(job, ExportQuery(format=target.format), job.pages)
        output = target.copied_file()
        output.open()
        try:
            exports = Exports(database, source_files(self._settings))
            async for part in exports.write(export):
                output.copy(part)
        except (ExportFailed, ServiceError, ValueError) as error:
            raise click.ClickException(str(error)) from error
        output.close(None)
        return job.pages

    # -- settings and database

    @cached_property
    def _settings(self) -> Settings:
        return load_settings(self._overrides, **self._options)

    @property
    def _data_dir(self) -> Path:
        return Path(self._settings["DATA_DIR"])

    def _fetching(self) -> tuple[Settings, MissingT]:
        """Return the settings of a command that fetches pages, and what is missing here."""
        from scraper_service.crawling.browser.chromium import why_missing
        from scraper_service.settings import unknown_settings

        settings = fetch_settings(self._overrides, **self._options)
        if unknown := unknown_settings():
            click.echo(f"warning: {unknown}", err=True)
        return settings, (why_missing(settings), limits.missing_model(settings))

    def _has_jobs(self) -> bool:
        # A search for jobs must not create a database.
        path = self._data_dir / "jobs.sqlite"
        return bool(self._settings["DATABASE_URL"]) or path.exists()

    def _reading(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with open_database(self._settings).engine.begin() as connection:
            return function(connection, *arguments)

    def _writing(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # Lock at the start: SQLite refuses a transaction that reads first, if another
        # process has written before its first write.
        engine = open_database(self._settings).engine
        with engine.execution_options(immediate=True).begin() as connection:
            return function(connection, *arguments)

    def _facts(self, job: Job) -> dict[str, Any]:
        texts = (("warning", job.warning), ("error", job.error))
        return {
            "id": job.id,
            "kind": job.kind,
            "state": self._state(job),
            "pages": job.pages,
            "failed": job.failed,
            "pending": job.open,
            "created": utc(job.created_at),
            "url": job.url,
            **{name: value for name, value in texts if value},
        }

    def _state(self, job: Job) -> str:
        """Return the state of a job.

        An active job is ``running`` while a command runs it. A local job that no command
        runs is ``stopped``.
        """
        if not job.is_active:
            return job.state.value
        if job.paused_at is not None:
            return "paused"
        if is_run_here(self._data_dir, job.id):
            return "running"
        return "stopped" if job.team_id == LOCAL_TEAM else job.state.value


def _cancel(connection: Connection, job_id: str, actor: Actor | None) -> Job:
    job = require_job(connection, job_id)
    if job.is_active:
        outcomes.end_job(connection, job_id, JobState.CANCELLED)
        audit.record(connection, actor, "job.cancelled", job_id, team_id=job.team_id)
    return require_job(connection, job_id)


def _pause(
    connection: Connection, job_id: str, paused: bool, actor: Actor | None
) -> None:
    """Pause a job, or let it go on. An ended job goes on as it is."""
    team_id = require_job(connection, job_id).team_id
    if actor is not None:
        actor = attrs.evolve(actor, team_id=team_id)
    request = ChangeRequest(paused=paused)
    found = job_control.change_job(connection, job_id, team_id, request, actor)
    if isinstance(found, Exception) and paused:
        raise click.ClickException(str(found))


def _retry(connection: Connection, job_id: str, codes: tuple[str, ...]) -> RetriedJob:
    job = require_job(connection, job_id)
    terms = Terms(team_id=job.team_id, page_price=job.page_price)
    request = RetryRequest(codes=frozenset(codes))
    found = job_control.retry_pages(connection, job_id, terms, request)
    if isinstance(found, Exception):
        raise click.ClickException(str(found))
    return found


def _reprocess(
    connection: Connection, job_id: str, body: dict[str, Any], settings: Settings
) -> Job:
    """Store the new job in a database; raise :exc:`click.ClickException`."""
    known = require_job(connection, job_id)
    try:
        request = requests.crawl_reprocess(body)
        if request.webhook is not None:
            raise click.ClickException("webhook: only the service sends webhooks")
        earlier: Any = options_from_json(known.kind, json.loads(known.options))
        options = request.options(earlier)
        retention_s = Retention.of(settings).seconds(request.retention_days)
    except InvalidOptions as error:
        raise click.ClickException(str(error)) from error
    terms = Terms(
        team_id=known.team_id,
        page_price=_price(known, request, settings),
        retention_s=retention_s,
    )
    numbers = None
    if request.urls:
        numbers, missing = earlier_pages.find_pages(connection, job_id, request.urls)
        if missing:
            raise click.ClickException(f"the job has no page {min(missing)}")
    made = create_job_of_sources(connection, job_id, terms, options, 2, numbers)
    if isinstance(made, Exception):
        raise click.ClickException(str(made))
    return made


def _price(known: Job, request: ReprocessRequest, settings: Settings) -> int | None:
    from scraper_service.storage.accounts.credits import Prices

    if known.page_price is None:
        return None
    prices = Prices(settings)
    return prices.without_fetch(prices.usual(request.scrape))


def _job_options(
    kind: str, body: dict[str, Any], missing: MissingT
) -> CrawlOptions | BatchOptions:
    """Return the options of a crawl or batch. Prints the URLs that are left out."""
    left_out: tuple[str, ...] = ()
    if kind == "crawl":
        options = _fill_from_prompt(_read(requests.crawl_options, body), body)
    else:
        request = _read(requests.batch_options, body)
        options, left_out = request.options, request.invalid_urls or ()
        if request.append_to is not None:
            raise click.UsageError("appendToId: only a service adds to a batch")
    _check(limits.require_job_available, options, *missing)
    if options.webhook is not None:
        raise click.UsageError("webhook: only a service delivers events; see --server")
    tell_left_out(left_out)
    return options


def _fill_from_prompt(options: CrawlOptions, body: dict[str, Any]) -> CrawlOptions:
    """Return the options of a crawl, filled from its prompt."""
    if options.prompt is None:
        return options
    from scraper_service.discovery.crawl_prompt import options_from_prompt

    found = options_from_prompt(options.prompt, options.url)
    text = json.dumps(requests.crawl_body(found.values), ensure_ascii=False)
    click.echo(f"the prompt asks for: {printable(text, 500)}", err=True)
    return requests.fill(found.values, body)


def _read(read: Callable[[Any], Any], body: object) -> Any:
    """Return the options of ``body``; errors name the flags of the command line."""
    try:
        return read(body)
    except InvalidOptions as error:
        messages = [with_flag(issue.path, issue.message) for issue in error.issues]
        raise click.UsageError("\n  ".join(messages)) from error


def _check(check: Callable[..., None], options: Any, *missing: str | None) -> None:
    try:
        check(options, *missing)
    except OptionUnavailable as error:
        raise click.UsageError(str(error)) from error


def run_spider(
    settings: Settings, name: str, **arguments: Any
) -> tuple[list[Any], Any]:
    """Run a spider as `scrapy crawl` does; return its items and the spider.

    Ctrl-C ends the process at once. Raises :exc:`click.ClickException` for a setting that a
    component refuses at its start.
    """
    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.crawling.middlewares import item_made

    items: list[Any] = []

    def keep(item: Any) -> None:
        items.append(item)

    end_when_interrupted()
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(name)
    crawler.signals.connect(keep, item_made)
    crawl = process.crawl(crawler, **arguments)
    process.start(install_signal_handlers=False)
    try:
        crawl.result()
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    return items, crawler.spider


def only_page(pages: list[Page], url: str) -> Page:
    """Return the page of a run with one page.

    Raises :exc:`click.ClickException` if there is no page.
    """
    if not pages:
        raise click.ClickException("no page came out; see the log above")
    if failure := pages[0].failure:
        text = f"{url}: {failure.message} ({failure.code})"
        raise click.ClickException(printable(text))
    return pages[0]


def _object_of(settings: Settings, page: Page) -> dict[str, Any]:
    """Return the object of a page, as jobs store it."""
    from scrapy.utils.misc import load_object

    return dict(json.loads(load_object(settings["PAGE_SERIALIZER"])(page)))
