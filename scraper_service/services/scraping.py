"""Calls that return pages, links or search results at once, and what a team has used."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from scraper_service.crawling.pipelines.change_tracking import Changes
from scraper_service.crawling.politeness.shared_limit import TeamPermits
from scraper_service.errors import (
    InvalidOptions,
    JobNotFound,
    OptionUnavailable,
    QueueFull,
    ReplayUnavailable,
    plural,
)
from scraper_service.items import Page
from scraper_service.options.catalogue import USUAL_PAGE
from scraper_service.options.jobs import PageOptions, structure, unstructure
from scraper_service.options.limits import Retention, require_parseable, under_policy
from scraper_service.options.scrape import ScrapeOptions
from scraper_service.search_engines.web_search import Searches
from scraper_service.services.accounts import Charges, DiskQuota, existing
from scraper_service.services.capabilities import Availability
from scraper_service.services.map_search import MapCrawler, ResultPages
from scraper_service.services.resident_crawler import failed_page
from scraper_service.storage.accounts import audit, sessions, usage
from scraper_service.storage.accounts.credits import Call, Prices, store_answer
from scraper_service.storage.database import Database
from scraper_service.storage.job_secrets import read_replay
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from scraper_service.discovery.map_results import ShapeT
    from scraper_service.items import Upload
    from scraper_service.options.map_search import MapOptions, SearchOptions
    from scraper_service.services.accounts import Charge, Team
    from scraper_service.services.map_search import Map, SearchAnswer
    from scraper_service.services.resident_crawler import ResidentCrawler
    from scraper_service.storage.accounts.audit import AuditEntry
    from scraper_service.storage.accounts.sessions import SessionRow
    from scraper_service.storage.accounts.usage import Balance, Used
    from scraper_service.storage.transactions import ListPosition


OWNER = "scrape"  # in the queue of a team, all its scrapes together rank as one job


class Scrapes:
    """Fetches single pages within the concurrency limit of each team."""

    def __init__(self, resident: ResidentCrawler, settings: BaseSettings):
        self.permits = TeamPermits.shared()
        self._resident = resident
        self._most = settings.getint("MAX_QUEUED_SCRAPES")
        self._under_way: Counter[str] = Counter()

    def under_way(self, team_id: str) -> int:
        """Return the number of a team's running scrapes in this process."""
        return self._under_way[team_id]

    def waiting(self, team_id: str) -> int:
        """Return the number of a team's scrapes that wait for a permit."""
        return self.permits.waiting(team_id, OWNER)

    async def fetch(
        self,
        options: PageOptions,
        team: Team,
        scrape_id: str,
        upload: Upload | None = None,
    ) -> Page:
        """Return the page, fetched or failed, by its deadline.

        Raises :exc:`QueueFull` if ``MAX_QUEUED_SCRAPES`` scrapes of the team wait, and
        the errors of :meth:`ResidentCrawler.fetch`.
        """
        began = time.monotonic()
        deadline = began + options.scrape.deadline_ms / 1000
        self.permits.limit_to(team.id, team.concurrency)
        queued_s = None
        if not self.permits.enter(team.id):
            if self.waiting(team.id) - self.permits.free(team.id) >= self._most:
                raise QueueFull(
                    f"This team has {plural(self._most, 'scrape')} waiting already."
                )
            try:
                async with asyncio.timeout(deadline - began):
                    is_late = await self.permits.wait(team.id, OWNER)
            except TimeoutError:
                message = (
                    "The page waited until its timeout: the team had as many under way"
                    " as it may have. A longer timeout may help."
                )
                code = "CONCURRENCY_QUEUE_TIMEOUT"
                return failed_page(options, scrape_id, code, message)
            queued_s = time.monotonic() - began if is_late else None
        self._under_way[team.id] += 1
        try:
            return await self._resident.fetch(
                options,
                team.id,
                scrape_id,
                deadline,
                queued_s,
                team.key_id or team.id,
                upload,
            )
        finally:
            self._under_way -= Counter({team.id: 1})  # drops teams with no scrape left
            self.permits.leave(team.id)


