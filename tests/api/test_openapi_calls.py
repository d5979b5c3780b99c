"""What the service answers is what ``GET /openapi.json`` says.

Schemathesis calls every operation with values that the document allows, and with values
that it forbids. Ids and URLs are of real jobs and of a local site.
"""

from __future__ import annotations

import json
import uuid

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from scraper_service.api.http_server import Root
from scraper_service.api.openapi.document import build
from scraper_service.api.routes.health import HealthPages
from tests.conftest import Service, _stop
from tests.support.openapi import Documented, localized, version_apps
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, page, sitemap, text
from tests.support.waiting import wait_until

EXAMPLES = 3  # of each operation and mode
MANY_EXAMPLES = 100
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
SITE = {
    "/": page("/a", "/missing", "/private"),
    "/a": page("/", text="A page with some words."),
    "/robots.txt": text("User-agent: *\nDisallow: /private\nSitemap: /map.xml\n"),
    "/map.xml": sitemap("{site}/a"),
}
FEATURES = (
    *("authentication", "browserSessions", "model", "webSearch", "searchIndex"),
)


def labels():
    """Return method and path of every operation."""
    works = [{"name": name, "available": True} for name in FEATURES]
    facts = {"version": "1", "features": works, "formats": []}
    document = build(version_apps().values(), [Root, HealthPages], facts, 1)
    return [
        f"{method.upper()} {path}"
        for path, item in document["paths"].items()
        for method in item
    ]


@pytest.fixture(scope="module")
def pages():
    with ScriptedSite(SITE) as site:
        yield site


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """A service for many calls, with a short shutdown."""
    running = Service(
        tmp_path_factory.mktemp("called"),
        SCRAPER_SHUTDOWN_TIMEOUT_S="1",
        SCRAPER_WATCHER_STALL_S="5",
    )
    yield running
    _stop(running)


@pytest.fixture(scope="module")
def documented(called):
    return Documented(called)


@pytest.fixture(scope="module")
def ids(called, pages):
    """Ids of ended jobs and of a page, and one without a job."""
    started = [
        ("crawl", {"url": pages.url("/"), "limit": 5}),
        ("batch/scrape", {"urls": [pages.url("/a"), pages.url("/missing")]}),
        ("extract", {"urls": [pages.url("/a")], "prompt": "the title"}),
    ]
    found = []
    for path, body in started:
        reply = called.post(f"/v2/{path}", body)
        found.append(reply.json["id"])
        wait_until(lambda at=f"/v2/{path}/{found[-1]}": has_ended(called, at))
    reply = called.post("/v2/scrape", {"url": pages.url("/a")})
    return [*found, reply.json["data"]["metadata"]["scrapeId"], str(uuid.UUID(int=0))]


def ended_deliveries(receiver):
    types = [each.json["type"] for each in receiver.received()]
    return any(each.endswith(".completed") for each in types)


def event_schema(documented):
    delivery = documented.json["webhooks"]["event"]["post"]["requestBody"]
    return delivery["content"]["application/json"]["schema"]


def has_ended(service, path):
    return service.get(path).json["status"] in {"completed", "failed"}


@pytest.fixture(scope="module")
def operations(documented, pages, ids):
    """The operations of the document by label."""
    urls = [pages.url("/"), pages.url("/a"), pages.url("/missing")]
    local = localized(documented.json, urls, ids)
    schema = schemathesis.openapi.from_dict(local)
    found = (result.ok() for result in schema.get_all_operations())
    return {operation.label: operation for operation in found}


def call_all(service, operation, mode, count):
    """Call an operation with many values; check each response."""

    @hypothesis.settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(operation.as_strategy(mode))
    def call(case):
        # It is not escaped, and ends the path: that is another operation.
        hypothesis.assume("?" not in case.formatted_path)
        key = {"Authorization": f"Bearer {service.key}"}
        response = case.call(base_url=service.url, headers=key, timeout=60)
        assert response.status_code < 502, response.text
        assert b'"code":"UNKNOWN_ERROR"' not in response.content, response.text
        case.validate_response(response, checks=CHECKS)

    try:
        call()
    except hypothesis.errors.Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # nothing can be wrong with the call
    finally:
        service.request("PUT", "/v2/team/threat-protection", {})  # for other calls


