"""Bodies of POST /v2/scrape."""

from __future__ import annotations

import attrs
import pytest
from firecrawl.v2 import types
from firecrawl.v2.utils.validation import prepare_scrape_options

from scraper_service.errors import InvalidOptions
from scraper_service.options import actions, formats, scrape
from scraper_service.options.parsing import WHERE, Key, Object, structure
from scraper_service.options.v2_requests import (
    DEFAULTS,
    SCRAPE_OPTIONS,
    page_options,
    wire_name,
)

URL = "https://example.com"
MARKDOWN = formats.Markdown()


def scraped(**body):
    return page_options({"url": URL, **body}).scrape


def issues_of(**body):
    with pytest.raises(InvalidOptions) as caught:
        page_options({"url": URL, **body})
    return caught.value.issues


def test_defaults_are_named_for_every_attribute():
    assert DEFAULTS.keys() == attrs.fields_dict(scrape.ScrapeOptions).keys()


def test_url_alone_has_the_defaults_of_v2():
    options = page_options({"url": "example.com"})
    assert (options.url, options.origin) == ("http://example.com", "api")
    assert options.scrape == scrape.ScrapeOptions(**DEFAULTS)
    assert options.scrape.max_age_ms == 2 * 24 * 3600 * 1000
    assert options.scrape.skip_tls_verification
    assert options.scrape.proxy == "auto"
    assert options.scrape.timeout_ms is None


@pytest.mark.parametrize("body", [None, [], "x", 5, True])
def test_body_must_be_an_object(body):
    with pytest.raises(InvalidOptions) as caught:
        page_options(body)
    (issue,) = caught.value.issues
    assert (issue.code, issue.path) == ("invalid_type", ())


def test_missing_url_is_named():
    with pytest.raises(InvalidOptions) as caught:
        page_options({"formats": []})
    (issue,) = caught.value.issues
    assert (issue.code, issue.path) == ("invalid_type", ("url",))


@pytest.mark.parametrize(
    ("key", "value", "attribute", "expected"),
    [
        ("headers", {"X-A": "1"}, "headers", (("X-A", "1"),)),
        ("includeTags", ["p", "iframe"], "include_tags", ("p", "iframe")),
        ("excludeTags", [".ad"], "exclude_tags", (".ad",)),
        ("onlyMainContent", False, "only_main_content", False),
        ("onlyCleanContent", True, "only_clean_content", True),
        ("timeout", 1, "timeout_ms", 1),
        ("timeout", 300_000, "timeout_ms", 300_000),
        ("timeout", 5000.0, "timeout_ms", 5000),
        ("waitFor", 0, "wait_for_ms", 0),
        ("waitFor", 60_000, "wait_for_ms", 60_000),
        ("mobile", True, "mobile", True),
        ("parsers", [], "parsers", ()),
        (
            "parsers",
            ["pdf", "image"],
            "parsers",
            (scrape.PdfParser(), scrape.ImageParser()),
        ),
        (
            "parsers",
            [{"type": "pdf", "mode": "fast", "maxPages": 10_000, "pageMarkdown": True}],
            "parsers",
            (scrape.PdfParser(mode="fast", max_pages=10_000, pages=True),),
        ),
        ("location", {}, "location", scrape.Location("US")),
        (
            "location",
            {"country": "de", "languages": ["de-DE", "en"]},
            "location",
            scrape.Location("DE", ("de-DE", "en")),
        ),
        (
            "location",
            {"country": "us-Generic"},
            "location",
            scrape.Location("US-generic"),
        ),
        ("skipTlsVerification", False, "skip_tls_verification", False),
        ("removeBase64Images", False, "remove_base64_images", False),
        ("fastMode", True, "fast_mode", True),
        ("blockAds", False, "block_ads", False),
        ("proxy", "basic", "proxy", "basic"),
        ("proxy", "enhanced", "proxy", "stealth"),
        ("maxAge", 0, "max_age_ms", 0),
        ("minAge", 0, "min_age_ms", 0),
        ("storeInCache", False, "store_in_cache", False),
        ("lockdown", True, "lockdown", True),
        ("zeroDataRetention", True, "zero_data_retention", True),
        ("profile", {"name": "p"}, "profile", scrape.Profile("p")),
        (
            "profile",
            {"name": "p", "saveChanges": False},
            "profile",
            scrape.Profile("p", False),
        ),
        (
            "threatProtection",
            {"blacklist": ["*.A.com"], "whitelist": ["b.com"], "blockedTlds": ["zip"]},
            "site_rules",
            scrape.SiteRules(("*.a.com",), ("b.com",), ("zip",)),
        ),
        (
            "threatProtection",
            {"mode": "manual-only", "blacklist": ["A.com"], "blockedTlds": [".Zip"]},
            "site_rules",
            scrape.SiteRules(("a.com",), (), ("zip",)),
        ),
        ("threatProtection", {"mode": "off"}, "site_rules", None),
        ("redactPII", False, "formats", (MARKDOWN,)),
        ("checkPromptInjection", False, "formats", (MARKDOWN,)),
        ("checkPromptInjection", True, "check_prompt_injection", True),
        ("domainTools", True, "formats", (MARKDOWN,)),
        ("toolDetail", "full", "formats", (MARKDOWN,)),
        ("useMock", "x", "formats", (MARKDOWN,)),
        ("useIndex", True, "formats", (MARKDOWN,)),
        ("__searchPreviewToken", "x", "formats", (MARKDOWN,)),
        ("__experimental_omce", {"a": 1}, "formats", (MARKDOWN,)),
        ("nobodyKnows", None, "formats", (MARKDOWN,)),
    ],
)
def test_option_is_read(key, value, attribute, expected):
    assert getattr(scraped(**{key: value}), attribute) == expected


