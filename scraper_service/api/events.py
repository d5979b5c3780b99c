"""The events of a job as its webhook has them, and as a stream of Server-Sent Events.

The stream is that of the HTML standard, 9.2: ``id`` is the number of an event, ``event`` and
``data`` are type and body as in a webhook delivery.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Annotated, Any

from scraper_service.api.errors import answer_to
from scraper_service.api.parameters import (
    HeaderParameter,
    TextParameter,
    parse_job_id,
)
from scraper_service.api.responses import JobChangeJson
from scraper_service.api.schemas import (
    TEXT,
    Id,
    JsonObject,
    Maybe,
    Shape,
    encode,
    member,
)
from scraper_service.api.streams.streaming import Stream, pieces
from scraper_service.errors import InvalidParameter
from scraper_service.options.jobs import KINDS, MONITOR_CHECK
from scraper_service.options.limits import Mode
from scraper_service.storage.job_records import event_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.routing import Api
    from scraper_service.options.jobs import Webhook
    from scraper_service.services.accounts import Team
    from scraper_service.storage.job_records import Event


AGENT = "agent"


class EventJson(JsonObject):
    """The body of a webhook delivery, and the data of a server-sent event."""

    success: bool
    type: str = member("The kind of job and what happened, such as crawl.page.")
    id: Id = member("The id of the job.")
    webhook_id: Id = member("The id of the event.")
    data: list[dict[str, Any]] = member("The page of an event page.")
    error: Maybe[str]
    metadata: dict[str, Any]


_DATA = Shape(TEXT, contentMediaType="application/json", contentSchema=EventJson.shape)


class SentEvent(JsonObject):
    """A server-sent event; the last one of a stream has only ``retry``."""

    id: Maybe[str] = member("The number of the event.")
    event: Maybe[str] = member("The type of the event.")
    data: Maybe[Annotated[str, _DATA]]
    retry: Maybe[int]


def event_type(job_kind: str, kind: str) -> str:
    """Return the name of an event: ``crawl.page``."""
    return f"{KINDS[job_kind].endpoint}.{kind}"


def event_body(event: Event, hook: Webhook) -> bytes:
    """Return the body of a delivery."""
    return b"".join(body_parts(event, event_id(event.job_id, event.seq), hook.metadata))


def body_parts(
    event: Event, delivery_id: str, metadata: Mapping[str, Any]
) -> list[bytes]:
    """Return the parts of a body. A page or result is inserted as stored."""
    front: dict[str, Any] = {
        "success": event.error is None,
        "type": event_type(event.job_kind, event.kind),
        "id": event.job_id,
        "webhookId": delivery_id,
    }
    back: dict[str, Any] = {"metadata": dict(metadata)}
    if event.error is not None:
        back = {"error": event.error, **back}
    return [
        encode(front)[:-1],
        b',"data":[',
        event.page or _of_agent(event) or _result(event) or _change(event),
        b"],",
        encode(back)[1:],
    ]


def _of_agent(event: Event) -> bytes:
    """Return the facts of an event of an agent; empty for its start and other jobs."""
    if event.job_kind != AGENT or event.kind == "started":
        return b""
    if event.detail:
        return event.detail.encode()
    if event.result is None:
        return encode({"creditsUsed": 0})  # failed and cancelled runs are free
    result = json.loads(event.result)
    return encode({"creditsUsed": result["creditsUsed"], "data": result["data"]})


def _change(event: Event) -> bytes:
    """Return the facts of an event without a page; empty for an event without facts."""
    if not event.detail:
        return b""
    facts = json.loads(event.detail)
    if event.job_kind == MONITOR_CHECK:
        return encode(_of_check(event.job_id, facts))
    return JobChangeJson.to_json(facts)


def _result(event: Event) -> bytes:
    """Return the result of an extract job for its event; empty without a result."""
    if event.result is None:
        return b""
    facts = {
        "success": True,
        "extractId": event.job_id,
        "totalUrlsScraped": event.pages,
    }
    return encode(facts)[:-1] + b"," + event.result[1:]


def summary_json(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of pages by state, and their sum."""
    return {"totalPages": sum(counts.values()), **counts}


def _of_check(check_id: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    ids = {"monitorId": facts["monitor_id"], "checkId": check_id}
    page = facts.get("page")
    if page is None:
        summary = summary_json(facts["counts"])
        return {**ids, "status": facts["status"], "summary": summary}
    found: dict[str, Any] = {
        **ids,
        "targetId": page["target_id"],
        "url": page["url"],
        "status": page["status"],
        "previousScrapeId": page.get("previous"),
        "currentScrapeId": page.get("current"),
        "error": page.get("error"),
    }
    if (diff := page.get("diff")) is not None:
        # The JSON of a text is long, and can be read with the check.
        is_data = page.get("data") is not None
        found["diff"] = {k: v for k, v in diff.items() if k != "json" or is_data}
    if (judgment := page.get("judgment")) is not None:
        found |= {"isMeaningful": judgment["meaningful"], "judgment": judgment}
    return found


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
            await self.send_buffer.wait()
            self.request.write(piece)
        self._is_between = True

    async def _finish(self) -> None:
        await self.send_buffer.wait()
        self.request.unregisterProducer()
        self.request.finish()
