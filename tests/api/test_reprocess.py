"""Other formats of the stored responses of a job (API additions, part 31.3)."""

from __future__ import annotations

import gzip
import json
import uuid

import pytest
import sqlalchemy as sa

from scraper_service.options.v2_requests import batch_options
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.jobs.admission import Terms, create_job_of_sources
from tests.api.test_exports import fetch
from tests.conftest import Service, _stop
from tests.content.pdfmaker import pdf
from tests.support.crash import kill, read_rows, sqlite_of
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, answer, moved, page, slow, text
from tests.support.waiting import wait_until

MAIN = (
    "<main><p>Words of the main part of this page, enough of them to keep.</p></main>"
)
PDF = pdf([[(72, 700, 12, "One page of a file.")]])
SITE = {
    "/robots.txt": text("User-agent: *\nCrawl-delay: 0\n"),
    "/": page("/a", "/zipped", "/moved", "/missing", "/refresh", "/file.pdf"),
    "/a": answer(page(text="Alpha.") + MAIN, Content_Type="text/html; charset=utf-8"),
    "/zipped": answer(
        gzip.compress(page(text="A page in gzip.").encode(), mtime=0),
        Content_Type="text/html",
        Content_Encoding="gzip",
    ),
    "/moved": moved("/target"),
    "/target": page(text="Behind a redirect."),
    "/refresh": page(head='<meta http-equiv="refresh" content="0; url=/elsewhere">'),
    "/elsewhere": page(text="After a refresh."),
    "/file.pdf": answer(PDF, Content_Type="application/pdf"),
    "/busy": answer("<p>Busy.", 503),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    data = tmp_path_factory.mktemp("reprocess")
    found = Service(data)
    found.data_dir = data
    yield found
    _stop(found)


@pytest.fixture(scope="module")
def site():
    with ScriptedSite(SITE) as found:
        yield found


def finish(service, path):
    return wait_until(
        lambda: (
            found if (found := service.get(path).json)["status"] != "scraping" else None
        )
    )


def started(service, path, body):
    reply = service.post(path, body)
    assert reply.status == 200, reply.json
    return reply.json["id"]


@pytest.fixture(scope="module")
def crawl(running, site):
    body = {"url": site.url("/"), "sitemap": "skip", "limit": 50}
    job_id = started(running, "/v2/crawl", body)
    assert finish(running, f"/v2/crawl/{job_id}")["status"] == "completed"
    return job_id


@pytest.fixture(scope="module")
def batch(running, site):
    urls = [site.url(path) for path in ("/a", "/a", "/busy")]
    job_id = started(running, "/v2/batch/scrape", {"urls": urls})
    found = finish(running, f"/v2/batch/scrape/{job_id}")
    assert found["completed"] == 3
    return job_id


def by_path(site, pages):
    return {
        each["metadata"]["sourceURL"].removeprefix(site.address): each for each in pages
    }


def test_other_formats_are_made_without_a_request(running, site, crawl):
    before, old = site.paths(), running.get(f"/v2/crawl/{crawl}").json
    body = {"formats": ["html", "links"], "onlyMainContent": False}
    reply = running.post(f"/v2/crawl/{crawl}/reprocess", body)
    job_id = reply.json["id"]
    assert reply.json == {
        "success": True,
        "id": job_id,
        "url": f"{running.url}/v2/crawl/{job_id}",
        "sourceJobId": crawl,
    }
    new = finish(running, f"/v2/crawl/{job_id}")
    assert site.paths() == before
    assert (new["status"], new["sourceJobId"]) == ("completed", crawl)
    assert new["total"] == new["completed"] == old["completed"] > 5
    assert new["creditsUsed"] == 0
    was, now = by_path(site, old["data"]), by_path(site, new["data"])
    assert was.keys() == now.keys()
    for path, each in now.items():
        assert set(each) - {"warning"} == {"html", "links", "metadata"}
        for name in ("url", "statusCode", "contentType", "title", "error", "engine"):
            assert each["metadata"].get(name) == was[path]["metadata"].get(name)
        assert each["metadata"]["sourceScrapeId"] == was[path]["metadata"]["scrapeId"]
        assert each["metadata"]["scrapeId"] != was[path]["metadata"]["scrapeId"]
    assert "Words of the main part" in now["/a"]["html"]
    assert "A page in gzip." in now["/zipped"]["html"]
    assert "Behind a redirect." in now["/moved"]["html"]
    assert "After a refresh." in now["/refresh"]["html"]
    assert "One page of a file." in now["/file.pdf"]["html"]
    assert now["/missing"]["metadata"]["statusCode"] == 404
    assert site.url("/a") in now["/"]["links"]


def test_other_formats_come_in_parts_of_tokens(running, crawl):
    body = {"formats": ["markdown"], "maxTokens": 100}
    reply = running.post(f"/v2/crawl/{crawl}/reprocess", body)
    new = finish(running, f"/v2/crawl/{reply.json['id']}")
    assert new["completed"] > 5
    chunks = [each["metadata"]["chunk"] for each in new["data"]]
    assert all(each["page"] == 1 and each["tokenCount"] <= 100 for each in chunks)


def test_a_batch_keeps_its_entries_and_statuses(running, site, batch):
    before = site.paths()
    body = {"formats": ["rawHtml"]}
    job_id = started(running, f"/v2/batch/scrape/{batch}/reprocess", body)
    found = finish(running, f"/v2/batch/scrape/{job_id}")
    assert site.paths() == before
    paths = [each["metadata"]["sourceURL"] for each in found["data"]]
    assert sorted(paths) == [site.url(path) for path in ("/a", "/a", "/busy")]
    [busy] = [x for x in found["data"] if x["metadata"]["statusCode"] == 503]
    assert (busy["rawHtml"], found["creditsUsed"]) == ("<p>Busy.", 0)


def test_urls_choose_pages_by_the_first_or_the_final_url(running, site, crawl):
    urls = [site.url("/a"), site.url("/target")]
    body = {"formats": ["markdown"], "urls": urls}
    job_id = started(running, f"/v2/crawl/{crawl}/reprocess", body)
    found = finish(running, f"/v2/crawl/{job_id}")
    assert by_path(site, found["data"]).keys() == {"/a", "/moved"}
    assert found["total"] == 2


def test_add_ons_have_their_usual_price(running, site, crawl):
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    body = {
        "formats": [{"type": "json", "schema": schema}],
        "urls": [site.url("/a")],
    }
    job_id = started(running, f"/v2/crawl/{crawl}/reprocess", body)
    found = finish(running, f"/v2/crawl/{job_id}")
    assert found["data"][0]["json"] == {"title": "A page"}
    assert found["creditsUsed"] == found["data"][0]["metadata"]["creditsUsed"] == 4


def test_the_new_job_can_be_reprocessed_and_exported(running, site, crawl):
    first = started(running, f"/v2/crawl/{crawl}/reprocess", {"formats": ["markdown"]})
    finish(running, f"/v2/crawl/{first}")
    second = started(running, f"/v2/crawl/{first}/reprocess", {"formats": ["rawHtml"]})
    found = by_path(site, finish(running, f"/v2/crawl/{second}")["data"])
    assert found["/a"]["rawHtml"] == page(text="Alpha.") + MAIN
    old, new = (
        sorted(
            part
            for part in gzip.decompress(
                fetch(running, job_id, "?format=warc").body
            ).split(b"\r\n")
            if part.startswith((b"WARC-Target-URI", b"WARC-Block-Digest", b"WARC-Date"))
        )[1:]
        for job_id in (crawl, second)
    )
    assert [x for x in old if b"Target-URI" in x] == [
        x for x in new if b"Target-URI" in x
    ]
    lines = fetch(running, first, "?format=jsonl").body.splitlines()
    assert {json.loads(line)["metadata"]["sourceURL"] for line in lines} == {
        site.url(path) for path in found
    }


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, ["formats"]),
        ({"formats": []}, ["formats"]),
        ({"formats": ["screenshot"]}, ["formats", 0]),
        ({"formats": ["html", {"type": "changeTracking"}]}, ["formats", 1, "type"]),
        ({"formats": ["audio"]}, ["formats", 0]),
        ({"formats": [{"type": "video"}]}, ["formats", 0, "type"]),
        ({"formats": ["html"], "waitFor": 100}, ["waitFor"]),
        ({"formats": ["html"], "headers": {"a": "b"}}, ["headers"]),
        ({"formats": ["html"], "actions": []}, ["actions"]),
        ({"formats": ["html"], "maxAge": 5}, ["maxAge"]),
        ({"formats": ["html"], "zeroDataRetention": True}, ["zeroDataRetention"]),
        ({"formats": ["html"], "redactPII": True}, ["redactPII"]),
        ({"formats": ["html"], "urls": []}, ["urls"]),
        ({"formats": ["html"], "urls": ["http://x.example/"]}, ["urls", 0]),
        ({"formats": ["html"], "retentionDays": 400}, ["retentionDays"]),
        ({"formats": ["html"], "onlyMainContent": 1}, ["onlyMainContent"]),
    ],
    ids=lambda value: "" if isinstance(value, list) else json.dumps(value),
)
def test_other_options_are_refused_by_name(running, crawl, body, path):
    reply = running.post(f"/v2/crawl/{crawl}/reprocess", body)
    assert (reply.status, reply.json["success"]) == (400, False)
    assert [each["path"] for each in reply.json["details"]] == [path]


