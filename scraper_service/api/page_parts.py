"""Cuts the Markdown of stored pages into parts, in a converter process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scraper_service.api.parameters import NumberParameter
from scraper_service.crawling.converter_pool.converter import RemoteFunction
from scraper_service.errors import ConverterDied, ServiceUnavailable
from scraper_service.options.scrape import MIN_TOKENS

if TYPE_CHECKING:
    from scraper_service.crawling.converter_pool.pool import ConverterPool

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

_cut_page = RemoteFunction("scraper_service.content.formats.tokens:cut_page")
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
