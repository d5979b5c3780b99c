"""Request bodies with feedback on a call, see docs/api/map-and-search.md, Feedback."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from scraper_service.options.jobs import Caller
from scraper_service.options.page_requests import CALLER, CALLER_KEYS, whole_body
from scraper_service.options.parsing import (
    Anything,
    Array,
    BodyReader,
    Key,
    KeysT,
    Object,
    Pairs,
    Position,
    Text,
    Then,
    ValueKind,
    choice,
    integer,
    need,
    short,
)
from scraper_service.options.values import URL

ENDPOINTS = ("search", "scrape", "parse", "map")
MAX_METADATA_BYTES = 8 * 1024  # of JSON in UTF-8

_TAG = re.compile(r"[a-z0-9][a-z0-9_-]*")
# What a rating of a search must come with: one of these keys.
_OF_RATING = {
    "good": ("valuableSources",),
    "partial": ("valuableSources", "missingContent"),
    "bad": ("missingContent", "querySuggestions"),
}
_SIGNALS = (
    *("issues", "note", "valuableSources", "missingContent", "querySuggestions"),
    *("url", "pageNumbers"),
)


@frozen(kw_only=True)
class FeedbackRequest(Caller):
    """A body with feedback on a call.

    ``endpoint`` is ``search``, ``scrape``, ``parse`` or ``map``; ``rating`` is ``good``,
    ``partial`` or ``bad``. ``facts`` are the other keys in the caller's spelling.
    """

    endpoint: str
    job_id: str
    rating: str
    facts: Mapping[str, Any]


def _job_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError(f"jobId must be a UUID, got {short(text)}") from None


def _tag(text: str) -> str:
    if not _TAG.fullmatch(text):
        raise ValueError(
            f"must match {_TAG.pattern} (lower-case letters, digits, _ and -), got"
            f" {short(text)}"
        )
    return text


def _metadata(pairs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    size = len(json.dumps(dict(pairs), ensure_ascii=False).encode())
    if size > MAX_METADATA_BYTES:
        raise ValueError(
            f"metadata must have at most {MAX_METADATA_BYTES} bytes of JSON, got {size}"
        )
    return dict(pairs)


_SOURCE: KeysT = {
    "url": need(URL, "url", "The URL of the page."),
    "reason": Key(Text(1000), "reason", help="Why the page is useful."),
}
_MISSING: KeysT = {
    "topic": need(Text(200, minimum=1), "topic", "What is missing."),
    "description": Key(Text(2000), "description", help="More about it."),
}
_TAGS = Array(Then(Text(80, minimum=1), _tag, {"pattern": f"^{_TAG.pattern}$"}), 20)


def _search_keys(max_missing: int) -> KeysT:
    """Return the keys of both routes. ``max_missing`` bounds ``missingContent``."""
    given: dict[str, tuple[ValueKind, str]] = {
        "valuableSources": (Array(Object(_SOURCE), 50), "Results that were useful."),
        "missingContent": (Array(Object(_MISSING), max_missing), "What was not found."),
        "querySuggestions": (Text(2000), "Queries that would find more."),
    }
    return {
        "rating": need(choice(*_OF_RATING), "rating", "How useful the result was."),
        **_optional(given),
        **CALLER_KEYS,
    }


def _optional(given: Mapping[str, tuple[ValueKind, str]]) -> KeysT:
    return {name: Key(kind, name, help=text) for name, (kind, text) in given.items()}


def _request(values: dict[str, Any], at: Position, signals: tuple[str, ...]) -> Any:
    """Return the request, or report that it has none of the keys ``signals``."""
    if not any(values.get(name) for name in signals):
        rating = values["rating"]
        return at.report(
            "custom", f"a rating {rating!r} needs one of {', '.join(signals)}"
        )
    caller = {name: values.pop(name) for name in CALLER if name in values}
    endpoint, job_id, rating = map(values.pop, ("endpoint", "jobId", "rating"))
    return FeedbackRequest(
        endpoint=endpoint, job_id=job_id, rating=rating, facts=values, **caller
    )


def _of_call(values: dict[str, Any], at: Position) -> Any:
    return _request(values, at, _SIGNALS)


def _of_search(values: dict[str, Any], at: Position) -> Any:
    values |= {"endpoint": "search", "jobId": ""}
    return _request(values, at, _OF_RATING[values["rating"]])


CALL_FEEDBACK = whole_body(
    {
        "endpoint": need(choice(*ENDPOINTS), "endpoint", "The endpoint of the call."),
        "jobId": need(
            Then(Text(), _job_id, {"format": "uuid"}),
            "jobId",
            "The id of a map or search, or the scrapeId of a page.",
        ),
        **_search_keys(50),
        **_optional(
            {
                "issues": (_TAGS, "What was wrong, as constants of the caller."),
                "tags": (_TAGS, "Constants of the caller."),
                "note": (Text(4000), "A remark."),
                "url": (URL, "The URL that the feedback is about."),
                "pageNumbers": (
                    Array(integer(1), 100),
                    "Pages of a document, from 1.",
                ),
                "metadata": (
                    Then(Pairs(Anything()), _metadata),
                    "Facts of the caller, at most 8 KiB of JSON.",
                ),
            }
        ),
    },
    _of_call,
)
SEARCH_FEEDBACK = whole_body(_search_keys(20), _of_search)


call_feedback = BodyReader[FeedbackRequest](__name__, "call_feedback", CALL_FEEDBACK)
search_feedback = BodyReader[FeedbackRequest](
    __name__, "search_feedback", SEARCH_FEEDBACK
)
