"""Runs crawls and batches on scrapyd: processes on nodes that share the job database.

A run is taken for a node, which gets a request to start a process; the process joins the
run. If its node does not start a run, it ends, and the job is taken again. The operator
sets the URLs of nodes, so the egress rules for pages do not apply.
"""

from __future__ import annotations

import json
import logging
import math
import time
from base64 import b64encode
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import aiohttp

from scraper_service.errors import ServiceUnavailable
from scraper_service.options.jobs import JOBS
from scraper_service.options.urls import url_parts
from scraper_service.services.job_runner import JobRunner
from scraper_service.storage.job_records import RunState
from scraper_service.storage.jobs import runs
from scraper_service.storage.jobs.runs import NodeRun

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Iterable

    from scrapy.crawler import AsyncCrawlerProcess

    from scraper_service.storage.database import Database
    from scraper_service.storage.jobs.runs import Taken, WaitingJob

logger = logging.getLogger(__name__)

POLL_TIMEOUT_S = 10
# A node first lists the project's spiders in a process. Meanwhile it does not respond.
ASK_TIMEOUT_S = 60
REST_S = 30.0  # of a node after a run that failed
NODE_POLL_S = 5.0  # between two polls of a node; below SILENT_S
WAITING_AHEAD = 4  # runs in the queue of a node; further jobs wait in the database
MOVE_S = 60.0  # that a run waits before it moves to a node with an empty queue
SILENT_S = 20.0  # without a response of a node, before its runs move elsewhere
STOP_S = 15.0  # for a process to end after its job, and between two stop requests


# -- nodes, by their HTTP API -----------------------------------------------------------


class NodeRefused(Exception):
    """Raised when a node refuses a run and will not start it."""


class NodeDown(NodeRefused):
    """Raised when a node cannot be reached. A later request may succeed."""


class NodeSilent(Exception):
    """Raised when a node did not respond. It may or may not start the run."""


def read_address(text: str) -> tuple[str, dict[str, str]]:
    """Return the URL of a node without user and password, and the headers with them.

    Raises :exc:`ValueError`, whose text has no password.
    """
    rule = (
        "SCRAPER_SCRAPYD_NODES must have URLs such as"
        " http://user:password@10.0.0.5:6800"
    )
    parts = url_parts(text.strip())
    host, port = parts.hostname, parts.port
    if parts.scheme not in {"http", "https"} or not host or parts.query:
        raise ValueError(rule)
    if (parts.username is None) != (parts.password is None):
        raise ValueError(f"{rule}: user and password go together, at {host}")
    name = f"[{host}]" if ":" in host else host
    name = f"{parts.scheme}://{name}" + (f":{port}" if port else "")
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return name + parts.path.rstrip("/"), headers


