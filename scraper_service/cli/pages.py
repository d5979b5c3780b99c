"""Commands that run a spider here and now, without the service.

Heavy imports stand inside the commands, see :mod:`scraper_service.cli.root`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli.settings import check_egress, load_settings

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from scraper_service.items import Page


@click.command("scrape")
@click.argument("url")
@click.option(
    "-f",
    "--format",
    "formats",
    multiple=True,
    metavar="FORMAT",
    help="markdown, html, rawHtml, links, images or rawBase64; may be repeated."
    "  [default: markdown]",
)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE, not the terminal.")
@click.option("--whole-page", is_flag=True, help="Keep navigation, header and footer.")
@click.option(
    "--include",
    multiple=True,
    metavar="CSS",
    help="Keep only what matches; repeatable.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="CSS",
    help="Leave out what matches; repeatable.",
)
@click.option(
    "--timeout", type=int, metavar="MS", help="Give up after MS milliseconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole page object.")
@click.pass_obj
def scrape_command(
    overrides: tuple[str, ...],
    url: str,
    formats: tuple[str, ...],
    output: str | None,
    whole_page: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    timeout: int | None,
    as_json: bool,
) -> None:
    """Fetch URL and print it: Markdown, or JSON for several formats."""
    from scraper_service.errors import InvalidOptions, OptionUnavailable
    from scraper_service.options.arguments import page_options
    from scraper_service.options.available import require_available

    arguments: dict[str, str] = {
        "url": url,
        "formats": ",".join(formats or ("markdown",)),
        "only_main_content": str(not whole_page).lower(),
        "options": json.dumps({"include_tags": include, "exclude_tags": exclude}),
    }
    if timeout is not None:
        arguments["timeout_ms"] = str(timeout)
    try:
        require_available(page_options(arguments).scrape)
    except (InvalidOptions, OptionUnavailable) as error:
        raise click.UsageError(str(error)) from error
    settings = load_settings(overrides, LOG_LEVEL="ERROR")
    check_egress(settings)
    page = _scrape(settings, arguments)
    if page.failure:
        message = f"{url}: {page.failure.message} ({page.failure.code})"
        raise click.ClickException(message)
    values = page.as_dict()
    single = len(page.values) == 1 and not as_json
    value = values[next(iter(page.values))] if single else values
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if page.warning:
        click.echo(f"warning: {page.warning}", err=True)
    if output is None:
        click.echo(text)
    else:
        Path(output).write_text(text + "\n", encoding="utf-8")


def _scrape(settings: Settings, arguments: dict[str, str]) -> Page:
    """Run the spider of `scrapy crawl scrape` and return its one page."""
    pages, _ = _run(settings, "scrape", arguments)
    if not pages:
        raise click.ClickException("no page came out; see the log above")
    page: Page = pages[0]
    return page


@click.command("map")
@click.argument("url")
@click.option(
    "--search", default="", metavar="WORDS", help="Put what fits the words first."
)
@click.option(
    "--limit", type=int, metavar="N", help="Print at most N.  [default: 5000]"
)
@click.option(
    "--sitemap",
    type=click.Choice(("include", "skip", "only")),
    default="include",
    show_default=True,
    help="Whether sitemaps are read, or nothing else.",
)
@click.option("--no-subdomains", is_flag=True, help="Leave out other hosts.")
@click.option("--keep-queries", is_flag=True, help="Tell apart addresses by query.")
@click.option(
    "--timeout", type=int, metavar="MS", help="Give up after MS milliseconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print objects with titles.")
@click.pass_obj
def map_command(
    overrides: tuple[str, ...],
    url: str,
    search: str,
    limit: int | None,
    sitemap: str,
    no_subdomains: bool,
    keep_queries: bool,
    timeout: int | None,
    as_json: bool,
) -> None:
    """Print the addresses of the site of URL, one per line."""
    from scraper_service.components.failures import map_failure, map_warnings
    from scraper_service.errors import InvalidOptions
    from scraper_service.options.job_arguments import map_options

    arguments = {
        "url": url,
        "search": search,
        "sitemap": sitemap,
        "include_subdomains": str(not no_subdomains).lower(),
        "ignore_query_parameters": str(not keep_queries).lower(),
    }
    for name, number in (("limit", limit), ("timeout_ms", timeout)):
        if number is not None:
            arguments[name] = str(number)
    try:
        map_options(arguments)
    except InvalidOptions as error:
        raise click.UsageError(str(error)) from error
    settings = load_settings(overrides, LOG_LEVEL="ERROR")
    check_egress(settings)
    links, spider = _run(settings, "map", arguments)
    if spider.found is None:
        raise click.ClickException(f"{url}: Map timed out (MAP_TIMEOUT)")
    if failure := map_failure(spider.found):
        raise click.ClickException(f"{url}: {failure.message} ({failure.code})")
    for warning in map_warnings(spider.found):
        click.echo(f"warning: {warning}", err=True)
    for link in links:
        line = json.dumps(link.as_dict(), ensure_ascii=False) if as_json else link.url
        click.echo(line)


def _run(
    settings: Settings, name: str, arguments: dict[str, str]
) -> tuple[list[Any], Any]:
    """Run a spider as `scrapy crawl` does; return its items, and the spider."""
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
    return items, crawler.spider
