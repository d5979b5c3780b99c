"""`jobs`: list, show and control jobs, and export their pages."""

from __future__ import annotations

import json
import re
import shutil
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import click

from scraper_service.cli import reprocess
from scraper_service.cli.job_state import (
    OutputFailed,
    ReaderGone,
    logbook_json,
    logbook_lines,
    utc,
)
from scraper_service.cli.local_run import forget_run, is_run_here
from scraper_service.cli.operator.keys import operator
from scraper_service.cli.options import Where, takes_output, takes_service
from scraper_service.cli.reprocess import takes_request
from scraper_service.cli.settings import check_egress, load_settings
from scraper_service.cli.terminal import fitted, leave_pipe
from scraper_service.content.text.printable import printable
from scraper_service.errors import counted
from scraper_service.items import FAILURE_CODES, OTHER_CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.cli.job_state import FailedUrl
    from scraper_service.cli.options import Wanted
    from scraper_service.cli.outputs.output import Destination
    from scraper_service.storage.accounts.audit import Actor
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.jobs.job_retry import RetriedJob

MAX_ERRORS = 20  # that a terminal shows
MAX_SHOWN = 3  # ids in the error for an ambiguous prefix
LAST = "last"
MIN_PREFIX, UUID_LENGTH = 4, 36  # characters
MOST_RECENT = 100  # jobs of a service among which a prefix is looked up
USUAL_JOBS = 20  # in a list of a service
_PREFIX = re.compile(rf"[0-9a-f-]{{{MIN_PREFIX},{UUID_LENGTH - 1}}}")


class JobId(click.ParamType[str]):
    """The id of a job: a UUID, its first characters, or ``last``."""

    name = "JOB_ID"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        text = str(value).strip().lower()
        try:
            return str(uuid.UUID(text))
        except ValueError:
            if text == LAST or _PREFIX.fullmatch(text):
                return text
            self.fail(
                f"must be the id of a job, its first {MIN_PREFIX} characters or more,"
                f" or {LAST}, got {value!r}",
                param,
                ctx,
            )


_job_id = click.argument("job_id", type=JobId())


def _chosen(text: str, ids: Sequence[str]) -> str:
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


def _of_service(where: Where, text: str) -> str:
    """Return the full id of a job of a service. ``text`` is an id, a prefix or ``last``."""
    from scraper_service.cli import remote
    from scraper_service.cli.remote import list_jobs

    if len(text) == UUID_LENGTH:
        return text
    rows = remote.call_service(where, lambda remote: list_jobs(remote, MOST_RECENT))
    return _chosen(text, [row["id"] for row in rows])


def _of_database(settings: Settings, text: str) -> str:
    """Return the full id of a job in the database.

    ``text`` is an id, a prefix or ``last``.
    """
    from scraper_service.storage.jobs import job_store

    if len(text) == UUID_LENGTH:
        return text
    return _chosen(text, [job.id for job in _read(settings, job_store.all_jobs)])


_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, as into a pipe."
)


@click.group("jobs")
def jobs_group() -> None:
    """List, show, pause, resume, retry, reprocess, cancel and export crawls and batches.

    Jobs are in the job database of --data-dir, or with --server in a running service.
    A job is kept for RETENTION_DAYS (1) after its end.

    JOB_ID is the id of a job, its first characters, or `last` for the newest job.
    """


@jobs_group.command("list")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_RECENT),
    metavar="N",
    help=f"At most N jobs.  [default: {USUAL_JOBS} of a service, else all]",
)
@_as_json
@takes_service
@click.pass_obj
def list_command(
    overrides: tuple[str, ...], limit: int | None, as_json: bool, where: Where
) -> None:
    """List crawls and batches, the newest first, running or ended.

    `jobs resume` continues a stopped job. With --server, the list has the stored jobs
    of the key's team.
    """
    if where.server:
        from scraper_service.cli import remote
        from scraper_service.cli.remote import list_jobs

        most = limit or USUAL_JOBS
        rows = remote.call_service(where, lambda remote: list_jobs(remote, most))
    else:
        from scraper_service.storage.jobs import job_store

        settings = load_settings(overrides, DATA_DIR=where.data_dir)
        jobs = _read(settings, job_store.all_jobs) if _has_jobs(settings) else []
        rows = [_facts(settings, job) for job in jobs[:limit]]
    if not rows:
        click.echo("there are no jobs", err=True)
    elif as_json or not sys.stdout.isatty():
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    else:
        _print_table(rows)


