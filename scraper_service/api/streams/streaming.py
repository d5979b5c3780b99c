"""Streams of a running job: their common base class and their limits."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from twisted.internet.interfaces import IPushProducer
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from scraper_service.api.responses import with_base
from scraper_service.errors import QueueFull, ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from scrapy.settings import BaseSettings

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.parameters import PublicUrls
    from scraper_service.api.request_checks import RequestChecks
    from scraper_service.services.accounts import Team
    from scraper_service.services.job_following import JobTails

ResultT = TypeVar("ResultT")

PIECE_BYTES = 128 * 2**10  # written at once; the next piece waits until it is sent
PAUSE_S = 0.05  # between two reads, which collects changes
RETRIES_S = (1, 2, 4, 8, 15)  # while the database is unavailable; then it is an error
CLOSE_S = 5.0  # for streams to end at shutdown
SLICE_S = 0.002  # of work, until other tasks may run

logger = logging.getLogger(__name__)


class Stalled(Exception):
    """Raised when a client stops reading or stops answering pings."""


class TimeSlice:
    """Lets other tasks run after each :data:`SLICE_S` of long work."""

    def __init__(self) -> None:
        self._end = time.monotonic() + SLICE_S

    @property
    def is_over(self) -> bool:
        """Return True if other tasks should run."""
        return time.monotonic() >= self._end

    async def take(self) -> None:
        """Let other tasks run if the slice is over."""
        if self.is_over:
            await asyncio.sleep(0)
            self._end = time.monotonic() + SLICE_S


@implementer(IPushProducer)
class SendBuffer:
    """The state of a connection's send buffer, which its transport sets."""

    def __init__(self, stall_s: float):
        self._stall_s = stall_s
        self._is_open = asyncio.Event()
        self._is_open.set()

    @property
    def is_open(self) -> bool:
        return self._is_open.is_set()

    async def wait(self) -> None:
        """Wait until written data is sent. Raises :exc:`Stalled` after a timeout."""
        if self.is_open:
            return
        try:
            async with asyncio.timeout(self._stall_s):
                await self._is_open.wait()
        except TimeoutError:
            raise Stalled from None

    def pauseProducing(self) -> None:
        self._is_open.clear()

    def resumeProducing(self) -> None:
        self._is_open.set()

    def stopProducing(self) -> None:
        """Do nothing: the request notices the end of its connection."""


class OpenStreams:
    """The open streams of a kind in this process.

    ``name`` is what messages call them. At most ``most`` are open, and ``most_of_team`` of
    one team.
    """

    def __init__(
        self,
        settings: BaseSettings,
        tails: JobTails,
        name: str,
        most: int,
        most_of_team: int,
    ):
        self.tails = tails
        self.ping_s = settings.getfloat("WATCHER_PING_S")
        self.stall_s = settings.getfloat("WATCHER_STALL_S")
        self._name = name
        self._most = most
        self._most_of_team = most_of_team
        self._open: dict[Stream, asyncio.Task[None]] = {}
        self._of_team: Counter[str] = Counter()
        self._closing = False

    @property
    def count(self) -> int:
        return len(self._open)

    def check(self, team: Team) -> None:
        """Raise :exc:`QueueFull` or :exc:`ServiceUnavailable` if no stream may open."""
        if self._closing:
            raise ServiceUnavailable("The service is stopping.")
        if self.count >= self._most:
            raise QueueFull(f"{self._most} {self._name} are open; no more are taken.")
        if self._of_team[team.id] >= self._most_of_team:
            raise QueueFull(
                f"{self._most_of_team} {self._name} of this team are open; close some."
            )

    def start(self, stream: Stream) -> None:
        """Run a stream until its end or :meth:`close`."""
        task = asyncio.ensure_future(stream.run())
        self._open[stream] = task
        team = stream.team.id if stream.team else ""
        self._of_team[team] += 1

        def forget(_: object) -> None:
            del self._open[stream]
            self._of_team[team] -= 1
            if not self._of_team[team]:
                del self._of_team[team]

        task.add_done_callback(forget)

    def stop(self, stream: Stream) -> None:
        """End a stream whose connection is closed."""
        if (task := self._open.get(stream)) is not None:
            task.cancel()

    async def close(self) -> None:
        """End all streams, with a message to reconnect."""
        self._closing = True
        open_now = dict(self._open)
        for stream, task in open_now.items():
            stream.is_stopping = True
            task.cancel()
        if open_now:
            await asyncio.wait(open_now.values(), timeout=CLOSE_S)


