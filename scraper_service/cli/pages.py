"""Commands that answer at once: one page, or the addresses of a site.

Heavy imports stand inside the commands, see :mod:`scraper_service.cli.root`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli import asking, reading
from scraper_service.cli.options import takes_service
from scraper_service.cli.settings import check_egress, load_settings
from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import Settings

    from scraper_service.cli.options import Where

_output = click.option(
    "-o", "--output", metavar="FILE", help="Write to FILE, not the terminal."
)


@click.command("scrape")
@click.argument("url")
@asking.takes((), asking.PAGE)
@_output
@click.option("--json", "as_json", is_flag=True, help="Print the whole page object.")
@takes_service
@click.pass_obj
def scrape_command(
    overrides: tuple[str, ...],
    url: str,
    body: dict[str, Any],
    output: str | None,
    as_json: bool,
    where: Where,
) -> None:
    """Fetch URL and print it: Markdown, or JSON for several formats.

    Exit codes: 0 all is well, 1 there is no page, 2 wrong use, 130 interrupted.
    """
    page = _page(overrides, {"url": url, **body}, where)
    if warning := page.get("warning"):
        click.echo(f"warning: {printable(warning)}", err=True)
    values = [v for k, v in page.items() if k not in {"metadata", "warning"}]
    value = values[0] if len(values) == 1 and not as_json else page
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    _write([text], output)


def _page(
    overrides: tuple[str, ...], body: dict[str, Any], where: Where
) -> dict[str, Any]:
    """Return a page object of /v2; raise :exc:`click.ClickException`."""
    if where.server:
        from scraper_service.cli import remote_run

        found = remote_run.asked(where, lambda r: r.call("POST", "/v2/scrape", body))
        page: dict[str, Any] = found.get("data") or {}
        return page
    from scraper_service.api.page_json import page_json
    from scraper_service.components.browser.chromium import why_missing
    from scraper_service.options.model import missing_model

    settings = _settings(overrides, where)
    missing = why_missing(settings), missing_model(settings)
    options = reading.page_options(body, *missing)
    if options.scrape.max_age_ms:
        raise click.UsageError("--max-age: only a service keeps pages; see --server")
    pages, _ = _run(settings, "scrape", page=options)
    if not pages:
        raise click.ClickException("no page came out; see the log above")
    if failure := pages[0].failure:
        text = f"{options.url}: {failure.message} ({failure.code})"
        raise click.ClickException(printable(text))
    return dict(json.loads(page_json(pages[0])))


@click.command("map")
@click.argument("url")
@asking.takes(asking.MAP)
@_output
@click.option("--json", "as_json", is_flag=True, help="Print objects with titles.")
@takes_service
@click.pass_obj
def map_command(
    overrides: tuple[str, ...],
    url: str,
    body: dict[str, Any],
    output: str | None,
    as_json: bool,
    where: Where,
) -> None:
    """Print the addresses of the site of URL, one in each line.

    Exit codes: 0 all is well, 1 there is no map, 2 wrong use, 130 interrupted.
    """
    links, warnings = _links(overrides, {"url": url, **body}, where)
    for warning in warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    lines = (
        json.dumps(link, ensure_ascii=False) if as_json else str(link["url"])
        for link in links
    )
    _write(lines, output)


def _links(
    overrides: tuple[str, ...], body: dict[str, Any], where: Where
) -> tuple[list[dict[str, str]], list[str]]:
    """Return the objects of a map, and its warnings."""
    if where.server:
        from scraper_service.cli import remote_run

        found = remote_run.asked(where, lambda r: r.call("POST", "/v2/map", body))
        return found.get("links") or [], _warnings(found)
    from scraper_service.components.failures import map_failure, map_warnings

    options = reading.map_options(body)
    settings = _settings(overrides, where)
    links, spider = _run(settings, "map", asked=options)
    url = printable(options.url)
    if spider.found is None:
        raise click.ClickException(f"{url}: Map timed out (MAP_TIMEOUT)")
    if failure := map_failure(spider.found):
        raise click.ClickException(f"{url}: {failure.message} ({failure.code})")
    return [link.as_dict() for link in links], map_warnings(spider.found)


@click.command("search")
@click.argument("query")
@asking.takes(asking.SEARCH)
@_output
@click.option(
    "--json", "as_json", is_flag=True, help="Print objects, one in each line."
)
@takes_service
@click.pass_obj
def search_command(
    overrides: tuple[str, ...],
    query: str,
    body: dict[str, Any],
    output: str | None,
    as_json: bool,
    where: Where,
) -> None:
    """Search the web for QUERY, and what crawls have kept (--keep) here before.

    Engines are those of the settings; see SEARCH_PROVIDERS. Exit codes: 0 all is well,
    1 no engine answered, 2 wrong use, 130 interrupted.
    """
    results, warnings = _results(overrides, {"query": query, **body}, where)
    for warning in warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    _write(
        (
            json.dumps(result, ensure_ascii=False) if as_json else _shown(result)
            for result in results
        ),
        output,
    )


def _warnings(answer: dict[str, Any]) -> list[str]:
    """Return what a service remarks on an answer."""
    return [str(answer["warning"])] if answer.get("warning") else []


def _results(
    overrides: tuple[str, ...], body: dict[str, Any], where: Where
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the results of a search, or their pages, and its warnings."""
    if where.server:
        from scraper_service.cli import remote_run

        answer = remote_run.asked(where, lambda r: r.call("POST", "/v2/search", body))
        groups = answer.get("data") or {}
        found = [
            {"source": kind, **item} for kind, items in groups.items() for item in items
        ]
        return found, _warnings(answer)
    from scraper_service.api.page_json import page_json
    from scraper_service.components.browser.chromium import why_missing
    from scraper_service.items import Page

    settings = _settings(overrides, where)
    options = reading.search_options(body, why_missing(settings))
    items, spider = _run(settings, "search", asked=options)
    if spider.failure is not None:
        raise click.ClickException(printable(spider.failure))
    found = [
        json.loads(page_json(item)) if isinstance(item, Page) else item.as_dict()
        for item in items
    ]
    return found, list(spider.found.warnings)


