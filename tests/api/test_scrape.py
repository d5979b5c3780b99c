"""Scraping through the API, over sockets, against a real site."""

from __future__ import annotations

import base64
import concurrent.futures

import pytest

from tests.support.scripted_site import ScriptedSite

TEXT_TYPES = ["markdown", "html", "rawHtml", "links", "images"]


@pytest.fixture
def scrape(service, site):
    """Return a function that scrapes a path of the site and returns the reply."""

    def call(path, version="v2", **options):
        body = {"url": site.url(path), "timeout": 200_000, "maxAge": 0, **options}
        return service.post(f"/{version}/scrape", body)

    return call


def page_of(reply):
    assert reply.status == 200, reply.json
    assert reply.json["success"] is True, reply.json
    return reply.json["data"]


def error_of(reply, status):
    assert reply.status == status, reply.json
    assert reply.json["success"] is False
    assert reply.json["error"]
    return reply.json.get("code")


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_page_has_only_the_requested_formats(scrape, version):
    page = page_of(scrape("/article", version, formats=["markdown", "links"]))
    assert set(page) == {"markdown", "links", "metadata"}


def test_markdown_alone_is_the_default(scrape):
    assert set(page_of(scrape("/article"))) == {"markdown", "metadata"}


def test_no_formats_give_metadata_only(scrape):
    page = page_of(scrape("/article", formats=[]))
    assert set(page) == {"metadata"}
    assert page["metadata"]["title"]


def test_main_content_leaves_the_frame_out_of_every_format(scrape):
    whole = page_of(scrape("/article", formats=TEXT_TYPES, onlyMainContent=False))
    main = page_of(scrape("/article", formats=TEXT_TYPES))
    assert len(main["links"]) < len(whole["links"])
    assert len(main["html"]) < len(whole["html"])
    assert set(main["links"]) < set(whole["links"])
    assert main["rawHtml"] == whole["rawHtml"]


def test_include_and_exclude_narrow_markdown_html_and_links(scrape):
    html = "<div id=a><a href=/a>A</a><b class=x>no</b></div><div id=b><a href=/b>B</a></div>"
    path = f"/html?body={html}".replace("#", "%23").replace(" ", "%20")
    page = page_of(
        scrape(
            path,
            formats=["markdown", "html", "links"],
            includeTags=["#a"],
            excludeTags=[".x"],
        )
    )
    assert "A" in page["markdown"]
    assert "B" not in page["markdown"]
    assert "no" not in page["html"]
    assert [link.rpartition("/")[2] for link in page["links"]] == ["a"]


def test_attributes_are_read_from_the_whole_page(scrape):
    path = "/html?body=<nav><a%20data-id=7>x</a></nav><p%20data-id=8>y</p>"
    selector = {"selector": "[data-id]", "attribute": "data-id"}
    page = page_of(
        scrape(path, formats=[{"type": "attributes", "selectors": [selector]}])
    )
    assert page["attributes"] == [{**selector, "values": ["7", "8"]}]


def test_raw_base64_returns_the_bytes_of_any_file(scrape):
    page = page_of(scrape("/png", formats=["rawBase64"]))
    assert base64.b64decode(page["rawBase64"]).startswith(b"\x89PNG")


def test_metadata_has_source_url_and_final_url(scrape, site):
    page = page_of(scrape("/redirect/2?to=/text"))
    facts = page["metadata"]
    assert facts["sourceURL"] == site.url("/redirect/2?to=/text")
    assert facts["url"] == site.url("/text")
    assert facts["statusCode"] == 200
    assert facts["contentType"].startswith("text/plain")
    assert facts["proxyUsed"] == "basic"
    assert facts["creditsUsed"] == 1
    assert len(facts["scrapeId"]) == 36
    assert "error" not in facts
    assert None not in facts.values()


