"""Deep research: choose searches, read the pages found, write a report."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.merging import PageData, merge
from scraper_service.content.text import page_notes
from scraper_service.content.text.stored_pages import read_pages
from scraper_service.errors import QueueFull, ServiceError, ServiceUnavailable, counted
from scraper_service.llm.model import ModelError
from scraper_service.options.crawl import BatchOptions
from scraper_service.options.formats import Markdown
from scraper_service.options.urls import caller_url
from scraper_service.services.operations.deep_research.findings import Findings
from scraper_service.services.operations.operations import OperationFailed

if TYPE_CHECKING:
    from scraper_service.content.text.page_notes import Note
    from scraper_service.content.text.stored_pages import StoredPage
    from scraper_service.crawling.converter_pool.pool import ConverterPool
    from scraper_service.crawling.pricing import Prices
    from scraper_service.options.extraction import ResearchOptions
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.services.operations.deep_research.report_writer import (
        ResearchWriter,
    )
    from scraper_service.services.operations.operations import Operation
    from scraper_service.services.operations.sources import Sources

RESULTS = 8  # of one search
LEAST_PAGES = 3  # of one round
FULL_ROUNDS = 3  # share the page limit, so that pages are left for a second round
# Shares of the time limit: for writing the report, and for a further round.
WRITING, A_ROUND = 0.1, 0.2


class Research:
    """Runs deep research in rounds: search, read pages, choose further searches.

    It ends when depth, pages or time are used up, or a round finds nothing new.
    """

    def __init__(
        self,
        sources: Sources,
        pool: ConverterPool,
        prices: Prices,
        writer: ResearchWriter,
    ):
        self.sources = sources
        self.pool = pool
        self.writer = writer
        self._prices = prices

    def pages(self, options: ResearchOptions) -> int:
        """Return the most pages that an operation may be charged for."""
        return options.max_urls

    def price(self, options: ResearchOptions) -> int:
        """Return the price of a page in credits."""
        return self._prices.usual(_scrape(options))

    async def __call__(self, operation: Operation) -> None:
        """Run an operation with :class:`ResearchOptions`."""
        await _Work(self, operation).run()


class _Work:
    """The work on one deep research job."""

    def __init__(self, research: Research, operation: Operation):
        self._research = research
        self._pool = research.pool
        self._writer = research.writer
        self._operation = operation
        self._options: ResearchOptions = operation.options
        self._found = Findings.of(operation.memory)
        self._most = min(self._options.max_urls, operation.page_limit)
        self._pages: list[Note] = []
        self._data: list[PageData] = []
        self._tokens = 0

    async def run(self) -> None:
        """Run the job from its stored state to its end."""
        found = self._found
        if self._operation.warning:
            found.warn(self._operation.warning)
        for number, urls in enumerate(found.rounds, 1):
            await self._read(number, urls)
        while True:
            if found.queries is None:
                found.queries = await self._next_searches()
                await self._remember()
            if not self._goes_on():
                break
            urls = await self._search(found.queries)
            found.asked += found.queries
            found.queries = None if urls else []
            if urls:
                found.rounds.append(urls)
            await self._remember()
            if urls:
                await self._read(len(found.rounds), urls)
        await self._write()

    def _until(self, share: float = 1.0) -> float:
        return self._operation.deadline(self._options.time_limit_s * share)

    def _goes_on(self) -> bool:
        found = self._found
        return (
            bool(found.queries)
            and len(found.rounds) < self._options.max_depth
            and len(found.urls) < self._most
            and time.monotonic() < self._until(1 - WRITING - A_ROUND)
        )

    async def _remember(self) -> None:
        await self._operation.remember(findings=self._found.as_json())
        result = self._found.result(self._options.max_depth, self._pages)
        await self._operation.show(result)

    async def _next_searches(self) -> list[str]:
        """Return the next searches; none if there is nothing left to search for."""
        found, query = self._found, self._options.query
        if len(found.rounds) >= self._options.max_depth:
            return []
        queries: list[str] = []
        try:
            queries, tokens = await self._writer.searches(
                self._operation, self._pages, self._until()
            )
            self._tokens += tokens
        except ModelError as error:
            found.warn(f"The language model chose no searches ({error.reason}).")
        if found.asked:
            return [each for each in queries if each not in found.asked]
        queries = queries or [query]
        found.note("thought", "complete", f"Searches to begin with: {len(queries)}.")
        return queries

    async def _search(self, queries: list[str]) -> list[str]:
        """Return the URLs to read next; none if the searches find nothing new."""
        found = self._found
        wanted = math.ceil(self._most / min(FULL_ROUNDS, self._options.max_depth))
        wanted = max(LEAST_PAGES, wanted)
        wanted = min(wanted, self._most - len(found.urls))
        lists = []
        for query in queries:
            found.note("search", "processing", f"Searching for {query!r}.")
            try:
                urls, warning = await self._research.sources.search(
                    query, RESULTS, self._operation.team_id
                )
            except (QueueFull, ServiceUnavailable):
                raise
            except ServiceError as error:
                found.note("search", "error", f"The search failed: {error}")
                found.warn(f"A search failed: {error}")
                continue
            if warning:
                found.warn(warning)
            lists.append(urls)
            found.note(
                "search", "complete", f"{counted(len(urls), 'result')} for {query!r}."
            )
        new = _first_new(lists, found.urls, wanted)
        if not new:
            found.note("search", "complete", "There is nothing new to read.")
        return new

    async def _read(self, number: int, urls: list[str]) -> None:
        """Read the pages of a round; at the time limit, those that have arrived."""
        found, operation = self._found, self._operation
        asked = BatchOptions(
            urls=tuple(urls),
            scrape=_scrape(self._options),
            max_concurrency=None,
            webhook=None,
        )
        step = await operation.begin(f"round-{number}", asked)
        if early := await operation.ended(step, self._until(1 - WRITING)):
            found.warn(f"A round ended early: {early}.")
        numbered: dict[int, tuple[Note, PageData]] = {}
        async for entries in operation.entries(step):
            bodies = [entry.body for entry in entries]
            pages: list[StoredPage] = await self._pool.run(
                read_pages, bodies, team_id=operation.team_id, job_id=operation.id
            )
            notes: list[Note | None] = await self._pool.run(
                page_notes.notes,
                bodies,
                self._options.query,
                team_id=operation.team_id,
                job_id=operation.id,
            )
            for entry, page, note in zip(entries, pages, notes, strict=True):
                self._tokens += page.tokens or 0
                if note is not None:
                    numbered[entry.number] = note, PageData(page.url, page.data)
        for _, (note, data) in sorted(numbered.items()):
            self._pages.append(note)
            self._data.append(data)
        found.note(
            "extract",
            "complete",
            f"Read {len(numbered)} of {counted(len(urls), 'page')}.",
        )
        await operation.show(found.result(self._options.max_depth, self._pages))

    async def _write(self) -> None:
        found, options, pages = self._found, self._options, self._pages
        if not pages:
            text = "No page about it could be found and read."
            raise OperationFailed(" ".join([text, *found.warnings]))
        analysis, data = "", {}
        if "markdown" in options.formats:
            found.note("synthesis", "processing", "Writing the answer.")
            analysis = await self._analysis()
        if "json" in options.formats:
            joined = await self._pool.run(
                merge,
                self._data,
                team_id=self._operation.team_id,
                job_id=self._operation.id,
            )
            data["json"] = {} if joined.data is None else joined.data
        count = len(pages)
        found.note(
            "synthesis", "complete", f"The answer is made of {counted(count, 'page')}."
        )
        result = found.result(options.max_depth, pages, analysis, **data)
        price = self._research.price(options) * count
        await self._operation.complete(result, count, price, self._tokens or None)

    async def _analysis(self) -> str:
        """Return the report with the list of its sources."""
        try:
            text, tokens = await self._writer.report(
                self._operation, self._pages, self._until()
            )
        except ModelError as error:
            reason = f"The language model wrote no report ({error.reason})."
            raise OperationFailed(reason) from error
        self._tokens += tokens
        return f"{text}\n\n{page_notes.source_list(self._pages)}"


def _scrape(options: ResearchOptions) -> ScrapeOptions:
    formats: tuple[Any, ...] = (Markdown(),)
    if "json" in options.formats:
        formats = (Markdown(), options.json)
    return evolve(options.scrape, formats=formats)


def _first_new(lists: list[list[str]], known: set[str], wanted: int) -> list[str]:
    """Return up to ``wanted`` URLs that are not known, taking turns between lists."""
    found: dict[str, None] = {}
    for place in range(max(map(len, lists), default=0)):
        for urls in lists:
            url = urls[place] if place < len(urls) else None
            if url is not None and url not in known and _is_address(url):
                found[url] = None
            if len(found) == wanted:
                return list(found)
    return list(found)


def _is_address(url: str) -> bool:
    try:
        caller_url(url)
    except ValueError:
        return False
    return True
