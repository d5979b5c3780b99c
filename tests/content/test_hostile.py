"""Pages made to break a parser: each must end soon, in content or in a clear error."""

from __future__ import annotations

import time

import pytest

from scraper_service.content.pdf.lines import Hyphens
from scraper_service.options import formats
from tests.content.pages import convert, value

LIMIT_S = 15  # on a slow and busy machine; they take up to 4

# urllib raises errors for all of these.
BAD_URLS = (
    *("http://[::1", "http://[domain]/", "http://user:pa[ss@h/", "http://a]b/", "//[x"),
    *("http://a\u2100b/", "http://ex\uff0fample/", "http://a:99999999/", "http://a:b/"),
)
LINKED = (
    '<base href="{0}"><link rel=canonical href="{0}"><link rel=icon href="{0}">'
    '<meta http-equiv=refresh content="0; url={0}"><meta property="og:url" content="{0}">'
    '<link rel=alternate type="application/rss+xml" href="{0}"><a href="{0}">a link</a>'
    '<script type="application/ld+json">{{"@type": "Product", "name": "Lamp", "url": "{0}",'
    '"image": "{0}", "offers": {{"url": "{0}", "price": 3}}}}</script><a href=next>next</a>'
    '<img src="{0}" alt=view><img srcset="{0} 2x"><video controls src="{0}" poster="{0}">'
    '</video><iframe src="{0}"></iframe><embed src="{0}"><object data="{0}"></object>'
    '<form action="{0}"><input name=q></form><blockquote cite="{0}">said</blockquote>'
    '<div itemscope itemtype="http://schema.org/Person"><a itemprop=url href="{0}">Ann</a>'
)


@pytest.mark.parametrize("url", BAD_URLS)
@pytest.mark.parametrize("only_main_content", [False, True])
def test_a_malformed_url_is_left_out_wherever_it_stands(url, only_main_content):
    facts = formats.Branding(), formats.Product(), formats.Menu(), formats.Summary()
    names = "markdown", "html", "links", "images", *facts
    page = LINKED.format(url)
    found = convert(page, *names, only_main_content=only_main_content)
    assert found.error is None
    assert not any("could not be made" in text for text in found.warnings)
    assert "https://site.example/dir/next" in value(found, "links")


N = 100_000
PAGES = {
    "columns in depth": "<div class=gutter>" * 240 + "word " * 10**6 + "tail",
    "deep div": "<div>" * N + "x" + "</div>" * N + "<p>tail",
    "deep div never closed": "<div>" * N + "<p>tail",
    "deep emphasis": "<b><i>" * N + "tail",
    "deep lists": "<ul><li>" * 5000 + "tail",
    "deep tables": "<table><tr><td>" * 3000 + "tail",
    "deep quotes": "<blockquote>" * 5000 + "tail",
    "deep headings": "<h1>" * 5000 + "tail",
    "many attributes": "<p " + " ".join(f"a{n}=b" for n in range(50_000)) + ">tail",
    "many links": "".join(f"<a href=/{n}>x</a> " for n in range(N)) + "tail",
    "million tags": "<b>" * 10**6 + "tail",
    "comments never closed": "tail" + "<!--" * N,
    "comments": "<!--" * N + "-->tail",
    "less-than signs": "<" * N + " tail",
    "ampersands": "&" * N + " tail",
    "newlines": "<p>" + "a\n" * 300_000 + "tail",
    "spaces": "<p>" + " " * 2_000_000 + "tail",
    "breaks": "<p>" + "a<br>" * N + "tail",
    "stars": "*" * N + "_" * N + "~" * N + " tail",
    "brackets": "[" * N + "](" * N + " tail",
    "backticks": "<code>" + "`" * N + "</code><pre>" + "`" * N + "</pre> tail",
    "srcset": "<img srcset='" + ", " * N + "'><img srcset='" + "a " * N + "'>tail",
    "spans of cells": "<table>"
    + "<tr><td colspan=999999 rowspan=999999>a<td>b" * 2000
    + "</table>tail",
    "many tables": "<table><tr><td>a<td>b</table>" * 10_000 + "tail",
    "many frames": "<iframe srcdoc='<p>x</p>'></iframe>" * 10_000 + "tail",
    "many forms": "<form>" * N + "tail",
    "many metas": "<meta name=a content=b>" * N + "tail",
    "end tags": "</p>" * N + "tail",
    "cdata": "tail" + "<![CDATA[" * N,
    "dashes": "<p>" + "-" * N + "x" + "| " * N + "tail",
    "code side by side": "<code>a</code>" * N + "tail",
    "emphasis side by side": "<p>" + "a<b>(b</b><i>c)</i>" * 40_000 + "tail",
    "formulas never closed": "<p>" + "\\(" * N + " tail",
    "deep formulas": "<math>"
    + "<msup>" * 3000
    + "x"
    + "</msup>" * 3000
    + "</math>tail",
    "many footnotes": "".join(
        f"<sup><a href='#n{n}'>1</a></sup><li id=n{n}>a b c" for n in range(20_000)
    )
    + "tail",
    "references to an empty note": "".join(
        f"<p>x <sup><a href='#n' role=doc-noteref>{n}</a></sup>" for n in range(10_000)
    )
    + "<ol><li id=n>"
    + "<i></i>" * 10_000
    + "</ol><p>tail",
    "a long title": f"<title>{' '.join(f'w{n}' for n in range(8000))}</title>"
    "<meta property=og:title content='ab cd xx'>"
    + "<p>ab cd ef</p>" * 16_000
    + "<p>A sentence with many words, as in the paragraph of an article.</p>" * 8
    + "<p>tail",
    "frames in depth": "<div>" * 140
    + f"<iframe srcdoc='{'<blockquote>' * 140}x'></iframe>tail",
    "quotes never closed": 'tail<a href="' * N,
    "frames side by side": "<div><iframe src=a></iframe></div>" * 20_000 + "tail",
    "drawings never closed": "<svg>" * N + "<svg><rect><p>x<svg>" * 5000 + "<p>tail",
    "texts behind the end": "<p>a</p>" + "x</html>" * 2 * N + "tail",
    "bodies behind the body": "<p>a</p>" + "</body>x<body>" * 2 * N + "tail",
}


