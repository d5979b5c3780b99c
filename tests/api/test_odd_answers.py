"""Answers that are no proper HTTP, of which browsers make a page all the same."""

from __future__ import annotations

import gzip
import time

import pytest

from tests.support.raw_site import PLAIN, RawSite, head, page
from tests.support.waiting import wait_until

BODY = b"<title>Odd</title><p>All is well.</p>"
LENGTH = b"Content-Length: %d" % len(BODY)


@pytest.fixture
def odd():
    """A site whose answers a test gives as bytes."""
    with RawSite() as site:
        yield site


@pytest.fixture
def scrape(service, odd):
    """Return a function that scrapes an answer of the odd site."""

    def call(*pieces, path="/", **options):
        odd.answers[path] = pieces
        body = {"url": odd.url(path), "timeout": 200_000, "maxAge": 0, **options}
        return service.post("/v2/scrape", body)

    return call


def page_of(reply):
    assert reply.status == 200, reply.json
    assert reply.json["success"] is True, reply.json
    return reply.json["data"]


def is_well(reply):
    return page_of(reply)["markdown"] == "All is well."


@pytest.mark.parametrize(
    "line",
    [
        b"X-Server: Caf\xe9",
        b"Set-Cookie: name=Andr\xe9; path=/",
        b"Content-Disposition: inline; filename=\xfcber.html",
    ],
)
def test_values_in_other_character_sets_are_borne(scrape, line):
    assert is_well(scrape(page(BODY, line)))


def test_a_redirect_to_a_latin_1_url_is_followed(scrape, odd):
    moved = head(
        b"Location: /caf\xe9", b"Content-Length: 0", first=b"HTTP/1.1 302 Found"
    )
    facts = page_of(scrape(moved))["metadata"]
    assert facts["url"] == odd.url("/caf%E9")
    assert facts["statusCode"] == 200


@pytest.mark.full(keep=3)
@pytest.mark.parametrize(
    "line",
    [
        b"X-Server : padded",
        b"X Server: spaced",
        b"X(Server): bracketed",
        "X-Größe: spelt".encode(),
        b": nameless",
        b"no field at all",
        b"HTTP/1.1 200 OK",
        b"X-Folded: one\r\n two\r\n\tthree",
        b"X-Torn: one\rtwo",
    ],
)
def test_lines_of_the_head_that_are_no_fields_are_passed_over(scrape, line):
    assert is_well(scrape(page(BODY, line)))


def test_a_padded_name_counts(scrape):
    text = b"HTTP/1.1 200 OK\r\nContent-Type : text/plain\r\n\r\n<p>All is well.</p>"
    assert page_of(scrape(text))["metadata"]["contentType"] == "text/plain"


@pytest.mark.parametrize("count", [300, 900])
def test_as_many_header_fields_are_read_as_in_browsers(scrape, count):
    assert is_well(scrape(page(BODY, *[b"Link: </s.css>; rel=preload"] * count)))


@pytest.mark.parametrize(
    "lines", [[b"X-Long: " + b"a" * 300_000], [b"X-Many: " + b"a" * 1000] * 300]
)
def test_a_head_without_measure_is_refused(scrape, lines):
    reply = scrape(page(BODY, *lines))
    assert reply.json["code"] == "SCRAPE_SITE_ERROR"


@pytest.mark.parametrize(
    "lines",
    [
        [LENGTH, LENGTH],
        [LENGTH + b", %d" % len(BODY)],
        [LENGTH, b"Transfer-Encoding: identity"],
        [LENGTH, b"Transfer-Encoding:"],
        [LENGTH, b"Transfer-Encoding: 8bit"],
    ],
)
def test_odd_spellings_of_content_length_are_read(scrape, lines):
    assert is_well(scrape(head(*lines) + BODY, 0.1, b"more"))


@pytest.mark.parametrize("length", [b"", b"-1", b"many", b"37 bytes", b"9" * 30])
def test_an_invalid_content_length_is_ignored(scrape, length):
    assert is_well(scrape(head(b"Content-Length: " + length) + BODY))


@pytest.mark.parametrize("length", [b"5", b"0", b"999", b"none"])
def test_chunks_count_more_than_a_length(scrape, length):
    lines = b"Content-Length: " + length, b"Transfer-Encoding: chunked"
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert is_well(scrape(head(*lines) + chunks, 0.1))
    assert is_well(scrape(head(*reversed(lines)) + chunks, 0.1))


def test_two_different_lengths_are_refused(scrape):
    reply = scrape(head(b"Content-Length: 5", LENGTH) + BODY)
    assert reply.json["code"] == "SCRAPE_SITE_ERROR"


@pytest.mark.parametrize("gap_s", [0.0, 0.1])
def test_bytes_before_the_response_head_are_skipped(scrape, gap_s):
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
    assert is_well(scrape(early * 3, gap_s, page(BODY)))
    assert is_well(scrape(early.replace(b"/1.1", b"/2"), gap_s, page(BODY)))
    assert is_well(scrape(b"\r\n", gap_s, page(BODY)))


