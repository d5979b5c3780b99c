"""Change tracking: compares each tracked page with its last snapshot."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from attrs import evolve
from scrapy.exceptions import NotConfigured

from scraper_service.content.formats.change_tracking import (
    ERROR_STATUS,
    GONE,
    change_since,
    compare_pages,
)
from scraper_service.crawling import Component
from scraper_service.crawling.converter_pool.page_conversion import ConverterPool
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import ConverterDied, ServiceUnavailable
from scraper_service.items import REMOVED, UNCHANGED, Page, PageError, Snapshot
from scraper_service.storage import page_cache
from scraper_service.storage.connections import once
from scraper_service.storage.database import Database
from scraper_service.storage.frontier.links import is_hidden_url
from scraper_service.storage.job_records import LOCAL_TEAM
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from sqlalchemy import Connection

    from scraper_service.items import Tracked
    from scraper_service.storage.connections import Insist
    from scraper_service.storage.page_cache import Earlier

NOT_NOW = (ConverterDied, MemoryError, ServiceUnavailable, TimeoutError)
COMPARE_S = 30.0  # in the converter pool; the comparison has a limit of its own
SAME = "The page has not changed since the earlier crawl."
NOT_COMPARED = "The format changeTracking could not be made ({})."
NOT_KEPT = (
    "The page was compared, but not kept for the next comparison: zeroDataRetention."
)

logger = logging.getLogger(__name__)


class Changes:
    """Compares tracked pages with snapshots in the job database."""

    def __init__(self, settings: BaseSettings):
        self._settings = settings
        self._keep_s = settings.getfloat("CHANGE_RETENTION_S")

    @property
    def database(self) -> Database:
        return Database.shared(self._settings)

    async def compare(self, page: Page, ask_on: Insist | None = None) -> Page:
        """Return a page with its ``change_tracking`` and its new snapshot.

        A page that cannot be compared gets a warning. A page that was compared before is compared
        again with the last snapshot. With ``ask_on``, waits for the database and raises
        :exc:`ServiceUnavailable`.
        """
        tracked = page.tracked
        assert tracked is not None
        values = {k: v for k, v in page.values.items() if k != "change_tracking"}
        try:
            answer, warning, snapshot = await self._comparison(tracked, ask_on or once)
        except NOT_NOW as error:
            if ask_on is not None and isinstance(error, ServiceUnavailable):
                raise
            logger.warning("a page was not compared (%r)", error)
            warning = NOT_COMPARED.format(type(error).__name__)
            return evolve(
                page,
                values=values,
                warning=_join(tracked.warning, warning),
                tracked=None,
            )
        return evolve(
            page,
            values={**values, "change_tracking": answer},
            warning=_join(tracked.warning, warning),
            tracked=evolve(tracked, snapshot=snapshot),
        )

    async def _comparison(
        self, tracked: Tracked, ask_on: Insist
    ) -> tuple[bytes, str | None, Snapshot | None]:
        key = page_cache.snapshot_key(tracked.url, tracked.options.tag)
        earlier, is_hidden = await ask_on(
            lambda: self.database.read(_read, tracked, key)
        )
        found = await ConverterPool.shared(self._settings).run(
            compare_pages,
            tracked.draft,
            tracked.markdown,
            earlier.body,
            earlier.at,
            tracked.options.modes,
            tracked.is_gone,
            "hidden" if is_hidden else "visible",
            timeout_s=COMPARE_S,
            team_id=tracked.team_id,
            job_id=self._settings.get("JOB_ID") or "",
        )
        if not tracked.is_kept:
            return found.answer, _join(found.warning, NOT_KEPT), None
        snapshot = Snapshot(
            team_id=tracked.team_id,
            key=key,
            version=earlier.version,
            body=found.body,
            keep_s=self._keep_s,
        )
        return found.answer, found.warning, snapshot

    async def store(self, page: Page) -> Page:
        """Store the snapshot of a page without a transaction of its own."""
        await Jobs(self.database).make_team(LOCAL_TEAM)
        while page.tracked and page.tracked.snapshot:
            if await self.database.write(_keep, page.tracked.snapshot):
                break
            page = await self.compare(page)
        return page


class ChangePipeline(Component):
    """Compares tracked pages before their delivery.

    Snapshots are stored together with their pages: in the transaction of a job's page, or of
    a scrape of the service. A local run stores only the snapshot.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        self._changes = Changes(crawler.settings)

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.tracked is None:
            return item
        ask_on = None
        if item.lease is not None:
            ask_on = LeasedScheduler.of(self._crawler).insist
        page = await self._changes.compare(item, ask_on)
        return await self._changes.store(page) if self._is_local(page) else page

    def _is_local(self, page: Page) -> bool:
        if page.lease is not None:
            return not LeasedScheduler.of(self._crawler).keeps_pages
        return page.tracked is not None and page.tracked.team_id == LOCAL_TEAM


