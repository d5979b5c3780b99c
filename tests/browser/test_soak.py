"""Many renders leave nothing behind; ``make soak`` runs it, with a thousand."""

from __future__ import annotations

import contextlib
import os
import statistics
import time

import pytest

from tests.browser.conftest import SETTINGS, chromium_processes
from tools.bench.memory import memory_of

RENDERS = int(os.environ.get("BROWSER_RENDERS", "0"))
WARM = 10  # renders, after which memory is looked at
SHARE = 1.1  # of that, at the end

pytestmark = [
    pytest.mark.skipif(not RENDERS, reason="it takes long; see make soak"),
    pytest.mark.timeout(60 + 10 * RENDERS),
]


def used_mb(service):
    """Return the memory of the service and its browser, at rest."""
    found = []
    while len(found) < 5:
        time.sleep(0.5)
        with contextlib.suppress(OSError):  # a process ended meanwhile
            found.append(sum(memory.pss_mb for memory in memory_of(service.pid)))
    return statistics.median(found)


def test_memory_and_processes_are_as_after_the_tenth_render(start_service, app):
    # Its place is taken by the same number of pages, whatever RENDERS is.
    service = start_service(**SETTINGS, SCRAPER_BROWSER_PAGES=str(RENDERS + 1))
    paths = ("/client", "/colours", "/frames", "/form", "/scrolled")
    after_ten = 0.0
    for number in range(RENDERS):
        body = {
            "url": app.url(f"{paths[number % len(paths)]}?{number}"),
            "formats": ["markdown", "screenshot"],
            "actions": [{"type": "scroll"}, {"type": "scrape"}],
            "maxAge": 0,
        }
        reply = service.post("/v2/scrape", body)
        assert reply.status == 200, reply.json
        if number + 1 == WARM:
            after_ten = used_mb(service)
            processes = len(chromium_processes(service.pid))
    at_end = used_mb(service)
    print(f"{after_ten:.0f} MB after {WARM}, {at_end:.0f} MB after {RENDERS} renders")
    assert at_end <= SHARE * after_ten
    # Chromium keeps a spare renderer or a utility process at times.
    assert len(chromium_processes(service.pid)) <= processes + 2
    assert service.stop() == 0
    assert chromium_processes(service.pid) == []
