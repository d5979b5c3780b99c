"""What ``GET /metrics`` tells about the browser."""

from __future__ import annotations

import os
import signal

import pytest

from tests.api.test_metrics import samples, value
from tests.browser.conftest import SETTINGS, chromium_processes
from tests.support.waiting import wait_until


@pytest.mark.full
def test_rendered_pages_and_ends_of_the_browser_are_counted(start_service, app):
    service = start_service(**SETTINGS)
    body = {"url": app.url("/slow"), "waitFor": 1, "maxAge": 0}
    assert service.post("/v2/scrape", body).json["success"]
    found = samples(service)
    rendered = ("engine", "browser")
    assert found["scraper_page_seconds_count", rendered] == 1
    assert found["scraper_fetch_seconds_count", rendered] == 1
    assert found["scraper_browser_pages",] == 0
    os.kill(chromium_processes(service.pid)[0], signal.SIGKILL)
    wait_until(lambda: value(service, "browser_restarts_total") == 1)
    assert service.post("/v2/scrape", body).json["success"]
