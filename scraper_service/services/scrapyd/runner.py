"""Runs crawls and batches on scrapyd: processes on nodes that share the job database.

A run is taken for a node, which is asked to start a process; the process joins the run. A run
that its node will not start ends, so that the job is taken again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from scraper_service.errors import ServiceUnavailable
from scraper_service.options.serialization import CRAWLED, JOBS
from scraper_service.services.job_runner import JobRunner
from scraper_service.services.scrapyd.nodes import (
    NodeRefused,
    NodeSilent,
    ScrapydNode,
    read_addresses,
)
from scraper_service.storage.job_records import RunState
from scraper_service.storage.jobs import runs
from scraper_service.storage.jobs.runs import NodeRun

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine
    from typing import Any

    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.storage.database import Database
    from scraper_service.storage.jobs.runs import Taken, WaitingJob

logger = logging.getLogger(__name__)

NODE_POLL_S = 1.0
IDLE_POLL_S = 10.0  # between two polls of a node while no job runs; below SILENT_S
WAITING_AHEAD = 4  # runs in the queue of a node; further jobs wait in the database
MOVE_S = 60.0  # that a run waits before it moves to a node with an empty queue
SILENT_S = 20.0  # without a response of a node, before its runs move elsewhere
STOP_S = 15.0  # for a process to end after its job, and between two stop requests


class ScrapydRunner(JobRunner):
    """Runs the jobs of spiders on ``SCRAPYD_NODES``, and all others in this process.

    A job has up to ``SCRAPYD_PROCESSES_PER_JOB`` processes. Scrapyd's ``max_proc`` limits
    the processes of a node. A process gets only the id of its job: nodes have
    ``DATABASE_URL`` and other settings in their own environment.
    """

    def __init__(self, process: AsyncCrawlerProcess, database: Database):
        settings = process.settings
        project = settings["SCRAPYD_PROJECT"]
        addresses = read_addresses(settings.getlist("SCRAPYD_NODES"))
        self._nodes = {
            name: ScrapydNode(name, headers, project)
            for name, headers in addresses.items()
        }
        super().__init__(process, database, WAITING_AHEAD * len(self._nodes))
        self.most_processes = settings.getint("SCRAPYD_PROCESSES_PER_JOB")
        self._is_idle = False  # the last turn found no running or waiting job
        self._on_nodes: list[NodeRun] = []  # the runs of the last turn, and later ones
        self._asking: set[str] = set()  # ids of runs with a start request in flight
        self._seen: dict[str, float] = {}  # when a run was first seen waiting
        self._told: dict[str, float] = {}  # when a process was last stopped

    @property
    def warnings(self) -> list[str]:
        """As above, and with the trouble of each node, if none of them takes runs."""
        troubles = {node.name: node.trouble for node in self._nodes.values()}
        if None in troubles.values():
            return super().warnings
        told = "; ".join(f"{name}: {why}" for name, why in troubles.items())
        text = f"No node of SCRAPER_SCRAPYD_NODES takes crawls and batches: {told}."
        return [*super().warnings, text]

    async def open(self) -> None:
        for node in self._nodes.values():
            await node.open()
            self._presence.every(NODE_POLL_S, partial(self._poll_node, node))
        await super().open()

    async def close(self) -> None:
        """Take no more jobs. Processes on nodes go on."""
        await super().close()
        for node in self._nodes.values():
            await node.close()

    def wake(self) -> None:
        self._is_idle = False
        super().wake()

    async def cancel(self, job_id: str) -> None:
        """Stop the processes of a cancelled job.

        Running processes notice the cancel themselves; waiting ones would start first.
        """
        await super().cancel(job_id)
        for run in self._on_nodes:
            if run.job_id == job_id:
                self._tell(run)
        self.wake()

    def _tell(self, run: NodeRun) -> None:
        """Ask the node of a run to stop its process."""
        self._told[run.id] = time.monotonic()
        if (node := self._nodes.get(run.node)) is not None:
            self._spawn(node.cancel(run.id))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.spawn(work).add_done_callback(_log_failure)

    async def _poll_node(self, node: ScrapydNode) -> None:
        """Poll a node, less often while no job runs."""
        if not self._is_idle or node.polled_s >= IDLE_POLL_S:
            await node.poll()

    # -- turns -----------------------------------------------------------------------

    async def _take_up(self) -> None:
        found = await self._database.read(runs.on_nodes)
        if any(run.is_lost for run in found):
            await self._database.write(runs.end_lost, self.owner)
        ids = {run.id for run in found}
        self._seen = {k: at for k, at in self._seen.items() if k in ids}
        self._told = {k: at for k, at in self._told.items() if k in ids}
        self._on_nodes = [run for run in found if not await self._judge(run)]
        waits = await self._jobs.has_untaken(CRAWLED)
        self._is_idle = not (self._on_nodes or waits)
        await super()._take_up()

    async def _judge(self, run: NodeRun) -> bool:
        """End a run that will not start, and stop one that is over. Return True if it has ended."""
        if run.is_lost:
            if run.ended_s is None:
                text = "a process of job %s at %s shows no more signs of life"
                logger.warning(text, run.job_id, run.node)
            return True
        if run.state is RunState.RUNNING:
            node = self._nodes.get(run.node)
            if self._seen.pop(run.id, None) is not None and node is not None:
                node.works()
            told_at = self._told.get(run.id, time.monotonic() - STOP_S)
            is_over = run.ended_s is not None and run.ended_s > STOP_S
            if is_over and time.monotonic() >= told_at + STOP_S:
                self._tell(run)
            return False
        reason = self._why_not(run)
        if reason is None or not await self._database.write(
            runs.end_asked, run.job_id, run.id, reason
        ):
            return False
        self._tell(run)
        logger.info("run %s at %s: %s", run.id, run.node, reason)
        return True

    def _why_not(self, run: NodeRun) -> str | None:
        """Return why a run that has not begun will not start, None if it may."""
        if run.ended_s is not None:
            return "its job is over"
        if run.owner not in {None, self.owner} or run.id in self._asking:
            return None
        node = self._nodes.get(run.node)
        if node is None:
            return "no service knows its node"
        now = time.monotonic()
        since = self._seen.setdefault(run.id, now)
        if node.listed_at > since and run.id not in node.listed:
            if run.id in node.finished:
                node.rest("a process ended before it reached its job; see its log")
                return "its process ended before it reached the job"
            return "its node has forgotten it"
        if node.silent_s > SILENT_S:
            return "its node does not answer"
        if now - since > MOVE_S and any(
            other.takes_runs and not other.pending
            for other in self._nodes.values()
            if other is not node
        ):
            return "another node has room"
        return None

    # -- starting processes ----------------------------------------------------------

    def _teams(self, work: str) -> Counter[str]:
        if work != JOBS:
            return super()._teams(work)
        return Counter(run.team_id for run in self._on_nodes)

    def _has_free(self, work: str) -> bool:
        return super()._has_free(work) if work != JOBS else self._best() is not None

    def _best(self, job_id: str = "") -> ScrapydNode | None:
        """Return the least busy node, preferring nodes without this job."""
        load = Counter(run.node for run in self._on_nodes)
        waiting = Counter(
            run.node for run in self._on_nodes if run.state is RunState.ASKED
        )
        of_job = Counter(run.node for run in self._on_nodes if run.job_id == job_id)
        free = [
            node
            for node in self._nodes.values()
            if node.takes_runs and max(waiting[node.name], node.pending) < WAITING_AHEAD
        ]

        def burden(node: ScrapydNode) -> tuple[int, int]:
            return of_job[node.name], max(load[node.name], node.pending + node.running)

        return min(free, key=burden, default=None)

    async def _take(self, work: str, each: WaitingJob) -> bool:
        if work != JOBS:
            return await super()._take(work, each)
        node = self._best(each.id)
        assert node is not None
        taken = await self._take_job(
            each.id,
            self.owner,
            self.settings.getint("JOB_CONCURRENCY"),
            node.name,
            self.most_processes,
        )
        if taken is None:
            return False
        run = NodeRun(
            taken.run_id,
            each.id,
            each.team_id,
            node.name,
            self.owner,
            RunState.ASKED,
            is_lost=False,
            ended_s=None,
        )
        self._on_nodes.append(run)
        self._asking.add(run.id)
        self._spawn(self._schedule(taken, run, node))
        return True

    async def _schedule(self, taken: Taken, run: NodeRun, node: ScrapydNode) -> None:
        try:
            await node.schedule(taken.job.spider, run.job_id, run.id)
        except (NodeRefused, NodeSilent) as error:
            node.note_refusal(error)
            ending = (run.job_id, run.id, str(error))
            if await self._database.write(runs.end_asked, *ending):
                self._tell(run)
            self.wake()
        finally:
            self._asking.discard(run.id)


def _log_failure(task: asyncio.Task[None]) -> None:
    if task.cancelled() or task.exception() is None:
        return
    if not isinstance(task.exception(), ServiceUnavailable):
        logger.error("work of the runner failed", exc_info=task.exception())
