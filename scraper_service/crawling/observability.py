"""The metrics, the counts of jobs, and the log of a process.

Each service counts its own work, and so does each process that works on a job. Labels of
metrics have few values: never a host, a URL, a team, a key or the id of a job. The requests of
a job are counted by host; several processes may run a job, and their counts add up in
:mod:`scraper_service.storage.frontier.job_counts`.
"""

from __future__ import annotations

import asyncio
import collections
import json
import logging
import secrets
import time
from collections import defaultdict, deque
from datetime import UTC, datetime
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from prometheus_client import Counter, Gauge, Histogram
from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.log import TopLevelFormatter

from scraper_service.content.metadata.dates import utc_text
from scraper_service.crawling import Component
from scraper_service.errors import ServiceUnavailable
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import job_counts
from scraper_service.storage.frontier.job_counts import (
    KEPT_SECONDS,
    HostCounts,
    RobotsSeen,
    Share,
    Tallied,
)
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs.job_log import BEGAN, LEFT
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.storage.job_records import Job


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
    "Responses that jobs keep, by the store of their bodies while there is an object storage:"
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


# Sources of a delay.
DELAY = "delay"  # option of the caller
CRAWL_DELAY = "crawlDelay"  # robots.txt
RETRY_AFTER = "retryAfter"  # a 429 or 503 with a Retry-After
BACKOFF = "backoff"  # a 429 or 503 without a Retry-After
ADAPTIVE = "adaptive"  # the learnt gap of the host

MAX_STATS = 100  # of a crawler; stats of later names are left out
MAX_STAT_NAME = 200


class JobTally:
    """New counts of one job in this process: requests by host, robots.txt files, stats.

    Hosts are named by their pace keys.
    """

    def __init__(self, clock: Callable[[], float] = time.time):
        self._clock = clock
        self._process = secrets.token_hex(4)
        self._counts: defaultdict[str, HostCounts] = defaultdict(HostCounts)
        self._robots: dict[str, RobotsSeen] = {}
        self._stats: collections.Counter[str] = collections.Counter()  # as taken
        self._in_flight: collections.Counter[str] = collections.Counter()
        self._taken_at = int(clock())

    def add_wait(self, host: str, seconds: float) -> None:
        """Add the wait of a request for its host."""
        self._counts[host].wait_s += seconds

    def add_delay(self, host: str, source: str, seconds: float) -> None:
        """Count a delay of one request."""
        self._counts[host].add_delay(source, 1, seconds)

    def begin(self, host: str) -> None:
        """Count the start of a request."""
        self._counts[host].requests += 1
        self._in_flight[host] += 1
        self._note_share(host, int(self._clock()), 1)

    def count_response(
        self, host: str, answer: str, size: int, backoff: str | None
    ) -> None:
        """Count a response of ``size`` bytes, and the backoff that it caused."""
        counts = self._counts[host]
        counts.answers[answer] += 1
        counts.bytes += size
        if backoff is not None:
            counts.backoffs[backoff] += 1

    def end(self, host: str) -> None:
        """Count the end of a request."""
        self._in_flight[host] -= 1
        if not self._in_flight[host]:
            del self._in_flight[host]

    def robots(self, url: str, seen: RobotsSeen) -> None:
        """Note the content of the robots.txt at ``url``."""
        self._robots[url] = seen

    def take(self, stats: Mapping[str, Any] | None = None) -> Tallied:
        """Return the new counts since the last call, with the growth of Scrapy's ``stats``."""
        now = int(self._clock())
        # The peaks need the requests in flight of each second, also without a start.
        for host in self._in_flight:
            for second in range(max(self._taken_at, now - KEPT_SECONDS) + 1, now + 1):
                self._note_share(host, second)
        self._taken_at = now
        grown = {
            name: value - self._stats[name]
            for name, value in sums_of(stats or {}).items()
            if value != self._stats[name]
        }
        self._stats.update(grown)
        taken = Tallied(self._counts, self._robots, grown)
        self._counts, self._robots = defaultdict(HostCounts), {}
        return taken

    def put_back(self, tallied: Tallied) -> None:
        """Keep counts that could not be stored."""
        for name, counts in tallied.hosts.items():
            self._counts[name].add(counts)
        self._robots = {**tallied.robots, **self._robots}
        self._stats.subtract(tallied.stats)

    def _note_share(self, host: str, second: int, begun: int = 0) -> None:
        share = Share(begun, self._in_flight[host])
        self._counts[host].add_share(second, self._process, share)