@pytest.mark.full(keep=25)
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("label", labels())
def test_responses_are_as_documented(called, operations, label, mode):
    call_all(called, operations[label], GenerationMode(mode), EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("label", labels())
def test_many_responses_are_as_documented(called, operations, label, mode):
    call_all(called, operations[label], GenerationMode(mode), MANY_EXAMPLES)


def test_every_operation_was_called(documented):
    apart = (
        *("GET /docs", "GET /metrics", "GET /openapi.json", "POST /v2/mcp"),
        *("GET /artefacts/{name}", "PUT /uploads/{token}"),
    )
    expected = {*labels(), *apart}
    found = {
        f"{method.upper()} {path}"
        for path, item in documented.json["paths"].items()
        for method in item
    }
    assert found == expected


def test_operations_with_security_need_a_key(called, documented):
    for path, item in documented.json["paths"].items():
        for method, operation in item.items():
            if operation.get("security") != []:
                target = path.replace("{id}", str(uuid.UUID(int=0)))
                target = target.replace("{number}", "1").replace("{name}", "a")
                reply = called.request(method.upper(), target, key=None)
                assert reply.status == 401, (method, path)
                documented.check(method, path, reply)


# -- real results, with no member that the document does not name ------------------------


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_scrape_is_as_documented(called, documented, pages, version):
    formats = ["markdown", "html", "rawHtml", "links", "images", "summary", "branding"]
    path = f"/{version}/scrape"
    for url in ("/", "/missing", "/drop"):
        body = {"url": pages.url(url), "formats": formats, "maxAge": 0}
        reply = documented.check("POST", path, called.post(path, body))
        assert reply.status == 200
    page_id = reply.json["data"]["metadata"]["scrapeId"]
    reply = called.get(f"{path}/{page_id}")
    assert documented.check("GET", f"{path}/{{id}}", reply).status == 200
    for body in ({}, {"url": "ftp://a.example"}, {"url": 1}, {"url": "x", "y": 1}):
        reply = documented.check("POST", path, called.post(path, body))
        assert (reply.status, bool(reply.json["details"])) == (400, True)
    refused = called.post(path, {"url": "http://127.0.0.1:1/"})
    documented.check("POST", path, refused)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_host_that_does_not_resolve_is_as_documented(called, documented, version):
    path = f"/{version}/scrape"
    reply = called.post(path, {"url": "http://nowhere.invalid/"})
    assert documented.check("POST", path, reply).json["success"] is False


def test_change_tracking_is_as_documented(called, documented, pages):
    path, form = "/v2/scrape", {"type": "changeTracking", "modes": ["git-diff"]}
    body = {"url": pages.url("/changing"), "formats": ["markdown", form]}
    states = []
    for words in ("The fee is 4.", "The fee is 5."):
        pages.put("/changing", page(text=words))
        reply = documented.check("POST", path, called.post(path, body))
        states.append(reply.json["data"]["changeTracking"]["changeStatus"])
    assert states == ["new", "changed"]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("kind", ["crawl", "batch/scrape"])
def test_a_job_is_as_documented(called, documented, pages, version, kind):
    path = f"/{version}/{kind}"
    with Receiver() as receiver:
        body = {"webhook": receiver.url("/hook"), "maxConcurrency": 1}
        body |= (
            {"url": pages.url("/")}
            if kind == "crawl"
            else {"urls": [pages.url("/a"), pages.url("/drop"), "nonsense"]}
        )
        if (version, kind) == ("v1", "batch/scrape"):
            body["ignoreInvalidURLs"] = True
        reply = documented.check("POST", path, called.post(path, body))
        job = f"{path}/{reply.json['id']}"
        wait_until(lambda: has_ended(called, job))
        wait_until(lambda: ended_deliveries(receiver))
        for delivery in receiver.received():
            documented.validate(event_schema(documented), delivery.json)
    for below in ("", "?limit=1", "/errors"):
        name = f"{path}/{{id}}{below.partition('?')[0]}"
        documented.check("GET", name, called.get(job + below))
    ended = documented.check("DELETE", f"{path}/{{id}}", called.request("DELETE", job))
    assert ended.status == 409
    if version == "v2":
        for below in ("urls", "report", "deliveries"):
            found = called.get(f"{job}/{below}")
            assert (
                documented.check("GET", f"{path}/{{id}}/{below}", found).status == 200
            )
        sent = called.get(f"{job}/deliveries/1")
        name = f"{path}/{{id}}/deliveries/{{number}}"
        assert documented.check("GET", name, sent).status == 200
        replayed = called.post(f"{job}/deliveries/replay")
        documented.check("POST", f"{path}/{{id}}/deliveries/replay", replayed)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_maps_and_searches_are_as_documented(called, documented, pages, version):
    path = f"/{version}/map"
    reply = documented.check("POST", path, called.post(path, {"url": pages.url("/")}))
    assert reply.json["links"]
    called.post("/v2/scrape", {"url": pages.url("/a")})
    path = f"/{version}/search"
    for scrape in ({}, {"scrapeOptions": {"formats": ["markdown"]}}):
        body = {"query": "some words", **scrape}
        reply = documented.check("POST", path, called.post(path, body))
        assert reply.status == 200


def test_a_file_is_as_documented(called, documented):
    parts = [
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.html"\r\n\r\n',
        b"<h1>A title</h1><p>Some words.</p>\r\n",
        b'--x\r\nContent-Disposition: form-data; name="options"\r\n\r\n',
        json.dumps({"formats": ["markdown", "links"]}).encode(),
        b"\r\n--x--\r\n",
    ]
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    reply = called.post("/v2/parse", headers=kind, raw=b"".join(parts))
    assert documented.check("POST", "/v2/parse", reply).status == 200


def test_previews_are_as_documented(called, documented, pages):
    path = "/v2/crawl/params-preview"
    for prompt in ("only the blog, 10 pages", "hello"):
        body = {"url": pages.url("/"), "prompt": prompt}
        documented.check("POST", path, called.post(path, body))
    path = "/v2/crawl/explain"
    body = {"url": pages.url("/"), "urls": [pages.url("/private"), "http://b.example"]}
    reply = documented.check("POST", path, called.post(path, body))
    assert reply.json["results"][1]["allowed"] is False
