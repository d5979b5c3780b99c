"""Pages that have not changed: repeat the page of an earlier job, without a conversion."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.change_tracking.comparison import repeated_content
from scraper_service.errors import ConverterDied

if TYPE_CHECKING:
    from scraper_service.items import PageContent, PageSource
    from scraper_service.options.scrape import ScrapeOptions

BROKEN = (ConverterDied, MemoryError, TimeoutError)


async def content_again(
    pool: Any,
    page: bytes,
    source: PageSource,
    options: ScrapeOptions,
    timeout_s: float,
    *,
    is_asked: bool,
    **owner: Any,
) -> PageContent | None:
    """Return the content of the compressed ``page`` for its response that has not changed.

    ``pool`` is the converter pool, and ``owner`` the team and the job. Links are found again,
    because another page may have found them first. None for a page that has to be converted:
    its text depends on other pages, or on the moment, see :func:`repeated_content`.
    """
    if source.find_blocks or timeout_s <= 0:
        return None
    again = partial(repeated_content, is_asked=is_asked)
    try:
        content: PageContent | None = await pool.run(
            again, page, timeout_s=timeout_s, **owner
        )
    except BROKEN:
        return None
    if content is None or not source.find_links:
        return content
    plain = evolve(
        source, find_search=False, find_shell=False, find_text=0, pack_body=False
    )
    bare = evolve(options, formats=())
    found = await pool.convert(plain, bare, timeout_s, **owner)
    if found.error is not None:
        return None
    return evolve(
        content,
        found=found.found,
        links=found.links,
        canonical=found.canonical,
        fingerprint=found.fingerprint,
    )