@frozen(eq=False)
class Scraping:
    """The verbs scrape, parse, map and search, for a team at a time.

    Each checks the options, reserves credits, does its work and charges for it.
    ``serialize`` returns the JSON of a page that is stored. With ``keeps_replays`` a
    browser session can go on with the page.
    """

    _scrapes: Scrapes
    _maps: MapCrawler
    _searches: Searches
    _database: Database
    _charges: Charges
    _prices: Prices
    _availability: Availability
    _changes: Changes
    _serialize: Callable[[Page], bytes]
    _retention: Retention
    _keeps_replays: bool

    async def scrape(self, options: PageOptions, team: Team, version: int) -> Page:
        """Return one page, fetched or failed. It is charged and stored.

        Raises :exc:`~scraper_service.errors.OptionUnavailable`,
        :exc:`~scraper_service.errors.DiskQuotaExceeded`,
        :exc:`~scraper_service.errors.OutOfCredits` and the errors of
        :meth:`Scrapes.fetch`.
        """
        options = under_policy(options, team.site_policy)
        self._availability.check_open()
        self._availability.require(options.scrape)
        return await self._scrape(options, team, version)

    async def parse(
        self, upload: Upload, options: PageOptions, team: Team, version: int
    ) -> Page:
        """Return the page of an uploaded file. Its URL is the name of the file.

        It is charged and stored like a scrape. Raises the errors of :meth:`scrape`.
        """
        self.check_parse(options)
        return await self._scrape(options, team, version, upload=upload)

    def check_parse(self, options: PageOptions) -> None:
        """Raise the errors of :meth:`parse` that follow from the options alone."""
        self._availability.check_open()
        require_parseable(options.scrape)
        self._availability.require(options.scrape)

    async def _scrape(
        self,
        options: PageOptions,
        team: Team,
        version: int,
        scrape_id: str | None = None,
        upload: Upload | None = None,
    ) -> Page:
        """Fetch, charge and store one page. Without ``scrape_id`` it gets a new id."""
        scrape = options.scrape
        target = None if scrape.zero_data_retention else options.url
        endpoint = "scrape" if upload is None else "parse"
        is_zero = scrape.zero_data_retention
        if not is_zero:
            await self._charges.disk.require(team)
        retention_s = self._retention.seconds(options.retention_days, is_zero=is_zero)
        call = _call(
            team, endpoint, version, target, options.origin, retention_s, scrape_id
        )
        if self._keeps_replays and upload is None and target is not None:
            call = evolve(call, replay=_replay_to_json(options))
        async with self._charges.call(call, team, self._prices.usual(scrape)) as charge:
            page = await self._scrapes.fetch(options, team, call.id, upload)
            return await self._settle_page(page, charge, is_kept=target is not None)

    async def _settle_page(self, page: Page, charge: Charge, *, is_kept: bool) -> Page:
        """Charge and store a page. With change tracking, also store its snapshot.

        If another snapshot of the URL was stored meanwhile, compare the page again.
        """
        price = page.metadata.credits_used
        charge.note_failure(page.failure)
        while True:
            keeps = is_kept and page.failure is None
            body = partial(self._serialize, page.whole) if keeps else None
            snapshot = page.tracked and page.tracked.snapshot
            if not snapshot:
                await charge.settle(price, body)
                return page
            if await charge.settle_tracked(price, body() if body else None, snapshot):
                return page
            page = await self._changes.compare(page)

    async def stored_scrape(self, scrape_id: str, team: Team) -> bytes:
        """Return the JSON of a page of a scrape, as long as it is stored."""
        body = self._charges.find_pending(scrape_id, team.id)
        if body is None:
            body = await Jobs(self._database).read_scrape(scrape_id, team.id)
        if body is None:
            raise JobNotFound("Job not found.")
        return body

    async def keep_answer(self, answer_id: str, body: bytes, team: Team) -> None:
        """Store an answer of a tool, so that its rest can be read with its id.

        Raises :exc:`~scraper_service.errors.DiskQuotaExceeded`.
        """
        await self._charges.disk.require(team)
        keep_s = self._retention.seconds(None)
        await self._database.write(store_answer, answer_id, team.id, body, keep_s)

    async def read_answer(self, answer_id: str, team: Team) -> bytes | None:
        """Return a stored answer, None for an unknown or expired one."""
        return await Jobs(self._database).read_scrape(answer_id, team.id)

    async def map(
        self, options: MapOptions, team: Team, version: int, shape: ShapeT
    ) -> Map:
        """Return the URLs of a site. ``shape`` returns the JSON of each.

        Raises :exc:`~scraper_service.errors.OptionUnavailable`,
        :exc:`~scraper_service.errors.OutOfCredits` and the errors of
        :meth:`MapCrawler.find`.
        """
        options = under_policy(options, team.site_policy)
        self._availability.check_open()
        self._availability.require(options.scrape)
        retention_s = self._retention.seconds(None)
        call = _call(team, "map", version, options.url, options.origin, retention_s)
        price = self._prices.map
        async with self._charges.call(call, team, price) as charge:
            found = await self._maps.find(options, team.id, call.id, shape)
            charge.note_failure(found.failure)
            await charge.settle(price if found.count else 0)
        return found

    async def search(
        self, options: SearchOptions, team: Team, version: int
    ) -> SearchAnswer:
        """Return search results, with their pages if the options ask for them.

        The list and each page are charged. Raises :exc:`OptionUnavailable`,
        :exc:`~scraper_service.errors.OutOfCredits` and the errors of
        :meth:`Searches.find`.
        """
        options = under_policy(options, team.site_policy)
        self._availability.check_open()
        scrape = options.scrape
        if scrape is not None:
            try:
                self._availability.require(scrape)
            except OptionUnavailable as error:
                error.nested = True
                raise
            if not scrape.zero_data_retention:
                await self._charges.disk.require(team)
        deadline = time.monotonic() + options.timeout_ms / 1000
        retention_s = self._retention.seconds(None)
        call = _call(
            team, "search", version, options.query, options.origin, retention_s
        )
        most = self._prices.search(options.limit * len(options.sources))
        async with self._charges.call(call, team, most) as charge:
            found = await self._searches.find(options, team.id)
            price = self._prices.search(found.count)
            await charge.settle(price)
        pages = ResultPages(self._scrape, options, team, version, deadline)
        return await pages.answer(call.id, found, price)

    async def replay(self, scrape_id: str, team: Team) -> PageOptions:
        """Return what opens the page of a scrape again in a browser.

        Raises :exc:`JobNotFound`, and :exc:`ReplayUnavailable`.
        """
        await self._charges.wait_until_recorded(scrape_id)
        found = existing(
            await self._database.read(read_replay, scrape_id, team.id), "Job not found."
        )
        if not found["url"]:
            raise ReplayUnavailable
        try:
            return _replay_from_json(found)
        except InvalidOptions as error:  # of a release with other options
            raise ReplayUnavailable from error

    async def wait_until_recorded(self, call_id: str) -> None:
        """Wait until a call of this process, whose response was sent, is stored."""
        await self._charges.wait_until_recorded(call_id)

    async def check_finished(self, call_id: str, team: Team, endpoint: str) -> None:
        """Check that a call of the team is on record, see :func:`usage.check_finished`."""
        await self._charges.wait_until_recorded(call_id)
        await self._database.read(usage.check_finished, call_id, team.id, endpoint)

    async def sessions(self, team: Team) -> list[SessionRow]:
        """Return the sessions of a team, sorted by name."""
        return await self._database.read(sessions.list_sessions, team.id)

    async def delete_session(self, name: str, team: Team) -> None:
        """Delete a session. Raises :exc:`JobNotFound` for an unknown name."""
        if not await self._database.write(
            sessions.delete_session, team.id, name, team.actor
        ):
            raise JobNotFound("Session not found")


