"""llms.txt jobs: the pages of a site, listed for language models."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scraper_service.content.formats.llms_txt_and_agents import (
    llms_json,
    llms_pages,
    without_text,
)
from scraper_service.discovery import map_results
from scraper_service.services.map_search import with_written_start
from scraper_service.services.model_jobs.running_job import JobRunFailed, batch_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from scraper_service.content.formats.llms_txt_and_agents import LlmsPage
    from scraper_service.options.jobs import LlmsTextOptions
    from scraper_service.services.map_search import Sources
    from scraper_service.services.model_jobs.running_job import RunningJob
    from scraper_service.storage.accounts.credits import Prices


SHOW_S = 2.0  # between two stored versions of the text so far


class LlmsText:
    """Maps a site, reads its pages and lists them in the order of the map."""

    def __init__(
        self,
        sources: Sources,
        prices: Prices,
        settings: BaseSettings,
    ):
        self._sources = sources
        self._price = prices.page
        self._most_s = settings.getint("OPERATION_TIMEOUT_S")

    def pages(self, options: LlmsTextOptions) -> int:
        """Return the most pages that a job may be charged for."""
        return options.max_urls

    def price(self, _: LlmsTextOptions) -> int:
        """Return the price of a page in credits."""
        return self._price

    async def __call__(self, job: RunningJob) -> None:
        """Run a job with :class:`LlmsTextOptions`."""
        options: LlmsTextOptions = job.options
        until = job.deadline(self._most_s)
        if "urls" not in job.memory:
            await self._list(job, options, until)
        urls: list[str] = job.memory["urls"]
        step = await job.begin("pages", batch_of(urls, options.scrape))
        pages: dict[int, LlmsPage] = {}
        shown = time.monotonic()
        async for _ in job.looks(step, until):
            had = len(pages)
            await self._read(job, step, pages)
            if len(pages) > had and time.monotonic() > shown + SHOW_S:
                listed = without_text(_good(pages))
                await job.show(await self._text(job, listed, full=False))
                shown = time.monotonic()
        early = await job.wait_for_batch(step, until)
        await self._read(job, step, pages)
        if not (good := _good(pages)):
            raise JobRunFailed(await self._reason(job, step, pages, early))
        warnings = [
            job.memory.get("refused"),
            early and f"It ended early: {early}.",
        ]
        warning = " ".join(filter(None, warnings)) or None
        result = await self._text(
            job, good, full=options.show_full_text, warning=warning
        )
        await job.complete(result, len(good), self._price * len(good))

    async def _list(
        self, job: RunningJob, options: LlmsTextOptions, until: float
    ) -> None:
        """Store the URLs to read; only the start page if the site has no map."""
        limit = min(options.max_urls, job.page_limit)
        found = await self._sources.site(
            options.url, job.team_id, options.scrape, until, limit=limit
        )
        rows: list[map_results.RowT] = await job.in_pool(
            map_results.rows_of, found.slices
        )
        urls = with_written_start((row[0] for row in rows[:limit]), options.url)
        urls, refused = await self._sources.permitted_urls(urls, options.url)
        urls = urls or [options.url]
        await job.remember(urls=urls, error=found.error, refused=refused)

    async def _read(
        self, job: RunningJob, step: str, pages: dict[int, LlmsPage]
    ) -> None:
        """Add newly arrived pages to ``pages``, by their number."""
        full = job.options.show_full_text
        async for entries in job.entries(step, len(pages)):
            bodies = [entry.body for entry in entries]
            found: list[LlmsPage] = await job.in_pool(llms_pages, bodies, full)
            for entry, page in zip(entries, found, strict=True):
                pages[entry.number] = page

    async def _text(
        self,
        job: RunningJob,
        pages: list[LlmsPage],
        *,
        full: bool,
        warning: str | None = None,
    ) -> bytes:
        url = job.options.url
        warnings = " ".join(filter(None, (job.warning, warning))) or None
        text: bytes = await job.in_pool(llms_json, url, pages, full, warnings)
        return text

    async def _reason(
        self,
        job: RunningJob,
        step: str,
        pages: Mapping[int, LlmsPage],
        early: str | None,
    ) -> str:
        """Return the reason why no page could be read."""
        failures = await job.failures(step)
        reasons = [
            *(f"{page.url}: {page.error}" for page in pages.values()),
            *(f"{each.url}: {each.error}" for each in failures),
        ]
        first = next(iter(reasons), None) or job.memory["error"] or early or ""
        return f"No page of the site could be read. {first:.500}".strip()


def _good(pages: Mapping[int, LlmsPage]) -> list[LlmsPage]:
    """Return the pages that were read, in the order of the map."""
    return [pages[n] for n in sorted(pages) if pages[n].error is None]