def test_too_many_urls_are_refused(running, crawl):
    body = {"formats": ["html"], "urls": ["http://x.example/"] * 10_001}
    reply = running.post(f"/v2/crawl/{crawl}/reprocess", body)
    assert reply.status == 400
    assert "at most 10000" in reply.json["details"][0]["message"]


def test_unknown_options_are_refused(running, crawl):
    body = {"formats": ["html"], "limit": 5}
    reply = running.post(f"/v2/crawl/{crawl}/reprocess", body)
    assert reply.status == 400
    assert reply.json["details"][0]["keys"] == ["limit"]


def test_jobs_without_sources_or_of_other_teams_are_refused(running, site, batch):
    urls = {"urls": [site.url("/a")]}
    for more in ({"keepSources": False}, {"zeroDataRetention": True}):
        job_id = started(running, "/v2/batch/scrape", {**urls, **more})
        finish(running, f"/v2/batch/scrape/{job_id}")
        reply = running.post(
            f"/v2/batch/scrape/{job_id}/reprocess", {"formats": ["html"]}
        )
        assert (reply.status, reply.json["code"]) == (409, "SOURCES_NOT_STORED")
    job_id = started(running, "/v2/batch/scrape", {"urls": ["http://nosuch.invalid/"]})
    finish(running, f"/v2/batch/scrape/{job_id}")
    reply = running.post(f"/v2/batch/scrape/{job_id}/reprocess", {"formats": ["html"]})
    assert (reply.status, reply.json["code"]) == (409, "SOURCES_NOT_STORED")
    assert reply.json["error"].endswith("this job has no page.")
    path = f"/v2/batch/scrape/{uuid.uuid4()}/reprocess"
    assert running.post(path, {"formats": ["html"]}).status == 404
    body = {"formats": ["html"]}
    path = f"/v2/batch/scrape/{batch}/reprocess"
    assert running.post(path, body, key="fc-other").status == 401