@frozen
class QueueStatus:
    """The pages of a team that run and wait."""

    active: int
    waiting: int
    #: Time of the last fetched page in seconds since 1970; None before the first page.
    succeeded_at: float | None


class Usage:
    """Reads credits, concurrency and recent calls of a team."""

    def __init__(self, database: Database, scrapes: Scrapes, settings: BaseSettings):
        self._database = database
        self._scrapes = scrapes
        self.tokens_per_credit = settings.getint("TOKENS_PER_CREDIT")
        self.disk = DiskQuota(database, settings.getint("TEAM_DISK_MB"))

    async def balance(self, team: Team) -> Balance:
        """Return the credits that the team has left."""
        return await self._database.read(usage.read_balance, team.id)

    async def read_used(self, team: Team) -> list[Used]:
        """Return the credits that the team has used, by day and key."""
        return await self._database.read(usage.read_used, team.id)

    def concurrency(self, team: Team) -> int:
        """Return the number of the team's running pages in all processes."""
        permits = self._scrapes.permits
        return permits.in_use(team.id) + permits.in_use_elsewhere(team.id)

    async def queue(self, team: Team) -> QueueStatus:
        """Return how many pages of the team run and how many wait."""
        active = self.concurrency(team)
        pages, last_at = await self._database.read(usage.read_queue, team.id)
        of_jobs = active - self._scrapes.under_way(team.id)
        waiting = max(0, pages - of_jobs) + self._scrapes.waiting(team.id)
        return QueueStatus(active, waiting, last_at)

    async def activity(
        self, team: Team, endpoint: str | None, after: ListPosition | None, limit: int
    ) -> list[Call]:
        """Return calls of the last day, the latest first.

        Up to ``limit + 1`` calls: the last shows that there are more.
        """
        return await self._database.read(
            usage.read_activity, team.id, endpoint, after, limit
        )

    async def audit(
        self, team: Team, after: ListPosition | None, limit: int
    ) -> list[AuditEntry]:
        """Return entries of the audit log, the latest first.

        Up to ``limit + 1`` entries: the last shows that there are more.
        """
        return await self._database.read(audit.read_latest, team.id, after, limit)


