"""Traces for OpenTelemetry of requests and jobs, if the environment names a collector.

Without the standard variable ``OTEL_EXPORTER_OTLP_ENDPOINT`` nothing of the library is imported,
and requests and jobs cost nothing more.
"""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span
    from scrapy.crawler import Crawler

    from scraper_service.services.observability.opentelemetry import Traces


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
PROTOCOL = "http/protobuf"
EXTRA = "telemetry"

logger = logging.getLogger(__name__)


@cache
def shared_traces() -> Traces | None:
    """Return the traces of this process, None if they are off.

    A platform may set the variables for all of its containers. So what this process cannot do
    is a warning in the log, and no reason to end.
    """
    if not os.environ.get(ENDPOINT) or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    for name in PROTOCOLS:
        if (given := os.environ.get(name, PROTOCOL)) != PROTOCOL:
            _warn(f"{name} must be {PROTOCOL}, got {given}")
            return None
    try:
        from scraper_service.services.observability.opentelemetry import Traces  # noqa: PLC0415
    except ImportError:
        _warn(f"it needs the extra {EXTRA}: pip install 'scraper-service[{EXTRA}]'")
        return None
    return Traces()


def _warn(reason: str) -> None:
    logger.warning("%s is set, but no traces are sent: %s", ENDPOINT, reason)


def job_span(job_id: str, kind: str) -> AbstractContextManager[None]:
    """Return a context in which this process works on a job without a spider."""
    traces = shared_traces()
    return nullcontext() if traces is None else traces.job(job_id, kind)


def note_job(job_id: str) -> None:
    """Note the id of a job in the span of the request that has started it."""
    if (traces := shared_traces()) is not None:
        traces.note(job_id)


# Spiders whose crawlers work on no job: their requests have spans.
WITHOUT_JOB = frozenset({"scrape", "map", "search"})


class JobSpan:
    """Makes the span of a crawler. The add-on of the service enables it if traces are on."""

    def __init__(self, crawler: Crawler, traces: Traces):
        self._traces = traces
        self._kind: str = crawler.spidercls.name
        self._job_id: str | None = crawler.settings.get("JOB_ID") or None
        self._span: Span | None = None
        crawler.signals.connect(self._on_opened, signals.spider_opened)
        crawler.signals.connect(self._on_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        traces = shared_traces()
        if traces is None or crawler.spidercls.name in WITHOUT_JOB:
            raise NotConfigured
        return cls(crawler, traces)

    def _on_opened(self) -> None:
        self._span = self._traces.begin_job(self._job_id, self._kind)

    def _on_closed(self, reason: str) -> None:
        if self._span is not None:
            self._span.set_attribute("scraper.finish_reason", reason)
            self._span.end()
