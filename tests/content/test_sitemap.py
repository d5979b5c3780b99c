from __future__ import annotations

import gzip
import json
import time
import tracemalloc
from xml.sax.saxutils import escape

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_service.discovery.canonical_urls import crawl_key
from scraper_service.discovery.sitemap import (
    MAX_BYTES,
    MAX_FILES,
    MAX_URLS,
    PIECE,
    SLICE_ROWS,
    UNREADABLE,
    SitemapChoice,
    SitemapContent,
    is_sitemap_url,
    read_sitemap,
    sitemap_candidates,
)
from scraper_service.discovery.sitemap_xml import SitemapEntry
from scraper_service.items import PageSource
from scraper_service.options.spider_arguments import crawl_options

URL = "https://site.example/maps/sitemap.xml"
A, B, C = (f"https://site.example/{name}" for name in "abc")
NS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def read(body: str | bytes, content_type: str = "", **changes) -> SitemapContent:
    raw = body.encode() if isinstance(body, str) else body
    fields = {"url": URL, "status": 200, "body": raw, "max_bytes": MAX_BYTES}
    fields["content_type"] = content_type
    return read_sitemap(PageSource(**(fields | changes)))


def urls(content: SitemapContent) -> list[str]:
    return [entry.url for entry in content.rows]


def error_of(content: SitemapContent) -> str:
    return content.error.message if content.error else ""


def urlset(*addresses: str, attributes: str = NS) -> str:
    inside = "".join(f"<url><loc>{address}</loc></url>" for address in addresses)
    return f"<urlset {attributes}>{inside}</urlset>"


