"""Traces for OpenTelemetry of jobs and pages, if the environment names a collector.

Without the standard variable ``OTEL_EXPORTER_OTLP_ENDPOINT`` nothing of the library is imported,
and requests, jobs and pages cost nothing more.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

from attrs import define, field
from scrapy import signals
from scrapy.exceptions import NotConfigured

from scraper_service.crawling.page_state import PUT_OFF, PageState
from scraper_service.items import DUPLICATE, Page, PageContent, SitemapFile
from scraper_service.options.limits import HTTP

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span  # noqa: TC004  # of an extra
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

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
    """Return a context in which this process works on a job without pages of its own.

    Fetches that begin inside are parts of its span.
    """
    traces = shared_traces()
    return nullcontext() if traces is None else traces.job(job_id, kind)


def note_job(job_id: str) -> None:
    """Note the id of a job in the span of the request that has started it."""
    if (traces := shared_traces()) is not None:
        traces.note(job_id)


# -- spans of a crawler ----------------------------------------------------------------
# The add-on of the service enables these pipelines if traces are on.

SINGLE = "scrape"  # the spider of pages without a job
WITHOUT_PAGES = frozenset({"map", "search"})  # spiders that make other items
MAX_PAGES = 10_000  # with a span at a time; the oldest spans are forgotten


@define
class _PageTrace:
    """The span of a page, and when its present part began (:func:`time.monotonic`)."""

    span: Span
    fetching: float | None = None
    #: Status of the last fetch.
    status: int | None = None
    received: float | None = None
    committing: float | None = None
    #: Attributes for the end.
    facts: dict[str, Any] = field(factory=dict)
    result: str = "done"
    code: str | None = None


class PageSpans:
    """Makes the spans of a crawler. A pipeline before all others, which changes no item.

    A page has a part for each fetch, for its conversion, and in a job for its commit.
    """

    _of: ClassVar[WeakKeyDictionary[Crawler, PageSpans]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler, traces: Traces):
        self._traces = traces
        self._kind: str = crawler.spidercls.name
        self._job_id: str | None = crawler.settings.get("JOB_ID") or None
        self._job: Span | None = None
        self._pages: dict[str, _PageTrace] = {}
        self._of[crawler] = self
        for handler, signal in (
            (self._on_opened, signals.spider_opened),
            (self._on_closed, signals.spider_closed),
            (self._on_scheduled, signals.request_scheduled),
            (self._on_reached, signals.request_reached_downloader),
            (self._on_downloaded, signals.response_downloaded),
            (self._on_left, signals.request_left_downloader),
            (self._on_received, signals.response_received),
            (self._on_scraped, signals.item_scraped),
            (self._on_dropped, signals.item_dropped),
            (self._broke, signals.item_error),
            (self._broke, signals.spider_error),
        ):
            crawler.signals.connect(handler, signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        traces = shared_traces()
        if traces is None or crawler.spidercls.name in WITHOUT_PAGES:
            raise NotConfigured
        return cls(crawler, traces)

    @classmethod
    def find(cls, crawler: Crawler) -> PageSpans | None:
        """Return the spans of a crawler, None if it makes none."""
        return cls._of.get(crawler)

    def _on_opened(self) -> None:
        if self._kind != SINGLE:
            self._job = self._traces.begin_job(self._job_id, self._kind)

    def _on_closed(self, reason: str) -> None:
        self._pages.clear()
        if self._job is not None:
            self._job.set_attribute("scraper.finish_reason", reason)
            self._job.end()

    # -- pages -----------------------------------------------------------------------

    def _on_scheduled(self, request: Request) -> None:
        """Begin a single page in the context of its caller."""
        if (state := PageState.find(request)) is None:
            return
        if not state.is_of_job:
            self._begin(request)
        elif state.retry_at == PUT_OFF:
            self._pages.pop(state.scrape_id, None)
        if (found := self._pages.get(state.scrape_id)) is not None:
            self._end_conversion(found)  # the page goes on with another request

    def _begin(self, request: Request) -> _PageTrace | None:
        if (state := PageState.find(request)) is None:
            return None
        found = self._pages.get(state.scrape_id)
        if found is None:
            if len(self._pages) >= MAX_PAGES:
                del self._pages[next(iter(self._pages))]
            lease = state.lease
            name = "sitemap" if lease is not None and lease.is_sitemap else "page"
            span = self._traces.begin(name, self._job, time.time_ns())
            found = self._pages[state.scrape_id] = _PageTrace(span)
            span.set_attributes(self._facts(state))
        return found

    def _facts(self, state: PageState) -> dict[str, Any]:
        from scraper_service.services.observability.opentelemetry import (  # noqa: PLC0415
            JOB_ID,
            drop_missing,
            url_attributes,
        )

        # The URL of an upload is the name of a file.
        has_url = not (state.options.zero_data_retention or state.is_upload)
        url = url_attributes(state.source_url) if has_url else {}
        return drop_missing(
            {
                **url,
                JOB_ID: self._job_id,
                "scraper.kind": self._kind,
                "scraper.scrape_id": state.scrape_id,
            }
        )

    def _on_reached(self, request: Request) -> None:
        if (found := self._begin(request)) is not None:
            found.fetching, found.status = time.monotonic(), None

    def _on_downloaded(self, response: Response, request: Request) -> None:
        if (found := self._find(request)) is not None:
            found.status = response.status

    def _on_left(self, request: Request) -> None:
        state, found = PageState.find(request), self._find(request)
        if state is None or found is None or found.fetching is None:
            return
        began = state.fetch_began_at
        if began >= found.fetching:  # else it only waited
            facts = {
                "scraper.engine": state.engine or HTTP,
                "http.response.status_code": found.status,
            }
            self._add("fetch", found, began, facts)
        found.fetching = None

    def _on_received(self, request: Request) -> None:
        if (found := self._begin(request)) is not None:
            found.received = time.monotonic()

    def _end_conversion(self, found: _PageTrace, code: str | None = None) -> None:
        if found.received is not None:
            self._add("convert", found, found.received, {"error.type": code})
            found.received = None

    def process_item(self, item: Any) -> Any:
        """Note the end of a conversion."""
        if isinstance(item, PageContent) and item.fetch is not None:
            found = self._pages.get(item.fetch.scrape_id)
            if found is not None:
                self._end_conversion(found, item.error.code if item.error else None)
        return item

    def commits(self, page: Page) -> None:
        """Note the facts of a page, and the begin of its commit if it is part of a job."""
        found = self._pages.get(page.metadata.scrape_id)
        if found is None:
            return
        if page.failure is not None:
            found.code = page.failure.code
            found.result = "skipped" if found.code == DUPLICATE else "failed"
        found.facts = {
            "scraper.engine": page.metadata.engine,
            "scraper.cache": page.metadata.cache_state,
            "http.response.status_code": page.metadata.status_code,
        }
        if page.lease is not None:
            found.committing = time.monotonic()

    def _on_scraped(self, response: Any) -> None:
        self._end(response)

    def _on_dropped(self, item: Any, response: Any) -> None:
        """End a sitemap, which is dropped when it is stored, or a page that is left out."""
        result = "skipped"
        if isinstance(item, SitemapFile):
            has_failed = item.error is not None or item.cause is not None
            result = "failed" if has_failed else "done"
        self._end(response, result)

    def _broke(self, response: Any) -> None:
        self._end(response, "failed")

    def _end(self, response: Any, result: str | None = None) -> None:
        """End the page of a response, or of the failure that it has instead."""
        from scraper_service.services.observability.opentelemetry import (  # noqa: PLC0415
            drop_missing,
            fail,
        )

        request = getattr(response, "request", None)
        state = None if request is None else PageState.find(request)
        found = None if state is None else self._pages.pop(state.scrape_id, None)
        if found is None:
            return
        if found.committing is not None:
            self._add("commit", found, found.committing, {})
        result = result or found.result
        found.span.set_attributes(
            drop_missing({**found.facts, "scraper.result": result})
        )
        if result == "failed":
            fail(found.span, found.code)
        found.span.end()

    def _find(self, request: Request) -> _PageTrace | None:
        state = PageState.find(request)
        return None if state is None else self._pages.get(state.scrape_id)

    def _add(
        self, name: str, page: _PageTrace, began: float, facts: dict[str, Any]
    ) -> None:
        """Add a part of a page that began at a monotonic time and ends now."""
        start_ns = time.time_ns() - int((time.monotonic() - began) * 1e9)
        self._traces.add(name, page.span, start_ns, facts)


class CommitSpans:
    """Notes when the commit of a page begins. A pipeline before :class:`StorePipeline`."""

    def __init__(self, spans: PageSpans):
        self._spans = spans

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if (spans := PageSpans.find(crawler)) is None:
            raise NotConfigured
        return cls(spans)

    def process_item(self, item: Any) -> Any:
        """Note the begin of the commit of a page."""
        if isinstance(item, Page):
            self._spans.commits(item)
        return item
