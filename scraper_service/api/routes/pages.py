"""Single pages: scrapes, maps and searches; parts of the Markdown of stored pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.api.errors import PAGE_STATUSES, WORK_ERRORS
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import NumberParameter, parse_job_id
from scraper_service.api.responses import (
    PageJson,
    join_sentences,
    scrape_response,
    with_base,
)
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import success
from scraper_service.crawling.converter_pool.converter import RemoteFunction
from scraper_service.errors import (
    ConverterDied,
    InvalidOptions,
    InvalidParameter,
    JobNotFound,
    MapTimedOut,
    SearchDown,
    SearchTimedOut,
    ServiceUnavailable,
)
from scraper_service.options.limits import Mode
from scraper_service.options.page_requests import ignored_names
from scraper_service.options.scrape import MIN_TOKENS

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.crawling.converter_pool.page_conversion import ConverterPool


MOST_TOKENS = 10**9
MOST_PAGES = 10**6
TIMEOUT_S = 30

MAX_TOKENS = NumberParameter(
    "maxTokens",
    "Return one part of the Markdown, of at most N tokens.",
    MIN_TOKENS,
    MOST_TOKENS,
)
PAGE = NumberParameter(
    "page", "The number of the part. It needs maxTokens.", 1, MOST_PAGES, 1
)
TOKENS = NumberParameter(
    "maxTokens",
    "Return pages whose Markdown has at most N tokens together, at least one page; a"
    " single page of more tokens is cut.",
    MIN_TOKENS,
    MOST_TOKENS,
)

_cut_page = RemoteFunction(
    "scraper_service.content.formats.summary_and_tokens:cut_page"
)
_COUNT = re.compile(rb'"tokenCount":(\d+)')


async def cut(
    pool: ConverterPool, body: bytes, max_tokens: int, page: int, team_id: str
) -> bytes:
    """Return the JSON of a page with one part of its Markdown.

    Raises :exc:`ServiceUnavailable` if no converter does it in time.
    """
    try:
        found: bytes = await pool.run(
            _cut_page, body, max_tokens, page, timeout_s=TIMEOUT_S, team_id=team_id
        )
    except (TimeoutError, MemoryError, ConverterDied):
        raise ServiceUnavailable("The page could not be cut into parts.") from None
    return found


async def fit_pages(
    pool: ConverterPool, pages: list[bytes], max_tokens: int, team_id: str
) -> list[bytes]:
    """Return the first pages that have at most ``max_tokens`` tokens together.

    At least one page is returned, cut to its first part if need be. Raises as
    :func:`cut`.
    """
    total = 0
    for number, body in enumerate(pages):
        total += tokens_of(body)
        if total > max_tokens:
            if number:
                return pages[:number]
            return [await cut(pool, body, max_tokens, 1, team_id)]
    return pages


def tokens_of(body: bytes) -> int:
    """Return the tokens of the Markdown in the JSON of a page, 0 without Markdown."""
    # The metadata stands last, and its own count behind all <meta> tags; the count of a
    # part follows that of the whole.
    start = body.rfind(b'"tokenCount":')
    found = _COUNT.match(body, start) if start >= 0 else None
    return int(found[1]) if found else 0


class SearchRoutes(Routes):
    """Searches of the web and of the team's own pages."""

    @Route(
        "POST /search",
        returns="SEARCHED",
        body="SEARCH",
        example={"query": "web scraping", "limit": 5},
        errors=(*WORK_ERRORS, SearchTimedOut, SearchDown),
        needs=("webSearch", "searchIndex"),
    )
    async def search(self, request: JsonRequest) -> bytes:
        """Return search results, with their pages if the body has scrape options."""
        team, body, _ = await self.checks.admit_work(request, Mode.SEARCH)
        try:
            options = await body.read(self.api.requests.search_options)
        except InvalidOptions as error:
            error.heading, error.code = self.api.responses.BAD_SEARCH
            raise
        warning = await body.warning(ignored_names(self.api.requests.SEARCH.fields))
        found = await self.services.scraping.search(options, team, self.api.version)
        if warning is not None:
            found = evolve(found, warnings=(*found.warnings, warning))
        answer: bytes = self.api.responses.search_response(found)
        return with_base(answer, self.base_url(request))


class PageRoutes(Routes):
    """Scrapes and maps."""

    @Route(
        "POST /scrape",
        returns="SCRAPED",
        body="PAGE",
        example={"url": "https://example.com", "formats": ["markdown", "links"]},
        errors=(*WORK_ERRORS, *PAGE_STATUSES),
    )
    async def scrape(self, request: JsonRequest) -> bytes:
        """Fetch one page and return its formats."""
        team, body, _ = await self.checks.admit_work(request, Mode.SCRAPE)
        options = await body.read(self.api.requests.page_options)
        warning = await body.warning(ignored_names(self.api.requests.PAGE.fields))
        page = await self.services.scraping.scrape(options, team, self.api.version)
        if warning:
            page = evolve(page, warning=join_sentences(page.warning, warning))
        if page.failure:
            return self.write_failure(request, page.failure)
        return with_base(scrape_response(page, options), self.base_url(request))

    @Route(
        "GET /scrape/<scrape_id>",
        returns=success(data=PageJson),
        parameters=(MAX_TOKENS, PAGE),
        errors=(JobNotFound,),
    )
    async def read_scrape(self, request: JsonRequest, scrape_id: str) -> bytes:
        """Return a page that was scraped, as long as it is stored."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        max_tokens, number = MAX_TOKENS.find(request), PAGE.find(request)
        if number is not None and max_tokens is None:
            raise InvalidParameter("Invalid page: it needs maxTokens")
        page = await self.services.scraping.stored_scrape(parse_job_id(scrape_id), team)
        if max_tokens is not None:
            page = await cut(self.checks.pool, page, max_tokens, number or 1, team.id)
        answer = b'{"success":true,"data":%s}' % page
        return with_base(answer, self.base_url(request))

    @Route(
        "POST /map",
        returns="MAPPED",
        body="MAP",
        example={"url": "https://example.com", "limit": 100},
        errors=(*WORK_ERRORS, *PAGE_STATUSES, MapTimedOut),
    )
    async def map_site(self, request: JsonRequest) -> bytes:
        """Return the URLs of a site."""
        team, body, _ = await self.checks.admit_work(request, Mode.MAP)
        options = await body.read(self.api.requests.map_options)
        warning = await body.warning(ignored_names(self.api.requests.MAP.fields))
        found = await self.services.scraping.map(
            options, team, self.api.version, self.api.responses.MAP_SHAPE
        )
        found.warnings.extend(filter(None, [warning]))
        if found.failure:
            return self.write_failure(request, found.failure)
        answer: bytes = self.api.responses.map_response(found)
        return answer
