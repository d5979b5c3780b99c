"""The verbs that the API calls; no HTTP, no version."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.components.changes import Changes
from scraper_service.components.prices import Prices
from scraper_service.errors import (
    IdempotencyKeyUsed,
    JobEnded,
    JobNotFound,
    OptionUnavailable,
    ServiceError,
    ServiceUnavailable,
)
from scraper_service.formats.sitemap_places import first_scope
from scraper_service.jobs import admission, deliveries, listing, sessions, store
from scraper_service.jobs.ledger import Call
from scraper_service.jobs.model import JobState
from scraper_service.jobs.report import read_report
from scraper_service.options.available import require_available, require_job_available
from scraper_service.options.model import missing_model
from scraper_service.options.uploads import require_parseable
from scraper_service.providers.searches import options_for
from scraper_service.runtime.capabilities import capabilities
from scraper_service.runtime.charges import Charge, Charges
from scraper_service.runtime.previews import Previews
from scraper_service.runtime.report import Report
from scraper_service.runtime.scrapes import Scrapes
from scraper_service.runtime.search_pages import ResultPages
from scraper_service.runtime.usage import Usage
from scraper_service.scope import Reason, Refusal, followed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from scraper_service.components.engines import Engines
    from scraper_service.components.robots import RobotsPolicy
    from scraper_service.formats.map_rows import ShapeT
    from scraper_service.items import Page, Upload
    from scraper_service.jobs.database import Database
    from scraper_service.jobs.listing import Address, Cursor
    from scraper_service.jobs.model import (
        Delivery,
        DeliveryState,
        Job,
        PageErrorRow,
        RowState,
    )
    from scraper_service.jobs.sessions import SessionRow
    from scraper_service.options.jobs import (
        BatchOptions,
        CrawlOptions,
        MapOptions,
        PageOptions,
    )
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.options.search import SearchOptions
    from scraper_service.providers.searches import Found, Searches
    from scraper_service.runtime.accounts import Team
    from scraper_service.runtime.maps import Map, MapCrawler
    from scraper_service.runtime.previews import CheckT
    from scraper_service.runtime.resident import ResidentCrawler
    from scraper_service.runtime.runner import JobRunner
    from scraper_service.runtime.search_pages import SearchAnswer
    from scraper_service.runtime.webhooks import Webhooks
    from scraper_service.wishes import Derived


def _call(
    team: Team,
    endpoint: str,
    version: int,
    target: str | None,
    call_id: str | None = None,
) -> Call:
    call_id, now = call_id or str(uuid.uuid4()), time.time()
    return Call(call_id, team.id, team.key_id, endpoint, version, target, now)


@frozen
class Explanation:
    """Whether a crawl would fetch ``url``; ``refusal`` is None if it would.

    ``robots`` is ``allowed``, ``refused``, ``unknown`` or None where nobody asks.
    """

    url: str
    refusal: Refusal | None = None
    robots: str | None = None


def explained(
    options: CrawlOptions, urls: Sequence[str], depth: int
) -> list[Explanation]:
    """Apply the rules of a crawl that need nothing but the address."""
    scope = first_scope(options)
    found = []
    for url in urls:
        address = followed(url)
        found.append(Explanation(address, scope.refusal(address, depth)))
    return found


class ScraperService:
    """What the service does, for a team at a time.

    While :attr:`stopping` is set nothing is begun:
    :exc:`~scraper_service.errors.ServiceUnavailable`. A job that is not the team's, or
    has expired, is a :exc:`~scraper_service.errors.JobNotFound`.
    """

    def __init__(
        self,
        resident: ResidentCrawler,
        maps: MapCrawler,
        runner: JobRunner,
        database: Database,
        serialize: Callable[[Page], bytes],
        robots: RobotsPolicy,
        webhooks: Webhooks,
        engines: Engines,
        searches: Searches,
    ):
        self.resident = resident
        self.maps = maps
        self.runner = runner
        self.webhooks = webhooks
        self.searches = searches
        self.stopping = False
        self.prices = Prices(runner.settings)
        self.charges = Charges(database, runner.owner)
        self.previews = Previews(maps, runner.settings)
        self.scrapes = Scrapes(resident, runner.settings)
        self.usage = Usage(database, self.scrapes, runner.settings)
        self._database = database
        self._changes = Changes(runner.settings)
        self._serialize = serialize
        self._robots = robots
        self._engines = engines
        self._no_model = missing_model(runner.settings)
        self._most_jobs = runner.settings.getint("MAX_ACTIVE_JOBS")
        self._webhook_url: str | None = runner.settings["WEBHOOK_URL"] or None

    def capabilities(self) -> dict[str, Any]:
        """Return what this installation can do, and why it cannot do the rest."""
        return capabilities(self.runner.settings, self._engines, self.searches)

    def _check_open(self) -> None:
        if self.stopping:
            raise ServiceUnavailable("The service is stopping.")

    def _require(self, options: ScrapeOptions) -> None:
        require_available(options, self._engines.missing, self._no_model)

    def _require_job(self, options: CrawlOptions | BatchOptions) -> None:
        require_job_available(options, self._engines.missing, self._no_model)

    async def scrape(self, options: PageOptions, team: Team, version: int) -> Page:
        """Return one page, fetched or failed; it is charged and stored.

        Raises :exc:`~scraper_service.errors.OptionUnavailable`,
        :exc:`~scraper_service.errors.OutOfCredits` and what :meth:`Scrapes.fetch`
        raises.
        """
        self._check_open()
        self._require(options.scrape)
        return await self._scrape(options, team, version)

    async def parse(
        self, upload: Upload, options: PageOptions, team: Team, version: int
    ) -> Page:
        """Return the page of a file that a caller sent; its address is the name.

        Charged and stored as a scrape. Raises what :meth:`scrape` raises.
        """
        self._check_open()
        require_parseable(options.scrape)
        self._require(options.scrape)
        return await self._scrape(options, team, version, upload=upload)

    async def _scrape(
        self,
        options: PageOptions,
        team: Team,
        version: int,
        scrape_id: str | None = None,
        upload: Upload | None = None,
    ) -> Page:
        """Fetch, charge and store one page; ``scrape_id`` is its id, None for a new one."""
        asked = options.scrape
        target = None if asked.zero_data_retention else options.url
        endpoint = "scrape" if upload is None else "parse"
        call = _call(team, endpoint, version, target, scrape_id)
        async with self.charges.call(call, team, self.prices.usual(asked)) as charge:
            page = await self.scrapes.fetch(options, team, call.id, upload)
            return await self._settled(page, charge, is_kept=target is not None)

    async def _settled(self, page: Page, charge: Charge, *, is_kept: bool) -> Page:
        """Charge and store a page; a tracked one together with its snapshot.

        While another one of the same address comes before it, it is compared anew.
        """
        price = page.metadata.credits_used
        while True:
            keeps = is_kept and page.failure is None
            body = self._serialize(page) if keeps else None
            snapshot = page.tracked and page.tracked.snapshot
            if not snapshot:
                await charge.settle(price, body)
                return page
            if await charge.settle_tracked(price, body, snapshot):
                return page
            page = await self._changes.compared(page)

    async def stored_scrape(self, scrape_id: str, team: Team) -> bytes:
        """Return the JSON of a page that was scraped in the last day."""
        body = self.charges.stored(scrape_id, team.id)
        if body is None:
            body = await self._database.read(store.read_scrape, scrape_id, team.id)
        if body is None:
            raise JobNotFound("Job not found.")
        return body

    async def map(
        self, options: MapOptions, team: Team, version: int, shape: ShapeT
    ) -> Map:
        """Return the addresses of a site, as ``shape`` makes them; see there.

        Raises :exc:`~scraper_service.errors.OptionUnavailable`,
        :exc:`~scraper_service.errors.OutOfCredits` and what :meth:`MapCrawler.find`
        raises.
        """
        self._check_open()
        self._require(options.scrape)
        call, price = _call(team, "map", version, options.url), self.prices.map
        async with self.charges.call(call, team, price) as charge:
            found = await self.maps.find(options, team.id, call.id, shape)
            await charge.settle(price if found.count else 0)
        return found

    async def search(
        self,
        query: str,
        team: Team,
        *,
        limit: int = 5,
        sources: Sequence[str] = ("web",),
        timeout_s: float = 60,
        include_domains: Sequence[str] = (),
    ) -> Found:
        """Return results for a part of the service that charges its work itself.

        ``limit`` (1 to 100) counts those of each of ``sources`` (``web``, ``news``,
        ``images``): ``found.groups["web"][0].url``. Raises
        :exc:`~scraper_service.errors.SearchDown`,
        :exc:`~scraper_service.errors.SearchTimedOut` and
        :exc:`~scraper_service.errors.QueueFull`.
        """
        options = options_for(query, limit, sources, timeout_s, include_domains)
        return await self.searches.find(options, team.id)

    async def answer_search(
        self, options: SearchOptions, team: Team, version: int
    ) -> SearchAnswer:
        """Return what a caller searched for, with the pages asked for; it is charged.

        Raises :exc:`OptionUnavailable`, :exc:`~scraper_service.errors.OutOfCredits` and
        what :meth:`search` raises.
        """
        self._check_open()
        asked = options.scrape
        if asked is not None:
            try:
                self._require(asked)
            except OptionUnavailable as error:
                error.nested = True
                raise
        deadline = time.monotonic() + options.timeout_ms / 1000
        call = _call(team, "search", version, options.query)
        most = self.prices.search(options.limit * len(options.sources))
        async with self.charges.call(call, team, most) as charge:
            found = await self.searches.find(options, team.id)
            price = self.prices.search(found.count)
            await charge.settle(price)
        pages = ResultPages(self._scrape, options, team, version, deadline)
        return await pages.answer(call.id, found, price)

    async def preview(
        self, url: str, prompt: str, team: Team, check: CheckT
    ) -> Derived:
        """Return the options of a crawl that a prompt asks for; nothing is crawled.

        ``check`` raises :exc:`~scraper_service.errors.InvalidOptions` for those that
        no caller could ask for.
        """
        self._check_open()
        return await self.previews.derive(url, prompt, team, check)

    async def start(
        self,
        options: CrawlOptions | BatchOptions,
        team: Team,
        version: int,
        idempotency_key: str | None = None,
        least_pages: int = 1,
    ) -> Job:
        """Store a job and have it run; it is on disk when this returns.

        ``least_pages`` is how many pages its team has to be able to pay. Raises
        :exc:`OptionUnavailable`, :exc:`IdempotencyKeyUsed`,
        :exc:`~scraper_service.errors.OutOfCredits` and
        :exc:`~scraper_service.errors.QueueFull`.
        """
        self._check_open()
        self._require_job(options)
        terms = self._terms(options, team, least_pages)
        job = await self._database.write_first(
            admission.create_job, team.id, terms, options, version, idempotency_key
        )
        if isinstance(job, ServiceError):
            raise job
        self.scrapes.places.limit_to(team.id, team.concurrency)
        self.runner.wake()
        return job

    def _terms(
        self, options: CrawlOptions | BatchOptions, team: Team, least_pages: int = 1
    ) -> admission.Terms:
        price = None if team.is_unlimited else self.prices.usual(options.scrape)
        return admission.Terms(
            team_id=team.id,
            key_id=team.key_id,
            page_price=price,
            least_pages=least_pages,
            most_jobs=self._most_jobs,
            webhook_url=self._webhook_url,
        )

    async def check_key(self, idempotency_key: str | None, team: Team) -> None:
        """Raise :exc:`IdempotencyKeyUsed` if a team used a key before."""
        if idempotency_key is None:
            return
        used = await self._database.read(
            admission.is_key_used, team.id, idempotency_key
        )
        if used:
            raise IdempotencyKeyUsed("Idempotency key already used")

    async def add_to_batch(
        self,
        job_id: str,
        options: BatchOptions,
        team: Team,
        idempotency_key: str | None = None,
    ) -> Job:
        """Add entries to a batch, with options of their own; a completed one goes on.

        Raises :exc:`JobEnded` for one that was cancelled or has failed, and what
        :meth:`start` raises.
        """
        self._check_open()
        self._require_job(options)
        terms = self._terms(options, team)
        job = await self._database.write_apart(
            admission.add_entries, job_id, terms, options, idempotency_key
        )
        if isinstance(job, ServiceError):
            raise job
        self.runner.wake()
        return job

    async def status(
        self, job_id: str, team: Team, skip: int, limit: int | None
    ) -> tuple[Job, list[bytes]]:
        """Return a job and a chunk of its pages, as JSON, of one moment."""

        def read(connection: Connection) -> tuple[Job, list[bytes]] | None:
            job = store.get_job(connection, job_id, team.id)
            if job is None:
                return None
            return job, store.read_pages(connection, job_id, skip, limit)

        found = await self._database.read(read)
        if found is None:
            raise JobNotFound("Job not found")
        return found

    async def cancel(self, job_id: str, team: Team) -> Job:
        """Cancel a job that goes on; a cancelled one stays so.

        Raises :exc:`JobEnded` for one that is completed or has failed.
        """
        job = await self._job(job_id, team)
        if job.is_active:
            await self._database.write_locking(
                store.end_job, job_id, JobState.CANCELLED
            )
            await self.runner.cancel(job_id)
            job = await self._job(job_id, team)
        if job.state is not JobState.CANCELLED:
            raise JobEnded(job.kind, job.state)
        return job

    async def errors(
        self,
        job_id: str,
        team: Team,
        shape: Callable[[list[PageErrorRow], list[str]], bytes],
    ) -> bytes:
        """Return what ``shape`` makes of the pages of a job that failed.

        And of the addresses that robots.txt refused; it runs in a reader thread, as
        they may be many.
        """

        def read(connection: Connection) -> bytes:
            failed = listing.read_errors(connection, job_id)
            return shape(failed, listing.read_robots_blocked(connection, job_id))

        await self._job(job_id, team)
        return await self._database.read(read)

    async def addresses(
        self,
        job_id: str,
        team: Team,
        state: RowState | None,
        reason: str | None,
        after: Cursor | None,
        limit: int,
    ) -> tuple[list[Address], Cursor | None]:
        """Return addresses of a job, with what became of them; and where to go on."""
        await self._job(job_id, team)
        return await self._database.read(
            listing.read_addresses,
            job_id,
            state=state,
            reason=reason,
            after=after,
            limit=limit,
        )

    async def report(
        self, job_id: str, team: Team, shape: Callable[[Report], bytes]
    ) -> bytes:
        """Return what ``shape`` makes of the report of a job; it runs in a thread."""
        await self._job(job_id, team)
        await self.runner.store_counts(job_id)
        facts = await self._database.read(read_report, job_id, team.id)
        if facts is None:
            raise JobNotFound("Job not found")
        report = Report.within(self.runner.settings, facts)
        return await asyncio.to_thread(shape, report)

    async def deliveries(
        self,
        job_id: str,
        team: Team,
        state: DeliveryState | None,
        after: int,
        limit: int,
    ) -> tuple[Job, list[Delivery], int | None]:
        """Return events for the webhook of a job, and the number to go on behind."""
        job = await self._job(job_id, team)
        found, behind = await self._database.read(
            listing.read_deliveries, job_id, state=state, after=after, limit=limit
        )
        return job, found, behind

    async def replay(self, job_id: str, team: Team, number: int | None = None) -> int:
        """Send an event of a job again, or all that were given up; tell how many.

        Raises :exc:`JobNotFound` for a number that no event has.
        """
        await self._job(job_id, team)
        count = await self._database.write_locking(deliveries.replay, job_id, number)
        if number is not None and not count:
            raise JobNotFound("Delivery not found")
        self.webhooks.wake()
        return count

    async def explain(
        self, options: CrawlOptions, urls: Sequence[str], depth: int
    ) -> list[Explanation]:
        """Tell of addresses whether a crawl would fetch them, without fetching any.

        ``depth`` is the number of links that each is away from the start. Only those
        robots.txt are looked at that are known already.
        """
        self._require_job(options)
        found = await asyncio.to_thread(explained, options, urls, depth)
        if options.ignore_robots_txt:
            return found
        return [self._with_robots(each, options) for each in found]

    def _with_robots(self, found: Explanation, options: CrawlOptions) -> Explanation:
        if found.refusal is not None:
            return found
        if (rules := self._robots.known(found.url)) is None:
            return evolve(found, robots="unknown")
        agents = self._robots.agents(options.robots_user_agent)
        if rule := rules.refusal(found.url, agents):
            return evolve(found, robots="refused", refusal=Refusal(Reason.ROBOTS, rule))
        return evolve(found, robots="allowed")

    async def sessions(self, team: Team) -> list[SessionRow]:
        """Return the sessions of a team, by name."""
        return await self._database.read(sessions.list_sessions, team.id)

    async def delete_session(self, name: str, team: Team) -> None:
        """Delete a session; raise :exc:`JobNotFound` if there is none of the name."""
        if not await self._database.write(sessions.delete_session, team.id, name):
            raise JobNotFound("Session not found")

    async def active_crawls(self, team: Team) -> list[Job]:
        """Return the crawls of a team that go on, the oldest first."""
        jobs = await self._database.read(store.active_jobs, team.id)
        return [job for job in jobs if job.kind == "crawl"]

    async def _job(self, job_id: str, team: Team) -> Job:
        job = await self._database.read(store.get_job, job_id, team.id)
        if job is None:
            raise JobNotFound("Job not found")
        return job
