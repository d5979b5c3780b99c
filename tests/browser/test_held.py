"""Pages with a part that never comes: a script, a style sheet, a picture, a font."""

from __future__ import annotations

import pytest

from tests.browser.conftest import finished

LAST = "The last words of a page that waits. Its scripts ran."
TIME = {"timeout": 10_000, "waitFor": 1}


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/held-script", "/never.js"),
        ("/held-style", "/never.css"),
        ("/held-import", "one of its files"),
        ("/held-trickle", "/trickle.css"),
        ("/held-other", "/never.js"),
        ("/held-two", "/never.js"),
        ("/held-body", "/never.js"),
        ("/held-image", "/never.png"),
        ("/held-font", "one of its files"),
    ],
)
def test_a_page_is_read_without_a_part_that_never_comes(page, path, name):
    found = page(path, **TIME)
    assert LAST in found["markdown"]
    assert "did not load in time" in found["warning"]
    assert name in found["warning"]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("path", ["/held-script", "/held-style", "/held-font"])
def test_a_page_with_a_part_that_never_comes_has_screenshot_and_actions(page, path):
    actions = [{"type": "wait", "selector": "#end"}, {"type": "screenshot"}]
    formats = ["markdown", {"type": "screenshot", "fullPage": True}]
    found = page(path, timeout=20_000, formats=formats, actions=actions)
    assert LAST in found["markdown"]
    assert found["screenshot"]
    assert len(found["actions"]["screenshots"]) == 1


@pytest.mark.full
def test_waits_of_the_caller_come_on_top_of_the_wait_for_a_part(page):
    found = page("/held-script", timeout=8000, waitFor=4000)
    assert LAST in found["markdown"]


def test_a_shell_with_a_part_that_never_comes_is_rendered(page):
    found = page("/held-client", timeout=20_000)
    assert found["markdown"].startswith("# Made by a script")
    assert found["metadata"]["engine"] == "browser"
    assert "/never.js" in found["warning"]


@pytest.mark.full
def test_a_crawl_reads_a_page_with_a_part_that_never_comes(service, app):
    options = {"formats": ["markdown"], "waitFor": 1, "timeout": 10_000, "maxAge": 0}
    body = {"url": app.url("/held-script"), "limit": 1, "scrapeOptions": options}
    (found,) = finished(service, service.post("/v2/crawl", body))
    assert LAST in found["markdown"]


def test_a_document_that_never_ends_keeps_its_time_out(scrape):
    reply = scrape("/held-document", waitFor=1, timeout=3000)
    assert (reply.status, reply.json["code"]) == (408, "SCRAPE_TIMEOUT")


@pytest.mark.full
def test_a_part_that_never_comes_costs_other_pages_no_warning(page):
    assert "warning" not in page("/links", **TIME)
