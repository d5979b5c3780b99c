"""`jobs`: look at jobs, end them, go on with them, and write their pages again."""

from __future__ import annotations

import json
import re
import shutil
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli.follow import counted
from scraper_service.cli.job_state import OutputFailed, ReaderGone
from scraper_service.cli.options import takes_output, takes_service
from scraper_service.cli.record import forget_run, is_run_here
from scraper_service.cli.settings import check_egress, load_settings
from scraper_service.cli.terminal import fitted, leave_pipe, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.cli.job_state import Failure
    from scraper_service.cli.options import Wanted, Where
    from scraper_service.storage.job_records import Job

MAX_ERRORS = 20  # shown on a terminal
MAX_SHOWN = 3  # ids that begin alike
LAST = "last"
MIN_PREFIX, UUID_LENGTH = 4, 36  # characters
MOST_RECENT = 100  # jobs of a service that an id is looked for in
USUAL_JOBS = 20  # of a service in a list: each costs a call
_PREFIX = re.compile(rf"[0-9a-f-]{{{MIN_PREFIX},{UUID_LENGTH - 1}}}")


class JobId(click.ParamType[str]):
    """The id of a job, a UUID, the beginning of one, or ``last``."""

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
    """Return the one of ``ids``, the newest first, that ``text`` stands for.

    Raises :exc:`click.ClickException`.
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
    """Return the id of a job of a service that ``text`` stands for."""
    from scraper_service.cli import remote_run
    from scraper_service.cli.remote_jobs import recent

    if len(text) == UUID_LENGTH:
        return text
    rows = remote_run.asked(where, lambda remote: recent(remote, MOST_RECENT))
    return _chosen(text, [row["id"] for row in rows])


def _of_database(settings: Settings, text: str) -> str:
    """Return the id of a job of the database that ``text`` stands for."""
    from scraper_service.storage import jobs as store

    if len(text) == UUID_LENGTH:
        return text
    return _chosen(text, [job.id for job in _read(settings, store.all_jobs)])


_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, as to a pipe."
)


@click.group("jobs")
def jobs_group() -> None:
    """Look at crawls and batches, end them, go on with them, write their pages.

    Those of the job database in --data-dir, or with --server of a running service. What
    has ended is kept for 24 hours.

    JOB_ID is the id of a job, the beginning of one, or `last` for the newest job.
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
    """List crawls and batches, the newest first, also those that have ended.

    A stopped one waits for `jobs resume`. Of a service they are those of the team of
    the key, of the last 24 hours.
    """
    if where.server:
        from scraper_service.cli import remote_run
        from scraper_service.cli.remote_jobs import listed

        most = limit or USUAL_JOBS
        rows = remote_run.asked(where, lambda remote: listed(remote, most))
    else:
        from scraper_service.storage import jobs as store

        settings = load_settings(overrides, DATA_DIR=where.data_dir)
        jobs = _read(settings, store.all_jobs) if _has_jobs(settings) else []
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
    """Tell of a job how far it is, and which of its addresses failed, and why."""
    if where.server:
        job_id = _of_service(where, job_id)
        facts, failures = _remote_facts(where, job_id)
    else:
        from scraper_service.cli.local import DatabaseSource, known_job, open_database

        settings = _known_settings(overrides, where)
        job_id = _of_database(settings, job_id)
        job = _read(settings, known_job, job_id)
        facts = _facts(settings, job)
        source = DatabaseSource(open_database(settings), job_id)
        failures = _read(settings, source.read_failures)
    if as_json or not sys.stdout.isatty():
        errors = [{"url": f.url, "code": f.code, "error": f.error} for f in failures]
        click.echo(json.dumps({**facts, "errors": errors}, ensure_ascii=False))
        return
    for name, value in facts.items():
        click.echo(f"{name:8} {printable(str(value))}")
    for failure in failures[:MAX_ERRORS]:
        text = f"{failure.url}: {failure.error} ({failure.code})"
        click.echo(f"failed   {printable(text)}")
    if len(failures) > MAX_ERRORS:
        click.echo(f"         and {len(failures) - MAX_ERRORS} more; see --json")


@jobs_group.command("cancel")
@_job_id
@takes_service
@click.pass_obj
def cancel_command(overrides: tuple[str, ...], job_id: str, where: Where) -> None:
    """End a job for good; the pages that it has stay for 24 hours."""
    if where.server:
        from scraper_service.cli import remote_run

        job_id = _of_service(where, job_id)
        path = f"/v2/crawl/{job_id}"
        remote_run.asked(where, lambda r: r.call("DELETE", path))
    else:
        from scraper_service.storage.job_records import JobState

        settings = _known_settings(overrides, where)
        job_id = _of_database(settings, job_id)
        job = _write(settings, _cancelled, job_id)
        if job.state is not JobState.CANCELLED:
            raise click.ClickException(f"job {job_id} is {job.state} already")
        forget_run(Path(settings["DATA_DIR"]), job_id)
    click.echo(f"cancelled {job_id}")


