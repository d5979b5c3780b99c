"""Spans of requests and jobs, which go to a collector.

:mod:`scraper_service.services.observability.tracing` imports this module only if traces are on. Spans
have no queries, headers and bodies of requests.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import logging
import threading
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from scraper_service.crawling.observability import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

NAME = "scraper-service"
JOB_ID = "scraper.job_id"
GONE = "client_gone"  # as the error of a request
CLOSE_S = 2.0  # for the last spans, at the end of the process

logger = logging.getLogger(__name__)


class Traces:
    """The tracer of this process.

    The collector and its headers, the name of the service, the share of traces that are kept and
    the length of the queue come from the standard variables of OpenTelemetry. Spans begin and end
    in the thread of the event loop.
    """

    def __init__(self) -> None:
        # The exporter logs each failure.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL + 1)
        self._ids = _TraceIds()
        provider = TracerProvider(
            resource=_resource(), id_generator=self._ids, shutdown_on_exit=False
        )
        provider.add_span_processor(BatchSpanProcessor(_CountingExporter()))
        self._tracer = provider.get_tracer(NAME, version(NAME))
        self._incoming = TraceContextTextMapPropagator()
        # The library waits half a minute for a collector at the end. This thread waits instead
        # of the caller, and begins now: at the end of an interpreter none may begin.
        self._ends = threading.Event()
        self._closer = threading.Thread(
            target=self._close, args=(provider,), name="spans", daemon=True
        )
        self._closer.start()
        atexit.register(self.close)

    def _close(self, provider: TracerProvider) -> None:
        self._ends.wait()
        provider.shutdown()

    def close(self) -> None:
        """Send the last spans, for at most :data:`CLOSE_S`. Blocks at the first call only."""
        if not self._ends.is_set():
            self._ends.set()
            self._closer.join(CLOSE_S)

    async def stop(self) -> None:
        """Do as :meth:`close` without blocking the event loop."""
        await asyncio.to_thread(self.close)

    # -- requests --------------------------------------------------------------------

    def begin_request(self, headers: Mapping[str, str]) -> Span:
        """Return the span of a request to the service.

        It belongs to the trace of its caller if ``headers`` has a valid ``traceparent``.
        """
        parent = self._incoming.extract(headers, contexts.Context())
        return self._tracer.start_span("request", parent, SpanKind.SERVER)

    def end_request(
        self, span: Span, method: str, route: str | None, status: int | None
    ) -> None:
        """End the span of a request.

        ``route`` is a template such as ``/v2/crawl/{id}``, None for none. ``status`` is None if
        the client went away before the response.
        """
        span.update_name(method if route is None else f"{method} {route}")
        span.set_attribute("http.request.method", method)
        if status is None:
            span.set_status(Status(StatusCode.ERROR))
            span.set_attribute("error.type", GONE)
        else:
            span.set_attribute("http.response.status_code", status)
        if route is not None:
            span.set_attribute("http.route", route)
        if status is not None and status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    @contextmanager
    def inside(self, span: Span) -> Iterator[None]:
        """Return a context whose tasks note the ids of their jobs in ``span``."""
        token = contexts.attach(set_span_in_context(span))
        try:
            yield
        finally:
            contexts.detach(token)

    def note(self, job_id: str) -> None:
        """Note the id of a job in the current span."""
        get_current_span().set_attribute(JOB_ID, job_id)

    # -- jobs ------------------------------------------------------------------------

    def begin_job(self, job_id: str | None, kind: str) -> Span:
        """Return the span of the work of this process on a job.

        All processes derive the same trace from the id of the job.
        """
        if job_id is None:
            return self._tracer.start_span(kind, contexts.Context())
        digest = hashlib.sha256(job_id.encode()).digest()
        with self._ids.next_is(int.from_bytes(digest[:16])):
            span = self._tracer.start_span(kind, contexts.Context())
        span.set_attribute(JOB_ID, job_id)
        return span

    @contextmanager
    def job(self, job_id: str, kind: str) -> Iterator[None]:
        """Return a context of work on a job, with its span."""
        span = self.begin_job(job_id, kind)
        try:
            yield
        finally:
            span.end()


class _TraceIds(RandomIdGenerator):
    """Random ids, or the given id for the next trace."""

    _next: int | None = None

    @contextmanager
    def next_is(self, trace_id: int) -> Iterator[None]:
        self._next = trace_id
        try:
            yield
        finally:
            self._next = None

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() if self._next is None else self._next


def _resource() -> Resource:
    found = Resource.create({"service.version": version(NAME)})
    if str(found.attributes["service.name"]).startswith("unknown_service"):
        found = found.merge(Resource({"service.name": NAME}))
    return found


class _CountingExporter(OTLPSpanExporter):
    """Sends spans to a collector. Counts them, and logs the first failure of several."""

    _fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        found = super().export(spans)
        fails = found is not SpanExportResult.SUCCESS
        SPANS.labels("failed" if fails else "exported").inc(len(spans))
        if fails and not self._fails:
            logger.warning("the collector of traces takes no spans; they are lost")
        elif self._fails and not fails:
            logger.info("the collector of traces takes spans again")
        self._fails = fails
        return found
