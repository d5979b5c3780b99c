"""Metrics of the work of a process on pages, for ``GET /metrics``.

Each service counts its own work, and so does each process that works on a job. Labels have few
values: never a host, a URL, a team, a key or the id of a job.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from statistics import median

from prometheus_client import Counter, Gauge, Histogram

SECONDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

PAGES = Counter(
    "scraper_pages_total",
    "Pages by the kind of their job or call: done, failed, or skipped (delivered under"
    " another URL).",
    ["kind", "result"],
)
PAGE_ERRORS = Counter(
    "scraper_page_errors_total", "Failed pages by their error code.", ["code"]
)
PAGE_SECONDS = Histogram(
    "scraper_page_seconds",
    "Time of a page from its first request to its end.",
    ["engine"],
    buckets=SECONDS,
)
FETCH_SECONDS = Histogram(
    "scraper_fetch_seconds",
    "Time of a request to a site, with the whole body, without the wait for its host.",
    ["engine"],
    buckets=SECONDS,
)
FETCHED_BYTES = Counter(
    "scraper_fetched_bytes_total", "Bytes of the bodies of responses.", ["engine"]
)
SITE_RESPONSES = Counter(
    "scraper_site_responses_total", "Responses of sites by class of status.", ["class"]
)
CACHE_LOOKUPS = Counter(
    "scraper_cache_lookups_total", "Look-ups in the page cache: hit, miss.", ["result"]
)
KEPT_RESPONSES = Counter(
    "scraper_kept_responses_total",
    "Responses that jobs keep, by the place of their bodies while there is an object storage:"
    " object_storage, or database while that takes nothing.",
    ["place"],
)
CREDITS = Counter(
    "scraper_credits_total", "Credits charged for pages and calls.", ["operation"]
)
CONVERSION_SECONDS = Histogram(
    "scraper_conversion_seconds",
    "Time of a task in a converter process, without its wait in the queue.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)
CONVERTER_QUEUE = Gauge(
    "scraper_converter_queue", "Tasks that wait for a converter process."
)
CONVERTER_RESTARTS = Counter(
    "scraper_converter_restarts_total",
    "Converter processes that were replaced because they died, hung or were killed.",
)
BROWSER_PAGES = Gauge("scraper_browser_pages", "Pages that are open in browsers.")
BROWSER_RESTARTS = Counter(
    "scraper_browser_restarts_total", "Browsers that died or hung."
)
SPANS = Counter(
    "scraper_spans_total",
    "Spans for the collector of traces: exported, or failed (it did not take them).",
    ["result"],
)
LAG = Histogram(
    "scraper_event_loop_lag_seconds",
    "How late the event loop runs its timers.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)

PERIOD_S = 0.5
SAMPLES = 120  # one minute
RECENT = 4  # two seconds


class LoopLag:
    """Measures how late the event loop runs timers, over the last minute."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._schedule(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def p99_ms(self) -> float:
        """Return the 99th percentile of the lateness in ms."""
        ordered = sorted(self._samples)
        return round(ordered[int(len(ordered) * 0.99)] * 1000, 2) if ordered else 0.0

    def recent_ms(self) -> float:
        """Return the median lateness in ms of the last :data:`RECENT` samples."""
        recent = list(islice(reversed(self._samples), RECENT))
        return median(recent) * 1000 if recent else 0.0

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + PERIOD_S

        def note() -> None:
            late_s = max(0.0, loop.time() - due)
            self._samples.append(late_s)
            LAG.observe(late_s)
            self._schedule(loop)

        self._handle = loop.call_at(due, note)
