"""Bodies of POST /v1/scrape."""

from __future__ import annotations

import attrs
import pytest
from firecrawl.v1 import client

from scraper_service.api.requests.v1 import (
    DEFAULTS,
    SCRAPE_OPTIONS,
    WHERE,
    page_options,
    wire_name,
)
from scraper_service.errors import InvalidOptions
from scraper_service.options import actions, formats
from scraper_service.options.parsing import structure
from scraper_service.options.scrape import Location, PdfParser, ScrapeOptions

URL = "https://example.com"
MARKDOWN = formats.Markdown()


def scraped(**body):
    return page_options({"url": URL, **body}).scrape


def issues_of(**body):
    with pytest.raises(InvalidOptions) as caught:
        page_options({"url": URL, **body})
    return caught.value.issues


def test_defaults_are_named_for_every_attribute():
    assert DEFAULTS.keys() | {"formats"} == attrs.fields_dict(ScrapeOptions).keys()


def test_url_alone_has_the_defaults_of_v1():
    options = page_options({"url": "example.com"})
    assert options.url == "http://example.com"
    assert options.scrape == ScrapeOptions(**DEFAULTS, formats=(MARKDOWN,))
    assert options.scrape.timeout_ms == 30_000
    assert options.scrape.max_age_ms == 0
    assert not options.scrape.skip_tls_verification
    assert options.scrape.proxy == "basic"


@pytest.mark.parametrize("body", [None, [], "x", 5])
def test_body_must_be_an_object(body):
    with pytest.raises(InvalidOptions) as caught:
        page_options(body)
    assert caught.value.issues[0].path == ()


@pytest.mark.parametrize(
    ("key", "value", "attribute", "expected"),
    [
        ("timeout", 1, "timeout_ms", 1),
        ("timeout", 600_000, "timeout_ms", 300_000),
        ("parsePDF", True, "parsers", (PdfParser(),)),
        ("parsePDF", False, "parsers", ()),
        ("geolocation", {"country": "de"}, "location", Location("DE")),
        ("skipTlsVerification", True, "skip_tls_verification", True),
        ("proxy", "enhanced", "proxy", "stealth"),
        ("maxAge", 5, "max_age_ms", 5),
        ("__experimental_cache", True, "max_age_ms", 4 * 3600 * 1000),
        ("__experimental_cache", False, "max_age_ms", 0),
        ("__experimental_other", "x", "max_age_ms", 0),
        ("agent", None, "proxy", "basic"),
        ("zeroDataRetention", True, "zero_data_retention", True),
        ("waitFor", 15_000, "wait_for_ms", 15_000),
        ("useMock", "x", "proxy", "basic"),
        ("lockdown", True, "lockdown", True),
    ],
)
def test_option_is_read(key, value, attribute, expected):
    assert getattr(scraped(**{key: value}), attribute) == expected


def test_newer_option_names_take_precedence_over_older_names():
    options = scraped(
        geolocation={"country": "fr"},
        location={"country": "de"},
        __experimental_cache=True,
        maxAge=7,
    )
    assert options.location == Location("DE")
    assert options.max_age_ms == 7


@pytest.mark.parametrize(
    ("key", "value", "code", "path"),
    [
        ("timeout", 0, "too_small", ("timeout",)),
        ("waitFor", 15_001, "custom", ("waitFor",)),
        ("waitFor", 60_001, "too_big", ("waitFor",)),
        ("parsePDF", "false", "invalid_type", ("parsePDF",)),
        (
            "changeTrackingOptions",
            {"modes": []},
            "custom",
            ("changeTrackingOptions",),
        ),
        ("agent", {"model": "FIRE-1"}, "custom", ("agent",)),
        ("__experimental_cache", 1, "invalid_type", ("__experimental_cache",)),
        ("parsers", ["pdf"], "unrecognized_keys", ()),
        ("minAge", 5, "unrecognized_keys", ()),
        ("geolocation", {"country": "x"}, "custom", ("geolocation", "country")),
        ("changeTrackingOptions", {"x": 1}, "unrecognized_keys", None),
        ("actions", [{"type": "scrape"}] * 51, "too_big", ("actions",)),
        (
            "actions",
            [{"type": "screenshot", "viewport": {"width": 1, "height": 1}}],
            "unrecognized_keys",
            ("actions", 0),
        ),
        ("headers", {"A": "\n"}, "custom", ("headers", "A")),
        ("includeMarkdown", 1, "invalid_type", ("includeMarkdown",)),
        ("redactPII", True, "custom", ("redactPII",)),
    ],
)
def test_option_is_refused_at_its_path(key, value, code, path):
    (issue,) = issues_of(**{key: value})
    assert issue.code == code
    assert issue.path == ((key,) if path is None else path)


