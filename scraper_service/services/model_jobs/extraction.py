"""Extract jobs: one result from the data of several pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from scraper_service.content.stored_pages import read_pages
from scraper_service.content.structured_data.merging import PageData, result_json
from scraper_service.discovery import map_results
from scraper_service.errors import QueueFull, ServiceError, ServiceUnavailable, plural
from scraper_service.options.formats import Json, Links
from scraper_service.options.jobs import SITE, ExtractOptions
from scraper_service.services.model_jobs.running_job import JobRunFailed, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scrapy.settings import BaseSettings

    from scraper_service.content.stored_pages import StoredPage
    from scraper_service.options.jobs import BatchOptions
    from scraper_service.services.map_search import Sources
    from scraper_service.services.model_jobs.running_job import RunningJob
    from scraper_service.storage.accounts.credits import Prices


MAX_PAGES = 5000  # of one job
SEARCHED_PAGES = 10  # of a search, unless the caller sets a limit
MAX_SEARCHED = 100
MOST_REASONS = 5  # of pages that could not be read, in one warning
LONG_REASON = 300  # characters
NO_ANSWER = "the language model gave no answer that could be used"
NO_EFFECT = "systemPrompt has no effect without a language model."
NO_MODEL = "the operator has not set up a language model (SCRAPER_LLM_BASE_URL)"


@define
class _Plan:
    """The pages to read."""

    #: The most pages.
    limit: int
    #: URLs, the most important data first.
    urls: dict[str, None] = field(factory=dict)
    #: Sentences shown to the caller.
    warnings: list[str] = field(factory=list)

    def add(self, urls: Iterable[str]) -> None:
        for url in urls:
            if len(self.urls) < self.limit:
                self.urls[url] = None


class Extract:
    """Finds the pages, reads them and merges their data."""

    def __init__(
        self,
        sources: Sources,
        prices: Prices,
        settings: BaseSettings,
    ):
        self._sources = sources
        self._price = prices.extract_page
        self._has_model = bool(settings["LLM_BASE_URL"])
        self._site_pages = settings.getint("EXTRACT_PAGES")
        self._most_s = settings.getint("OPERATION_TIMEOUT_S")

    def pages(self, options: ExtractOptions) -> int:
        """Return the most pages that a job may be charged for."""
        searched = min(options.limit or SEARCHED_PAGES, MAX_SEARCHED)
        return min(sum(options.counts(self._site_pages, searched)), MAX_PAGES)

    def price(self, _: ExtractOptions) -> int:
        """Return the price of a page in credits."""
        return self._price

    async def __call__(self, job: RunningJob) -> None:
        """Run a job with :class:`ExtractOptions`."""
        options: ExtractOptions = job.options
        timeout_s = (options.timeout_ms or 1000 * self._most_s) / 1000
        until = job.deadline(min(timeout_s, self._most_s))
        if "urls" not in job.memory:
            plan = await self._plan(job, options, until)
            await job.remember(urls=[*plan.urls], warnings=plan.warnings)
        urls, warnings = job.memory["urls"], job.memory["warnings"]
        if not urls:
            raise JobRunFailed(" ".join(["No page to read was found.", *warnings]))
        wanted = Json(
            prompt=options.prompt,
            schema=options.schema,
            system_prompt=options.system_prompt,
        )
        step = await job.begin("pages", _batch(options, urls, wanted))
        early = await job.wait_for_batch(step, until)
        pages, lost = await self._read(job, step)
        if early is not None:
            warnings = [*warnings, f"It ended early: {early}."]
        if lost:
            warnings = [*warnings, _lost_pages_warning(lost, len(urls))]
        if not pages:
            raise JobRunFailed(" ".join(["Nothing could be read.", *warnings]))
        by_rules = self._by_rules(pages, has_system_prompt=bool(options.system_prompt))
        if by_rules:
            warnings = [*warnings, by_rules]
        await self._answer(job, pages, warnings, by_rules=by_rules is not None)

    async def _plan(
        self, job: RunningJob, options: ExtractOptions, until: float
    ) -> _Plan:
        """Return the URLs to read."""
        plan = _Plan(job.page_limit)
        if job.warning:
            plan.warnings.append(job.warning)
        words = map_results.search_text(options.prompt, options.schema)
        for url in options.urls:
            if url.endswith(SITE):
                start = url.removesuffix(SITE)
                found = await self._below(job, start, words, until, plan)
                plan.add(found)
            else:
                plan.add([url])
        if options.allow_external_links:
            found = await self._elsewhere(job, words, until)
            plan.add(await self._permitted_urls(found, plan))
        if options.searches:
            await self._search(job, words, plan)
        return plan

    async def _below(
        self, job: RunningJob, url: str, words: str, until: float, plan: _Plan
    ) -> list[str]:
        """Return the relevant pages of a site; only its start page without a map."""
        options: ExtractOptions = job.options
        limit = min(options.limit or self._site_pages, MAX_PAGES)
        found = await self._sources.site(
            url,
            job.team_id,
            options.scrape,
            until,
            # Irrelevant pages come last.
            limit=max(limit, map_results.UNFITTING_PAGES),
            words=words,
            ignore_sitemap=options.ignore_sitemap,
            include_subdomains=options.include_subdomains,
        )
        if found.error is not None:
            text = f"The pages of {url} could not be listed: {found.error:.300}"
            plan.warnings.append(text)
            return [url]
        urls: list[str] = await job.in_pool(
            map_results.pages_of_site, found.slices, url, words, limit
        )
        return await self._permitted_urls(urls, plan, url) or [url]

    async def _permitted_urls(
        self, urls: Sequence[str], plan: _Plan, *named: str
    ) -> list[str]:
        kept, refused = await self._sources.permitted_urls(urls, *named)
        if refused:
            plan.warnings.append(refused)
        return kept

    async def _elsewhere(self, job: RunningJob, words: str, until: float) -> list[str]:
        """Return relevant links of the start pages to other sites."""
        options: ExtractOptions = job.options
        starts = [u.removesuffix(SITE) for u in options.urls if u.endswith(SITE)]
        if not starts:
            return []
        step = await job.begin("starts", _batch(options, starts, Links()))
        await job.wait_for_batch(step, until)
        limit = options.limit or self._site_pages
        bodies = [
            entry.body async for entries in job.entries(step) for entry in entries
        ]
        found: list[str] = await job.in_pool(
            map_results.pages_elsewhere, bodies, starts, words, limit
        )
        return found

    async def _search(self, job: RunningJob, words: str, plan: _Plan) -> None:
        options: ExtractOptions = job.options
        if not (query := words or options.prompt):
            plan.warnings.append("Without prompt and schema nothing was searched for.")
            return
        limit = min(options.limit or SEARCHED_PAGES, MAX_SEARCHED)
        try:
            urls, warning = await self._sources.search(query, limit, job.team_id)
        except (QueueFull, ServiceUnavailable):
            raise
        except ServiceError as error:
            plan.warnings.append(f"The web could not be searched: {error}")
            return
        plan.add(urls)
        if warning:
            plan.warnings.append(warning)

    async def _read(
        self, job: RunningJob, step: str
    ) -> tuple[list[StoredPage], list[tuple[str, str]]]:
        """Return the pages with data in order, and URL and reason of the others."""
        numbered: dict[int, StoredPage] = {}
        lost = {f.number: (f.url, f.error) for f in await job.failures(step)}
        async for entries in job.entries(step):
            bodies = [entry.body for entry in entries]
            found: list[StoredPage] = await job.in_pool(read_pages, bodies)
            for entry, page in zip(entries, found, strict=True):
                if page.error is None and page.data is not None:
                    numbered[entry.number] = page
                else:
                    reason = page.error or page.warning or "it has no data"
                    lost[entry.number] = (page.url, reason)
        pages = [numbered[number] for number in sorted(numbered)]
        return pages, [lost[number] for number in sorted(lost)]

    def _by_rules(
        self, pages: Sequence[StoredPage], *, has_system_prompt: bool
    ) -> str | None:
        """Return a warning if data was found by rules and not by a language model."""
        count = sum(page.answered_by == "rules" for page in pages)
        if not count:
            return None
        if self._has_model:
            return (
                f"Rules answered {count} of {plural(len(pages), 'page')}: {NO_ANSWER}."
            )
        idle = f" {NO_EFFECT}" if has_system_prompt else ""
        return f"The data was found by rules: {NO_MODEL}.{idle}"

    async def _answer(
        self,
        job: RunningJob,
        pages: Sequence[StoredPage],
        warnings: list[str],
        *,
        by_rules: bool,
    ) -> None:
        """Store the result. Only the pages that it uses are charged."""
        options: ExtractOptions = job.options
        result: bytes
        result, used = await job.in_pool(
            result_json,
            [PageData(page.url, page.data) for page in pages],
            options.prompt,
            options.schema,
            options.show_sources,
            by_rules,
            warnings,
        )
        counted = [page.tokens for page in pages if page.tokens is not None]
        tokens = sum(counted) if counted else None
        price = self._price * used
        await job.complete(result, len(pages), price, tokens)


def _batch(options: ExtractOptions, urls: Sequence[str], *wanted: Any) -> BatchOptions:
    return batch_of(urls, evolve(options.scrape, formats=wanted))


def _lost_pages_warning(lost: Sequence[tuple[str, str]], count: int) -> str:
    """Return a warning about pages that could not be read."""
    reasons = [f"{url} ({reason:.{LONG_REASON}})" for url, reason in lost]
    text = f"{len(lost)} of {plural(count, 'page')} could not be read: "
    more = "; ..." if len(lost) > MOST_REASONS else ""
    return text + "; ".join(reasons[:MOST_REASONS]) + more
