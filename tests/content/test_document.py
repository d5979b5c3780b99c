from __future__ import annotations

import pytest

from scraper_service.content.convert import make_content
from scraper_service.content.html.cleaning import clean, clean_html
from scraper_service.content.html.document import exclude, include, parse
from scraper_service.content.main_content.reduction import drop_duplicate_blocks
from scraper_service.content.page_urls import absolute, best_candidate
from tests.content.pages import URL, convert, markdown, options, source, value


def body_of(page: str, **changes) -> str:
    html = value(convert(page, "html", **changes), "html")
    return html.partition("<body>")[2].partition("</body>")[0]


CLEANED = {
    "scripts": ("a<script>x</script><style>y</style><!-- z -->b", "ab"),
    "hidden": ("<p hidden>x</p><p style='visibility:hidden'>y</p>b", "b"),
    "until found": ("<p hidden=until-found>x</p>", '<p hidden="until-found">x</p>'),
    "addresses": (
        "<a href=x>a</a><img src=/i.png>",
        '<a href="https://site.example/dir/x">a</a><img src="https://site.example/i.png">',
    ),
    "written addresses": ("<a href='HTTP://A.example'>a</a>", '<a href="HTTP://A.example">a</a>'),
    "noscript with little": ("<p>a b c</p><noscript>x y</noscript>", "<p>a b c</p>"),
    "noscript with most": ("<p>a</p><noscript><p>x y</p></noscript>", "<p>a</p><div><p>x y</p></div>"),
    "iframe": (
        "<iframe src=/f></iframe>",
        '<div data-original-tag="iframe" data-src="/f"></div>',
    ),
    "iframe with a document": (
        "<iframe srcdoc='&lt;b&gt;x&lt;/b&gt;'></iframe>",
        '<div data-original-tag="iframe"><b>x</b></div>',
    ),
    "lazy image": (
        "<img src=blank.gif data-original=r.png>",
        '<img src="https://site.example/dir/r.png" data-original="r.png">',
    ),
    "lazy image of several screens": (
        "<img src=/i/spacer.png data-src-wide=/w.png>",
        '<img src="https://site.example/w.png" data-src-wide="/w.png">',
    ),
    "forbidden references": ("<p title='a&#1;&#x1f;'>b&#11;c&#xfffe;</p>", '<p title="a">bc</p>'),
}  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), CLEANED.values(), ids=CLEANED)
def test_cleaning(page, expected):
    assert body_of(page) == expected


def test_html_has_no_scripts_and_styles_in_its_head_either():
    head = "<script>x</script><style>y</style><noscript><link href=z></noscript>"
    page = f"<html><head><title>t</title>{head}</head><body>a</body></html><script>1</script>"
    assert value(convert(page, "html"), "html") == (
        "<html><head><title>t</title></head><body>a</body></html>"
    )


def test_html_has_no_event_handlers():
    page = "<p onclick='x()' id=b>a</p><img src=i.png onerror='y()' onload='z()'>"
    assert body_of(page) == '<p id="b">a</p><img src="https://site.example/dir/i.png">'


TWINS = {
    "Bootstrap": (
        "<div class='d-none d-md-block'><h3>a</h3><p>b</p></div><div class=d-md-none><p>a</p>b</div>c",
        '<div class="d-none d-md-block"><h3>a</h3><p>b</p></div>c',
    ),
    "Tailwind": (
        "<div class='x lg:hidden'>a</div><div class='hidden lg:block'>a</div>",
        '<div class="x lg:hidden">a</div>',
    ),
    "own names": (
        "<section class='x hide-mobile'>a</section><section class=hide-desktop>a</section><p class=mobile-only>a</p>",
        '<section class="x hide-mobile">a</section>',
    ),
    "one of them for all screens": ("<div class=mobile>a</div><div class=b>a</div><div>a</div>", None),
    "of one class": ('<div class="is-mobile">a</div><div class="is-mobile">a</div>', None),
    "other texts": ('<div class="mobile">a</div><div class="desktop">b</div>', None),
    "no text": ('<div class="mobile"></div><div class="desktop"></div>', None),
}  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), TWINS.values(), ids=TWINS)
def test_copies_for_other_screens(page, expected):
    document = parse(page, URL)
    drop_duplicate_blocks(document.body)
    body = clean_html(document).partition("<body>")[2].partition("</body>")[0]
    assert body.replace('"', "") == (expected or page).replace('"', "")


