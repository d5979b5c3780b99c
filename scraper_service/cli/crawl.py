"""Commands that fetch many pages: `crawl` for a site, `batch` for a list of URLs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli import options
from scraper_service.cli.jobs_client import takes_service
from scraper_service.cli.options import examples, takes_output
from scraper_service.cli.outputs import page_formats

if TYPE_CHECKING:
    from typing import TextIO

    from scraper_service.cli.jobs_client import Where
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
    lines = [line.strip() for line in file]
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
    keys = page_formats.keys_of_body(body.get("scrapeOptions", body))
    place = wanted.destination().of_pages(keys)
    client = where.client()
    if detach:
        print(client.start(kind, body))
    else:
        sys.exit(client.run(kind, body, place, quiet=wanted.quiet))
