"""Every action, its result, and how it fails."""

from __future__ import annotations

import pytest

from scraper_service.options.actions import KEY_NAMES
from tests.browser.conftest import Png, fetch

LISTS = ["screenshots", "scrapes", "javascriptReturns", "pdfs"]


@pytest.fixture
def act(page):
    """Return a function that does actions on the form and returns the page."""

    def call(*actions, path="/form", version="v2", **options):
        return page(path, version, actions=list(actions), **options)

    return call


def script(text):
    return {"type": "executeJavascript", "script": text}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_all_four_lists_are_there(act, version):
    found = act({"type": "wait", "milliseconds": 1}, version=version)
    assert found["actions"] == {name: [] for name in LISTS}


def test_click_write_press(act):
    found = act(
        {"type": "click", "selector": "#name"},
        {"type": "write", "text": "Ann"},
        {"type": "press", "key": "Enter"},
        {"type": "click", "selector": "#go"},
        {"type": "click", "selector": ".many", "all": True},
    )
    assert "entered Ann clicked many many" in found["markdown"]


def test_click_takes_the_first_of_many(act):
    found = act({"type": "click", "selector": ".many"})
    assert found["markdown"].count("many") == 1


def test_a_click_on_over_1000_elements_fails(scrape):
    many = [
        script("document.body.innerHTML = '<button>x</button>'.repeat(1001)"),
        {"type": "click", "selector": "button", "all": True},
    ]
    reply = scrape("/form", actions=many)
    assert reply.status != 200
    assert "matches 1,001 elements" in reply.json["error"]
    assert "at most 1,000" in reply.json["error"]


@pytest.mark.full
def test_results_of_all_actions_have_the_size_of_a_page_at_most(scrape):
    fill = script("document.body.innerHTML = 'a'.repeat(9e6); 0")
    reply = scrape("/form", actions=[fill, *[{"type": "scrape"}] * 3])
    assert reply.status != 200
    assert "Action 3 (scrape) failed" in reply.json["error"]
    assert "more than 20,971,520 bytes" in reply.json["error"]


def test_wait_for_an_element(act):
    assert "Late" in act({"type": "wait", "selector": "#late"})["markdown"]


def test_more_is_loaded_by_clicks(act):
    more = {"type": "click", "selector": "#more"}
    text = act(more, more, path="/more")["markdown"]
    assert "Item 30" in text
    assert "Item 31" not in text


def to_end(**limits):
    return {"type": "scrollToEnd", **limits}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_list_is_scrolled_until_no_more_elements_load(act, version):
    found = act(to_end(), path="/scrolled", version=version)
    assert "Item 50" in found["markdown"]
    assert "scrollToEnd" not in found.get("warning", "")


@pytest.mark.parametrize(
    ("limits", "part"),
    [({"maxScrolls": 3}, "3 scrolls"), ({"timeout": 900}, "900 ms")],
    ids=["scrolls", "time"],
)
def test_an_endless_list_ends_at_a_limit(act, limits, part):
    found = act(to_end(**limits), path="/endless")
    assert "Item 20" in found["markdown"]
    assert part in found["warning"]


def test_an_element_is_scrolled_to_its_end(act):
    where = "document.querySelector('#box').scrollTop > 100"
    found = act(to_end(selector="#box"), script(where))
    assert found["actions"]["javascriptReturns"] == [{"type": "boolean", "value": True}]


def test_scroll_of_page_and_element(act):
    found = act(
        {"type": "scroll"},
        script("scrollY"),
        {"type": "scroll", "direction": "up"},
        script("scrollY"),
        {"type": "scroll", "selector": "#list"},
        path="/more",
    )
    down, up = (value["value"] for value in found["actions"]["javascriptReturns"])
    assert down > 0 == up
    assert "scrolled" in act({"type": "scroll", "selector": "#box"})["markdown"]


@pytest.mark.full(keep=4)
@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1 + 1", "number", 2),
        ("'a' + 'b'", "string", "ab"),
        ("const a = {b: [1]}; a", "object", {"b": [1]}),
        ("return document.title", "string", "Form"),
        ("await Promise.resolve(true)", "boolean", True),
        ("return await Promise.resolve(5)", "number", 5),
        ("Promise.resolve('later')", "string", "later"),
        ("void 0", "undefined", None),
        ("null", "object", None),
    ],
)
def test_javascript_returns(act, text, kind, value):
    found = act(script(text), path="/form?quick")
    if "await" in text and "return" not in text:
        kind, value = "undefined", None  # the body of a function returns nothing
    assert found["actions"]["javascriptReturns"] == [{"type": kind, "value": value}]