def read_addresses(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return headers by URL. Raises :exc:`ValueError`, also without any URL."""
    found = dict(read_address(text) for text in texts if text.strip())
    if not found:
        raise ValueError(
            "SCRAPER_SCRAPYD_NODES must name a node, as http://127.0.0.1:6800"
        )
    return found


class ScrapydNode:
    """A scrapyd node, with the results of its latest poll."""

    def __init__(self, name: str, headers: dict[str, str], project: str):
        #: Its URL without user and password.
        self.name = name
        #: Waiting processes of all projects.
        self.pending = 0
        #: Running processes of all projects.
        self.running = 0
        #: Ids of this project's waiting and running processes.
        self.listed: frozenset[str] = frozenset()
        #: Ids of this project's ended processes that the node remembers.
        self.finished: frozenset[str] = frozenset()
        #: Start of the latest poll (:func:`time.monotonic`).
        self.listed_at = -math.inf
        self._headers = headers
        self._project = project
        self._session: aiohttp.ClientSession | None = None
        #: Why the node takes no runs, as of the last poll; None if it takes them.
        self.trouble: str | None = "it has not been reached yet"
        self._good_at = time.monotonic()
        self._rests_until = -math.inf

    async def open(self) -> None:
        """Open the HTTP session. Needs a running loop."""
        self._session = aiohttp.ClientSession(
            headers=self._headers, cookie_jar=aiohttp.DummyCookieJar()
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def takes_runs(self) -> bool:
        return self.trouble is None and time.monotonic() >= self._rests_until

    @property
    def silent_s(self) -> float:
        """Seconds since the last successful poll."""
        return time.monotonic() - self._good_at

    async def poll(self) -> None:
        """Read the state of the node, and log changes."""
        begin = time.monotonic()
        try:
            status = await self._call("daemonstatus.json")
            jobs = await self._call("listjobs.json", params={"project": self._project})
            pending, running = int(status["pending"]), int(status["running"])
            waiting = {
                job["id"] for kind in ("pending", "running") for job in jobs[kind]
            }
            finished = {job["id"] for job in jobs["finished"]}
        except (NodeRefused, NodeSilent) as error:
            self._note(str(error))
        except (KeyError, TypeError, ValueError):
            self._note("it does not answer as scrapyd does")
        else:
            self.pending, self.running = pending, running
            self.listed, self.finished = frozenset(waiting), frozenset(finished)
            self.listed_at, self._good_at = begin, time.monotonic()
            self._note(None)

    def _note(self, trouble: str | None) -> None:
        if trouble and trouble != self.trouble:
            logger.warning("node %s takes no jobs: %s", self.name, trouble)
        elif self.trouble and not trouble:
            logger.info("node %s takes jobs", self.name)
        self.trouble = trouble

    def note_refusal(self, error: NodeRefused | NodeSilent) -> None:
        """Note that a run was refused, or had no response."""
        if isinstance(error, NodeDown):
            self._note(str(error))
        else:
            self.rest(str(error))

    def rest(self, reason: str) -> None:
        """Start no runs here for :data:`REST_S`, since a run failed."""
        if time.monotonic() < self._rests_until:
            return
        text = "node %s is given no jobs for %d s: %s"
        logger.warning(text, self.name, REST_S, reason)
        self._rests_until = time.monotonic() + REST_S

    async def schedule(self, spider: str, job_id: str, run_id: str) -> None:
        """Start a process for a job. It gets only the id of the job.

        Raises :exc:`NodeRefused` and :exc:`NodeSilent`; after the latter the process
        may still start.
        """
        form = {
            "project": self._project,
            "spider": spider,
            "jobid": run_id,
            "job_id": job_id,
        }
        await self._call("schedule.json", form, ASK_TIMEOUT_S)

    async def cancel(self, run_id: str) -> None:
        """Remove a run from the queue or stop its process. Failures are only logged.

        A process that is stopped twice ends without finishing its pages.
        """
        form = {"project": self._project, "job": run_id}
        try:
            await self._call("cancel.json", form)
        except (NodeRefused, NodeSilent) as error:
            logger.info("node %s did not stop %s: %s", self.name, run_id, error)

    async def _call(
        self,
        name: str,
        form: dict[str, str] | None = None,
        timeout_s: float = POLL_TIMEOUT_S,
        params: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        assert self._session is not None
        try:
            async with self._session.request(
                "GET" if form is None else "POST",
                f"{self.name}/{name}",
                data=form,
                params=params,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                allow_redirects=False,
            ) as answer:
                text = await answer.text()
                status = answer.status
        except aiohttp.ClientConnectorError as error:
            raise NodeDown(f"no connection: {error.os_error}") from error
        except TimeoutError as error:
            raise NodeSilent(f"no answer within {timeout_s} s") from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            raise NodeSilent(f"no answer: {type(error).__name__}") from error
        return _read(status, text)


def _read(status: int, text: str) -> dict[str, Any]:
    """Return a response of scrapyd. Its errors have status 200, too."""
    if status in {401, 403}:
        raise NodeRefused("user or password in SCRAPER_SCRAPYD_NODES is wrong")
    try:
        found = json.loads(text)
    except ValueError:
        raise NodeRefused(f"it answered {status} and no JSON") from None
    if not isinstance(found, dict) or found.get("status") != "ok":
        message = found.get("message") if isinstance(found, dict) else found
        lines = str(message).strip().splitlines() or [""]
        raise NodeRefused(f"it answered {status}: {lines[-1][:300]}")
    return found


# -- the runner -----------------------------------------------------------------------


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
        self._on_nodes: list[NodeRun] = []  # the runs of the last round, and later ones
        self._asking: set[str] = set()  # ids of runs with a start request in flight
        self._seen: dict[str, float] = {}  # when a run was first seen waiting
        self._told: dict[str, float] = {}  # when a process was last stopped

    @property
    def warnings(self) -> list[str]:
        """As above, and with the trouble of each node, if none of them takes runs."""
        troubles = {node.name: node.trouble for node in self._nodes.values()}
        if None in troubles.values():
            return super().warnings
        reasons = "; ".join(f"{name}: {why}" for name, why in troubles.items())
        text = f"No node of SCRAPER_SCRAPYD_NODES takes crawls and batches: {reasons}."
        return [*super().warnings, text]

    async def open(self) -> None:
        for node in self._nodes.values():
            await node.open()
            self._presence.every(NODE_POLL_S, node.poll)
        await super().open()

    async def close(self) -> None:
        """Take no more jobs. Processes on nodes go on."""
        await super().close()
        for node in self._nodes.values():
            await node.close()

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

    # -- rounds ----------------------------------------------------------------------

    async def _take_up(self) -> None:
        found = await self._database.read(runs.on_nodes)
        if any(run.is_lost for run in found):
            await self._database.write(runs.end_lost, self.owner)
        ids = {run.id for run in found}
        self._seen = {k: at for k, at in self._seen.items() if k in ids}
        self._told = {k: at for k, at in self._told.items() if k in ids}
        self._on_nodes = [run for run in found if not await self._judge(run)]
        await super()._take_up()

    async def _judge(self, run: NodeRun) -> bool:
        """End a run that will not start, and stop one that is over. Return True if it has ended."""
        if run.is_lost:
            if run.ended_s is None:
                text = "a process of job %s at %s shows no more signs of life"
                logger.warning(text, run.job_id, run.node)
            return True
        if run.state is RunState.RUNNING:
            self._seen.pop(run.id, None)
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
            return "another node is free"
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
            run.node for run in self._on_nodes if run.state is RunState.REQUESTED
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
            RunState.REQUESTED,
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
