from __future__ import annotations

import base64
import gc
import gzip

import pytest

from scraper_service.content import convert as module
from scraper_service.content.convert import make_content, render
from scraper_service.content.stored_pages import content_from_wire
from scraper_service.options.formats import Attributes, AttributeSelector, Audio
from tests.content.pages import convert, markdown, options, source, value

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256))

KINDS = {
    "json": ('{"a": [1]}', "application/json", '```json\n{"a": [1]}\n```'),
    "json by suffix": ("[]", "application/ld+json; charset=utf-8", "```json\n[]\n```"),
    "json without a type": ('{"a": 1}', "", '```json\n{"a": 1}\n```'),
    "json with fences": ('"```"', "application/json", '````json\n"```"\n````'),
    "plain text": ("a *b*\n<c>\n", "text/plain", "a *b*\n<c>"),
    "csv": ("a,b\n1,2", "text/csv", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
    "markdown": ("# a", "text/markdown", "# a"),
    "xml": ("<a><b/></a>", "application/xml", "```xml\n<a><b/></a>\n```"),
    "feed": ("<rss/>", "application/rss+xml", "```xml\n<rss/>\n```"),
    "svg": ("<svg/>", "image/svg+xml", "```xml\n<svg/>\n```"),
    "html sent as xml": ("<?xml version='1.0'?><html><p>a", "text/xml", "a"),
    "xhtml": ("<html><p>a</p></html>", "application/xhtml+xml", "a"),
    "html without a type": ("<!DOCTYPE html><p>a", "", "a"),
    "html as a stream of bytes": ("<html><p>a", "application/octet-stream", "a"),
    "text as a stream of bytes": ("just text", "application/octet-stream", "just text"),
    "empty": ("", "text/html", ""),
    "only spaces": (" \n ", "application/json", ""),
    "declared charset": ("größer".encode("latin-1"), "text/plain; charset=latin1", "größer"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "mime", "expected"), KINDS.values(), ids=KINDS)
def test_kinds_of_content(body, mime, expected):
    assert markdown(body, content_type=mime) == expected


BINARY = {
    "png as html": (PNG, "text/html", "image/png"),
    "png": (PNG, "image/png", "image/png"),
    "zip": (b"PK\3\4....", "application/octet-stream", "application/zip"),
    "mp4": (b"\0\0\0\x20ftypisom", "", "video/mp4"),
    "unknown bytes": (b"ab\0\1\2cd", "application/x-thing", "application/x-thing"),
    "text called an image": (b"abc", "image/webp", "image/webp"),
}


@pytest.mark.parametrize(("body", "mime", "named"), BINARY.values(), ids=BINARY)
def test_binary_files_are_refused(body, mime, named):
    error = convert(body, "markdown", content_type=mime).error
    assert error is not None
    assert error.code == "SCRAPE_UNSUPPORTED_FILE_ERROR"
    assert named in error.message


@pytest.mark.parametrize("body", [PNG, b"", b"<p>x", b"%PDF-1.4 broken"])
def test_raw_base64_never_parses(body):
    content = convert(body, "raw_base64")
    assert base64.b64decode(value(content, "raw_base64")) == body
    assert list(content.values) == ["raw_base64"]


def test_only_requested_formats_are_made():
    page = "<title>t</title><p>a <a href=b>b</a>"
    assert set(convert(page, "links", "raw_html").values) == {"links", "raw_html"}
    assert set(convert(page, Audio()).values) == set()
    assert convert(page, Audio()).known == {"title": "t", "verdict": "ok"}


def test_raw_html_is_the_decoded_source():
    page = "<!-- c --><p onclick=x>größer\0"
    content = convert(
        page.encode("latin-1"), "raw_html", content_type="text/html; charset=latin1"
    )
    assert value(content, "raw_html") == "<!-- c --><p onclick=x>größer"


@pytest.mark.parametrize("mime", ["text/plain", "application/json", "text/xml"])
def test_other_texts_have_all_formats(mime):
    pair = Attributes((AttributeSelector("a", "href"),))
    content = convert(
        "[1, 2, '<b>']", "html", "raw_html", "links", "images", pair, content_type=mime
    )
    assert (
        value(content, "html")
        == "<html><body><pre>[1, 2, '&lt;b&gt;']</pre></body></html>"
    )
    assert value(content, "raw_html") == "[1, 2, '<b>']"
    assert value(content, "links") == value(content, "images") == []
    assert value(content, "attributes") == [
        {"selector": "a", "attribute": "href", "values": []}
    ]


def test_encodings_are_undone_first():
    packed = source(gzip.compress(b"<p>a"), content_encodings=("gzip",))
    assert value(make_content(packed, options()), "markdown") == "a"


def test_an_unreadable_encoding_is_the_pages_error():
    content = make_content(source(b"x", content_encodings=("gzip",)), options())
    assert content.error is not None
    assert content.error.code == "SCRAPE_ALL_ENGINES_FAILED"


def fail(*args, **kwargs):
    raise RuntimeError


def test_a_failing_format_is_left_out_with_a_warning(monkeypatch):
    monkeypatch.setattr(module, "images", fail)
    content = convert("<p>a", "markdown", "images")
    assert list(content.values) == ["markdown"]
    assert content.warnings == ("The format images could not be made (RuntimeError).",)


def test_a_failing_format_alone_fails_the_page(monkeypatch):
    monkeypatch.setattr(module, "images", fail)
    content = convert("<p>a", "images")
    assert content.error is not None
    assert content.error.code == "SCRAPE_ALL_ENGINES_FAILED"


WIRED = {
    "page": source(
        "<title>t</title><meta http-equiv=refresh content='1;url=n'><a href=x>ö</a>"
    ),
    "error": source(PNG),
    "read": source("<title>t</title><p>größer</p>", find_text=8),
    "empty": source(""),
}


@pytest.mark.parametrize("page", WIRED.values(), ids=WIRED)
def test_content_survives_the_wire(page):
    asked = options("markdown", "links", include_tags=("i",))
    facts, values, links = render(page, asked)
    assert "num_pages" not in facts
    assert content_from_wire(facts, values, links) == make_content(page, asked)


def test_values_are_utf8_json():
    assert (
        convert("<p>größer \U0001f600", "markdown").values["markdown"]
        == '"größer \U0001f600"'.encode()
    )


def test_unused_objects_are_searched_for_after_a_page():
    for body in ("<p>text</p>", "<p><", ""):
        convert(body, "markdown")
        assert gc.isenabled()