def _call(
    team: Team,
    endpoint: str,
    version: int,
    target: str | None,
    origin: str,
    retention_s: float,
    call_id: str | None = None,
) -> Call:
    return Call(
        call_id or str(uuid.uuid4()),
        team.id,
        team.key_id,
        endpoint,
        version,
        target,
        time.time(),
        origin,
        retention_s=retention_s,
    )


#: The options that change what a browser shows, without the URL.
REPLAYED = (
    *("headers", "location", "mobile", "wait_for_ms", "actions", "session", "profile"),
    *("block_ads", "skip_tls_verification", "site_rules"),
)


def _replay_to_json(options: PageOptions) -> dict[str, Any]:
    """Return what opens a page again in a browser, as JSON values.

    ``scrape`` is left out if all that matters is as usual.
    """
    scrape = options.scrape
    if all(getattr(scrape, name) == getattr(USUAL_PAGE, name) for name in REPLAYED):
        return {"url": options.url}
    formats: dict[str, Any] = {"formats": ()}
    return {
        "url": options.url,
        "scrape": unstructure(evolve(scrape, **formats)),
    }


def _replay_from_json(value: Mapping[str, Any]) -> PageOptions:
    """Return the page from the JSON values of :func:`_replay_to_json`."""
    found = value.get("scrape")
    scrape = USUAL_PAGE if found is None else structure(found, ScrapeOptions)
    return PageOptions(url=value["url"], scrape=scrape)