@jobs_group.command("show")
@_job_id
@_as_json
@takes_service
@click.pass_obj
def show_command(
    overrides: tuple[str, ...], job_id: str, as_json: bool, where: Where
) -> None:
    """Show the progress of a job, its Scrapy stats, and its URLs that failed or that robots.txt refuses."""
    if where.server:
        job_id = _of_service(where, job_id)
        facts, failures, refused, stats = _remote_facts(where, job_id)
    else:
        from scraper_service.cli.local_run import (
            DatabaseSource,
            known_job,
            open_database,
        )
        from scraper_service.storage.politeness.request_counts import read_stats

        settings = _known_settings(overrides, where)
        job_id = _of_database(settings, job_id)
        job = _read(settings, known_job, job_id)
        facts = _facts(settings, job)
        source = DatabaseSource(open_database(settings), job_id)
        failures = _read(settings, source.read_failures)
        refused = _read(settings, source.read_robots_blocked)
        stats = _read(settings, read_stats, job_id)
    if as_json or not sys.stdout.isatty():
        errors = [{"url": f.url, "code": f.code, "error": f.error} for f in failures]
        lists = {"errors": errors, "robotsBlocked": refused, "stats": stats}
        click.echo(json.dumps({**facts, **lists}, ensure_ascii=False))
        return
    for name, value in facts.items():
        click.echo(f"{name:8} {printable(str(value))}")
    for failure in failures[:MAX_ERRORS]:
        text = f"{failure.url}: {failure.error} ({failure.code})"
        click.echo(f"failed   {printable(text)}")
    if len(failures) > MAX_ERRORS:
        click.echo(f"         and {len(failures) - MAX_ERRORS} more; see --json")
    if refused:
        click.echo(f"refused  {len(refused)} by robots.txt; see --json")
    for name, value in stats.items():
        click.echo(f"stats    {printable(name)}: {value}")


@jobs_group.command("log")
@_job_id
@_as_json
@takes_service
@click.pass_obj
def log_command(
    overrides: tuple[str, ...], job_id: str, as_json: bool, where: Where
) -> None:
    """Print what happened to a job: its states, its processes, and its errors by reason.

    For operators: it reads the job database, also while the service runs. A service does
    not give the log, so --server is refused.
    """
    if where.server:
        raise click.UsageError(
            "a service does not give the log of a job: use the command where its job"
            " database is, without --server and SCRAPER_SERVER"
        )
    from scraper_service.cli.local_run import known_job
    from scraper_service.storage.jobs.job_log import read_log

    settings = _known_settings(overrides, where)
    job_id = _of_database(settings, job_id)
    job = _read(settings, known_job, job_id)
    logbook = _read(settings, read_log, job_id)
    if as_json or not sys.stdout.isatty():
        facts = {**_facts(settings, job), **logbook_json(logbook)}
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    click.echo(f"{job.kind} {printable(job.url)}: {_state(settings, job)}")
    for line in logbook_lines(logbook):
        click.echo(printable(line))


