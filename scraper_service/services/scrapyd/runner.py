"""Runs jobs on scrapyd: processes on nodes that share the job database.

Runs are stored in the database, so any service process can continue the work of another.
Every second, the runner compares them with the nodes' lists and the heartbeats of
processes. It ends lost runs and starts missing ones.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from scraper_service.crawling.job_process import Presence
from scraper_service.errors import ServiceUnavailable
from scraper_service.services.job_runner import work_of
from scraper_service.services.scrapyd.nodes import (
    NodeRefused,
    NodeSilent,
    ScrapydNode,
    read_addresses,
)
from scraper_service.services.upkeep import keep_up
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.frontier import workers
from scraper_service.storage.job_records import RunState
from scraper_service.storage.jobs import runs

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.storage.database import Database
    from scraper_service.storage.jobs.runs import Demand, Run

logger = logging.getLogger(__name__)

TURN_S = 1.0
IDLE_POLL_S = 10.0  # between two polls of a node while no job runs; below SILENT_S
WAITING_AHEAD = 4  # runs in the queue of a node; further jobs wait in the database
MOVE_S = 60.0  # that a run waits before it moves to a node with an empty queue
SILENT_S = 20.0  # without a response of a node, before its runs move elsewhere
STOP_S = 15.0  # for a process to end after its job, and between two stop requests


class ScrapydRunner:
    """Runs the active jobs of the database on ``SCRAPYD_NODES``.

    A job has up to ``SCRAPYD_PROCESSES_PER_JOB`` processes. Scrapyd's ``max_proc`` limits
    the processes of a node. A process gets only the id of its job: nodes have
    ``DATABASE_URL`` and other settings in their own environment.
    """

    def __init__(self, process: AsyncCrawlerProcess, database: Database):
        self.settings = settings = process.settings
        self.owner = str(uuid.uuid4())
        self._database = database
        # Jobs are taken by the nodes for it.
        self._presence = Presence(
            settings, database, self.owner, workers.SERVICE, work_of(settings)
        )
        project = settings["SCRAPYD_PROJECT"]
        addresses = read_addresses(settings.getlist("SCRAPYD_NODES"))
        self._nodes = {
            name: ScrapydNode(name, headers, project)
            for name, headers in addresses.items()
        }
        self._most = settings.getint("SCRAPYD_PROCESSES_PER_JOB")
        self._at_once = settings.getint("JOB_CONCURRENCY")
        self._wanted = asyncio.Event()
        self._is_idle = False  # the last turn found no running or waiting job
        self._asking: set[str] = set()  # ids of runs with a start request in flight
        self._seen: dict[str, float] = {}  # when a run was first seen waiting
        self._told: dict[str, float] = {}  # when a process was last stopped
        self._tasks = BackgroundTasks()

    @property
    def running(self) -> int:
        """0: its jobs run on the nodes."""
        return 0

    @property
    def is_alone(self) -> bool:
        """True if no other process shares the database, as of a few seconds ago."""
        return self._presence.is_alone

    @property
    def warnings(self) -> list[str]:
        """A sentence with the trouble of each node, if none of them takes runs."""
        troubles = {node.name: node.trouble for node in self._nodes.values()}
        if None in troubles.values():
            return []
        told = "; ".join(f"{name}: {why}" for name, why in troubles.items())
        return [f"No node of SCRAPER_SCRAPYD_NODES takes crawls and batches: {told}."]

    async def open(self) -> None:
        """Start to run jobs. Raises errors of the database."""
        await self._presence.open()
        for node in self._nodes.values():
            await node.open()
        for node in self._nodes.values():
            self._presence.every(TURN_S, partial(self._poll, node))
        self._presence.every(TURN_S, self._turn, self._wanted)
        keep_up(self._presence, self._database, self.settings)

    async def close(self) -> None:
        """Start no more processes. Running processes go on."""
        self._presence.drain()
        self._tasks.cancel()
        for node in self._nodes.values():
            await node.close()

    async def leave(self) -> None:
        """End the heartbeats of this process."""
        await self._presence.leave()

    def wake(self) -> None:
        """Look for new jobs at once."""
        self._is_idle = False
        self._wanted.set()

    async def store_counts(self, job_id: str) -> None:
        """Do nothing: each process stores its counts every second."""

    async def cancel(self, job_id: str) -> None:
        """Stop the processes of a cancelled job.

        Running processes notice the cancel themselves; waiting ones would start first.
        """
        self._spawn(self._stop_all(job_id))

    async def hold(self, job_id: str) -> None:
        """Do nothing: its processes are elsewhere."""

    async def refresh(self, job_id: str) -> None:
        """Look at a changed job at once. Its processes notice the change themselves."""
        self.wake()

    async def _stop_all(self, job_id: str) -> None:
        for run_id, name in await self._database.read(runs.runs_of, job_id):
            self._tell(run_id, self._nodes.get(name))
        self.wake()

    def _tell(self, run_id: str, node: ScrapydNode | None) -> None:
        self._told[run_id] = time.monotonic()
        if node is not None:
            self._spawn(node.cancel(run_id))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn(work).add_done_callback(self._log_failure)

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        if not isinstance(task.exception(), ServiceUnavailable):
            logger.error("work of the runner failed", exc_info=task.exception())

    async def _poll(self, node: ScrapydNode) -> None:
        """Poll a node, less often while no job runs."""
        if not self._is_idle or node.polled_s >= IDLE_POLL_S:
            await node.poll()

    # -- turns -----------------------------------------------------------------------

    async def _turn(self) -> None:
        read_at = time.monotonic()
        wanted, found = await self._database.read(runs.demands)
        self._is_idle = not (wanted or found)
        ids = {run.id for run in found}
        self._seen = {k: at for k, at in self._seen.items() if k in ids}
        self._told = {k: at for k, at in self._told.items() if k in ids}
        live = [run for run in found if not await self._has_ended(run, read_at)]
        await self._ask_for(wanted, live)

    async def _has_ended(self, run: Run, read_at: float) -> bool:
        """End a run that is lost or whose job is over. Return True if it has ended."""
        node = self._nodes.get(run.node)
        if run.state is RunState.RUNNING:
            return await self._has_process_ended(run, node)
        if run.ended_s is not None:
            reason: str | None = "its job is over"
        elif run.state is RunState.ASKED:
            reason = self._why_not_asked(run)
        else:
            reason = self._why_not_waiting(run, node, read_at)
        if reason is None:
            return False
        ended = await self._database.write(
            runs.end_unstarted, run.job_id, run.id, reason
        )
        if ended:
            self._tell(run.id, node)
            logger.info("run %s at %s: %s", run.id, run.node, reason)
        return ended

    async def _has_process_ended(self, run: Run, node: ScrapydNode | None) -> bool:
        if self._seen.pop(run.id, None) is not None and node is not None:
            node.works()
        if run.is_lost:
            ended = await self._database.write(runs.end_lost, run.job_id, run.id)
            if ended and run.ended_s is None:
                text = "a process of job %s at %s shows no more signs of life"
                logger.warning(text, run.job_id, run.node)
            return ended
        if run.ended_s is not None and run.ended_s > STOP_S:
            told_at = self._told.get(run.id)
            if told_at is None or time.monotonic() > told_at + STOP_S:
                self._tell(run.id, node)
        return False

    def _why_not_asked(self, run: Run) -> str | None:
        """Return why a start request will never get a response, None if it may."""
        if run.asked_by == self.owner:
            return None if run.id in self._asking else "its start request was lost"
        return "the service that requested its start is gone" if run.is_lost else None

    def _why_not_waiting(
        self, run: Run, node: ScrapydNode | None, read_at: float
    ) -> str | None:
        """Return why an accepted run will not start, None if it may."""
        if node is None:
            return "its node is not in SCRAPER_SCRAPYD_NODES"
        since = self._seen.setdefault(run.id, read_at)
        if node.listed_at > since and run.id not in node.listed:
            if run.id in node.finished:
                node.rest("a process ended before it reached its job; see its log")
                return "its process ended before it reached the job"
            return "its node has forgotten it"
        if node.silent_s > SILENT_S:
            return "its node does not answer"
        if read_at - since > MOVE_S and any(
            other.takes_runs and not other.pending
            for other in self._nodes.values()
            if other is not node
        ):
            return "another node has room"
        return None

    # -- starting processes ----------------------------------------------------------

    async def _ask_for(self, wanted: list[Demand], live: list[Run]) -> None:
        """Start missing processes: the first of each job, the oldest job first."""
        taken = {(run.job_id, run.slot) for run in live}
        load = Counter(run.node for run in live)
        waiting = Counter(r.node for r in live if r.state is not RunState.RUNNING)
        of_job = Counter((run.job_id, run.node) for run in live)
        for slot in range(self._most):
            for job in wanted:
                if (job.id, slot) in taken or (slot and self._is_small(job, slot)):
                    continue
                node = self._best(job, load, waiting, of_job)
                if node is None:
                    return
                if await self._ask(job, slot, node):
                    for count, key in ((load, node.name), (waiting, node.name)):
                        count[key] += 1
                    of_job[job.id, node.name] += 1

    def _is_small(self, job: Demand, others: int) -> bool:
        """Return True if ``others`` processes can fetch all open URLs of a job at once."""
        return job.open <= others * self._at_once

    def _best(
        self,
        job: Demand,
        load: Counter[str],
        waiting: Counter[str],
        of_job: Counter[tuple[str, str]],
    ) -> ScrapydNode | None:
        """Return the least busy node, preferring nodes without this job."""
        free = [
            node
            for node in self._nodes.values()
            if node.takes_runs and max(waiting[node.name], node.pending) < WAITING_AHEAD
        ]

        def burden(node: ScrapydNode) -> tuple[int, int]:
            busy = max(load[node.name], node.pending + node.running)
            return of_job[job.id, node.name], busy

        return min(free, key=burden, default=None)

    async def _ask(self, job: Demand, slot: int, node: ScrapydNode) -> bool:
        run_id = str(uuid.uuid4())
        self._asking.add(run_id)
        try:
            noted = await self._database.write(
                runs.ask, job.id, run_id, slot, node.name, self.owner
            )
        except ServiceUnavailable:
            self._asking.discard(run_id)
            raise
        if noted:
            self._spawn(self._schedule(job, run_id, node))
        else:
            self._asking.discard(run_id)
        return noted

    async def _schedule(self, job: Demand, run_id: str, node: ScrapydNode) -> None:
        try:
            await node.schedule(job.spider, job.id, run_id)
        except (NodeRefused, NodeSilent) as error:
            node.refused(error)
            await self._database.write(runs.end_unstarted, job.id, run_id, str(error))
            self._tell(run_id, node)
            self.wake()
        else:
            await self._database.write(runs.accept, job.id, run_id)
        finally:
            self._asking.discard(run_id)