@pytest.mark.parametrize(
    ("key", "value", "code", "path"),
    [
        ("url", 5, "invalid_type", ()),
        ("url", "ftp://example.com", "custom", ()),
        ("headers", [], "invalid_type", ()),
        ("headers", {"X-A": 1}, "invalid_type", ("X-A",)),
        ("headers", {"X-A": "a\r\nb: c"}, "custom", ("X-A",)),
        ("headers", {"Host": "a"}, "custom", ("Host",)),
        ("includeTags", "p", "invalid_type", ()),
        ("includeTags", ["p", "p["], "custom", (1,)),
        ("excludeTags", ["p"] * 101, "too_big", ()),
        ("onlyMainContent", "true", "invalid_type", ()),
        ("timeout", 0, "too_small", ()),
        ("timeout", 300_001, "too_big", ()),
        ("timeout", "5000", "invalid_type", ()),
        ("timeout", 1.5, "invalid_type", ()),
        ("waitFor", -1, "too_small", ()),
        ("waitFor", 60_001, "too_big", ()),
        ("parsers", "pdf", "invalid_type", ()),
        ("parsers", {"pdf": True}, "invalid_type", ()),
        ("parsers", ["docx"], "invalid_enum_value", (0,)),
        ("parsers", [{"pdf": True}], "invalid_type", (0, "type")),
        ("parsers", [{"type": "pdf", "maxPages": 0}], "too_small", (0, "maxPages")),
        ("parsers", [{"type": "pdf", "maxPages": 10_001}], "too_big", (0, "maxPages")),
        (
            "parsers",
            [{"type": "pdf", "mode": "x"}],
            "invalid_enum_value",
            (0, "mode"),
        ),
        ("location", {"country": "zz"}, "custom", ("country",)),
        ("location", {"languages": ["de\r\n"]}, "custom", ("languages", 0)),
        ("location", {"city": "x"}, "unrecognized_keys", ()),
        ("proxy", "http://me:1", "invalid_enum_value", ()),
        ("maxAge", -1, "too_small", ()),
        ("minAge", -1, "too_small", ()),
        ("profile", {}, "invalid_type", ("name",)),
        ("profile", {"name": ""}, "custom", ("name",)),
        ("profile", {"name": "p" * 129}, "custom", ("name",)),
        ("profile", {"name": "a\nb"}, "custom", ("name",)),
        ("threatProtection", {"mode": "normal"}, "custom", ("mode",)),
        ("threatProtection", {"mode": "zscaler"}, "custom", ("mode",)),
        ("threatProtection", {"mode": "on"}, "invalid_enum_value", ("mode",)),
        ("threatProtection", {"whitelist": ["*."]}, "custom", ("whitelist", 0)),
        ("threatProtection", {"whitelist": ["a"] * 1001}, "too_big", ("whitelist",)),
        ("threatProtection", {"blacklist": ["a b"]}, "custom", ("blacklist", 0)),
        ("redactPII", True, "custom", ()),
        ("redactPII", {"mode": "slow"}, "invalid_enum_value", ("mode",)),
        ("checkPromptInjection", "true", "invalid_type", ()),
        ("toolDetail", "all", "invalid_enum_value", ()),
        ("integration", "i" * 257, "too_big", ()),
        ("auditMetadata", {"username": "u" * 1025}, "too_big", ("username",)),
        ("auditMetadata", {}, "invalid_type", ("username",)),
        ("zeroDataRetention", 1, "invalid_type", ()),
    ],
)
def test_option_is_refused_at_its_path(key, value, code, path):
    (issue,) = issues_of(**{key: value})
    assert (issue.code, issue.path) == (code, (key, *path))


