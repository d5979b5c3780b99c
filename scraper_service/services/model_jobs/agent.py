"""Agents, and deep research: in each round a language model chooses what to read.

That of an agent may search, map, read or answer; that of deep research searches, and writes a
report.
"""

from __future__ import annotations

import asyncio
import math
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.content.structured_data.merging import merge
from scraper_service.errors import plural
from scraper_service.llm.model import ModelError, member_of
from scraper_service.options.formats import Json, Markdown
from scraper_service.services.model_jobs.agent_run import ModelRun, RunTools, in_turns
from scraper_service.services.model_jobs.agent_state import (
    EXTRACT,
    MAP,
    MOST_A_ROUND,
    NONE,
    PDF_PAGES,
    RESULTS,
    SCRAPE,
    SEARCH,
    AgentChoice,
    ChoiceRefused,
    RunBounds,
    RunStopped,
    read_choice,
    read_options,
    url_key,
    urls_in_text,
)
from scraper_service.services.model_jobs.agent_writer import FinalAnswer, data_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.formats.llms_txt_and_agents import AgentPage
    from scraper_service.options.jobs import AgentOptions, ResearchOptions
    from scraper_service.services.model_jobs.running_job import RunningJob

MODEL_PAUSE_S = 1.0  # after a failure of the model, longer after several of them
CREDIT_LIMIT, NO_CREDITS = "credit_limit_reached", "Max credits exceeded"
#: The most pages and rounds, by effort.
BOUNDS: Mapping[str, tuple[int, int]] = {
    "low": (10, 3),
    "medium": (25, 6),
    "high": (50, 10),
}


@frozen
class Agent:
    """Runs agents. A run costs credits, so :meth:`pages` counts credits, not pages."""

    tools: RunTools

    def pages(self, options: AgentOptions) -> int:
        """Return the most credits that a run may be charged."""
        pages, rounds = BOUNDS[options.effort or "medium"]
        prices = self.tools.prices
        page = prices.most(read_options(options), PDF_PAGES)
        if options.schema is None:
            page += prices.reading
        look = max(prices.search(RESULTS), prices.map)
        return max(
            1, min(math.floor(options.max_credits), pages * page + rounds * look)
        )

    def price(self, _: AgentOptions) -> int:
        """Return the price of what :meth:`pages` counts."""
        return 1

    async def __call__(self, job: RunningJob) -> None:
        """Run a job with :class:`AgentOptions`."""
        await AgentRun(job, self.tools).go()


