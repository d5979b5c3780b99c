"""Monitors that compare parts of pages, chosen by CSS selectors."""

from __future__ import annotations

import itertools

import pytest

from tests.support.monitors import RARELY, create, run, scrape, states
from tests.support.scripted_site import ScriptedSite

_numbers = itertools.count()
ABOUT = (
    "The lamp stands on the table in the hall, gives warm light in the evening, and was"
    " made by hand in a small workshop near the lake from brass, glass and oak. "
)


@pytest.fixture(scope="module")
def web():
    with ScriptedSite({}) as site:
        yield site


@pytest.fixture
def path():
    """A page of the site of its own."""
    return f"/{next(_numbers)}"


def lamp(price, visitors, note="Sold by the maker."):
    return (
        f"<title>A lamp</title><main><h1>A lamp</h1><p>{ABOUT * 3}</p>"
        f"<p class='price'>Price: {price} euros</p>"
        f"<p class='visitors'>{visitors} visitors look at this lamp now.</p></main>"
        f"<footer>{note}</footer>"
    )


def target(web, path, mode=None, **compare):
    found = {**scrape(web.url(path)), "compare": compare}
    if mode is not None:
        schema = {"type": "object", "properties": {"title": {"type": "string"}}}
        tracked = {"type": "changeTracking", "modes": mode, "schema": schema}
        found["scrapeOptions"] = {"formats": [tracked]}
    return found


def after(service, web, made, path, text):
    """Change the page, and return its state in the next check."""
    web.put(path, text)
    [found] = run(service, made)["pages"]
    return found


def test_only_included_parts_count(service, web, path):
    made = create(service, target(web, path, includeSelectors=[".price"]))
    assert after(service, web, made, path, lamp(10, 1))["status"] == "new"
    assert after(service, web, made, path, lamp(10, 2))["status"] == "same"
    found = after(service, web, made, path, lamp(11, 3))
    assert found["status"] == "changed"
    assert "\n-Price: 10 euros\n" in found["diff"]["text"]
    assert "visitors" not in found["diff"]["text"]
    page = service.get(f"/v2/scrape/{found['currentScrapeId']}").json["data"]
    assert page["comparedText"].strip() == "Price: 11 euros"
    assert "3 visitors" in page["markdown"]


def test_excluded_parts_do_not_count(service, web, path):
    made = create(service, target(web, path, excludeSelectors=[".visitors", "nav"]))
    after(service, web, made, path, lamp(10, 1))
    assert after(service, web, made, path, lamp(10, 2))["status"] == "same"
    assert after(service, web, made, path, lamp(11, 2))["status"] == "changed"


def test_parts_outside_of_the_main_content_can_be_compared(service, web, path):
    made = create(service, target(web, path, includeSelectors=["footer"]))
    after(service, web, made, path, lamp(10, 1, "Sold by the maker."))
    assert after(service, web, made, path, lamp(11, 2))["status"] == "same"
    found = after(service, web, made, path, lamp(11, 2, "Sold out."))
    assert found["status"] == "changed"


def test_a_part_that_is_gone_is_a_change(service, web, path):
    made = create(service, target(web, path, includeSelectors=[".price"]))
    after(service, web, made, path, lamp(10, 1))
    text = lamp(10, 1).replace("class='price'", "class='cost'")
    assert after(service, web, made, path, text)["status"] == "changed"


def test_selectors_count_for_the_text_of_mixed_comparisons(service, web, path):
    mixed = ["json", "git-diff"]
    made = create(service, target(web, path, mixed, includeSelectors=[".price"]))
    after(service, web, made, path, lamp(10, 1))
    assert after(service, web, made, path, lamp(10, 2))["status"] == "same"
    assert after(service, web, made, path, lamp(11, 2))["status"] == "changed"


def test_other_selectors_count_from_the_next_check_on(service, web, path):
    made = create(service, target(web, path, includeSelectors=[".price"]))
    after(service, web, made, path, lamp(10, 1))
    known = made["targets"][0]
    known["compare"] = {"includeSelectors": [".visitors"]}
    changed = service.request(
        "PATCH", f"/v2/monitor/{made['id']}", {"targets": [known]}
    )
    assert changed.status == 200, changed.json
    assert states(run(service, made)) == {path[1:]: "same"}
    assert after(service, web, made, path, lamp(11, 1))["status"] == "same"
    assert after(service, web, made, path, lamp(11, 2))["status"] == "changed"


@pytest.mark.parametrize("key", ["includeSelectors", "excludeSelectors"])
def test_a_wrong_selector_is_a_400_with_its_path(service, key):
    wrong = {**scrape("https://a.example/"), "compare": {key: ["p", "p["]}}
    body = {"name": "x", "schedule": RARELY, "targets": [wrong]}
    reply = service.post("/v2/monitor", body)
    assert reply.status == 400
    assert [each["path"] for each in reply.json["details"]] == [
        ["targets", 0, "compare", key, 1]
    ]
