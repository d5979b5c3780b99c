"""Commands with jobs: `crawl` for a site, `batch` for a list of URLs, and `jobs`, which controls them."""

from __future__ import annotations

import json
import re
import shutil
import sys
import uuid
from typing import TYPE_CHECKING, Any

import attrs
import click

from scraper_service.cli import options
from scraper_service.cli.clients import takes_service
from scraper_service.cli.options import examples, takes_output
from scraper_service.cli.outputs.page_files import keys_of_body
from scraper_service.cli.terminal import (
    LAST,
    UUID_LENGTH,
    fit_columns,
    logbook_json,
    logbook_lines,
)
from scraper_service.errors import FAILURE_CODES, OTHER_CODES, plural, printable
from scraper_service.options import catalogue
from scraper_service.options.jobs import SHAPING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from scraper_service.cli.clients import Where
    from scraper_service.cli.options import Wanted


_detach = click.option(
    "--detach",
    is_flag=True,
    help="With --server: print the id of the job and exit. The job continues there.",
)


@click.command(
    "crawl",
    epilog=examples(
        "scraper-service crawl https://example.org --limit 50 -o site/",
        "scraper-service crawl https://example.org -f markdown,links -o pages.jsonl",
        "scraper-service crawl https://example.org --exclude '^/blog' > pages.jsonl",
    ),
)
@click.argument("url")
@options.takes(options.CRAWL, options.JOB_PAGE, nested=True)
@takes_output
@_detach
@takes_service
def crawl_command(
    url: str,
    body: dict[str, Any],
    wanted: Wanted,
    where: Where,
    detach: bool,
) -> None:
    """Crawl a site from URL, and write each page when it is ready.

    Pages go to standard output as JSON Lines. With -o they go to a file that ends in
    .jsonl, .csv, .zip, .sqlite or .parquet, or to a folder that ends in /, with files
    for each page. On a terminal without -o the pages are listed, and kept for
    `jobs export`.

    Ctrl-C stops the crawl cleanly. `jobs resume` continues it, also after a crash.

    Exit codes: 0 success, 1 the job failed or has no page, 2 wrong use, 130
    interrupted, 141 the reader of standard output has gone.
    """
    if body.get("prompt"):
        body = options.without_defaults(body)
    _run("crawl", {"url": url, **body}, wanted, where, detach=detach)


@click.command(
    "batch",
    epilog=examples(
        "scraper-service batch urls.txt -o pages.jsonl",
        "scraper-service batch urls.txt -f json --schema s.json -o pages.csv",
        "echo https://example.org | scraper-service batch - -f screenshot -o out/",
    ),
)
@click.argument("file", type=click.File(encoding="utf-8-sig"))
@options.takes(options.PACE, options.PAGE)
@takes_output
@_detach
@takes_service
def batch_command(
    file: TextIO,
    body: dict[str, Any],
    wanted: Wanted,
    where: Where,
    detach: bool,
) -> None:
    """Fetch the URLs in FILE, one per line, or in standard input with -.

    Empty lines and lines that begin with # are skipped. Output and exit codes are
    those of `crawl`.
    """
    try:
        lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"FILE: it cannot be read: {error}") from None
    urls = [line for line in lines if line and not line.startswith("#")]
    if not urls:
        raise click.UsageError("FILE: it has no URLs")
    _run("batch", {"urls": urls, **body}, wanted, where, detach=detach)


def _run(
    kind: str,
    body: dict[str, Any],
    wanted: Wanted,
    where: Where,
    *,
    detach: bool,
) -> None:
    keys = keys_of_body(body.get("scrapeOptions", body))
    target = wanted.destination().of_pages(keys)
    client = where.client()
    if detach:
        print(client.start(kind, body))
    else:
        sys.exit(client.run(kind, body, target, quiet=wanted.quiet))


MAX_ERRORS = 20  # that a terminal shows
MIN_PREFIX = 4  # characters
MOST_JOBS = 100  # in a list
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
    type=click.IntRange(1, MOST_JOBS),
    metavar="N",
    help=f"At most N jobs.  [default: {USUAL_JOBS} of a service, else all]",
)
@_as_json
@takes_service
def list_command(limit: int | None, as_json: bool, where: Where) -> None:
    """List crawls and batches, the newest first, running or ended.

    `jobs resume` continues a stopped job. With --server, the list has the stored jobs
    of the key's team.
    """
    rows = where.client().newest(limit)
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
def show_command(job_id: str, as_json: bool, where: Where) -> None:
    """Show the progress of a job, its Scrapy stats, and its URLs that failed or that robots.txt refuses."""
    client = where.client()
    found = client.show(client.find(job_id))
    if as_json or not sys.stdout.isatty():
        errors = [attrs.asdict(each) for each in found.failures]
        lists = {"errors": errors, "robotsBlocked": found.refused, "stats": found.stats}
        click.echo(json.dumps({**found.facts, **lists}, ensure_ascii=False))
        return
    for name, value in found.facts.items():
        click.echo(f"{name:8} {printable(str(value))}")
    for failure in found.failures[:MAX_ERRORS]:
        text = f"{failure.url}: {failure.error} ({failure.code})"
        click.echo(f"failed   {printable(text)}")
    if (more := len(found.failures) - MAX_ERRORS) > 0:
        click.echo(f"         and {more} more; see --json")
    if found.refused:
        click.echo(f"refused  {len(found.refused)} by robots.txt; see --json")
    for name, value in found.stats.items():
        click.echo(f"stats    {printable(name)}: {value}")


