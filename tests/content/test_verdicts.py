from __future__ import annotations

import base64

import pytest

from scraper_service.content.convert import make_content
from tests.content.pages import options, source

TEXT = "<p>" + "some words of a page that has its own text to tell. " * 20
FORM = "<form><input name=u><input type=Password name=p><button>Go</button></form>"
LONG_TITLE = (
    "How to keep bees, and what should I buy first? - Questions of beginners - Bees"
)
SHELL = "<div id=root></div><script src=/app.js></script>"
PAYWALL = (
    '<script type="application/ld+json">{"@type":"NewsArticle","isAccessibleForFree":false}'
    "</script><p>The first lines of an article."
)
CASES = {
    "an article": (200, f"<title>Tides</title>{TEXT}", "ok"),
    "a short page": (200, "<title>Hello</title><h1>Hello</h1><p>Hello there.", "ok"),
    "a picture": (200, "<title>Photo</title><img src=a.png><script>1</script>", "ok"),
    "an article about such pages": (200, f"<title>What HTTP errors mean</title>{TEXT} 404", "ok"),
    "an article with a login": (200, f"<title>Tides</title>{TEXT}{FORM}", "ok"),
    "a text with the markup of a captcha": (200, f"{TEXT}<div class=g-recaptcha></div>", "ok"),
    "Cloudflare": (403, "<title>Just a moment...</title><script>window._cf_chl_opt={}</script>",
                   "block_page"),
    "with status 200": (200, "<title>Attention Required! | Cloudflare</title><p>x", "block_page"),
    "Akamai": (403, "<h1>Access Denied</h1><p>https://errors.edgesuite.net/18", "block_page"),
    "DataDome": (403, "<p>x<script src=https://ct.captcha-delivery.com/c.js></script>",
                 "block_page"),
    "a robot check": (200, "<title>Robot Check</title><p>Enter the characters", "block_page"),
    "only a captcha": (200, "<p>One step<div class=h-captcha></div>", "block_page"),
    "in German": (200, "<title>Zugriff verweigert</title><p>x", "block_page"),
    "too often": (429, "<p>Slow down", "block_page"),
    "refused": (403, "<p>Forbidden", "block_page"),
    "a form": (200, f"<title>Members</title>{FORM}", "login_wall"),
    "in French": (200, f"<h1>Se connecter</h1><p>{'mot ' * 40}{FORM}", "login_wall"),
    "unauthorised": (401, "<p>Who are you?", "login_wall"),
    "paid": (200, PAYWALL, "login_wall"),
    "paid, by its words": (200, "<p>A start. Subscribe to continue reading.", "login_wall"),
    "consent": (200, "<h1>Before you continue</h1><p>Accept all", "consent_wall"),
    "consent, marked": (200, "<div id=onetrust-consent-sdk></div><p>We use cookies. OK?",
                        "consent_wall"),
    "not found": (200, "<title>Page not found</title><p>Sorry", "soft_404"),
    "not found, in Spanish": (200, "<h1>Página no encontrada</h1><p>x", "soft_404"),
    "not found, in Japanese": (200, "<title>ページが見つかりません</title><p>x", "soft_404"),
    "a shell": (200, f"<title>App</title>{SHELL}", "empty_shell"),
    "a shell that says so": (
        200, f"<noscript>You need to enable JavaScript to run this app.</noscript>{SHELL}<p>x",
        "empty_shell",
    ),
    "nothing": (200, "<html><body></body></html>", "empty_shell"),
    "nothing but a title": (
        200, f"<title>{LONG_TITLE}</title><div></div>", "empty_shell",
    ),
    "a shell with a long title": (
        200, f"<title>{LONG_TITLE}</title><a href=/>Bee Forum</a><script src=/app.js></script>",
        "empty_shell",
    ),
    "a shell whose script is preloaded": (
        200, "<title>Bees</title><link rel=preload as=script href=/app.js><div>Bee Forum</div>",
        "empty_shell",
    ),
    "cut in a tag": (200, f"<title>Tides</title>{TEXT}<a href='/nex", "truncated"),
    "not cut": (200, f"<title>Tides</title>{TEXT} 1 < 2", "ok"),
    "an error that says so": (404, "<title>Page not found</title><p>Sorry", None),
    "a broken site": (500, "<h1>Oops</h1>", None),
}  # fmt: skip


@pytest.mark.parametrize(("status", "page", "expected"), CASES.values(), ids=CASES)
def test_verdict(status, page, expected):
    content = make_content(source(page, status=status), options())
    assert content.known.get("verdict") == expected
    doubtful = expected not in {"ok", None}
    assert ("verdict_evidence" in content.known) is doubtful
    assert len(content.warnings) == doubtful
    if doubtful:
        evidence = content.known["verdict_evidence"]
        named = "an empty_shell" if expected == "empty_shell" else f"a {expected}"
        assert content.warnings[0].endswith(f" {named}: {evidence}")


@pytest.mark.parametrize("name", ["raw_html", "links", "html"])
def test_verdict_does_not_depend_on_formats(name):
    page = source("<title>Just a moment...</title><p>x")
    assert make_content(page, options(name)).known["verdict"] == "block_page"


def test_a_page_cannot_set_its_own_verdict():
    from scraper_service.api.responses import RESERVED

    assert {"verdict", "verdictEvidence", "duplicateOf", "engine"} <= RESERVED


X402 = base64.b64encode(
    b'{"x402Version": 2, "accepts": [{"amount": "10000", "network": "eip155:8453",'
    b' "asset": "0x83", "extra": {"name": "USDC"}}]}'
).decode()
PRICES = {
    "pay per crawl": ("crawler-price", "USD 0.05", 'crawler-price says "USD 0.05".'),
    "x402": ("payment-required", X402, 'says "10000 of USDC on eip155:8453".'),
    "x402, cut": ("payment-required", "eyJ4", 'says "eyJ4".'),
    "L402": ("www-authenticate", 'L402 invoice="ln1"', 'says "L402 invoice="ln1"".'),
}


@pytest.mark.parametrize(("name", "price", "end"), PRICES.values(), ids=PRICES)
@pytest.mark.parametrize("mime", ["text/html", "application/json", "text/plain"])
def test_a_page_that_requires_payment_names_its_price(mime, name, price, end):
    page = source("{}", mime, status=402, price_headers=((name, price),))
    content = make_content(page, options())
    assert content.known["verdict"] == "block_page"
    assert content.known["verdict_evidence"].startswith("The site answered 402")
    assert content.known["verdict_evidence"].endswith(end)
    assert end in content.warnings[-1]


def test_a_page_that_requires_payment_may_have_no_price():
    content = make_content(source("<p>Pay", status=402), options())
    evidence = "The site answered 402: it asks for payment."
    assert content.known["verdict_evidence"] == evidence