@pytest.mark.parametrize("key", ["foo", "args", "meta", "bindaddress", "parsePDF"])
def test_unknown_key_is_refused_with_the_version(key):
    (issue,) = issues_of(**{key: 1})
    assert (issue.code, issue.path) == ("unrecognized_keys", ())
    assert issue.facts == {"keys": [key]}
    assert issue.message.startswith("Unrecognized key in body (v2)")


def test_origin_integration_and_audit_name_of_a_request_are_kept():
    options = page_options(
        {
            "url": URL,
            "origin": "python-sdk@4",
            "integration": "_" * 256,
            "auditMetadata": {"username": "u" * 1024},
        }
    )
    assert options.origin == "python-sdk@4"
    assert options.integration == "_" * 256
    assert options.audit_username == "u" * 1024


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ()),
        (["markdown", "markdown"], (MARKDOWN,)),
        ([{"type": "markdown"}, "links"], (MARKDOWN, formats.Links())),
        (["rawHtml", "images"], (formats.RawHtml(), formats.Images())),
        (["rawBase64"], (formats.RawBase64(),)),
        (["json"], (formats.Json(),)),
        (
            [
                {
                    "type": "json",
                    "schema": None,
                    "prompt": None,
                    "checkPromptInjection": None,
                }
            ],
            (formats.Json(),),
        ),
        (
            [{"type": "json", "schema": {"enum": [None]}, "prompt": "p" * 10_000}],
            (formats.Json("p" * 10_000, {"enum": [None]}),),
        ),
        (
            [{"type": "json", "prompt": "a"}, {"type": "json", "prompt": "b"}, "json"],
            (formats.Json("b"),),
        ),
        (["screenshot@fullPage"], (formats.Screenshot(full_page=True),)),
        (
            [
                {
                    "type": "screenshot",
                    "fullPage": True,
                    "quality": 100,
                    "viewport": {"width": 7680, "height": 4320},
                }
            ],
            (formats.Screenshot(True, 100, formats.Viewport(7680, 4320)),),
        ),
        (
            [
                "markdown",
                {"type": "changeTracking", "modes": ["git-diff"], "tag": None},
            ],
            (MARKDOWN, formats.ChangeTracking(("git-diff",))),
        ),
        (
            [
                {
                    "type": "attributes",
                    "selectors": [{"selector": "a", "attribute": "href"}],
                }
            ],
            (formats.Attributes((formats.AttributeSelector("a", "href"),)),),
        ),
        ([{"type": "question", "question": "q"}], (formats.Question("q"),)),
        ([{"type": "highlights", "query": "q"}], (formats.Highlights("q"),)),
        (
            [{"type": "query", "prompt": "p", "mode": "directQuote"}],
            (formats.Query("p", "directQuote"),),
        ),
    ],
)
def test_formats_are_read(given, expected):
    assert scraped(formats=given).formats == expected


def test_null_formats_are_the_default():
    assert scraped(formats=None).formats == (MARKDOWN,)