def test_a_page_cannot_pass_its_metas_off_as_facts_of_ours(scrape):
    metas = "".join(
        f'<meta name="{name}" content="forged">'
        for name in ("statusCode", "scrapeId", "error", "sourceURL", "creditsUsed")
    )
    facts = page_of(scrape(f"/html?body={metas}".replace(" ", "%20")))["metadata"]
    assert "forged" not in facts.values()


@pytest.mark.parametrize("status", [400, 403, 404, 410, 500, 503])
def test_an_error_status_of_the_site_is_a_result(scrape, status):
    facts = page_of(scrape(f"/status/{status}"))["metadata"]
    assert facts["statusCode"] == status
    assert facts["error"]


@pytest.mark.parametrize("path", ["/meta-refresh?to=/text", "/refresh-header?to=/text"])
def test_a_refresh_is_followed_like_a_redirect(scrape, site, path):
    assert page_of(scrape(path))["metadata"]["url"] == site.url("/text")


def test_a_page_that_refreshes_to_itself_is_delivered(scrape, site):
    page = page_of(scrape("/meta-refresh-loop"))
    assert page["metadata"]["url"] == site.url("/meta-refresh-loop")


def test_cookies_are_kept_through_redirects_and_gone_afterwards(scrape):
    first = page_of(scrape("/cookies/set?a=b"))
    later = page_of(scrape("/cookies"))
    assert '"a": "b"' in first["markdown"]
    assert '"a"' not in later["markdown"]


def test_headers_and_cookies_of_the_caller_reach_the_site(scrape):
    headers = {"X-Token": "t1", "Cookie": "c=1; d=2", "User-Agent": "mine"}
    page = page_of(scrape("/headers", headers=headers))
    text = page["markdown"].lower()
    assert '"x-token": "t1"' in text
    assert "c=1" in text
    assert "d=2" in text
    assert '"user-agent": "mine"' in text


def test_headers_of_the_caller_do_not_follow_to_another_origin(scrape, site):
    headers = {"X-Api-Key": "s3cret", "Cookie": "c=s3cret", "Authorization": "s3cret"}
    to = site.url("/headers", "other")
    page = page_of(scrape(f"/redirect-to?url={to}&status=307", headers=headers))
    assert page["metadata"]["url"] == to
    assert "s3cret" not in page["markdown"]
    assert "referer" not in page["markdown"].lower()


def test_languages_of_the_location_are_sent_as_accept_language(scrape):
    location = {"country": "US", "languages": ["de-DE", "de"]}
    page = page_of(scrape("/headers", location=location))
    assert "de-DE,de;q=0.9" in page["markdown"]


def test_an_option_without_effect_is_named_in_the_warning(scrape):
    page = page_of(scrape("/text", location={"country": "DE"}))
    assert "country" in page["warning"]


@pytest.mark.parametrize("name", ["shift_jis", "windows-1251-meta", "utf-16"])
def test_characters_are_read_as_browsers_read_them(scrape, name):
    text = page_of(scrape(f"/encoding/{name}"))["markdown"]
    assert "\ufffd" not in text
    assert any(word in text for word in ("潮汐表", "Таблица", "Marée"))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_content_encodings_are_undone(scrape, coding):
    assert "Small page" in page_of(scrape(f"/{coding}"))["markdown"]


@pytest.mark.parametrize(
    ("path", "start"),
    [
        ("/json", "```json\n"),
        ("/xml", "```xml\n"),
        ("/rss", "# Log\n\n## [One]("),
        ("/text", ""),
        ("/csv", ""),
        ("/empty", ""),
    ],
)
def test_documents_that_are_not_html_have_a_markdown(scrape, path, start):
    assert page_of(scrape(path))["markdown"].startswith(start)


@pytest.mark.parametrize("path", ["/png", "/png-as-html", "/binary"])
def test_binaries_are_refused_by_name(scrape, path):
    assert error_of(scrape(path), 500) == "SCRAPE_UNSUPPORTED_FILE_ERROR"


