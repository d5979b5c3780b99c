"""The command that shows why the main content of a page is what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from scraper_service.cli.settings import check_egress, load_settings
from scraper_service.cli.terminal import end_when_interrupted


@click.command("explain")
@click.argument("page", metavar="URL|FILE")
@click.option("--url", metavar="URL", help="Address that FILE was fetched from.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def explain_command(
    overrides: tuple[str, ...], page: str, url: str | None, as_json: bool
) -> None:
    """Show which blocks of a page are main content, and why.

    A line for each block: + kept or - dropped, how likely it is content, its place and
    text, the rule that decided or the features that counted most.
    """
    from scraper_service.content.decode import text_of
    from scraper_service.content.main_content.explain import explain

    if page.startswith(("http://", "https://")):
        html, address = _fetched(overrides, page)
    else:
        try:
            body = Path(page).read_bytes()
        except OSError as error:
            message = f"{page} is neither an http(s) address nor a file: {error}"
            raise click.UsageError(message) from error
        html = text_of(body, "text/html", xml=False)
        address = url or Path(page).resolve().as_uri()
    facts = explain(html, address)
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        click.echo("\n".join(_lines(facts)))


def _fetched(overrides: tuple[str, ...], url: str) -> tuple[str, str]:
    """Return the source of the page and its final address."""
    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.crawling.signals import item_made

    settings = load_settings(overrides, LOG_LEVEL="ERROR")
    check_egress(settings)
    pages: list[Any] = []

    def keep(item: Any) -> None:
        pages.append(item)

    end_when_interrupted()
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler("scrape")
    crawler.signals.connect(keep, item_made)
    process.crawl(crawler, url=url, formats="rawHtml")
    process.start(install_signal_handlers=False)
    if not pages:
        raise click.ClickException("no page came out; see the log above")
    if pages[0].failure:
        failure = pages[0].failure
        raise click.ClickException(f"{url}: {failure.message} ({failure.code})")
    return json.loads(pages[0].values["raw_html"]), pages[0].metadata.url


def _lines(facts: dict[str, Any]) -> list[str]:
    if not facts["blocks"]:
        return ["The page has no text."]
    chances = ", ".join(
        f"{name} {chance:.0%}"
        for name, chance in sorted(facts["kinds"].items(), key=lambda p: -p[1])
        if chance >= 0.05
    )
    lines = [f"kind: {facts['kind']} ({chances})"]
    lines += [f"  {e['weight']:+.2f}  {e['sign']}" for e in facts["evidence"]]
    lines.append(f"blocks with a chance of {facts['bar']:.2f} or more are kept")
    for block in facts["blocks"]:
        mark = "+" if block["keep"] else "-"
        features = "; ".join(
            f"{f['name']} = {f['value']:g} ({f['weight']:+.2f})"
            for f in block["features"]
        )
        why = block["rule"] or features
        lines += [
            f"{mark} {block['chance']:.2f} {block['path']}: {block['text'][:70]}",
            f"         {why}",
        ]
    return lines
