"""Feedback on calls: scrapes, parsed files, maps and searches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from attrs import evolve

from scraper_service.api.application import note_caller, write
from scraper_service.api.errors import answer_to
from scraper_service.api.openapi.described import Described
from scraper_service.api.openapi.shapes import (
    ANY,
    COUNT,
    ID,
    TIME,
    URL,
    array,
    one_of,
    said,
    shape,
    success,
)
from scraper_service.api.parameters import (
    ChoiceParameter,
    CursorParameter,
    NumberParameter,
    parse_job_id,
)
from scraper_service.api.requests.feedback import (
    CALL_FEEDBACK,
    ENDPOINTS,
    RATINGS,
    SEARCH_FEEDBACK,
    FeedbackRequest,
    call_feedback,
    search_feedback,
)
from scraper_service.api.responses import encode, iso
from scraper_service.api.version import Routes
from scraper_service.errors import (
    CallFailed,
    InvalidBody,
    InvalidOptions,
    InvalidParameter,
    JobNotFound,
)
from scraper_service.options.limits import KeyScope, Mode
from scraper_service.storage.accounts.usage import CallPosition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT
    from scraper_service.services.accounts import Team
    from scraper_service.storage.accounts.feedback import FeedbackRow

MAX_ENTRIES, USUAL_ENTRIES = 100, 50  # in one response
# The values of feedbackErrorCode.
_CODES: dict[type[Exception], str] = {
    InvalidBody: "INVALID_REQUEST",
    InvalidOptions: "INVALID_REQUEST",
    InvalidParameter: "INVALID_REQUEST",
    JobNotFound: "JOB_NOT_FOUND",
    CallFailed: "JOB_NOT_ELIGIBLE",
}
_ENDPOINT = ChoiceParameter(
    "endpoint", "Only feedback on calls of this endpoint.", ENDPOINTS
)
_LIMIT = NumberParameter("limit", "At most N entries.", 1, MAX_ENTRIES, USUAL_ENTRIES)
_CURSOR = CursorParameter(
    "cursor",
    "the cursor in next",
    re.compile(r"([0-9]{1,10}\.[0-9]{1,9})_([0-9a-f-]{36})"),
)
_STORED = success(
    {
        "feedbackId": ID,
        "creditsRefunded": said(COUNT, "Always 0."),
        "alreadySubmitted?": said(
            {"const": True}, "The call had feedback before, which has not changed."
        ),
    }
)
_ENTRIES = success(
    {
        "data": array(
            shape(
                {
                    "id": ID,
                    "createdAt": TIME,
                    "endpoint": one_of(*ENDPOINTS),
                    "jobId": ID,
                    "rating": one_of(*RATINGS),
                },
                said(ANY, "The other keys, as they were sent."),
            )
        ),
        "next?": URL,
    }
)
_ERRORS = (JobNotFound, CallFailed)
_EXAMPLE = {
    "rating": "bad",
    "missingContent": [{"topic": "prices", "description": "of the second page"}],
}


class FeedbackRoutes(Routes):
    """Feedback on calls of the last day."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("POST", "/feedback", KeyScope.SCRAPE, self.give),
            ("POST", "/search/<job_id>/feedback", KeyScope.SCRAPE, self.give_on_search),
            ("GET", "/feedback", KeyScope.READ, self.entries),
        )

    @Described(
        returns=_STORED,
        body=CALL_FEEDBACK,
        example={
            "endpoint": "scrape",
            "jobId": "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11",
            **_EXAMPLE,
        },
        errors=_ERRORS,
    )
    async def give(self, request: JsonRequest) -> bytes:
        """Store feedback on a call."""
        try:
            team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
            return await self._stored(request, await body.read(call_feedback), team)
        except tuple(_CODES) as error:
            return self._refused(request, error)

    @Described(returns=_STORED, body=SEARCH_FEEDBACK, example=_EXAMPLE, errors=_ERRORS)
    async def give_on_search(self, request: JsonRequest, job_id: str) -> bytes:
        """Store feedback on a search."""
        try:
            team, body = await self.checks.admit(request, Mode.CRAWL_STATUS)
            found = await body.read(search_feedback)
            given = evolve(found.feedback, job_id=parse_job_id(job_id))
            return await self._stored(request, evolve(found, feedback=given), team)
        except tuple(_CODES) as error:
            return self._refused(request, error)

    @Described(returns=_ENTRIES, parameters=(_ENDPOINT, _LIMIT, _CURSOR), is_own=True)
    async def entries(self, request: JsonRequest) -> bytes:
        """Return the team's feedback, the latest first."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        endpoint, limit = _ENDPOINT.read(request), _LIMIT.read(request)
        place = _CURSOR.read(request)
        after = place and CallPosition(float(place[1]), place[2])
        found = await self.services.scraping.feedback(team, endpoint, after, limit)
        members = {"success": True, "data": [_entry(row) for row in found[:limit]]}
        if len(found) > limit:
            last = found[limit - 1]
            terms = {"limit": str(limit), "cursor": f"{last.at!r}_{last.id}"}
            terms |= {"endpoint": endpoint} if endpoint else {}
            members["next"] = f"{self.url_of(request)}?{urlencode(terms)}"
        return encode(members)

    async def _stored(
        self, request: JsonRequest, given: FeedbackRequest, team: Team
    ) -> bytes:
        note_caller(request, given)
        feedback_id, is_known = await self.services.scraping.give_feedback(
            given.feedback, team
        )
        members = {"success": True, "feedbackId": feedback_id, "creditsRefunded": 0}
        return encode({**members, **({"alreadySubmitted": True} if is_known else {})})

    def _refused(self, request: JsonRequest, error: Exception) -> bytes:
        answer = answer_to(error, self.api.requests.wire_name)
        code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
        members = {**answer.members, "feedbackErrorCode": code}
        return write(request, evolve(answer, members=members))


def _entry(row: FeedbackRow) -> dict[str, Any]:
    given = row.given
    return {
        "id": row.id,
        "createdAt": iso(row.at),
        "endpoint": given.endpoint,
        "jobId": given.job_id,
        "rating": given.rating,
        **given.facts,
    }