AB = urlset(A, B)
XML = f'<?xml version="1.0" encoding="UTF-8"?>{AB}'
IMAGES = 'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
VIDEOS = 'xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
XHTML = 'xmlns:xhtml="http://www.w3.org/1999/xhtml"'
GOOD = {
    "plain": (XML, [A, B]),
    "no namespace": (urlset(A, B, attributes=""), [A, B]),
    "no declaration": (AB, [A, B]),
    "old namespace": (
        urlset(A, attributes='xmlns="http://www.google.com/schemas/sitemap/0.84"'),
        [A],
    ),
    "wrong namespace": (urlset(A, attributes='xmlns="https://x.example/y"'), [A]),
    "prefixed": (
        f'<s:urlset xmlns:s="urn:x"><s:url><s:loc>{A}</s:loc></s:url></s:urlset>',
        [A],
    ),
    "prefix not declared": (
        f"<s:urlset><s:url><s:loc>{A}</s:loc></s:url></s:urlset>",
        [A],
    ),
    "upper case": (f"<URLSET><URL><LOC>{A}</LOC></URL></URLSET>", [A]),
    "white space before the declaration": ("\n\n  " + XML, [A, B]),
    "a message before the declaration": ("<br />\nNotice: x\n" + XML, [A, B]),
    "comments": (f"<!-- a --><!-- <url> -->{AB}<!-- b -->", [A, B]),
    "a comment about pages": (f"<!-- <html> -->{AB}", [A, B]),
    "a comment longer than what is looked at": (f"<!--{'-x' * 999}-->{AB}", [A, B]),
    "a stylesheet": (f'<?xml version="1.0"?><?xml-stylesheet href="x"?>{AB}', [A, B]),
    "white space around addresses": (urlset(f"\n   {A}\t\n", f" {B} "), [A, B]),
    "a break in an address": (urlset("https://site.example\n/a"), [A]),
    "cdata": (urlset(f"<![CDATA[{A}?x=1&y=2]]>"), [f"{A}?x=1&y=2"]),
    "cdata with white space": (urlset(f"\n<![CDATA[ {A} ]]>\n"), [A]),
    "a reference": (urlset(f"{A}?x=1&amp;y=2"), [f"{A}?x=1&y=2"]),
    "an ampersand not escaped": (urlset(f"{A}?x=1&y=2&copy=3", B), [f"{A}?x=1&y=2&copy=3", B]),
    "numeric references": (urlset(f"{A}&#x3f;x&#61;&#38;"), [f"{A}?x=&"]),
    "references of html": (urlset(f"{A}/caf&eacute;&nbsp;x"), [f"{A}/café\xa0x"]),
    "references of no character": (urlset(f"{A}&#0;&#xD800;&#8;b"), [f"{A}��b"]),
    "references of nothing": (urlset(f"{A}&nothing;b"), [f"{A}&nothing;b"]),
    "forbidden characters": (urlset(f"{A}\x01\x08", B), [A, B]),
    "an escaped less-than sign": (urlset(f"{A}?x&lt;y"), [f"{A}?x<y"]),
    "a relative address": (urlset("page", "/root", "../x?q"), [
        "https://site.example/maps/page", "https://site.example/root", "https://site.example/x?q"]),
    "an address without scheme": (urlset("//other.example/x"), ["https://other.example/x"]),
    "a base": ('<urlset xml:base="/base/"><url><loc>x</loc></url></urlset>', [
        "https://site.example/base/x"]),
    "duplicates": (urlset(A, B, A, f" {A}"), [A, B]),
    "addresses of other kinds": (urlset("mailto:a@b.example", "ftp://a.example/", "javascript:x", A), [A]),
    "broken addresses": (urlset("http://", "https:///x", "https://?", "http://[", A), [A]),
    "a long address": (urlset("https://site.example/" + "x" * 9000, A), [A]),
    "empty entries": (f"<urlset><url/><url><loc/></url><url><loc> </loc></url>{AB[8 + len(NS):]}", [A, B]),
    "images": (
        (f"<urlset {NS} {IMAGES}><url><loc>{A}</loc><image:image><image:loc>{B}</image:loc>"
        f"<image:title>t</image:title></image:image><image:loc>{C}</image:loc></url></urlset>"),
        [A],
    ),
    "images before the address": (
        (f"<urlset {NS} {IMAGES}><url><image:image><image:loc>{B}</image:loc></image:image>"
        f"<loc>{A}</loc></url></urlset>"),
        [A],
    ),
    "images whose prefix is not declared": (
        f"<urlset><url><loc>{A}</loc><image:image><image:loc>{B}</image:loc></image:image></url></urlset>",
        [A],
    ),
    "videos": (
        (f"<urlset {NS} {VIDEOS}><url><loc>{A}</loc><video:video><video:player_loc>{B}</video:player_loc>"
        f"<video:content_loc>{C}</video:content_loc></video:video></url></urlset>"),
        [A],
    ),
    "alternates": (
        (f'<urlset {NS} {XHTML}><url><loc>{A}</loc><xhtml:link rel="alternate" hreflang="de"'
        f' href="{B}"/></url></urlset>'),
        [A],
    ),
    "two addresses in one entry": (f"<urlset><url><loc>{A}</loc><loc>{B}</loc></url></urlset>", [A]),
    "markup in an address": (f"<urlset><url><loc><b>{A}</b></loc></url></urlset>", [A]),
    "no root": (f"<url><loc>{A}</loc></url><url><loc>{B}</loc></url>", [A, B]),
    "two documents": (XML + f'<?xml version="1.0"?>{urlset(C)}', [A, B, C]),
    "a root of another name": (f"<sites><url><loc>{A}</loc></url></sites>", [A]),
    "a document type": (f'<!DOCTYPE urlset SYSTEM "http://evil.example/x.dtd">{AB}', [A, B]),
    "entities of its own": (
        f'<?xml version="1.0"?><!DOCTYPE u [<!ENTITY x "{B}"> <!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>'
        + urlset(A, f"{B}?&x;&p;"),
        [A, f"{B}?&x;&p;"],
    ),
    "text": (f"{A}\n{B}\n", [A, B]),
    "text with other line ends": (f"{A}\r\n{B}\r{C}", [A, B, C]),
    "text with more in its lines": (f"# pages\n{A} 2024-01-01\n\t{B}\n\n/c\nsee {C}", [A, B]),
    "text with a byte order mark": (f"\ufeff{A}\n{B}", [A, B]),
    "text with nul": (f"{A}{' ' * 2000}\n{B}\0", [A, B]),
    "text with addresses of no host": (f"http://\nhttps:///x\n{A}", [A]),
    "rss": (
        (f"<rss version='2.0'><channel><link>{C}</link><item><title>t</title><link>{A}</link>"
        f"<enclosure url='{C}'/></item><item><guid>{B}</guid></item></channel></rss>"),
        [A, B],
    ),
    "rss guid that is no link": (
        (f"<rss><channel><item><guid isPermaLink='false'>{C}</guid><link>{A}</link></item>"
        f"<item><guid isPermaLink='false'>x</guid></item></channel></rss>"),
        [A],
    ),
    "rss with links of atom and media": (
        (f"<rss xmlns:atom='http://www.w3.org/2005/Atom' xmlns:media='http://search.yahoo.com/mrss/'>"
        f"<channel><atom:link href='{C}' rel='self'/><item><atom:link href='{C}'/>"
        f"<media:link>{C}</media:link><link>{A}</link></item></channel></rss>"),
        [A],
    ),
    "rss 1.0": (
        (f"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>"
        f"<channel rdf:about='{C}'><link>{C}</link></channel><item rdf:about='{A}'><link>{A}</link></item>"
        f"<item rdf:about='{B}'/></rdf:RDF>"),
        [A, B],
    ),
    "atom": (
        (f"<feed xmlns='http://www.w3.org/2005/Atom'><link href='{C}'/>"
        f"<entry><link rel='edit' href='{C}'/><link rel='alternate' href='{A}'/>"
        f"<link rel='enclosure' href='{C}'/></entry><entry><link href='{B}'/></entry></feed>"),
        [A, B],
    ),
    "atom with a base": (
        "<feed xml:base='https://site.example/'><entry><link href='a'/></entry></feed>",
        [A],
    ),
    "empty urlset": (f"<urlset {NS}/>", []),
    "empty urlset of two tags": (urlset(), []),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), GOOD.values(), ids=GOOD)