@jobs_group.command("cancel")
@_job_id
@takes_service
@click.pass_obj
def cancel_command(overrides: tuple[str, ...], job_id: str, where: Where) -> None:
    """Cancel a job for good; its pages are kept for RETENTION_DAYS (1)."""
    if where.server:
        from scraper_service.cli import remote

        job_id = _of_service(where, job_id)
        path = f"/v2/crawl/{job_id}"
        remote.call_service(where, lambda r: r.call("DELETE", path))
    else:
        from scraper_service.storage.job_records import JobState

        settings = _known_settings(overrides, where)
        job_id = _of_database(settings, job_id)
        job = _write(settings, _cancelled, job_id, operator(settings))
        if job.state is not JobState.CANCELLED:
            raise click.ClickException(f"job {job_id} is {job.state} already")
        forget_run(Path(settings["DATA_DIR"]), job_id)
    click.echo(f"cancelled {job_id}")


@jobs_group.command("pause")
@_job_id
@takes_service
@click.pass_obj
def pause_command(overrides: tuple[str, ...], job_id: str, where: Where) -> None:
    """Start no further page of a job until `jobs resume`; running pages are delivered."""
    if where.server:
        from scraper_service.cli import remote

        job_id = _of_service(where, job_id)
        path, body = f"/v2/crawl/{job_id}", {"paused": True}
        remote.call_service(where, lambda r: r.call("PATCH", path, body))
    else:
        settings = _known_settings(overrides, where)
        job_id = _of_database(settings, job_id)
        _write(settings, _pause, job_id, True, operator(settings))
    click.echo(f"paused {job_id}")


@jobs_group.command("retry")
@_job_id
@click.option(
    "--code",
    "codes",
    type=click.Choice((*FAILURE_CODES, *OTHER_CODES)),
    metavar="CODE",
    multiple=True,
    help="Only pages with this error code; may be repeated.",
)
@takes_service
@click.pass_obj
def retry_command(
    overrides: tuple[str, ...], job_id: str, codes: tuple[str, ...], where: Where
) -> None:
    """Fetch failed pages of a job again. `jobs resume` follows it."""
    if where.server:
        from scraper_service.cli import remote

        job_id = _of_service(where, job_id)
        path = f"/v2/crawl/{job_id}/retry"
        body = {"codes": list(codes)} if codes else {}
        found = remote.call_service(where, lambda r: r.call("POST", path, body))
        count, warning = found["retried"], found.get("warning")
    else:
        settings = _known_settings(overrides, where)
        job_id = _of_database(settings, job_id)
        retried = _write(settings, _retry, job_id, codes)
        count, warning = retried.retried, retried.warning
    if warning:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"retried {counted(count, 'page')} of {job_id}")


@jobs_group.command("reprocess")
@_job_id
@takes_request
@takes_service
@click.pass_obj
def reprocess_command(
    overrides: tuple[str, ...], job_id: str, body: dict[str, Any], where: Where
) -> None:
    """Make other formats of the stored pages of a job, as a new job.

    Nothing is fetched. `jobs resume` writes the pages of the new job.
    """
    if where.server:
        from scraper_service.cli import remote

        job_id = _of_service(where, job_id)
        made, pages = remote.call_service(
            where, lambda r: remote.reprocess(r, job_id, body)
        )
    else:
        settings = _known_settings(overrides, where)
        job_id = _of_database(settings, job_id)
        job = _write(settings, reprocess.store, job_id, body, settings)
        made, pages = job.id, job.open
    click.echo(reprocess.made_text(job_id, made, pages))


@jobs_group.command("resume")
@_job_id
@takes_output
@takes_service
@click.pass_obj
def resume_command(
    overrides: tuple[str, ...], job_id: str, wanted: Wanted, where: Where
) -> None:
    """Continue a job that was paused, stopped or killed, and write its pages.

    All pages are written again from the first page on, to the earlier output or to -o.
    A service continues its jobs by itself: with --server, the command follows the job to
    its end. If the job has completed, was cancelled or has failed, only its pages are
    written.
    """
    if where.server:
        from scraper_service.cli.remote import RemoteRun

        run = RemoteRun(where, wanted.destination(), quiet=wanted.quiet)
        job_id = _of_service(where, job_id)
        _resume_remote(where, job_id)
        sys.exit(run.run_known(job_id))
    settings = _known_settings(overrides, where, LOG_LEVEL="ERROR")
    job_id = _of_database(settings, job_id)
    check_egress(settings)
    _write(settings, _pause, job_id, False, operator(settings))
    from scraper_service.cli.local_run import LocalRun

    place = wanted.destination_if_named()
    sys.exit(LocalRun(settings, job_id, place, quiet=wanted.quiet).run())