def sums_of(stats: Mapping[str, Any]) -> dict[str, float]:
    """Return the first :data:`MAX_STATS` Scrapy stats that add up over crawlers.

    Texts, dates, the memory of the process and largest values do not.
    """
    sums = (
        (name, value)
        for name, value in stats.items()
        if isinstance(value, (int, float))
        and len(name) <= MAX_STAT_NAME
        and not name.startswith("memusage/")
        and not name.endswith("max")
    )
    return dict(islice(sums, MAX_STATS))


STORE_S = 1.0


class JobRecorder(Component):
    """An extension that stores the counts of the job ``JOB_ID``, and Scrapy's stats of it.

    Counts of all processes and restarts add up. A killed process loses the counts of its last
    :data:`STORE_S`. Counts wait while the database is unavailable.
    """

    _of: ClassVar[WeakKeyDictionary[Crawler, JobRecorder]] = WeakKeyDictionary()

    def __init__(self, crawler: Crawler):
        self._job_id: str = crawler.settings.get("JOB_ID") or ""
        if not self._job_id:
            raise NotConfigured  # with a reason it would be a warning at each start
        self.tally = JobTally()
        self._crawler = crawler
        self._database = Database.shared(crawler.settings)
        self._alone = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        type(self)._of[crawler] = self
        crawler.signals.connect(self._on_open, signals.spider_opened)
        crawler.signals.connect(self._on_close, signals.spider_closed)

    @classmethod
    def find(cls, crawler: Crawler) -> JobRecorder | None:
        """Return the recorder of a crawler, None without a stored job."""
        return cls._of.get(crawler)

    @classmethod
    def tally_of(cls, crawler: Crawler) -> JobTally | None:
        """Return the tally of a crawler, None without a stored job."""
        recorder = cls.find(crawler)
        return recorder.tally if recorder else None

    async def store(self) -> None:
        """Store the new counts. They are kept if that fails.

        Cancelling the caller does not cancel the transaction.
        """
        await asyncio.shield(asyncio.ensure_future(self._store()))

    async def _store(self) -> None:
        async with self._alone:
            assert self._crawler.stats is not None
            if not (tallied := self.tally.take(self._crawler.stats.get_stats())):
                return
            try:
                await self._database.write(
                    job_counts.add_requests, self._job_id, tallied
                )
            except ServiceUnavailable:  # logged where it was raised
                self.tally.put_back(tallied)

    def _on_open(self) -> None:
        self._task = asyncio.ensure_future(self._store_often())

    async def _store_often(self) -> None:
        while True:
            await asyncio.sleep(STORE_S)
            await self.store()

    async def _on_close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self.store()