def test_urls_of_a_sitemap_are_found(body, expected):
    content = read(body)
    assert urls(content) == expected
    assert content.error is None


ENCODED = {
    "utf-8 with a mark": ("\ufeff" + XML).encode(),
    "utf-16 little-endian": ("\ufeff" + XML).encode("utf-16-le"),
    "utf-16 big-endian": ("\ufeff" + XML).encode("utf-16-be"),
    "utf-16 without a mark": XML.replace("UTF-8", "UTF-16").encode("utf-16-le"),
    "utf-16 without a mark, big-endian": XML.encode("utf-16-be"),
    "utf-16 declared only": XML.replace("UTF-8", "UTF-16").encode(),
    "declared": (
        '<?xml version="1.0" encoding="windows-1251"?>' + urlset(f"{A}/я")
    ).encode("cp1251"),
    "not declared": urlset(f"{A}/я").encode(),
}


@pytest.mark.parametrize("body", ENCODED.values(), ids=ENCODED)
def test_character_sets_are_understood(body):
    assert urls(read(body)) in ([A, B], [f"{A}/я"])


def test_character_set_of_the_header_wins():
    body = urlset(f"{A}/я").encode("koi8-r")
    assert urls(read(body, "text/xml; charset=koi8-r")) == [f"{A}/я"]


def test_text_in_utf_16_is_read():
    assert urls(read(f"{A}\n{B}".encode("utf-16"))) == [A, B]