@pytest.mark.parametrize(
    ("given", "code", "path"),
    [
        ("markdown", "invalid_type", ()),
        (["nope"], "invalid_enum_value", (0,)),
        ([{"type": "nope"}], "invalid_enum_value", (0, "type")),
        (["deterministicJson"], "invalid_enum_value", (0,)),
        (["extract"], "invalid_enum_value", (0,)),
        ([5], "invalid_union", (0,)),
        ([None], "invalid_union", (0,)),
        ([{}], "invalid_type", (0, "type")),
        ([{"type": "json", "systemPrompt": "x"}], "unrecognized_keys", (0,)),
        ([{"type": "json", "prompt": "p" * 10_001}], "too_big", (0, "prompt")),
        (
            [{"type": "json", "checkPromptInjection": 1}],
            "invalid_type",
            (0, "checkPromptInjection"),
        ),
        (
            [{"type": "json", "schema": {"$ref": "https://a.example/s"}}],
            "custom",
            (0, "schema"),
        ),
        (
            [{"type": "json", "schema": {"$ref": "#/$defs/none"}}],
            "custom",
            (0, "schema"),
        ),
        ([{"type": "json", "schema": "x"}], "invalid_type", (0, "schema")),
        (["screenshot", "screenshot"], "custom", ()),
        (["screenshot", "screenshot@fullPage"], "custom", ()),
        ([{"type": "screenshot", "quality": 0}], "too_small", (0, "quality")),
        ([{"type": "screenshot", "quality": 101}], "too_big", (0, "quality")),
        (
            [{"type": "screenshot", "viewport": {"width": 7681, "height": 1}}],
            "too_big",
            (0, "viewport", "width"),
        ),
        (
            [{"type": "screenshot", "viewport": {"width": 1}}],
            "invalid_type",
            (0, "viewport", "height"),
        ),
        (["changeTracking"], "custom", ()),
        (
            ["markdown", {"type": "changeTracking", "modes": ["x"]}],
            "invalid_enum_value",
            (1, "modes", 0),
        ),
        (["rawBase64", "html"], "custom", ()),
        (["attributes"], "invalid_type", (0, "selectors")),
        (
            [
                {
                    "type": "attributes",
                    "selectors": [{"selector": "p[", "attribute": "a"}],
                }
            ],
            "custom",
            (0, "selectors", 0, "selector"),
        ),
        ([{"type": "question", "question": ""}], "too_small", (0, "question")),
        (["highlights"], "invalid_type", (0, "query")),
        (["markdown"] * 101, "too_big", ()),
    ],
)
def test_formats_are_refused_at_their_path(given, code, path):
    (issue,) = issues_of(formats=given)
    assert (issue.code, issue.path) == (code, ("formats", *path))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "wait", "milliseconds": 1}, actions.Wait(1)),
        ({"type": "wait", "selector": "#a"}, actions.Wait(selector="#a")),
        ({"type": "click", "selector": "#a"}, actions.Click("#a")),
        (
            {"type": "screenshot", "fullPage": True, "quality": 1},
            actions.ScreenshotAction(True, 1),
        ),
        ({"type": "write", "text": ""}, actions.Write("")),
        ({"type": "press", "key": "Enter"}, actions.Press("Enter")),
        ({"type": "scroll"}, actions.Scroll("down")),
        ({"type": "scroll", "direction": "up"}, actions.Scroll("up")),
        ({"type": "scrollToEnd"}, actions.ScrollToEnd()),
        (
            {"type": "scrollToEnd", "selector": "a", "maxScrolls": 1, "timeout": 100},
            actions.ScrollToEnd("a", 1, 100),
        ),
        ({"type": "scrape"}, actions.ScrapeAction()),
        (
            {"type": "executeJavascript", "script": "1"},
            actions.ExecuteJavascript("1"),
        ),
        (
            {"type": "pdf", "scale": 0.5, "format": "A6", "landscape": True},
            actions.Pdf(True, 0.5, "A6"),
        ),
        ({"type": "pdf"}, actions.Pdf()),
    ],
)
def test_action_is_read(given, expected):
    assert scraped(actions=[given]).actions == (expected,)


