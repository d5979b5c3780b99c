"""The screens of monitors in Chromium: make, run, read, mute, change and delete them."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import SETTINGS
from tests.conftest import Service
from tests.support.monitors import create, run, scrape
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until
from tests.web.conftest import Tab

TWO = "The lamp costs 10 euros today.</p><p>The shop is open.</p><p>Write to us."


@pytest.fixture(scope="module")
def told(browser, tmp_path_factory):
    """A receiver of messages, and the service that has channels to it and takes screenshots."""
    with Receiver() as receiver:
        team = receiver.url("/ok/team").replace("http://", "json://")
        data = tmp_path_factory.mktemp("told")
        channels = f"team={team},phone={team}"
        running = Service(
            data,
            **{**SETTINGS, "SCRAPER_EGRESS_ALLOW": "127.0.0.2/31"},
            SCRAPER_NOTIFICATION_CHANNELS=channels,
        )
        yield receiver, running
        assert running.stop() == 0, running.stderr


@pytest.fixture
def seen(browser, told):
    """A tab with the service that has channels."""
    opened = Tab(browser, told[1].url)
    opened.sign_in()
    yield opened
    opened.context.close()
    assert opened.faults == []


def is_fine(shown) -> None:
    """Assert that a screen is no wider than the window, and that everybody can read it."""
    wide = "document.documentElement.scrollWidth > innerWidth"
    assert not shown.evaluate(wide)
    violations = Axe().run(shown).response["violations"]
    found = [(x["id"], [n["html"][:200] for n in x["nodes"]]) for x in violations]
    assert found == []


def test_a_monitor_is_run_and_its_changes_are_shown(tab, service):
    with ScriptedSite({"/a": page(text=TWO)}) as shop:
        made = create(service, scrape(shop.url("/a")), name="Prices of lamps")
        shown = tab.page
        tab.go("monitors")
        shown.get_by_role("link", name="Prices of lamps").click()
        checks = shown.get_by_role("region", name="Checks").get_by_role("row")
        for number, text in ((1, "1 new"), (2, "1 changed")):
            shown.get_by_role("button", name="Run now").click()
            expect(checks).to_have_count(number + 1)
            expect(checks.nth(1)).to_contain_text(text)
            shop.put("/a", page(text=TWO.replace("10", "12").replace("The shop", "It")))
        checks.nth(1).get_by_role("button").click()
        pages = shown.get_by_role("region", name="Pages of the check")
        pages.get_by_text("What has changed").click()
        diff = pages.get_by_role("table", name="Diff")
        expect(diff.get_by_role("columnheader")).to_have_text(["Before", "Now"])
        row = diff.get_by_role("row").filter(has_text="euros")
        expect(row.get_by_role("cell")).to_have_text(
            ["The lamp costs 10 euros today.", "The lamp costs 12 euros today."]
        )
        expect(row.locator("del")).to_have_text("10")
        expect(row.locator("ins")).to_have_text("12")
        same = diff.get_by_role("row").filter(has_text="Write to us.")
        expect(same.locator(".del, .ins")).to_have_count(0)
        pages.get_by_role("button", name="One column").click()
        expect(diff.get_by_role("row").filter(has_text="euros")).to_have_text(
            ["The lamp costs 10 euros today.", "The lamp costs 12 euros today."]
        )
        for width in (1440, 360):
            shown.set_viewport_size({"width": width, "height": 800})
            is_fine(shown)
        shown.reload()  # the check is in the address
        expect(pages.get_by_text("What has changed")).to_be_visible()
        shown.get_by_role("button", name="Pause").click()
        expect(shown.get_by_role("region", name="Monitor")).to_contain_text("paused")
        path = f"/v2/monitor/{made['id']}"
        assert service.get(path).json["data"]["status"] == "paused"
        shown.get_by_role("button", name="Delete").click()
        expect(shown.get_by_role("heading", name="Monitors")).to_be_visible()
        assert service.get(path).status == 404


@pytest.mark.full
def test_fields_and_screenshots_of_both_versions_are_shown(seen, told):
    with ScriptedSite({"/a": page(text="10 euros", title="Lamp")}) as shop:
        fields = {"modes": ["json"], "schema": {"properties": {"title": {}}}}
        formats = ["screenshot", {"type": "changeTracking", **fields}]
        made = create(told[1], scrape(shop.url("/a"), formats=formats))
        run(told[1], made)
        shop.put("/a", page(text="12 euros", title="Lamp of the year"))
        check = run(told[1], made)
    shown = seen.go(f"monitors/{made['id']}?check={check['id']}")
    shown.get_by_text("What has changed").click()
    row = shown.get_by_role("row").filter(has=shown.get_by_role("rowheader"))
    changed = row.filter(has_text="title")
    expect(changed.get_by_role("cell")).to_have_text(["Lamp", "Lamp of the year"])
    pictures = shown.get_by_role("img", name=re.compile("^Screenshot: (before|now)$"))
    expect(pictures).to_have_count(2)
    sizes = "images => images.map(each => each.complete && each.naturalWidth)"
    wait_until(lambda: all(pictures.evaluate_all(sizes)))
    assert len(set(pictures.evaluate_all("images => images.map(x => x.src)"))) == 2
    is_fine(shown)


def test_a_monitor_is_made_and_changed_in_the_page(seen, told):
    shown = seen.go("monitors/new")
    shown.get_by_role("button", name="Create the monitor").click()
    alert = shown.get_by_role("alert")
    expect(alert).to_contain_text("name")
    shown.get_by_role("textbox", name="name *").fill("Lamps")
    shown.get_by_role("textbox", name="text").fill("every 7 minutes")
    shown.get_by_role("textbox", name="urls").fill(
        "https://a.example/x\nhttps://b.example"
    )
    shown.locator("summary", has_text="compare").click()
    shown.get_by_label("minCharacters").fill("20")
    shown.get_by_role("checkbox", name="phone").check()
    shown.get_by_label("webhook").fill("https://h.example/x")
    shown.get_by_role("button", name="Create the monitor").click()
    expect(alert).to_contain_text("every 6 minutes")
    seen.go("jobs")  # nothing that was typed is lost
    seen.go("monitors/new")
    is_fine(shown)
    shown.get_by_role("textbox", name="cron").fill("0 4 * * *")
    expect(shown.get_by_role("textbox", name="text")).to_have_value("")
    shown.get_by_role("button", name="Create the monitor").click()
    expect(shown.get_by_role("heading", name="Lamps")).to_be_visible()
    [made] = told[1].get("/v2/monitor").json["data"][:1]
    assert made["schedule"]["cron"] == "0 4 * * *"
    assert made["targets"][0]["urls"] == ["https://a.example/x", "https://b.example"]
    assert made["targets"][0]["compare"] == {"minCharacters": 20}
    assert made["notification"] == {"channels": ["phone"]}
    assert made["webhook"]["url"] == "https://h.example/x"

    shown.get_by_role("link", name="Edit").click()
    shown.get_by_label("goal").fill("Prices")
    shown.get_by_role("checkbox", name="phone").uncheck()
    shown.get_by_label("webhook").fill("")
    shown.get_by_role("button", name="Save").click()
    expect(shown.get_by_text("nobody: changes are shown here only")).to_be_visible()
    changed = told[1].get(f"/v2/monitor/{made['id']}").json["data"]
    assert (changed["goal"], changed["webhook"]) == ("Prices", None)
    assert changed["notification"] is None
    assert changed["targets"] == made["targets"]
    assert changed["nextRunAt"] == made["nextRunAt"]
    seen.faults[:] = [f for f in seen.faults if "400" not in f]


@pytest.mark.full
def test_a_monitor_is_muted_and_its_channels_are_tried(seen, told):
    receiver, service = told
    target = scrape("https://a.example/")
    made = create(service, target, notification={"channels": ["team"]})
    path = f"/v2/monitor/{made['id']}"
    shown = seen.go(f"monitors/{made['id']}")
    shown.get_by_role("button", name="Send a test message").click()
    expect(shown.get_by_text("team: delivered")).to_be_visible()
    assert len(receiver.received("/ok/team")) == 1
    for choice in ("1 day", "until I unmute"):
        shown.get_by_label("Mute", exact=True).select_option(choice)
        expect(shown.get_by_text(re.compile("^muted until"))).to_be_visible()
        until = service.get(path).json["data"]["mutedUntil"]
        assert (until == "forever") == (choice == "until I unmute")
        is_fine(shown)
        shown.get_by_role("button", name="Unmute").click()
        expect(shown.get_by_label("Mute", exact=True)).to_be_visible()
        assert service.get(path).json["data"]["mutedUntil"] is None