def test_a_running_job_is_refused_and_a_paused_job_accepted(running, tmp_path):
    pages = {f"/{n}": page(text=f"Page {n}.") for n in range(3)}
    pages["/slow"] = slow(page(text="Late."), 3)
    with ScriptedSite(pages) as site:
        urls = [site.url(path) for path in pages]
        job_id = started(running, "/v2/batch/scrape", {"urls": urls})
        path = f"/v2/batch/scrape/{job_id}"
        wait_until(lambda: running.get(path).json["completed"] == 3)
        reply = running.post(f"{path}/reprocess", {"formats": ["html"]})
        assert reply.status == 409
        assert "still running" in reply.json["error"]
        running.request("PATCH", path, {"paused": True})
        made = started(running, f"{path}/reprocess", {"formats": ["html"]})
        found = finish(running, f"/v2/batch/scrape/{made}")
        assert found["completed"] >= 3
        running.request("DELETE", path)


def test_pages_without_a_source_are_errors(running, site, crawl):
    body = {"urls": [site.url("/a"), site.url("/target")]}
    source = started(running, "/v2/batch/scrape", body)
    pages = finish(running, f"/v2/batch/scrape/{source}")["data"]
    [lost] = [x for x in pages if x["metadata"]["url"] == site.url("/a")]
    forget_source(sqlite_of(running.data_dir), lost["metadata"]["scrapeId"])
    path = f"/v2/batch/scrape/{source}/reprocess"
    job_id = started(running, path, {"formats": ["html"]})
    found = finish(running, f"/v2/batch/scrape/{job_id}")
    assert (found["status"], found["total"], found["completed"]) == ("completed", 2, 1)
    [error] = running.get(f"/v2/batch/scrape/{job_id}/errors").json["errors"]
    assert (error["code"], error["url"]) == ("SOURCE_NOT_STORED", site.url("/a"))