def test_screenshots_and_scrapes_are_of_their_moment(act, app):
    found = act(
        {"type": "screenshot"},
        {"type": "scrape"},
        script("document.body.style.background = '#00f'; document.title = 'Blue'"),
        {"type": "screenshot", "viewport": {"width": 320, "height": 240}},
        {"type": "screenshot", "quality": 50, "fullPage": True},
        {"type": "scrape"},
        path="/colours",
    )
    first, second, third = map(fetch, found["actions"]["screenshots"])
    assert Png(first[2]).pixel(300, 300) == (255, 255, 255)
    picture = Png(second[2])
    assert (picture.width, picture.height) == (320, 240)
    assert picture.pixel(300, 150) == (0, 0, 255)
    assert third[1]["Content-Type"] == "image/jpeg"
    before, after = found["actions"]["scrapes"]
    assert before["url"] == after["url"] == app.url("/colours")
    assert "<title>Colours</title>" in before["html"]
    assert "<title>Blue</title>" in after["html"]


def test_the_pdf_action_uses_the_requested_paper_size(act):
    import pypdfium2

    found = act(
        {"type": "pdf"},
        {"type": "pdf", "format": "A5", "landscape": True, "scale": 0.5},
        path="/links",
    )
    sizes = []
    for address in found["actions"]["pdfs"]:
        status, headers, data = fetch(address)
        assert (status, headers["Content-Type"]) == (200, "application/pdf")
        document = pypdfium2.PdfDocument(data)
        sizes += document.get_page_size(0)
        document.close()
    # Points: Letter, and A5 on its side.
    assert sizes == pytest.approx([612, 792, 595, 420], abs=1)


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"type": "click", "selector": "#nothing"}, "no element matches '#nothing'"),
        ({"type": "wait", "selector": "#nothing"}, "no element matches '#nothing'"),
        ({"type": "scroll", "selector": "#nothing"}, "no element matches '#nothing'"),
        (script("throw new Error('my own words')"), "my own words"),
        (script("this is no script"), "SyntaxError"),
    ],
    ids=["click", "wait", "scroll", "throw", "syntax"],
)
def test_a_failing_action_is_named(scrape, action, why):
    first = {"type": "wait", "milliseconds": 1}
    reply = scrape("/links", actions=[first, action], timeout=10_000)
    assert (reply.status, reply.json["code"]) == (500, "SCRAPE_ACTION_ERROR")
    assert reply.json["error"].startswith(f"Action 1 ({action['type']}) failed: ")
    assert why in reply.json["error"]


def test_an_invalid_selector_is_refused_before_the_fetch(scrape, app):
    app.paths()
    reply = scrape("/form", actions=[{"type": "click", "selector": "#["}])
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == ["actions", 0, "selector"]
    assert app.paths() == []


@pytest.mark.parametrize("key", ["Entr", "F13", "ä", "Control+", "++"])
def test_an_unknown_key_name_is_refused_before_the_fetch(scrape, app, key):
    app.paths()
    reply = scrape("/form", actions=[{"type": "press", "key": key}])
    assert reply.status == 400
    [told] = reply.json["details"]
    assert told["path"] == ["actions", 0, "key"]
    assert "names such as Enter, Tab" in told["message"]
    assert ("did you mean 'Enter'?" in told["message"]) is (key == "Entr")
    assert app.paths() == []


@pytest.mark.full
def test_each_key_that_is_allowed_is_a_key_of_the_browser(act):
    keys = [*sorted(KEY_NAMES), *map(chr, range(32, 127)), "\n", "\r"]
    several = ["Control+A", "Control++", "Shift+Alt+F4", "ControlOrMeta+c"]
    pressed = [{"type": "press", "key": key} for key in (*keys, *several)]
    for start in range(0, len(pressed), 50):
        act(*pressed[start : start + 50], path="/links")


def test_a_lone_surrogate_in_a_script_result_is_replaced(page):
    script = "'a' + String.fromCharCode(0xd800)"
    found = page("/links", actions=[{"type": "executeJavascript", "script": script}])
    assert found["actions"]["javascriptReturns"] == [{"type": "string", "value": "a?"}]