PAGE = (
    "<nav>n</nav><div class=a>1<div class=a>2</div></div><p class=ad>x</p>"
    "<iframe srcdoc='<i>f</i>'></iframe><p id=b>3</p>"
)
SELECTED = {
    "outermost in document order": (("#b", ".a"), (), "1\n\n2\n\n3"),
    "exclude wins": ((".a",), (".a .a",), "1"),
    "exclude alone": ((), ("nav", ".ad", "iframe"), "1\n\n2\n\n3"),
    "bare iframe": (("iframe",), (), "*f*"),
    "iframe in a longer selector": (("iframe > i",), (), "*f*"),
    "body": (("body",), (".ad", "iframe", "nav", ".a"), "3"),
}


@pytest.mark.parametrize(("inc", "exc", "expected"), SELECTED.values(), ids=SELECTED)
def test_selectors(inc, exc, expected):
    page = markdown(
        PAGE, include_tags=inc, exclude_tags=exc, only_main_content=bool(inc)
    )
    assert page == expected


def test_includeTags_without_a_match_returns_an_empty_page_with_a_warning():
    content = convert(PAGE, "markdown", "links", include_tags=(".none", "main"))
    assert value(content, "markdown") == ""
    assert content.warnings == ("No element matches includeTags: .none, main.",)


@pytest.mark.parametrize("selector", ["p[", ":not(:not(p))", "a::b(", "", ":hover(x)"])
def test_unusable_selectors_are_warned_of(selector):
    content = convert(PAGE, "markdown", exclude_tags=(selector,))
    assert content.error is None
    assert "3" in value(content, "markdown")


def test_deep_nesting_keeps_the_tail():
    document = parse("<div>" * 5000 + "x" + "</div>" * 5000 + "<p>tail", URL)
    clean(document)
    exclude(document, ())
    assert "tail" in clean_html(document)
    assert "flattened" in document.warnings[0]


def test_include_reads_the_whole_tree():
    document = parse("<p>a</p><p>b</p>", URL)
    include(document, ("p",))
    assert len(document.body) == 2


@pytest.mark.parametrize(
    "page", ["", "  ", "<!-- x -->", "<frameset><frame src=a></frameset>", "<?xml?>"]
)
def test_pages_without_a_body(page):
    assert markdown(page) == ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (" x ", "https://site.example/dir/x"),
        ("//h.example/y", "https://h.example/y"),
        ("//H.example:8080/a/../b?c=d", "https://H.example:8080/a/../b?c=d"),
        ("//h.example", "https://h.example"),
        ("//h.example/?", "https://h.example/"),
        ("//h.example/a#b", "https://h.example/a#b"),
        ("http://H.example/ a", "http://H.example/ a"),
        ("mailto:a@b.example", "mailto:a@b.example"),
        ("java\nscript:x", None),
        ("\x01javascript:x", None),
        ("//[bad", None),
        ("", URL),
        ("\\docs\\a.html", "https://site.example/docs/a.html"),
        ("sub\\a.html?b=\\c#d\\e", "https://site.example/dir/sub/a.html?b=\\c#d\\e"),
        ("..\\a.html", "https://site.example/a.html"),
        ("\\\\h.example\\y", "https://h.example/y"),
        ("HTTP:\\\\h.example\\y", "HTTP://h.example/y"),
        ("https://h.example\\y?z=\\", "https://h.example/y?z=\\"),
        ("mailto:a\\b@c.example", "mailto:a\\b@c.example"),
        ("data:text/plain,a\\b", "data:text/plain,a\\b"),
    ],
)
def test_relative_urls_become_absolute(written, expected):
    assert absolute(URL, written) == expected


