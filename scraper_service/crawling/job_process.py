"""Processes that work on jobs: signs of life, and ``scrapy crawl -a job_id=...``.

scrapyd runs each job of a service in one or more processes on its nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import platform
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured

from scraper_service.crawling import Component
from scraper_service.crawling.job_leases import JobLeases
from scraper_service.crawling.observability import LoopLag, job_logger, with_facts
from scraper_service.crawling.politeness.host_pace import REFRESH_S, HostPace
from scraper_service.crawling.politeness.shared_limit import LOOK_S, TeamPermits
from scraper_service.crawling.politeness.shared_limit import REFRESH_S as PERMITS_S
from scraper_service.crawling.scheduler import LeasedScheduler
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.jobs import options_from_json
from scraper_service.settings import check_settings
from scraper_service.shared_objects import BackgroundTasks, ChangePoll, repeat
from scraper_service.storage.connections import end_half_sent
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import leases
from scraper_service.storage.frontier.leases import Frontier
from scraper_service.storage.job_records import ACTIVE, JobState
from scraper_service.storage.jobs import runs
from scraper_service.storage.jobs.job_log import TAKEN_OVER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.options.jobs import OptionsT

logger = logging.getLogger(__name__)

FAILURE = "a periodic task failed"
LEAVE_S = 3.0  # for the last words to the database


class Presence:
    """Heartbeats of this process, ``owner``, for other processes of the database.

    Leases last for ``LEASE_S`` after a heartbeat. While it is open, this class also returns
    the leases of dead processes, and leases of this process that no crawler holds. It
    refreshes the shared pace of hosts and the shared limits of teams.

    ``kind`` and ``takes`` are those of a :class:`~scraper_service.storage.frontier.leases.WorkerState`,
    and ``running`` returns the number of jobs that run in this process.
    """

    def __init__(
        self,
        settings: BaseSettings,
        database: Database,
        owner: str,
        kind: str = leases.COMMAND,
        takes: tuple[str, ...] = (),
        running: Callable[[], int] = lambda: 0,
    ):
        self._settings = settings
        self._kind = kind
        self._takes = takes
        self._running = running
        self._drains = False
        #: The live processes, as of the last heartbeat.
        self.live: list[leases.LiveWorker] = []
        #: True if no other process was live at the last heartbeat.
        self.is_alone = True
        self._database = database
        self._owner = owner
        self._frontier = Frontier(database, owner)
        self._tasks = BackgroundTasks()
        self._beats = BackgroundTasks()  # they go on while running pages end
        self._beating = asyncio.Lock()  # a late heartbeat would bring the row back
        self._unknown: set[tuple[str, int, int]] = set()  # leases without a crawler

    async def open(self) -> None:
        """Send the first heartbeat and continue. Raises errors of the database."""
        await self._beat()
        self.go_on()

    def go_on(self) -> None:
        """Send further heartbeats, after a first one."""
        lease_s = self._settings.getfloat("LEASE_S")
        self._beats.spawn(repeat(lease_s / 3, self._beat, FAILURE))
        pace = HostPace.shared(self._settings)
        pace.connect(self._database, self._owner)
        permits = TeamPermits.shared()
        permits.connect(self._database, self._owner)
        hosts, teams = pace.shared_limit, permits.shared_limit
        version = self._database.version
        for seconds, work, is_due in (
            (REFRESH_S, pace.refresh, ChangePoll(version).is_due),
            (PERMITS_S, permits.refresh, ChangePoll(version).is_due),
            (LOOK_S, hosts.look, partial(hosts.is_look_due, ChangePoll(version))),
            (LOOK_S, teams.look, partial(teams.is_look_due, ChangePoll(version))),
        ):
            self._beats.spawn(repeat(seconds, work, FAILURE, is_due=is_due))
        self.every(lease_s / 3, self._reap)
        self.every(lease_s / 3, self._return_strays)

    def drain(self) -> None:
        """Stop all periodic work but the heartbeats, which keep the leases of this process.

        Others see that this process ends.
        """
        self._tasks.cancel()
        if not self._drains:
            self._drains = True
            self._beats.spawn(self._beat_once())

    async def leave(self) -> None:
        """End the heartbeats. Leases that are left are free at once."""
        with contextlib.suppress(ServiceUnavailable, TimeoutError):
            # Without an answer they end by themselves.
            async with asyncio.timeout(LEAVE_S), self._beating:
                self.close()
                await self._frontier.end_leases()
        self.close()

    def close(self) -> None:
        """Stop all periodic work and the heartbeats."""
        self._tasks.cancel()
        self._beats.cancel()

    def every(
        self,
        seconds: float,
        work: Callable[[], Awaitable[None]],
        wanted: asyncio.Event | None = None,
        is_due: Callable[[], bool] = lambda: True,
    ) -> None:
        """Repeat ``work`` until :meth:`close`, see :func:`~.shared_objects.repeat`."""
        self._tasks.spawn(repeat(seconds, work, FAILURE, wanted=wanted, is_due=is_due))

    async def _beat(self) -> None:
        state = leases.WorkerState(
            kind=self._kind,
            host=platform.node(),
            pid=os.getpid(),
            takes=self._takes,
            jobs=self._running(),
            drains=self._drains,
        )
        lease_s = self._settings.getfloat("LEASE_S")
        async with self._beating:
            await self._database.write(leases.beat, self._owner, lease_s, state)
        self.live = await self._database.read(leases.live_workers)
        self.is_alone = len(self.live) < 2

    async def _beat_once(self) -> None:
        with contextlib.suppress(ServiceUnavailable):
            await self._beat()

    async def _reap(self) -> None:
        if ended := await self._database.write(end_half_sent):
            logger.warning("%d connections of a stopped process were ended", ended)
        await self._database.write(runs.end_lost, self._owner)
        await self._frontier.forget_workers()
        for job_id in await self._frontier.jobs_with_lost_leases():
            if returned := await self._frontier.return_lost(job_id):
                text = "job %s: %d URLs of dead processes are taken over"
                facts = with_facts(job=job_id, event=TAKEN_OVER, urls=returned)
                job_logger.warning(text, job_id, returned, extra=facts)

    async def _return_strays(self) -> None:
        """Return leases in the database that no crawler of this process holds.

        They occur if the response to a claim was lost. Only leases that are unknown twice in a
        row are returned, since a page may end between the two look-ups.
        """
        held = await self._frontier.leases()
        unknown = JobLeases.unknown(self._owner, held)
        strays, self._unknown = unknown & self._unknown, unknown
        by_job: dict[str, list[tuple[int, int]]] = {}
        for job_id, *lease in sorted(strays):
            by_job.setdefault(job_id, []).append((lease[0], lease[1]))
        for job_id, found in by_job.items():
            await self._frontier.release(job_id, found)
            logger.warning("%d leases that no crawler had were returned", len(found))


WATCH_S = 1.0
GOOD_ENDS = {"finished", "paused", "cancelled", "shutdown"}


def join_job(crawler: Crawler, job_id: str, run_id: str) -> OptionsT:
    """Prepare a crawler that is not open yet for a stored job. Return the job's options.

    ``run_id`` is the id of this process in scrapyd, empty without scrapyd. Pages are stored in
    the job database only. Blocks until the database has responded. Raises
    :exc:`JobNotFound`, :exc:`RunRefused`, :exc:`ValueError` for unusable settings or options,
    :exc:`SecretsUnreadable` (the job has then failed), and errors of the database.
    """
    settings = crawler.settings
    check_settings(settings)
    database = Database.shared(settings)
    spider = crawler.spidercls.name
    lease_s = settings.getfloat("LEASE_S")
    joined = database.write_blocking(runs.join, job_id, spider, run_id, lease_s)
    job = joined.job
    try:
        options: OptionsT = options_from_json(job.kind, json.loads(job.options))
    except ValueError as error:
        ending = ("failed", broken(error))
        database.write_blocking(runs.end, job_id, joined.run_id, *ending)
        raise
    is_asked = joined.run_id == run_id  # else it was started by hand
    values: dict[str, Any] = {
        "JOB_ID": job_id,
        "SOURCE_JOB_ID": job.source_job_id,
        "BASE_JOB_ID": job.base_job_id,
        "JOB_OWNER": joined.run_id,
        "JOB_IS_FIRST": joined.is_first,
        "JOB_PROCESS": leases.RUN if is_asked else leases.SPIDER,
        "FEEDS": {},
    }
    for name, value in values.items():
        settings.set(name, value, priority="cmdline")
    return options


def broken(error: Exception) -> str:
    """Return the error of a job whose crawler broke. The log has the details."""
    return f"The job could not be run: {type(error).__name__}."


def early_end(reason: str | None) -> str | None:
    """Return the error of a job whose crawler ended for ``reason``, None if it is fine."""
    return None if reason in GOOD_ENDS else f"The job ended early: {reason}."


class JobProcess(Component):
    """An extension for a process that has joined a job.

    Sends heartbeats, and notices changes of the job by its caller. Closes the crawler if the
    job has ended, or if another process has replaced this process after a long silence.
    """

    def __init__(self, crawler: Crawler):
        settings = crawler.settings
        if not settings["JOB_PROCESS"]:
            raise NotConfigured  # with a reason it would be a warning at each start
        self._crawler = crawler
        self._job_id: str = settings["JOB_ID"]
        self._run_id: str = settings["JOB_OWNER"]
        self._database = Database.shared(settings)
        self._presence = Presence(
            settings,
            self._database,
            self._run_id,
            settings["JOB_PROCESS"],
            running=lambda: 1,
        )
        self._lag = LoopLag()
        self._closing: asyncio.Task[None] | None = None
        crawler.signals.connect(self._on_open, signals.spider_opened)
        crawler.signals.connect(self._on_close, signals.spider_closed)

    def _on_open(self) -> None:
        self._lag.start()
        self._presence.go_on()
        self._presence.every(WATCH_S, self._watch)

    async def _watch(self) -> None:
        state, revision, is_running = await self._database.read(
            runs.standing, self._job_id, self._run_id
        )
        if self._closing is not None:
            return
        scheduler = LeasedScheduler.find(self._crawler)
        if state not in ACTIVE:
            if scheduler is not None:
                scheduler.abandon()
            self._close("finished" if state is JobState.COMPLETED else "cancelled")
        elif not is_running:
            logger.warning("another process has replaced this process")
            self._close("shutdown")
        elif scheduler is not None:
            scheduler.notice(revision)

    def _close(self, reason: str) -> None:
        assert self._crawler.engine is not None
        closing: Any = self._crawler.engine.close_spider_async(reason=reason)
        self._closing = asyncio.ensure_future(closing)

    async def _on_close(self, reason: str) -> None:
        self._lag.stop()
        try:
            await self._database.write(
                runs.end, self._job_id, self._run_id, reason, early_end(reason)
            )
        except ServiceUnavailable:
            logger.warning("the end of this process could not be stored")
        await self._presence.leave()