@pytest.mark.full(keep=20)
@pytest.mark.parametrize("main", [True, False], ids=["main", "whole"])
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_hostile_pages_end_soon_with_their_text(page, main):
    started = time.process_time()
    content = convert(
        page, "markdown", "html", "links", "images", only_main_content=main
    )
    assert time.process_time() - started < LIMIT_S
    assert content.error is None
    assert "tail" in value(content, "markdown") or content.warnings


ROWS = ["1,1 ", "1", "1 ", "9.", "!", ".", "a-", "aa", "[", "[](", "*a ", "/", " x "]
PROMPT = "the price, the salary, the author, the phone, the opening hours, the rating"
LONG_ROW = 60_000  # characters


@pytest.mark.full(keep=10)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    "wanted",
    [formats.Json(prompt=PROMPT), formats.Summary(), formats.Question(question=PROMPT)],
    ids=["json", "summary", "question"],
)
def test_long_rows_of_a_sign_are_read_soon(row, wanted):
    text = row * (LONG_ROW // len(row))
    page = f"<title>Thing</title><h1>Thing</h1><p>Salary: {text}<p>A last sentence."
    started = time.process_time()
    content = convert(page, wanted)
    assert time.process_time() - started < LIMIT_S
    assert content.error is None


WORDS = " ".join(f"w{n}" for n in range(3000))
LISTS = "0"
for _ in range(250):
    LISTS = f"[{LISTS}{',[]' * 450}]"
DATA = {
    "labels in a line": "<h1>T</h1><p>" + "<b>price:</b><i>-</i>" * 12_000,
    "headings and a long title": f"<title>{WORDS}</title>" + "<h1>ab cd</h1>" * 50_000,
    "inline elements beside the heading": "<h1>The thing</h1>" + "<i>a b </i>" * 10_000,
    "nested lists of JSON-LD": f"<script type=application/ld+json>{LISTS}</script>",
}


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("page", DATA.values(), ids=DATA)
@pytest.mark.parametrize(
    "wanted", [formats.Markdown(), formats.Json(prompt=f"{PROMPT}, the date")]
)
def test_hostile_pages_are_searched_soon(page, wanted):
    started = time.process_time()
    content = convert(page + "<p>A last sentence.", wanted)
    assert time.process_time() - started < LIMIT_S
    assert content.error is None


@pytest.mark.parametrize("start", ["<?xml?>" + "<!---->" * 28, " " * 19_000])
def test_the_root_of_xml_is_found_soon(start):
    started = time.process_time()
    content = convert(
        f"{start}<root><p>tail</p></root>", "markdown", content_type="application/xml"
    )
    assert time.process_time() - started < 1
    assert "tail" in value(content, "markdown")


def test_a_feed_after_comments_is_recognised():
    feed = "<rss><channel><title>News</title><item><title>One</title></item></channel>"
    page = f"<?xml version='1.0'?><!-- a --> <!-- b -->\n{feed}</rss>"
    content = convert(page, "markdown", content_type="application/xml")
    assert "One" in value(content, "markdown")
    assert "<item>" not in value(content, "markdown")


def test_hyphens_of_a_long_line_are_found_soon():
    line = "a" * LONG_ROW + "1b" * LONG_ROW + "-"
    started = time.process_time()
    hyphens = Hyphens([line, "well-known and far-off"])
    assert hyphens.joint(line, "next") == (len(line) - 1, "")
    assert hyphens.joint("is well-", "known") == (len("is well-"), "")
    assert time.process_time() - started < 1