def test_unknown_key_is_refused_with_the_version():
    (issue,) = issues_of(onlyCleanContent=True)
    assert issue.message.startswith("Unrecognized key in body (v1)")


EXTRACTION = {
    "mode": "llm",
    "schema": {"type": "object"},
    "systemPrompt": "s" * 10_000,
    "prompt": "p",
    "temperature": 0.5,
    "agent": {"model": "FIRE-1", "prompt": "x"},
}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"formats": []}, ()),
        (
            {"formats": ["content", "markdown", "rawHtml"]},
            (MARKDOWN, formats.RawHtml()),
        ),
        ({"formats": ["screenshot@fullPage"]}, (formats.Screenshot(True),)),
        ({"formats": ["images", "rawHtml"]}, (formats.Images(), formats.RawHtml())),
        (
            {"formats": ["json"], "jsonOptions": EXTRACTION},
            (formats.Json("p", {"type": "object"}, system_prompt="s" * 10_000),),
        ),
        (
            {"formats": ["extract"], "extract": {}},
            (formats.Json(key="extract"),),
        ),
        (
            {
                "formats": ["json", "extract"],
                "jsonOptions": {"prompt": "j"},
                "extract": {"prompt": "e"},
            },
            (formats.Json("j"), formats.Json("e", key="extract")),
        ),
        (
            {
                "formats": ["changeTracking", "markdown"],
                "changeTrackingOptions": {"modes": ["json"], "tag": "t"},
            },
            (formats.ChangeTracking(("json",), tag="t"), MARKDOWN),
        ),
        (
            {"formats": ["changeTracking", "markdown"]},
            (formats.ChangeTracking(), MARKDOWN),
        ),
        ({"includeHtml": True}, (MARKDOWN, formats.Html())),
        ({"includeMarkdown": False, "includeLinks": True}, (formats.Links(),)),
        ({"includeRawHtml": True, "formats": ["html"]}, (formats.Html(),)),
        ({"includeScreenshot": True}, (MARKDOWN, formats.Screenshot())),
    ],
)
def test_formats_are_read(body, expected):
    assert scraped(**body).formats == expected


@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        ({"formats": "markdown"}, "invalid_type", ("formats",)),
        ({"formats": ["nope"]}, "invalid_enum_value", ("formats", 0)),
        ({"formats": [{"type": "json"}]}, "invalid_type", ("formats", 0)),
        ({"formats": ["attributes"]}, "invalid_enum_value", ("formats", 0)),
        ({"formats": ["screenshot", "screenshot@fullPage"]}, "custom", ("formats",)),
        ({"formats": ["changeTracking"]}, "custom", ("formats",)),
        ({"formats": ["rawBase64", "html"]}, "custom", ("formats",)),
        ({"formats": ["json"]}, "custom", ("jsonOptions",)),
        ({"formats": ["extract"]}, "custom", ("extract",)),
        ({"formats": ["json"], "jsonOptions": None}, "custom", ("jsonOptions",)),
        ({"jsonOptions": {}}, "custom", ("jsonOptions",)),
        ({"formats": ["markdown"], "extract": {}}, "custom", ("extract",)),
        (
            {"formats": ["json"], "jsonOptions": {"prompt": "p" * 10_001}},
            "too_big",
            ("jsonOptions", "prompt"),
        ),
        (
            {"formats": ["extract"], "extract": {"mode": "x"}},
            "invalid_enum_value",
            ("extract", "mode"),
        ),
    ],
)
def test_formats_are_refused_at_their_path(body, code, path):
    (issue,) = issues_of(**body)
    assert (issue.code, issue.path) == (code, path)


