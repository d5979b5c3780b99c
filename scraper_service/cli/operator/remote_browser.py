"""Tries the operator's browser on another machine, for ``scraper-service doctor``."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from scraper_service.crawling.browser.proxy import Passage
from scraper_service.crawling.browser.remote_browser import RemoteBrowser
from scraper_service.crawling.browser.running_browser import start
from scraper_service.crawling.download.egress import EgressPolicy

if TYPE_CHECKING:
    from scrapy.settings import Settings

    from scraper_service.crawling.browser.running_browser import RunningBrowser

#: A name that never resolves (RFC 6761): the attempt shows that the proxy was reached.
PROBE = "http://scraper-service.invalid/"
PROBE_S = 15.0


async def try_browser(settings: Settings) -> tuple[bool, str]:
    """Connect to the browser and let it open a page through a proxy of this process.

    Returns whether both work, and a sentence about it.
    """
    remote = RemoteBrowser.of(settings)
    assert remote is not None
    logging.disable(logging.WARNING)  # the sentence says it
    try:
        running = await start(settings, remote)
    except (OSError, TimeoutError) as error:
        text = str(error) or f"the browser at {remote.host} does not answer"
        return False, f"{text}; see SCRAPER_BROWSER_CDP_URL"
    finally:
        logging.disable(logging.NOTSET)
    try:
        found = f"Chromium {running.browser.version} at {remote.host}"
        if remote.is_direct:
            text = (
                "has its own way to the network: no rule for networks can be promised"
            )
            return True, f"{found} {text} (SCRAPER_BROWSER_CDP_DIRECT)"
        if (why := await _why_no_way(running)) is not None:
            return False, f"{found}: {why}"
        return True, f"{found}, whose pages reach the network through this service"
    finally:
        await running.end()


async def _why_no_way(running: RunningBrowser) -> str | None:
    """Return why the browser does not reach a proxy of this process, None if it does."""
    from playwright.async_api import Error as PlaywrightError

    assert running.remote is not None
    place = running.remote.proxy_address
    try:
        async with Passage(EgressPolicy(()), **running.passages) as passage:
            proxy: Any = {"server": passage.address}
            context = await running.browser.new_context(proxy=proxy)
            try:
                async with asyncio.timeout(PROBE_S):
                    page = await context.new_page()
                    await page.goto(PROBE)
            except (PlaywrightError, TimeoutError):
                pass  # the name cannot resolve
            finally:
                await running.close_context(context)
            if any(not name.startswith("from ") for name in passage.failures):
                return None
            text = f"it does not reach {passage.address}"
    except OSError as error:
        text = f"no proxy can listen at {place} ({error.strerror or error})"
    return f"{text}; see SCRAPER_BROWSER_PROXY_ADDRESS"
