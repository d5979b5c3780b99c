"""Browsers that pages can end: stand for faults of Chromium and its driver.

``console.log('end driver SIGKILL')`` sends that signal to the driver, with ``chromium``
to its main process. Services import this module, tests need only its names.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from scrapy_playwright.provider import PlaywrightBrowserProvider

from tests.browser.fragile import driver_and_chromium


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
