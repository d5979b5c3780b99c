"""Deep research: a run whose model chooses searches, and writes a report."""

from __future__ import annotations

import math
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.structured_data.merging import merge
from scraper_service.errors import plural
from scraper_service.llm.model import ModelError, member_of
from scraper_service.services.kinds.agent_run import ModelRun, RunTools, in_turns
from scraper_service.services.kinds.agent_state import (
    EXTRACT,
    SCRAPE,
    SEARCH,
    AgentChoice,
    RunBounds,
    RunStopped,
    read_options,
    url_key,
)
from scraper_service.services.kinds.agent_writer import data_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.content.formats.llms_txt_and_agents import AgentPage
    from scraper_service.options.extraction import ResearchOptions
    from scraper_service.services.kinds.operations import Operation

QUERIES = 3  # of one round
MAX_QUERY = 300  # characters
LEAST_PAGES = 3  # of one round
FULL_ROUNDS = 3  # share the page limit, so that pages are left for a second round
# Shares of the time limit: for writing the report, and for a further round.
WRITING, A_ROUND = 0.1, 0.2


@frozen
class Research:
    """Runs deep research. A page has one price, and searches are free."""

    tools: RunTools

    def pages(self, options: ResearchOptions) -> int:
        """Return the most pages that an operation may be charged for."""
        return options.max_urls

    def price(self, options: ResearchOptions) -> int:
        """Return the price of a page in credits."""
        return self.tools.prices.usual(read_options(options))

    async def __call__(self, operation: Operation) -> None:
        """Run an operation with :class:`ResearchOptions`."""
        await ResearchRun(operation, self.tools).go()


class ResearchRun(ModelRun):
    """The work on one deep research job.

    It ends when depth, pages or time are used up, or a round finds nothing new.
    """

    def __init__(self, operation: Operation, tools: RunTools):
        self._options: ResearchOptions = operation.options
        pages = min(self._options.max_urls, operation.page_limit)
        until = operation.deadline(self._options.time_limit_s * (1 - WRITING))
        bounds = RunBounds(pages, self._options.max_depth, until)
        super().__init__(operation, tools, bounds)
        self._until = operation.deadline(self._options.time_limit_s)
        self._state.warn(operation.warning)

    def _page_price(self, _: AgentPage) -> int:
        return self._tools.prices.usual(read_options(self._options))

    async def _choose(self) -> None:
        if queries := await self._next_searches():
            await self._begin(AgentChoice(SEARCH, {"queries": queries}))
        else:
            await self._begin(AgentChoice(EXTRACT, {}))

    async def _next_searches(self) -> list[str]:
        """Return the next searches; none if there is nothing left to search for."""
        state, bounds, pages = self._state, self._bounds, self._reader.pages
        last = bounds.until - self._options.time_limit_s * A_ROUND
        is_full = state.depth >= bounds.rounds or len(state.urls) >= bounds.pages
        if is_full or time.monotonic() >= last:
            return []
        queries: list[str] = []
        try:
            answer = await self._tools.writer.choose(
                self._operation, state, pages, {"most": QUERIES}, self._until
            )
            state.tokens += answer.tokens
            texts = [text or "" for text in member_of(answer, "queries")]
            queries = [text.strip()[:MAX_QUERY] for text in texts if text.strip()]
        except ModelError as error:
            state.warn(f"The language model chose no searches ({error.reason}).")
        queries = list(dict.fromkeys(queries))[:QUERIES]
        if state.rounds:
            before = [each["input"].get("queries", ()) for each in state.rounds]
            return [query for query in queries if query not in chain(*before)]
        queries = queries or [self._options.query]
        text = f"Searches to begin with: {len(queries)}."
        state.note("thought", "complete", text)
        return queries

    async def _look(
        self, action: str, given: Mapping[str, Any]
    ) -> tuple[str, AgentChoice | None]:
        """Search, and choose the best new results of each search."""
        state, bounds = self._state, self._bounds
        found = [await self._reader.search(q, state) for q in given["queries"]]
        read = {url_key(url) for url in state.urls}
        urls = {url_key(url): url for url in in_turns([each.urls for each in found])}
        new = [url for key, url in urls.items() if key not in read]
        wanted = math.ceil(bounds.pages / min(FULL_ROUNDS, bounds.rounds))
        wanted = min(max(LEAST_PAGES, wanted), bounds.pages - len(state.urls))
        if new and wanted > 0:
            following = AgentChoice(SCRAPE, {"urls": new[:wanted]})
        else:
            state.note("search", "complete", "There is nothing new to read.")
            following = AgentChoice(EXTRACT, {})
        return "\n".join(each.said for each in found), following

    async def _so_far(self, analysis: str = "", **data: Any) -> bytes:
        """Return the members of the response.

        ``analysis`` is the text of the report, ``data`` has further members of it.
        """
        state = self._state
        sources = [_source(page) for page in self._reader.pages]
        lists = {"activities": state.activities, "sources": sources}
        members = {
            "data": {"finalAnalysis": analysis, **lists, **data},
            "currentDepth": state.depth,
            "maxDepth": self._options.max_depth,
            "totalUrls": len(sources),
            **lists,
        }
        return state.response(members)

    async def _write_answer(self) -> bytes:
        pages, formats = self._reader.pages, self._options.formats
        analysis, data = "", {}
        if "markdown" in formats:
            analysis = await self._report()
        if "json" in formats:
            joined = await self._operation.in_pool(merge, data_of(pages))
            data["json"] = {} if joined.data is None else joined.data
        text = f"The answer is made of {plural(len(pages), 'page')}."
        self._state.note("synthesis", "complete", text)
        return await self._so_far(analysis, **data)

    async def _report(self) -> str:
        """Return the report with the list of its sources."""
        pages = self._reader.pages
        try:
            answer = await self._tools.writer.answer(
                self._operation, pages, self._until
            )
        except ModelError as error:
            text = f"The language model wrote no report ({error.reason})."
            raise RunStopped("error", text) from error
        self._state.tokens += answer.tokens
        rows = [f"{n}. [{page.title}]({page.url})" for n, page in enumerate(pages, 1)]
        return "\n".join([answer.text.strip(), "", "## Sources", "", *rows])


def _source(page: AgentPage) -> dict[str, str]:
    """Return a page as it is listed in the response."""
    facts = {"url": page.url, "title": page.title, "description": page.description}
    return facts | ({"icon": page.icon} if page.icon else {})
