"""Jobs on scrapyd: processes on nodes that share the job database with the service.

What was asked of whom is in the table of runs, not here: any service process can go on
where another one ended. Each turn compares it with what the nodes list and with the
signs of life of processes, ends what is lost and asks for what is missing.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from scraper_service.crawling.heartbeat import Presence
from scraper_service.errors import ServiceUnavailable
from scraper_service.services.job_runner import EXPIRE_S, expire
from scraper_service.services.scrapyd.nodes import (
    Node,
    NodeRefused,
    NodeSilent,
    read_addresses,
)
from scraper_service.storage import runs
from scraper_service.storage.runs import Run, RunState

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.storage.database import Database
    from scraper_service.storage.runs import Demand

logger = logging.getLogger(__name__)

TURN_S = 1.0
IDLE_POLL_S = 10.0  # between two polls of a node while no job runs; below SILENT_S
WAITING_AHEAD = 4  # runs in the queue of a node; further jobs wait in the database
MOVE_S = 60.0  # that a run waits, before a node whose queue is empty is given it
SILENT_S = 20.0  # without an answer of a node, before its queue is asked for elsewhere
STOP_S = 15.0  # for a process to end by itself after its job; then it is told, again


class ScrapydRunner:
    """Run the active jobs of the database on ``SCRAPYD_NODES``.

    A job has up to ``SCRAPYD_PROCESSES_PER_JOB`` processes; how many run at a time on a
    node is scrapyd's ``max_proc``. Processes are told nothing but the id of their job:
    nodes have ``DATABASE_URL`` and other settings in their own environment.
    """

    def __init__(self, process: AsyncCrawlerProcess, database: Database):
        self.settings = settings = process.settings
        self.owner = str(uuid.uuid4())
        self._database = database
        self._presence = Presence(settings, database, self.owner)
        project = settings["SCRAPYD_PROJECT"]
        addresses = read_addresses(settings.getlist("SCRAPYD_NODES"))
        self._nodes = {
            name: Node(name, headers, project) for name, headers in addresses.items()
        }
        self._most = settings.getint("SCRAPYD_PROCESSES_PER_JOB")
        self._at_once = settings.getint("JOB_CONCURRENCY")
        self._wanted = asyncio.Event()
        self._is_idle = False  # no job runs or waits, as far as the last turn saw
        self._asking: set[str] = set()  # ids of runs that a node is being asked for
        self._seen: dict[str, float] = {}  # when a run was first seen to wait
        self._told: dict[str, float] = {}  # when a process was last told to stop
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin to take up jobs; raise what keeps the database from it."""
        await self._presence.open()
        for node in self._nodes.values():
            await node.open()
        for node in self._nodes.values():
            self._presence.every(TURN_S, partial(self._poll, node))
        self._presence.every(TURN_S, self._turn, self._wanted)
        self._presence.every(EXPIRE_S, partial(expire, self._database))

    async def close(self) -> None:
        """Look after jobs no more; their processes go on."""
        self._presence.close()
        for task in self._tasks:
            task.cancel()
        for node in self._nodes.values():
            await node.close()

    def wake(self) -> None:
        """Take up a job that was just stored, at once."""
        self._is_idle = False
        self._wanted.set()

    async def store_counts(self, job_id: str) -> None:
        """Do nothing: each process stores what it counts every second."""

    async def cancel(self, job_id: str) -> None:
        """Tell the processes of a job that was cancelled to stop.

        They would find out by themselves, but those that wait would begin first.
        """
        self._spawn(self._stop_all(job_id))

    async def _stop_all(self, job_id: str) -> None:
        for run_id, name in await self._database.read(runs.runs_of, job_id):
            self._tell(run_id, self._nodes.get(name))
        self.wake()

    def _tell(self, run_id: str, node: Node | None) -> None:
        self._told[run_id] = time.monotonic()
        if node is not None:
            self._spawn(node.cancel(run_id))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        if not isinstance(task.exception(), ServiceUnavailable):
            logger.error("work of the runner failed", exc_info=task.exception())

    async def _poll(self, node: Node) -> None:
        """Ask a node how it is; less often while there is nothing to do."""
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
        """End a run that is lost, or whose job is over; tell whether it has ended."""
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
        ended = await self._database.write_locking(
            runs.end_unstarted, run.job_id, run.id, reason
        )
        if ended:
            self._tell(run.id, node)
            logger.info("run %s at %s: %s", run.id, run.node, reason)
        return ended

    async def _has_process_ended(self, run: Run, node: Node | None) -> bool:
        if self._seen.pop(run.id, None) is not None and node is not None:
            node.works()
        if run.is_lost:
            ended = await self._database.write_locking(
                runs.end_lost, run.job_id, run.id
            )
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
        """Tell why the answer to a question will never come, None if it may."""
        if run.asked_by == self.owner:
            return None if run.id in self._asking else "nobody asks for it"
        return "who asked for it is gone" if run.is_lost else None

    def _why_not_waiting(
        self, run: Run, node: Node | None, read_at: float
    ) -> str | None:
        """Tell why a run that its node has taken will not begin, None if it may."""
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

    # -- asking ----------------------------------------------------------------------

    async def _ask_for(self, wanted: list[Demand], live: list[Run]) -> None:
        """Ask for the processes that jobs lack: first one for each, the oldest first."""
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
        """Tell whether ``others`` processes can have all of a job in flight."""
        return job.open <= others * self._at_once

    def _best(
        self,
        job: Demand,
        load: Counter[str],
        waiting: Counter[str],
        of_job: Counter[tuple[str, str]],
    ) -> Node | None:
        """Return the node with the least to do, rather one that the job is not on."""
        free = [
            node
            for node in self._nodes.values()
            if node.takes_runs and max(waiting[node.name], node.pending) < WAITING_AHEAD
        ]

        def burden(node: Node) -> tuple[int, int]:
            busy = max(load[node.name], node.pending + node.running)
            return of_job[job.id, node.name], busy

        return min(free, key=burden, default=None)

    async def _ask(self, job: Demand, slot: int, node: Node) -> bool:
        run_id = str(uuid.uuid4())
        self._asking.add(run_id)
        try:
            noted = await self._database.write_locking(
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

    async def _schedule(self, job: Demand, run_id: str, node: Node) -> None:
        try:
            await node.schedule(job.kind, job.id, run_id)
        except (NodeRefused, NodeSilent) as error:
            node.refused(error)
            await self._database.write_locking(
                runs.end_unstarted, job.id, run_id, str(error)
            )
            self._tell(run_id, node)
            self.wake()
        else:
            await self._database.write_locking(runs.accept, job.id, run_id)
        finally:
            self._asking.discard(run_id)