@pytest.mark.parametrize(
    ("given", "code", "path"),
    [
        ("scrape", "invalid_union", (0,)),
        ({"type": "hover"}, "invalid_enum_value", (0, "type")),
        ({"type": "wait"}, "custom", (0,)),
        ({"type": "wait", "milliseconds": 1, "selector": "a"}, "custom", (0,)),
        ({"type": "wait", "milliseconds": 0}, "too_small", (0, "milliseconds")),
        ({"type": "wait", "milliseconds": 60_001}, "custom", ()),
        ({"type": "scrollToEnd", "maxScrolls": 0}, "too_small", (0, "maxScrolls")),
        ({"type": "scrollToEnd", "maxScrolls": 501}, "too_big", (0, "maxScrolls")),
        ({"type": "scrollToEnd", "timeout": 60_001}, "too_big", (0, "timeout")),
        ({"type": "click"}, "invalid_type", (0, "selector")),
        ({"type": "click", "selector": "a" * 1025}, "too_big", (0, "selector")),
        (
            {"type": "scroll", "direction": "left"},
            "invalid_enum_value",
            (0, "direction"),
        ),
        ({"type": "pdf", "format": "A7"}, "invalid_enum_value", (0, "format")),
        ({"type": "write", "text": "x", "foo": 1}, "unrecognized_keys", (0,)),
    ],
)
def test_action_is_refused_at_its_path(given, code, path):
    (issue,) = issues_of(actions=[given])
    assert (issue.code, issue.path) == (code, ("actions", *path))


def test_actions_are_bounded_in_number():
    assert len(scraped(actions=[{"type": "scrape"}] * 50).actions) == 50
    (issue,) = issues_of(actions=[{"type": "scrape"}] * 51)
    assert (issue.code, issue.path) == ("too_big", ("actions",))


@pytest.mark.parametrize(("milliseconds", "fits"), [(58_000, True), (58_001, False)])
def test_all_waits_together_are_bounded(milliseconds, fits):
    body = {
        "waitFor": 1000,
        "actions": [
            {"type": "wait", "milliseconds": milliseconds},
            {"type": "wait", "selector": "#a"},
        ],
    }
    if fits:
        assert scraped(**body).wait_for_ms == 1000
    else:
        (issue,) = issues_of(**body)
        assert (issue.code, issue.path) == ("custom", ("actions",))


@pytest.mark.parametrize(("wait", "fits"), [(5000, True), (7500, True), (7501, False)])
def test_wait_is_at_most_half_of_the_timeout(wait, fits):
    if fits:
        assert scraped(waitFor=wait, timeout=15_000).wait_for_ms == wait
    else:
        (issue,) = issues_of(waitFor=wait, timeout=15_000)
        assert (issue.code, issue.path) == ("custom", ("waitFor",))
        assert issue.message == "waitFor must not exceed half of timeout"


@pytest.mark.parametrize(
    ("body", "timeout_ms", "wait_for_ms"),
    [
        ({"timeout": 29_999}, 29_999, 0),
        ({"timeout": 30_000}, 120_000, 0),
        ({"timeout": 30_000, "proxy": "stealth"}, 120_000, 0),
        ({"timeout": 30_000, "proxy": "basic"}, 30_000, 0),
        ({"timeout": 30_000, "proxy": "basic", "formats": ["json"]}, 60_000, 0),
        (
            {
                "timeout": 30_000,
                "proxy": "basic",
                "formats": ["markdown", "changeTracking"],
            },
            60_000,
            5000,
        ),
        (
            {
                "timeout": 30_000,
                "waitFor": 6000,
                "formats": ["markdown", "changeTracking"],
            },
            120_000,
            6000,
        ),
        ({"formats": ["json"]}, None, 0),
    ],
)
def test_the_default_timeout_grows_for_slow_options(body, timeout_ms, wait_for_ms):
    options = scraped(**body)
    assert (options.timeout_ms, options.wait_for_ms) == (timeout_ms, wait_for_ms)


