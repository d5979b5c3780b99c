"""Webhook deliveries of a job and their replay: additions to /v2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.openapi.described import Described
from scraper_service.api.parameters import (
    ChoiceParameter,
    NumberParameter,
    PathParameter,
    is_number,
    parse_job_id,
)
from scraper_service.api.schemas import (
    COUNT,
    ID,
    TEXT,
    TIME,
    URL,
    ShapeT,
    array,
    camel,
    encode,
    iso,
    old_shape,
    old_success,
    one_of,
    said,
)
from scraper_service.api.version import Routes
from scraper_service.api.webhook_payloads import event_type
from scraper_service.errors import HeadersForgotten, InvalidParameter, JobNotFound
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.storage.job_records import DeliveryState, event_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT
    from scraper_service.storage.job_records import Delivery, Job

MAX_DELIVERIES = 1000  # in one response
DEFAULT_DELIVERIES = 100
MAX_NUMBER = 2**31 - 1
BODY_BYTES = 4096  # of the body of one delivery

_STATES = {state.name.lower(): state for state in DeliveryState}
_STATE = ChoiceParameter("state", "Only deliveries in this state.", tuple(_STATES))
_AFTER = NumberParameter(
    "after", "Only deliveries after this number.", 0, MAX_NUMBER, 0
)
_LIMIT = NumberParameter(
    "limit", "At most N deliveries.", 1, MAX_DELIVERIES, DEFAULT_DELIVERIES
)
_NUMBER = PathParameter(
    "number",
    "The number of the delivery.",
    {"type": "integer", "minimum": 1, "maximum": MAX_NUMBER},
)
_ATTEMPT = old_shape(
    {
        "attempt": COUNT,
        "at": TIME,
        "durationMs": COUNT,
        "status?": COUNT,
        "error?": TEXT,
    }
)
_DELIVERY: dict[str, ShapeT] = {
    "id": said(COUNT, "The number of the event in the job."),
    "webhookId": ID,
    "type": TEXT,
    "url?": said(TEXT, "The URL of the page."),
    "createdAt": TIME,
    "state": one_of(*_STATES),
    "attempts": array(_ATTEMPT),
    "nextAttemptAt?": TIME,
}
_LISTED = old_success({"deliveries": array(old_shape(_DELIVERY)), "next?": URL})
_READ = old_success(
    {
        "delivery": old_shape(
            {
                **_DELIVERY,
                "body?": said(TEXT, f"The first {BODY_BYTES} bytes that are sent."),
                "bodyBytes?": said(COUNT, "The size of the whole body."),
                "response?": said(
                    TEXT, "The first 4096 bytes of the last response's body."
                ),
            }
        )
    }
)
_REPLAYED = old_success({"replayed": said(COUNT, "Deliveries that are sent again.")})
_REPLAY_ERRORS = (JobNotFound, HeadersForgotten)


class WebhookDeliveryRoutes(Routes):
    """Webhook deliveries of a job, and their replay."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("GET", "/crawl/<job_id>/deliveries", KeyScope.READ, self.deliveries),
            (
                "GET",
                "/batch/scrape/<job_id>/deliveries",
                KeyScope.READ,
                self.deliveries,
            ),
            (
                "GET",
                "/crawl/<job_id>/deliveries/<number>",
                KeyScope.READ,
                self.delivery,
            ),
            (
                "GET",
                "/batch/scrape/<job_id>/deliveries/<number>",
                KeyScope.READ,
                self.delivery,
            ),
            (
                "POST",
                "/crawl/<job_id>/deliveries/replay",
                KeyScope.SCRAPE,
                self.replay_failed,
            ),
            (
                "POST",
                "/batch/scrape/<job_id>/deliveries/replay",
                KeyScope.SCRAPE,
                self.replay_failed,
            ),
            (
                "POST",
                "/crawl/<job_id>/deliveries/<number>/replay",
                KeyScope.SCRAPE,
                self.replay,
            ),
            (
                "POST",
                "/batch/scrape/<job_id>/deliveries/<number>/replay",
                KeyScope.SCRAPE,
                self.replay,
            ),
        )

    @Described(
        returns=_LISTED,
        parameters=(_STATE, _AFTER, _LIMIT),
        errors=(JobNotFound,),
        is_own=True,
    )
    async def deliveries(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the webhook deliveries of a job."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = _query(request)
        found = await self.services.jobs.deliveries(parse_job_id(job_id), team, **query)
        return _listed(*found, query, self.url_of(request))

    @Described(returns=_READ, parameters=(_NUMBER,), errors=(JobNotFound,), is_own=True)
    async def delivery(self, request: JsonRequest, job_id: str, number: str) -> bytes:
        """Return one webhook delivery, with what was sent and what was answered."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        wanted = _delivery_number(number)
        found = await self.services.jobs.delivery(parse_job_id(job_id), team, wanted)
        return encode({"success": True, "delivery": _with_bodies(*found)})

    @Described(returns=_REPLAYED, errors=_REPLAY_ERRORS, is_own=True)
    async def replay_failed(self, request: JsonRequest, job_id: str) -> bytes:
        """Send all deliveries again that were given up."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        count = await self.services.jobs.replay(parse_job_id(job_id), team)
        return encode({"success": True, "replayed": count})

    @Described(
        returns=_REPLAYED, parameters=(_NUMBER,), errors=_REPLAY_ERRORS, is_own=True
    )
    async def replay(self, request: JsonRequest, job_id: str, number: str) -> bytes:
        """Send one delivery again."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        wanted = _delivery_number(number)
        count = await self.services.jobs.replay(parse_job_id(job_id), team, wanted)
        return encode({"success": True, "replayed": count})


def _query(request: JsonRequest) -> dict[str, Any]:
    """Return the filters and paging of a query. Raises :exc:`InvalidParameter`."""
    state = _STATE.read(request)
    return {
        "state": None if state is None else _STATES[state],
        "after": _AFTER.read(request),
        "limit": _LIMIT.read(request),
    }


def _delivery_number(text: str) -> int:
    """Return the delivery number in a path. Raises :exc:`InvalidParameter`."""
    if not is_number(text, 1, MAX_NUMBER):
        raise InvalidParameter(
            f"Invalid delivery ID format: must be a number, got {text[:60]!r}"
        )
    return int(text)


def _listed(
    job: Job,
    found: list[Delivery],
    behind: int | None,
    query: dict[str, Any],
    path: str,
) -> bytes:
    """Return a part of the list. ``path`` is the absolute URL of the list."""
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


def _with_bodies(job: Job, delivery: Delivery) -> dict[str, Any]:
    """Return a delivery with the starts of its body and of the last response."""
    members, body = _members(job, delivery), delivery.body
    if body is not None:
        # A character at the cut may be incomplete.
        members["body"] = body[:BODY_BYTES].decode("utf-8", "ignore")
        members["bodyBytes"] = len(body)
    if delivery.response is not None:
        members["response"] = delivery.response
    return members