def test_a_pdf_is_read_and_its_pages_counted(scrape):
    page = page_of(scrape("/pdf?pages=3"))
    assert page["markdown"]
    assert page["metadata"]["numPages"] == page["metadata"]["totalPages"] == 3
    assert page["metadata"]["creditsUsed"] == 3


def test_max_pages_cuts_a_pdf(scrape):
    page = page_of(scrape("/pdf?pages=3", parsers=[{"type": "pdf", "maxPages": 1}]))
    assert page["metadata"]["numPages"] == 1
    assert page["metadata"]["totalPages"] == 3


@pytest.mark.parametrize(
    ("version", "options"), [("v2", {"parsers": []}), ("v1", {"parsePDF": False})]
)
def test_without_a_parser_a_pdf_is_its_bytes(scrape, version, options):
    page = page_of(scrape("/pdf?pages=3", version, **options))
    assert page["markdown"].startswith("JVBERi")
    assert page["metadata"]["creditsUsed"] == 1


def test_a_broken_pdf_is_an_error_with_its_reason(scrape):
    assert error_of(scrape("/pdf-broken"), 500) == "SCRAPE_UNSUPPORTED_FILE_ERROR"


@pytest.mark.parametrize(
    "path",
    [
        "/drop",
        "/endless",
        "/header-flood",
        "/huge-length",
        "/redirect-loop",
    ],
)
def test_a_site_that_misbehaves_is_a_site_error(scrape, path):
    assert error_of(scrape(path), 500) == "SCRAPE_SITE_ERROR"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("path", ["/bomb/gzip", "/bomb/br", "/encodings/100"])
def test_compression_bombs_end_as_errors(scrape, path):
    assert error_of(scrape(path), 500)


def test_a_legal_header_of_32_kib_is_read(scrape):
    assert page_of(scrape("/huge-header"))["metadata"]["statusCode"] == 200


@pytest.mark.parametrize("path", ["/delay/10", "/drip", "/slow-body?seconds=10"])
def test_the_time_out_counts_for_the_whole_request(scrape, path):
    assert error_of(scrape(path, timeout=700), 408) == "SCRAPE_TIMEOUT"


def test_the_timeout_covers_all_redirects(scrape, site):
    slow = site.url("/delay/0.6")
    reply = scrape(f"/redirect-to?url={slow}", timeout=400)
    assert error_of(reply, 408) == "SCRAPE_TIMEOUT"


@pytest.mark.parametrize("certificate", ["self-signed", "expired", "wrong-name"])
def test_certificates_are_verified_with_skipTlsVerification_false(
    service, site, certificate
):
    url = site.https("/text", certificate)
    lenient = service.post("/v2/scrape", {"url": url})
    strict = service.post("/v2/scrape", {"url": url, "skipTlsVerification": False})
    first = service.post("/v1/scrape", {"url": url})
    assert page_of(lenient)["markdown"]
    assert error_of(strict, 500) == "SCRAPE_SSL_ERROR"
    assert error_of(first, 500) == "SCRAPE_SSL_ERROR"


@pytest.mark.parametrize("certificate", ["valid", "old-cipher"])
def test_a_valid_certificate_passes_the_check(start_service, site, certificate):
    service = start_service(SSL_CERT_FILE=site.ca_file)
    body = {"url": site.https("/text", certificate), "skipTlsVerification": False}
    assert page_of(service.post("/v2/scrape", body))["markdown"]


