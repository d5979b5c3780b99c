"""The log: its handler, its lines as text or JSON, and the lines about jobs."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured
from scrapy.utils.log import TopLevelFormatter

from scraper_service.content.metadata.dates import utc_text
from scraper_service.crawling import Component
from scraper_service.errors import ServiceUnavailable
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs.job_log import BEGAN, LEFT
from scraper_service.storage.jobs.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from scraper_service.storage.job_records import Job

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
        told = f", {_spell_counts(job)}" if job else ""
        job_logger.info(text, self._job_id, here_s, reason, told, extra=facts)


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
