from __future__ import annotations

import pytest

from scraper_service.content.formats.links_and_images import feed_links
from scraper_service.items import MetaRefresh
from scraper_service.options.formats import Attributes, AttributeSelector
from tests.content.pages import URL, convert, value


def test_links_are_absolute_unique_and_in_order():
    page = (
        "<a href=b>1</a><a href='/a?x=1&amp;y=2'>2</a><a href=b>3</a><a href='#f'>4</a>"
        "<a href='javascript:x()'>5</a><a href='mailto:m@x.example'>6</a><a>7</a>"
        "<a href='http://Written.example'>8</a><a href='tel:1'>9</a><a href='http://[bad'>10</a>"
    )
    assert value(convert(page, "links"), "links") == [
        "https://site.example/dir/b",
        "https://site.example/a?x=1&y=2",
        "mailto:m@x.example",
        "http://Written.example",
        "http://[bad",
    ]


def test_found_urls_are_those_of_the_raw_page():
    page = (
        "<head><link rel=next href=p2><link rel=icon href=i></head><a href=a hidden>x</a>"
        "<map><area href=b></map><a href='ftp://x.example/'>y</a><nav><a href='c#f'>z</a>"
    )
    content = convert(page, "markdown", only_main_content=True)
    assert content.found == tuple(
        f"https://site.example/dir/{name}" for name in ("p2", "a", "b", "c#f")
    )


def test_images():
    page = (
        "<img src=a.png><img src=a.png><img src='data:image/png;base64,AA'>"
        "<picture><source srcset='b1.png 1x, b2.png 2x'><img src=b.png></picture>"
        "<img data-src=lazy.png><video poster=p.jpg src=v.mp4></video>"
        "<video><source src=v.mp4></video><img srcset='s 1w, t 2w' src=u>"
        "<img src=''><img src=' ' alt=none><video poster='' src=v.mp4></video>"
    )
    base = "https://site.example/dir/"
    expected = ["a.png", "b2.png", "b.png", "lazy.png", "p.jpg", "u", "t"]
    assert value(convert(page, "images"), "images") == [
        base + name for name in expected
    ]


def test_attributes_are_of_the_raw_page():
    pairs = (AttributeSelector("a, [hidden]", "data-id"), AttributeSelector("i[", "x"))
    page = "<a data-id=1></a><a></a><p hidden data-id=2></p><a data-id=1></a>"
    assert value(convert(page, Attributes(pairs)), "attributes") == [
        {"selector": "a, [hidden]", "attribute": "data-id", "values": ["1", "2", "1"]},
        {"selector": "i[", "attribute": "x", "values": []},
    ]


HEAD = """<html lang=en><head><title> A
 title </title><meta name=description content=one><meta name=Description content=two>
<meta name=keywords content=k1><meta name=keywords content=k2><meta name=robots content=all>
<link rel="shortcut icon" href=/f.ico><meta property=og:title content=OT>
<meta property=og:locale:alternate content=de_DE><meta property=article:tag content=t1>
<meta property=article:published_time content=2024-01-02><meta name=DC.date content=2023>
<meta name=dcterms.created content=2022><meta name=author content=A><meta name=author content=B>
<meta itemprop=price content=1><meta name=title content=fake><meta charset=utf-8>
<meta name=empty><meta http-equiv=x-ua content=y><meta name=Robots content=nofollow></head>"""


def test_metas_without_text_hide_no_others():
    page = (
        "<meta name=description content=''><meta name=description content=d>"
        "<meta property=og:title content=' '><meta property=og:title content=t>"
        "<meta name=robots content=''><meta name=robots content=noindex>"
        "<meta name=keywords content=''><meta name=keywords content=k>"
    )
    known = convert(f"{page}<p>one</p>", "html").known
    named = ("description", "og_title", "robots", "keywords")
    assert [known[name] for name in named] == ["d", "t", "noindex", "k"]
    empty = "<meta name=description content=''>" * 2
    other = "<meta property=og:description content=o>"
    assert convert(f"{empty}{other}<p>x</p>", "html").known["description"] == "o"


def test_metadata():
    content = convert(f"{HEAD}<body><p>one two three", "html")
    assert content.known == {
        "verdict": "ok",
        "title": "A title",
        "headline": "OT",
        "description": "one, two",
        "keywords": ["k1", "k2"],
        "robots": "all, nofollow",
        "favicon": "https://site.example/f.ico",
        "language": "en",
        "og_title": "OT",
        "og_locale_alternate": ["de_DE"],
        "article_tag": "t1",
        "published_time": "2024-01-02",
        "dc_date": "2023",
        "dc_terms_created": "2022",
    }
    assert content.other == {
        "og:title": "OT",
        "og:locale:alternate": "de_DE",
        "article:tag": "t1",
        "article:published_time": "2024-01-02",
        "DC.date": "2023",
        "dcterms.created": "2022",
        "author": ["A", "B"],
        "price": "1",
    }