def test_a_head_may_come_byte_by_byte(scrape):
    pieces = [piece for n in head(LENGTH) for piece in (bytes([n]), 0.001)]
    assert is_well(scrape(*pieces, BODY))


@pytest.mark.parametrize("gap_s", [0.0, 0.1])
@pytest.mark.parametrize("more", [b"<p>More.</p>", page(b"<p>Another one.</p>")])
def test_bytes_after_a_response_are_discarded(scrape, odd, gap_s, more):
    assert is_well(scrape(page(BODY), gap_s, more, 3, path="/first"))
    time.sleep(gap_s + 0.3)
    # Nothing of it may become the answer to a later request.
    assert is_well(scrape(page(BODY), path="/second"))
    assert odd.connections == 2


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_the_body_of_a_response_that_may_have_no_body_is_ignored(scrape, status):
    reply = scrape(head(LENGTH, first=b"HTTP/1.1 " + status) + BODY)
    assert page_of(reply)["metadata"]["statusCode"] == int(status[:3])


@pytest.mark.parametrize("gap_s", [0.0, 0.1])
def test_malformed_chunks_are_an_error_at_once(scrape, gap_s):
    chunks = head(b"Transfer-Encoding: chunked"), gap_s, b"zz\r\n" + BODY
    reply = scrape(*chunks, 100, timeout=90_000)
    assert reply.json["code"] == "SCRAPE_SITE_ERROR"
    assert "broke off" in reply.json["error"]


CUT = "The site broke off in the middle of its response."
CHUNK = b"%x\r\n%s\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize("gap_s", [0.0, 0.1])
@pytest.mark.parametrize(
    ("line", "rest"),
    [
        (b"Content-Length: 999", BODY),
        (b"Transfer-Encoding: chunked", CHUNK),
        (b"Transfer-Encoding: chunked", CHUNK + b"zz\r\nmore"),
        (b"Transfer-Encoding: chunked", CHUNK + b"ffff\r\n"),
    ],
)
def test_a_body_that_breaks_off_is_returned_up_to_the_break(scrape, line, rest, gap_s):
    found = page_of(scrape(head(line), gap_s, rest))
    assert found["markdown"] == "All is well."
    assert found["warning"] == CUT
    assert found["metadata"]["verdict"] == "truncated"
    assert found["metadata"]["verdictEvidence"] == CUT


def test_a_redirect_that_breaks_off_is_followed(scrape):
    lines = b"Location: /there", b"Content-Length: 999"
    found = page_of(scrape(head(*lines, first=b"HTTP/1.1 302 Found") + b"Moved"))
    assert found["markdown"] == "All is well."
    assert "warning" not in found


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n%PDF-1.7\n1 0 obj"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n\x89PNG\r\n\x1a\n\0\0"],
    ],
)
def test_a_document_that_breaks_off_is_an_error(scrape, pieces):
    reply = scrape(*pieces)
    assert reply.json["code"] == "SCRAPE_SITE_ERROR"
    assert "broke off" in reply.json["error"]


def test_a_page_that_broke_off_is_not_kept(scrape, odd):
    assert page_of(scrape(head(b"Content-Length: 999") + BODY))["warning"]
    whole = page_of(scrape(page(BODY), maxAge=600_000))
    assert whole["metadata"]["cacheState"] == "miss"
    assert "warning" not in whole


def test_a_page_that_broke_off_gets_no_change_tracking(scrape):
    formats = ["markdown", {"type": "changeTracking"}]
    found = page_of(scrape(head(b"Content-Length: 999") + BODY, formats=formats))
    assert "changeTracking" not in found
    assert page_of(scrape(page(BODY), formats=formats))["changeTracking"]


def test_a_gzip_stream_that_breaks_off_is_read_up_to_the_break(scrape):
    rows = b"".join(b"<p>%d</p>" % (n * 7919) for n in range(5000))
    packed = gzip.compress(BODY + rows)[:5000]
    found = page_of(scrape(page(packed, b"Content-Encoding: gzip")))
    assert found["markdown"].startswith("All is well.")
    assert "not valid gzip" in found["warning"]
    assert found["metadata"]["verdict"] == "truncated"


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (rb"\deep\there", "/deep/there"),
        (b"/de\tep/there", "/deep/there"),
        (b" /deep/there ", "/deep/there"),
        (b"http:/deep/there", "/deep/there"),
        (b"there?a b|c#top", "/deep/there?a%20b%7Cc#top"),
        ("/höhe".encode(), "/h%C3%B6he"),
    ],
)
def test_a_location_is_read_as_by_browsers(scrape, odd, location, path):
    moved = head(b"Location: " + location, first=b"HTTP/1.1 302 Found")
    found = page_of(scrape(moved, path="/deep/from"))
    assert found["metadata"]["url"] == odd.url(path)
    assert found["markdown"] == "All is well."


@pytest.mark.parametrize("location", [b"", b"  "])
def test_an_empty_location_leads_nowhere(scrape, location):
    moved = head(b"Location:" + location, LENGTH, first=b"HTTP/1.1 302 Found")
    found = page_of(scrape(moved + BODY))
    assert found["markdown"] == "All is well."
    assert found["metadata"]["statusCode"] == 302