@pytest.mark.parametrize(
    ("srcset", "expected"),
    [
        ("a 1x, b 2x", "b"),
        ("a 300w,b 900w, c 600w", "b"),
        ("a,b 2x", "a,b"),
        ("a, b", "a"),
        ("data:x 3x, a 1x", "a"),
        ("", None),
        (", , ,", None),
        ("a 1e999x", "a"),
    ],
)
def test_best_candidate(srcset, expected):
    assert best_candidate(srcset) == expected


MAIN = "<p>" + "Many words of the story stand here. " * 20 + "</p>"
CHROME = {
    "navigation": "<nav><a href=a>Home</a></nav>",
    "class": "<div class='left sidebar'>Side words</div>",
    "id": "<div id=cookie-consent>We use cookies</div>",
    "role": "<div role=navigation>Menu words</div>",
    "page header": "<header><p>Slogan words</p></header>",
    "footer": "<footer>Imprint</footer>",
    "link list": "<div><p><a href=a>One</a> <a href=b>Two</a> <a href=c>Three</a></p></div>",
    "related": "<h3>Related stories</h3><div><a href=x>Another story</a></div>",
}


@pytest.mark.parametrize("chrome", CHROME.values(), ids=CHROME)
def test_chrome_is_pruned(chrome):
    page = f"<body><div><h1>Title</h1>{MAIN}</div>{chrome}</body>"
    text = markdown(page, only_main_content=True)
    assert text.startswith("# Title\n\nMany words")
    assert text.endswith("stand here.")


KEPT = {
    "the block with the first heading": f"<div class=header><h1>T</h1></div>{MAIN}",
    "the block with main": f"<div class=sidebar><main>{MAIN}</main></div>",
    "the block with most words": f"<div class=menu>{MAIN}</div><p>x</p>",
    "a page of nothing but chrome": "<nav>only this</nav>",
    "a heading outside of main": f"<h1>T</h1><main>{MAIN}</main>",
}


@pytest.mark.parametrize("page", KEPT.values(), ids=KEPT)
def test_content_is_guarded(page):
    whole = markdown(page).split()
    kept = markdown(page, only_main_content=True).split()
    assert len(kept) >= len(whole) - 1


def test_hidden_content_that_scripts_uncover_is_kept():
    page = f"<p>Loading</p><div hidden id=app>{MAIN}</div><div hidden>modal</div>"
    assert markdown(page).endswith("stand here.")
    assert "modal" not in markdown(page)


def test_long_consent_texts_are_pruned():
    page = f"<p>Short content.</p><div id=onetrust-consent-sdk>{MAIN}</div>"
    assert markdown(page, only_main_content=True) == "Short content."


def test_data_tables_of_links_are_kept():
    row = "<tr><td><a href=a>a</a><td><a href=b>b</a>"
    page = (
        f"<main>{MAIN}<table class=sticky-header><tr><th>x<th>y{row * 3}</table></main>"
    )
    assert "| x | y |" in markdown(page, only_main_content=True)


def test_links_and_markdown_agree():
    page = f"<nav><a href=n>n</a></nav><main>{MAIN}<p>The <a href=m>map</a> shows where.</main>"
    content = convert(page, "markdown", "links", only_main_content=True)
    assert value(content, "links") == ["https://site.example/dir/m"]
    assert content.found == ("https://site.example/dir/n", "https://site.example/dir/m")


@pytest.mark.parametrize(
    "start",
    [
        "<title>t</title>",
        "<!doctype html><meta charset=utf-8><title>t</title>",
        "<html><head><title>t</title><script>1</script>",
    ],
)
@pytest.mark.parametrize("tag", ["main", "header", "section", "article", "x-app"])
def test_elements_of_html_5_end_a_head_that_is_not_closed(start, tag):
    page = f"{start}<{tag}><h1>a</h1></{tag}>b<p>c</p><main>d</main>"
    assert markdown(page) == "# a\n\nb\n\nc\n\nd"