CLIENT_OPTIONS = [
    types.ScrapeOptions(),
    types.ScrapeOptions(formats=["markdown", "raw_html", "links", "change_tracking"]),
    types.ScrapeOptions(formats=types.ScrapeFormats(html=True, screenshot=True)),
    types.ScrapeOptions(
        formats=types.ScrapeFormats(
            formats=["markdown", {"type": "json", "prompt": "x"}], links=True
        )
    ),
    types.ScrapeOptions(
        formats=[
            types.JsonFormat(prompt="p", schema={"type": "object", "properties": {}}),
            types.ScreenshotFormat(
                full_page=True, quality=80, viewport=types.Viewport(width=9, height=9)
            ),
            types.QuestionFormat(question="q"),
            types.HighlightsFormat(query="q"),
            types.QueryFormat(prompt="p", mode="freeform"),
            types.ChangeTrackingFormat(modes=["git-diff"], tag="t"),
            "markdown",
        ]
    ),
    types.ScrapeOptions(
        headers={"User-Agent": "x"},
        include_tags=["main"],
        exclude_tags=["nav"],
        timeout=30_000,
        wait_for=1000,
        mobile=True,
        parsers=[
            types.PDFParser(max_pages=3, mode="fast", pages=True, page_markers=True),
            types.ImageParser(),
            "pdf",
        ],
        location=types.Location(country="us", languages=["en"]),
        proxy="enhanced",
        use_mock="m",
        max_age=1,
        min_age=0,
        lockdown=False,
        integration="zapier",
        profile={"name": "p", "save_changes": False},
        domain_tools=True,
        tool_detail="compact",
        audit_metadata=types.AuditMetadata(username="u"),
        threat_protection=types.ThreatProtectionOptions(
            mode="off",
            blacklist=["a.com"],
            risk_score_threshold=5,
            failure_policy="open",
        ),
        redact_pii=False,
        check_prompt_injection=False,
    ),
    types.ScrapeOptions(
        actions=[
            types.WaitAction(milliseconds=5),
            types.WaitAction(selector="#a"),
            types.ScreenshotAction(full_page=True, quality=5),
            types.ClickAction(selector="#a"),
            types.WriteAction(text="t"),
            types.PressAction(key="Enter"),
            types.ScrollAction(direction="down"),
            types.ScrapeAction(),
            types.ExecuteJavascriptAction(script="1"),
            types.PDFAction(format="A4", landscape=False, scale=1.0),
        ]
    ),
]


@pytest.mark.parametrize("options", CLIENT_OPTIONS)
def test_bodies_of_the_python_client_are_accepted(options):
    body = prepare_scrape_options(options)
    page = page_options({"url": URL, **body, "origin": "python-sdk@4.53.2"})
    assert page.scrape.max_age_ms == body["maxAge"]
    assert page.scrape.skip_tls_verification


def test_options_can_stand_below_another_key():
    crawl = Object({"scrapeOptions": Key(SCRAPE_OPTIONS, "scrape")})
    body = {"scrapeOptions": {"formats": ["html"], "integration": "x"}}
    values = structure(crawl, body, WHERE)
    assert values["scrape"].formats == (formats.Html(),)
    with pytest.raises(InvalidOptions) as caught:
        structure(crawl, {"scrapeOptions": {"waitFor": 9, "timeout": 1}}, WHERE)
    assert caught.value.issues[0].path == ("scrapeOptions", "waitFor")


def test_every_attribute_has_a_name_on_the_wire():
    names = {name: wire_name(name) for name in attrs.fields_dict(scrape.ScrapeOptions)}
    assert names["wait_for_ms"] == "waitFor"
    assert names["timeout_ms"] == "timeout"
    assert names["site_rules"] == "threatProtection"
    assert names["zero_data_retention"] == "zeroDataRetention"
    assert names["parsers"] == "parsers"
    assert not [name for name in names.values() if "_" in name]


def test_session_and_profile_name_the_same_store():
    same = scraped(session="a", profile={"name": "a", "saveChanges": False})
    assert (same.storage, same.saves_storage) == ("a", False)
    [issue] = issues_of(session="a", profile={"name": "b"})
    assert issue.path == ("profile",)
    assert issue.message.startswith("profile and session must have the same name")
