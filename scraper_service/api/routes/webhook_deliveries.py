"""What was sent to the webhook of a job, and sending it again: additions of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.page_json import camel, encode, iso
from scraper_service.api.routes.jobs import argument, is_number, number
from scraper_service.api.webhook_payloads import event_type
from scraper_service.errors import InvalidParameter
from scraper_service.storage.job_records import DeliveryState, event_id

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.storage.job_records import Delivery, Job

MAX_DELIVERIES = 1000  # in one answer
DEFAULT_DELIVERIES = 100
MAX_NUMBER = 2**31 - 1

_STATES = {state.name.lower(): state for state in DeliveryState}


def asked(request: JsonRequest) -> dict[str, Any]:
    """Return what the query asks for; raise :exc:`InvalidParameter`."""
    state = argument(request, "state")
    if state is not None and state not in _STATES:
        raise InvalidParameter(
            f"Invalid state: must be one of {', '.join(_STATES)}, got {state[:60]!r}"
        )
    return {
        "state": None if state is None else _STATES[state],
        "after": number(request, "after", 0, MAX_NUMBER) or 0,
        "limit": number(request, "limit", 1, MAX_DELIVERIES) or DEFAULT_DELIVERIES,
    }


def delivery_number(text: str) -> int:
    """Return the number in a path; raise :exc:`InvalidParameter`."""
    if not is_number(text, 1, MAX_NUMBER):
        raise InvalidParameter(
            f"Invalid delivery ID format: must be a number, got {text[:60]!r}"
        )
    return int(text)


def listed(
    job: Job,
    found: list[Delivery],
    behind: int | None,
    query: dict[str, Any],
    path: str,
) -> bytes:
    """Answer a part of the list; ``path`` is its absolute address."""
    members: dict[str, Any] = {
        "success": True,
        "deliveries": [_members(job, each) for each in found],
    }
    if behind is not None:
        state = (
            "" if query["state"] is None else f"&state={query['state'].name.lower()}"
        )
        members["next"] = f"{path}?after={behind}&limit={query['limit']}{state}"
    return encode(members)


def replayed(count: int) -> bytes:
    """Answer how many events are sent again."""
    return encode({"success": True, "replayed": count})


def _members(job: Job, delivery: Delivery) -> dict[str, Any]:
    facts = {
        "id": delivery.seq,
        "webhookId": event_id(job.id, delivery.seq),
        "type": event_type(job.kind, delivery.kind),
        "url": delivery.page_url,
        "createdAt": iso(delivery.at),
        "state": delivery.state.name.lower(),
        "attempts": [
            {camel(k): iso(v) if k == "at" else v for k, v in attempt.items()}
            for attempt in delivery.attempts
        ],
        "nextAttemptAt": delivery.due_at and iso(delivery.due_at),
    }
    return {name: value for name, value in facts.items() if value is not None}
