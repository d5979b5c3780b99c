"""Commands that fetch many pages: a crawl of a site, a batch of addresses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli import asking, catalogue, reading
from scraper_service.cli.options import examples, takes_output, takes_service
from scraper_service.cli.settings import check_egress, load_settings
from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from typing import TextIO

    from scraper_service.cli.options import Wanted, Where

_detach = click.option(
    "--detach",
    is_flag=True,
    help="With --server: print the id of the job and leave it to the service.",
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
@asking.takes(asking.CRAWL, asking.JOB_PAGE, nested=True)
@takes_output
@_detach
@takes_service
@click.pass_obj
def crawl_command(
    overrides: tuple[str, ...],
    url: str,
    body: dict[str, Any],
    wanted: Wanted,
    where: Where,
    detach: bool,
) -> None:
    """Fetch a site from URL on, and write its pages as they come.

    Pages go to standard output as lines of JSON, or with -o to a file that ends in
    .jsonl or .csv, or to a folder with the files of each page, which ends in /. On a
    terminal without -o they are listed, and kept for `jobs export`.

    Ctrl-C ends it cleanly; `jobs resume` goes on where it was, and also after a crash.

    Exit codes: 0 all is well, 1 the job failed or brought no page, 2 wrong use, 130
    interrupted, 141 nobody reads the output any more.
    """
    if body.get("prompt"):
        body = asking.without_defaults(body)
    _run("crawl", overrides, {"url": url, **body}, wanted, where, detach=detach)


@click.command(
    "batch",
    epilog=examples(
        "scraper-service batch urls.txt -o pages.jsonl",
        "scraper-service batch urls.txt -f json --schema s.json -o pages.csv",
        "echo https://example.org | scraper-service batch - -f screenshot -o out/",
    ),
)
@click.argument("file", type=click.File(encoding="utf-8-sig"))
@asking.takes(asking.PACE, asking.PAGE)
@takes_output
@_detach
@takes_service
@click.pass_obj
def batch_command(
    overrides: tuple[str, ...],
    file: TextIO,
    body: dict[str, Any],
    wanted: Wanted,
    where: Where,
    detach: bool,
) -> None:
    """Fetch the addresses in FILE, one in each line, or of standard input with -.

    Empty lines and those that begin with # are left out. All else is as with `crawl`.
    """
    lines = [line.strip() for line in file]
    urls = [line for line in lines if line and not line.startswith("#")]
    if not urls:
        raise click.UsageError("FILE: there is no address in it")
    _run("batch", overrides, {"urls": urls, **body}, wanted, where, detach=detach)


def _run(
    kind: str,
    overrides: tuple[str, ...],
    body: dict[str, Any],
    wanted: Wanted,
    where: Where,
    *,
    detach: bool,
) -> None:
    keys = catalogue.keys_of_body(body.get("scrapeOptions", body))
    place = wanted.destination().of_pages(keys)
    if where.server:
        from scraper_service.cli import remote_run

        if detach:
            print(remote_run.asked(where, lambda r: remote_run.start(r, kind, body)))
            return
        run = remote_run.RemoteRun(where, place, quiet=wanted.quiet)
        sys.exit(run.run_new(kind, body))
    if detach:
        raise click.UsageError("--detach needs a service that goes on: --server")
    from scraper_service.crawling.browser.chromium import why_missing
    from scraper_service.options.model import missing_model

    settings = load_settings(overrides, LOG_LEVEL="ERROR", DATA_DIR=where.data_dir)
    missing = why_missing(settings), missing_model(settings)
    options, left_out = reading.job_options(kind, body, *missing)
    for url in left_out:
        click.echo(f"left out: {printable(url, 200)}", err=True)
    check_egress(settings)
    from scraper_service.cli.local import LocalRun

    sys.exit(LocalRun(settings, options, place, quiet=wanted.quiet).run())
