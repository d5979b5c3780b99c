"""Traces for OpenTelemetry, if the environment names a collector.

Without the standard variable ``OTEL_EXPORTER_OTLP_ENDPOINT`` nothing of the library is imported,
and requests, jobs and pages cost nothing more.
"""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from scraper_service.services.metrics.traces import Traces

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOLS = ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
HTTP = "http/protobuf"
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
        if (given := os.environ.get(name, HTTP)) != HTTP:
            _warn(f"{name} must be {HTTP}, got {given}")
            return None
    try:
        from scraper_service.services.metrics.traces import Traces  # noqa: PLC0415
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
