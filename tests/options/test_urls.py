"""URLs and headers of callers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_service.crawling.page_state import FetchKind
from scraper_service.errors import InvalidOptions
from scraper_service.options.spider_arguments import page_options
from scraper_service.options.urls import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_URL,
    caller_domain,
    caller_headers,
    caller_url,
    host_of,
    join_url,
    origin,
    plain_address,
    request_url,
    url_parts,
)
from scraper_service.spiders.scrape import ScrapeSpider
from scraper_service.spiders.sitemaps import sitemap_request


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "http://example.com/a b?all&b=%zz#frag",
        "HTTPS://EXAMPLE.COM/",
        "https://example.com:1/",
        "https://example.com:65535/",
        "https://example.com:/",
        "https://example.com?x=http://other.example/@",
        "https://example.com#@other.example",
        "https://r3---sn-ab_c.example.com/",
        "https://my_host.example.com/",
        "https://пример.рф/",
        "https://xn--e1afmkfd.xn--p1ai/",
        "https://bücher.example/",
        "https://i❤.example/",  # no name of IDNA 2008, but registered all the same
        "https://例え.jp/パス",
        "http://localhost",
        "http://localhost:3000/x",
        "http://127.0.0.1:8080/",
        "http://127.0.0.2",
        "http://[::1]:8080/",
        "http://[::ffff:127.0.0.1]/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
    ],
)
def test_a_valid_url_is_returned_unchanged(url):
    assert caller_url(url) == url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("example.com", "http://example.com"),
        ("example.com:8080/x", "http://example.com:8080/x"),
        ("localhost:3000", "http://localhost:3000"),
        ("  https://example.com/  ", "https://example.com/"),
        ("example.com/?next=https://other.example", None),
        ("127.0.0.1", "http://127.0.0.1"),
    ],
)
def test_missing_scheme_is_added(text, url):
    assert caller_url(text) == (url or f"http://{text}")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,<b>",
        "about:blank",
        "chrome://version",
        "view-source:http://example.com",
        "gopher://example.com:70/",
        "ws://example.com",
        "://example.com",
    ],
)
def test_other_schemes_are_refused(url):
    with pytest.raises(ValueError, match="URL uses unsupported protocol"):
        caller_url(url)


@pytest.mark.parametrize(
    "url",
    ["http://intranet/", "http://example.c/", "http://example.1a/", "web:8000/x"],
)
def test_host_needs_a_top_level_domain(url):
    with pytest.raises(ValueError, match="top-level domain"):
        caller_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "   ",
        "http://",
        "http:///path",
        "http:example.com",
        "http:/example.com",
        "//example.com/",
        "http://user@example.com/",
        "http://user:pass@example.com/",
        "http://example.com\\@other.example/",
        "http://exa\tmple.com/",
        "http://example.com/\n",
        "http://example.com/\x00",
        "http://example.com/\x7f",
        "http://example.com/\x85",
        "http://example.com/\ud800",
        "http://exa mple.com/",
        "http://exa%6dple.com/",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:99999/",
        "http://example.com:8a/",
        "http://example.com:80:80/",
        "http://example.com.:80/",
        "http://example..com/",
        "http://.example.com/",
        "http://-a.example.com/",
        "http://a-.example.com/",
        "http://" + "a" * 64 + ".com/",
        "http://" + "a." * 126 + "com/",
        "http://" + "a" * 5000 + ".com/",
        "http://a\u200db.example/",
        "http://ä\uff0fb.example/",
        "http://ä:b@c.example/",
        "http://ä%61.example/",
        "http://\u00ad.example/",
        "http://" + "ä" * 60 + ".example/",
        "http://[::1/",
        "http://[::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[::g]/",
        "http://a[::1]/",
        "http://256.256.256.256/",
        "http://1.2.3.4.5/",
        "http://1.2.3.08/",
        "http://4294967296/",
        "http://1_0.0.0.1/",
        "http://example.com/" + "a" * MAX_URL,
    ],
)
def test_urls_that_parsers_read_differently_are_refused(url):
    with pytest.raises(ValueError, match="Invalid URL"):
        caller_url(url)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://faß.example/", "http://xn--fa-hia.example/"),
        ("https://BÜCHER.example:443/ä?ö=%zz#ü", "https://xn--bcher-kva.example/%C3%A4?%C3%B6=%zz#%C3%BC"),
        ("HTTP://Example.COM:80/%7Ea/../b", "HTTP://Example.COM:80/%7Ea/../b"),
        ("http://[ä", "http://[ä"),
    ],
)  # fmt: skip
def test_urls_of_requests_are_in_ascii_as_in_browsers(url, expected):
    assert request_url(url) == expected


def test_spiders_request_the_host_that_browsers_request():
    url, expected = "http://faß.example/", "http://xn--fa-hia.example/"
    options, spider = page_options({"url": url}).scrape, ScrapeSpider(resident=True)
    assert spider.page_request(url, options, "1", 0.0).url == expected
    request = sitemap_request(url, options, 1.0, FetchKind.SITEMAP, scrape_id="1")
    assert request.url == expected


def test_the_length_of_a_url_is_bounded():
    url = "http://example.com/".ljust(MAX_URL, "a")
    assert caller_url(url) == url
    with pytest.raises(ValueError, match="Invalid URL"):
        caller_url(url + "a")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("garden", "URL must have a valid top-level domain, got 'garden'"),
        ("ht!tp:/x", "Invalid URL: not a host name, got 'ht!tp:/x'"),
        (
            "http:/x.de",
            "Invalid URL: the scheme must be followed by //, got 'http:/x.de'",
        ),
        ("x.de:0", "Invalid URL: the port must be 1 to 65535, got 'x.de:0'"),
        (
            "ftp://x.de",
            "URL uses unsupported protocol: it must be http or https, got 'ftp://x.de'",
        ),
        (
            "ftp://a:secret@x.de",
            "URL uses unsupported protocol: it must be http or https",
        ),
        (
            "http://a:secret@x.de",
            "Invalid URL: user names and passwords are not allowed in it",
        ),
        ("http:a:secret@x.de", "Invalid URL: the scheme must be followed by //"),
    ],
)
def test_a_refused_url_is_shown_unless_it_may_contain_a_password(url, message):
    with pytest.raises(ValueError, match="URL") as refusal:
        caller_url(url)
    assert str(refusal.value) == message


@given(st.text())
def test_any_text_is_a_url_or_a_value_error(text):
    for candidate in (text, "http://" + text, f"http://{text}.com"):
        try:
            assert caller_url(candidate).endswith(candidate.strip(" "))
        except InvalidOptions:
            raise
        except ValueError as error:
            assert str(error)  # noqa: PT017  # it may also pass


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("Example.COM", "example.com"),
        ("*.example.com", "example.com"),
        (".zip", "zip"),
        ("zip", "zip"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_domain_is_normalised(text, domain):
    assert caller_domain(text) == domain


@pytest.mark.parametrize(
    "text", ["", "a b", "a/b", "*", "a*b.com", "x" * 300, "ä/b.com", "ä@b.com", "ä:1"]
)
def test_bad_domain_is_refused(text):
    with pytest.raises(ValueError, match="not a domain"):
        caller_domain(text)


HEADERS_OK = (
    ("User-Agent", "x/1 (y)"),
    ("Cookie", "a=b; c=d"),
    ("X-Tab", "a\tb"),
    ("X-Umlaut", "ü"),
    ("X-Empty", ""),
    ("Authorization", "Bearer x"),
)


def test_headers_for_the_site_pass_unchanged():
    assert caller_headers(HEADERS_OK) == HEADERS_OK


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A", "a\r\nb: c"),
        ("X-A", "a\nb"),
        ("X-A", "a\x00"),
        ("X-A", "\x7f"),
        ("X-A", "\ud800"),
        ("X A", "a"),
        ("X:A", "a"),
        ("", "a"),
        ("X\r\nY", "a"),
        ("Ü", "a"),
        ("Host", "a"),
        ("hOsT", "a"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Keep-Alive", "1"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "x"),
        ("Proxy-Authorization", "x"),
        ("proxy-anything", "x"),
    ],
)
def test_header_that_frames_or_injects_is_refused(name, value):
    with pytest.raises(InvalidOptions) as caught:
        caller_headers((("X-Good", "1"), (name, value)))
    (issue,) = caught.value.issues
    assert issue.path == (name,)
    assert issue.code == "custom"
    assert repr(name) in issue.message
    assert value not in issue.message or len(value) < 2


def test_headers_are_bounded_in_number_and_size():
    caller_headers(tuple((f"X-{i}", "") for i in range(MAX_HEADERS)))
    caller_headers((("X", "a" * (MAX_HEADER_BYTES - 1)),))
    for headers in (
        tuple((f"X-{i}", "") for i in range(MAX_HEADERS + 1)),
        (("X", "a" * MAX_HEADER_BYTES),),
    ):
        with pytest.raises(InvalidOptions, match="at most"):
            caller_headers(headers)


# urllib raises an error for each, some only when the port is read.
MALFORMED = [
    *("http://[::1", "http://[domain]/", "http://user:pa[ss@h/", "http://a]b/", "//["),
    *("http://a\u2100b/", "http://h:99999999/", "http://h:port/", "http://h:-1/"),
]


@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_url_has_no_parts_and_no_origin(url):
    assert set(url_parts(url)) == {""}
    assert url_parts(url).port is None
    assert (host_of(url), origin(url)) == ("", ("", "", None))
    assert plain_address(url) == url


@given(
    st.text(alphabet="htp:/@[]%.?#\\0129ax\u2100 ") | st.text(),
    st.sampled_from(("", "//", "http://")),
    st.sampled_from(MALFORMED),
)
def test_any_text_can_be_parsed_and_joined(text, start, base):
    url = start + text
    assert url_parts(url).port is None or url_parts(url).netloc
    assert isinstance(join_url(base, url) + join_url(url, base), str)
