"""The rounds of a run, each stored before the next, and what they do outside.

A run is that of an agent, or of deep research. It searches, maps, and reads pages in batches.
"""

from __future__ import annotations

import json
import logging
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.formats.llms_txt_and_agents import agent_pages
from scraper_service.discovery.map_results import rows_of, search_text
from scraper_service.errors import (
    NoConverter,
    QueueFull,
    ServiceError,
    ServiceUnavailable,
    plural,
)
from scraper_service.options.urls import host_of
from scraper_service.services.map_search import Sources
from scraper_service.services.model_jobs import agent_state
from scraper_service.services.model_jobs.agent_state import (
    MAPPED,
    RESULTS,
    AgentState,
    RunStopped,
    batches,
    is_url,
    url_key,
)
from scraper_service.services.model_jobs.agent_writer import AgentWriter
from scraper_service.storage.accounts.credits import Prices

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scraper_service.content.formats.llms_txt_and_agents import AgentPage
    from scraper_service.options.jobs import RunOptionsT
    from scraper_service.services.model_jobs.agent_state import AgentChoice, RunBounds
    from scraper_service.services.model_jobs.running_job import RunningJob


SHOWN_LINKS = 25  # of the pages of one round, for the model
MAX_NAMED = 5  # pages that could not be read, in one warning
MAX_REASON = 300  # characters
UNREADABLE = "its content cannot be read"

logger = logging.getLogger(__name__)


@frozen
class Found:
    """The result of a search or a map."""

    #: The observation for the model.
    observation: str
    #: Of a search, the best first.
    urls: tuple[str, ...] = ()
    price: int = 0


class PageReader:
    """Runs the actions of one run, and adds the URLs that they find to its state."""

    def __init__(self, job: RunningJob, sources: Sources, prices: Prices):
        self._job = job
        self._sources = sources
        self._prices = prices
        self._options: RunOptionsT = job.options
        self._words = search_text(self._options.prompt, self._options.schema)
        #: The pages that were read, in this order.
        self.pages: list[AgentPage] = []

    async def search(self, query: str, state: AgentState) -> Found:
        """Search the web."""
        state.searches += 1
        try:
            hits, warning = await self._sources.results(
                query, RESULTS, self._job.team_id
            )
        except (QueueFull, ServiceUnavailable):
            raise
        except ServiceError as error:
            state.warn(f"A search failed: {error}")
            text = f"The search failed: {error}"
            state.note("search", "error", text)
            return Found(text)
        state.warn(warning)
        price = self._prices.search(len(hits))
        hits = [hit for hit in hits if is_url(hit.url)]
        urls = tuple(hit.url for hit in hits)
        state.learn(urls)
        text = f"{plural(len(urls), 'result')} for {query!r}."
        state.note("search", "complete", text)
        lines = [
            f"- {hit.url} {hit.title[:150]}: {hit.description[:200]}" for hit in hits
        ]
        return Found("\n".join(lines) or "It found nothing.", urls, price)

    async def map(self, url: str, state: AgentState, until: float) -> Found:
        """List pages of a site."""
        found = await self._sources.site(
            url,
            self._job.team_id,
            self._options.scrape,
            until,
            limit=MAPPED,
            words=self._words,
        )
        if found.error is not None:
            reason = f"{found.error:.{MAX_REASON}}"
            state.warn(f"The pages of {url} could not be listed: {reason}")
            return Found(f"It could not be listed: {reason}")
        rows = [row for row in rows_of(found.slices) if is_url(row[0])]
        state.learn(row[0] for row in rows)
        lines = [f"- {row[0]} {(row[1] or '')[:100]}" for row in rows]
        observation = "\n".join(lines) or "It has no pages."
        return Found(observation, price=self._prices.map)

    async def scrape(
        self, number: int, urls: Sequence[str], state: AgentState, until: float
    ) -> str:
        """Read the pages of a round."""
        before = len(self.pages)
        lost = await self.read(number, urls, state, until)
        new = self.pages[before:]
        text = f"Read {len(new)} of {plural(len(urls), 'page')}."
        state.note("extract", "complete", text)
        lines = [text]
        lines += [f"- {url} could not be read: {reason}" for url, reason in lost]
        if lost:
            named = "; ".join(f"{url} ({reason})" for url, reason in lost[:MAX_NAMED])
            more = "; ..." if len(lost) > MAX_NAMED else ""
            count = f"{len(lost)} of {plural(len(urls), 'page')} could not be read"
            state.warn(f"{count}: {named}{more}")
        if not self._options.only_urls:
            lines += self._links(new, state)
        return "\n".join(lines)

    def _links(self, pages: Sequence[AgentPage], state: AgentState) -> list[str]:
        links = [url for url in in_turns([p.links for p in pages]) if is_url(url)]
        state.learn(links)
        read = {url_key(url) for url in state.urls}
        new = {url_key(url): url for url in links if url_key(url) not in read}
        shown = [f"- {url}" for url in list(new.values())[:SHOWN_LINKS]]
        return ["Links of them:", *shown] if shown else []

    async def read(
        self, number: int, urls: Sequence[str], state: AgentState, until: float
    ) -> list[tuple[str, str]]:
        """Add the pages of a round to :attr:`pages`; return the others, with reasons.

        Each of its batches is started once only, also after a crash.
        """
        steps = [
            await self._job.begin(f"round-{number}-{count}", batch)
            for count, batch in enumerate(batches(self._options, urls), 1)
        ]
        lost: list[tuple[str, str]] = []
        for step in steps:
            early = await self._job.wait_for_batch(step, until)
            lost += await self._read_step(step)
            if early is not None:
                state.warn(f"A round ended early: {early}.")
        return [(url, f"{reason:.{MAX_REASON}}") for url, reason in lost]

    async def _read_step(self, step: str) -> list[tuple[str, str]]:
        job = self._job
        lost = {f.number: (f.url, f.error) for f in await job.failures(step)}
        found: dict[int, AgentPage] = {}
        async for entries in job.entries(step):
            pages = await self._pages([entry.body for entry in entries])
            for entry, page in zip(entries, pages, strict=True):
                if page is None:
                    lost[entry.number] = _url_of(entry.body), UNREADABLE
                elif (error := self._error(page)) is None:
                    found[entry.number] = page
                else:
                    lost[entry.number] = page.url, error
        self.pages += [found[number] for number in sorted(found)]
        return [lost[number] for number in sorted(lost)]

    async def _pages(self, bodies: list[bytes]) -> list[AgentPage | None]:
        """Return what is kept of stored pages; None for a page that breaks its reader."""
        try:
            pages: list[AgentPage] = await self._job.in_pool(
                agent_pages, bodies, self._options.prompt, self._words
            )
        except (NoConverter, QueueFull, ServiceUnavailable):
            raise
        except Exception:  # the other pages of the run are still good
            if len(bodies) == 1:
                logger.exception("a page of the run %s is left out", self._job.id)
                return [None]
            return [page for body in bodies for page in await self._pages([body])]
        return [*pages]

    def _error(self, page: AgentPage) -> str | None:
        """Return why a page has no usable content, None if it has some."""
        # A stored page may come from another host.
        if self._options.only_urls and host_of(page.final_url) != host_of(page.url):
            return "it leads to another site"
        return page.error


