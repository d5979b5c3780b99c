"""Watch the prices of products.

python price_monitor.py create URL...   prints the id of a new monitor
python price_monitor.py check ID        checks it now, and prints changed prices
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from firecrawl import Firecrawl

if TYPE_CHECKING:
    from firecrawl.v2.types import MonitorCheckPage

SERVICE = os.environ.get("SERVICE", "http://127.0.0.1:3002")
KEY = os.environ["KEY"]
WEBHOOK = os.environ.get("WEBHOOK")  # a URL that gets the pages of each check
SCHEDULE = {"text": "daily at 9:00", "timezone": "Europe/Berlin"}
# CSS selectors of a product's page: adapt them to the shop.
NAME = {"name": "name", "selector": "h1"}
PRICE = {
    "name": "price",
    "selector": ".price",
    "type": "regex",
    "pattern": r"([0-9.]+)",
    "transform": "number",
}
POLL_S = 1
TIMEOUT_S = 300
RUNNING = ("queued", "running")


def create(client: Firecrawl, urls: list[str]) -> None:
    """Create a monitor of products. The service runs it by its schedule from now on."""
    selectors = {"fields": [NAME, PRICE]}
    tracking = {"type": "changeTracking", "modes": ["json"], "selectors": selectors}
    options = {"formats": ["markdown", tracking]}
    target = {"type": "scrape", "urls": urls, "scrapeOptions": options}
    webhook = {"url": WEBHOOK, "events": ["monitor.page"]} if WEBHOOK else None
    monitor = client.create_monitor("prices", SCHEDULE, [target], webhook=webhook)
    print(monitor.id)


def check(client: Firecrawl, monitor_id: str) -> None:
    """Run a check, wait for its end, and print a line for each page."""
    check_id = client.run_monitor(monitor_id).id
    end = time.monotonic() + TIMEOUT_S
    found = client.get_monitor_check(monitor_id, check_id)
    while found.status in RUNNING:
        if time.monotonic() > end:
            raise SystemExit(f"Check {check_id} has not ended within {TIMEOUT_S} s.")
        time.sleep(POLL_S)
        found = client.get_monitor_check(monitor_id, check_id)
    for page in sorted(found.pages, key=lambda page: page.url):
        print(f"{page.url} {describe(page)}")
    if found.status != "completed":  # such as partial: a page has an error
        raise SystemExit(f"The check has ended as {found.status}. {found.error or ''}")


def describe(page: MonitorCheckPage) -> str:
    """Return the state of a page, with its price and the one before."""
    if page.status == "error":
        return f"error: {page.error}"
    if page.status == "changed" and "price" in page.diff.json:
        price = page.diff.json["price"]
        return f"changed: {price['previous']} -> {price['current']}"
    values = (page.snapshot and page.snapshot.json) or {}
    return f"{page.status}: {values.get('price')}"


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    client = Firecrawl(api_key=KEY, api_url=SERVICE)
    if command == "create":
        create(client, arguments)
    else:
        check(client, *arguments)
