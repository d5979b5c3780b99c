"""The events of a job as Server-Sent Events (HTML standard, 9.2).

``id`` is the number of an event; ``event`` and ``data`` are type and body as in a webhook
delivery.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from scraper_service.api.errors import answer_to
from scraper_service.api.parameters import (
    HeaderParameter,
    TextParameter,
    parse_job_id,
)
from scraper_service.api.streams.streaming import Stream, pieces
from scraper_service.api.webhook_payloads import body_parts, event_type
from scraper_service.errors import InvalidParameter
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.routing import Api
    from scraper_service.services.accounts import Team
    from scraper_service.storage.job_records import Event

MAX_DIGITS = 18  # of an event number; the database stores up to 2**63
NOW = "now"
_NUMBER = {"type": "string", "pattern": f"^[0-9]{{1,{MAX_DIGITS}}}$"}
LAST_EVENT = HeaderParameter(
    "Last-Event-ID", "Begin after the event with this id.", _NUMBER
)
LAST_EVENT_ID = TextParameter(
    "lastEventId",
    "The same in the query; the header wins. `now` leaves out all past events.",
    {"anyOf": [_NUMBER, {"const": NOW}]},
)
END_RETRY_MS = 3_600_000  # browsers reconnect after the end, which is useless here


async def follow(api: Api, request: JsonRequest, job_id: str) -> EventStream:
    """Return the stream of a job's events after the event of the request's last id.

    Raises :exc:`InvalidParameter` and the errors of :meth:`Watchers.check`.
    """
    team, _ = await api.checks.admit(request, Mode.CRAWL_STATUS)
    found, after = parse_job_id(job_id), last_event(request)
    if after is None:
        after = await api.watchers.tails.newest_event(found, team)
    else:
        await api.watchers.tails.check_event(found, team, after)
    api.watchers.check(team)
    return EventStream(api, found, team, after)


def last_event(request: JsonRequest) -> int | None:
    """Return the number in ``Last-Event-ID``, else in ``lastEventId`` of the query.

    Return 0 without either, and None for ``now``: only events from now on. Raises
    :exc:`InvalidParameter`.
    """
    text = request.header(LAST_EVENT.name) or LAST_EVENT_ID.read(request)
    if not text:
        return 0
    if text == NOW:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise InvalidParameter(
            "Invalid Last-Event-ID: must be the number of an event of this job, or 0"
            f" for all events, or {NOW!r} for none of the past, got {text[:60]!r}"
        )
    return int(text)


class EventStream(Stream):
    """The events of one job, until it has ended."""

    def __init__(self, api: Api, job_id: str, team: Team, after: int):
        super().__init__(api.watchers, api.checks, api.urls, job_id, team)
        self._team = team
        self._after = after
        self._is_between = True  # True outside of an event

    def render(self, request: Any) -> Any:
        request.setHeader("Content-Type", "text/event-stream; charset=utf-8")
        request.setHeader("Cache-Control", "no-store")
        request.setHeader("X-Accel-Buffering", "no")  # off in nginx
        return b"" if request.method == b"HEAD" else super().render(request)

    def open(self) -> None:
        self.beat()  # sends the head of the response

    async def tell(self) -> None:
        while True:
            tail = await self.patiently(
                lambda: self.tails.events(self.job_id, self._team, self._after)
            )
            found = tail.found
            for event in found.events:
                await self._send(event, dict(found.metadata))
                self._after = event.seq
            if not found.events and not found.job.is_active:
                break
            await self.rest(None if found.events else tail.changed)
        self.request.write(b"retry: %d\n\n" % END_RETRY_MS)
        await self._finish()

    async def fail(self, error: Exception) -> None:
        text = " ".join(str(answer_to(error, str).members["error"]).split())
        # Clients drop an incomplete event unless an empty line ends it.
        if self._is_between:
            self.request.write(b": %s\n\n" % text.encode())
        await self._finish()

    async def goodbye(self) -> None:
        await self._finish()

    def beat(self) -> None:
        self.request.write(b":\n\n")

    async def _send(self, event: Event, metadata: dict[str, Any]) -> None:
        kind = event_type(event.job_kind, event.kind)
        # Not the id of a webhook delivery: these are numbered separately.
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