PACKED = {
    "gzip": (gzip.compress(XML.encode()), ()),
    "gzip twice": (gzip.compress(gzip.compress(XML.encode())), ()),
    "gzip in two members": (
        gzip.compress(XML[:90].encode()) + gzip.compress(XML[90:].encode()),
        (),
    ),
    "gzip as an encoding": (gzip.compress(XML.encode()), ("gzip",)),
    "gzip below an encoding": (brotli.compress(gzip.compress(XML.encode())), ("br",)),
    "gzip thrice, once as an encoding": (
        gzip.compress(gzip.compress(gzip.compress(XML.encode()))),
        ("gzip",),
    ),
    "text": (gzip.compress(f"{A}\n{B}".encode()), ()),
}


@pytest.mark.parametrize(("body", "encodings"), PACKED.values(), ids=PACKED)
def test_compressed_files_are_unpacked(body, encodings):
    content = read(body, "application/octet-stream", content_encodings=encodings)
    assert urls(content) == [A, B]
    assert not content.warnings


KINDS = {
    "urlset": "<urlset/>",
    "index": "<sitemapindex></sitemapindex>",
    "rss": "<rss><channel/></rss>",
    "atom": "<feed xmlns='http://www.w3.org/2005/Atom'/>",
}


@pytest.mark.parametrize("body", KINDS.values(), ids=KINDS)
def test_sitemaps_without_entries_have_no_warning(body):
    assert read(body) == SitemapContent(rows=[])


PAGES = {
    "html": ("<html><body><a href='/x'>x</a>", "a web page"),
    "html with an address of a sitemap": (
        f"<!doctype html><p>see &lt;urlset> {A} <urlset>",
        "a web page",
    ),
    "xhtml": (
        "<?xml version='1.0'?><!DOCTYPE html PUBLIC 'a' 'b'><html xmlns='x'><p>a",
        "a web page",
    ),
    "html without links": ("<!DOCTYPE html><title>not found</title>", "a web page"),
    "html without a root": ("<title>Shop</title><div id=app></div>", "a web page"),
    "a challenge": (
        "<!doctype html><title>Just a moment...</title><script>_cf_chl_opt = {}</script>",
        "a challenge or a refusal (markup of a Cloudflare challenge)",
    ),
    "a log-in page": (
        "<!doctype html><title>Log in</title><form><input type=password name=a></form>",
        "a log-in page (",
    ),
}


@pytest.mark.parametrize(("body", "kind"), PAGES.values(), ids=PAGES)
def test_a_web_page_is_no_sitemap_that_was_read(body, kind):
    content = read(body)
    assert (content.rows, content.nested, content.warnings) == ([], (), ())
    assert content.error.code == UNREADABLE
    assert content.error.message.startswith(f"The file is {kind}")
    assert content.page.startswith(kind)


EMPTY = {
    "empty xml": ("<other/>", "no entries"),
    "other xml": ("<other><loc>https://a.example/</loc></other>", "no entries"),
    "prose": ("Not found", "no entries"),
    "half a tag": ("<urlset", "no entries"),
    "json": ('{"urls": ["https://a.example/"]}', "no entries"),
}


@pytest.mark.parametrize(("body", "remark"), EMPTY.values(), ids=EMPTY)
def test_files_of_another_kind_are_warned_of(body, remark):
    content = read(body)
    assert (content.rows, content.nested) == ([], ())
    assert content.error is None
    (warning,) = content.warnings
    assert remark in warning