def test_a_name_that_does_not_resolve_differs_by_version(service):
    body = {"url": "http://nosuch.invalid/"}
    first = service.post("/v1/scrape", body)
    second = service.post("/v2/scrape", body)
    assert error_of(first, 500) == "SCRAPE_DNS_RESOLUTION_ERROR"
    assert error_of(second, 200) == "SCRAPE_DNS_RESOLUTION_ERROR"


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ({"lockdown": True}, "SCRAPE_LOCKDOWN_CACHE_MISS"),
        ({"minAge": 1000}, "SCRAPE_NO_CACHED_DATA"),
    ],
)
def test_a_page_that_may_only_come_from_the_cache_is_not_fetched(
    scrape, site, option, code
):
    site.forget()
    assert error_of(scrape(f"/echo?never={code}", **option), 404) == code
    assert site.requests == []


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"formats": ["screenshot"]}, ["formats"]),
        ({"formats": [{"type": "question", "question": "x"}]}, ["formats"]),
        ({"waitFor": 100}, ["waitFor"]),
        ({"mobile": True}, ["mobile"]),
        ({"session": "a"}, ["session"]),
    ],
)
def test_unsupported_options_are_refused_with_a_sentence(scrape, options, path):
    reply = scrape("/text", **options)
    assert error_of(reply, 400) == "BAD_REQUEST"
    assert reply.json["details"][0]["path"] == path
    assert "not available here" in reply.json["details"][0]["message"]


def test_a_missing_stealth_proxy_causes_a_warning(scrape):
    page = page_of(scrape("/text", proxy="stealth"))
    assert "PROXIES" in page["warning"]
    assert page["metadata"]["proxyUsed"] == "basic"


def test_a_profile_without_browser_is_remarked(scrape):
    page = page_of(scrape("/text", profile={"name": "me"}))
    assert "profile was not used" in page["warning"]


def test_actions_are_refused_with_their_own_code(scrape):
    reply = scrape("/text", actions=[{"type": "wait", "milliseconds": 10}])
    assert error_of(reply, 400) == "SCRAPE_ACTIONS_NOT_SUPPORTED"


def test_sites_that_the_caller_excludes_are_not_fetched(scrape, site):
    site.forget()
    reply = scrape("/text", threatProtection={"blacklist": ["127.0.0.2"]})
    assert error_of(reply, 403) == "UNSUPPORTED_SITE"
    assert site.requests == []


def test_many_callers_at_once_each_get_their_own_page(scrape):
    numbers = range(60)
    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        replies = list(threads.map(lambda n: scrape(f"/echo?n={n}"), numbers))
    for number, reply in zip(numbers, replies, strict=True):
        assert f"n={number}" in page_of(reply)["markdown"]
        assert page_of(reply)["metadata"]["sourceURL"].endswith(f"n={number}")
    ids = {page_of(reply)["metadata"]["scrapeId"] for reply in replies}
    assert len(ids) == len(replies)


def test_an_origin_of_a_website_gets_the_scrape_id(scrape):
    reply = scrape("/text", origin="website")
    assert reply.json["scrape_id"] == reply.json["data"]["metadata"]["scrapeId"]
    assert "scrape_id" not in scrape("/text").json


def test_zero_retention_costs_one_more_credit(scrape):
    page = page_of(scrape("/text", zeroDataRetention=True))
    assert page["metadata"]["creditsUsed"] == 2


SHELL = "<title>App</title><div id=root></div><script src=app.js></script>"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("setting", "options", "reason"),
    [
        ({"SCRAPER_RENDER": "never"}, {}, "the operator has switched the browser off"),
        (
            {"SCRAPER_RENDER": "auto", "SCRAPER_CHROMIUM_PATH": "/nothing/here"},
            {},
            "it needs ",
        ),
        ({"SCRAPER_RENDER": "auto"}, {"fastMode": True}, "fastMode fetches pages"),
    ],
    ids=["off", "none", "fast"],
)
def test_an_empty_shell_has_a_warning_why_no_browser_rendered_it(
    start_service, setting, options, reason
):
    service = start_service(**setting)
    with ScriptedSite({"/": SHELL, "/empty": ""}) as web:
        page, empty = (
            page_of(service.post("/v2/scrape", {"url": web.url(path), **options}))
            for path in ("/", "/empty")
        )
    assert page["metadata"]["verdict"] == empty["metadata"]["verdict"] == "empty_shell"
    assert f"No browser has rendered it: {reason}" in page["warning"]
    assert "browser" not in empty["warning"]
