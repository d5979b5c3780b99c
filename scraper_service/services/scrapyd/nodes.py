"""Nodes of scrapyd, over its HTTP API: how they are, what they run, start and stop.

Their addresses are the operator's, so the rule about where pages may come from does
not hold for them.
"""

from __future__ import annotations

import json
import logging
import math
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

POLL_TIMEOUT_S = 10
# A node lists the spiders of the project first, in a process, and answers nobody else.
ASK_TIMEOUT_S = 60
FIRST_REST_S = 5.0
LONGEST_REST_S = 300.0


class NodeRefused(Exception):
    """A node does not take a run, and will not begin it."""


class NodeDown(NodeRefused):
    """A node cannot be reached; as soon as it can, it may be asked again."""


class NodeSilent(Exception):
    """A node did not answer: nobody knows whether it takes the run."""


def read_address(text: str) -> tuple[str, dict[str, str]]:
    """Return the address of a node without its password, and headers that have it.

    Raises :exc:`ValueError`, which names no password.
    """
    rule = (
        "SCRAPER_SCRAPYD_NODES must have addresses such as"
        " http://user:password@10.0.0.5:6800"
    )
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"{rule}, with a port that is a number") from None
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
    """Return headers by address; raises :exc:`ValueError`, for none, too."""
    found = dict(read_address(text) for text in texts if text.strip())
    if not found:
        raise ValueError(
            "SCRAPER_SCRAPYD_NODES must name a node, as http://127.0.0.1:6800"
        )
    return found


class Node:
    """One node. ``name`` is its address, without user and password.

    ``pending`` and ``running`` are processes of all projects, ``listed`` the ids of
    those of ours that wait or run, ``finished`` of those that it remembers; they are
    what the poll that began at ``listed_at`` (:func:`time.monotonic`) has found.
    """

    def __init__(self, name: str, headers: dict[str, str], project: str):
        self.name = name
        self.pending = 0
        self.running = 0
        self.listed: frozenset[str] = frozenset()
        self.finished: frozenset[str] = frozenset()
        self.listed_at = -math.inf
        self._headers = headers
        self._project = project
        self._session: aiohttp.ClientSession | None = None
        self._trouble: str | None = "it has not been asked yet"
        self._good_at = time.monotonic()
        self._polled_at = -math.inf
        self._rest_s = FIRST_REST_S
        self._rests_until = -math.inf

    async def open(self) -> None:
        """Make ready to ask; needs a running loop."""
        self._session = aiohttp.ClientSession(
            headers=self._headers, cookie_jar=aiohttp.DummyCookieJar()
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def takes_runs(self) -> bool:
        return self._trouble is None and time.monotonic() >= self._rests_until

    @property
    def silent_s(self) -> float:
        """For how long it has not answered."""
        return time.monotonic() - self._good_at

    @property
    def polled_s(self) -> float:
        """Seconds since the last poll began."""
        return time.monotonic() - self._polled_at

    async def poll(self) -> None:
        """Find out how the node is; a change is logged."""
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
        if trouble and trouble != self._trouble:
            logger.warning("node %s takes no jobs: %s", self.name, trouble)
        elif self._trouble and not trouble:
            logger.info("node %s takes jobs", self.name)
        self._trouble = trouble

    def refused(self, error: NodeRefused | NodeSilent) -> None:
        """Note that a run was not taken, or perhaps not."""
        if isinstance(error, NodeDown):
            self._note(str(error))
        else:
            self.rest(str(error))

    def rest(self, reason: str) -> None:
        """Ask for nothing for a while: a run could not begin here. Longer each time."""
        if time.monotonic() < self._rests_until:
            return
        text = "node %s is given no jobs for %d s: %s"
        logger.warning(text, self.name, self._rest_s, reason)
        self._rests_until = time.monotonic() + self._rest_s
        self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)

    def works(self) -> None:
        """Note that a run began here."""
        self._rest_s = FIRST_REST_S
        self._rests_until = -math.inf

    async def schedule(self, spider: str, job_id: str, run_id: str) -> None:
        """Have a process work on a job; only its id is told.

        Raises :exc:`NodeRefused`, and :exc:`NodeSilent`, after which it may begin yet.
        """
        form = {
            "project": self._project,
            "spider": spider,
            "jobid": run_id,
            "job_id": job_id,
        }
        await self._call("schedule.json", form, ASK_TIMEOUT_S)

    async def cancel(self, run_id: str) -> None:
        """Take a run out of the queue, or tell its process to stop; no matter if not.

        A process that is told again stops without finishing its pages.
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
    """Return what scrapyd said; its errors have status 200, too."""
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
