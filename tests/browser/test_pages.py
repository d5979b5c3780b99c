"""Pages as the browser shows them: content, screenshots, devices, places, headers."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.browser.conftest import SETTINGS, Png, chromium_processes, fetch
from tests.support.app_site import WORDS
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "browser.md"


def facts_of(page):
    return json.loads(page["rawHtml"].split('<pre id="out">')[1].split("</pre>")[0])


# -- which engine ------------------------------------------------------------------------


def test_empty_shells_are_rendered_and_their_site_is_remembered(start_service, app):
    service = start_service(**SETTINGS)  # which remembers no site yet
    body = {"url": app.other + "/client", "maxAge": 0}
    app.paths()
    for _ in range(3):
        found = service.post("/v2/scrape", body).json["data"]
        assert found["markdown"].startswith("# Made by a script")
        assert found["metadata"]["engine"] == "browser"
        assert app.paths().count("127.0.0.3/client") == 2  # over HTTP first
    found = service.post("/v2/scrape", body).json["data"]
    assert found["metadata"]["engine"] == "browser"
    assert app.paths().count("127.0.0.3/client") == 1


def test_a_page_that_can_be_read_comes_over_http(service, site):
    body = {"url": site.url("/article"), "maxAge": 0}
    found = service.post("/v2/scrape", body).json["data"]
    assert found["metadata"]["engine"] == "http"


def test_a_route_is_rendered_even_if_its_shell_has_words(page):
    found = page("/routed/#/guide")
    assert found["metadata"]["engine"] == "browser"
    assert found["markdown"].startswith("# Guide")
    found = page("/ads#/nowhere")
    assert found["metadata"]["engine"] == "browser"


def test_a_hash_route_fetched_without_a_browser_has_a_warning(page):
    assert "only a browser shows" in page("/routed/#/guide", fastMode=True)["warning"]
    warning = page("/ads#below", fastMode=True).get("warning", "")
    assert "only a browser shows" not in warning


def test_fast_mode_uses_no_browser(page):
    found = page("/client", fastMode=True)
    assert found["metadata"]["engine"] == "http"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "options",
    [
        {"waitFor": 10},
        {"mobile": True},
        {"formats": ["screenshot"]},
        {"session": "engine"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_that_need_a_browser_use_a_browser(page, options):
    assert page("/links", **options)["metadata"]["engine"] == "browser"


@pytest.mark.parametrize("path", ["/ws", "/sse"])
def test_content_of_streams_is_waited_for(page, path):
    assert "From a s" in page(path, waitFor=1)["markdown"]


@pytest.mark.parametrize("path", ["/late", "/late-spinner"])
def test_a_page_waits_for_an_application_that_loads_late(page, path):
    found = page(path)
    assert found["markdown"].startswith("# Made by a script")
    assert found["metadata"]["verdict"] == "ok"
    assert "waitFor" not in found.get("warning", "")


@pytest.mark.parametrize("path", ["/unrendered", "/late-for-good"])
def test_a_rendered_page_that_stays_an_empty_shell_names_waitFor(page, path):
    found = page(path, timeout=20_000)
    assert found["metadata"]["verdict"] == "empty_shell"
    assert "waitFor" in found["warning"]


def test_a_short_page_is_not_waited_for(page):
    found = page("/short")
    assert found["metadata"]["engine"] == "browser"
    assert found["markdown"] == "All is well."


def test_an_empty_shell_gets_half_of_the_timeout_to_load(page):
    page("/short")  # starts the browser, which may take longer than the other half
    assert page("/unrendered", timeout=4000)["metadata"]["engine"] == "browser"


def test_a_page_whose_script_navigates_is_the_final_page(page, app):
    found = page("/moving", waitFor=1)
    assert found["metadata"]["url"] == app.url("/client")
    assert WORDS in found["markdown"]


def test_a_file_is_fetched_without_a_browser_and_has_no_screenshot(page, service):
    found = page("/attachment", formats=["markdown", "screenshot"])
    assert found["markdown"] == "The text of a file."
    assert "without a browser" in found["warning"]
    assert "screenshot" not in found


def test_a_page_whose_script_navigates_to_a_file_returns_the_file(page, app):
    found = page("/to-attachment", waitFor=1)
    assert found["markdown"] == "The text of a file."
    assert found["metadata"]["url"] == app.url("/attachment")


def test_a_page_that_saves_a_file_later_stays(page, app):
    found = page("/saves-later", waitFor=1000)
    assert found["markdown"] == WORDS
    assert found["metadata"]["url"] == app.url("/saves-later")


@pytest.mark.slow_on("/paper")
@pytest.mark.parametrize("path", ["/paper", "/to-paper"])
def test_a_pdf_is_read_as_ever(page, app, path):
    found = page(path, waitFor=1)
    assert found["markdown"] == "The words of a paper."
    assert found["metadata"]["url"] == app.url("/paper")
    assert found["metadata"]["numPages"] == 1


def test_json_stays_json(page):
    found = page("/data", waitFor=1, formats=["rawHtml"])
    assert json.loads(found["rawHtml"])["title"] == "Made by a script"


def test_an_error_status_is_a_page(page):
    found = page("/nothing", waitFor=1)
    assert found["metadata"]["statusCode"] == 404


# -- content -----------------------------------------------------------------------------


def test_shadow_trees_are_part_of_the_page(page):
    text = page("/shadow", waitFor=1, onlyMainContent=False)["markdown"]
    assert "In an open tree, in the slot." in text
    assert "In a closed tree." in text


def test_scrolling_loads_late_content(page):
    first = page("/scrolled", waitFor=1)["markdown"]
    scroll = {"type": "scroll"}
    later = page("/scrolled", actions=[scroll] * 6)["markdown"]
    assert first.count("Item") < later.count("Item")


# -- screenshots -------------------------------------------------------------------------


def test_a_screenshot_has_the_pixels_of_the_page(page, service):
    address = page("/colours", formats=["screenshot"])["screenshot"]
    assert address.startswith(service.url + "/artefacts/")
    status, headers, data = fetch(address)
    assert status == 200
    assert headers["Content-Type"] == "image/png"
    assert "sandbox" in headers["Content-Security-Policy"]
    picture = Png(data)
    assert (picture.width, picture.height) == (1280, 720)
    assert picture.pixel(50, 50) == (255, 0, 0)
    assert picture.pixel(150, 50) == (0, 255, 0)
    assert picture.pixel(250, 50) == (255, 255, 255)


def test_a_full_page_screenshot_has_the_height_of_the_page(page):
    wanted = {"type": "screenshot", "fullPage": True}
    size = {"width": 200, "height": 300}
    found = page("/colours", formats=[{**wanted, "viewport": size}])
    picture = Png(fetch(found["screenshot"])[2])
    assert (picture.width, picture.height) == (200, 1500)
    assert picture.pixel(50, 1450) == (0, 0, 255)
    first = page("/colours", "v1", formats=["screenshot@fullPage"])["screenshot"]
    picture = Png(fetch(first)[2])
    assert (picture.width, picture.height) == (1280, 1500)


def test_quality_makes_a_jpeg_and_the_viewport_counts(page):
    shot = {"quality": 40, "viewport": {"width": 300, "height": 200}}
    found = page("/colours", formats=[{"type": "screenshot", **shot}])
    data = fetch(found["screenshot"])[2]
    assert data.startswith(b"\xff\xd8\xff")
    size = data[data.index(b"\xff\xc0") + 5 :][:4]
    assert (int.from_bytes(size[:2]), int.from_bytes(size[2:])) == (200, 300)


def test_a_changed_screenshot_url_is_404(page):
    address = page("/colours", formats=["screenshot"])["screenshot"]
    name = address.partition("/artefacts/")[2].partition("?")[0]
    base = address.partition("/artefacts/")[0]
    expires = address.partition("expires=")[2].partition("&")[0]
    for other in (
        address.partition("?")[0],
        address[:-1] + ("0" if address[-1] != "0" else "1"),
        address.replace(f"expires={expires}", f"expires={int(expires) + 1}"),
        address.replace(name, "../../key.secret"),
        address.replace(name, "..%2f..%2fkey.secret"),
    ):
        assert fetch(other)[0] == 404, other
    assert fetch(base + "/artefacts")[0] == 404


def test_zero_retention_returns_the_screenshot_as_a_data_url(page):
    found = page("/colours", formats=["screenshot"], zeroDataRetention=True)
    prefix = "data:image/png;base64,"
    assert found["screenshot"].startswith(prefix)
    assert Png(base64.b64decode(found["screenshot"].removeprefix(prefix))).width == 1280


def test_a_screenshot_comes_from_the_cache_with_its_page(service, app):
    body = {
        "url": app.url("/colours?cached"),
        "formats": ["screenshot"],
        "maxAge": 60_000,
    }
    first = service.post("/v2/scrape", body).json["data"]
    for _ in range(50):
        again = service.post("/v2/scrape", body).json["data"]
        if again["metadata"]["cacheState"] == "hit":
            break
    assert first["metadata"]["cacheState"] == "miss"
    assert again["metadata"]["cacheState"] == "hit"
    assert again["metadata"]["engine"] == "browser"
    name = first["screenshot"].partition("?")[0]
    assert again["screenshot"].partition("?")[0] == name
    assert fetch(again["screenshot"])[0] == 200


def test_a_stored_scrape_is_read_with_its_screenshot(page, service):
    found = page("/colours", formats=["screenshot"])
    path = f"/v2/scrape/{found['metadata']['scrapeId']}"
    assert service.get(path).json["data"] == found


def test_the_example_of_the_page_brings_a_screenshot(service, app):
    text = PAGE.read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    command = next(block for block in blocks if '"screenshot"' in block)
    command = command.replace("http://127.0.0.1:3002", service.url)
    command = command.replace("https://example.org", app.url("/colours"))
    command = command.replace("\\\n", "").replace("$KEY", service.key)
    command = command.removeprefix("# needs Chromium\n")
    done = subprocess.run(shlex.split(command), capture_output=True, check=True)
    found = json.loads(done.stdout)["data"]
    assert fetch(found["screenshot"])[0] == 200
    assert found["metadata"]["engine"] == "browser"


# -- device, place, headers --------------------------------------------------------------


def test_a_desktop_is_seen_by_default(page):
    facts = facts_of(page("/facts", waitFor=1, formats=["rawHtml"]))
    assert (facts["width"], facts["touch"], facts["language"]) == (1280, False, "en-US")
    assert "Headless" not in facts["agent"]
    assert facts["agent"].endswith("scraper-service/1.0")


def test_mobile_is_seen_by_the_page(page):
    facts = facts_of(page("/facts", mobile=True, formats=["rawHtml"]))
    assert "Mobile" in facts["agent"]
    assert facts["width"] == 412
    assert facts["touch"] is True


def test_the_page_has_timezone_and_language_of_the_location(page):
    place = {"country": "jp"}
    found = page("/facts", location=place, formats=["rawHtml"])
    facts = facts_of(found)
    assert (facts["zone"], facts["language"]) == ("Asia/Tokyo", "ja-JP")
    assert found["metadata"]["timezone"] == "Asia/Tokyo"


def test_languages_are_sent(page):
    place = {"country": "CH", "languages": ["fr-CH", "de"]}
    found = page("/headers", location=place, formats=["rawHtml"])
    assert json.loads(found["rawHtml"])["Accept-Language"] == "fr-CH,de;q=0.9"
    facts = facts_of(page("/facts", location=place, formats=["rawHtml"]))
    assert facts["languages"] == ["fr-CH", "de"]


HEADERS = {"X-Secret": "s3cret", "Cookie": "who=me; b=2", "User-Agent": "Mine/1"}


def test_headers_of_the_caller_reach_the_site(page):
    found = page("/headers", headers=HEADERS, waitFor=1, formats=["rawHtml"])
    sent = {k.lower(): v for k, v in json.loads(found["rawHtml"]).items()}
    assert sent["x-secret"] == "s3cret"
    assert sent["user-agent"] == "Mine/1"
    assert set(sent["cookie"].split("; ")) == {"who=me", "b=2"}


def test_headers_of_the_caller_reach_no_other_origin(page, app):
    found = page("/to-other", headers=HEADERS, waitFor=1, formats=["rawHtml"])
    assert found["metadata"]["url"].startswith(app.other)
    sent = {k.lower(): v for k, v in json.loads(found["rawHtml"]).items()}
    assert "x-secret" not in sent
    assert "cookie" not in sent
    assert sent["user-agent"] != "Mine/1"


def test_headers_of_the_caller_reach_no_other_origin_after_a_switch_to_the_browser(
    page, app
):
    found = page("/to-echo", headers=HEADERS, onlyMainContent=False)
    assert found["metadata"]["url"] == f"{app.other}/echo"
    assert found["metadata"]["engine"] == "browser"
    assert "Accept-Language" in found["markdown"]
    for secret in ("s3cret", "who=me", "Mine/1"):
        assert secret not in found["markdown"]


def test_cookies_of_the_caller_are_of_the_whole_site(page):
    found = page("/echo", headers=HEADERS, waitFor=1, onlyMainContent=False)
    assert "who=me" in found["markdown"].partition("Accept")[0]


@pytest.mark.parametrize("skip", [True, False])
def test_certificates_are_verified_unless_skipTlsVerification_is_true(
    service, site, skip
):
    body = {"url": site.https("/article"), "maxAge": 0, "waitFor": 1}
    reply = service.post("/v2/scrape", {**body, "skipTlsVerification": skip})
    if skip:
        assert reply.json["data"]["metadata"]["engine"] == "browser"
    else:
        assert (reply.status, reply.json["code"]) == (500, "SCRAPE_SSL_ERROR")


@pytest.mark.full
@pytest.mark.skipif(shutil.which("certutil") is None, reason="no certutil")
def test_the_authorities_of_the_machine_are_trusted(start_service, site):
    service = start_service(**SETTINGS, SSL_CERT_FILE=site.ca_file)
    body = {"maxAge": 0, "waitFor": 1, "skipTlsVerification": False}
    for _ in range(2):  # the second browser finds them imported
        reply = service.post(
            "/v2/scrape", {**body, "url": site.https("/article", "valid")}
        )
        assert reply.json["data"]["metadata"]["engine"] == "browser", reply
        pids = chromium_processes(service.pid)
        os.kill(pids[0], signal.SIGKILL)
        wait_until(lambda: not chromium_processes(service.pid))
    reply = service.post(
        "/v2/scrape", {**body, "url": site.https("/article", "expired")}
    )
    assert reply.json["code"] == "SCRAPE_SSL_ERROR", reply


def test_a_page_leaves_no_storage_or_cookies_to_the_next_page(page):
    for _ in range(2):
        facts = facts_of(page("/storage", waitFor=1, formats=["rawHtml"]))
        assert facts == {"count": 1, "cookie": "seen=1"}


# -- advertising -------------------------------------------------------------------------


def test_advertising_is_not_fetched(page, app):
    app.paths()
    page("/ads", waitFor=1)
    asked = set(app.paths()) - {"127.0.0.2/favicon.ico"}  # some Chromiums want that
    assert asked == {"127.0.0.2/ads"}
    page("/ads", waitFor=1, blockAds=False)
    assert {"127.0.0.2/ads.js", "127.0.0.2/pagead/x.js"} <= set(app.paths())


def test_a_cookie_banner_is_accepted_and_removed(page):
    found = page("/ads", waitFor=1, formats=["markdown", "screenshot"])
    assert found["metadata"]["title"] == "Accepted"


# -- hostile pages -----------------------------------------------------------------------


def test_a_page_that_never_ends_costs_only_itself(scrape, page):
    reply = scrape("/loop", waitFor=1, timeout=3000)
    assert (reply.status, reply.json["code"]) == (408, "SCRAPE_TIMEOUT")
    assert page("/links", waitFor=1)["metadata"]["statusCode"] == 200
