"""Scrapyd nodes over their HTTP API: state, running processes, start and stop.

The operator sets their URLs, so the egress rules for pages do not apply.
"""

from __future__ import annotations

import json
import logging
import math
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import aiohttp

from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

POLL_TIMEOUT_S = 10
# A node first lists the project's spiders in a process. Meanwhile it does not respond.
ASK_TIMEOUT_S = 60
FIRST_REST_S = 5.0
LONGEST_REST_S = 300.0


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
        self.trouble: str | None = "it has not been asked yet"
        self._good_at = time.monotonic()
        self._polled_at = -math.inf
        self._rest_s = FIRST_REST_S
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

    @property
    def polled_s(self) -> float:
        """Seconds since the last poll began."""
        return time.monotonic() - self._polled_at

    async def poll(self) -> None:
        """Read the state of the node, and log changes."""
        begin = self._polled_at = time.monotonic()
        try:
            status = await self._call("daemonstatus.json")
            jobs = await self._call("listjobs.json", params={"project": self._project})
            pending, running = int(status["pending"]), int(status["running"])
            waiting = {job["id"] for kind in _LISTED for job in jobs[kind]}
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
        """Start no runs here for a while, since a run failed. The pause doubles."""
        if time.monotonic() < self._rests_until:
            return
        text = "node %s is given no jobs for %d s: %s"
        logger.warning(text, self.name, self._rest_s, reason)
        self._rests_until = time.monotonic() + self._rest_s
        self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)

    def works(self) -> None:
        """Note that a run has started here."""
        self._rest_s = FIRST_REST_S
        self._rests_until = -math.inf

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


_LISTED = ("pending", "running")


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
