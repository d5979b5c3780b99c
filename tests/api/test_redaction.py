"""``redactPII``: personal data is replaced by rules in every text of a page."""

from __future__ import annotations

import json

import pytest

from scraper_service.content.formats.privacy import Redaction
from scraper_service.options.scrape import RedactPii
from tests.support.scripted_site import ScriptedSite

GOOD_CARD, BAD_CARD = "4111 1111 1111 1111", "4111 1111 1111 1112"
IBAN = "DE89 3704 0044 0532 0130 00"
KEY = "sk_live_" + "a1B2" * 6
TEXT = (
    f"Write to anna.b@shop.example or call +49 30 901820. Cards {GOOD_CARD} and {BAD_CARD}."
    f" Account {IBAN}. Key {KEY}. The password: hunter22 is old. Anna lives in Berlin."
)
PAGE = (
    f"<html lang=en><title>Shop of anna.b@shop.example</title><h1>Contact</h1><p>{TEXT}</p>"
    '<a href="mailto:anna.b@shop.example">mail</a> <a href="tel:+4930901820">call</a>'
    '<a href="/about">about</a>'
)
SECRETS = ("anna.b@", "901820", GOOD_CARD, "0532", KEY, "hunter22")


@pytest.fixture(scope="module")
def web():
    with ScriptedSite({"/": PAGE, "/about": "<p>Nothing."}) as found:
        yield found


def scrape(service, web, version="v2", **options):
    sent = {"url": web.url("/"), "maxAge": 0, "onlyMainContent": False, **options}
    reply = service.post(f"/{version}/scrape", sent)
    assert reply.status == 200, reply
    return reply.json["data"]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_all_texts_of_a_page_are_redacted(service, web, version):
    formats = ["markdown", "summary", "links"]
    if version == "v1":
        formats.remove("summary")
    found = scrape(service, web, version, formats=formats, redactPII={"mode": "fast"})
    for secret in SECRETS:
        assert secret not in str(found), secret
    for kept in (BAD_CARD, "Anna lives in Berlin"):
        assert kept in found["markdown"]
    assert found["metadata"]["redacted"] == {
        "EMAIL": 2,
        "PHONE": 2,
        "FINANCIAL": 2,
        "SECRET": 2,
    }
    assert found["metadata"]["title"] == "Shop of <EMAIL>"
    assert found["links"] == [web.url("/about")]
    assert "people and places" in found["warning"]


def test_only_the_entities_that_were_named_are_redacted(service, web):
    wanted = {"entities": ["EMAIL"], "replaceStyle": "mask"}
    found = scrape(service, web, redactPII=wanted)
    assert "*" * len("anna.b@shop.example") in found["markdown"]
    assert GOOD_CARD in found["markdown"]
    assert "warning" not in found
    found = scrape(service, web, redactPII={**wanted, "replaceStyle": "remove"})
    assert "Write to  or call" in found["markdown"]


def test_data_the_index_and_crawls_are_redacted(service, web):
    selectors = {"fields": [{"name": "text", "selector": "p"}]}
    formats = [{"type": "json", "selectors": selectors}, "markdown"]
    found = scrape(service, web, formats=formats, redactPII={"mode": "fast"})
    assert "<EMAIL>" in found["json"]["text"]
    assert "anna" not in found["json"]["text"]


def test_redactPII_false_keeps_the_page_unchanged(service, web):
    found = scrape(service, web, redactPII=False)
    assert "anna.b@shop.example" in found["markdown"]
    assert "redacted" not in found["metadata"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"redactPII": True}, "'fast'"),
        ({"redactPII": {}}, "PERSON"),
        ({"redactPII": {"mode": "aggressive"}}, "EMAIL"),
        ({"redactPII": {"mode": "accurate", "entities": ["LOCATION"]}}, "EMAIL"),
        ({"redactPII": {"mode": "fast", "entities": ["PERSON"]}}, "PERSON"),
        ({"redactPII": {"mode": "slow"}}, "mode"),
        ({"redactPII": {"entities": []}}, "entities"),
        ({"redactPII": {"entities": ["NAMES"]}}, "entities"),
        ({"redactPII": {"mode": "fast", "extra": 1}}, "extra"),
        ({"redactPII": "yes"}, "redactPII"),
        ({"redactPII": {"mode": "fast"}, "formats": ["rawHtml"]}, "rawHtml"),
        ({"redactPII": {"mode": "fast"}, "formats": ["markdown", "html"]}, "html"),
    ],
)
def test_redaction_that_is_not_supported_is_refused(service, options, named):
    reply = service.post("/v2/scrape", {"url": "https://x.example/", **options})
    assert reply.status == 400
    assert named in str(reply.json)


