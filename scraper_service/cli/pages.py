"""Commands without a job: `scrape`, `parse`, `map`, `search` and `explain`.

Heavy imports are inside the commands, see :mod:`scraper_service.cli.main`.
"""

from __future__ import annotations

import http
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli import options
from scraper_service.cli.clients import takes_service
from scraper_service.cli.options import examples
from scraper_service.cli.outputs.output import (
    Target,
    check_is_of_page,
    target,
    with_picture,
    write_bytes,
)
from scraper_service.cli.outputs.page_files import keys_of_body
from scraper_service.cli.settings import fetch_settings
from scraper_service.content.losses import describe
from scraper_service.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.cli.clients import Where


MAX_FILE_BYTES = 50 * 2**20  # the limit of POST /v2/parse
ERROR_STATUS = 3  # exit code for a page with a status of 400 or more


def _of_lines(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    """Refuse a file with an ending that lines of text do not suit."""
    check_is_of_page(path or "", "lines of text go into FILE.txt or FILE.jsonl")
    return path


_output = click.option(
    "-o",
    "--output",
    metavar="FILE",
    callback=_of_lines,
    help="Write to FILE, not the terminal.",
)
_page_output = click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="Write to a file: its ending says what goes there, .md, .html, .png, .jpg,"
    " .json, .jsonl or .csv; or to FOLDER/, a file for each format.",
)
_as_object = click.option(
    "--json", "as_json", is_flag=True, help="Print the whole page object."
)


#: Endings of files that no top-level domain has.
FILE_ENDINGS = frozenset(
    {".csv", ".docx", ".epub", ".htm", ".html", ".json", ".odt", ".pdf", ".pptx"}
    | {".rtf", ".txt", ".xls", ".xlsx", ".xml"}
)


@click.command(
    "scrape",
    epilog=examples(
        "scraper-service scrape https://example.org",
        "scraper-service scrape https://example.org -f markdown,links -o page.json",
        "scraper-service scrape https://example.org -f screenshot -o page.png",
        "scraper-service scrape https://example.org -f json --prompt 'the title'",
        "scraper-service scrape report.pdf -o report.md",
    ),
)
@click.argument("url", metavar="URL|FILE")
@options.takes((), options.PAGE)
@_page_output
@_as_object
@takes_service
def scrape_command(
    url: str,
    body: dict[str, Any],
    output: str | None,
    as_json: bool,
    where: Where,
) -> None:
    """Fetch URL and print it: Markdown, or JSON for several formats.

    A FILE that exists is read as `parse` does.

    Exit codes: 0 all is well, 1 there is no page, 2 wrong use, 3 the site answered with
    an error (status 400 or more; its page is printed), 130 interrupted, 141 nobody
    reads the output any more.
    """
    if "://" not in url and Path(url).is_file():
        click.echo(f"{printable(url)} is a file: read as `parse` does", err=True)
        _parse(url, body, output, where, as_json=as_json)
        return
    body = with_picture({"url": url, **body}, output)
    target = _target(body, output, where, as_json=as_json)
    if "/" not in url and Path(url).suffix.lower() in FILE_ENDINGS:
        text = f"there is no file {printable(url)}: it is fetched as a URL"
        click.echo(f"warning: {text}", err=True)
    page = where.client().scrape(body)
    _tell(page)
    target.write(page)
    metadata = page.get("metadata", {})
    status = metadata.get("statusCode")
    if isinstance(status, int) and status >= http.HTTPStatus.BAD_REQUEST:
        shown = printable(str(metadata.get("url") or url))
        text = f"{shown}: the site answered {_status(status)}; this is its page"
        click.echo(f"warning: {text}", err=True)
        sys.exit(ERROR_STATUS)


@click.command(
    "parse",
    epilog=examples(
        "scraper-service parse report.pdf",
        "scraper-service parse page.html -f markdown,links -o page/",
        "curl -s https://example.org | scraper-service parse -",
    ),
)
@click.argument("file", metavar="FILE")
@options.takes((), options.FILE_PAGE)
@_page_output
@_as_object
@takes_service
def parse_command(
    file: str,
    body: dict[str, Any],
    output: str | None,
    as_json: bool,
    where: Where,
) -> None:
    """Convert FILE, or standard input with -, and print it as `scrape` does.

    It may be HTML, PDF, Word, Excel, PowerPoint, OpenDocument, RTF, EPUB, CSV, a feed,
    Markdown, JSON, XML or text, of at most 50 MiB. Nothing is fetched.

    Exit codes: 0 all is well, 1 there is no page, 2 wrong use, 130 interrupted, 141
    nobody reads the output any more.
    """
    _parse(file, body, output, where, as_json=as_json)