@jobs_group.command("export")
@_job_id
@takes_output
@takes_service
@click.pass_obj
def export_command(
    overrides: tuple[str, ...], job_id: str, wanted: Wanted, where: Where
) -> None:
    """Write all pages that a job has so far, without continuing it.

    A .warc.gz or .wacz file has the responses that the pages were made of. -o takes also
    s3://, gs:// and az:// URLs; the credentials come from the environment.
    """
    place = wanted.destination(archives=True)
    if place.path is None:
        raise click.UsageError("-o PATH is needed on a terminal; - is standard output")
    from scraper_service.cli.outputs.store_upload import uploaded

    with uploaded(place) as at:
        _export(overrides, job_id, wanted, where, at)


def _export(
    overrides: tuple[str, ...],
    job_id: str,
    wanted: Wanted,
    where: Where,
    place: Destination,
) -> None:
    if where.server:
        from scraper_service.cli.remote import RemoteRun

        run = RemoteRun(where, place, quiet=wanted.quiet)
        job_id = _of_service(where, job_id)
        write = run.download if place.is_archive else run.export
        if code := write(job_id):
            sys.exit(code)
        return
    from scraper_service.cli.local_run import known_job
    from scraper_service.cli.outputs.local_export import export_job

    settings = _known_settings(overrides, where)
    job_id = _of_database(settings, job_id)
    job = _read(settings, known_job, job_id)
    try:
        written = export_job(settings, job, place)
    except OutputFailed as error:
        raise click.ClickException(str(error)) from error
    except ReaderGone:
        leave_pipe()
    if not wanted.quiet:
        click.echo(f"{counted(written, 'page')} of a job that is {job.state}", err=True)


def _known_settings(
    overrides: tuple[str, ...], where: Where, **options: Any
) -> Settings:
    """Return the settings.

    Raises :exc:`click.ClickException` if the data directory has no job database.
    """
    settings = load_settings(overrides, DATA_DIR=where.data_dir, **options)
    if not _has_jobs(settings):
        data_dir = settings["DATA_DIR"]
        raise click.ClickException(
            f"no jobs are kept in {data_dir}; name another folder with --data-dir"
        )
    return settings


def _has_jobs(settings: Settings) -> bool:
    # A search for jobs must not create a database.
    path = Path(settings["DATA_DIR"]) / "jobs.sqlite"
    return bool(settings["DATABASE_URL"]) or path.exists()


def _read(settings: Settings, function: Any, *arguments: Any) -> Any:
    from scraper_service.cli.local_run import open_database

    with open_database(settings).engine.begin() as connection:
        return function(connection, *arguments)


def _write(settings: Settings, function: Any, *arguments: Any) -> Any:
    from scraper_service.cli.local_run import open_database

    # Lock at the start: SQLite refuses a transaction that reads first, if another
    # process has written before its first write.
    engine = open_database(settings).engine.execution_options(immediate=True)
    with engine.begin() as connection:
        return function(connection, *arguments)


def _cancelled(connection: Connection, job_id: str, actor: Actor | None) -> Job:
    from scraper_service.cli.local_run import known_job
    from scraper_service.storage.accounts import audit
    from scraper_service.storage.frontier import outcomes
    from scraper_service.storage.job_records import JobState

    job = known_job(connection, job_id)
    if job.is_active:
        outcomes.end_job(connection, job_id, JobState.CANCELLED)
        audit.record(connection, actor, "job.cancelled", job_id, team_id=job.team_id)
    return known_job(connection, job_id)