@pytest.mark.parametrize(
    ("text", "language", "redacted"),
    [
        ("Ruf an: 030 901820", "de", "Ruf an: <PHONE>"),
        ("Ruf an: 030 901820", None, "Ruf an: 030 901820"),
        ("1999-2004, 12345678, 192.168.1.1", "en", "1999-2004, 12345678, 192.168.1.1"),
        ("ISBN 978-3-16-148410-0", "en", "ISBN 978-3-16-148410-0"),
        ("a@b and @name and x@y.example.", "en", "a@b and @name and <EMAIL>."),
        ("DE89370400440532013000 AND", "de", "<FINANCIAL> AND"),
        ("DE88370400440532013000", "de", "DE88370400440532013000"),
        ("password: required", "en", "password: required"),
        ('{"api_key": "q7w8e9r0"}', "en", '{"api_key": "<SECRET>"}'),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----.",
            "en",
            "<SECRET>.",
        ),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK", "en", "<SECRET>"),
    ],
)
def test_only_real_personal_data_is_redacted(text, language, redacted):
    assert Redaction(RedactPii(mode="fast"), language).text(text) == redacted


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{GOOD_CARD} 12/27", "<FINANCIAL> 12/27"),
        (f"Position 2 {GOOD_CARD} 123", "Position 2 <FINANCIAL> 123"),
        ("4111.1111.1111.1111", "<FINANCIAL>"),
        (f"{IBAN} GB29 NWBK 6016 1331 9268 19", "<FINANCIAL> <FINANCIAL>"),
        ("de89370400440532013000", "<FINANCIAL>"),
        ("BR18 0036 0305 0000 1000 9795 493C 1 BANK", "<FINANCIAL> BANK"),
        ("\\_jd\\_@shop.example", "<EMAIL>"),
        ("o'neill@shop.example, 'a@shop.example'", "<EMAIL>, '<EMAIL>'"),
        ("ivan@\u043f\u0440\u0438\u043c\u0435\u0440.\u0440\u0444", "<EMAIL>"),
        ("u@xn--e1afmkfd.xn--p1ai", "<EMAIL>"),
        ("/u?email=john%40shop.example", "/u?email=<EMAIL>"),
        ("client_secret: zzzz9999yyyy", "client_secret: <SECRET>"),
        ("DB_PASSWORD=qwert12345", "DB_PASSWORD=<SECRET>"),
        ('password: "hunt&er22x99"', 'password: "<SECRET>"'),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx", "<SECRET>"),
        ("version 1.2.3 of 2024-11-12 10:00", "version 1.2.3 of 2024-11-12 10:00"),
        ("12345678901234567890123", "12345678901234567890123"),
    ],
)
def test_adjacent_characters_do_not_prevent_redaction(text, left):
    assert Redaction(RedactPii(), None).text(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("jo**hn@x**.org", "<EMAIL>"),
        ("**jo**hn@x.org and **more**", "**<EMAIL>** and **more**"),
        ("to jo**hn@x.org or** me", "to **<EMAIL> or** me"),
        ("**to jo**hn@*x*.org", "**to <EMAIL>**"),
        ("jo\u00adhn@x\u200b.org", "<EMAIL>"),
        ("`john`@x.org", "`<EMAIL>`"),
        ("+49 **30** 901820", "<PHONE>"),
        ("4111 11**11 1111** 1111", "<FINANCIAL>"),
        ("a **b** c@ 1 *2* 3", "a **b** c@ 1 *2* 3"),
        ("* john@x.org\n* **jane@x.org**", "* <EMAIL>\n* **<EMAIL>**"),
    ],
)
def test_markdown_marks_do_not_prevent_redaction(text, left):
    assert Redaction(RedactPii(), "de").text(text) == left


def test_an_email_address_split_by_inline_tags_is_redacted(service):
    parts = (
        "jo<b>hn@x</b>.org",
        "<i>ja</i>ne<wbr>@x.org",
        "ji&shy;m@<span>x</span>.org",
        "4111 <em>1111</em> 1111 <strong>1111</strong>",
        "+49 <b>30</b> 901<i>820</i>",
    )
    page = "".join(f"<p>Write {part} now.</p>" for part in parts)
    with ScriptedSite({"/": f"<html lang=de><title>x</title>{page}"}) as web:
        found = scrape(service, web, redactPII={"mode": "fast"})
    lines = found["markdown"].split("\n\n")
    wanted = ["<EMAIL>"] * 3 + ["<FINANCIAL>", "<PHONE>"]
    assert [line.replace("*", "") for line in lines] == [
        f"Write {each} now." for each in wanted
    ]
    assert found["metadata"]["redacted"] == {"EMAIL": 3, "FINANCIAL": 1, "PHONE": 1}


def test_links_names_of_metadata_and_numbers_are_redacted():
    redaction = Redaction(RedactPii(), None)
    links = b'["https://a.example/u/jane@a.example", "https://a.example/"]'
    values = {"links": links, "json": b'{"card": 4111111111111111, "count": 7}'}
    found = redaction.values(values)
    assert json.loads(found["links"]) == ["https://a.example/"]
    assert json.loads(found["json"]) == {"card": "<FINANCIAL>", "count": 7}
    assert redaction.facts({"x-jane@a.example": "b"}) == {"<EMAIL>": "b"}
