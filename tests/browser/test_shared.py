"""The shared browser of a process, without service: starts, states, ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from playwright.async_api import Error as PlaywrightError
from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

from scraper_service.crawling.browser import (
    chromium,
    devtools,
    running_browser,
    shared_browser,
)
from scraper_service.crawling.browser.chromium import find_chromium
from scraper_service.crawling.browser.render import session_order
from scraper_service.crawling.browser.running_browser import (
    RunningBrowser,
    processes_of,
)
from scraper_service.crawling.browser.shared_browser import SharedBrowser
from scraper_service.crawling.page_errors import (
    BrowserGone,
    BrowserMissing,
)
from scraper_service.options.catalogue import USUAL_PAGE
from tests.browser.fragile import FIRST_START_FAILS, driver_and_chromium


def shared(**changes):
    settings = get_project_settings().copy()
    facts = {"RENDER": "auto", "BROWSER_SANDBOX": bool(os.geteuid()), **changes}
    for name, value in facts.items():
        settings.set(name, value, priority=60)
    return SharedBrowser(settings)


def run(test, **changes):
    """Run ``test`` with a browser of its own; it leaves no directory behind."""

    async def whole():
        browser = shared(**changes)
        browser.enter()
        try:
            async with asyncio.timeout(300):
                await test(browser)
        finally:
            await browser.leave()
            await until(lambda: not homes())

    asyncio.run(whole())


def homes():
    pattern = f"scraper-browser-{os.getpid()}-*"
    return list(Path(tempfile.gettempdir()).glob(pattern))


async def until(condition, every_s=0.02):
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(every_s)


async def title(browser, **options):
    """Return the title of a page that is shown."""

    async def show():
        context = await running.browser.new_context()
        try:
            page = await context.new_page()
            await page.set_content("<title>Shown</title>")
            return await page.title()
        finally:
            await running.close_context(context)

    async with browser.lend(**options) as running:
        return await running.run(show())


@pytest.mark.full
def test_the_pages_of_a_browser_give_way_to_the_service():
    """Processes of pages are forked by zygotes. Chromium raises its own priority, as root."""

    async def test(browser):
        assert await title(browser) == "Shown"
        [home] = homes()
        _, chromium = driver_and_chromium(str(home))
        assert min(map(priority, zygotes(chromium))) > priority(os.getpid())

    run(test)


def priority(pid):
    return os.getpriority(os.PRIO_PROCESS, pid)


def zygotes(chromium):
    tasks = Path(f"/proc/{chromium}/task")
    pids = " ".join(path.read_text() for path in tasks.glob("*/children")).split()
    of = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids}
    return [int(pid) for pid, command in of.items() if b"--type=zygote" in command]


@pytest.mark.full
def test_the_state_of_a_browser_that_dies_is_reported():
    async def test(browser):
        complaints = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        assert browser.state == shared_browser.OK
        showing = asyncio.ensure_future(title(browser))
        # A state may be gone after a few turns of the event loop.
        await until(lambda: browser.state == shared_browser.STARTING, every_s=0)
        assert await showing == "Shown"
        assert browser.state == shared_browser.OK
        [home] = homes()
        # What the driver keeps on the disk goes with the browser.
        assert any("profile" in path.name for path in home.iterdir())
        os.kill(driver_and_chromium(str(home))[0], signal.SIGKILL)
        await until(lambda: browser.state == shared_browser.RESTARTING, every_s=0)
        showing = asyncio.ensure_future(title(browser))
        assert await showing == "Shown"
        assert browser.state == shared_browser.OK
        await until(lambda: not home.exists())
        assert processes_of(str(home)) == []
        gc.collect()
        assert complaints == []

    run(test)


def test_a_page_cancelled_while_it_closes_logs_no_error():
    class Context:
        async def close(self):
            await asyncio.sleep(0.02)
            raise PlaywrightError("the browser has ended")

    async def main():
        complaints = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        running = RunningBrowser(None, "", None, None)
        closing = asyncio.ensure_future(running.close_context(Context()))
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await asyncio.sleep(0.1)
        del closing
        gc.collect()
        assert complaints == []

    asyncio.run(main())


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", [0, 1], ids=["driver", "chromium"])
def test_a_page_in_a_killed_browser_raises_an_error(kind):
    async def test(browser):
        async with browser.lend() as running:
            work = asyncio.ensure_future(running.run(asyncio.sleep(100)))
            await asyncio.sleep(0)
            os.kill(driver_and_chromium(running.home)[kind], signal.SIGKILL)
            with pytest.raises(BrowserGone):
                await work

    run(test)


@pytest.mark.full
def test_a_session_whose_browser_hangs_before_its_page_does_not_open(
    monkeypatch, tmp_path
):
    from scraper_service.crawling.browser import held_page, open_page  # slow

    async def stopped(*args, **options):
        running = await start(*args, **options)
        os.kill(driver_and_chromium(running.home)[1], signal.SIGSTOP)
        return running

    start = held_page.start
    monkeypatch.setattr(held_page, "start", stopped)
    monkeypatch.setattr(open_page, "OPEN_S", 1.0)

    async def test(_):
        settings = get_project_settings().copy()
        facts = {"BROWSER_SANDBOX": bool(os.geteuid()), "DATA_DIR": str(tmp_path)}
        for name, value in facts.items():
            settings.set(name, value, priority=60)
        order = await session_order(settings, "session", "team", USUAL_PAGE, None, None)
        with pytest.raises(BrowserGone):
            await held_page.HeldPage.open(settings, order)

    run(test)


def test_the_reason_why_no_browser_starts_is_reported_until_a_start_succeeds(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(shared_browser, "PATIENCE_S", 300.0)  # a start may take as long
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)

    async def test(browser):
        with pytest.raises(BrowserMissing):
            await title(browser)
        assert browser.state == shared_browser.NOT_STARTED
        # A page of a job waits meanwhile.
        monkeypatch.setattr(shared_browser, "RETRY_S", 0.5)
        showing = asyncio.ensure_future(title(browser, patient=True))
        chromium = find_chromium(Settings({"CHROMIUM_PATH": ""}))
        program.write_text(f'#!/bin/sh\nexec {chromium} "$@"\n')
        assert await showing == "Shown"
        assert browser.state == shared_browser.OK

    run(test, CHROMIUM_PATH=str(program))


@pytest.mark.full
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "stops"])
def test_a_driver_that_fails_while_it_starts_is_replaced(monkeypatch, how):
    from tests.browser.fragile_providers import FirstStartFails  # slow

    monkeypatch.setattr(FirstStartFails, "started", 0)
    monkeypatch.setattr(FirstStartFails, "how", how)
    if how == signal.SIGSTOP:
        monkeypatch.setattr(running_browser, "START_S", 15.0)

    async def test(browser):
        assert await title(browser) == "Shown"
        assert FirstStartFails.started > 1

    run(test, PLAYWRIGHT_BROWSER_PROVIDER=FIRST_START_FAILS)


@pytest.mark.full
def test_a_starting_browser_without_waiting_pages_ends():
    async def test(browser):
        showing = asyncio.ensure_future(title(browser))
        await until(lambda: browser.state == shared_browser.STARTING)
        showing.cancel()
        await until(lambda: browser.state == shared_browser.OK)
        await until(lambda: not homes())

    run(test, BROWSER_IDLE_S=0.1)


@pytest.mark.full
@pytest.mark.parametrize("alone", [False, True], ids=["shared", "alone"])
def test_a_browser_ends_though_the_page_that_would_use_it_next_was_cancelled(alone):
    """A stopped browser keeps that page waiting until it is cancelled."""

    async def test(browser):
        async with browser.lend(alone=alone) as running:
            chromium_pid = driver_and_chromium(running.home)[1]
            # It waits for the browser of the page before it, if it shall be alone.
            early = [asyncio.ensure_future(title(browser, alone=True))] * alone
            await asyncio.sleep(0)
            os.kill(chromium_pid, signal.SIGSTOP)
        waiting = early or [asyncio.ensure_future(title(browser))]
        _, still = await asyncio.wait(waiting, timeout=1)
        for each in still:
            each.cancel()
        await asyncio.wait(waiting)
        os.kill(chromium_pid, signal.SIGCONT)
        await until(lambda: not homes())

    run(test, BROWSER_IDLE_S=3.0, BROWSER_CONCURRENCY=1)


def test_a_browser_can_be_closed_while_it_starts():
    async def test(browser):
        showing = asyncio.ensure_future(title(browser))
        await until(homes)
        await browser.close()
        assert not homes()
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing

    run(test)


@pytest.mark.full
def test_a_page_that_runs_alone_has_a_browser_of_its_own():
    async def test(browser):
        async with browser.lend() as common, browser.lend(alone=True) as own:
            assert own is not common
            waiting = asyncio.ensure_future(title(browser, alone=True))
            assert await title(browser) == "Shown"
            assert not waiting.done()
        assert await waiting == "Shown"

    run(test, BROWSER_CONCURRENCY=4)


@pytest.mark.full
def test_browsers_that_start_together_have_each_their_own_environment():
    async def test(browser):
        before = dict(os.environ)
        all_started = asyncio.Barrier(4)

        async def start():
            async with browser.lend(alone=True) as lone:
                await all_started.wait()
                return all(driver_and_chromium(lone.home))

        assert all(await asyncio.gather(*(start() for _ in range(4))))
        assert dict(os.environ) == before

    run(test, BROWSER_CONCURRENCY=16)


@pytest.mark.skipif(shutil.which("certutil") is None, reason="no certutil")
@pytest.mark.parametrize("has_data", [True, False])
def test_the_browser_trusts_the_certificate_authorities_of_the_machine(
    tmp_path, site, monkeypatch, has_data
):
    monkeypatch.setenv("SSL_CERT_FILE", site.ca_file)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    data = tmp_path / "data"
    if has_data:
        data.mkdir()
    for name in ("first", "second"):
        home = tmp_path / name
        chromium.trust_authorities(str(home), data)
        command = ("certutil", "-L", "-d", f"sql:{home}/.pki/nssdb")
        listed = subprocess.run(command, capture_output=True, text=True, check=True)
        assert listed.stdout.count("C,,") == 1
    assert data.exists() == has_data  # a run by hand leaves nothing behind


@pytest.mark.full
def test_messages_that_would_end_the_driver_do_not_reach_it():
    most = 2**20  # bytes of a page; a message may have six times as many

    async def test(browser):
        async with browser.lend() as running:
            context = await running.browser.new_context()
            page = await context.new_page()
            heard = []
            page.on("console", lambda message: heard.append(message.text))
            page.on("pageerror", lambda error: heard.append(error.message))
            large = f"'x'.repeat({devtools.MAX_EVENT_BYTES})"
            await page.evaluate(f"console.log({large})")
            await page.evaluate(f"void setTimeout(() => {{ throw Error({large}) }})")
            await page.evaluate("setTimeout(() => console.log('small'))")
            await until(lambda: heard)
            assert heard == ["small"]
            with pytest.raises(PlaywrightError) as raised:
                await page.evaluate(f"'x'.repeat({6 * most})")
            assert devtools.is_too_large(raised.value)
            session = await context.new_cdp_session(page)
            with pytest.raises(PlaywrightError, match="the reply has more than 6 MiB"):
                await session.send(
                    "Runtime.evaluate", {"expression": f"'x'.repeat({6 * most})"}
                )
            assert len(await page.evaluate(f"'x'.repeat({5 * most})")) == 5 * most
            assert await running.answers()

    run(test, DOWNLOAD_MAXSIZE=most)