@pytest.mark.parametrize("others", [(), ("markdown",), ("html", "images")])
def test_links_are_complete_with_and_without_other_formats(others):
    page = """<body><a href=a>1</a> <a href=" /b ">2</a> <a href="">3</a> <a href=#d>4</a>
    <a href="javascript:x()">5</a> <a>6</a> <a href="mailto:me@site.example">7</a>
    <p hidden><a href=hidden>8</a></p>"""
    addresses = ["https://site.example/dir/a", "https://site.example/b", URL]
    content = convert(page, "links", *others)
    assert value(content, "links") == [*addresses, "mailto:me@site.example"]


def test_backslashes_of_links_and_images_are_slashes_in_all_formats():
    page = r"""<base href="\start\"><body>Words. <a href="\docs\a.html">1</a>
    <a href="b\c.html">2</a> <a href="https://h.example\d">3</a> <img src="\i\p.png">
    <a href="https:\\h.example\e?f=\g">4</a>"""
    content = convert(page, "markdown", "links", "images", "html")
    expected = [
        "https://site.example/docs/a.html",
        "https://site.example/start/b/c.html",
        "https://h.example/d",
        "https://h.example/e?f=\\g",
    ]
    assert value(content, "links") == expected
    assert value(convert(page, "links"), "links") == expected
    assert list(content.found) == expected
    assert value(content, "images") == ["https://site.example/i/p.png"]
    for format_name in ("markdown", "html"):
        for url in expected[:3]:
            assert url in value(content, format_name)


ROUTES = """<body><p>Words of the page. <a href="#/guide">1</a> <a href=" #/a/b?c=d ">2</a>
<a href="#!contact">3</a> <a href="#users/5">4</a> <a href="#cite/1">5</a>
<a href="#section">6</a> <a href="#">7</a> <a href="#!">8</a> <a href="#:~:text=a/b">9</a>
<a href="#/?id=part">10</a> <a href="#/other?id=part">11</a></p>
<h2 id="part">A part</h2><p id="cite/1">A source.</p>"""


@pytest.mark.parametrize("only_main_content", [True, False])
def test_links_to_routes_of_a_script_are_kept(only_main_content):
    found = [
        f"{URL}{route}"
        for route in (
            "#/guide",
            "#/a/b?c=d",
            "#!contact",
            "#users/5",
            "#/other?id=part",
        )
    ]
    content = convert(ROUTES, "markdown", "links", only_main_content=only_main_content)
    assert value(content, "links") == found
    assert value(convert(ROUTES, "links"), "links") == found
    assert list(content.found) == found
    assert f"[1]({URL}#/guide)" in value(content, "markdown")


def test_routes_are_relative_to_the_base_of_the_page():
    page = '<base href="/app/"><a href="#/guide">1</a> <area href="#/map"><a href="#a">2</a>'
    content = convert(page, "links")
    assert list(content.found) == [
        "https://site.example/app/#/guide",
        "https://site.example/app/#/map",
    ]


def test_a_heading_that_links_to_another_route_stays_a_link():
    page = (
        f"<main>{MAIN}<h2><a href='#/guide'>Guide</a></h2><p>It begins here.</p></main>"
    )
    shown = markdown(page, only_main_content=True)
    assert f"## [Guide]({URL}#/guide)" in shown
    page = page.replace("#/guide", "#/?id=x").replace("<h2", "<h2 id=x")
    assert "## Guide" in markdown(page, only_main_content=True)


def test_links_and_images_are_encoded_as_in_browsers():
    """A link that is complete stays as written (interface document, part 7.2)."""
    page = """<body><a href="a (b).html">1</a> <a href="/ä?q=x y#z w">2</a> <a href='/"b"'>3</a>
    <a href="/plain/%20~x!$'()*,;=:@|[]">4</a> <a href="http://h.example/x y">5</a>
    <a href="mailto:me@site.example?subject=x y">6</a> <a href="a (b).html">7</a>
    <img src="my pic.png" srcset="my%20pic.png 2x"> <img src="http://h.example/ü b.png">
    <video poster="http://[b c/d"></video>"""
    content = convert(page, "links", "images")
    assert value(content, "links") == [
        "https://site.example/dir/a%20(b).html",
        "https://site.example/%C3%A4?q=x%20y#z%20w",
        "https://site.example/%22b%22",
        "https://site.example/plain/%20~x!$'()*,;=:@|[]",
        "http://h.example/x y",
        "mailto:me@site.example?subject=x y",
    ]
    assert value(content, "images") == [
        "https://site.example/dir/my%20pic.png",
        "http://h.example/%C3%BC%20b.png",
        "http://[b c/d",
    ]


