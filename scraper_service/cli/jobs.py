"""`jobs`: look at jobs, end them, go on with them, and write their pages again."""

from __future__ import annotations

import json
import shutil
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli.options import takes_output, takes_service
from scraper_service.cli.output import OutputFailed, ReaderGone
from scraper_service.cli.record import forget_run, is_run_here
from scraper_service.cli.settings import check_egress, load_settings
from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.cli.options import Wanted, Where
    from scraper_service.cli.output import Failure
    from scraper_service.jobs.model import Job

MAX_ERRORS = 20  # shown on a terminal


class JobId(click.ParamType[str]):
    """The id of a job, a UUID."""

    name = "JOB_ID"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        try:
            return str(uuid.UUID(value))
        except ValueError:
            self.fail(f"must be the id of a job, a UUID, got {value!r}", param, ctx)


_job_id = click.argument("job_id", type=JobId())
_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, as to a pipe."
)


@click.group("jobs")
def jobs_group() -> None:
    """Look at crawls and batches, end them, go on with them, write their pages.

    Those of the job database in --data-dir, or with --server of a running service. What
    has ended is kept for 24 hours.
    """


@jobs_group.command("list")
@_as_json
@takes_service
@click.pass_obj
def list_command(overrides: tuple[str, ...], as_json: bool, where: Where) -> None:
    """List jobs, the newest first; of a service, the crawls that go on.

    A stopped one waits for `jobs resume`.
    """
    if where.server:
        from scraper_service.cli import remote_run

        found = remote_run.asked(where, lambda r: r.call("GET", "/v2/crawl/active"))
        crawls = found.get("crawls") or []
        rows = [
            {"id": c["id"], "kind": "crawl", "state": "scraping"}
            | {"created": c.get("created_at"), "url": c.get("url")}
            for c in reversed(crawls)
        ]
    else:
        from scraper_service.jobs import store

        settings = load_settings(overrides, DATA_DIR=where.data_dir)
        jobs = _read(settings, store.all_jobs) if _has_jobs(settings) else []
        rows = [_facts(settings, job) for job in jobs]
    if as_json or not sys.stdout.isatty():
        for row in rows:
            click.echo(json.dumps(row, ensure_ascii=False))
    elif rows:
        _print_table(rows)
    else:
        click.echo("there are no jobs")


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
        facts, failures = _remote_facts(where, job_id)
    else:
        from scraper_service.cli.local import DatabaseSource, known_job, open_database

        settings = _known_settings(overrides, where)
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

        path = f"/v2/crawl/{job_id}"
        remote_run.asked(where, lambda r: r.call("DELETE", path))
    else:
        from scraper_service.jobs.model import JobState

        settings = _known_settings(overrides, where)
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
        sys.exit(run.run_known(job_id))
    settings = _known_settings(overrides, where, LOG_LEVEL="ERROR")
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
        sys.exit(run.export(job_id))
    from scraper_service.cli.local import DatabaseSource, known_job, open_database

    settings = _known_settings(overrides, where)
    job = _read(settings, known_job, job_id)
    source = DatabaseSource(open_database(settings), job_id)
    output = place.output()
    written = 0
    try:
        output.open()
        while pages := _read(settings, source.read_pages, written):
            output.write(pages)
            written += len(pages)
        output.close(_read(settings, source.read_failures))
    except (OutputFailed, ReaderGone) as error:
        raise click.ClickException(str(error) or "nobody reads the output") from error
    if not wanted.quiet:
        click.echo(f"{written} pages of a job that is {job.state}", err=True)


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
    from scraper_service.jobs import store
    from scraper_service.jobs.model import JobState

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
    from scraper_service.jobs.model import LOCAL_TEAM

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
            words += f", {row['pages']} done, {row['failed']} failed"
        click.echo(words)
        made = str(row.get("created") or "")[:16].replace("T", " ")
        click.echo(f"  {made}  {printable(str(row['url']), max(width - 20, 20))}")