class Watchers(OpenStreams):
    """The open streams that follow jobs, and beside them exports and open browsers.

    Settings: ``MAX_WATCHERS``, ``MAX_TEAM_WATCHERS``, ``WATCHER_PING_S`` and
    ``WATCHER_STALL_S``; for exports ``MAX_EXPORTS`` and ``EXPORT_CONCURRENCY``.
    """

    def __init__(self, settings: BaseSettings, tails: JobTails):
        super().__init__(
            settings,
            tails,
            "watchers",
            settings.getint("MAX_WATCHERS"),
            settings.getint("MAX_TEAM_WATCHERS"),
        )
        self.exports = OpenStreams(
            settings,
            tails,
            "exports",
            settings.getint("MAX_EXPORTS"),
            settings.getint("EXPORT_CONCURRENCY"),
        )
        self.sessions = OpenStreams(
            settings,
            tails,
            "connections to browsers",
            settings.getint("MAX_WATCHERS"),
            settings.getint("MAX_TEAM_WATCHERS"),
        )

    async def close(self) -> None:
        await super().close()
        await self.exports.close()
        await self.sessions.close()


class Stream(Resource):
    """A response that a task writes as fast as the client reads.

    ``team`` is None for a stream that only reports why it is refused.
    """

    isLeaf = True
    request: JsonRequest

    def __init__(
        self,
        watchers: OpenStreams,
        checks: RequestChecks,
        urls: PublicUrls,
        job_id: str,
        team: Team | None,
    ):
        super().__init__()
        self.watchers = watchers
        self.tails = watchers.tails
        self.checks = checks
        self.urls = urls
        self.job_id = job_id
        self.team = team
        self.send_buffer = SendBuffer(watchers.stall_s)
        self.is_stopping = False
        self.is_gone = False
        self._beat_at = time.monotonic() + watchers.ping_s

    def render(self, request: Any) -> int:
        self.request = request
        self.transport = request.channel.transport
        request.notifyFinish().addBoth(self._on_lost)
        self.open()
        request.registerProducer(self.send_buffer, True)
        self.watchers.start(self)
        return NOT_DONE_YET

    def _on_lost(self, _: object) -> None:
        self.is_gone = True
        self.watchers.stop(self)

    async def run(self) -> None:
        """Write the whole stream and its end."""
        try:
            await self._run()
        except asyncio.CancelledError:
            if self.is_stopping and not self.is_gone:
                with suppress(Stalled):
                    await self.goodbye()
        except Stalled:
            self.cut()
        except Exception:
            logger.exception("a stream of job %s broke", self.job_id)
            self.cut()

    async def _run(self) -> None:
        try:
            await self.tell()
        except (asyncio.CancelledError, Stalled):
            raise
        except Exception as error:
            await self.fail(error)

    def with_base(self, parts: Sequence[bytes]) -> list[bytes]:
        """Return parts of a response with the service's URL in the URLs of files."""
        base = self.urls.base(self.request)
        return [with_base(part, base) for part in parts]

    def cut(self) -> None:
        """Abort the connection."""
        if not self.is_gone:
            self.transport.abortConnection()

    async def rest(self, changed: asyncio.Future[None] | None) -> None:
        """Wait for ``changed``; with None return at once.

        From time to time check the API key again and send a ping.
        """
        if changed is not None:
            await asyncio.sleep(PAUSE_S)
            await asyncio.shield(changed)
        if time.monotonic() >= self._beat_at:
            with suppress(ServiceUnavailable):  # not an error of the key
                await self.checks.recheck(self.request)
            await self.send_buffer.wait()
            self.beat()
            self._beat_at = time.monotonic() + self.watchers.ping_s

    async def patiently(self, read: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Return the result of ``read``; retry while the database is unavailable."""
        for wait_s in RETRIES_S:
            try:
                return await read()
            except ServiceUnavailable:
                await asyncio.sleep(wait_s)
        return await read()

    @abstractmethod
    def open(self) -> None:
        """Write the head of the response."""

    @abstractmethod
    async def tell(self) -> None:
        """Write all events and the end."""

    @abstractmethod
    async def fail(self, error: Exception) -> None:
        """Write the end after an error."""

    @abstractmethod
    async def goodbye(self) -> None:
        """Write the end at shutdown."""

    @abstractmethod
    def beat(self) -> None:
        """Write a ping or comment that keeps the connection open."""


def pieces(parts: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the joined parts in pieces of at most :data:`PIECE_BYTES`."""
    if sum(map(len, parts)) <= PIECE_BYTES:
        yield b"".join(parts)
        return
    for part in parts:
        for start in range(0, len(part), PIECE_BYTES):
            yield part[start : start + PIECE_BYTES]
