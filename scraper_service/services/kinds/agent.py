"""An agent: in each round a language model chooses to search, map, read, or answer."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.errors import plural
from scraper_service.llm.model import ModelError
from scraper_service.options.formats import Json, Markdown
from scraper_service.services.kinds import agent_state
from scraper_service.services.kinds.agent_run import ModelRun, RunTools
from scraper_service.services.kinds.agent_state import (
    MOST_A_ROUND,
    NONE,
    PDF_PAGES,
    RESULTS,
    AgentChoice,
    RunBounds,
    RunStopped,
    read_options,
    url_key,
    urls_in_text,
)
from scraper_service.services.kinds.agent_writer import FinalAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.formats.llms_txt_and_agents import AgentPage
    from scraper_service.options.extraction import AgentOptions
    from scraper_service.services.kinds.operations import Operation

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

    async def __call__(self, operation: Operation) -> None:
        """Run an operation with :class:`AgentOptions`."""
        await AgentRun(operation, self.tools).go()


class AgentRun(ModelRun):
    """The work on one run of an agent."""

    def __init__(self, operation: Operation, tools: RunTools):
        self._options: AgentOptions = operation.options
        late = f"The agent run took longer than {plural(tools.most_s, 'second')}."
        until = operation.deadline(tools.most_s)
        most = BOUNDS[self._options.effort or "medium"]
        super().__init__(operation, tools, RunBounds(*most, until, late))
        self._budget = min(self._options.max_credits, operation.page_limit)
        self._answer = FinalAnswer(operation, tools.writer)
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
            self._state.warn(self._operation.warning)
        result = await self._so_far(stopReason=stop.reason)
        await self._operation.fail(str(stop), result)

    def _page_price(self, page: AgentPage) -> int:
        """Return the price of a page that the model reads."""
        is_read = self._options.schema is not None  # by the format json
        return page.credits + (0 if is_read else self._tools.prices.reading)

    async def _look(
        self, action: str, given: Mapping[str, Any]
    ) -> tuple[str, AgentChoice | None]:
        state, reader = self._state, self._reader
        if action == agent_state.SEARCH:
            found = await reader.search(given["query"], state)
        else:
            found = await reader.map(given["url"], state, self._bounds.until)
        state.credits += found.price
        return found.said, None

    async def _choose(self) -> None:
        state, bounds = self._state, self._bounds
        if state.credits > self._budget:  # a PDF file costs more than a page
            raise RunStopped(CREDIT_LIMIT, NO_CREDITS)
        if len(state.rounds) >= bounds.rounds or len(state.urls) >= bounds.pages:
            await self._begin(AgentChoice(agent_state.EXTRACT, {}))
            return
        try:
            choice = await self._next_choice()
        except ModelError as error:
            state.message = f"The language model chose no action ({error.reason})."
            state.warn(state.message)
            state.end_round(f"No action could be read: {error.reason}", no_action=NONE)
            await self._advance()
            await asyncio.sleep(MODEL_PAUSE_S * state.failures)
        except agent_state.ChoiceRefused as refusal:
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
            self._operation, self._state, pages, left, self._bounds.until
        )
        self._state.tokens += answer.tokens
        choice = agent_state.read_choice(
            answer.value,
            self._state,
            is_strict=self._options.only_urls,
            has_pages=bool(pages),
        )
        price = self._price(choice)
        credits_left = self._budget - self._state.credits
        if price > credits_left:
            raise RunStopped(CREDIT_LIMIT, NO_CREDITS)
        if choice.action != agent_state.SCRAPE:
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
            raise agent_state.ChoiceRefused(f"scrape was refused: {refused}")
        left_out = [choice.left_out, refused or ""]
        if len(kept) > most:
            left_out.append(f"{len(kept) - most} were left out, by the limits")
        told = "; ".join(filter(None, left_out))
        return AgentChoice(agent_state.SCRAPE, {"urls": kept[:most]}, told)

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
        match choice.action:
            case agent_state.SEARCH:
                return self._tools.prices.search(RESULTS)
            case agent_state.MAP:
                return self._tools.prices.map
            case agent_state.SCRAPE:
                # That of a page that a model reads.
                formats: tuple[Any, ...] = (Markdown(), Json())
                return self._tools.prices.usual(
                    evolve(self._options.scrape, formats=formats)
                )
        return 0
