"""The rounds of a run, each stored before the next: of an agent, or of deep research."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.errors import plural
from scraper_service.services.kinds.agent import choices
from scraper_service.services.kinds.agent.agent_writer import AgentWriter
from scraper_service.services.kinds.agent.choices import RunStopped
from scraper_service.services.kinds.agent.page_reader import PageReader
from scraper_service.services.kinds.agent.run_state import AgentState
from scraper_service.services.kinds.sources import Sources
from scraper_service.storage.accounts.credits import Prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.content.formats.agent_pages import AgentPage
    from scraper_service.services.kinds.agent.choices import AgentChoice, RunBounds
    from scraper_service.services.kinds.operations import Operation

NOTHING_READ = "No page about it could be found and read."
#: The kinds of activities, by action.
_ACTIVITIES = {choices.SCRAPE: "extract", choices.EXTRACT: "synthesis"}


@frozen
class RunTools:
    """What the runs of a process share."""

    sources: Sources
    prices: Prices
    writer: AgentWriter
    #: The most seconds of a run.
    most_s: int


class ModelRun(ABC):
    """A run in which a language model chooses. Its subclasses are the kinds of runs.

    A round has three writes: the choice of an action, what the action found, and the
    batches of pages between them, whose ids follow from the number of the round. So a
    process that continues the run repeats at most one question to the model, one search
    or map.
    """

    def __init__(self, operation: Operation, tools: RunTools, bounds: RunBounds):
        self._operation = operation
        self._tools = tools
        self._reader = PageReader(operation, tools.sources, tools.prices)
        self._bounds = bounds
        self._state = AgentState.of(operation.memory)

    async def go(self) -> None:
        """Run from the stored state to the end."""
        state, bounds = self._state, self._bounds
        try:
            for number, each in enumerate(state.rounds, 1):
                await self._reader.read(number, each["urls"], state, bounds.until)
            while True:
                if bounds.late and time.monotonic() >= bounds.until:
                    raise RunStopped("timeout", bounds.late)
                if state.pending is None:
                    await self._choose()
                elif state.pending["action"] == choices.EXTRACT:
                    break
                else:
                    await self._act(state.pending["action"], state.pending["input"])
            await self._complete()
        except RunStopped as stop:
            await self._fail(stop)

    # -- what the kinds of runs differ in ------------------------------------------------

    @abstractmethod
    async def _choose(self) -> None:
        """Begin the next action, or end a round without one."""

    @abstractmethod
    async def _look(
        self, action: str, given: Mapping[str, Any]
    ) -> tuple[str, AgentChoice | None]:
        """Search or map. Return the observation, and the next action if it is known."""

    @abstractmethod
    def _page_price(self, page: AgentPage) -> int:
        """Return the price of a page that was read."""

    @abstractmethod
    async def _so_far(self) -> bytes:
        """Return the members of the response while the run goes on."""

    @abstractmethod
    async def _write_answer(self) -> bytes:
        """Write the answer. Return the members of the response."""

    async def _fail(self, stop: RunStopped) -> None:
        await self._operation.fail(str(stop))

    # -- what they share -----------------------------------------------------------------

    async def _advance(self, event: Mapping[str, Any] | None = None) -> None:
        """Store the state, and what the caller sees of it."""
        result = await self._so_far()
        await self._operation.advance(result, event, agent=self._state.as_json())

    async def _begin(self, choice: AgentChoice) -> None:
        """Store an action before it runs, and tell the webhook."""
        state = self._state
        given = dict(choice.input)
        state.pending = {"action": choice.action, "input": given}
        state.left_out = choice.left_out
        kind = _ACTIVITIES.get(choice.action, choice.action)
        state.note(kind, "processing", _message(choice))
        event = {"creditsUsed": state.credits, "action": choice.action, "input": given}
        await self._advance(event)

    async def _act(self, action: str, given: Mapping[str, Any]) -> None:
        """Run the pending action, and store its observation."""
        state, reader = self._state, self._reader
        urls: list[str] = []
        following = None
        if action == choices.SCRAPE:
            urls, before = given["urls"], len(reader.pages)
            number = len(state.rounds) + 1
            said = await reader.scrape(number, urls, state, self._bounds.until)
            state.credits += sum(map(self._page_price, reader.pages[before:]))
        else:
            said, following = await self._look(action, given)
        state.end_round("\n".join(filter(None, [state.left_out, said])), urls)
        if following is None:
            await self._advance()
        else:
            await self._begin(following)

    async def _complete(self) -> None:
        """Store the answer, and charge for the rounds."""
        state, pages = self._state, self._reader.pages
        if not pages:
            raise RunStopped("error", " ".join([NOTHING_READ, *state.warnings]))
        result = await self._write_answer()
        tokens = state.tokens + sum(page.tokens for page in pages)
        await self._operation.complete(
            result, len(pages), state.credits, tokens or None
        )


def _message(choice: AgentChoice) -> str:
    """Return a sentence about an action for the caller."""
    given = choice.input
    match choice.action:
        case choices.SEARCH:
            queries = given.get("queries") or [given["query"]]
            return f"Searching for {', '.join(map(repr, queries))}."
        case choices.MAP:
            return f"Listing the pages of {given['url']}."
        case choices.SCRAPE:
            return f"Reading {plural(len(given['urls']), 'page')}."
    return "Writing the answer."
