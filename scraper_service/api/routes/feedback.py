"""Feedback on calls: scrapes, parsed files, maps and searches.

It is logged and counted, and not stored.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING

from attrs import evolve
from prometheus_client import Counter

from scraper_service.api.errors import answer_to, write
from scraper_service.api.openapi.route import Route
from scraper_service.api.parameters import parse_job_id
from scraper_service.api.requests.feedback import (
    CALL_FEEDBACK,
    SEARCH_FEEDBACK,
    FeedbackRequest,
    call_feedback,
    search_feedback,
)
from scraper_service.api.routing import Routes
from scraper_service.api.schemas import Id, Success, member
from scraper_service.errors import (
    CallFailed,
    InvalidBody,
    InvalidOptions,
    InvalidParameter,
    JobNotFound,
)
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from scraper_service.api.http_server import JsonRequest
    from scraper_service.services.accounts import Team

logger = logging.getLogger(__name__)

FEEDBACK = Counter(
    "scraper_feedback_total",
    "Feedback on calls by endpoint and rating.",
    ["endpoint", "rating"],
)
LOGGED = 2000  # characters of the JSON of feedback

# The values of feedbackErrorCode.
_CODES: dict[type[Exception], str] = {
    InvalidBody: "INVALID_REQUEST",
    InvalidOptions: "INVALID_REQUEST",
    InvalidParameter: "INVALID_REQUEST",
    JobNotFound: "JOB_NOT_FOUND",
    CallFailed: "JOB_NOT_ELIGIBLE",
}
_ERRORS = (JobNotFound, CallFailed)
_EXAMPLE = {
    "rating": "bad",
    "missingContent": [{"topic": "prices", "description": "of the second page"}],
}


class _Noted(Success):
    feedback_id: Id
    credits_refunded: int = member("Always 0.", source=lambda _: 0)


class FeedbackRoutes(Routes):
    """Feedback on calls of the last day."""

    @Route(
        "POST /feedback",
        returns=_Noted,
        body=CALL_FEEDBACK,
        example={
            "endpoint": "scrape",
            "jobId": "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11",
            **_EXAMPLE,
        },
        errors=_ERRORS,
    )
    async def give(self, request: JsonRequest) -> bytes:
        """Give feedback on a call."""
        try:
            team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
            return await self._note(request, await body.read(call_feedback), team)
        except tuple(_CODES) as error:
            return self._write_refusal(request, error)

    @Route(
        "POST /search/<job_id>/feedback",
        returns=_Noted,
        body=SEARCH_FEEDBACK,
        example=_EXAMPLE,
        errors=_ERRORS,
    )
    async def give_on_search(self, request: JsonRequest, job_id: str) -> bytes:
        """Give feedback on a search."""
        try:
            team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
            found = await body.read(search_feedback)
            given = evolve(found, job_id=parse_job_id(job_id))
            return await self._note(request, given, team)
        except tuple(_CODES) as error:
            return self._write_refusal(request, error)

    async def _note(
        self, request: JsonRequest, given: FeedbackRequest, team: Team
    ) -> bytes:
        endpoint, job_id = given.endpoint, given.job_id
        await self.services.scraping.check_finished(job_id, team, endpoint)
        feedback_id = str(uuid.uuid4())
        FEEDBACK.labels(endpoint, given.rating).inc()
        facts = json.dumps(given.facts, ensure_ascii=False)[:LOGGED]
        head = (feedback_id, endpoint, job_id, given.rating)
        logger.info("feedback %s on %s %s: %s %s", *head, facts)
        return _Noted.to_json(feedback_id=feedback_id)

    def _write_refusal(self, request: JsonRequest, error: Exception) -> bytes:
        answer = answer_to(error, self.api.requests.wire_name)
        code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
        members = {**answer.members, "feedbackErrorCode": code}
        return write(request, evolve(answer, members=members))
