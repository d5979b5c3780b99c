"""Metrics as text: the formats of Prometheus, and gauges with a value for each label."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from attrs import frozen
from prometheus_client import Metric, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics import exposition as _open_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PACKAGE = "scraper-service"
OPEN_METRICS = "application/openmetrics-text"

disable_created_metrics()  # twice as many lines, which Prometheus does not need


def is_open_metrics(accept: str) -> bool:
    """Return True if the header ``Accept`` has the type of OpenMetrics."""
    return OPEN_METRICS in accept


def content_type(*, is_open: bool) -> str:
    """Return the content type of :func:`encode_metrics`."""
    if is_open:
        return f"{OPEN_METRICS}; version=1.0.0; charset=utf-8"
    return CONTENT_TYPE_PLAIN_0_0_4


@frozen
class _Families:
    """What the encoders of prometheus_client read."""

    families: list[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.families


def encode_metrics(families: list[Metric], *, is_open: bool) -> bytes:
    """Return families as text 0.0.4, or as OpenMetrics 1.0.0."""
    found = _Families(families)
    if not is_open:
        return generate_latest(found)
    text: bytes = _open_metrics.generate_latest(found, version="1.0.0")
    return text


def build_info() -> Metric:
    """Return the gauge with the version as a label."""
    text = "1, with the version as a label."
    return family("scraper_build_info", text, "version", {version(PACKAGE): 1})


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(name, text, value)


def family(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    """Return a gauge with one ``label``, and a value for each of its values."""
    found = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        found.add_metric([key], value)
    return found