@pytest.mark.parametrize("name", [b"foo", b"amz-1.0", b"UTF8; q=1"])
def test_an_unknown_content_encoding_is_ignored(scrape, name):
    assert is_well(scrape(page(BODY, b"Content-Encoding: " + name)))


@pytest.mark.parametrize("in_the_head", [True, False])
def test_a_page_that_sets_a_cookie_and_refreshes_to_itself_is_refetched(
    scrape, odd, in_the_head
):
    wish = b"0; url=/door"
    lines = [b"Set-Cookie: visitor=1; Path=/"]
    lines += [b"Refresh: " + wish] if in_the_head else []
    door = page(b'<meta http-equiv="refresh" content="%s"><p>Wait.</p>' % wish, *lines)
    odd.known["/door"] = PLAIN
    assert is_well(scrape(door, path="/door"))


def test_a_page_that_always_refreshes_to_itself_is_refetched_once(scrape, odd):
    lines = b"Set-Cookie: visitor=1; Path=/", b"Refresh: 0; url=/door"
    found = page_of(scrape(page(BODY, *lines), path="/door"))
    assert found["markdown"] == "All is well."
    assert odd.asked == ["/door", "/door"]


@pytest.mark.parametrize("lenient", [True, False])
def test_a_site_without_tls_gets_no_certificate_error(service, odd, lenient):
    url = odd.url("/").replace("http:", "https:")
    body = {"url": url, "skipTlsVerification": lenient}
    reply = service.post("/v2/scrape", body)
    assert reply.json["code"] == "SCRAPE_SSL_ERROR"
    assert "certificate" not in reply.json["error"]
    assert "TLS" in reply.json["error"]


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/2 200",
        b"HTTP/2.0 200 OK",
        b"HTTP/1 200 OK",
        b"HTTP 200 OK",
        b"http/1.1 200 OK",
        b"HTTP/1.1  200  OK",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200OK",
        b"HTTP/1.1 200: OK",
        b"HTTP/1.1 200 G\xfcnstig",
        b"HTTP/1.0 200 OK",
    ],
)
def test_a_first_line_with_a_status_is_enough(scrape, first):
    assert is_well(scrape(head(LENGTH, first=first) + BODY, 0.1))


@pytest.mark.parametrize("first", [b"ICY 200 OK", b"HTTP/1.1 OK", b"HTTP/1.1 2000 OK"])
def test_a_malformed_status_line_is_an_error(scrape, first):
    reply = scrape(head(LENGTH, first=first) + BODY)
    assert reply.json["code"] == "SCRAPE_SITE_ERROR"


def test_robots_txt_and_sitemaps_may_come_oddly(service, odd):
    rules = f"User-agent: *\nDisallow: /b\nSitemap: {odd.url('/odd.xml')}\n".encode()
    rows = "".join(f"<url><loc>{odd.url(path)}</loc></url>" for path in ("/a", "/b"))
    odd.answers["/robots.txt"] = page(rules, b"X Odd : \xfc", b"no field") + b"more"
    length = b"Content-Length: %d" % len(rules)
    odd.answers["/odd.xml"] = page(f"<urlset>{rows}</urlset>".encode(), b"(odd): \xfc")
    odd.answers["/"] = head(length, length) + rules
    reply = service.post("/v2/map", {"url": odd.url("/"), "ignoreCache": True})
    assert reply.json["success"] is True, reply.json
    assert {odd.url("/a"), odd.url("/b")} <= {x["url"] for x in reply.json["links"]}
    assert "warning" not in reply.json


@pytest.mark.parametrize(
    "value", [b"text/html,text/html", b"text/html, charset=utf-8", b"text/html ;; x"]
)
def test_a_content_type_ends_at_its_first_comma(scrape, value):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n" % value
    assert is_well(scrape(head + BODY))


def test_a_crawl_goes_on_from_a_page_that_broke_off(service, odd):
    start = b"<title>Start</title><p>All is well.</p><a href=/a>A</a><a href=/b"
    odd.answers["/"] = head(b"Content-Length: 999") + start
    job = service.post("/v2/crawl", {"url": odd.url("/"), "limit": 5}).json["id"]

    def finished():
        found = service.get(f"/v2/crawl/{job}").json
        return found if found["status"] == "completed" else None

    pages = {page["metadata"]["url"]: page for page in wait_until(finished)["data"]}
    assert pages[odd.url("/")]["warning"].startswith(CUT)
    assert "warning" not in pages[odd.url("/a")]


def test_a_402_response_is_a_block_page_that_quotes_the_price(scrape):
    first = b"HTTP/1.1 402 Payment Required"
    answer = [head(b"Crawler-Price: USD 0.05", LENGTH, first=first), BODY]
    facts = page_of(scrape(*answer))["metadata"]
    assert facts["statusCode"] == 402
    assert facts["verdict"] == "block_page"
    assert facts["verdictEvidence"].endswith(
        'Its header crawler-price says "USD 0.05".'
    )
