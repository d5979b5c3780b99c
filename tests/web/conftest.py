"""Chromium with the web page of the service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect, sync_playwright
from scrapy.settings import Settings

from scraper_service.crawling.browser.chromium import find_chromium
from tests.browser.conftest import why_no_browser
from tests.conftest import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

WAIT_MS = 60_000  # for what takes a moment, on a busy machine
expect.set_options(timeout=WAIT_MS)


class Tab:
    """A tab of the browser, signed in, which notes all that should not happen."""

    def __init__(self, browser: Browser, url: str, **options: Any):
        self.url = url
        self.context = browser.new_context(accept_downloads=True, **options)
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.faults: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(f"thrown: {error}"))
        self.page.on("request", self._requested)
        self.page.on("dialog", lambda dialog: dialog.accept())

    def _heard(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.faults.append(f"{message.type}: {message.text}")

    def _requested(self, request: Any) -> None:
        own = (self.url, "data:", "blob:", "about:")
        if not request.url.startswith(own):
            self.faults.append(f"request to {request.url}")

    def sign_in(self, key: str = KEY) -> Page:
        """Sign in by the form, and return the page."""
        self.page.goto(self.url)
        self.page.get_by_label("API key").fill(key)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("tab", name="scrape")).to_be_visible()
        return self.page

    def go(self, place: str) -> Page:
        """Show a screen, such as ``jobs``."""
        self.page.evaluate("place => { location.hash = '/' + place; }", place)
        expect(self.page).to_have_url(re.compile(re.escape(f"#/{place}")))
        return self.page


@pytest.fixture(scope="module")  # its event loop runs in the thread of the tests
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of a module."""
    if why := why_no_browser():
        pytest.skip(why)
    path = find_chromium(Settings({"CHROMIUM_PATH": ""}))
    with sync_playwright() as playwright:
        # Root, as in containers of CI, cannot have the sandbox.
        started = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], chromium_sandbox=False
        )
        yield started
        started.close()


@pytest.fixture
def tab(browser, service) -> Iterator[Tab]:
    """A tab with the shared service, signed in. The test fails if the page complains."""
    opened = Tab(browser, service.url)
    opened.sign_in()
    yield opened
    opened.context.close()
    assert opened.faults == []