@jobs_group.command("log")
@_job_id
@_as_json
@takes_service
def log_command(job_id: str, as_json: bool, where: Where) -> None:
    """Print what happened to a job: its states, its processes, and its errors by reason.

    For operators: it reads the job database, also while the service runs. A service does
    not give the log, so --server is refused.
    """
    facts, logbook = where.client().log(job_id)
    if as_json or not sys.stdout.isatty():
        facts |= logbook_json(logbook)
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    click.echo(f"{facts['kind']} {printable(facts['url'])}: {facts['state']}")
    for line in logbook_lines(logbook):
        click.echo(printable(line))


@jobs_group.command("cancel")
@_job_id
@takes_service
def cancel_command(job_id: str, where: Where) -> None:
    """Cancel a job for good; its pages are kept for RETENTION_DAYS (1)."""
    client = where.client()
    client.cancel(job_id := client.find(job_id))
    click.echo(f"cancelled {job_id}")


@jobs_group.command("pause")
@_job_id
@takes_service
def pause_command(job_id: str, where: Where) -> None:
    """Start no further page of a job until `jobs resume`; running pages are delivered."""
    client = where.client()
    client.pause(job_id := client.find(job_id))
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
def retry_command(job_id: str, codes: tuple[str, ...], where: Where) -> None:
    """Fetch failed pages of a job again. `jobs resume` follows it."""
    client = where.client()
    count, warning = client.retry(job_id := client.find(job_id), codes)
    if warning:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"retried {plural(count, 'page')} of {job_id}")


_ROWS = catalogue.select(catalogue.SCRAPE, "formats", *SHAPING)
_URLS = options.CommandOption(
    "urls",
    ("--url",),
    {"multiple": True, "metavar": "URL", "help": "Only this page; may be repeated."},
)
_REPROCESSING = (_URLS, *options.page_options(_ROWS))


@jobs_group.command("reprocess")
@_job_id
@options.takes((), _REPROCESSING)
@takes_service
def reprocess_command(job_id: str, body: dict[str, Any], where: Where) -> None:
    """Make other formats of the stored pages of a job, as a new job.

    Nothing is fetched. `jobs resume` writes the pages of the new job.
    """
    client = where.client()
    made, pages = client.reprocess(job_id := client.find(job_id), body)
    click.echo(
        f"job {made} reprocesses {plural(pages, 'page')} of {job_id};"
        f" `jobs resume {made}` writes them"
    )


@jobs_group.command("resume")
@_job_id
@takes_output
@takes_service
def resume_command(job_id: str, wanted: Wanted, where: Where) -> None:
    """Continue a job that was paused, stopped or killed, and write its pages.

    All pages are written again from the first page on, to the earlier output or to -o.
    A service continues its jobs by itself: with --server, the command follows the job to
    its end. If the job has completed, was cancelled or has failed, only its pages are
    written.
    """
    client = where.client()
    sys.exit(client.resume(client.find(job_id), wanted))


@jobs_group.command("export")
@_job_id
@takes_output
@takes_service
def export_command(job_id: str, wanted: Wanted, where: Where) -> None:
    """Write all pages that a job has so far, without continuing it.

    A .warc.gz or .wacz file has the responses that the pages were made of.
    """
    target = wanted.destination(archives=True)
    if target.path is None:
        raise click.UsageError("-o PATH is needed on a terminal; - is standard output")
    client = where.client()
    sys.exit(client.export(client.find(job_id), target, quiet=wanted.quiet))


def _print_table(rows: Iterable[dict[str, Any]]) -> None:
    width = shutil.get_terminal_size().columns
    for row in rows:
        counts = f"{row['pages']} done, {row['failed']} failed"
        click.echo(f"{row['id']}  {row['state']}, {counts}")
        made = str(row.get("created") or "")[:16].replace("T", " ")
        click.echo(f"  {made}  {fit_columns(str(row['url']), max(width - 20, 20))}")
