"""Spider arguments, and the round trip of options through JSON."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_service.errors import InvalidOptions
from scraper_service.options import actions, formats, scrape
from scraper_service.options.jobs import PageOptions, options_from_json, unstructure
from scraper_service.options.spider_arguments import DEFAULTS, page_options

URL = "https://example.com/a?b=c,d"


def scraped(**arguments):
    return page_options({"url": URL, **arguments}).scrape


def issues_of(arguments):
    with pytest.raises(InvalidOptions) as caught:
        page_options(arguments)
    return caught.value.issues


def test_defaults_are_named_for_every_attribute():
    assert DEFAULTS.keys() == attrs.fields_dict(scrape.ScrapeOptions).keys()


def test_url_alone_is_enough():
    options = page_options({"url": "example.com"})
    assert options.url == "http://example.com"
    assert options.origin == "spider"
    assert options.scrape.formats == (formats.Markdown(),)
    assert options.scrape.parsers == (scrape.PdfParser(),)
    assert options.scrape.max_age_ms == 0
    assert options.scrape.only_main_content
    assert options.scrape.skip_tls_verification


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("markdown,links", (formats.Markdown(), formats.Links())),
        (" html , html ", (formats.Html(),)),
        ("rawHtml", (formats.RawHtml(),)),
        ("raw_html", (formats.RawHtml(),)),
        ("screenshot@fullPage", (formats.Screenshot(full_page=True),)),
        ("", ()),
        ('["links", {"type": "json", "prompt": "x"}]', None),
    ],
)
def test_formats_are_names_or_json(text, expected):
    wanted = expected
    if expected is None:
        wanted = (formats.Links(), formats.Json(prompt="x"))
    assert scraped(formats=text).formats == wanted


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("only_main_content", "false", False),
        ("timeout_ms", "5000", 5000),
        ("timeout_ms", "none", None),
        ("wait_for_ms", "0", 0),
        ("include_tags", ".a, .b", (".a, .b",)),
        ("include_tags", '[".a", ":is(b, c)"]', (".a", ":is(b, c)")),
        ("exclude_tags", "[data-x]", ("[data-x]",)),
        ("headers", '{"X-A": "1"}', (("X-A", "1"),)),
        ("location", '{"country": "de"}', scrape.Location("DE")),
        ("parsers", "", ()),
        ("parsers", "image", (scrape.ImageParser(),)),
        (
            "parsers",
            '{"type": "pdf", "max_pages": 2}',
            (scrape.PdfParser(max_pages=2),),
        ),
        ("profile", '{"name": "a", "saveChanges": false}', scrape.Profile("a", False)),
        ("actions", '[{"type": "executeJavascript", "script": "1"}]', None),
        ("proxy", "basic", "basic"),
    ],
)
def test_argument_is_read(name, text, value):
    expected = (actions.ExecuteJavascript("1"),) if name == "actions" else value
    assert getattr(scraped(**{name: text}), name) == expected


def test_the_user_is_named_by_a_text():
    options = page_options({"url": URL, "audit_username": "ada"})
    assert options.audit_username == "ada"


def test_flat_arguments_override_options():
    options = json.dumps({"mobile": True, "only_main_content": False})
    result = scraped(options=options, mobile="false")
    assert (result.mobile, result.only_main_content) == (False, False)


def test_arguments_of_the_starter_are_ignored():
    assert scraped(_job="5").formats == (formats.Markdown(),)


@pytest.mark.parametrize(
    ("arguments", "path", "word"),
    [
        ({}, ("url",), "required"),
        ({"url": "ftp://example.com"}, ("url",), "unsupported protocol"),
        ({"url": URL, "colour": "red"}, (), "allowed are origin"),
        ({"url": URL, "mobile": "yes"}, ("mobile",), "boolean, got 'yes'"),
        ({"url": URL, "timeout_ms": "1.5"}, ("timeout_ms",), "integer"),
        ({"url": URL, "timeout_ms": "9" * 5000}, ("timeout_ms",), "integer"),
        ({"url": URL, "options": "["}, ("options",), "Expecting"),
        ({"url": URL, "options": "[" * 100_000}, ("options",), "options"),
        ({"url": URL, "options": "[]"}, ("options",), "JSON object"),
        ({"url": URL, "options": '{"mobile": 1}'}, ("mobile",), "bool"),
        ({"url": URL, "options": '{"x": 1}'}, (), "allowed are"),
        (
            {"url": URL, "formats": "mardown"},
            ("formats", 0),
            "one of 'markdown', 'html'",
        ),
        ({"url": URL, "formats": "nope"}, ("formats", 0), "'rawHtml', 'links'"),
        ({"url": URL, "formats": '[{"type": "x"}]'}, ("formats", 0, "type"), "one of"),
        ({"url": URL, "formats": "[{}]"}, ("formats", 0, "type"), "required"),
        ({"url": URL, "formats": "[5]"}, ("formats", 0), "formats.0"),
        ({"url": URL, "formats": "screenshot,screenshot"}, ("formats",), "at most one"),
        ({"url": URL, "headers": '{"Host": "a"}'}, ("headers", "Host"), "service"),
        ({"url": URL, "include_tags": "p["}, ("include_tags", 0), "CSS selector"),
        (
            {
                "url": URL,
                "formats": '["html", {"type": "attributes", "selectors": '
                '[{"selector": "p[", "attribute": "a"}]}]',
            },
            ("formats", 1, "selectors", 0, "selector"),
            "CSS selector",
        ),
        ({"url": URL, "formats": "change_tracking"}, ("formats",), "markdown"),
        ({"url": URL, "proxy": "socks5://a"}, ("proxy",), "'basic', 'stealth'"),
        (
            {"url": URL, "wait_for_ms": "3000", "timeout_ms": "5000"},
            ("wait_for_ms",),
            "half of timeout_ms",
        ),
    ],
)
def test_bad_argument_is_refused_at_its_path(arguments, path, word):
    (issue,) = issues_of(arguments)
    assert issue.path == path
    assert word in issue.message


unstructure(None)  # cattrs resolves the types of the classes, which hypothesis reads
TEXT = st.text(max_size=10)
SCHEMA = st.none() | st.dictionaries(
    TEXT, st.none() | st.booleans() | st.integers() | st.lists(TEXT), max_size=3
)
VIEWPORT = st.none() | st.builds(formats.Viewport, st.integers(), st.integers())
SHOT = {"quality": st.none() | st.integers(1, 100), "viewport": VIEWPORT}
FORMATS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                formats.Markdown(),
                formats.Html(),
                formats.RawHtml(),
                formats.Links(),
                formats.Images(),
                formats.RawBase64(),
                formats.Summary(),
                formats.Branding(),
                formats.Product(),
                formats.Menu(),
                formats.Audio(),
                formats.Video(),
            ]
        ),
        st.builds(
            formats.Attributes,
            selectors=st.tuples(st.builds(formats.AttributeSelector)),
        ),
        st.builds(
            formats.Json, schema=SCHEMA, prompt=st.none() | TEXT, key=st.just("extract")
        ),
        st.builds(formats.Screenshot, full_page=st.booleans(), **SHOT),
        st.builds(
            formats.ChangeTracking,
            modes=st.sampled_from([(), ("git-diff", "json")]),
            schema=SCHEMA,
            tag=st.none() | TEXT,
        ),
        st.builds(formats.Question),
        st.builds(formats.Highlights),
        st.builds(formats.Query, mode=st.just("directQuote")),
    ),
    max_size=5,
).map(tuple)
ACTIONS = st.lists(
    st.one_of(
        st.builds(actions.Wait, milliseconds=st.integers(1, 9)),
        st.builds(actions.Wait, selector=TEXT),
        st.builds(actions.Click, all=st.booleans()),
        st.builds(actions.ScreenshotAction, **SHOT),
        st.builds(actions.Write),
        st.builds(actions.Press),
        st.builds(actions.Scroll, selector=st.none() | TEXT),
        st.builds(actions.ScrollToEnd, selector=st.none() | TEXT),
        st.builds(actions.ScrapeAction),
        st.builds(actions.ExecuteJavascript),
        st.builds(actions.Pdf, scale=st.floats(0.1, 2) | st.just(1)),
    ),
    max_size=5,
).map(tuple)
NAMES = st.text(min_size=1, max_size=64).filter(str.isprintable)
PARSERS = st.sampled_from(
    [
        (),
        (scrape.PdfParser(mode="fast", max_pages=3, pages=True), scrape.ImageParser()),
    ]
)
STRINGS = st.lists(TEXT, max_size=3).map(tuple)
SCRAPE = st.builds(
    scrape.ScrapeOptions,
    formats=FORMATS,
    headers=st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    include_tags=STRINGS,
    exclude_tags=STRINGS,
    timeout_ms=st.none() | st.integers(1, 300_000),
    wait_for_ms=st.integers(0, 60_000),
    parsers=PARSERS,
    actions=ACTIONS,
    location=st.sampled_from([None, scrape.Location("de", ("de-DE", "en"))]),
    proxy=st.sampled_from(["auto", "basic", "stealth"]),
    max_age_ms=st.integers(0, 2**53),
    min_age_ms=st.none() | st.integers(0, 5),
    site_rules=st.none() | st.builds(scrape.SiteRules, STRINGS, STRINGS, STRINGS),
    profile=st.none() | st.builds(scrape.Profile, NAMES, st.booleans()),
    session=st.none() | st.sampled_from(["a", "b.c"]),
)
PAGES = st.builds(PageOptions, url=TEXT, scrape=SCRAPE, integration=st.none() | TEXT)


@given(PAGES)
def test_options_survive_json(options):
    text = json.dumps(unstructure(options))
    assert options_from_json("scrape", json.loads(text)) == options


@pytest.mark.parametrize(
    "change", [{"url": 5}, {"extra": 5}, {"scrape": {}}, {"scrape": None}]
)
def test_foreign_json_is_refused(change):
    value = unstructure(page_options({"url": URL}))
    with pytest.raises(InvalidOptions):
        options_from_json("scrape", {**value, **change})


def test_missing_key_of_json_is_named():
    value = unstructure(page_options({"url": URL}))
    del value["scrape"]["mobile"]
    with pytest.raises(InvalidOptions, match="mobile"):
        options_from_json("scrape", value)