@jobs_group.command("resume")
@_job_id
@takes_output
@takes_service
@click.pass_obj
def resume_command(
    overrides: tuple[str, ...], job_id: str, wanted: Wanted, where: Where
) -> None:
    """Go on with a job that was stopped or killed, and write its pages.

    To where they went before, unless -o says otherwise, from the first page on. At a
    service, jobs go on by themselves: one is followed to its end. What has ended is
    only written; a job that was cancelled or has failed does not go on.
    """
    if where.server:
        from scraper_service.cli.remote_run import RemoteRun

        run = RemoteRun(where, wanted.destination(), quiet=wanted.quiet)
        sys.exit(run.run_known(_of_service(where, job_id)))
    settings = _known_settings(overrides, where, LOG_LEVEL="ERROR")
    job_id = _of_database(settings, job_id)
    check_egress(settings)
    from scraper_service.cli.local import LocalRun

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
    """Write the pages that a job has so far, all of them, and start nothing."""
    place = wanted.destination()
    if place.path is None:
        raise click.UsageError("-o PATH is needed on a terminal; - is standard output")
    if where.server:
        from scraper_service.cli.remote_run import RemoteRun

        run = RemoteRun(where, place, quiet=wanted.quiet)
        sys.exit(run.export(_of_service(where, job_id)))
    from scraper_service.cli.local import (
        DatabaseSource,
        keys_of_job,
        known_job,
        open_database,
    )

    settings = _known_settings(overrides, where)
    job_id = _of_database(settings, job_id)
    job = _read(settings, known_job, job_id)
    source = DatabaseSource(open_database(settings), job_id)
    output = place.of_pages(keys_of_job(job)).output()
    written = 0
    try:
        output.open()
        while pages := _read(settings, source.read_pages, written):
            output.write(pages)
            written += len(pages)
        output.close(_read(settings, source.read_failures))
    except OutputFailed as error:
        raise click.ClickException(str(error)) from error
    except ReaderGone:
        leave_pipe()
    if not wanted.quiet:
        click.echo(f"{counted(written)} of a job that is {job.state}", err=True)


def _known_settings(
    overrides: tuple[str, ...], where: Where, **options: Any
) -> Settings:
    """Return the settings; raise :exc:`click.ClickException` if no job is kept."""
    settings = load_settings(overrides, DATA_DIR=where.data_dir, **options)
    if not _has_jobs(settings):
        data_dir = settings["DATA_DIR"]
        raise click.ClickException(
            f"no jobs are kept in {data_dir}; name another folder with --data-dir"
        )
    return settings


def _has_jobs(settings: Settings) -> bool:
    # To look for jobs makes no database.
    path = Path(settings["DATA_DIR"]) / "jobs.sqlite"
    return bool(settings["DATABASE_URL"]) or path.exists()


def _read(settings: Settings, function: Any, *arguments: Any) -> Any:
    from scraper_service.cli.local import open_database

    with open_database(settings).engine.begin() as connection:
        return function(connection, *arguments)


def _write(settings: Settings, function: Any, *arguments: Any) -> Any:
    from scraper_service.cli.local import open_database

    # Else SQLite would refuse what began with reading while another process wrote.
    engine = open_database(settings).engine.execution_options(immediate=True)
    with engine.begin() as connection:
        return function(connection, *arguments)


def _cancelled(connection: Connection, job_id: str) -> Job:
    from scraper_service.cli.local import known_job
    from scraper_service.storage import jobs as store
    from scraper_service.storage.job_records import JobState

    known_job(connection, job_id)
    store.end_job(connection, job_id, JobState.CANCELLED)
    return known_job(connection, job_id)


def _facts(settings: Settings, job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "state": _state(settings, job),
        "pages": job.pages,
        "failed": job.failed,
        "pending": job.open,
        "created": _time(job.created_at),
        "url": job.url,
    } | {
        name: value
        for name, value in (("warning", job.warning), ("error", job.error))
        if value
    }


def _state(settings: Settings, job: Job) -> str:
    """Return the state of a job, where one that nobody works on is ``stopped``."""
    from scraper_service.storage.job_records import LOCAL_TEAM

    if not job.is_active:
        return job.state.value
    if is_run_here(Path(settings["DATA_DIR"]), job.id):
        return "running"
    return "stopped" if job.team_id == LOCAL_TEAM else job.state.value


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _remote_facts(where: Where, job_id: str) -> tuple[dict[str, Any], list[Failure]]:
    from scraper_service.cli import remote_run
    from scraper_service.cli.remote import Remote, RemoteSource

    async def ask(remote: Remote) -> tuple[dict[str, Any], list[Failure]]:
        source = RemoteSource(remote, job_id)
        status, _ = await source.poll(0)
        facts = {
            "id": job_id,
            "state": status.state,
            "pages": status.pages,
            "failed": status.failed,
            "pending": status.pending,
            "warning": status.warning,
            "error": status.error,
        }
        known = {name: value for name, value in facts.items() if value is not None}
        return known, await source.failures()

    return remote_run.asked(where, ask)


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
