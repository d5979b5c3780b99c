"""Webhook deliveries of a job and their replay: additions to /v2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from scraper_service.api.events import event_type
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import (
    ChoiceParameter,
    NumberParameter,
    PathParameter,
    is_number,
    parse_job_id,
)
from scraper_service.api.routing import Routes, of_jobs
from scraper_service.api.schemas import (
    Id,
    JsonObject,
    Maybe,
    Success,
    Time,
    Url,
    member,
    one_of,
    success,
)
from scraper_service.errors import HeadersForgotten, InvalidParameter, JobNotFound
from scraper_service.options.limits import Mode
from scraper_service.storage.job_records import DeliveryState, event_id

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
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


class _Attempt(JsonObject):
    attempt: int
    at: Time
    duration_ms: int
    status: Maybe[int]
    error: Maybe[str]


class _Delivery(JsonObject):
    id: int = member("The number of the event in the job.", source="seq")
    webhook_id: Id
    type: str
    url: Maybe[str] = member("The URL of the page.", source="page_url")
    created_at: Time = member(source="at")
    state: Annotated[str, one_of(*_STATES)] = member(
        source=lambda delivery: delivery.state.name.lower()
    )
    attempts: list[_Attempt]
    next_attempt_at: Maybe[Time] = member(source="due_at")


class _SentDelivery(_Delivery):
    body: Maybe[str] = member(
        f"The first {BODY_BYTES} bytes that are sent.",
        # A character at the cut may be incomplete.
        source=lambda delivery: (
            None
            if delivery.body is None
            else delivery.body[:BODY_BYTES].decode("utf-8", "ignore")
        ),
    )
    body_bytes: Maybe[int] = member(
        "The size of the whole body.",
        source=lambda found: None if found.body is None else len(found.body),
    )
    response: Maybe[str] = member("The first 4096 bytes of the last response's body.")


class _Deliveries(Success):
    deliveries: list[_Delivery]
    next: Maybe[Url]


class _Replayed(Success):
    replayed: int = member("Deliveries that are sent again.")


_READ = success(delivery=_SentDelivery)


class WebhookDeliveryRoutes(Routes):
    """Webhook deliveries of a job, and their replay."""

    common_errors = (JobNotFound,)
    are_own = True

    @Route(
        of_jobs("GET", "/deliveries"),
        returns=_Deliveries,
        parameters=(_STATE, _AFTER, _LIMIT),
    )
    async def deliveries(self, request: JsonRequest, job_id: str) -> bytes:
        """Return the webhook deliveries of a job."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        state, limit = _STATE.read(request), _LIMIT.read(request)
        job, found, after = await self.services.jobs.deliveries(
            parse_job_id(job_id),
            team,
            None if state is None else _STATES[state],
            _AFTER.read(request),
            limit,
        )
        following = None
        if after is not None:
            following = f"{self.url_of(request)}?after={after}&limit={limit}"
            following += "" if state is None else f"&state={state}"
        return _Deliveries.to_json(
            deliveries=[_Delivery.of(each, **_names(job, each)) for each in found],
            next=following,
        )

    @Route(of_jobs("GET", "/deliveries/<number>"), returns=_READ, parameters=(_NUMBER,))
    async def delivery(self, request: JsonRequest, job_id: str, number: str) -> bytes:
        """Return one webhook delivery, with what was sent and what was answered."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        wanted = _delivery_number(number)
        job, found = await self.services.jobs.delivery(
            parse_job_id(job_id), team, wanted
        )
        return _READ.to_json(delivery=_SentDelivery.of(found, **_names(job, found)))

    @Route(
        of_jobs("POST", "/deliveries/replay"),
        returns=_Replayed,
        errors=(HeadersForgotten,),
    )
    async def replay_failed(self, request: JsonRequest, job_id: str) -> bytes:
        """Send all deliveries again that were given up."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        count = await self.services.jobs.replay(parse_job_id(job_id), team)
        return _Replayed.to_json(replayed=count)

    @Route(
        of_jobs("POST", "/deliveries/<number>/replay"),
        returns=_Replayed,
        parameters=(_NUMBER,),
        errors=(HeadersForgotten,),
    )
    async def replay(self, request: JsonRequest, job_id: str, number: str) -> bytes:
        """Send one delivery again."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        wanted = _delivery_number(number)
        count = await self.services.jobs.replay(parse_job_id(job_id), team, wanted)
        return _Replayed.to_json(replayed=count)


def _delivery_number(text: str) -> int:
    if not is_number(text, 1, MAX_NUMBER):
        raise InvalidParameter(
            f"Invalid delivery ID format: must be a number, got {text[:60]!r}"
        )
    return int(text)


def _names(job: Job, delivery: Delivery) -> dict[str, str]:
    return {
        "webhook_id": event_id(job.id, delivery.seq),
        "type": event_type(job.kind, delivery.kind),
    }
