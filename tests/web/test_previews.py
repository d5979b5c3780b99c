"""Previews of hostile pages: nothing in them runs, loads or leaves the frame."""

from __future__ import annotations

import pytest
from lxml import html

from scraper_service.web.previews import html_preview, markdown_preview
from tests.conftest import KEY
from tests.web.test_sessions import sign_in

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href=' java\tscript:alert(1)'>x</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "<iframe src='http://evil.example'></iframe>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<object data='http://evil.example'></object>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>",
    "<base href='http://evil.example/'>",
    "<link rel=stylesheet href='http://evil.example/x.css'>",
    "<style>body{background:url(http://evil.example/x)}</style>",
    "<p style='background:url(http://evil.example/x)'>x</p>",
    "<form action='http://evil.example'><button>x</button></form>",
    "<video src='http://evil.example/v' poster='http://evil.example/p'></video>",
    "<body onload=alert(1) background='http://evil.example/b'>x</body>",
    "<template><img src=x onerror=alert(1)></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>",
    "<input formaction='javascript:alert(1)' autofocus onfocus=alert(1)>",
    "![x](javascript:alert(1))",
    "![x](http://evil.example/x.png)",
    "[x](javascript:alert(1))",
    "[x](<data:text/html,x>)",
    '[x](http://a.example "\\" onmouseover=alert(1) x=\\"")',
]
ATTRIBUTES = {"href", "target", "rel", "class", "disabled", "alt", "title"}


def check(shown: str) -> None:
    """Fail if a browser would run, load or send anything of ``shown``."""
    for element in html.fragments_fromstring(f"<div>{shown}</div>")[0].iter():
        assert isinstance(element.tag, str), element
        assert element.tag not in {
            *("script", "style", "img", "svg", "math", "iframe", "object", "link"),
            *("meta", "base", "video", "template", "embed"),
        }
        assert set(element.attrib) <= ATTRIBUTES | {"lang", "start"}, element.attrib
        if "href" in element.attrib:
            assert element.get("href").startswith(("http://", "https://", "mailto:"))
            assert element.get("rel") == "noopener noreferrer nofollow"


@pytest.mark.parametrize("text", HOSTILE)
def test_previews_of_hostile_pages_have_no_active_content(text):
    check(html_preview(text))
    check(markdown_preview(text))
    check(html_preview(f"<p>before</p>{text}<p>after</p>"))


def test_a_preview_keeps_readable_content():
    shown = markdown_preview(
        "# Tide\n\n| a | b |\n|---|---|\n| 1 | ~~2~~ |\n\n![sea](x.png)"
    )
    assert "<h1>Tide</h1>" in shown
    assert "<td>1</td>" in shown
    assert '<span class="image">sea</span>' in shown
    shown = html_preview(
        "<table><tr><td colspan=2>x<td>y</table><p>a<img alt='the sea' src=x>b"
    )
    assert '<td colspan="2">x</td>' in shown
    assert 'a<span class="image">the sea</span>b' in shown


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "<", "<!-- x -->", "\ufeff", "<html>", "<?xml version='1.0'?>"),
        '<?xml version="1.0" encoding="utf-8"?><html><p>x</p></html>',
        "<script></script>",
        "<p>" + "<!---->x" * 130_000,
        "<script></script>x" * 55_000,
    ],
    ids=lambda text: text[:30],
)
def test_odd_html_has_a_preview(text):
    check(html_preview(text))


def test_previews_and_blocks_are_made_for_a_session(service):
    headers = sign_in(service, key=KEY).writing

    def post(path: str, body: object):
        return service.post(f"/web/api/{path}", body, key=None, headers=headers)

    shown = post("preview", {"markdown": "# Tide"})
    assert (shown.status, shown.json["isCut"]) == (200, False)
    assert shown.json["html"] == "<h1>Tide</h1>\n"
    long = post("preview", {"html": "<p>word</p>" * 150_000})
    assert (long.status, long.json["isCut"]) == (200, True)
    page = (
        "<main><h1>Tide</h1><p>"
        + "The tide rises in the harbour. " * 20
        + "</p></main>"
    )
    blocks = post("blocks", {"html": page, "url": "http://a.example/"})
    assert blocks.status == 200, blocks.json
    assert any(block["keep"] for block in blocks.json["blocks"])
    list_page = (
        "<ul class='x y z'><li>one <b>1</b></li><!-- no --><li>two</li></ul>" * 15
    )
    found = post("matches", {"html": list_page, "url": "", "selector": "li"}).json
    assert (found["count"], len(found["matches"]), found["error"]) == (30, 20, None)
    assert found["matches"][0] == {
        "text": "one 1",
        "path": "html > body > ul.x.y > li",
        "html": "<li>one <b>1</b></li>",
    }
    for selector, count, text in (
        ("li::text", 30, "one"),
        ("//ul/@class", 15, "x y z"),
        ("xpath:count(//li)", 1, "30.0"),
    ):
        found = post("matches", {"html": list_page, "selector": selector}).json
        assert (found["count"], found["matches"][0]) == (count, {"text": text})
    for selector, part in (
        ("li[", "not a CSS selector: 'li['"),
        ("//li[", "not XPath 1.0"),
        ("", "1 to 1000 characters"),
        ("//a[//b[//c]]", "takes too long"),
    ):
        reply = post("matches", {"html": list_page, "selector": selector})
        [issue] = reply.json["details"]
        assert (reply.status, issue["path"]) == (400, ["selector"])
        assert part in issue["message"]
    for path, body in (
        ("matches", {"html": "a", "css": "b"}),
        ("preview", {}),
        ("preview", {"markdown": 1}),
        ("preview", {"markdown": "a", "html": "b"}),
        ("blocks", {"text": "a"}),
        ("blocks", {"html": ["a"]}),
    ):
        assert post(path, body).status == 400


def test_a_page_too_large_for_a_preview_is_an_error(start_service):
    service = start_service(SCRAPER_CONVERTER_MEMORY_MB="512")
    headers = sign_in(service, key=KEY).writing
    body = {"html": "<p>The tide rises.</p>" * 420_000, "url": "http://a.example/"}
    reply = service.post("/web/api/blocks", body, key=None, headers=headers)
    assert reply.status == 400, reply.json
    assert "too much time or memory" in reply.json["details"][0]["message"]
    shown = service.post(
        "/web/api/preview", {"markdown": "# Tide"}, key=None, headers=headers
    )
    assert shown.status == 200
