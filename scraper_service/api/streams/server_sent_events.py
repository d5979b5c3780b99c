"""The events of a job as Server-Sent Events (interface document, 20.6).

The format is that of the HTML standard, section 9.2: ``id`` is the number of an event,
``event`` and ``data`` are type and body of a delivery to a webhook.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from scraper_service.api.errors import answer_to
from scraper_service.api.routes import jobs
from scraper_service.api.streams.streaming import Stream, pieces
from scraper_service.api.webhook_payloads import body_parts, event_type
from scraper_service.errors import InvalidParameter
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import Api
    from scraper_service.services.accounts import Team
    from scraper_service.storage.job_records import Event

MAX_DIGITS = 18  # of a number; the database's go up to 2**63
END_RETRY_MS = 3_600_000  # a browser comes again after every end: here in vain


async def follow(api: Api, request: JsonRequest, job_id: str) -> EventStream:
    """Return the answer that tells the events of a job behind the one named.

    Raises :exc:`InvalidParameter`, and what is raised where no more watchers are taken.
    """
    team, _ = await api.edge.admit(request, Mode.CRAWL_STATUS)
    found, after = jobs.job_id(job_id), last_event(request)
    await api.watchers.tails.check_event(found, team, after)
    api.watchers.check(team)
    return EventStream(api, found, team, after)


def last_event(request: JsonRequest) -> int:
    """Return the number in ``Last-Event-ID``, else in ``lastEventId`` of the query.

    0 where neither is given. Raises :exc:`InvalidParameter`.
    """
    text = request.header("Last-Event-ID") or jobs.argument(request, "lastEventId")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise InvalidParameter(
            "Invalid Last-Event-ID: must be the number of an event of this job, or 0"
            f" for all events, got {text[:60]!r}"
        )
    return int(text)


class EventStream(Stream):
    """The events of one job, until it has ended."""

    def __init__(self, api: Api, job_id: str, team: Team, after: int):
        super().__init__(api.watchers, api.edge, job_id, team)
        self._team = team
        self._after = after
        self._is_between = True  # two events

    def render(self, request: Any) -> Any:
        request.setHeader("Content-Type", "text/event-stream; charset=utf-8")
        request.setHeader("Cache-Control", "no-store")
        request.setHeader("X-Accel-Buffering", "no")  # by nginx
        return b"" if request.method == b"HEAD" else super().render(request)

    def open(self) -> None:
        self.beat()  # the head of the answer leaves with it

    async def tell(self) -> None:
        while True:
            tail = await self.patiently(
                lambda: self.tails.events(self.job_id, self._team, self._after)
            )
            told = tail.found
            for event in told.events:
                await self._send(event, dict(told.metadata))
                self._after = event.seq
            if not told.events and not told.job.is_active:
                break
            await self.rest(None if told.events else tail.changed)
        self.request.write(b"retry: %d\n\n" % END_RETRY_MS)
        await self._finish()

    async def fail(self, error: Exception) -> None:
        text = " ".join(str(answer_to(error, str).members["error"]).split())
        # An event that is not whole is dropped by the reader, if nothing ends it.
        if self._is_between:
            self.request.write(b": %s\n\n" % text.encode())
        await self._finish()

    async def goodbye(self) -> None:
        await self._finish()

    def beat(self) -> None:
        self.request.write(b":\n\n")

    async def _send(self, event: Event, metadata: dict[str, Any]) -> None:
        kind = event_type(event.job_kind, event.kind)
        # Not that of a delivery: those of a job have numbers of their own.
        event_id = uuid.uuid5(uuid.UUID(event.job_id), f"event {event.seq}")
        head = f"id: {event.seq}\nevent: {kind}\ndata: ".encode()
        body = body_parts(event, str(event_id), metadata)
        self._is_between = False
        for piece in pieces(self.with_base([head, *body, b"\n\n"])):
            await self.valve.wait()
            self.request.write(piece)
        self._is_between = True

    async def _finish(self) -> None:
        await self.valve.wait()
        self.request.unregisterProducer()
        self.request.finish()