def test_metadata_of_an_empty_page():
    content = convert("<p>x", "html")
    known = {"verdict": "ok"}
    assert (content.known, content.other, content.refresh) == (known, {}, None)


NEXT = "https://site.example/dir/n"
REFRESHES = {
    "seconds and address": ("0;url=n", MetaRefresh(0, NEXT)),
    "spaces and case": (" 5 ; URL = 'n' ignored", MetaRefresh(5, NEXT)),
    "comma": ("3,n", MetaRefresh(3, NEXT)),
    "space only": ("3 n", MetaRefresh(3, NEXT)),
    "fractions are cut": ("2.9; url=n", MetaRefresh(2, NEXT)),
    "no number but a dot": (".5; url=n", MetaRefresh(0, NEXT)),
    "double quotes": ('1; url="n"', MetaRefresh(1, NEXT)),
    "address that starts with url": ("1; urls", MetaRefresh(1, "https://site.example/dir/urls")),
    "reload only": ("5", None),
    "no number": ("url=n", None),
    "script": ("0; url=javascript:x", None),
    "not the web": ("0; url=ftp://x.example", None),
    "no host": ("0; url=http:///n", None),
    "half a host": ("0; url=http://[::1", None),
    "no port": ("0; url=http://x.example:99999/", None),
    "garbage": ("0x; url=n", None),
}  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), REFRESHES.values(), ids=REFRESHES)
def test_meta_refresh(content, expected):
    value = content.replace('"', "&quot;")
    assert (
        convert(f'<meta http-equiv=Refresh content="{value}">', "markdown").refresh
        == expected
    )


def test_a_meta_refresh_before_the_base_is_relative_to_the_page():
    refresh, base = '<meta http-equiv=refresh content="0;url=n">', "<base href=/other/>"
    found = [
        convert(page, "markdown").refresh for page in (refresh + base, base + refresh)
    ]
    assert found == [
        MetaRefresh(0, NEXT),
        MetaRefresh(0, "https://site.example/other/n"),
    ]
    target = "<base target=_top>"
    assert convert(target + refresh + base, "markdown").refresh == found[0]


def test_meta_refresh_in_noscript_is_ignored():
    page = "<body><noscript><meta http-equiv=refresh content='0;url=n'></noscript>"
    assert convert(page, "markdown").refresh is None


def test_entries_of_feeds_have_times():
    changed = "Sun, 04 Jan 2026 10:00:00 GMT"
    rss = (
        "<rss><channel><link>/</link><pubDate>x</pubDate>"
        f"<item><link>/a</link><pubDate>{changed}</pubDate></item>"
        "<item><link>/b</link></item><item><pubDate>2026</pubDate></item>"
        "<item><link>mailto:a@b.example</link></item></channel></rss>"
    )
    first = {"https://site.example/a": "2026-01-04T10:00:00.000Z"}
    assert feed_links(rss, URL)[1] == first
    second = {"https://site.example/b": "2026-01-05T10:00:00.000Z"}
    later = changed.replace("Sun, 04", "Mon, 05")
    assert feed_links(rss, URL, later)[1] == first | second
    atom = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry>'
        '<link rel="edit" href="/edit"/><link href="/c"/>'
        "<published>2026-01-01</published><updated>2026-02-02</updated></entry></feed>"
    )
    assert feed_links(atom, URL)[1] == {"https://site.example/c": "2026-02-02"}


def test_feed_links():
    rss = "<rss><channel><link>/a</link><item><link>https://x.example/b</link></item></channel></rss>"
    atom = "<feed xmlns='http://www.w3.org/2005/Atom'><link href='c'/><id>urn:x</id></feed>"
    assert feed_links(rss, URL)[0] == ("https://site.example/a", "https://x.example/b")
    assert feed_links(atom, URL)[0] == ("https://site.example/dir/c",)
    assert feed_links("", URL) == ((), {})


def test_feed_entities_are_not_expanded():
    bomb = (
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;">'
        '<!ENTITY e SYSTEM "file:///etc/passwd">]><rss><link>&b;&e;</link></rss>'
    )
    assert feed_links(bomb, URL)[0] == ()