def _read(connection: Connection, tracked: Tracked, key: str) -> tuple[Earlier, bool]:
    team_id, url = tracked.team_id, tracked.url
    is_hidden = tracked.is_asked_for and is_hidden_url(connection, team_id, url)
    return page_cache.read_earlier(connection, team_id, key), is_hidden


def _keep(connection: Connection, snapshot: Snapshot) -> bool:
    if not page_cache.is_last_snapshot(connection, snapshot):
        return False
    page_cache.store_snapshots(connection, [snapshot])
    return True


def _join(*parts: str | None) -> str | None:
    return " ".join(part for part in parts if part) or None


class SincePipeline(Component):
    """Leaves out the pages of a crawl with ``since`` that are the same as before.

    Other pages get their ``change``. A page that is gone fails with the code
    :data:`~scraper_service.items.REMOVED`. An error of the site is no change.
    """

    def __init__(self, crawler: Crawler):
        if not crawler.settings.get("BASE_JOB_ID"):
            raise NotConfigured  # no cost for jobs of their own
        self._crawler = crawler
        self._settings = crawler.settings

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.lease is None:
            return item
        options = getattr(self._crawler.spider, "options", None)
        if getattr(options, "since", None) is None:
            return item
        change, hashes = await self._compare(item)
        failure = item.failure or _why_left_out(item, change)
        if failure is None:
            return evolve(item, metadata=evolve(item.metadata, change=change))
        # Where only hashes are left of the earlier page, no other job has its response.
        is_base = failure.code == UNCHANGED and isinstance(item.base_page, str)
        return evolve(
            item,
            failure=failure,
            metadata=evolve(item.metadata, credits_used=0),
            search=None,
            text_hashes=hashes,
            kept=item.kept if is_base else None,
        )

    async def _compare(self, page: Page) -> tuple[str, str | None]:
        base = page.base_page
        if base is None:
            return "new", None
        pool = ConverterPool.shared(self._settings)
        scheduler = LeasedScheduler.of(self._crawler)
        try:
            found: tuple[str, str | None] = await pool.run(
                change_since,
                base,
                dict(page.values),
                timeout_s=COMPARE_S,
                team_id=scheduler.team_id,
                job_id=scheduler.job_id,
            )
        except NOT_NOW as error:
            logger.warning("a page was not compared (%r)", error)
            return "changed", None
        return found


def _why_left_out(page: Page, change: str) -> PageError | None:
    status = page.metadata.status_code or 0
    if page.metadata.is_unchanged:
        return PageError(UNCHANGED, SAME)
    if change != "new" and status in GONE:
        return PageError(REMOVED, f"The site responds with status {status} now.")
    if change != "new" and status >= ERROR_STATUS:
        text = f"The site responded with status {status}: the page was not compared."
        return PageError("SCRAPE_SITE_ERROR", text)
    return PageError(UNCHANGED, SAME) if change == "same" else None