BAD = {
    "empty": (b"", "is empty"),
    "white space": (b" \n\t ", "is empty"),
    "a mark alone": (b"\xef\xbb\xbf", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "an image": (b"\x89PNG\r\n\x1a\n" + bytes(99), "of type image/png"),
    "a pdf": (b"%PDF-1.7\n", "of type application/pdf"),
    "gzip four times": (
        gzip.compress(gzip.compress(gzip.compress(gzip.compress(XML.encode())))),
        "of type application/gzip",
    ),
    "broken gzip": (b"\x1f\x8b\x08garbage", "not valid gzip"),
    "nothing but a start": (f"<urlset {NS}><url><loc>{A}</loc>".encode(), "ends early"),
    "nothing but stray ends": (b"<urlset></url></urlset>", "not well-formed"),
}


@pytest.mark.parametrize(("body", "message"), BAD.values(), ids=BAD)
def test_unreadable_files_are_errors(body, message):
    content = read(body)
    assert content.rows == []
    assert message in error_of(content)


def test_unknown_content_encodings_are_errors():
    content = read(AB, content_encodings=("x",))
    assert "unknown content encoding" in error_of(content)


DAMAGED = {
    "in a tag": XML[:-30].encode(),
    "after an entry": XML[:-9].encode(),
    "in the middle of gzip": gzip.compress(XML.encode() * 2000, 1)[:-20],
    "a stray less-than sign": AB.replace("</urlset>", "<url>< </url>").encode(),
    "a stray end": AB.replace("</urlset>", "</x></y></z><url/>").encode(),
    "bytes of no character": AB.replace("</urlset>", "\x80<url").encode("latin-1"),
    "junk after the end": (AB + "</x></y>").encode(),
}


@pytest.mark.parametrize("body", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_read_up_to_the_damage(body):
    content = read(body)
    assert A in urls(content)
    assert content.error is None
    (warning,) = content.warnings
    assert "read up to there" in warning


def test_a_doctype_with_a_hidden_end_declares_no_entity():
    declared = '<!ENTITY x "]>"><!ENTITY y SYSTEM "file:///etc/hostname">'
    content = read(f"<!DOCTYPE u [{declared}]>{urlset(A, f'{B}?&y;')}")
    assert content.rows == []
    assert "not well-formed" in error_of(content)


INDEX = f"""<?xml version="1.0" encoding="UTF-8"?>
<sitemapindex {NS}>
  <sitemap><loc>https://site.example/1.xml</loc><lastmod>2024-05-06</lastmod></sitemap>
  <sitemap><loc>2.xml.gz</loc></sitemap>
  <sitemap><loc>https://site.example/1.xml</loc></sitemap>
  <sitemap><loc>https://site.example/map?page=3&amp;x</loc></sitemap>
</sitemapindex>"""


def test_index_lists_sitemaps():
    content = read(INDEX)
    assert content.nested == (
        "https://site.example/1.xml",
        "https://site.example/maps/2.xml.gz",
        "https://site.example/map?page=3&x",
    )
    assert content.rows == []


@pytest.mark.parametrize("kind", ["urlset", "text"])
def test_sitemaps_among_pages_are_sitemaps(kind):
    addresses = [A, "https://site.example/more.xml", B]
    body = urlset(*addresses) if kind == "urlset" else "\n".join(addresses)
    content = read(body)
    assert urls(content) == [A, B]
    assert content.nested == ("https://site.example/more.xml",)


def test_items_of_feeds_are_never_sitemaps():
    content = read("<rss><item><link>https://a.example/x.xml</link></item></rss>")
    assert urls(content) == ["https://a.example/x.xml"]


TIMES = {
    "2024-05-06": "2024-05-06",
    " 2024-05-06T07:08:09+02:00 ": "2024-05-06T07:08:09+02:00",
    "2024-05-06T07:08Z": "2024-05-06T07:08Z",
    "2024": "2024",
    "Mon, 06 May 2024 07:08:09 GMT": "2024-05-06T07:08:09.000Z",
    "yesterday": None,
    "": None,
    "x" * 10_000: None,
    "Mon, 99 May 2024 07:08:09 GMT": None,
}


@pytest.mark.parametrize(("text", "expected"), TIMES.items())
def test_times_are_w3c_times(text, expected):
    body = f"<url><loc>{A}</loc><lastmod>{text}</lastmod></url>"
    (entry,) = read(body).rows
    assert entry.lastmod == expected


def test_news_have_titles():
    body = f"""<urlset {NS} xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">
    <url><loc>{A}</loc><news:news><news:publication><news:name>The Paper</news:name>
    </news:publication><news:publication_date>2024-05-06</news:publication_date>
    <news:title>Cats &amp;  dogs</news:title></news:news></url></urlset>"""
    assert read(body).rows == [SitemapEntry(A, "2024-05-06", "Cats & dogs")]


def test_feeds_have_titles_descriptions_and_times():
    rss = f"""<rss xmlns:dc="http://purl.org/dc/elements/1.1/"><item><link>{A}</link>
    <title>A &lt;b&gt;bold&lt;/b&gt; title</title><dc:date>2024-05-06</dc:date>
    <description><![CDATA[<p>Text &amp; more</p>]]></description></item></rss>"""
    atom = f"""<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{A}"/>
    <title type="html">A &lt;b&gt;bold&lt;/b&gt; title</title>
    <summary>Text &amp;amp; more</summary><published>2024-05-05</published>
    <updated>2024-05-06</updated></entry></feed>"""
    expected = [SitemapEntry(A, "2024-05-06", "A bold title", "Text & more")]
    assert read(rss).rows == expected
    assert read(atom).rows == expected


def test_titles_of_images_are_not_titles_of_pages():
    body = f"<url {VIDEOS}><loc>{A}</loc><video:title>x</video:title></url>"
    assert read(body).rows == [SitemapEntry(A)]


def test_long_texts_are_cut():
    body = f"<item><link>{A}</link><title>{'x' * 5000}</title></item>"
    (entry,) = read(body).rows
    assert entry.title == "x" * 1000


def test_rows_can_be_chosen():
    source = PageSource(url=URL, status=200, body=urlset(A, B, A).encode())
    content = read_sitemap(source, lambda entries: [entry.url for entry in entries])
    assert content.rows == [A, B]


def test_rows_of_a_crawl_are_json_in_slices():
    options = crawl_options({"url": "https://site.example/", "exclude_paths": "^/b"})
    last = f"<url><loc>{B}</loc><lastmod>2024</lastmod></url></urlset>"
    body = big(SLICE_ROWS).replace("</urlset>", last)
    source = PageSource(url=URL, status=200, body=body.encode())
    slices = read_sitemap(source, SitemapChoice(options, options.url)).rows
    first, second = (json.loads(rows) for rows in slices)
    assert len(first) == SLICE_ROWS
    url = "https://site.example/page-0"
    assert first[0] == [url, crawl_key(options, url), None, None, None]
    assert second == [[B, crawl_key(options, B), "excluded", "^/b", "2024"]]


def big(count: int) -> str:
    return urlset(*(f"https://site.example/page-{n}" for n in range(count)))


@pytest.mark.parametrize("kind", ["urlset", "text"])
def test_urls_beyond_the_limit_are_cut(kind):
    addresses = [f"{A}-{n}" for n in range(MAX_URLS + 1)]
    content = read(urlset(*addresses) if kind == "urlset" else "\n".join(addresses))
    assert urls(content) == addresses[:MAX_URLS]
    assert any("over 50000 URLs" in text for text in content.warnings)


def test_sitemap_of_the_full_size_has_no_warning():
    assert not read(big(MAX_URLS)).warnings


def test_sitemaps_of_an_index_beyond_the_limit_are_cut():
    inside = "".join(f"<sitemap><loc>/{n}</loc></sitemap>" for n in range(5000))
    content = read(f"<sitemapindex>{inside}</sitemapindex>")
    assert len(content.nested) == MAX_FILES
    assert "over 500 sitemaps" in content.warnings[0]


def test_ignored_urls_are_counted():
    assert "2 URLs" in read(urlset("mailto:x", "ftp://x", A)).warnings[0]


def test_bytes_beyond_the_limit_are_cut():
    content = read(big(1000), max_bytes=10_000)
    assert 0 < len(content.rows) < 1000
    assert "larger than 10000 bytes" in content.warnings[0]


@pytest.mark.parametrize(
    "text", ["x" * 90, "<![CDATA[" + "x<>&" * 30 + "]]>", "&amp;" * 60]
)
def test_pieces_may_end_anywhere(text, monkeypatch):
    body = urlset(*(f"{A}?{n}&amp;{text}" for n in range(20)))
    whole = urls(read(body))
    assert len(whole) == 20
    monkeypatch.setattr("scraper_service.discovery.sitemap.PIECE", 7)
    assert urls(read(body)) == whole


PLAIN = "".join(
    f"<url>\n<loc>{A}/{n}</loc><lastmod>2024-05-06</lastmod>\n</url>" for n in range(12)
)
PLAIN_URLS = [f"{A}/{n}" for n in range(12)]
LATER = f"<url><loc>{B}</loc></url>"


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (f"{PLAIN}{LATER}", [*PLAIN_URLS, B]),
        (f"{LATER}<?stylesheet x?><!-- by hand -->{PLAIN}", [B, *PLAIN_URLS]),
        (f"<part>{PLAIN}</part>{LATER}", [*PLAIN_URLS, B]),
        (f"<!-- {PLAIN} -->{LATER}", [B]),
        (f"<!-- before -->{LATER}<!--{PLAIN}{PLAIN}-->", [B]),
        (f"<?not {PLAIN}?>{LATER}", [B]),
        (f"<url>{PLAIN}<loc>{B}</loc></url>", [B]),
        (f"<note><![CDATA[{PLAIN}]]></note>{LATER}", [B]),
        (f"<_run n='1'/><url>{PLAIN}<loc>{B}</loc></url>", [B]),
        ("<url><loc> </loc></url>" * 12 + LATER, [B]),
        ("<url><loc>/b\r\n</loc></url>" * 12, [B]),
        (f"{PLAIN}".replace("</loc>", "?x&amp;y</loc>"), [f"{u}?x&y" for u in PLAIN_URLS]),
        (f"{PLAIN}".replace("<url>", "<url a='b'>"), PLAIN_URLS),
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece", [100, PIECE])
def test_entries_in_comments_and_other_elements_are_not_read(
    inside, expected, piece, monkeypatch
):
    monkeypatch.setattr("scraper_service.discovery.sitemap.PIECE", piece)
    content = read(f"<urlset {NS}>{inside}</urlset>")
    assert urls(content) == expected
    assert content.warnings == ()
    times = {entry.lastmod for entry in content.rows if entry.url in PLAIN_URLS}
    assert times <= {"2024-05-06"}


@pytest.mark.parametrize("hidden", ["", "<!-- {} -->", "<part>{}</part>"])
def test_an_error_after_many_entries_names_its_line(hidden):
    rows = PLAIN + hidden.format(PLAIN)
    [warning] = read(f"<urlset {NS}>\n{rows}\n</wrong></urlset>").warnings
    assert f"(line {rows.count(chr(10)) + 3}: " in warning


def test_an_error_quotes_the_text_of_the_file():
    [warning] = read(f"<urlset {NS}>{LATER}<!--{PLAIN}-- ></urlset>").warnings
    assert "_run" not in warning


@pytest.mark.full
def test_reading_is_quick_and_needs_little_memory():
    body = big(MAX_URLS).encode()
    started = time.process_time()
    read(body)
    assert time.process_time() - started < 10  # a third of a second on a quiet machine
    tracemalloc.start()
    try:
        read(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * 2**20


# Without backslashes, which are slashes in URLs.
LETTERS = st.characters(
    codec="utf-8", categories=["L", "N", "P", "S"], exclude_characters="\\"
)
addresses = st.lists(
    st.text(LETTERS, max_size=30),
    unique=True,
).map(lambda paths: [f"https://site.example/{path}" for path in paths])
plain = st.text(st.characters(codec="utf-8", categories=["L", "N"]), max_size=30)


@given(addresses, plain)
def test_a_written_sitemap_is_read_back(written, title):
    wanted = [url for url in written if not is_sitemap_url(url)]
    items = "".join(
        f"<item><link>{escape(url)}</link><title>{escape(title)}</title></item>"
        for url in wanted
    )
    assert read(f"<rss><channel>{items}</channel></rss>").rows == [
        SitemapEntry(url, None, title or None) for url in wanted
    ]
    assert urls(read(urlset(*map(escape, wanted)))) == wanted


@given(st.binary(max_size=300))
def test_no_bytes_raise(body):
    read(b"<urlset>" + body)
    read(body)


@given(st.text(alphabet="<>/!?[]-&;#x \"'=urlsetocCDATA:", max_size=200))
def test_no_markup_raises(text):
    read(f"<urlset>{text}")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/sitemap.xml", True),
        ("https://a.example/SITEMAP.XML.GZ?x=1#y", True),
        ("http://a.example/x/y.xml#top", True),
        ("https://a.example/x.xml/page", False),
        ("https://a.example/?x.xml", False),
        ("https://a.xml", False),
        ("https://a.example/xml", False),
        ("https://a.example/a.gz", False),
        ("ftp://a.example/a.xml", False),
    ],
)
def test_sitemaps_are_recognised_by_their_url(url, expected):
    assert is_sitemap_url(url) is expected


PLACES = {
    "declared ones first": (
        "https://a.example/docs/",
        ("https://b.example/s.xml#x", "https://a.example/r.txt", " https://a.example/x.xml "),
        ("https://b.example/s.xml https://a.example/r.txt https://a.example/x.xml"
        " https://a.example/docs/sitemap.xml https://a.example/sitemap.xml"),
    ),
    "no duplicates": (
        "https://a.example",
        ("https://A.example:443/sitemap.xml",),
        "https://a.example/sitemap.xml",
    ),
    "not addresses": (
        "https://a.example/",
        ("", "http://[", "mailto:x"),
        "https://a.example/sitemap.xml",
    ),
    "a page": (
        "https://a.example/docs/index.html?x=1",
        (),
        "https://a.example/docs/sitemap.xml https://a.example/sitemap.xml",
    ),
    "a folder with a dot": (
        "https://a.example/docs/v1.2",
        (),
        "https://a.example/docs/v1.2/sitemap.xml https://a.example/sitemap.xml",
    ),
    "a sitemap": (
        "https://a.example/maps/all.xml.gz?x=1",
        (),
        "https://a.example/maps/all.xml.gz?x=1 https://a.example/sitemap.xml",
    ),
    "a subdomain": (
        "http://x.a.co.uk:81/docs",
        (),
        ("http://x.a.co.uk:81/docs/sitemap.xml http://x.a.co.uk:81/sitemap.xml"
        " http://a.co.uk:81/sitemap.xml"),
    ),
    "www": ("https://www.a.example/", (), "https://www.a.example/sitemap.xml"),
    "an address literal": ("http://10.0.0.1:81/", (), "http://10.0.0.1:81/sitemap.xml"),
    "an address literal of version 6": ("http://[::1]:81/", (), "http://[::1]:81/sitemap.xml"),
}  # fmt: skip


@pytest.mark.parametrize(("start", "declared", "expected"), PLACES.values(), ids=PLACES)
def test_sitemap_candidates_are_usual_paths_and_declared_urls(
    start, declared, expected
):
    assert " ".join(sitemap_candidates(start, declared)) == expected


def test_the_number_of_sitemap_candidates_is_limited():
    declared = [f"https://a.example/{n}.xml" for n in range(1000)]
    places = sitemap_candidates("https://a.example/", declared)
    assert len(places) <= MAX_FILES
    assert "https://a.example/sitemap.xml" in places
