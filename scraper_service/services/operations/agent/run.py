"""The rounds of one run of an agent, each stored before the next."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any

from scraper_service.errors import counted
from scraper_service.llm.model import ModelError
from scraper_service.services.operations.agent import choices
from scraper_service.services.operations.agent.bounds import (
    MOST_A_ROUND,
    RESULTS,
    RunStopped,
    bounds_of,
    priced_options,
)
from scraper_service.services.operations.agent.choices import AgentChoice
from scraper_service.services.operations.agent.run_state import (
    NONE,
    AgentState,
    url_key,
    written_urls,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.crawling.pricing import Prices
    from scraper_service.options.extraction import AgentOptions
    from scraper_service.services.operations.agent.agent_writer import AgentWriter
    from scraper_service.services.operations.agent.final_answer import FinalAnswer
    from scraper_service.services.operations.agent.page_reader import PageReader
    from scraper_service.services.operations.operations import Operation

MODEL_PAUSE_S = 1.0  # after a failure of the model, longer after several of them
NOTHING_READ = "No page about it could be found and read."
CREDIT_LIMIT, NO_CREDITS = "credit_limit_reached", "Max credits exceeded"


class AgentRun:
    """The work on one run.

    A round has three writes: the model's choice, what the action found, and the batches
    of pages between them, whose ids follow from the number of the round. So a process
    that continues the run repeats at most one question to the model, one search or map.
    """

    def __init__(
        self,
        operation: Operation,
        reader: PageReader,
        answer: FinalAnswer,
        writer: AgentWriter,
        prices: Prices,
        most_s: int,
    ):
        self._operation = operation
        self._reader = reader
        self._answer = answer
        self._writer = writer
        self._prices = prices
        self._most_s = most_s
        self._options: AgentOptions = operation.options
        self._bounds = bounds_of(self._options)
        self._budget = min(self._options.max_credits, operation.page_limit)
        self._until = operation.deadline(most_s)
        self._state = AgentState.of(operation.memory)
        named = [*self._options.urls]
        if not self._options.only_urls:
            named += written_urls(self._options.prompt)
        self._state.learn(named, are_named=True)
        # As they are fetched.
        self._named = [self._state.known.get(url_key(url), url) for url in named]
        self._partial: dict[str, Any] = {}

    async def go(self) -> None:
        """Run from the stored state to the end."""
        state = self._state
        try:
            for number, each in enumerate(state.rounds, 1):
                await self._reader.read(number, each["urls"], state, self._until)
            await self._note_partial()
            while True:
                if time.monotonic() >= self._until:
                    text = f"The agent run took longer than {counted(self._most_s, 'second')}."
                    raise RunStopped("timeout", text)
                if state.pending is None:
                    await self._choose()
                elif state.pending["action"] == choices.EXTRACT:
                    break
                else:
                    await self._act(state.pending["action"], state.pending["input"])
            await self._complete()
        except RunStopped as stop:
            if stop.reason == CREDIT_LIMIT:
                state.warn(self._operation.warning)  # that of a team with few credits
            result = state.result(
                self._reader.pages, **self._partial, stopReason=stop.reason
            )
            await self._operation.fail(str(stop), result)

    async def _note_partial(self) -> None:
        self._partial = await self._answer.partial(self._reader.pages)

    async def _advance(self, event: Mapping[str, Any] | None = None) -> None:
        """Store the state, and what the caller sees of it."""
        result = self._state.result(self._reader.pages, **self._partial)
        await self._operation.advance(result, event, agent=self._state.as_json())

    # -- choose ------------------------------------------------------------------------

    async def _choose(self) -> None:
        """Store the next action, or the end of a round without one."""
        state = self._state
        bounds = self._bounds
        if len(state.rounds) >= bounds.rounds or len(state.urls) >= bounds.pages:
            await self._begin(AgentChoice(choices.EXTRACT, {}))
            return
        try:
            choice = await self._next_choice()
        except ModelError as error:
            state.message = f"The language model chose no action ({error.reason})."
            state.warn(state.message)
            state.end_round(f"No action could be read: {error.reason}", no_action=NONE)
            await self._advance()
            await asyncio.sleep(MODEL_PAUSE_S * state.failures)
        except choices.ChoiceRefused as refusal:
            state.message = "An action of the language model was refused."
            state.end_round(str(refusal), no_action="refused")
            await self._advance()
        else:
            await self._begin(choice)

    async def _next_choice(self) -> AgentChoice:
        """Return an action that may be run.

        Raises :exc:`ModelError`, :exc:`ChoiceRefused` and :exc:`RunStopped`.
        """
        pages = self._reader.pages
        answer = await self._writer.choose(
            self._operation, self._state, pages, self._left(), self._until
        )
        self._state.tokens += answer.tokens
        choice = choices.read_choice(
            answer.value,
            self._state,
            is_strict=self._options.only_urls,
            has_pages=bool(pages),
        )
        price = self._price(choice)
        credits_left = self._budget - self._state.credits
        if price > credits_left:
            raise RunStopped(CREDIT_LIMIT, NO_CREDITS)
        if choice.action != choices.SCRAPE:
            return choice
        most = self._left()["most"]
        if price:
            most = min(most, int(credits_left // price))
        return await self._readable(choice, most)

    def _left(self) -> dict[str, int]:
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
            case choices.SEARCH:
                return self._prices.search(RESULTS)
            case choices.MAP:
                return self._prices.map
            case choices.SCRAPE:
                return self._prices.usual(priced_options(self._options))
        return 0

    async def _readable(self, choice: AgentChoice, most: int) -> AgentChoice:
        """Return the part of a scrape that robots.txt allows, at most ``most`` pages."""
        urls: Sequence[str] = choice.input["urls"]
        kept, refused = await self._reader.permitted(urls, self._named)
        self._state.warn(refused)
        if not kept:
            raise choices.ChoiceRefused(f"scrape was refused: {refused}")
        left_out = [choice.left_out, refused or ""]
        if len(kept) > most:
            left_out.append(f"{len(kept) - most} were left out, by the limits")
        told = "; ".join(filter(None, left_out))
        return AgentChoice(choices.SCRAPE, {"urls": kept[:most]}, told)

    async def _begin(self, choice: AgentChoice) -> None:
        """Store an action before it runs, and tell the webhook."""
        state = self._state
        given = dict(choice.input)
        state.pending = {"action": choice.action, "input": given}
        state.left_out = choice.left_out
        state.message = _message(choice)
        event = {"creditsUsed": state.credits, "action": choice.action, "input": given}
        await self._advance(event)

    # -- act ---------------------------------------------------------------------------

    async def _act(self, action: str, given: Mapping[str, Any]) -> None:
        """Run the pending action, and store its observation."""
        state, reader = self._state, self._reader
        urls: list[str] = []
        if action == choices.SEARCH:
            said = await reader.search(given["query"], state)
        elif action == choices.MAP:
            said = await reader.map(given["url"], state, self._until)
        else:
            urls = given["urls"]
            number = len(state.rounds) + 1
            said = await reader.scrape(number, urls, state, self._until)
            await self._note_partial()
        state.end_round("\n".join(filter(None, [state.left_out, said])), urls)
        if state.credits > self._budget:  # a PDF file costs more than a page
            raise RunStopped(CREDIT_LIMIT, NO_CREDITS)
        await self._advance()

    async def _complete(self) -> None:
        """Store the answer, and charge for the rounds."""
        state, pages = self._state, self._reader.pages
        if not pages:
            raise RunStopped("error", " ".join([NOTHING_READ, *state.warnings]))
        members = await self._answer.members(pages, state, self._until)
        state.message = "The run is complete."
        tokens = state.tokens + sum(page.tokens for page in pages)
        result = state.result(pages, **members)
        await self._operation.complete(
            result, len(pages), state.credits, tokens or None
        )


def _message(choice: AgentChoice) -> str:
    """Return a sentence about an action for the caller."""
    given = choice.input
    match choice.action:
        case choices.SEARCH:
            return f"Searching for {given['query']!r}."
        case choices.MAP:
            return f"Listing the pages of {given['url']}."
        case choices.SCRAPE:
            return f"Reading {counted(len(given['urls']), 'page')}."
    return "Writing the answer."
