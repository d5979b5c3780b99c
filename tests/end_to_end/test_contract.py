"""The black-box checks of the interface document, part 24; the numbers are its own.

Each further endpoint adds its checks here.
"""

from __future__ import annotations

import itertools
import json
import urllib.parse
import uuid

import pytest

from tests.support.linked_site import named, page_number
from tests.support.scripted_site import ScriptedSite, page, sitemap
from tests.support.waiting import wait_until
from tests.support.watching import open_socket, watched

VERSIONS = ("v1", "v2")
CHUNK_BYTES = 10 * 2**20


@pytest.fixture
def post(service, site):
    """Return a function that posts a scrape of a path of the site."""

    def call(version, path, **options):
        url = path if "://" in path else site.url(path)
        return service.post(f"/{version}/scrape", {"url": url, **options})

    return call


def details_of(reply):
    assert reply.status == 400, reply.json
    assert reply.json["error"] == "Bad Request"
    assert reply.json["code"] == "BAD_REQUEST"
    return reply.json["details"]


@pytest.mark.parametrize("version", VERSIONS)
def test_1_success_is_exactly_200_and_errors_have_success_and_error(
    service, site, version
):
    good = service.post(f"/{version}/scrape", {"url": site.url("/text")})
    assert good.status == 200
    bad = [
        service.post(f"/{version}/scrape", {}),
        service.post(f"/{version}/scrape", raw=b"{"),
        service.post(f"/{version}/scrape", {"url": site.url("/drop")}),
        service.post(f"/{version}/scrape", {"url": site.url("/text")}, key="no"),
        service.get(f"/{version}/scrape"),
        service.get(f"/{version}/nothing"),
    ]
    assert all(reply.json["success"] is False for reply in bad)
    assert all(isinstance(reply.json["error"], str) for reply in bad)


def test_2_an_unknown_key_is_named_and_a_null_schema_is_absent(post):
    unknown = details_of(post("v2", "/text", nonsense=1))[0]
    assert unknown["code"] == "unrecognized_keys"
    assert unknown["keys"] == ["nonsense"]
    assert unknown["message"].startswith("Unrecognized key in body")
    reply = post("v2", "/text", formats=[{"type": "json", "schema": None}])
    assert reply.status == 200


def test_3_wait_for_may_take_half_of_the_time_out(post):
    reply = post("v2", "/text", waitFor=8000, timeout=15_000)
    messages = [detail["message"] for detail in details_of(reply)]
    assert "waitFor must not exceed half of timeout" in messages
    allowed = post("v2", "/text", waitFor=5000, timeout=15_000)
    assert "not available here" in details_of(allowed)[0]["message"]


@pytest.mark.parametrize(
    "options",
    [
        {"formats": [{"type": "nope"}]},
        {"parsers": "pdf"},
        {"parsers": {"pdf": True}},
        {"formats": [{"type": "json", "systemPrompt": "x"}]},
    ],
)
def test_4_wrong_formats_and_parsers_are_bad_requests(post, options):
    assert details_of(post("v2", "/text", **options))


def test_5_formats_as_text_or_object_give_the_same_keys(post):
    names = ["markdown", "html", "rawHtml", "links", "images"]
    spelled = [
        names,
        [{"type": name} for name in names],
        ["markdown", {"type": "html"}, "rawHtml", {"type": "links"}, "images"],
    ]
    keys = [set(post("v2", "/text", formats=f).json["data"]) for f in spelled]
    assert keys[0] == keys[1] == keys[2] == {*names, "metadata"}


def test_6_v1_json_needs_its_options(post):
    assert details_of(post("v1", "/text", formats=["json"]))
    assert details_of(post("v1", "/text", formats=["extract"]))
    assert details_of(post("v1", "/text", jsonOptions={"prompt": "x"}))


