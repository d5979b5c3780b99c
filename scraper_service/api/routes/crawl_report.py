"""The politeness and scope report of a job: an addition of ours to /v2.

``GET /v2/crawl/{id}/report`` and ``GET /v2/batch/scrape/{id}/report``. Every number is
of this job, over all processes and restarts; times are in seconds, sizes in bytes as
they were sent. Counts of another process may be a second old.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import asdict

from scraper_service.api.fields.common import wire_names
from scraper_service.api.fields.jobs import CRAWL_FIELDS
from scraper_service.api.page_json import encode
from scraper_service.api.routes import jobs
from scraper_service.api.v2 import requests
from scraper_service.storage.politeness.hosts import pace_key

if TYPE_CHECKING:
    from scraper_service.services.crawl_report import Report
    from scraper_service.storage.politeness.hosts import HostReport
    from scraper_service.storage.politeness.tally import HostCounts
    from scraper_service.storage.politeness.tally_rows import RobotsRow

# Options that say how politely and how far a job goes; a batch has few of them.
OPTIONS = (
    *("delay_s", "max_concurrency", "limit", "sitemap"),
    *("ignore_robots_txt", "robots_user_agent"),
    *("max_discovery_depth", "crawl_entire_domain"),
    *("allow_subdomains", "allow_external_links", "include_paths", "exclude_paths"),
    *("regex_on_full_url", "deduplicate_similar_urls", "ignore_query_parameters"),
)
_names = wire_names({**CRAWL_FIELDS, **requests.CRAWL_FIELDS})
_OPTIONS = {name: _names[name] for name in OPTIONS}


def reported(report: Report) -> bytes:
    """Answer the report.

    ``addresses`` counts by state, all of them; ``reasons`` counts those with a reason,
    as ``/urls`` tells it. ``sitemaps``: ``files``, of them ``read`` and ``failed``, and
    ``reasons`` of the failed. ``totals`` are over all hosts. ``robots`` and ``hosts``
    are lists, see :func:`_robots` and :func:`_host`; each has at most 1000 elements,
    those that refused or were asked most. ``options`` are those of the job, ``limits``
    those of the service.
    """
    facts = report.facts
    asked = json.loads(facts.job.options)
    totals = asdict(facts.totals)
    totals["waitSeconds"] = round(totals.pop("wait_s"), 3)
    return encode(
        {
            "success": True,
            "id": facts.job.id,
            "status": jobs.shown(facts.job.state),
            "addresses": facts.states,
            "reasons": facts.reasons,
            "sitemaps": asdict(facts.sitemaps),
            "robots": [_robots(row, report.max_crawl_delay_s) for row in facts.robots],
            "hosts": [
                _host(name, counts, report.pace(name))
                for name, counts in facts.hosts.items()
            ],
            "totals": totals,
            "options": {_OPTIONS[k]: v for k, v in asked.items() if k in _OPTIONS},
            "limits": {
                "hostConcurrency": report.host_concurrency,
                "jobConcurrency": report.job_concurrency,
                "maxCrawlDelaySeconds": report.max_crawl_delay_s,
                "maxPauseSeconds": report.max_pause_s,
                "userAgent": report.user_agent,
            },
        }
    )


def _robots(row: RobotsRow, max_delay_s: float) -> dict[str, Any]:
    """Return a robots.txt.

    ``state`` is ``ok``, ``absent`` (all is allowed) or ``unreachable`` (all is
    refused), ``detail`` why; ``agent`` the group that counts, missing where there is
    none or robots.txt is ignored. ``crawlDelay`` is as written, ``crawlDelayApplied``
    what it came to. ``refused`` are addresses of the job.
    """
    facts: dict[str, Any] = {"url": row.url, "host": pace_key(row.url)}
    if row.seen is not None:
        facts |= {"state": row.seen.state, "detail": row.seen.detail or None}
        facts |= {"agent": row.seen.agent}
        if delay_s := row.seen.crawl_delay_s:
            facts["crawlDelay"] = delay_s
            facts["crawlDelayApplied"] = min(delay_s, max_delay_s)
    facts["refused"] = row.refused
    return {name: value for name, value in facts.items() if value is not None}


def _host(name: str, counts: HostCounts, now: HostReport) -> dict[str, Any]:
    """Return what was asked of a host: scheme and ``www.`` make no other one.

    ``peakRate`` is the most requests that began in a second, ``peakInFlight`` the most
    at once; ``waitSeconds`` adds up over requests. ``answers`` counts by status,
    ``timeout`` and ``failed``; ``backoffs`` how often the pace slowed down, by the
    status, ``timeout`` or ``latency``. ``delays`` are by where they came from:
    ``delay`` (the option), ``crawlDelay`` (robots.txt), ``retryAfter``, ``backoff``
    (a 429 or 503 that names no pause), ``adaptive`` (the gap that the service found);
    ``seconds`` is the longest. ``window`` (requests at once) and ``gapSeconds`` are
    those of this moment, for all jobs together.
    """
    return {
        "host": name,
        "requests": counts.requests,
        "bytes": counts.bytes,
        "peakRate": counts.peak_rate,
        "peakInFlight": counts.peak_in_flight,
        "waitSeconds": round(counts.wait_s, 3),
        "answers": counts.answers,
        "backoffs": counts.backoffs,
        "delays": [
            {"source": source, "seconds": round(longest_s, 3), "requests": times}
            for source, (times, longest_s) in counts.delays.items()
        ],
        "window": now.window,
        "gapSeconds": round(now.gap_s, 3),
    }
