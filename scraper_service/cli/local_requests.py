"""Bodies of /v2 to options, for runs without a service.

Errors name the flags of the command line.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from scraper_service.cli.request_options import SPELLINGS
from scraper_service.content.text.printable import printable
from scraper_service.errors import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.items import Upload
    from scraper_service.options.crawl import BatchOptions, CrawlOptions, PageOptions
    from scraper_service.options.map_search import MapOptions, SearchOptions


def page_options(
    body: dict[str, Any], browser: str | None = None, model: str | None = None
) -> PageOptions:
    """Return the options of ``body``; raise :exc:`click.UsageError`.

    ``browser`` is the reason why there is no browser, ``model`` why there is no language
    model; None if there is.
    """
    from scraper_service.api.v2 import requests
    from scraper_service.options.availability import require_available

    options = _read(requests.page_options, body)
    _checked(require_available, options.scrape, browser, model)
    return options  # type: ignore[no-any-return]


def parse_options(
    name: str,
    data: bytes,
    body: dict[str, Any],
    browser: str | None = None,
    model: str | None = None,
) -> tuple[Upload, PageOptions]:
    """Return a file as an upload of /v2/parse, and its options.

    ``browser`` and ``model`` are as for :func:`page_options`. Raises
    :exc:`click.UsageError`.
    """
    from scraper_service.api.uploads import upload_of
    from scraper_service.api.v2 import requests
    from scraper_service.options.availability import (
        require_available,
        require_parseable,
    )

    upload: Upload = _read(lambda _: upload_of(name, "", data), None)
    options = evolve(_read(requests.parse_options, body), url=upload.name)
    _checked(require_parseable, options.scrape)
    _checked(require_available, options.scrape, browser, model)
    return upload, options


def map_options(body: dict[str, Any]) -> MapOptions:
    """Return the options of ``body``; raise :exc:`click.UsageError`."""
    from scraper_service.api.v2 import requests

    return _read(requests.map_options, body)  # type: ignore[no-any-return]


def search_options(body: dict[str, Any], browser: str | None = None) -> SearchOptions:
    """Return the options of ``body``; raise :exc:`click.UsageError`.

    ``browser`` is as for :func:`page_options`.
    """
    from scraper_service.api.v2 import requests
    from scraper_service.options.availability import require_available

    options = _read(requests.search_options, body)
    if options.scrape is not None:
        _checked(require_available, options.scrape, browser)
    return options  # type: ignore[no-any-return]


def job_options(
    kind: str,
    body: dict[str, Any],
    browser: str | None = None,
    model: str | None = None,
) -> tuple[CrawlOptions | BatchOptions, tuple[str, ...]]:
    """Return the options of a crawl or batch, and the URLs that are left out.

    ``browser`` and ``model`` are as for :func:`page_options`. Raises
    :exc:`click.UsageError`.
    """
    from scraper_service.api.v2 import requests
    from scraper_service.options.availability import require_job_available

    left_out: tuple[str, ...] = ()
    if kind == "crawl":
        options = _prompted(_read(requests.crawl_options, body), body)
    else:
        request = _read(requests.batch_options, body)
        options, left_out = request.options, request.invalid_urls or ()
        if request.append_to is not None:
            raise click.UsageError("appendToId: only a service adds to a batch")
    _checked(require_job_available, options, browser, model)
    if options.webhook is not None:
        raise click.UsageError("webhook: only a service delivers events; see --server")
    return options, left_out


def _prompted(options: CrawlOptions, body: dict[str, Any]) -> CrawlOptions:
    """Return the options of a crawl, filled from its prompt."""
    if options.prompt is None:
        return options
    from scraper_service.api.routes import crawl_preview
    from scraper_service.api.v2 import requests
    from scraper_service.discovery.crawl_prompt import options_from_prompt

    found = options_from_prompt(options.prompt, options.url)
    text = json.dumps(requests.derived_fields(found.values), ensure_ascii=False)
    click.echo(f"the prompt asks for: {printable(text, 500)}", err=True)
    return crawl_preview.filled(found.values, body)


def _read(read: Callable[[Any], Any], body: object) -> Any:
    from scraper_service.errors import InvalidOptions

    try:
        return read(body)
    except InvalidOptions as error:
        messages = [with_flag(issue.path, issue.message) for issue in error.issues]
        raise click.UsageError("\n  ".join(messages)) from error


def _checked(check: Callable[..., None], options: Any, *missing: str | None) -> None:
    from scraper_service.errors import OptionUnavailable

    try:
        check(options, *missing)
    except OptionUnavailable as error:
        raise click.UsageError(str(error)) from error


def with_flag(path: tuple[str | int, ...] | list[str | int], message: str) -> str:
    """Return a message about a key of a body, with its flag or argument instead."""
    keys = [key for key in path if key != "scrapeOptions"]
    name = SPELLINGS.get(str(keys[0])) if keys else None
    if name is None:
        return message
    # A message begins with the path, or does not name it.
    start = re.escape(".".join(map(str, path)))
    rest = re.sub(rf"^{start}\b:? ?", "", message)
    return named(name, rest)