def _url_of(body: bytes) -> str:
    return str(json.loads(body)["metadata"]["sourceURL"])


def in_turns(lists: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the first URL of each list, then the second ones, and so on."""
    for index in range(max(map(len, lists), default=0)):
        for urls in lists:
            if index < len(urls):
                yield urls[index]


# -- rounds ----------------------------------------------------------------------------

NOTHING_READ = "No page about it could be found and read."
#: The kinds of activities, by action.
_ACTIVITIES = {agent_state.SCRAPE: "extract", agent_state.EXTRACT: "synthesis"}


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

    def __init__(self, job: RunningJob, tools: RunTools, bounds: RunBounds):
        self._job = job
        self._tools = tools
        self._reader = PageReader(job, tools.sources, tools.prices)
        self._bounds = bounds
        self._state = AgentState.of(job.memory)

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
                elif state.pending["action"] == agent_state.EXTRACT:
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
        await self._job.fail(str(stop))

    # -- what they share -----------------------------------------------------------------

    async def _advance(self, event: Mapping[str, Any] | None = None) -> None:
        """Store the state, and what the caller sees of it."""
        result = await self._so_far()
        await self._job.advance(result, event, agent=self._state.as_json())

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
        if action == agent_state.SCRAPE:
            urls, before = given["urls"], len(reader.pages)
            number = len(state.rounds) + 1
            observation = await reader.scrape(number, urls, state, self._bounds.until)
            state.credits += sum(map(self._page_price, reader.pages[before:]))
        else:
            observation, following = await self._look(action, given)
        state.end_round("\n".join(filter(None, [state.left_out, observation])), urls)
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
        await self._job.complete(result, len(pages), state.credits, tokens or None)


def _message(choice: AgentChoice) -> str:
    """Return a sentence about an action for the caller."""
    given = choice.input
    match choice.action:
        case agent_state.SEARCH:
            queries = given.get("queries") or [given["query"]]
            return f"Searching for {', '.join(map(repr, queries))}."
        case agent_state.MAP:
            return f"Listing the pages of {given['url']}."
        case agent_state.SCRAPE:
            return f"Reading {plural(len(given['urls']), 'page')}."
    return "Writing the answer."