def forget_source(database, page_id):
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as connection:
        query = sa.text("DELETE FROM page_source WHERE page_id = :id")
        assert connection.execute(query, {"id": page_id}).rowcount == 1


def test_entries_cannot_be_added_to_a_batch_of_sources(running, site, batch):
    path = f"/v2/batch/scrape/{batch}/reprocess"
    job_id = started(running, path, {"formats": ["html"]})
    finish(running, f"/v2/batch/scrape/{job_id}")
    body = {"urls": [site.url("/a")], "appendToId": job_id}
    reply = running.post("/v2/batch/scrape", body)
    assert reply.status == 400
    assert reply.json["details"][0]["path"] == ["appendToId"]


def test_webhook_retention_and_idempotency_are_as_usual(running, site, batch):
    path = f"/v2/batch/scrape/{batch}/reprocess"
    with Receiver() as receiver:
        body = {
            "formats": ["html"],
            "retentionDays": 2,
            "webhook": {"url": receiver.url("/hook"), "events": ["page", "completed"]},
        }
        headers = {"x-idempotency-key": str(uuid.uuid4())}
        reply = running.post(path, body, headers=headers)
        assert reply.status == 200, reply.json
        assert running.post(path, body, headers=headers).status == 409
        job_id = reply.json["id"]
        finish(running, f"/v2/batch/scrape/{job_id}")
        sent = wait_until(lambda: x if len(x := receiver.received()) >= 4 else None)
        kinds = sorted(each.json["type"] for each in sent)
        assert kinds == ["batch_scrape.completed", *["batch_scrape.page"] * 3]
    job = running.get(f"/v2/jobs/{job_id}").json["data"]
    assert job["sourceJobId"] == batch
    assert job["options"]["retentionDays"] == 2


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """An empty database: its URL, and the settings that name it."""
    if request.param == "sqlite":
        return sqlite_of(tmp_path), {}
    address = request.getfixturevalue("postgres_tables")()
    return address, {"SCRAPER_DATABASE_URL": address}


