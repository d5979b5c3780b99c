"""Events of jobs to their receivers: signed POSTs, repeated until they are answered.

Reads the outbox (:mod:`scraper_service.storage.webhook_outbox`), at least once per event. A
job's first attempts keep their order; jobs wait for none but their own receiver.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from attrs import define, frozen
from multidict import CIMultiDict

from scraper_service.crawling.download.egress import EgressPolicy, Refusals
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.origins import plain_address
from scraper_service.services.webhook_signatures import Signer
from scraper_service.storage import webhook_outbox
from scraper_service.storage.job_records import Answer, event_id
from scraper_service.storage.webhook_outbox import GONE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.settings import BaseSettings
    from sqlalchemy import Connection

    from scraper_service.options.jobs import Webhook
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Due, Event, Turn

logger = logging.getLogger(__name__)

POLL_S = 0.5  # for events of all processes
PAUSE_BETWEEN_S = (
    0.05  # two looks at the outbox: events that come meanwhile share a turn
)
LANES = 128  # jobs whose events are sent at a time by one process
SICK_LANES = LANES // 2  # of receivers whose last attempt had no answer
TURN_S = 5.0  # of a job, before others have theirs
FLUSH_S = 0.2  # between two writes of what was answered
MISSES = 5  # attempts without an answer in a row, before a receiver is left alone
PAUSE_S = 10.0  # for so long
CLOSE_S = 2.0  # for attempts under way at shutdown
KEEPALIVE_S = 2  # receivers close idle connections too, some after 5 s
MAX_RECEIVERS = 1000  # that are remembered
ANSWER_BYTES = 64 * 1024  # read of an answer, and dropped
ANSWER_S = 1.0
SLICE_BYTES = 64 * 1024  # of a body, handed to the transport at once
READ_AT_ONCE = 4  # bodies, as there are threads that read


@define(eq=False)
class _Receiver:
    """Host and port that events are sent to: jobs in their turn, attempts without answer."""

    lanes: int = 0
    misses: int = 0
    opens_at: float = 0.0

    @property
    def is_shut(self) -> bool:
        return self.misses >= MISSES and time.monotonic() < self.opens_at

    def note(self, *, answered: bool) -> None:
        """Take down whether an attempt was answered."""
        self.misses = 0 if answered else self.misses + 1
        if self.misses >= MISSES:
            self.opens_at = time.monotonic() + PAUSE_S


class _Room:
    """The bytes that large bodies may take while they are sent; small ones are free."""

    def __init__(self, size: int):
        self._size = self._left = size
        self._freed = asyncio.Event()

    async def take(self, length: int) -> int:
        """Wait until a body of ``length`` fits; return what is to be given back.

        One that is larger than all the room has it alone.
        """
        if length <= SLICE_BYTES:
            return 0
        share = min(length, self._size)
        while self._left < share:
            self._freed.clear()
            await self._freed.wait()
        self._left -= share
        return share

    def give_back(self, share: int) -> None:
        self._left += share
        self._freed.set()


@frozen
class _Message:
    """An event as it is sent."""

    body: bytes
    headers: CIMultiDict[str]


class Webhooks:
    """Sends what is in the outbox, together with other processes.

    ``shape`` makes the body of an event, with the webhook's metadata. Raises
    :exc:`ValueError` for settings that cannot be used.
    """

    def __init__(
        self,
        settings: BaseSettings,
        database: Database,
        shape: Callable[[Event, Webhook], bytes],
    ):
        self._database = database
        self._shape = shape
        self._signer = Signer(settings.getlist("WEBHOOK_SECRETS"))
        self._egress = EgressPolicy(settings.getlist("EGRESS_ALLOW"))
        self._user_agent: str = settings["USER_AGENT"]
        self._timeout_s = settings.getfloat("WEBHOOK_TIMEOUT_S")
        self._lease_s = self._timeout_s + settings.getfloat("LEASE_S")
        self._retries_s = [float(s) for s in settings.getlist("WEBHOOK_RETRY_S")]
        self._at_once = settings.getint("WEBHOOK_CONCURRENCY")
        self._room = _Room(settings.getint("WEBHOOK_BODIES_MB") * 2**20)
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.Task[None] | None = None
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._receivers: dict[str, _Receiver] = {}
        self._wanted = asyncio.Event()
        self._closing = False

    def open(self) -> None:
        """Begin to send."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # the lanes are the limit
                keepalive_timeout=KEEPALIVE_S,
                socket_factory=self._egress.open_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
        )
        self._loop = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """End attempts under way, soon; what was not answered is sent again."""
        self._closing = True
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
        if self._lanes:
            _, late = await asyncio.wait(self._lanes.values(), timeout=CLOSE_S)
            for lane in late:
                lane.cancel()
            if late:
                await asyncio.wait(late, timeout=CLOSE_S)
        if self._session is not None:
            await self._session.close()

    def wake(self) -> None:
        """Look at the outbox at once."""
        self._wanted.set()

    # -- turns -----------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            try:
                await self._begin_turns()
            except ServiceUnavailable:
                pass  # logged where it was raised; the next turn tries again
            except Exception:
                logger.exception("the outbox could not be read")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), POLL_S)
            await asyncio.sleep(PAUSE_BETWEEN_S)

    async def _begin_turns(self) -> None:
        room = LANES - len(self._lanes)
        if not room:
            return
        sick = sum(r.lanes for r in self._receivers.values() if r.misses)
        busy = [k for k, r in self._receivers.items() if self._is_busy(r, sick)]
        for job_id, host in await self._database.read(
            webhook_outbox.due_jobs, busy, room
        ):
            receiver = self._receiver(host)
            if job_id in self._lanes or self._is_busy(receiver, sick):
                continue
            sick += receiver.misses > 0
            receiver.lanes += 1
            self._lanes[job_id] = asyncio.ensure_future(self._lane(job_id, receiver))

    def _is_busy(self, receiver: _Receiver, sick: int) -> bool:
        """Tell whether no further job may be sent to a receiver now.

        ``sick`` are the lanes of all those that do not answer: some are left to others.
        """
        if receiver.misses:
            return receiver.lanes >= 1 or sick >= SICK_LANES
        return receiver.lanes >= self._at_once

    def _receiver(self, host: str) -> _Receiver:
        if host not in self._receivers and len(self._receivers) >= MAX_RECEIVERS:
            self._receivers = {k: r for k, r in self._receivers.items() if r.lanes}
        return self._receivers.setdefault(host, _Receiver())

    async def _lane(self, job_id: str, receiver: _Receiver) -> None:
        """Have one turn of a job."""
        try:
            turn = await self._database.write_locking(
                webhook_outbox.take, job_id, self._lease_s
            )
            if turn is not None:
                await self._send(turn, receiver)
        except (asyncio.CancelledError, ServiceUnavailable):
            pass  # the lease ends, and the turn is taken again
        except Exception:
            logger.exception("events of job %s could not be sent", job_id)
        finally:
            receiver.lanes -= 1
            del self._lanes[job_id]
            self.wake()

    async def _send(self, turn: Turn, receiver: _Receiver) -> None:
        answers: list[Answer] = []
        started = flushed = time.monotonic()
        try:
            for due in turn.due:
                if self._closing or time.monotonic() > started + TURN_S:
                    break
                answer = await self._attempt(turn, due, receiver)
                if answer is None:
                    break
                answers.append(answer)
                if answer.status == GONE:
                    break
                if time.monotonic() > flushed + FLUSH_S:
                    done, answers = answers, []
                    if not await self._record(turn, done, self._lease_s):
                        logger.warning("the events of %s were taken over", turn.job_id)
                        return
                    flushed = time.monotonic()
        finally:
            await self._record(turn, answers, None)

    async def _record(
        self, turn: Turn, answers: list[Answer], lease_s: float | None
    ) -> bool:
        return await self._database.write_locking(
            webhook_outbox.record,
            turn.job_id,
            turn.token,
            answers,
            self._retries_s,
            lease_s,
        )

    # -- one attempt -----------------------------------------------------------------

    async def _attempt(
        self, turn: Turn, due: Due, receiver: _Receiver
    ) -> Answer | None:
        """Return what came of sending an event; None if the job is gone."""
        at = time.time()
        if turn.trouble is not None:
            return Answer(seq=due.seq, at=at, error=turn.trouble)
        if receiver.is_shut:
            text = f"not sent: the receiver did not answer {MISSES} times in a row"
            return Answer(seq=due.seq, at=at, error=text)
        async with self._reading:
            message = await self._database.read(self._message, turn, due)
            if message is None:
                return None
            share = await self._room.take(len(message.body))
        try:
            started = time.monotonic()
            with Refusals() as refusals:
                status, error = await self._post(turn.hook.url, message)
        finally:
            self._room.give_back(share)
        is_refused = status is None and bool(refusals.errors)
        if not is_refused:
            receiver.note(answered=status is not None)
        return Answer(
            seq=due.seq,
            at=at,
            duration_ms=round((time.monotonic() - started) * 1000),
            status=status,
            error="the address must not be reached from here" if is_refused else error,
            is_final=is_refused or status == GONE,
        )

    async def _post(self, url: str, message: _Message) -> tuple[int | None, str | None]:
        """Return the status of the answer, if one came, and what is wrong with it."""
        assert self._session is not None
        body: Any = message.body
        if len(body) > SLICE_BYTES:
            body = _slices(body)
        try:
            async with self._session.post(
                yarl.URL(plain_address(url), encoded=True),
                data=body,
                headers=message.headers,
                allow_redirects=False,
            ) as response:
                await _drop(response)
                return response.status, _fault(response.status)
        except (OSError, ValueError, aiohttp.ClientError) as error:
            logger.debug("an event was not delivered: %r", error)
            return None, _cause(error, self._timeout_s)

    def _message(self, connection: Connection, turn: Turn, due: Due) -> _Message | None:
        """Make body and headers of an event, in a reader thread."""
        event = webhook_outbox.read_event(connection, turn.job_id, due.seq)
        if event is None:
            return None
        body = self._shape(event, turn.hook)
        headers = CIMultiDict({"User-Agent": self._user_agent})
        for name, value in turn.hook.headers:
            headers[name] = value
        timestamp = int(time.time())
        headers.update(
            {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                "X-Scraper-Event-Id": event_id(turn.job_id, due.seq),
                "X-Scraper-Sequence": str(due.seq),
                "X-Scraper-Attempt": str(due.attempt),
                "X-Scraper-Timestamp": str(timestamp),
                **self._signer.headers(turn.team_id, timestamp, body),
            }
        )
        return _Message(body, headers)


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), SLICE_BYTES):
        yield body[start : start + SLICE_BYTES]


async def _drop(response: aiohttp.ClientResponse) -> None:
    """Read an answer so that its connection can be used again, if it is short."""
    left = ANSWER_BYTES
    try:
        async with asyncio.timeout(ANSWER_S):
            async for piece in response.content.iter_any():
                left -= len(piece)
                if left < 0:
                    break
            else:
                return
    except (TimeoutError, aiohttp.ClientError):
        pass  # the status came, which is all that counts
    response.close()


def _fault(status: int) -> str | None:
    """Return what is wrong with an answer, None for nothing."""
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answered {status}; redirects are not followed"
    return f"answered {status}"


def _cause(error: Exception, timeout_s: float) -> str:
    """Return why no answer came; without addresses, which are nobody's business."""
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name of the host does not resolve"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "no secure connection could be made"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "no connection could be made"
    return "the connection ended without an answer"
