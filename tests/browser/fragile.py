"""A browser that pages can end: stands for faults of Chromium and its driver.

``console.log('end driver SIGKILL')`` sends that signal to the driver, with ``chromium``
to its main process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

from scrapy_playwright.provider import PlaywrightBrowserProvider

from scraper_service.crawling.browser.running_browser import processes_of

NAME = f"{__name__}.FragileProvider"


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


class FragileProvider(PlaywrightBrowserProvider):
    """Playwright's own, but that it listens to what pages say on their console."""

    async def launch_browser(self) -> Any:
        browser = await super().launch_browser()
        home = self.config.launch_options["env"]["HOME"]

        def hear(message: Any) -> None:
            word, _, rest = message.text.partition(" ")
            if word == "end" and rest:
                kind, name = rest.split("-")
                pids = driver_and_chromium(home)
                os.kill(pids[kind == "chromium"], signal.Signals[name])

        browser.on("context", lambda context: context.on("console", hear))
        return browser


class FirstStartFails(PlaywrightBrowserProvider):
    """Its first driver gets a signal while it starts."""

    started = 0
    how = signal.SIGKILL

    async def start(self) -> None:
        await super().start()
        type(self).started += 1
        if self.started == 1:
            driver, _ = driver_and_chromium(self.config.launch_options["env"]["HOME"])
            os.kill(driver, self.how)
