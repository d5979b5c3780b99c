"""Documents inside pages, and pages that show no text of their own."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from scraper_service.content.convert import make_content
from scraper_service.content.html.embedded import document_url
from tests.content.pages import options, source

SITE = "https://site.example"
TEXT = "<p>" + "The lock keeper writes down each boat that passes. " * 20 + "</p>"
PDF = f"{SITE}/files/locks.pdf"


def converted(html, *names, main=True, **facts):
    chosen = options(*(names or ("markdown", "links")), only_main_content=main)
    return make_content(evolve(source(html), find_links=True, **facts), chosen)


def markdown(content):
    return json.loads(content.values["markdown"])


def links(content):
    return json.loads(content.values["links"])


def lost(content, kind="embeddedDocument"):
    rows = [row for row in content.losses if row["kind"] == kind]
    return rows[0] if rows else None


EMBEDDED = {
    "embed": '<embed src="/files/locks.pdf" type="application/pdf">',
    "object": '<object data="/files/locks.pdf"></object>',
    "object around an embed": (
        '<object data="/files/locks.pdf"><embed src="/files/locks.pdf"></object>'
    ),
    "iframe": '<iframe src="/files/locks.pdf#page=2" width="100%"></iframe>'.replace(
        "#page=2", ""
    ),
    "lazy iframe": '<iframe data-src="/files/locks.pdf"></iframe>',
    "PDF.js": '<iframe src="/web/viewer.html?file=/files/locks.pdf"></iframe>',
    "Google": (
        '<iframe src="https://docs.google.com/gview?embedded=true&amp;url='
        'https%3A%2F%2Fsite.example%2Ffiles%2Flocks.pdf"></iframe>'
    ),
}


@pytest.mark.parametrize("main", [True, False])
@pytest.mark.parametrize("name", EMBEDDED)
def test_a_page_that_only_embeds_a_document_is_not_ok(name, main):
    found = converted(f"<body>{EMBEDDED[name]}</body>", main=main)
    assert found.known["verdict"] == "empty_shell"
    assert "hardly any text" in found.known["verdict_evidence"].lower()
    assert found.warnings
    assert lost(found)["urls"] == [PDF]
    assert lost(found)["count"] == 1
    assert PDF in links(found)
    assert found.found == (PDF,)
    assert found.embedded == ((PDF, True),)


def test_a_viewer_of_office_files_names_its_document():
    viewer = "https://view.officeapps.live.com/op/embed.aspx?src="
    assert document_url(f"{viewer}https%3A%2F%2Fa.example%2Fb.docx") == (
        "https://a.example/b.docx"
    )


@pytest.mark.parametrize(
    "url",
    [
        f"{SITE}/search?file=brochures",
        f"{SITE}/web/viewer.html",
        f"{SITE}/web/viewer.html?file=javascript:alert(1)",
        "https://docs.google.com/forms?url=https%3A%2F%2Fa.example%2F",
    ],
)
def test_other_pages_are_no_viewers(url):
    assert document_url(url) is None


@pytest.mark.parametrize("main", [True, False])
def test_a_document_on_a_page_with_text_is_a_link_and_a_loss(main):
    html = f'<a href="/a">A</a>{TEXT}<embed src="/files/locks.pdf">{TEXT}<a href="/b">B</a>'
    found = converted(html, main=main)
    assert found.known["verdict"] == "ok"
    assert lost(found)["urls"] == [PDF]
    assert found.embedded == ()
    assert found.found == (f"{SITE}/a", PDF, f"{SITE}/b")
    if not main:
        assert links(found) == [f"{SITE}/a", PDF, f"{SITE}/b"]
    assert PDF in links(found)


def test_a_document_with_a_link_in_the_text_is_no_loss():
    link = '<p>Read <a href="/files/locks.pdf">the list of locks</a> below.</p>'
    found = converted(f"{TEXT}{link}<embed src=/files/locks.pdf>")
    assert lost(found) is None
    assert links(found).count(PDF) == 1


def test_a_frame_without_a_size_is_no_document():
    tag = "<iframe src=https://tags.example/ns.html height=0 width=0></iframe>"
    found = converted(f"{TEXT}<noscript>{tag}</noscript>{tag}")
    assert links(found) == []
    assert found.losses == ()


def test_a_page_of_frames_has_their_urls_and_its_noframes():
    html = (
        '<html><frameset cols="20%,80%"><frame src="menu.html"><frame src="text.html">'
        "<noframes><body><p>The club meets <b>on Mondays</b>. Your browser does not"
        " support frames.</p></body></noframes></frameset></html>"
    )
    found = converted(html)
    assert markdown(found) == "The club meets **on Mondays**."
    frames = [f"{SITE}/dir/menu.html", f"{SITE}/dir/text.html"]
    assert links(found) == frames
    assert lost(found)["urls"] == frames
    assert found.known["verdict"] == "empty_shell"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (
            "<object data=x.bin><p>Sales grew by a third.</p></object>",
            "Sales grew by a third.",
        ),
        ("<canvas>Sales grew by a third.</canvas>", "Sales grew by a third."),
        ("<noembed>Sales grew by a third.</noembed>", "Sales grew by a third."),
        ("<applet>Sales grew by a third.</applet>", "Sales grew by a third."),
        (
            "<iframe src=https://maps.example/>Meet us <b>at lock 4</b>.</iframe>",
            "Meet us **at lock 4**.",
        ),
        ("<canvas>Your browser does not support the canvas element.</canvas>", ""),
        ("<video>Sorry, your browser doesn't support embedded videos.</video>", ""),
        ("<object data=x.pdf>Ihr Browser unterstützt keine PDFs.</object>", ""),
        (
            "<canvas>Boats by month. Please upgrade your browser.</canvas>",
            "Boats by month.",
        ),
        (
            "<object data=map.svg type=image/svg+xml>Map of the locks</object>",
            f"![Map of the locks]({SITE}/dir/map.svg)",
        ),
    ],
)
def test_text_that_stands_in_for_an_element_is_content(html, text):
    found = markdown(converted(f"<body>{TEXT}{html}</body>", main=False))
    assert found.removeprefix(markdown(converted(TEXT, main=False))).strip() == text


@pytest.mark.parametrize(
    ("html", "shown", "kind"),
    [
        ("<canvas id=c></canvas>", "a canvas", "chart"),
        ("<video src=a.mp4></video>", "a video", "video"),
        ("<video controls><source src=a.mp4>No support in your browser.</video>", "a video", "video"),
        ("<audio src=a.mp3></audio>", "a sound", "audio"),
        ("<iframe src=https://www.youtube.com/embed/abcdefghijk></iframe>", "a video", "video"),
        ("<iframe src=https://maps.example/></iframe>", "a frame", "embeddedDocument"),
        ("<img src=data:image/png;base64,AAAA>", "an image", "image"),
    ],
)  # fmt: skip
def test_an_empty_page_with_an_embedded_document_names_the_document(html, shown, kind):
    found = converted(f"<title>Boats</title><body>{html}</body>")
    assert found.known["verdict"] == "empty_shell"
    assert shown in found.known["verdict_evidence"]
    assert found.warnings
    assert lost(found, kind)["count"] == 1


def test_a_picture_whose_url_stands_in_the_markdown_is_ok():
    found = converted("<body><img src=/boat.jpg alt='A boat'></body>")
    assert found.known["verdict"] == "ok"
    assert markdown(found) == f"![A boat]({SITE}/boat.jpg)"


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/json", ""])
def test_a_response_without_bytes_has_a_verdict(kind):
    found = converted("", content_type=kind)
    assert found.known["verdict"] == "empty_shell"
    assert found.known["verdict_evidence"] == "The response has no content."
    assert any("empty_shell" in text for text in found.warnings)


def test_many_and_deep_frames_end():
    frames = "<iframe>" * 3000 + "<object data=a.pdf>" * 3000
    assert converted(frames).error is None