def _parse(
    file: str,
    body: dict[str, Any],
    output: str | None,
    where: Where,
    *,
    as_json: bool,
) -> None:
    for name in options.FETCHED:
        if body.pop(name, None):
            flag = options.SPELLINGS[name]
            raise click.UsageError(f"{flag}: it is for pages that are fetched")
    target = _target(body, output, where, as_json=as_json)
    try:
        with click.open_file(file, "rb") as source:
            data: bytes = source.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise click.UsageError(f"{file}: a file has at most {MAX_FILE_BYTES} bytes")
    name = "stdin" if file == "-" else Path(file).name
    page = where.client().parse(name, data, body)
    _tell(page)
    target.write(page)


def _target(
    body: dict[str, Any], output: str | None, where: Where, *, as_json: bool
) -> Target:
    keys = keys_of_body(body)
    is_remote = where.server is not None
    return target(output, keys, as_json=as_json, is_remote=is_remote)


def _tell(page: dict[str, Any]) -> None:
    if warning := page.get("warning"):
        click.echo(f"warning: {printable(warning)}", err=True)


def _status(status: int) -> str:
    try:
        return f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


@click.command(
    "map",
    epilog=examples(
        "scraper-service map https://example.org --limit 100",
        "scraper-service map https://example.org --search price --json",
    ),
)
@click.argument("url")
@options.takes(options.MAP)
@_output
@click.option("--json", "as_json", is_flag=True, help="Print objects with titles.")
@takes_service
def map_command(
    url: str,
    body: dict[str, Any],
    output: str | None,
    as_json: bool,
    where: Where,
) -> None:
    """Print the URLs of the site of URL, one per line.

    Exit codes: 0 all is well, 1 there is no map, 2 wrong use, 130 interrupted.
    """
    links, warnings = where.client().map({"url": url, **body})
    for warning in warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    lines = (
        json.dumps(link, ensure_ascii=False) if as_json else str(link["url"])
        for link in links
    )
    _write(lines, output)


@click.command(
    "search",
    epilog=examples(
        "scraper-service search 'hay for rabbits' --limit 10",
        "scraper-service search 'site:example.org price' --json",
    ),
)
@click.argument("query")
@options.takes(options.SEARCH)
@_output
@click.option(
    "--json", "as_json", is_flag=True, help="Print objects, one in each line."
)
@takes_service
def search_command(
    query: str,
    body: dict[str, Any],
    output: str | None,
    as_json: bool,
    where: Where,
) -> None:
    """Search the web for QUERY, and what crawls have kept (--keep) here before.

    Engines are those of the settings; see SCRAPER_SEARCH_PROVIDERS. Exit codes: 0 all is well,
    1 no engine answered, 2 wrong use, 130 interrupted.
    """
    results, warnings = where.client().search({"query": query, **body})
    for warning in warnings:
        click.echo(f"warning: {printable(warning)}", err=True)
    _write(
        (
            json.dumps(result, ensure_ascii=False) if as_json else _result_text(result)
            for result in results
        ),
        output,
    )


def _result_text(result: dict[str, Any]) -> str:
    """Return a search result as text: title, URL, and content or description."""
    metadata = result.get("metadata") or {}
    parts = (
        result.get("title") or metadata.get("title"),
        result.get("imageUrl") or result.get("image_url"),
        result.get("url") or metadata.get("url"),
        result.get("markdown") or result.get("description") or result.get("snippet"),
    )
    return "\n".join(printable(str(part)) for part in parts if part) + "\n"


def _write(lines: Iterable[str], output: str | None) -> None:
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    write_bytes(data, output)


@click.command("explain")
@click.argument("page", metavar="URL|FILE")
@click.option("--url", metavar="URL", help="The URL that FILE was fetched from.")
@click.option(
    "--selector",
    "selectors",
    metavar="CSS|XPATH",
    multiple=True,
    callback=lambda _context, _parameter, given: _valid_selectors(given),
    help="Show what it matches, instead of the blocks. May be repeated.",
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

    A line for each block: + kept or - dropped, how likely it is content, its path and
    text, and the rule that decided instead of the chance. With --selector the
    number of its matches and the first ones, as selectors of the format json see them.
    At the end the parts of the page that its Markdown does not contain.
    """
    from scraper_service.content.decode import text_of
    from scraper_service.content.main_content.reduction import explain
    from scraper_service.content.structured_data.selectors import (
        selector_matches,
    )
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
        shown = f"{block['path']}: {block['text'][:70]}"
        lines.append(f"{mark} {block['chance']:.2f} {shown}")
        if block["rule"]:
            lines.append(f"         {block['rule']}")
    return lines
