"""The processes of a service's browsers, and providers of browsers that pages can end."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from scraper_service.crawling.browser.running_browser import processes_of

# Not imported here: the import takes over a second in a process that has collected tests.
FRAGILE = "tests.browser.fragile_providers.FragileProvider"
FIRST_START_FAILS = "tests.browser.fragile_providers.FirstStartFails"


def homes_of(service: Any) -> set[str]:
    """Return the directories of the browsers of a service."""
    pattern = f"scraper-browser-{service.pid}-*"
    return {str(path) for path in Path(tempfile.gettempdir()).glob(pattern)}


def driver_and_chromium(home: str) -> tuple[int, int]:
    """Return the pids of the driver and of Chromium's main process."""
    driver = 0
    parents: dict[int, int] = {}
    for pid in processes_of(home):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            is_main = b"--user-data-dir=" in command and b"--type=" not in command
            # Debian starts Chromium by a script, which has the same arguments.
            is_chromium = "chrom" in Path(f"/proc/{pid}/exe").readlink().name
            if b"run-driver" in command:
                driver = pid
            elif is_main and is_chromium:
                stat = Path(f"/proc/{pid}/stat").read_text()
                parents[pid] = int(stat.rpartition(")")[2].split()[1])
    # A process that Chromium forks has its arguments until it begins its own program.
    first = (pid for pid, parent in parents.items() if parent not in parents)
    return driver, next(first, 0)