def large_batch(service, count):
    """Return the id of a finished batch whose site is gone, and its URLs."""
    pages = {f"/{n}": page(text=f"Page {n}.") + MAIN * 20 for n in range(count)}
    with ScriptedSite(pages) as site:
        urls = [site.url(path) for path in pages]
        job_id = started(service, "/v2/batch/scrape", {"urls": urls})
        found = finish(service, f"/v2/batch/scrape/{job_id}")
        assert found["completed"] == count
    return job_id, urls


@pytest.mark.full
@pytest.mark.slow_on("sqlite")
def test_each_page_comes_once_whatever_kills_the_service(start_service, database):
    address, settings = database
    settings = {**settings, "SCRAPER_LEASE_S": "2"}
    service = start_service(**settings)
    source, urls = large_batch(service, 400)
    path = f"/v2/batch/scrape/{source}/reprocess"
    body = {"formats": ["markdown", "html", "links", "images"]}
    job_id = started(service, path, body)
    status = f"/v2/batch/scrape/{job_id}"
    for enough in (1, 60, 150):
        wait_until(
            lambda n=enough, at=service: (
                at.get(f"{status}?limit=1").json["completed"] >= n
            )
        )
        kill(service)
        service = start_service(**settings)
    found = wait_until(lambda: ended(service, status))
    assert (found["status"], found["completed"]) == ("completed", len(urls))
    rows = read_rows(address, job_id)
    assert sorted(row["url"] for row in rows.frontier) == sorted(urls)
    assert len({row["frontier_id"] for row in rows.pages}) == len(urls)
    assert [row["seq"] for row in rows.pages] == list(range(len(urls)))
    assert len(rows.ledger) == len(urls)
    assert sum(row["credits"] for row in rows.ledger) == found["creditsUsed"] == 0
    assert rows.endings == ["completed"]


@pytest.mark.full
def test_a_killed_service_neither_omits_nor_repeats_a_page(
    start_service, tmp_path, monkeypatch
):
    # The first transaction of a job copies some of its rows, and claims copy the others.
    service = start_service()
    source, urls = large_batch(service, 60)
    team_id = read_rows(sqlite_of(tmp_path), source).job["team_id"]
    kill(service)
    monkeypatch.setattr(outcomes, "SLICE_ROWS", 7)
    database = Database(tmp_path)
    options = batch_options({"urls": urls[:1]}).options
    with database.engine.begin() as connection:
        terms = Terms(team_id=team_id)
        made = create_job_of_sources(connection, source, terms, options, 2)
    database.close()
    assert made.open == 7
    service = start_service()
    found = wait_until(lambda: ended(service, f"/v2/batch/scrape/{made.id}"))
    assert (found["status"], found["completed"]) == ("completed", len(urls))
    rows = read_rows(sqlite_of(tmp_path), made.id)
    assert sorted(row["url"] for row in rows.frontier) == sorted(urls)
    assert [row["seq"] for row in rows.pages] == list(range(len(urls)))
    assert rows.endings == ["completed"]


def ended(service, status):
    found = service.get(f"{status}?limit=1").json
    return None if found["status"] == "scraping" else found


def test_a_source_job_may_be_deleted_meanwhile(start_service, database):
    _, settings = database
    service = start_service(**settings)
    source, urls = large_batch(service, 120)
    path = f"/v2/batch/scrape/{source}/reprocess"
    job_id = started(service, path, {"formats": ["html"]})
    status = f"/v2/batch/scrape/{job_id}"
    assert service.request("PATCH", status, {"paused": True}).status == 200
    assert service.request("DELETE", f"/v2/jobs/{source}").status == 200
    assert service.request("PATCH", status, {"paused": False}).status == 200
    found = wait_until(lambda: ended(service, status))
    errors = service.get(f"{status}/errors").json["errors"]
    assert found["completed"] + len(errors) == found["total"] == len(urls)
    assert {each["code"] for each in errors} == {"SOURCE_NOT_STORED"}
    assert {each["url"] for each in errors} <= set(urls)
    reply = service.post(path, {"formats": ["html"]})
    assert reply.status == 404
