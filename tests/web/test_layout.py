"""Where the parts of the web page stand: nothing is cut, covered or broken in a word."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.monitors import create, scrape
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, page, sitemap
from tests.support.waiting import wait_until

NARROW = {"width": 390, "height": 844}
LONG = "/" + "-".join(["a-path-without-an-end"] * 6)
# The words of labels that stand on more than one line.
BROKEN_WORDS = """() => [...document.querySelectorAll(".facts th")].flatMap((label) => {
  const walker = document.createTreeWalker(label, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode())
    for (const word of walker.currentNode.data.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1)
        found.push(word[0]);
    }
  return found;
})"""
# The buttons above a text that cover a part of it.
COVERED = """() => [...document.querySelectorAll(".source")].filter((source) => {
  const button = source.querySelector("button").getBoundingClientRect();
  const range = document.createRange();
  range.selectNodeContents(source.querySelector("pre"));
  const box = source.querySelector("pre").getBoundingClientRect();
  return button.bottom > box.bottom || [...range.getClientRects()].some((line) =>
    line.right > button.left && line.left < button.right
    && line.bottom > button.top && line.top < button.bottom);
}).length"""
HIDDEN = "(element) => element.scrollHeight - element.clientHeight"
WIDER = "(element) => element.scrollWidth - element.clientWidth"


@pytest.fixture(scope="module")
def shop():
    with ScriptedSite(
        {"/": page("/lamp", LONG), "/lamp": page(), LONG: page()}
    ) as site:
        yield site


@pytest.fixture(scope="module")
def crawled(service, shop):
    """The id of a crawl with a webhook."""
    with Receiver() as receiver:
        body = {"url": shop.url("/"), "webhook": receiver.url("/ok/hook")}
        job = service.post("/v2/crawl", body).json["id"]
        path = f"/v2/crawl/{job}/deliveries"

        def all_are_delivered():
            states = [each["state"] for each in service.get(path).json["deliveries"]]
            return len(states) == 5 and set(states) == {"delivered"}

        wait_until(all_are_delivered)
    return job


@pytest.fixture(scope="module")
def monitor(service, shop):
    hook = {"url": shop.url("/a-hook-for-what-has-changed"), "events": ["monitor.page"]}
    return create(service, scrape(shop.url("/lamp"), shop.url(LONG)), webhook=hook)


@pytest.mark.full
def test_labels_are_broken_between_words_only(tab, crawled, monitor):
    tab.page.set_viewport_size(NARROW)
    tabs = [f"jobs/{crawled}?kind=crawl&tab={name}" for name in ("quality", "report")]
    for place in ("usage", "health", f"monitors/{monitor['id']}", *tabs):
        shown = tab.go(place)
        expect(shown.locator(".facts th").first).to_be_visible()
        assert shown.evaluate(BROKEN_WORDS) == [], place


@pytest.mark.full
def test_the_mark_of_the_key_in_use_is_visible(tab):
    tab.page.set_viewport_size(NARROW)
    mark = tab.go("usage").get_by_text("signed in with it")
    expect(mark).to_be_visible()
    room = mark.evaluate(
        "(mark) => mark.closest('.scroll').getBoundingClientRect().right"
        " - mark.getBoundingClientRect().right"
    )
    assert room >= 0


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("place", ["jobs", "jobs/{}?kind=crawl&tab=urls"])
def test_filters_stand_in_a_line(tab, crawled, place):
    shown = tab.go(place.format(crawled))
    fields = shown.locator(".filters :is(input, select, button)")
    expect(fields.first).to_be_visible()
    boxes = [each.bounding_box() for each in fields.all()]
    assert len({(box["y"], box["height"]) for box in boxes}) == 1, boxes


def test_a_long_url_moves_no_column_out_of_view(tab, crawled):
    tab.page.set_viewport_size({"width": 1280, "height": 900})
    shown = tab.go(f"jobs/{crawled}?kind=crawl&tab=deliveries")
    table = shown.locator(".scroll")
    expect(table).to_be_visible()
    assert table.evaluate(WIDER) == 0


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("width", [390, 1280])
def test_the_copy_button_covers_no_text(tab, crawled, width):
    tab.page.set_viewport_size({"width": width, "height": 844})
    shown = tab.go(f"jobs/{crawled}?kind=crawl&tab=deliveries")
    shown.get_by_role("button", name="Show").first.click()
    expect(shown.get_by_role("region", name="Delivery")).to_be_visible()
    assert shown.evaluate(COVERED) == 0


@pytest.mark.full
def test_json_of_several_lines_is_shown_whole(tab, monitor):
    shown = tab.go(f"monitors/{monitor['id']}/edit")
    field = shown.get_by_label("webhook")
    expect(field).to_have_value(re.compile("a-hook-for"))
    assert field.evaluate(HIDDEN) <= 0


@pytest.mark.full
def test_a_job_with_only_refused_urls_does_not_show_no_errors(tab, service):
    with ScriptedSite({"/": page("/private/a")}) as refusing:
        refusing.put("/robots.txt", "User-agent: *\nDisallow: /private/")
        job = service.post("/v2/crawl", {"url": refusing.url("/")}).json["id"]
        wait_until(lambda: service.get(f"/v2/crawl/{job}").json["status"] != "scraping")
    shown = tab.go(f"jobs/{job}?kind=crawl&tab=errors")
    expect(shown.get_by_text("Refused by robots.txt 1")).to_be_visible()
    expect(shown.get_by_text("No page failed.")).to_have_count(0)


@pytest.mark.full
def test_cards_of_an_extract_job_are_spaced(tab, service, shop):
    body = {"urls": [shop.url("/lamp")], "schema": {"properties": {"title": {}}}}
    job = service.post("/v2/extract", body).json["id"]
    wait_until(lambda: service.get(f"/v2/extract/{job}").json["status"] == "completed")
    shown = tab.go(f"jobs/{job}?kind=extract")
    expect(shown.get_by_role("button", name="Copy data")).to_be_visible()
    first, second = (each.bounding_box() for each in shown.locator(".card").all())
    assert second["y"] - first["y"] - first["height"] >= 8


@pytest.mark.full
def test_the_urls_of_a_large_map_are_counted_as_elsewhere(tab):
    with ScriptedSite({"/": page()}) as large:
        urls = [large.url(f"/{number}") for number in range(1200)]
        large.put("/sitemap.xml", sitemap(*urls))
        shown = tab.go("play?op=map")
        shown.get_by_role("textbox", name="url").fill(large.url("/"))
        shown.keyboard.press("Control+Enter")
        expect(shown.get_by_role("heading", name="1,20")).to_be_visible()