def test_the_issue_of_a_format_and_its_option_names_what_is_missing():
    (issue,) = issues_of(formats=["extract"])
    assert issue.message == "the format extract needs the option extract of the body"
    (issue,) = issues_of(extract={})
    assert issue.message == "extract is allowed only with the format extract in formats"


@pytest.mark.parametrize(
    ("body", "timeout_ms", "wait_for_ms"),
    [
        ({}, 30_000, 0),
        ({"proxy": "auto"}, 120_000, 0),
        ({"formats": ["json"], "jsonOptions": {}}, 60_000, 0),
        ({"formats": ["extract"], "extract": {}, "timeout": 20_000}, 20_000, 0),
        ({"formats": ["markdown", "changeTracking"]}, 60_000, 5000),
    ],
)
def test_default_timeout_grows_for_slow_work(body, timeout_ms, wait_for_ms):
    options = scraped(**body)
    assert (options.timeout_ms, options.wait_for_ms) == (timeout_ms, wait_for_ms)


CLIENT_PARAMS = [
    client.V1ScrapeParams(),
    client.V1ScrapeParams(
        formats=["markdown", "html", "rawHtml", "content", "links", "screenshot"],
        headers={"X-A": "1"},
        includeTags=["p"],
        excludeTags=["nav"],
        onlyMainContent=True,
        waitFor=100,
        location=client.V1LocationConfig(country="US", languages=["en"]),
        mobile=False,
        skipTlsVerification=True,
        removeBase64Images=True,
        blockAds=True,
        proxy="enhanced",
        maxAge=5,
        storeInCache=True,
        parsePDF=False,
    ),
    client.V1ScrapeParams(
        formats=["json", "extract", "changeTracking", "markdown"],
        jsonOptions=client.V1JsonConfig(
            prompt="p", schema={"type": "object"}, agent=client.V1ExtractAgent()
        ),
        extract=client.V1JsonConfig(systemPrompt="s", checkPromptInjection=False),
        changeTrackingOptions=client.V1ChangeTrackingOptions(modes=["git-diff"]),
    ),
    client.V1ScrapeParams(
        actions=[
            client.V1WaitAction(type="wait", milliseconds=5),
            client.V1ScreenshotAction(type="screenshot", fullPage=True, quality=5),
            client.V1ClickAction(type="click", selector="#a"),
            client.V1WriteAction(type="write", text="t"),
            client.V1PressAction(type="press", key="Enter"),
            client.V1ScrollAction(type="scroll", direction="up"),
            client.V1ScrapeAction(type="scrape"),
            client.V1ExecuteJavascriptAction(type="executeJavascript", script="1"),
            client.V1PDFAction(type="pdf", format="A4"),
        ]
    ),
]


@pytest.mark.parametrize("params", CLIENT_PARAMS)
@pytest.mark.parametrize("exclude_none", [True, False])
def test_bodies_of_the_python_client_are_accepted(params, exclude_none):
    body = params.model_dump(by_alias=True, exclude_none=exclude_none)
    body.pop("webhook", None)
    page = page_options({"url": URL, "origin": "python-sdk@1", **body})
    assert page.scrape.timeout_ms >= 30_000


def test_python_client_actions_are_read():
    body = CLIENT_PARAMS[-1].model_dump(by_alias=True, exclude_none=True)
    kinds = [type(action) for action in scraped(**body).actions]
    assert kinds[:3] == [actions.Wait, actions.ScreenshotAction, actions.Click]


def test_options_can_stand_below_another_key():
    assert structure(SCRAPE_OPTIONS, {}, WHERE).formats == (MARKDOWN,)


def test_every_attribute_has_a_name_on_the_wire():
    names = {name: wire_name(name) for name in attrs.fields_dict(ScrapeOptions)}
    assert names["parsers"] == "parsePDF"
    assert names["location"] == "location"
    assert names["max_age_ms"] == "maxAge"
    assert names["formats"] == "formats"
    assert names["wait_for_ms"] == "waitFor"
