"""What Prometheus reads of the service: counts and gauges, as text."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics import exposition as _open_metrics

from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.jobs.metrics import StoredCounts, read_counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from prometheus_client import Metric

    from scraper_service.services.observability.health import Health
    from scraper_service.storage.database import Database

PACKAGE = "scraper-service"
OPEN_METRICS = "application/openmetrics-text"
TYPES = {
    True: f"{OPEN_METRICS}; version=1.0.0; charset=utf-8",
    False: CONTENT_TYPE_PLAIN_0_0_4,
}

disable_created_metrics()  # twice as many lines, which Prometheus does not need
EVERY_S = 5.0  # between two reads of the counts in the database, at least
PAUSES = 20  # times as long as a read is the pause after it
WAIT_S = 2.0  # of a response for new counts; then it has the last ones
logger = logging.getLogger(__name__)


def family(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    """Return a gauge with one ``label``, and a value for each of its values."""
    found = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        found.add_metric([key], value)
    return found


class Metrics:
    """Metrics of this process: its counters, and gauges that are read on demand.

    Counts of the database are :data:`EVERY_S` old at most, unless reading them takes long.
    While the database does not respond, the last counts stay, and
    ``scraper_stored_counts_age_seconds`` grows. Many calls at a time cost as much as one.
    The text is made in a thread.
    """

    def __init__(self, database: Database, health: Health, data_dir: Path):
        self._database = database
        self._health = health
        self._data_dir = data_dir
        self._counts: StoredCounts | None = None
        self._read_at = float("-inf")  # monotonic time of the last good read
        self._next_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._making: dict[bool, asyncio.Task[bytes]] = {}
        self._tasks = BackgroundTasks()

    async def text(self, accept: str) -> tuple[bytes, str]:
        """Return the text 0.0.4, or OpenMetrics 1.0.0 by the header ``Accept``, and its type."""
        is_open = OPEN_METRICS in accept
        making = self._making.get(is_open)
        if making is None:
            making = self._making[is_open] = self._tasks.spawn(self._make(is_open))
            making.add_done_callback(lambda _: self._making.pop(is_open, None))
        return await asyncio.shield(making), TYPES[is_open]

    async def _make(self, is_open: bool) -> bytes:
        report, _ = await asyncio.gather(self._health.report(), self._refresh())
        checks = {name: not reason for name, reason in report.checks.items()}
        return await asyncio.to_thread(self._encode, is_open, checks)

    async def _refresh(self) -> None:
        if self._reading is None and time.monotonic() >= self._next_at:
            self._reading = self._tasks.spawn(self._read())
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=WAIT_S)

    async def _read(self) -> None:
        began = time.monotonic()
        self._next_at = began + EVERY_S
        try:
            self._counts = await self._database.read(read_counts)
            self._read_at = time.monotonic()
            took_s = self._read_at - began
            self._next_at = began + max(EVERY_S, PAUSES * took_s)
        except ServiceUnavailable:
            pass  # logged where it was raised
        except Exception:
            logger.exception("the counts for /metrics could not be read")
        finally:
            self._reading = None

    def _encode(self, is_open: bool, checks: dict[str, bool]) -> bytes:
        families = [*REGISTRY.collect(), *self._gauges(checks)]
        found = SimpleNamespace(collect=lambda: families)
        if not is_open:
            return generate_latest(found)
        text: bytes = _open_metrics.generate_latest(found, version="1.0.0")
        return text

    def _gauges(self, checks: dict[str, bool]) -> Iterator[Metric]:
        text = "1, with the version as a label."
        yield family("scraper_build_info", text, "version", {version(PACKAGE): 1})
        yield family(
            "scraper_check_passes",
            "1 if a check of /health/ready passes, else 0.",
            "check",
            checks,
        )
        if (free := _free_bytes(self._data_dir)) is not None:
            yield GaugeMetricFamily(
                "scraper_data_free_bytes", "Free space in SCRAPER_DATA_DIR.", free
            )
        if self._counts is not None:
            age_s = time.monotonic() - self._read_at
            yield from _stored_metrics(self._counts, age_s)


def _stored_metrics(counts: StoredCounts, age_s: float) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "scraper_jobs", "Stored jobs by kind and state.", labels=["kind", "state"]
    )
    for labels, count in sorted(counts.jobs.items()):
        jobs.add_metric(labels, count)
    yield jobs
    live = GaugeMetricFamily(
        "scraper_live_processes",
        "Live processes of the job database by kind: running, or draining.",
        labels=["kind", "state"],
    )
    for labels, count in sorted(counts.processes.items()):
        live.add_metric(labels, count)
    yield live
    yield family(
        "scraper_urls",
        "URLs of active jobs: pending, leased, or held back by a limit.",
        "state",
        counts.urls,
    )
    for name, text, value in (
        ("webhooks_pending", "Webhook deliveries that wait.", counts.webhooks_pending),
        ("hosts_held", "Hosts that get no request for now.", counts.hosts_held),
        (
            "team_stored_bytes",
            "Bytes that teams have stored, as disk quotas count them.",
            counts.stored_bytes,
        ),
        ("workers", "Processes that work on jobs.", counts.workers),
        (
            "running_jobs",
            "Jobs that run, counted in each process that runs them.",
            counts.running_jobs,
        ),
        (
            "queue_age_seconds",
            "Age of the oldest job that waits.",
            counts.queue_age_s,
        ),
        (
            "lease_overdue_seconds",
            "Time since the lease of the longest silent process ended.",
            counts.lost_age_s,
        ),
        (
            "stored_counts_age_seconds",
            "Age of the counts that come from the job database.",
            age_s,
        ),
    ):
        yield GaugeMetricFamily(f"scraper_{name}", text, value)


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
