"""Reports of unexpected errors: tracebacks, and nothing of the request."""

from __future__ import annotations

import json

import brotli
import pytest

from scraper_service.services.observability.sentry import ErrorReports
from tests.support.failing_serializer import SECRETS, TEXT
from tests.support.receiver import Receiver
from tests.support.waiting import wait_until


@pytest.fixture
def receiver():
    with Receiver() as server:
        yield server


def reports(receiver):
    """Return the events that the receiver was sent, as text and as JSON."""
    found = []
    for request in receiver.received("/ok/api/1/envelope/"):
        assert request.headers["content-encoding"] == "br"
        body = brotli.decompress(request.body)
        _, header, event = body.decode().split("\n")[:3]
        assert json.loads(header)["type"] == "event"
        found.append((body.decode(), json.loads(event)))
    return found


def dsn(receiver):
    scheme, _, address = receiver.address.partition("://")
    return f"{scheme}://public@{address}/ok/1"


def test_an_unexpected_error_is_reported_without_its_request(
    receiver, site, start_service
):
    service = start_service(
        SCRAPER_SENTRY_DSN=dsn(receiver),
        SCRAPER_PAGE_SERIALIZER="tests.support.failing_serializer.fail",
    )
    url = site.url("/?word=hidden-word")
    body = {"urls": [url], "headers": {"X-Secret": "hidden-header"}}
    assert service.post("/v2/batch/scrape", body).status == 200
    found = wait_until(lambda: reports(receiver))
    text, event = found[0]
    [error] = event["exception"]["values"]
    assert error["type"] == "RuntimeError"
    assert TEXT in error["value"]
    assert error["stacktrace"]["frames"][-1]["function"] == "fail"
    assert event["release"]
    frames = error["stacktrace"]["frames"]
    assert not any("vars" in frame for frame in frames)
    for frame in frames:  # lines of the program, which has the secrets of this test
        for line in _source(frame):
            text = text.replace(json.dumps(line)[1:-1], "")
    for word in (*SECRETS, "hidden-word", "hidden-header", "fc-test-key"):
        assert word not in text


def _source(frame):
    """Return the lines of the program that a frame shows."""
    line = frame.get("context_line") or ""
    return [line, *frame.get("pre_context", ()), *frame.get("post_context", ())]


def test_failures_of_sites_and_callers_are_not_reported(receiver, site, start_service):
    service = start_service(SCRAPER_SENTRY_DSN=dsn(receiver))
    assert service.post("/v2/scrape", {"url": site.url("/drop")}).status == 500
    assert service.post("/v2/scrape", {"url": 3}).status == 400
    assert service.stop() == 0
    assert reports(receiver) == []


def test_a_server_that_is_down_holds_nothing_up(site, start_service):
    service = start_service(
        SCRAPER_SENTRY_DSN="http://public@127.0.0.4:9/1",
        SCRAPER_PAGE_SERIALIZER="tests.support.failing_serializer.fail",
    )
    assert service.post("/v2/batch/scrape", {"urls": [site.url("/")]}).status == 200
    wait_until(lambda: TEXT in service.stderr)
    assert service.get("/health/ready", key=None).status == 200


def test_a_wrong_dsn_is_refused_without_being_shown():
    with pytest.raises(ValueError, match="SCRAPER_SENTRY_DSN must be") as raised:
        ErrorReports("ftp://hidden")
    assert "hidden" not in str(raised.value)