def _pause(
    connection: Connection, job_id: str, paused: bool, actor: Actor | None
) -> None:
    """Pause a job, or let it go on. An ended job goes on as it is."""
    from scraper_service.cli.local_run import known_job
    from scraper_service.options.crawl import ChangeRequest
    from scraper_service.storage.jobs import job_control

    request = ChangeRequest(paused=paused)
    team_id = known_job(connection, job_id).team_id
    if actor is not None:
        actor = attrs.evolve(actor, team_id=team_id)
    found = job_control.change_job(connection, job_id, team_id, request, actor)
    if isinstance(found, Exception) and paused:
        raise click.ClickException(str(found))


def _retry(connection: Connection, job_id: str, codes: tuple[str, ...]) -> RetriedJob:
    from scraper_service.cli.local_run import known_job
    from scraper_service.options.crawl import RetryRequest
    from scraper_service.storage.jobs import job_retry
    from scraper_service.storage.jobs.admission import Terms

    job = known_job(connection, job_id)
    terms = Terms(team_id=job.team_id, page_price=job.page_price)
    request = RetryRequest(codes=frozenset(codes))
    found = job_retry.retry_pages(connection, job_id, terms, request)
    if isinstance(found, Exception):
        raise click.ClickException(str(found))
    return found


def _resume_remote(where: Where, job_id: str) -> None:
    """Let a job of a service go on if it is paused."""
    from scraper_service.cli import remote
    from scraper_service.cli.remote import Remote, RemoteError, RemoteSource

    async def resume(remote: Remote) -> None:
        status, _ = await RemoteSource(remote, job_id).poll(0)
        if status.state != "scraping":
            return
        try:
            await remote.call("PATCH", f"/v2/crawl/{job_id}", {"paused": False})
        except RemoteError as error:
            if error.status != 409:  # it has ended meanwhile
                raise

    remote.call_service(where, resume)


def _facts(settings: Settings, job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "state": _state(settings, job),
        "pages": job.pages,
        "failed": job.failed,
        "pending": job.open,
        "created": utc(job.created_at),
        "url": job.url,
    } | {
        name: value
        for name, value in (("warning", job.warning), ("error", job.error))
        if value
    }


def _state(settings: Settings, job: Job) -> str:
    """Return the state of a job.

    An active job is ``running`` while a command runs it. A local job that no command
    runs is ``stopped``.
    """
    from scraper_service.storage.job_records import LOCAL_TEAM

    if not job.is_active:
        return job.state.value
    if job.paused_at is not None:
        return "paused"
    if is_run_here(Path(settings["DATA_DIR"]), job.id):
        return "running"
    return "stopped" if job.team_id == LOCAL_TEAM else job.state.value


_RemoteFacts: TypeAlias = (
    "tuple[dict[str, Any], list[FailedUrl], list[str], dict[str, float]]"
)


def _remote_facts(where: Where, job_id: str) -> _RemoteFacts:
    from scraper_service.cli import remote
    from scraper_service.cli.remote import Remote, RemoteSource, read_job

    async def ask(remote: Remote) -> _RemoteFacts:
        source = RemoteSource(remote, job_id)
        facts = await read_job(remote, job_id)
        failures, refused = await source.failures(), await source.robots_blocked()
        return facts, failures, refused, await source.stats()

    return remote.call_service(where, ask)


def _print_table(rows: Iterable[dict[str, Any]]) -> None:
    width = shutil.get_terminal_size().columns
    for row in rows:
        words = f"{row['id']}  {row['state']}"
        if "pages" in row:
            words += f", {row['pages']} done"
        if "failed" in row:
            words += f", {row['failed']} failed"
        click.echo(words)
        made = str(row.get("created") or "")[:16].replace("T", " ")
        click.echo(f"  {made}  {fitted(str(row['url']), max(width - 20, 20))}")
