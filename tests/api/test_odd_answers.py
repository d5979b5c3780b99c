"""Answers that are no proper HTTP, of which browsers make a page all the same."""

from __future__ import annotations

import pytest

from tests.raw_site import RawSite, head, page

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
        body = {"url": odd.url(path), "timeout": 20_000, "maxAge": 0, **options}
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


def test_a_redirect_to_an_address_in_latin_1_is_followed(scrape, odd):
    moved = head(
        b"Location: /caf\xe9", b"Content-Length: 0", first=b"HTTP/1.1 302 Found"
    )
    facts = page_of(scrape(moved))["metadata"]
    assert facts["url"] == odd.url("/caf%E9")
    assert facts["statusCode"] == 200