def test_selectors_match_absolute_urls_if_only_links_are_requested():
    page = "<body><a href=/b>1</a> <a href=c>2</a>"
    selector = f"a[href='{URL.removesuffix('page.html')}c']"
    content = convert(page, "links", exclude_tags=(selector,))
    assert value(content, "links") == ["https://site.example/b"]


def test_text_for_answers_has_absolute_urls_if_only_links_are_requested():
    page = source("<body><p>See <a href=/b>this</a>", find_text=100)
    assert make_content(page, options("links")).text == (
        "See [this](https://site.example/b)"
    )


@pytest.mark.parametrize(
    "end",
    [
        "</body></html><p>Late <a href='/late'>link</a></p>tail",
        "</body><p>Late <a href='/late'>link</a></p>tail</html>",
        "</html>\n<body class='b'><p>Late <a href='/late'>link</a></p>tail</body>",
        (
            "</body></html><html><head><title>Other</title></head>"
            "<body><p>Late <a href='/late'>link</a></p>tail</body></html>"
        ),
        "</html><p>Late <a href='/late'>link</a></p></html>tail",
    ],
)
def test_content_after_the_end_tags_is_a_part_of_the_page(end):
    """As in browsers: HTML, 13.2.6.4.19 and 13.2.6.4.22."""
    page = f"<html><head><title>A page</title></head><body><p>Early.</p>{end}"
    link = "https://site.example/late"
    assert markdown(page) == f"Early.\n\nLate [link]({link})\n\ntail"
    found = convert(page, "links")
    assert value(found, "links") == [link]
    assert found.known["title"] == "A page"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>Early<svg><path><p>Late</p></svg><p>tail", "Early\n\nLate\n\ntail"),
        (
            "<p>Early</p><svg><g><text>x</text></g><h2>Late</h2>tail",
            "Early\n\n## Late\n\ntail",
        ),
        ("<p>Early <svg><path><b>Late</b> tail", "Early **Late** tail"),
        ("<svg><title>x</title><svg><svg><p>Early<svg><p>Late", "Early\n\nLate"),
        ("<svg><foreignObject><p>x</p></foreignObject><p>Late", "Late"),
    ],
)
def test_an_element_of_html_ends_a_drawing_without_end_tag(page, text):
    """As in browsers: HTML, 13.2.6.5."""
    assert markdown(page) == text


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<table><tr><td><select><option>a<td>b<tr><td>c</table>d", "b c d"),
        ("<table><tr><td><select><option>a</td><td>b</table>c", "b c"),
        ("<Select><option>a<input>b", "b"),
        ("<select><option>a<select><option>b</select>c", "c"),
        ("<select><option>a<table><tr><td>b</table></select>c", "c"),
        ("<select><option>a<input-box>b</input-box></select>c", "c"),
        ("<select><option>a", ""),
    ],
)
def test_a_cell_or_a_field_ends_a_list_of_options_without_end_tag(page, text):
    found = markdown(page).replace("|", " ").replace("-", " ")
    assert found.split() == text.split()


def test_the_text_of_an_image_map_is_content():
    page = "<p>a</p><map name=m><p>b <a href=/c>c</a></p><area href=/d alt=d></map>"
    assert markdown(page) == "a\n\nb [c](https://site.example/c)"


def test_sections_of_xhtml_are_text():
    page = (
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>A page</title>'
        '<script src="x"/><script>//<![CDATA[\nx < y\n//]]></script></head><body>'
        "<!-- <![CDATA[no]]> --><p>Early <![CDATA[<b> &amp; ä]]> late.</p></body></html>"
    )
    found = convert(page, content_type="application/xhtml+xml; charset=utf-8")
    assert value(found, "markdown") == "Early \\<b> \\&amp; ä late."
