"""`jobs reprocess`: other formats of the stored responses of a job."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli import request_options
from scraper_service.errors import counted
from scraper_service.options import catalogue
from scraper_service.options.crawl import SHAPING

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import Settings
    from sqlalchemy import Connection

    from scraper_service.options.crawl import ReprocessRequest
    from scraper_service.storage.job_records import Job

_ROWS = catalogue.select(catalogue.SCRAPE, "formats", *SHAPING)
_URLS = request_options.CommandOption(
    "urls",
    ("--url",),
    {"multiple": True, "metavar": "URL", "help": "Only this page; may be repeated."},
)
OPTIONS = (_URLS, *request_options.page_options(_ROWS))


def takes_request(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a reprocessing, which the command receives as ``body``."""

    @request_options.takes((), OPTIONS)
    @functools.wraps(command)
    def with_body(body: dict[str, Any], **values: Any) -> Any:
        if not body.get("urls"):
            body.pop("urls", None)
        return command(body=body, **values)

    return with_body


def store(
    connection: Connection, job_id: str, body: dict[str, Any], settings: Settings
) -> Job:
    """Store the new job in a database; raise :exc:`click.ClickException`."""
    from scraper_service.api.v2 import requests
    from scraper_service.cli.local_run import known_job
    from scraper_service.errors import InvalidOptions
    from scraper_service.options.limits import Retention
    from scraper_service.storage.jobs import reprocessing
    from scraper_service.storage.jobs.admission import Terms

    known = known_job(connection, job_id)
    try:
        request = requests.crawl_reprocess(body)
        if request.webhook is not None:
            raise click.ClickException("webhook: only the service sends webhooks")
        options = _options(known, request)
        retention_s = Retention.of(settings).seconds(request.retention_days)
    except InvalidOptions as error:
        raise click.ClickException(str(error)) from error
    terms = Terms(
        team_id=known.team_id,
        page_price=_price(known, request, settings),
        retention_s=retention_s,
    )
    numbers = None
    if request.urls:
        numbers, missing = reprocessing.find_pages(connection, job_id, request.urls)
        if missing:
            raise click.ClickException(f"the job has no page {min(missing)}")
    made = reprocessing.create_job_of_sources(
        connection, job_id, terms, options, 2, numbers
    )
    if isinstance(made, Exception):
        raise click.ClickException(str(made))
    return made


def _options(known: Job, request: ReprocessRequest) -> Any:
    from scraper_service.options.serialization import options_from_json

    found: Any = options_from_json(known.kind, json.loads(known.options))
    return request.options(found)


def _price(known: Job, request: ReprocessRequest, settings: Settings) -> int | None:
    from scraper_service.crawling.pricing import Prices

    if known.page_price is None:
        return None
    prices = Prices(settings)
    return prices.without_fetch(prices.usual(request.scrape))


def made_text(source_id: str, job_id: str, pages: int) -> str:
    """Return what the command prints of a new job."""
    return (
        f"job {job_id} reprocesses {counted(pages, 'page')} of {source_id};"
        f" `jobs resume {job_id}` writes them"
    )