def _shown(result: dict[str, Any]) -> str:
    """Return a result for the eye: title, address, and what is said of it."""
    metadata = result.get("metadata") or {}
    parts = (
        result.get("title") or metadata.get("title"),
        result.get("imageUrl") or result.get("image_url"),
        result.get("url") or metadata.get("url"),
        result.get("markdown") or result.get("description") or result.get("snippet"),
    )
    return "\n".join(printable(str(part)) for part in parts if part) + "\n"


def _settings(overrides: tuple[str, ...], where: Where) -> Settings:
    settings = load_settings(overrides, LOG_LEVEL="ERROR", DATA_DIR=where.data_dir)
    check_egress(settings)
    return settings


def _write(lines: Iterable[str], output: str | None) -> None:
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    try:
        if output in {None, "-"}:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
        else:
            Path(str(output)).write_bytes(data)
    except OSError as error:
        name = output or "standard output"
        raise click.ClickException(f"{name}: {error.strerror}") from error


def _run(settings: Settings, name: str, **arguments: Any) -> tuple[list[Any], Any]:
    """Run a spider as `scrapy crawl` does; return its items, and the spider.

    Raises :exc:`KeyboardInterrupt` when it was interrupted.
    """
    from scrapy import signals
    from scrapy.crawler import AsyncCrawlerProcess

    items: list[Any] = []

    def keep(item: Any) -> None:
        items.append(item)

    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(name)
    crawler.signals.connect(keep, signals.item_scraped)
    process.crawl(crawler, **arguments)
    process.start()
    if crawler.stats is not None:
        reason = crawler.stats.get_value("finish_reason")
        if reason == "shutdown":
            raise KeyboardInterrupt
    return items, crawler.spider