#: The lines about jobs.
job_logger = logging.getLogger("scraper_service.jobs")


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object.

    Members: ``time`` (UTC), ``level``, ``logger``, ``message``, ``error`` (a traceback), and
    those of :func:`with_facts`.
    """

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": utc_text(at),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if job_id := getattr(getattr(record, "spider", None), "job_id", ""):
            line["job"] = job_id
        line.update(getattr(record, "facts", {}))
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def with_facts(**facts: Any) -> Mapping[str, Any]:
    """Return the argument ``extra`` of a log call: members of a line in JSON.

    Facts that are None are left out.
    """
    return {"facts": {k: v for k, v in facts.items() if v is not None}}


def configure_logs(settings: BaseSettings) -> None:
    """Send the log to standard error or ``LOG_FILE``, in the form of ``LOG_JSON``.

    For processes without Scrapy's own handler (``LOG_INSTALL_ROOT_HANDLER``), which Scrapy
    replaces with each crawler. Call this after Scrapy has configured logging: that closes
    earlier handlers.
    """
    level = logging.getLevelNamesMapping()[settings["LOG_LEVEL"]]
    handler = _handler(settings)
    handler.setLevel(level)
    if settings.getbool("LOG_JSON"):
        handler.setFormatter(JsonFormatter())
    else:
        text, date = settings["LOG_FORMAT"], settings["LOG_DATEFORMAT"]
        handler.setFormatter(logging.Formatter(text, date))
    if settings.getbool("LOG_SHORT_NAMES"):
        handler.addFilter(TopLevelFormatter(["scrapy"]))
    root = logging.getLogger()
    root.setLevel(level)
    root.addHandler(handler)


def _handler(settings: BaseSettings) -> logging.Handler:
    if name := settings["LOG_FILE"]:
        mode = "a" if settings.getbool("LOG_FILE_APPEND") else "w"
        return logging.FileHandler(name, mode, settings["LOG_ENCODING"])
    if settings.getbool("LOG_ENABLED"):
        return logging.StreamHandler()
    return logging.NullHandler()


class JobLog(Component):
    """An extension that logs when a process begins and leaves a job.

    Only for jobs of the job database.
    """

    def __init__(self, crawler: Crawler):
        self._job_id: str = crawler.settings.get("JOB_ID") or ""
        if not self._job_id:
            raise NotConfigured  # as above
        self._owner: str = crawler.settings.get("JOB_OWNER") or ""
        self._is_first = crawler.settings.getbool("JOB_IS_FIRST")
        self._database = Database.shared(crawler.settings)
        self._began_at = time.monotonic()
        crawler.signals.connect(self._on_open, signals.spider_opened)
        crawler.signals.connect(self._on_close, signals.spider_closed)

    def _on_open(self) -> None:
        log_begin(self._job_id, self._owner, is_first=self._is_first)

    async def _on_close(self, reason: str) -> None:
        try:
            job = await Jobs(self._database).get(self._job_id, None)
        except ServiceUnavailable:
            job = None
        # Who cancels a job logs it, since not every job has a process.
        if job is not None and job.state in {JobState.COMPLETED, JobState.FAILED}:
            log_end(job)
            return
        here_s = round(time.monotonic() - self._began_at, 3)
        facts = with_facts(
            job=self._job_id,
            event=LEFT,
            process=self._owner,
            reason=reason,
            seconds=here_s,
            **(counts_of(job) if job else {}),
        )
        text = "job %s leaves this process after %.1f s: %s%s"
        counts = f", {_spell_counts(job)}" if job else ""
        job_logger.info(text, self._job_id, here_s, reason, counts, extra=facts)


def log_begin(job_id: str, process: str, *, is_first: bool) -> None:
    """Log that a process begins to work on a job, as the first one or later."""
    what = "starts" if is_first else "goes on"
    facts = with_facts(job=job_id, event=BEGAN, process=process)
    job_logger.info("job %s %s", job_id, what, extra=facts)


def log_end(job: Job) -> None:
    """Log the end of a job: its state, its counts and its duration."""
    seconds = round((job.completed_at or time.time()) - job.created_at, 3)
    level = logging.WARNING if job.error else logging.INFO
    facts = with_facts(
        job=job.id,
        event=job.state.value,
        error=job.error,
        seconds=seconds,
        **counts_of(job),
    )
    text = "job %s %s after %.1f s: %s%s"
    why = f" ({job.error})" if job.error else ""
    values = (job.id, job.state.value, seconds, _spell_counts(job), why)
    job_logger.log(level, text, *values, extra=facts)


def counts_of(job: Job) -> dict[str, int]:
    """Return the counts of a job for its lines."""
    return {
        "pages": job.pages,
        "failed": job.failed,
        "skipped": job.skipped,
        "open": job.open,
        "credits": job.credits,
    }


def _spell_counts(job: Job) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts_of(job).items())
