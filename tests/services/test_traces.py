"""Traces for OpenTelemetry, as a collector gets them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import uuid

import pytest

from tests.api.test_metrics import value
from tests.conftest import Service
from tests.support.scripted_site import ScriptedSite, answer, moved, page, slow
from tests.support.trace_collector import TraceCollector
from tests.support.waiting import wait_until

GONE = "5c2e7b1f0a9d4c6e8b3f2a1d0c9e8f77"
CALLER = "0af7651916cd43dd8448eb211c80319c"
END_S = (
    15  # of a service on a busy machine; the library would wait 30 s for its collector
)
SAMPLED = "7d1e3a5c9b8f4e2d6a0c1b3f5e7d9a8c"
LAST = "1f2e3d4c5b6a79880716253443526170"
PARENT = "b7ad6b7169203331"
SITE = {
    "/": page("/a?word=hidden-query", "/moved", "/missing"),
    "/a?word=hidden-query": page(text="Alpha."),
    "/moved": moved("/a?word=hidden-query"),
    "/missing": answer("<p>Gone.", 404),
    "/alone": page(text="Alone."),
    "/alone?word=hidden-query": page(text="Alone."),
}


@pytest.fixture(scope="module")
def collector():
    with TraceCollector() as server:
        yield server


@pytest.fixture(scope="module")
def site():
    with ScriptedSite(SITE) as found:
        yield found


@pytest.fixture(scope="module")
def traced(collector, tmp_path_factory):
    with Service(tmp_path_factory.mktemp("traced"), **collector.environment) as found:
        yield found


def scrape(service, url, headers=None, **options):
    body = {"url": url, "maxAge": 0, **options}
    reply = service.post("/v2/scrape", body, headers=headers)
    assert reply.status == 200, reply.json
    return reply


def request_of(collector, trace):
    """Return the span of the request with a trace."""
    [found] = wait_until(lambda: [x for x in collector.spans() if x.trace == trace])
    return found


def test_a_request_belongs_to_the_trace_of_its_caller(traced, collector, site):
    sent = {"traceparent": f"00-{CALLER}-{PARENT}-01", "X-Secret": "hidden-header"}
    scrape(traced, site.url("/alone?word=hidden-query#hidden"), sent)
    request = request_of(collector, CALLER)
    assert (request.name, request.parent) == ("POST /v2/scrape", PARENT)
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/v2/scrape",
        "http.response.status_code": 200,
    }
    assert request.service == "scraper-service"
    text = collector.text()
    for secret in ("hidden", "alone", "fc-test-key", "Bearer", traced.key):
        assert secret not in text
    assert collector.keys() == {"secret-of-the-collector"}


def test_an_invalid_parent_begins_a_trace(traced, collector, site):
    before = {x.id for x in collector.spans()}
    scrape(traced, site.url("/alone"), {"traceparent": "00-zz-1-01"})
    [request] = wait_until(
        lambda: [x for x in collector.spans("POST /v2/scrape") if x.id not in before]
    )
    assert request.parent == ""
    assert request.trace != CALLER


def test_a_caller_that_is_not_sampled_has_no_spans(traced, collector, site):
    unsampled, sampled = CALLER[::-1], SAMPLED
    scrape(traced, site.url("/alone"), {"traceparent": f"00-{unsampled}-{PARENT}-00"})
    scrape(traced, site.url("/alone"), {"traceparent": f"00-{sampled}-{PARENT}-01"})
    request_of(collector, sampled)
    assert unsampled not in {each.trace for each in collector.spans()}


def test_a_job_is_a_trace_of_its_own(traced, collector, site):
    body = {"url": site.url("/"), "limit": 50}
    job_id = traced.post("/v2/crawl", body).json["id"]
    path = f"/v2/crawl/{job_id}"
    wait_until(lambda: traced.get(path).json["status"] == "completed")
    [job] = wait_until(lambda: of_job(collector, "crawl", job_id))
    assert job.attributes["scraper.finish_reason"] == "finished"
    [request] = wait_until(lambda: of_job(collector, "POST /v2/crawl", job_id))
    assert request.trace != job.trace
    other = traced.post("/v2/crawl", body).json["id"]
    [again] = wait_until(lambda: of_job(collector, "crawl", other))
    assert again.trace != job.trace


def of_job(collector, name, job_id):
    spans = collector.spans(name)
    return [each for each in spans if each.attributes.get("scraper.job_id") == job_id]


def test_a_request_whose_client_goes_away_has_a_span(traced, collector):
    pages = {"/slow": slow(page(text="Late."), 30)}
    with ScriptedSite(pages) as site:
        body = json.dumps({"url": site.url("/slow"), "maxAge": 0}).encode()
        head = (
            f"POST /v2/scrape HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {traced.key}\r\n"
            f"traceparent: 00-{GONE}-{PARENT}-01\r\n\r\n"
        )
        host, _, port = traced.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head.encode() + body)
            wait_until(lambda: "/slow" in site.paths())
        found = wait_until(
            lambda: [x for x in collector.spans("POST") if x.trace == GONE]
        )
    assert found[0].is_error
    assert found[0].attributes["error.type"] == "client_gone"
    assert "http.response.status_code" not in found[0].attributes


def test_a_job_without_a_spider_has_a_span(traced, collector, site):
    body = {"urls": [site.url("/alone")], "schema": {"type": "object"}}
    job_id = traced.post("/v2/extract", body).json["id"]
    [job] = wait_until(lambda: of_job(collector, "extract", job_id))
    [request] = of_job(collector, "POST /v2/extract", job_id)
    assert request.trace != job.trace


def test_health_and_metrics_have_no_span(traced, collector, site):
    assert traced.get("/health", key=None).status == 200
    value(traced, "spans_total", result="exported")
    scrape(traced, site.url("/alone"), {"traceparent": f"00-{LAST}-{PARENT}-01"})
    request_of(collector, LAST)
    assert not [x for x in collector.spans() if "health" in x.name or "metr" in x.name]
    assert value(traced, "spans_total", result="exported") >= 3


def test_the_last_spans_are_sent_at_the_end(start_service, site):
    with TraceCollector() as own:
        service = start_service(**own.environment)
        scrape(service, site.url("/alone"))
        assert service.stop() == 0
        assert [each.name for each in own.spans()] == ["POST /v2/scrape"]


@pytest.mark.parametrize("path", ["/silent", None], ids=["hangs", "is down"])
def test_a_collector_that_does_not_respond_does_not_delay_scrapes(
    start_service, collector, site, path
):
    address = collector.url(path) if path else "http://127.0.0.5:9"
    service = start_service(
        OTEL_EXPORTER_OTLP_ENDPOINT=address,
        OTEL_EXPORTER_OTLP_TIMEOUT="60" if path else "1",
        OTEL_BSP_SCHEDULE_DELAY="500",
    )
    assert scrape(service, site.url("/alone")).status == 200
    if path is None:
        wait_until(lambda: "collector of traces takes no spans" in service.stderr)
        assert value(service, "spans_total", result="failed") > 0
    assert service.get("/health/ready", key=None).status == 200
    began = time.monotonic()
    assert service.stop() == 0
    assert time.monotonic() - began < END_S
    assert "Traceback" not in service.stderr


def run_python(code, **environment):
    command = (sys.executable, "-c", code)
    variables = {**os.environ, **environment}
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, check=True
    )


SHARED = "from scraper_service.services.observability.tracing import shared_traces\n"


@pytest.mark.full
def test_opentelemetry_is_not_imported_without_the_endpoint_variable():
    code = (
        "import sys\nimport scraper_service.addon, scraper_service.server.service\n"
        "import scraper_service.services.jobs, scraper_service.services.model_jobs\n"
        f"{SHARED}assert shared_traces() is None\n"
        "assert not any(x.startswith('opentelemetry') for x in sys.modules)\n"
    )
    run_python(code, OTEL_EXPORTER_OTLP_ENDPOINT="")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "must be http/protobuf, got grpc"),
        ({"missing": "opentelemetry"}, "pip install 'scraper-service[telemetry]'"),
    ],
    ids=["protocol", "extra"],
)
def test_errors_that_prevent_sending_traces_are_logged(tmp_path, environment, text):
    environment = dict(environment)
    if missing := environment.pop("missing", None):
        (tmp_path / f"{missing}.py").write_text("raise ImportError")
        environment["PYTHONPATH"] = str(tmp_path)
    found = run_python(
        f"{SHARED}assert shared_traces() is None",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.5:9/{uuid.uuid4()}",
        **environment,
    )
    assert text in found.stderr
