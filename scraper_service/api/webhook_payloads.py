"""The bodies of webhook deliveries, the same in both versions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

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
from scraper_service.options.jobs import MONITOR_CHECK
from scraper_service.options.serialization import KINDS
from scraper_service.storage.job_records import event_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.options.jobs import Webhook
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
    """Return the data of an event of a check."""
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