def test_7_change_tracking_needs_markdown(post):
    [detail] = details_of(post("v2", "/text", formats=["changeTracking"]))
    assert "markdown" in detail["message"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("query", ["?a=all&b", "?b=%7E&a=+x", "?q=%C3%A9"])
def test_8_sourceURL_is_the_text_of_the_caller(post, site, version, query):
    reply = post(version, f"/echo{query}")
    assert reply.json["data"]["metadata"]["sourceURL"] == site.url(f"/echo{query}")


@pytest.mark.parametrize("version", VERSIONS)
def test_8_a_missing_scheme_is_added(service, site, version):
    bare = site.url("/text").removeprefix("http://")
    facts = facts_of(service.post(f"/{version}/scrape", {"url": bare}))
    assert facts["sourceURL"] == "http://" + bare


def facts_of(reply):
    assert reply.status == 200, reply.json
    return reply.json["data"]["metadata"]


def test_9_repeated_meta_tags_are_merged(post):
    facts = facts_of(post("v2", "/metas"))
    assert ", " in facts["description"]
    assert isinstance(facts["keywords"], list)
    assert isinstance(facts["ogLocaleAlternate"], list)


def test_10_json_is_fenced_and_shift_jis_reads_correctly(post):
    fenced = post("v2", "/json").json["data"]["markdown"]
    assert fenced.startswith("```json\n")
    assert fenced.endswith("\n```")
    assert "潮汐表" in post("v2", "/encoding/shift_jis").json["data"]["markdown"]


def test_12_pdf_text_pages_bytes_and_cut(post):
    whole = facts_of(post("v2", "/pdf?pages=4"))
    assert whole["numPages"] == whole["totalPages"] == 4
    raw = post("v2", "/pdf?pages=4", parsers=[]).json["data"]["markdown"]
    assert raw.startswith("JVBERi")
    parsers = [{"type": "pdf", "maxPages": 1}]
    cut = facts_of(post("v2", "/pdf?pages=4", parsers=parsers))
    assert cut["numPages"] == 1
    assert cut["totalPages"] > 1


def test_13_an_expired_certificate_passes_by_default_only(post, site):
    url = site.https("/text", "expired")
    assert post("v2", url).status == 200
    assert post("v2", url, skipTlsVerification=False).status == 500


@pytest.mark.parametrize("version", VERSIONS)
def test_14_a_404_of_the_site_is_a_success(post, version):
    reply = post(version, "/status/404")
    assert reply.json["success"] is True
    assert reply.json["data"]["metadata"]["statusCode"] == 404


_numbers = itertools.count()
HELD = {"maxAge": 0, "timeout": 300_000}  # for pages that the test holds


def start(service, url, version="v2", **options):
    """Start a crawl; return the path of its status."""
    body = {"url": url, "scrapeOptions": {"maxAge": 0}, **options}
    return path_of(service.post(f"/{version}/crawl", body))


def path_of(reply):
    assert reply.status == 200, reply.json
    return "/" + reply.json["url"].split("/", 3)[3]


def finished(service, path):
    """Return the status of a job once it is completed."""

    def ended():
        found = service.get(path).json
        return found if found["status"] != "scraping" else None

    found = wait_until(ended)
    assert found["status"] == "completed", found
    return found


def followed(service, path):
    """Return the chunks that a client gets which follows ``next`` without delay."""
    chunks = [service.get(path).json]
    while "next" in chunks[-1]:
        assert len(chunks) < 100, "next does not end"
        chunks.append(service.get(chunks[-1]["next"].removeprefix(service.url)).json)
    return chunks


def sources(found):
    return [document["metadata"]["sourceURL"] for document in found["data"]]


def linked(site, name):
    """Return the start of a linked site that no other test has."""
    return site.url(named(f"{name}-contract{next(_numbers)}").path(0))


def page_with_links(site, *addresses):
    body = "".join(f"<a href={address}>x</a> " for address in addresses)
    return site.url(f"/html?body={urllib.parse.quote(body)}")


@pytest.mark.parametrize("version", VERSIONS)
def test_15_a_crawl_starts_at_once_and_returns_id_and_absolute_url(
    service, site, version
):
    body = {"url": site.held(), "scrapeOptions": HELD}
    reply = service.post(f"/{version}/crawl", body)
    assert str(uuid.UUID(reply.json["id"])) == reply.json["id"]
    assert reply.json["url"] == f"{service.url}/{version}/crawl/{reply.json['id']}"
    assert service.get(path_of(reply)).json["completed"] == 0
    service.request("DELETE", path_of(reply))


def test_16_a_crawl_stays_below_its_start_path(service, site):
    url = page_with_links(site, "/html/a", "/text", site.url("/html/b", "other"))
    found = finished(service, start(service, url))
    assert sources(found) == [url, site.url("/html/a")]


def test_17_depth_0_is_the_start_page_and_the_limit_is_exact(service, site):
    options = {"maxDiscoveryDepth": 0, "sitemap": "skip"}
    found = finished(service, start(service, linked(site, "30"), **options))
    assert len(found["data"]) == 1
    found = finished(service, start(service, linked(site, "30"), limit=7))
    assert len(found["data"]) == found["completed"] == found["total"] == 7


def test_18_spellings_of_a_url_are_one_page(service, site):
    other = "/html/a", "/html/a/", "/html/a/index.html"
    url = page_with_links(site, *other)
    found = finished(service, start(service, url))
    assert len(found["data"]) == 2


def test_20_a_page_that_resets_is_an_error_of_a_completed_crawl(service, site):
    path = start(service, linked(site, "20-flaky10"))
    found = finished(service, path)
    errors = service.get(f"{path}/errors").json["errors"]
    assert sorted(page_number(error["url"]) for error in errors) == [9, 19]
    assert all(isinstance(e[k], str) for e in errors for k in ("id", "url", "error"))
    assert {error["url"] for error in errors}.isdisjoint(sources(found))
    assert len(found["data"]) == 18


@pytest.mark.parametrize("version", VERSIONS)
def test_21_next_gives_every_document_once(service, site, version):
    path = start(service, linked(site, "20"), version)
    whole = finished(service, path)
    assert "next" not in whole
    for query, sizes in (("?limit=8", [8, 8, 4]), ("?skip=12&limit=5", [5, 3])):
        chunks = followed(service, path + query)
        assert [len(chunk["data"]) for chunk in chunks] == sizes
        pages = [page for chunk in chunks for page in chunk["data"]]
        assert pages == whole["data"][-len(pages) :]


def test_21_chunks_over_10_mib_carry_next(service, site):
    urls = [site.url(f"/html?body={'x' * 1024}&count=4096&{n}") for n in range(3)]
    body = {"urls": urls, "formats": ["rawHtml"], "maxAge": 0}
    path = path_of(service.post("/v2/batch/scrape", body))
    finished(service, path)
    chunks = followed(service, path)
    assert [len(chunk["data"]) for chunk in chunks] == [2, 1]
    assert all(len(json.dumps(chunk["data"])) <= CHUNK_BYTES for chunk in chunks)
    assert sorted(url for chunk in chunks for url in sources(chunk)) == sorted(urls)


def test_22_following_next_of_a_running_job_ends(service, site):
    path = start(service, linked(site, "60-slow1000"), maxConcurrency=1)
    chunks = followed(service, path)
    assert chunks[-1]["status"] == "scraping"
    assert chunks[-1]["data"] == []
    service.request("DELETE", path)


@pytest.mark.parametrize("version", VERSIONS)
def test_23_cancel_and_its_errors(service, site, version):
    path = start(service, site.held(), version, scrapeOptions=HELD)
    cancelled = {"success": True, "status": "cancelled"}
    assert service.request("DELETE", path).json == cancelled
    for _ in range(2):
        assert service.get(path).json["status"] == "cancelled"
    over = start(service, linked(site, "1"), version)
    finished(service, over)
    assert service.request("DELETE", over).status == 409
    for method in ("GET", "DELETE"):
        reply = service.request(method, f"/{version}/crawl/{uuid.uuid4()}")
        assert reply.status == 404
        assert reply.json == {"success": False, "error": "Job not found"}


def test_24_a_batch_on_the_crawl_paths_and_errors_by_delete(service, site):
    body = {"urls": [site.held(), site.url("/drop")], **HELD}
    job_id = service.post("/v1/batch/scrape", body).json["id"]
    path = f"/v1/crawl/{job_id}"
    assert service.get(path).json["total"] == 2
    reply = service.request("DELETE", f"{path}/errors")
    assert reply.status == 200
    assert isinstance(reply.json["errors"], list)
    assert service.get(path).json["status"] == "scraping"
    service.request("DELETE", path)


@pytest.mark.parametrize("path", ["/v1/crawl", "/v1/batch/scrape", "/v2/crawl"])
def test_25_idempotency_keys(service, site, path):
    url = site.url("/text")
    body = {"urls": [url]} if "batch" in path else {"url": url}
    used = str(uuid.uuid4())

    def status(key, **more):
        headers = {"x-idempotency-key": key}
        return service.post(path, {**body, **more}, headers=headers).status

    assert status(used, nonsense=1) == 400
    assert [status(used), status(used), status("no-uuid")] == [200, 409, 409]


def test_26_an_invalid_url_in_a_batch(service, site):
    bad = "ftp://a.example"
    body = {"urls": [bad, site.url("/text")], "maxAge": 0}
    assert service.post("/v2/batch/scrape", body).json["invalidURLs"] == [bad]
    [detail] = details_of(service.post("/v1/batch/scrape", body))
    assert detail["path"] == ["urls", 0]
    reply = service.post("/v1/batch/scrape", {**body, "ignoreInvalidURLs": True})
    assert reply.json["invalidURLs"] == [bad]


def test_33_keys_and_their_three_errors(service):
    texts = {
        None: "Unauthorized",
        "Bearer ": "Unauthorized: Token missing",
        "Bearer None": "Unauthorized: Invalid token",
    }
    for header, text in texts.items():
        headers = {} if header is None else {"Authorization": header}
        reply = service.post("/v2/scrape", {}, key=None, headers=headers)
        assert reply.status == 401
        assert reply.json["error"] == text


def test_27_a_map_lists_ranks_and_keeps_its_limit(service, site):
    for version in VERSIONS:
        late = service.post(f"/{version}/map", {"url": site.held(), "timeout": 1})
        assert late.status == 408
        assert late.json["error"] == "Map timed out"
    pages = {
        "/": page("/linked", title="Home"),
        "/sitemap.xml": sitemap("{site}/a", "{site}/b", "{site}/prices"),
    }
    with ScriptedSite(pages) as shop:
        body = {"url": shop.url("/")}
        first = service.post("/v1/map", body)
        assert all(isinstance(link, str) for link in first.json["links"])
        second = service.post("/v2/map", body)
        assert [link["url"] for link in second.json["links"]] == first.json["links"]
        ranked = service.post("/v2/map", {**body, "search": "prices"})
        assert ranked.json["links"][0]["url"] == shop.url("/prices")
        only = service.post("/v2/map", {**body, "sitemap": "only", "limit": 2})
        urls = [link["url"] for link in only.json["links"]]
        assert urls == [shop.url("/a"), shop.url("/b")]


@pytest.mark.parametrize("version", VERSIONS)
def test_32_a_watcher_gets_catchup_documents_and_done(service, site, version):
    held = site.held()
    body = {"url": page_with_links(site, held), "scrapeOptions": HELD}
    body["crawlEntireDomain"] = True
    job = f"/{version}/crawl/{service.post(f'/{version}/crawl', body).json['id']}"
    with open_socket(service, job, subprotocols=[service.key]) as connection:
        assert connection.subprotocol == service.key
        found = watched(connection, lambda: site.release(held))
    assert found.types[0] == "catchup"
    assert found.types[-1] == "done"
    assert set(found.types[1:-1]) == {"document"}
    assert (found.code, found.reason) == (1000, "{}")
    with open_socket(service, job, "wrong") as connection:
        found = watched(connection)
    assert (found.types, found.code) == (["error"], 3000)
