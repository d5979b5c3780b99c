"""The command `explain`: which blocks of a page are main content, what a selector matches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from scraper_service.cli.settings import fetch_settings
from scraper_service.content.characters import printable
from scraper_service.content.losses import describe


@click.command("explain")
@click.argument("page", metavar="URL|FILE")
@click.option("--url", metavar="URL", help="The URL that FILE was fetched from.")
@click.option(
    "--selector",
    "selectors",
    metavar="CSS|XPATH",
    multiple=True,
    callback=lambda _context, _parameter, given: _valid_selectors(given),
    help="Show what it matches, in place of the blocks. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def explain_command(
    overrides: tuple[str, ...],
    page: str,
    url: str | None,
    selectors: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show which blocks of a page are main content, and why.

    A line for each block: + kept or - dropped, how likely it is content, its place and
    text, the rule that decided or the features that counted most. With --selector the
    number of its matches and the first ones, as selectors of the format json see them.
    At the end the parts of the page that its Markdown does not contain.
    """
    from scraper_service.content.decode import text_of
    from scraper_service.content.main_content.verdicts import explain
    from scraper_service.content.structured_data.selectors import selector_matches
    from scraper_service.library import convert

    if page.startswith(("http://", "https://")):
        html, address = _fetch(overrides, page)
    else:
        try:
            body = Path(page).read_bytes()
        except OSError as error:
            message = f"{page} is neither an http(s) URL nor a file: {error}"
            raise click.UsageError(message) from error
        html = text_of(body, "text/html")
        address = url or Path(page).resolve().as_uri()
    if selectors:
        facts = {"selectors": selector_matches(html, address, selectors)}
        lines = _lines_of_matches(facts["selectors"])
    else:
        web_url = address if address.startswith("http") else ""
        losses = convert(html, url=web_url).metadata.get("losses", [])
        facts = {**explain(html, address), "losses": losses}
        lines = [*_lines(facts), *_lines_of_losses(losses)]
    click.echo(json.dumps(facts, ensure_ascii=False) if as_json else "\n".join(lines))


def _valid_selectors(given: tuple[str, ...]) -> tuple[str, ...]:
    from scraper_service.options.selectors import MAX_SELECTOR, compile_selector

    for selector in given:
        if not 0 < len(selector.strip()) <= MAX_SELECTOR:
            message = f"a selector has 1 to {MAX_SELECTOR} characters"
            raise click.BadParameter(message)
        try:
            compile_selector(selector, is_base=True)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return given


def _lines_of_matches(found: list[dict[str, Any]]) -> list[str]:
    lines = []
    for each in found:
        count = each["count"]
        noun = "match" if count == 1 else "matches"
        lines.append(f"{each['selector']}: {each['error'] or f'{count} {noun}'}")
        for number, match in enumerate(each["matches"], 1):
            shown = [match[name] for name in ("path", "text") if match.get(name)]
            lines.append(f"{number:>5}  " + "\n       ".join(map(printable, shown)))
        if count > len(each["matches"]):
            lines.append(f"       and {count - len(each['matches'])} more")
    return lines


def _fetch(overrides: tuple[str, ...], url: str) -> tuple[str, str]:
    """Return the HTML source of the page, and its final URL."""
    from scraper_service.cli.local import only_page, run_spider

    settings = fetch_settings(overrides, LOG_LEVEL="ERROR")
    pages, _ = run_spider(settings, "scrape", url=url, formats="rawHtml")
    page = only_page(pages, url)
    return json.loads(page.values["raw_html"]), page.metadata.url


def _lines_of_losses(losses: list[dict[str, Any]]) -> list[str]:
    return [
        line
        for loss in losses
        for line in (
            f"lost: {describe([loss])}. {loss['reason']}",
            *(f"      {printable(each)}" for each in loss.get("urls", ())),
            *(f"      {printable(each)}" for each in loss.get("texts", ())),
        )
    ]


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
    if facts["bar"]:
        lines.append(f"blocks with a chance of {facts['bar']:.2f} or more are kept")
    else:
        lines.append("the page is small: all blocks but menus and footers are kept")
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
