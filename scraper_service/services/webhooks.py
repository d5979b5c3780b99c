"""Webhook deliveries: signed POST requests, repeated until the receiver responds.

Deliveries come from the outbox (:mod:`scraper_service.storage.webhooks`), and each is
sent at least once. First attempts keep the order of a job's events. A job waits only for
its own receiver.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import ssl
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from attrs import define, frozen
from multidict import CIMultiDict
from prometheus_client import Counter
from scrapy.exceptions import CannotResolveHostError

from scraper_service.crawling.egress import EgressPolicy, Refusals
from scraper_service.crawling.proxies import Proxies, resolve
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.urls import plain_address
from scraper_service.shared_objects import ChangePoll, repeat
from scraper_service.storage.job_records import DeliveryResult, event_id
from scraper_service.storage.webhooks import GONE, WebhookOutbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from scrapy.settings import BaseSettings

    from scraper_service.options.jobs import Webhook
    from scraper_service.storage.database import Database
    from scraper_service.storage.job_records import Delivery, DeliveryLease, Due, Event


class Signer:
    """Signs webhook deliveries with the secrets of a team.

    ``entries`` are secrets for all teams, or ``<team id>:<secret>`` for one team. A team
    with its own secrets uses only these. The first secret signs; further ones add
    signatures while receivers change secrets. Raises :exc:`ValueError`.
    """

    def __init__(self, entries: Iterable[str]):
        self._secrets: dict[str, list[bytes]] = {}
        for entry in entries:
            if not entry.strip():
                continue
            team_id, secret = _read(entry.strip())
            if not secret:
                raise ValueError("SCRAPER_WEBHOOK_SECRETS: a secret must not be empty")
            self._secrets.setdefault(team_id, []).append(secret.encode())

    def __repr__(self) -> str:
        return "<Signer>"

    def headers(self, team_id: str, timestamp: int, body: bytes) -> dict[str, str]:
        """Return the headers that sign ``body``; no headers without a secret.

        ``X-Firecrawl-Signature`` covers the body. ``X-Scraper-Signature`` also covers the
        timestamp, so that an old delivery cannot be replayed as a new one. See
        docs/api/events.md, Webhooks.
        """
        secrets = self._secrets.get(team_id) or self._secrets.get("")
        if not secrets:
            return {}
        signed = [_digest(secret, b"%d." % timestamp, body) for secret in secrets]
        versions = ",".join(f"v1={digest}" for digest in signed)
        return {
            "X-Firecrawl-Signature": f"sha256={_digest(secrets[0], body)}",
            "X-Scraper-Signature": f"t={timestamp},{versions}",
        }


def _read(entry: str) -> tuple[str, str]:
    front, colon, secret = entry.partition(":")
    try:
        return (str(uuid.UUID(front)), secret) if colon else ("", entry)
    except ValueError:
        return "", entry  # a secret that contains a colon


def _digest(secret: bytes, *parts: bytes) -> str:
    signature = hmac.new(secret, digestmod="sha256")
    for part in parts:
        signature.update(part)
    return signature.hexdigest()


logger = logging.getLogger(__name__)

DELIVERIES = Counter(
    "scraper_webhook_deliveries_total",
    "Attempts to deliver a webhook: delivered, failed.",
    ["result"],
)

POLL_S = 0.5  # between two reads of the outbox: other processes add to it too
PAUSE_BETWEEN_S = 0.05  # least pause between two reads, which collects events
MAX_SENDING = 128  # jobs whose deliveries one process sends at a time
MAX_SENDING_SICK = MAX_SENDING // 2  # of these, for receivers without responses
TURN_S = 5.0  # of a job, before other jobs are sent
FLUSH_S = 0.2  # between two writes of results
#: Errors of an attempt without a response.
FAILURES = (OSError, ValueError, aiohttp.ClientError, CannotResolveHostError)
NOT_MADE = "not sent: an error of the service, which its log describes"
NOT_STORED = "not sent: what the event reports is no longer stored"
MISSES = 5  # attempts without a response in a row, before a receiver is paused
PAUSE_S = 10.0  # length of this pause
CLOSE_S = 2.0  # for running attempts at shutdown
KEEPALIVE_S = 2  # receivers close idle connections too, some after 5 s
MAX_RECEIVERS = 1000  # that are remembered
ANSWER_BYTES = 64 * 1024  # read of a response
KEPT_BYTES = 4096  # of these are stored
ANSWER_S = 1.0  # for reading this
SLICE_BYTES = 64 * 1024  # of a body, written to the transport at once
READ_AT_ONCE = 4  # bodies, one per reader thread
LOG_EVERY_S = 60.0  # least time between two lines about one receiver


@define(eq=False)
class _Receiver:
    """A host and port that deliveries are sent to: its jobs and its missed responses."""

    sending: int = 0  # jobs whose deliveries are sent to it now
    misses: int = 0
    opens_at: float = 0.0
    #: Failed attempts without a line in the log, and when the next line may come.
    unlogged: int = 0
    log_at: float = 0.0

    @property
    def is_shut(self) -> bool:
        return self.misses >= MISSES and time.monotonic() < self.opens_at

    def note(self, *, answered: bool) -> None:
        """Count an attempt with or without a response."""
        self.misses = 0 if answered else self.misses + 1
        if self.misses >= MISSES:
            self.opens_at = time.monotonic() + PAUSE_S

    def log(self, lease: DeliveryLease, answer: DeliveryResult) -> None:
        """Log a failed attempt, or count it if a line has come lately.

        Only the host of the URL is logged: the rest may be secret.
        """
        if (now := time.monotonic()) < self.log_at:
            self.unlogged += 1
            return
        others = (
            f"; {self.unlogged} others since the last line" if self.unlogged else ""
        )
        logger.warning(
            "a webhook delivery of job %s to %s failed: %s%s",
            *(lease.job_id, lease.receiver, answer.error, others),
        )
        self.unlogged, self.log_at = 0, now + LOG_EVERY_S


class _Room:
    """Limits the memory of large bodies while they are sent, in the order of their requests.

    Small bodies are free.
    """

    def __init__(self, size: int):
        self._size = self._left = size
        self._freed = asyncio.Event()
        self._line = asyncio.Lock()  # else the largest body might wait for ever

    async def take(self, length: int) -> int:
        """Wait until a body of ``length`` bytes fits; return the bytes to give back.

        A body larger than the limit is sent alone.
        """
        if length <= SLICE_BYTES:
            return 0
        async with self._line:
            while (share := self._take(length)) is None:
                self._freed.clear()
                await self._freed.wait()
            return share

    def take_now(self, length: int) -> int | None:
        """Do as :meth:`take` if the body fits at once, else return None."""
        if length <= SLICE_BYTES:
            return 0
        return None if self._line.locked() else self._take(length)

    def _take(self, length: int) -> int | None:
        share = min(length, self._size)
        if self._left < share:
            return None
        self._left -= share
        return share

    def give_back(self, share: int) -> None:
        self._left += share
        self._freed.set()


@frozen
class _Message:
    """Body and headers of a delivery."""

    body: bytes
    headers: CIMultiDict[str]


class Webhooks:
    """Sends the deliveries of the outbox, together with other processes.

    ``shape`` returns the body of an event, with the webhook's metadata. Raises
    :exc:`ValueError` for invalid settings.
    """

    def __init__(
        self,
        settings: BaseSettings,
        database: Database,
        shape: Callable[[Event, Webhook], bytes],
    ):
        self._outbox = WebhookOutbox(database)
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
        self._proxied: aiohttp.ClientSession | None = None
        self._proxies = Proxies.shared(settings)
        self._loop: asyncio.Task[None] | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._receivers: dict[str, _Receiver] = {}
        self._wanted = asyncio.Event()
        self._poll = ChangePoll(database.version)
        self._next_at = math.inf  # monotonic time at which the next retry is due
        self._closing = False

    def open(self) -> None:
        """Start to send."""
        self._session = self._open_session(self._egress.open_socket)
        # The outgoing proxy may be in a network that receivers must not be in.
        self._proxied = self._open_session(None)
        rounds = repeat(
            POLL_S,
            self._begin_sending,
            "the outbox could not be read",
            wanted=self._wanted,
            is_due=self._may_find_some,
        )
        self._loop = asyncio.ensure_future(rounds)

    def _open_session(self, open_socket: Any) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,  # MAX_SENDING is the limit
                keepalive_timeout=KEEPALIVE_S,
                socket_factory=open_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
        )

    async def close(self) -> None:
        """Stop soon. Deliveries without a response are sent again later."""
        self._closing = True
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
        if self._sending:
            _, late = await asyncio.wait(self._sending.values(), timeout=CLOSE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CLOSE_S)
        for session in (self._session, self._proxied):
            if session is not None:
                await session.close()

    def wake(self) -> None:
        """Read the outbox at once."""
        self._wanted.set()

    async def delivery(self, job_id: str, seq: int) -> Delivery | None:
        """Return a delivery with its body, None for an unknown number."""
        async with self._reading:
            return await self._outbox.delivery(job_id, seq, self._shape)

    # -- rounds ----------------------------------------------------------------------

    def _may_find_some(self) -> bool:
        return self._poll.is_due() or time.monotonic() >= self._next_at

    async def _begin_sending(self) -> None:
        await asyncio.sleep(PAUSE_BETWEEN_S)
        self._wanted.clear()  # what has set it meanwhile is read now
        free = MAX_SENDING - len(self._sending)
        if not free:
            return
        sick = sum(r.sending for r in self._receivers.values() if r.misses)
        busy = [k for k, r in self._receivers.items() if self._is_busy(r, sick)]
        due, next_s = await self._outbox.due_jobs(busy, free)
        self._next_at = time.monotonic() + next_s
        for job_id, host in due:
            receiver = self._receiver(host)
            if job_id in self._sending or self._is_busy(receiver, sick):
                continue
            sick += receiver.misses > 0
            receiver.sending += 1
            self._sending[job_id] = asyncio.ensure_future(
                self._send_job(job_id, receiver)
            )

    def _is_busy(self, receiver: _Receiver, sick: int) -> bool:
        """Return True if no further job may send to a receiver now.

        ``sick`` is the number of jobs that send to receivers without responses. They
        get at most :data:`MAX_SENDING_SICK`, so that others are not delayed.
        """
        if receiver.misses:
            return receiver.sending >= 1 or sick >= MAX_SENDING_SICK
        return receiver.sending >= self._at_once

    def _receiver(self, host: str) -> _Receiver:
        if host not in self._receivers and len(self._receivers) >= MAX_RECEIVERS:
            self._receivers = {k: r for k, r in self._receivers.items() if r.sending}
        return self._receivers.setdefault(host, _Receiver())

    async def _send_job(self, job_id: str, receiver: _Receiver) -> None:
        """Send the due deliveries of a job for at most :data:`TURN_S`."""
        try:
            lease = await self._outbox.lease(job_id, self._lease_s)
            if lease is not None:
                await self._send(lease, receiver)
        except (asyncio.CancelledError, ServiceUnavailable):
            pass  # the lease ends, and the deliveries are sent again
        except Exception:
            logger.exception("events of job %s could not be sent", job_id)
        finally:
            receiver.sending -= 1
            del self._sending[job_id]
            self.wake()

    async def _send(self, lease: DeliveryLease, receiver: _Receiver) -> None:
        answers: list[DeliveryResult] = []
        started = flushed = time.monotonic()
        try:
            for due in lease.due:
                if self._closing or time.monotonic() > started + TURN_S:
                    break
                answer = await self._guarded_attempt(lease, due, receiver)
                if answer is None:
                    done, answers = answers, []
                    if not await self._record(lease, done, self._lease_s):
                        return  # the job was deleted
                    answer = _failure(due, NOT_STORED, is_final=True)
                answers.append(answer)
                DELIVERIES.labels("delivered" if answer.is_ok else "failed").inc()
                if not answer.is_ok:
                    receiver.log(lease, answer)
                if answer.status == GONE:
                    break
                if time.monotonic() > flushed + FLUSH_S:
                    done, answers = answers, []
                    if not await self._record(lease, done, self._lease_s):
                        logger.warning("the events of %s were taken over", lease.job_id)
                        return
                    flushed = time.monotonic()
        finally:
            await self._record(lease, answers, None)

    async def _record(
        self, lease: DeliveryLease, answers: list[DeliveryResult], lease_s: float | None
    ) -> bool:
        return await self._outbox.record(lease, answers, self._retries_s, lease_s)

    # -- one attempt -----------------------------------------------------------------

    async def _guarded_attempt(
        self, lease: DeliveryLease, due: Due, receiver: _Receiver
    ) -> DeliveryResult | None:
        """Do as :meth:`_attempt`. An unexpected error is a failed attempt.

        So such a delivery ends after its retries, and others of the job do not wait for it.
        """
        try:
            return await self._attempt(lease, due, receiver)
        except ServiceUnavailable:
            raise
        except Exception:
            if self._closing:
                raise
            logger.exception("event %d of job %s was not sent", due.seq, lease.job_id)
            return _failure(due, NOT_MADE)

    async def _attempt(
        self, lease: DeliveryLease, due: Due, receiver: _Receiver
    ) -> DeliveryResult | None:
        """Send one event and return the result; None if the event is no longer stored."""
        at = time.time()
        if lease.hook is None or lease.trouble is not None:
            return _failure(due, lease.trouble or NOT_MADE)
        if receiver.is_shut:
            text = f"not sent: the receiver did not answer {MISSES} times in a row"
            return _failure(due, text)
        message, share = await self._take_message(lease, lease.hook, due)
        try:
            if message is None:
                return None
            started = time.monotonic()
            with Refusals() as refusals:
                status, error, kept = await self._post(lease.hook.url, message)
        finally:
            self._room.give_back(share)
        is_refused = status is None and bool(refusals.errors)
        if not is_refused:
            receiver.note(answered=status is not None)
        return DeliveryResult(
            seq=due.seq,
            at=at,
            duration_ms=round((time.monotonic() - started) * 1000),
            status=status,
            error="the address must not be reached from here" if is_refused else error,
            is_final=is_refused or status == GONE,
            response=kept,
        )

    async def _post(
        self, url: str, message: _Message
    ) -> tuple[int | None, str | None, str | None]:
        """Return status, error and start of the response; None for each if absent."""
        session = self._session
        body: Any = message.body
        if len(body) > SLICE_BYTES:
            body = _slices(body)
        way: dict[str, Any] = {}
        try:
            if (proxy := self._proxies.outgoing(url)) is not None:
                await resolve(self._egress, url, proxy)
                session, way = self._proxied, proxy.for_aiohttp()
            assert session is not None
            async with session.post(
                yarl.URL(plain_address(url), encoded=True),
                data=body,
                headers=message.headers,
                allow_redirects=False,
                **way,
            ) as response:
                start = await _start_of(response)
                return response.status, _fault(response.status), start
        except FAILURES as error:
            logger.debug("a webhook delivery failed: %r", error)
            return None, _cause(error, self._timeout_s), None

    async def _take_message(
        self, lease: DeliveryLease, hook: Webhook, due: Due
    ) -> tuple[_Message | None, int]:
        """Return a message, None if its event is gone, and the bytes to give back.

        A body that does not fit is read again when it fits. Until then it takes neither
        memory nor a reader from other deliveries.
        """
        message = await self._read_message(lease, hook, due)
        if message is None:
            return None, 0
        length = len(message.body)
        share = self._room.take_now(length)
        if share is None:
            del message
            share = await self._room.take(length)
            try:
                message = await self._read_message(lease, hook, due)
            except BaseException:
                self._room.give_back(share)
                raise
        return message, share

    async def _read_message(
        self, lease: DeliveryLease, hook: Webhook, due: Due
    ) -> _Message | None:
        async with self._reading:
            return await self._outbox.read_event(
                lease.job_id, due.seq, partial(self._message, lease, hook, due)
            )

    def _message(
        self, lease: DeliveryLease, hook: Webhook, due: Due, event: Event
    ) -> _Message:
        """Return body and headers of an event. Runs in a reader thread."""
        body = self._shape(event, hook)
        headers = CIMultiDict({"User-Agent": self._user_agent})
        for name, value in hook.headers:
            headers[name] = value
        timestamp = int(time.time())
        headers.update(
            {
                "Content-Type": "application/json",
                "Content-Length": str(len(body)),
                "X-Scraper-Event-Id": event_id(lease.job_id, due.seq),
                "X-Scraper-Sequence": str(due.seq),
                "X-Scraper-Attempt": str(due.attempt),
                "X-Scraper-Timestamp": str(timestamp),
                **self._signer.headers(lease.team_id, timestamp, body),
            }
        )
        return _Message(body, headers)


def _failure(due: Due, error: str, *, is_final: bool = False) -> DeliveryResult:
    """Return the result of an attempt that sent nothing."""
    return DeliveryResult(seq=due.seq, at=time.time(), error=error, is_final=is_final)


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), SLICE_BYTES):
        yield body[start : start + SLICE_BYTES]


async def _start_of(response: aiohttp.ClientResponse) -> str:
    """Return the first :data:`KEPT_BYTES` of a response as text.

    Reads a short response to its end, so that its connection can be reused.
    """
    left, kept = ANSWER_BYTES, b""
    is_whole = False
    try:
        async with asyncio.timeout(ANSWER_S):
            async for piece in response.content.iter_any():
                kept += piece[: KEPT_BYTES - len(kept)]
                left -= len(piece)
                if left < 0:
                    break
            else:
                is_whole = True
    except (TimeoutError, aiohttp.ClientError):
        pass  # only the status counts, and it has arrived
    if not is_whole:
        response.close()
    # PostgreSQL stores no NUL.
    return kept.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _fault(status: int) -> str | None:
    """Return why a status counts as failure, None for success."""
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answered {status}; redirects are not followed"
    return f"answered {status}"


def _cause(error: Exception, timeout_s: float) -> str:
    """Return why no response came, without IP addresses, which stay private."""
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, aiohttp.ClientConnectorDNSError | CannotResolveHostError):
        return "the name of the host does not resolve"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "no secure connection could be made"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "no connection could be made"
    return "the connection ended without a response"
