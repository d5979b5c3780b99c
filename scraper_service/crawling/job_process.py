"""A process of its own for one job of the database: ``scrapy crawl crawl -a job_id=...``.

So scrapyd runs the jobs of a service, each in one or more processes on its nodes.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scraper_service.crawling.heartbeat import Presence
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import SecretsUnreadable, ServiceUnavailable
from scraper_service.options.job_arguments import options_from_json
from scraper_service.settings import check_settings
from scraper_service.storage import job_secrets, runs
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import ACTIVE, JobState

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scraper_service.options.job_arguments import OptionsT

logger = logging.getLogger(__name__)

WATCH_S = 1.0
GOOD_ENDS = {"finished", "cancelled", "shutdown"}


def join_job(crawler: Crawler, job_id: str, run_id: str) -> OptionsT:
    """Have a crawler that is not open yet work on a stored job; return its options.

    ``run_id`` is what scrapyd calls this process, empty without scrapyd. Pages go into
    the job database and nowhere else. Blocks until the database has answered: this
    process has nothing else to do. Raises :exc:`JobNotFound`, :exc:`RunRefused`,
    :exc:`ValueError` for settings or options that cannot be used,
    :exc:`SecretsUnreadable`, after which the job has failed, and what keeps the
    database from answering.
    """
    settings = crawler.settings
    check_settings(settings)
    database = Database.shared(settings)
    kind = crawler.spidercls.name
    lease_s = settings.getfloat("LEASE_S")
    joined = database.write_at_once(runs.join, job_id, kind, run_id, lease_s)
    try:
        text = database.write_at_once(
            job_secrets.whole_options, job_id, joined.job.options
        )
        options = options_from_json(kind, json.loads(text))
    except (SecretsUnreadable, ValueError) as error:
        told = str(error) if isinstance(error, SecretsUnreadable) else broken(error)
        database.write_at_once(runs.leave, job_id, joined.owner, "failed", told)
        raise
    values: dict[str, Any] = {
        "JOB_ID": job_id,
        "JOB_OWNER": joined.owner,
        "JOB_RUN": joined.owner if joined.is_run else None,
        "JOB_ALONE": True,
        "FEEDS": {},
    }
    for name, value in values.items():
        settings.set(name, value, priority="cmdline")
    return options


def broken(error: Exception) -> str:
    """Tell the caller of a job why it could not be run; details are in the log."""
    return f"The job could not be run: {type(error).__name__}."


def early_end(reason: str | None) -> str | None:
    """Tell why a crawler that ended for ``reason`` has failed its job, None if not."""
    return None if reason in GOOD_ENDS else f"The job ended early: {reason}."


class JobProcess:
    """An extension for a process that has joined a job: it shows signs of life.

    It closes the crawler when the job was cancelled or has ended, or when another
    process has taken the place of this one because it was silent for too long.
    """

    def __init__(self, crawler: Crawler):
        if not crawler.settings.getbool("JOB_ALONE"):
            raise NotConfigured  # with a reason it would be a warning at each start
        settings = crawler.settings
        self._crawler = crawler
        self._job_id: str = settings["JOB_ID"]
        self._owner: str = settings["JOB_OWNER"]
        self._run_id: str | None = settings["JOB_RUN"]
        self._database = Database.shared(settings)
        self._presence = Presence(settings, self._database, self._owner)
        self._closing: asyncio.Task[None] | None = None
        crawler.signals.connect(self._opened, signals.spider_opened)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _opened(self) -> None:
        self._presence.go_on()
        self._presence.every(WATCH_S, self._watch)

    async def _watch(self) -> None:
        state, has_place = await self._database.read(
            runs.standing, self._job_id, self._run_id
        )
        if self._closing is not None:
            return
        if state not in ACTIVE:
            if scheduler := LeasedScheduler.find(self._crawler):
                scheduler.abandon()
            self._close("finished" if state is JobState.COMPLETED else "cancelled")
        elif not has_place:
            logger.warning("another process has taken the place of this one")
            self._close("shutdown")

    def _close(self, reason: str) -> None:
        assert self._crawler.engine is not None
        closing: Any = self._crawler.engine.close_spider_async(reason=reason)
        self._closing = asyncio.ensure_future(closing)

    async def _closed(self, reason: str) -> None:
        self._presence.close()
        try:
            await self._database.write_locking(
                runs.leave, self._job_id, self._owner, reason, early_end(reason)
            )
        except ServiceUnavailable:
            logger.warning("the end of this process could not be stored")
