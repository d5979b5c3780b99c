"""Formats with options in the playground: what the form asks for is what is sent and shown."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.support import shop
from tests.support.scripted_site import ScriptedSite
from tests.web.conftest import Tab

SCHEMA = {"type": "object", "properties": {"name": {}, "price": {"type": "number"}}}


@pytest.fixture(scope="module")
def lamp():
    """The URL of a page with a product."""
    with ScriptedSite(shop.pages()) as site:
        yield site.url("/shop/lamp")


def chip(shown, name):
    return shown.get_by_role("checkbox", name=name, exact=True)


def options_of(part, name):
    """Return the part of a form with the options of a format."""
    page = getattr(part, "page", part)
    summary = page.locator("summary", has_text=re.compile(f"^{name}$"))
    return part.locator("details", has=summary).last


def sent(shown):
    """Return the body of the request that is shown as curl."""
    code = shown.get_by_role("region", name="The same call as code")
    return json.loads(
        re.search(r"-d '(.*)'$", code.locator("pre").inner_text(), re.DOTALL)[1]
    )


def test_a_format_is_requested_with_its_options(tab, lamp):
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown = tab.page
    shown.get_by_role("textbox", name="url").fill(lamp)
    for name in ("markdown", "links", "json", "attributes"):
        chip(shown, name).click()
    chip(shown, "screenshot").click()
    shown.get_by_role("combobox", name="fullPage").select_option("yes")
    shown.get_by_label("quality").fill("80")
    assert sent(shown)["formats"][-1] == {
        "type": "screenshot",
        "fullPage": True,
        "quality": 80,
    }
    chip(shown, "screenshot").click()

    schema = shown.get_by_role("textbox", name="schema")
    run = shown.get_by_role("button", name="Run scrape")
    schema.fill('{"type": "obj')
    expect(shown.get_by_text("this is not valid JSON yet")).to_be_visible()
    run.click()
    expect(shown.get_by_role("alert")).to_have_text("Not valid JSON yet: schema. ")
    schema.fill("[1]")
    expect(shown.get_by_text("an object is expected")).to_be_visible()
    schema.fill(json.dumps(SCHEMA))
    data = options_of(shown, "json")
    data.locator("summary", has_text="selectors").click()
    options_of(data, r"1\. ?").get_by_label("name").fill("title")
    title = options_of(data, r"1\. title")
    title.get_by_label("selector").fill("h1")
    chip(title, "text").check()
    chip(title, "strip").check()
    chip(title, "uppercase").check()
    data.get_by_role("button", name="selectors as JSON").click()
    whole = data.get_by_role("textbox", name="selectors")
    expect(whole).to_have_value(re.compile('"uppercase"'))
    data.get_by_role("button", name="selectors as fields").click()
    attributes = options_of(shown, "attributes")
    attributes.get_by_label("attribute *").fill("href")
    run.click()
    wrong = attributes.get_by_text("formats.1.selectors.0.selector is required")
    expect(wrong).to_be_visible()
    tab.faults.clear()  # the browser notes the answer 400
    attributes.get_by_label("selector *").fill("a")
    attributes.get_by_role("button", name="Add to selectors").click()
    attributes.get_by_label("selector *").last.fill("b")
    attributes.get_by_role("button", name="Remove selectors 2").click()
    steps = {"type": "text", "transform": ["strip", "uppercase"]}
    fields = [{"name": "title", "selector": "h1", **steps}]
    formats = [
        {"type": "json", "schema": SCHEMA, "selectors": {"fields": fields}},
        {"type": "attributes", "selectors": [{"attribute": "href", "selector": "a"}]},
    ]
    body = {"url": lamp, "formats": formats}
    assert sent(shown) == body
    run.click()
    result = shown.get_by_role("region", name="Result")
    result.get_by_role("tab", name="Data", exact=True).click()
    found = json.loads(result.locator("pre.code").inner_text())
    assert found["json"] == {"title": "BRASS LAMP"}
    assert found["attributes"][0]["attribute"] == "href"

    shown.get_by_role("button", name="Copy link to this form").click()
    expect(shown.get_by_role("button", name="Copied")).to_be_visible()
    link = shown.evaluate("navigator.clipboard.readText()")
    shown.goto("about:blank")
    shown.goto(link)
    expect(title.get_by_label("selector")).to_have_value("h1")
    assert sent(shown) == body


def test_formats_that_are_not_available_are_named_and_not_offered(tab):
    shown = tab.page
    expect(shown.get_by_text("Not available here")).to_contain_text(
        "audio, video, question, highlights, query"
    )
    for name in ("audio", "question"):
        expect(chip(shown, name)).to_have_count(0)


@pytest.mark.full
def test_a_question_is_sent_and_its_answer_shown(browser, clever, lamp):
    tab = Tab(browser, clever.url)
    shown = tab.sign_in()
    shown.get_by_role("textbox", name="url").fill(lamp)
    chip(shown, "markdown").click()
    chip(shown, "question").click()
    shown.get_by_label("question *").fill("What does it cost?")
    expect(chip(shown, "audio")).to_have_count(0)
    shown.get_by_role("button", name="Run scrape").click()
    shown.get_by_role("tab", name="Data", exact=True).click()
    data = shown.get_by_role("region", name="Result").locator("pre.code")
    expect(data).to_contain_text('"answer"')
    tab.context.close()
    assert tab.faults == []