class AgentRun(ModelRun):
    """The work on one run of an agent."""

    def __init__(self, job: RunningJob, tools: RunTools):
        self._options: AgentOptions = job.options
        late = f"The agent run took longer than {plural(tools.most_s, 'second')}."
        until = job.deadline(tools.most_s)
        most = BOUNDS[self._options.effort or "medium"]
        super().__init__(job, tools, RunBounds(*most, until, late))
        self._budget = min(self._options.max_credits, job.page_limit)
        self._answer = FinalAnswer(job, tools.writer)
        self._partial: dict[str, Any] = {}
        self._counted = 0  # pages in it
        named = [*self._options.urls]
        if not self._options.only_urls:
            named += urls_in_text(self._options.prompt)
        self._state.learn(named, are_named=True)
        # As they are fetched.
        self._named = [self._state.known.get(url_key(url), url) for url in named]

    async def _so_far(self, **members: Any) -> bytes:
        pages = self._reader.pages
        if len(pages) > self._counted:
            self._counted = len(pages)
            self._partial = await self._answer.partial(pages)
        return self._state.result(pages, **self._partial, **members)

    async def _write_answer(self) -> bytes:
        state, pages = self._state, self._reader.pages
        members = await self._answer.members(pages, state, self._bounds.until)
        state.note("synthesis", "complete", "The run is complete.")
        return state.result(pages, **members)

    async def _fail(self, stop: RunStopped) -> None:
        if stop.reason == CREDIT_LIMIT:
            # That of a team with few credits.
            self._state.warn(self._job.warning)
        result = await self._so_far(stopReason=stop.reason)
        await self._job.fail(str(stop), result)

    def _page_price(self, page: AgentPage) -> int:
        """Return the price of a page that the model reads."""
        is_read = self._options.schema is not None  # by the format json
        return page.credits + (0 if is_read else self._tools.prices.reading)

    async def _look(
        self, action: str, given: Mapping[str, Any]
    ) -> tuple[str, AgentChoice | None]:
        state, reader = self._state, self._reader
        if action == SEARCH:
            found = await reader.search(given["query"], state)
        else:
            found = await reader.map(given["url"], state, self._bounds.until)
        state.credits += found.price
        return found.observation, None

    async def _choose(self) -> None:
        state, bounds = self._state, self._bounds
        if state.credits > self._budget:  # a PDF file costs more than a page
            raise RunStopped(CREDIT_LIMIT, NO_CREDITS)
        if len(state.rounds) >= bounds.rounds or len(state.urls) >= bounds.pages:
            await self._begin(AgentChoice(EXTRACT, {}))
            return
        try:
            choice = await self._next_choice()
        except ModelError as error:
            state.message = f"The language model chose no action ({error.reason})."
            state.warn(state.message)
            state.end_round(f"No action could be read: {error.reason}", no_action=NONE)
            await self._advance()
            await asyncio.sleep(MODEL_PAUSE_S * state.failures)
        except ChoiceRefused as refusal:
            state.message = "An action of the language model was refused."
            state.end_round(str(refusal), no_action="refused")
            await self._advance()
        else:
            await self._begin(choice)

    async def _next_choice(self) -> AgentChoice:
        """Return an action that may be run.

        Raises :exc:`ModelError`, :exc:`ChoiceRefused` and :exc:`RunStopped`.
        """
        pages, left = self._reader.pages, self._remaining_bounds()
        answer = await self._tools.writer.choose(
            self._job, self._state, pages, left, self._bounds.until
        )
        self._state.tokens += answer.tokens
        choice = read_choice(
            answer.value,
            self._state,
            is_strict=self._options.only_urls,
            has_pages=bool(pages),
        )
        price = self._price(choice)
        credits_left = self._budget - self._state.credits
        if price > credits_left:
            raise RunStopped(CREDIT_LIMIT, NO_CREDITS)
        if choice.action != SCRAPE:
            return choice
        most = left["most"]
        if price:
            most = min(most, int(credits_left // price))
        return await self._readable(choice, most)

    async def _readable(self, choice: AgentChoice, most: int) -> AgentChoice:
        """Return the part of a scrape that robots.txt allows, at most ``most`` pages."""
        urls: Sequence[str] = choice.input["urls"]
        kept, refused = await self._tools.sources.permitted_urls(urls, *self._named)
        self._state.warn(refused)
        if not kept:
            raise ChoiceRefused(f"scrape was refused: {refused}")
        left_out = [choice.left_out, refused or ""]
        if len(kept) > most:
            left_out.append(f"{len(kept) - most} were left out, by the limits")
        notes = "; ".join(filter(None, left_out))
        return AgentChoice(SCRAPE, {"urls": kept[:most]}, notes)

    def _remaining_bounds(self) -> dict[str, int]:
        """Return what is left for the run, for the model."""
        pages = self._bounds.pages - len(self._state.urls)
        return {
            "rounds": self._bounds.rounds - len(self._state.rounds),
            "pages": pages,
            "credits": max(0, math.floor(self._budget - self._state.credits)),
            "most": min(pages, MOST_A_ROUND),
        }

    def _price(self, choice: AgentChoice) -> int:
        """Return the least credits that an action needs."""
        if choice.action == SEARCH:
            return self._tools.prices.search(RESULTS)
        if choice.action == MAP:
            return self._tools.prices.map
        if choice.action == SCRAPE:
            # That of a page that a model reads.
            formats: tuple[Any, ...] = (Markdown(), Json())
            return self._tools.prices.usual(
                evolve(self._options.scrape, formats=formats)
            )
        return 0


# -- deep research: its model chooses searches, and writes a report ---------------------

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
        """Return the most pages that a job may be charged for."""
        return options.max_urls

    def price(self, options: ResearchOptions) -> int:
        """Return the price of a page in credits."""
        return self.tools.prices.usual(read_options(options))

    async def __call__(self, job: RunningJob) -> None:
        """Run a job with :class:`ResearchOptions`."""
        await ResearchRun(job, self.tools).go()


class ResearchRun(ModelRun):
    """The work on one deep research job.

    It ends when depth, pages or time are used up, or a round finds nothing new.
    """

    def __init__(self, job: RunningJob, tools: RunTools):
        self._options: ResearchOptions = job.options
        pages = min(self._options.max_urls, job.page_limit)
        until = job.deadline(self._options.time_limit_s * (1 - WRITING))
        bounds = RunBounds(pages, self._options.max_depth, until)
        super().__init__(job, tools, bounds)
        self._until = job.deadline(self._options.time_limit_s)
        self._state.warn(job.warning)

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
                self._job, state, pages, {"most": QUERIES}, self._until
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
        return "\n".join(each.observation for each in found), following

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
            joined = await self._job.in_pool(merge, data_of(pages))
            data["json"] = {} if joined.data is None else joined.data
        text = f"The answer is made of {plural(len(pages), 'page')}."
        self._state.note("synthesis", "complete", text)
        return await self._so_far(analysis, **data)

    async def _report(self) -> str:
        """Return the report with the list of its sources."""
        pages = self._reader.pages
        try:
            answer = await self._tools.writer.answer(self._job, pages, self._until)
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
