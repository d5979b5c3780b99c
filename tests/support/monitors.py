"""Monitors of tests, through the interface of the service."""

from __future__ import annotations

from typing import Any

from tests.support.waiting import wait_until

RARELY = {"cron": "0 0 29 2 *"}  # so that no test meets a due time
STATES = ("same", "changed", "new", "removed", "error")


def create(service: Any, *targets: Any, **more: Any) -> Any:
    """Return a new monitor."""
    body = {"name": "Prices", "schedule": RARELY, "targets": list(targets), **more}
    reply = service.post("/v2/monitor", body)
    assert reply.status == 200, reply.json
    return reply.json["data"]


def scrape(*urls: str, **options: Any) -> dict[str, Any]:
    """Return a target of URLs; ``options`` are those of each page."""
    found: dict[str, Any] = {"type": "scrape", "urls": list(urls)}
    return {**found, "scrapeOptions": options} if options else found


def ended(service: Any, monitor: Any, check_id: str, query: str = "") -> Any:
    """Wait for the end of a check; return it with its pages."""
    path = f"/v2/monitor/{monitor['id']}/checks/{check_id}{query}"

    def is_over() -> Any:
        data = service.get(path).json["data"]
        return data["status"] not in {"queued", "running"} and data

    return wait_until(is_over)


def run(service: Any, monitor: Any) -> Any:
    """Run a check; return it with its pages."""
    reply = service.post(f"/v2/monitor/{monitor['id']}/run")
    assert reply.status == 200, reply.json
    assert reply.json["id"] == reply.json["data"]["id"]
    found = ended(service, monitor, reply.json["id"])
    summary = found["summary"]
    assert summary["totalPages"] == sum(summary[name] for name in STATES)
    return found


def states(check: Any) -> dict[str, str]:
    """Return the states of the pages by the last part of their URLs."""
    return {each["url"].rpartition("/")[2]: each["status"] for each in check["pages"]}
