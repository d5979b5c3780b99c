"""The verbs that the API calls; no HTTP, no version."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from scraper_service.crawling.change_tracking import Changes
from scraper_service.crawling.pricing import Prices
from scraper_service.errors import (
    IdempotencyKeyUsed,
    JobNotFound,
    OptionUnavailable,
    ServiceError,
    ServiceUnavailable,
)
from scraper_service.options.available import require_available, require_job_available
from scraper_service.options.model import missing_model
from scraper_service.options.uploads import require_parseable
from scraper_service.services.billing import Charge, Charges
from scraper_service.services.capabilities import capabilities
from scraper_service.services.crawl_preview import Previews
from scraper_service.services.jobs import Jobs
from scraper_service.services.scope_explanation import explain
from scraper_service.services.scraping import Scrapes
from scraper_service.services.searching import ResultPages
from scraper_service.services.usage import Usage
from scraper_service.storage import admission, jobs, sessions
from scraper_service.storage.accounts.credits import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scraper_service.crawling.download.engines import Engines
    from scraper_service.crawling.robots import RobotsPolicy
    from scraper_service.discovery.crawl_prompt import Derived
    from scraper_service.discovery.map_results import ShapeT
    from scraper_service.items import Page, Upload
    from scraper_service.options.jobs import (
        BatchOptions,
        CrawlOptions,
        MapOptions,
        PageOptions,
    )
    from scraper_service.options.scrape import ScrapeOptions
    from scraper_service.options.search import SearchOptions
    from scraper_service.search_engines.searches import Searches
    from scraper_service.services.accounts import Team
    from scraper_service.services.crawl_preview import CheckT
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.services.mapping import Map, MapCrawler
    from scraper_service.services.resident_crawler import ResidentCrawler
    from scraper_service.services.scope_explanation import Explanation
    from scraper_service.services.searching import SearchAnswer
    from scraper_service.services.webhooks import Webhooks
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Job
    from scraper_service.storage.sessions import SessionRow


def _call(
    team: Team,
    endpoint: str,
    version: int,
    target: str | None,
    call_id: str | None = None,
) -> Call:
    call_id, now = call_id or str(uuid.uuid4()), time.time()
    return Call(call_id, team.id, team.key_id, endpoint, version, target, now)


class ScraperService:
    """What the service does, for a team at a time.

    While :attr:`stopping` is set nothing is begun:
    :exc:`~scraper_service.errors.ServiceUnavailable`. :attr:`jobs` tells of what was
    begun.
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
        self.searches = searches
        self.stopping = False
        self.prices = Prices(runner.settings)
        self.charges = Charges(database, runner.owner)
        self.jobs = Jobs(database, runner, webhooks)
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
            body = await self._database.read(jobs.read_scrape, scrape_id, team.id)
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

    async def answer_search(
        self, options: SearchOptions, team: Team, version: int
    ) -> SearchAnswer:
        """Return what a caller searched for, with the pages asked for; it is charged.

        Raises :exc:`OptionUnavailable`, :exc:`~scraper_service.errors.OutOfCredits` and
        what :meth:`Searches.find` raises.
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

        Raises :exc:`JobNotFound` where the team has no such batch,
        :exc:`~scraper_service.errors.JobEnded` for one that was cancelled or has
        failed, and what :meth:`start` raises.
        """
        self._check_open()
        self._require_job(options)
        terms = self._terms(options, team)
        job = await self._database.write_aside(
            admission.add_entries, team.id, job_id, terms, options, idempotency_key
        )
        if isinstance(job, ServiceError):
            raise job
        self.runner.wake()
        return job

    async def explain(
        self, options: CrawlOptions, urls: Sequence[str], depth: int
    ) -> list[Explanation]:
        """Tell of addresses whether a crawl would fetch them; see :func:`explain`."""
        self._require_job(options)
        return await explain(options, urls, depth, self._robots)

    async def sessions(self, team: Team) -> list[SessionRow]:
        """Return the sessions of a team, by name."""
        return await self._database.read(sessions.list_sessions, team.id)

    async def delete_session(self, name: str, team: Team) -> None:
        """Delete a session; raise :exc:`JobNotFound` if there is none of the name."""
        if not await self._database.write(sessions.delete_session, team.id, name):
            raise JobNotFound("Session not found")
