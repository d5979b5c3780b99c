"""Traces for OpenTelemetry, as a collector gets them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import uuid

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from scraper_service.services.observability import opentelemetry as traces
from tests.api.test_metrics import value
from tests.api.test_parse import upload
from tests.conftest import Service
from tests.support.scripted_site import ScriptedSite, answer, moved, page, slow
from tests.support.trace_collector import TraceCollector
from tests.support.waiting import wait_until

GONE = "5c2e7b1f0a9d4c6e8b3f2a1d0c9e8f77"
CALLER = "0af7651916cd43dd8448eb211c80319c"
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


def page_of(collector, reply):
    """Return the span of the page that a scrape has returned."""
    scrape_id = reply.json["data"]["metadata"]["scrapeId"]

    def find():
        for each in collector.spans("page"):
            if each.attributes["scraper.scrape_id"] == scrape_id:
                return each
        return None

    return wait_until(find)


def parts(collector, span):
    return [each for each in collector.spans() if each.parent == span.id]


def scrape(service, url, headers=None, **options):
    body = {"url": url, "maxAge": 0, **options}
    reply = service.post("/v2/scrape", body, headers=headers)
    assert reply.status == 200, reply.json
    return reply


def test_a_request_belongs_to_the_trace_of_its_caller(traced, collector, site):
    sent = {"traceparent": f"00-{CALLER}-{PARENT}-01", "X-Secret": "hidden-header"}
    reply = scrape(traced, site.url("/alone?word=hidden-query#hidden"), sent)
    found = page_of(collector, reply)
    [request] = wait_until(
        lambda: [x for x in collector.spans() if x.id == found.parent]
    )
    assert (request.name, request.trace, request.parent) == (
        "POST /v2/scrape",
        CALLER,
        PARENT,
    )
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/v2/scrape",
        "http.response.status_code": 200,
    }
    assert request.service == "scraper-service"
    assert found.trace == CALLER
    host = site.url("/").split("/")[2].partition(":")[0]
    facts = {k: v for k, v in found.attributes.items() if k != "scraper.scrape_id"}
    assert facts == {
        "server.address": host,
        "url.scheme": "http",
        "url.path": "/alone",
        "scraper.kind": "scrape",
        "scraper.result": "done",
        "scraper.engine": "http",
        "http.response.status_code": 200,
    }
    [fetch, convert] = parts(collector, found)
    assert (fetch.name, convert.name) == ("fetch", "convert")
    assert fetch.attributes["http.response.status_code"] == 200
    times = [request.start_ns, found.start_ns, fetch.start_ns, fetch.end_ns]
    times += [convert.start_ns, convert.end_ns, found.end_ns, request.end_ns]
    assert times == sorted(times)
    text = collector.text()
    for secret in ("hidden", "fc-test-key", "Bearer", traced.key):
        assert secret not in text
    assert collector.keys() == {"secret-of-the-collector"}


def test_an_invalid_parent_begins_a_trace(traced, collector, site):
    reply = scrape(traced, site.url("/alone"), {"traceparent": "00-zz-1-01"})
    found = page_of(collector, reply)
    [request] = wait_until(
        lambda: [x for x in collector.spans() if x.id == found.parent]
    )
    assert request.parent == ""
    assert request.trace != CALLER


def test_a_caller_that_is_not_sampled_has_no_spans(traced, collector, site):
    unsampled = CALLER[::-1]
    scrape(traced, site.url("/alone"), {"traceparent": f"00-{unsampled}-{PARENT}-00"})
    page_of(collector, scrape(traced, site.url("/alone")))
    assert unsampled not in {each.trace for each in collector.spans()}


def test_a_page_with_zero_data_retention_is_not_named(traced, collector, site):
    reply = scrape(traced, site.url("/alone"), zeroDataRetention=True)
    assert "url.path" not in page_of(collector, reply).attributes


def test_an_uploaded_file_is_not_named(traced, collector):
    reply = upload(traced, b"<p>Text of a file.", name="hidden-name.html")
    assert "url.path" not in page_of(collector, reply).attributes
    assert "hidden-name" not in collector.text()


def test_a_job_is_one_trace_with_its_pages(traced, collector, site):
    body = {"url": site.url("/"), "limit": 50}
    job_id = traced.post("/v2/crawl", body).json["id"]
    path = f"/v2/crawl/{job_id}"
    wait_until(lambda: traced.get(path).json["status"] == "completed")
    [job] = wait_until(lambda: of_job(collector, "crawl", job_id))
    assert job.attributes["scraper.finish_reason"] == "finished"
    [request] = wait_until(lambda: of_job(collector, "POST /v2/crawl", job_id))
    assert request.trace != job.trace
    pages = [each for each in collector.spans("page") if each.trace == job.trace]
    assert {each.parent for each in pages} == {job.id}
    found = [each for each in collector.spans("sitemap") if each.parent == job.id]
    paths = {x.attributes["url.path"]: x.attributes["scraper.result"] for x in found}
    assert paths["/sitemap.xml"] == "failed"
    results = {x.attributes["url.path"]: x.attributes["scraper.result"] for x in pages}
    moved_to = results.pop("/moved")
    assert results.pop("/a", "skipped") in {"done", "skipped"}
    assert moved_to in {"done", "skipped"}
    assert results == {"/": "done", "/missing": "done"}
    for each in pages:
        names = [part.name for part in parts(collector, each)]
        fetches = 2 if each.attributes["url.path"] == "/moved" else 1
        if each.attributes["scraper.result"] == "done":
            assert names == [*["fetch"] * fetches, "convert", "commit"]
        assert job.start_ns <= each.start_ns <= each.end_ns <= job.end_ns
    other = traced.post("/v2/crawl", body).json["id"]
    [again] = wait_until(lambda: of_job(collector, "crawl", other))
    assert again.trace != job.trace


def of_job(collector, name, job_id):
    spans = collector.spans(name)
    return [each for each in spans if each.attributes.get("scraper.job_id") == job_id]


def test_a_failed_page_has_its_code(traced, collector, site):
    body = {"urls": [site.url("/alone"), "http://127.0.0.9:9/"], "maxAge": 0}
    job_id = traced.post("/v2/batch/scrape", body).json["id"]
    [job] = wait_until(lambda: of_job(collector, "batch", job_id))
    pages = [each for each in collector.spans("page") if each.trace == job.trace]
    failed = [each for each in pages if each.is_error]
    assert [x.attributes["error.type"] for x in failed] == ["UNSUPPORTED_SITE"]
    assert failed[0].attributes["scraper.result"] == "failed"


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


def test_operations_have_a_span_with_their_fetches(traced, collector, site):
    body = {"urls": [site.url("/alone")], "schema": {"type": "object"}}
    job_id = traced.post("/v2/extract", body).json["id"]
    [job] = wait_until(lambda: of_job(collector, "extract", job_id))
    [request] = of_job(collector, "POST /v2/extract", job_id)
    assert request.trace != job.trace


def test_health_and_metrics_have_no_span(traced, collector, site):
    assert traced.get("/health", key=None).status == 200
    value(traced, "spans_total", result="exported")
    page_of(collector, scrape(traced, site.url("/alone")))
    assert not [x for x in collector.spans() if "health" in x.name or "metr" in x.name]
    assert value(traced, "spans_total", result="exported") >= 3


def test_the_last_spans_are_sent_at_the_end(start_service, site):
    with TraceCollector() as own:
        service = start_service(**own.environment)
        reply = scrape(service, site.url("/alone"))
        assert service.stop() == 0
        assert page_of(own, reply)
        assert len(own.spans()) == 4


@pytest.mark.parametrize("path", ["/silent", None], ids=["hangs", "is down"])
def test_a_collector_that_does_not_respond_stops_nothing(
    start_service, collector, site, path
):
    address = collector.url(path) if path else "http://127.0.0.5:9"
    service = start_service(
        OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_EXPORTER_OTLP_TIMEOUT="1"
    )
    assert scrape(service, site.url("/alone")).status == 200
    if path is None:
        wait_until(lambda: "collector of traces takes no spans" in service.stderr)
        assert value(service, "spans_total", result="failed") > 0
    assert service.get("/health/ready", key=None).status == 200
    assert service.stop() == 0
    assert "Traceback" not in service.stderr


def test_spans_without_room_are_dropped_and_counted(monkeypatch):
    released = threading.Event()
    sent = []

    class Slow(SpanExporter):
        def export(self, spans):
            assert released.wait(60)
            sent.extend(spans)
            return SpanExportResult.SUCCESS

    monkeypatch.setattr(traces, "MAX_WAITING", 10)
    monkeypatch.setattr(traces, "AT_ONCE", 5)
    monkeypatch.setattr(traces, "CLOSE_S", 60)
    before = {x: traces.SPANS.labels(x)._value.get() for x in ("dropped", "exported")}
    queue = traces.SpanQueue(Slow())
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(queue)
    tracer = provider.get_tracer("test")
    for number in range(100):
        tracer.start_span(str(number)).end()
    released.set()
    queue.close()
    dropped = traces.SPANS.labels("dropped")._value.get() - before["dropped"]
    assert dropped + len(sent) == 100
    assert 85 <= dropped <= 90  # at most one call was under way
    assert traces.SPANS.labels("exported")._value.get() == before["exported"] + len(
        sent
    )


def run_python(code, **environment):
    command = (sys.executable, "-c", code)
    variables = {**os.environ, **environment}
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, check=True
    )


SHARED = "from scraper_service.services.observability.tracing import shared_traces\n"


@pytest.mark.full
def test_nothing_is_imported_without_the_variable():
    code = (
        "import sys\nimport scraper_service.addon, scraper_service.server.service\n"
        "import scraper_service.services.jobs, scraper_service.services.kinds\n"
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
def test_what_keeps_traces_from_being_sent_is_logged(tmp_path, environment, text):
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
