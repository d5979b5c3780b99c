"""The politeness and scope report of a job, seen from outside."""

from __future__ import annotations

import collections
import gzip
import json
import re

import pytest

from tests.api.test_exports import fetch
from tests.conftest import KEY
from tests.support.crash import kill, started
from tests.support.documents import ROOT
from tests.support.paced_site import PacedSite
from tests.support.scripted_site import ScriptedSite, answer, moved, page, sitemap, text
from tests.support.waiting import wait_until

FRESH = {"maxAge": 0}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def crawl(service, url, **options):
    body = {"url": url, "scrapeOptions": FRESH, "sitemap": "skip", **options}
    return started(service.post("/v2/crawl", body))


def wait(service, path):
    """Wait for the end of a job; return its report."""

    def status():
        found = service.get(path).json["status"]
        return found if found != "scraping" else None

    assert wait_until(status) == "completed"
    return report(service, path)


def report(service, path):
    reply = service.get(f"{path}/report")
    assert reply.status == 200, reply
    assert reply.json["success"] is True
    assert reply.json["id"] == path.rpartition("/")[2]
    assert reply.json["totals"]["hosts"] == len(reply.json["hosts"])
    return reply.json


def delays(host):
    return {each["source"]: each for each in host["delays"]}


def most_in_a_second(log):
    """Return the most requests in a window of one second, wherever it begins."""
    times = sorted(at for at, _ in log)
    return max(sum(0 <= at - first < 1 for at in times) for first in times)


ROBOTS = "User-agent: *\nDisallow: /private\n\nUser-agent: special\nDisallow: /open\n"
SMALL = {
    "/": page("/open", "/private/a", "/private/b", "/missing", "http://other.example/"),
    "/open": page("/", "/moved"),
    "/moved": moved("/private/c"),
    "/robots.txt": text(ROBOTS + "Sitemap: /maps.xml\nSitemap: /gone.xml\n"),
    "/maps.xml": sitemap("{site}/open", "{site}/listed"),
    "/listed": page(),
}


def test_only_delivered_pages_have_a_scrape_id(service):
    with ScriptedSite(SMALL) as site:
        path = crawl(service, site.url("/"), sitemap="include")
        wait(service, path)
    urls = service.get(f"{path}/urls").json["urls"]
    read = [each for each in urls if each["kind"] == "sitemap"]
    assert {each["state"] for each in read} == {"done", "failed"}
    assert not any("scrapeId" in each for each in read)
    for each in urls:
        if "scrapeId" in each:
            assert service.get(f"/v2/scrape/{each['scrapeId']}").status == 200


LAMPS = {
    "/": page("/moved", "/missing", *(f"/{n}" for n in range(3)), title="Lamps"),
    "/moved": moved("/0"),
} | {f"/{n}": page(title=f"Lamp {n}") for n in range(3)}
SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "offer": {"type": "object", "properties": {"price": {"type": "number"}}},
    },
}


def test_the_quality_of_pages_is_counted(service):
    with ScriptedSite(LAMPS) as site:
        path = crawl(
            service,
            site.url("/"),
            scrapeOptions=FRESH | {"formats": [{"type": "json", "schema": SCHEMA}]},
        )
        quality = wait(service, path)["quality"]
        status = service.get(path).json
    pages = [each["metadata"] for each in status["data"]]
    assert quality["pages"] == len(pages) == 5
    statuses = collections.Counter(str(each["statusCode"]) for each in pages)
    assert quality["statuses"] == statuses == {"200": 4, "404": 1}
    verdicts = collections.Counter(each.get("verdict", "unknown") for each in pages)
    assert quality["verdicts"] == verdicts
    assert quality["depths"] == {"0": 1, "1": 4}
    assert quality["duplicates"] == 1
    titles = sum(bool(each.get("json", {}).get("title")) for each in status["data"])
    assert titles >= 4
    assert quality["data"]["pages"] == sum("json" in each for each in status["data"])
    fields = quality["data"]["fields"]
    assert list(fields) == ["title", "offer", "offer.price"]
    assert (fields["title"], fields["offer.price"]) == (titles, 0)


def half(html):
    """Return the first half of a compressed page."""
    whole = gzip.compress(html.encode())
    return answer(whole[: len(whole) // 2], Content_Encoding="gzip")


BROKEN = {
    "/": page("/a", "/b", "/c"),
    "/a": half(page(text="A sentence of the page. " * 400)),
    "/b": half(page(text="Other words on this page. " * 400)),
    "/c": page(),
}


def test_pages_that_lost_a_part_are_counted_and_listed(service):
    with ScriptedSite(BROKEN) as site:
        path = crawl(service, site.url("/"))
        found = wait(service, path)
        lost = service.get(f"{path}/urls?loss=truncated&loss=formula&limit=1").json
        rest = service.get(lost["next"].partition(service.url)[2]).json
        both = [*lost["urls"], *rest["urls"]]
        expected = {site.url("/a"), site.url("/b")}
    assert found["losses"] == {"truncated": {"pages": 2, "count": 2}}
    assert lost["total"] == rest["total"] == 2
    assert "next" not in rest
    assert {each["url"] for each in both} == expected
    assert all(each["losses"] == ["truncated"] for each in both)
    whole = service.get(f"{path}/urls").json["urls"]
    assert sum("losses" in each for each in whole) == 2
    assert service.get(f"{path}/urls?loss=formula").json["total"] == 0
    assert service.get(f"{path}/urls?state=failed&loss=truncated").json["total"] == 0
    refused = service.get(f"{path}/urls?loss=charts")
    assert refused.status == 400
    assert "loss: must be one of" in refused.json["error"]
    [cells] = [
        row["metadata.losses"]
        for row in fetch(service, path.rpartition("/")[2], "?format=csv").rows
        if row["url"].endswith("/a")
    ]
    [loss] = json.loads(cells)
    assert (loss["kind"], loss["count"]) == ("truncated", 1)


def test_a_job_without_lost_parts_reports_no_losses(service):
    with ScriptedSite({"/": page()}) as site:
        path = crawl(service, site.url("/"))
        assert "losses" not in wait(service, path)


def test_pages_without_data_have_no_fields(service):
    with ScriptedSite({"/": page()}) as site:
        path = crawl(service, site.url("/"))
        quality = wait(service, path)["quality"]
    assert quality["pages"] == 1
    assert "data" not in quality


def test_the_report_of_a_crawl_counts_urls_reasons_and_requests(service):
    with ScriptedSite(SMALL) as site:
        path = crawl(service, site.url("/"), sitemap="include", maxConcurrency=2)
        found = wait(service, path)
        log = site.log()
        requests = [path for _, path in log]
    assert found["status"] == "completed"
    assert found["addresses"] == {
        "pending": 0,
        "leased": 0,
        "done": 4,  # of them /missing
        "failed": 0,
        "skipped": 4,
        "held": 0,
    }
    assert found["reasons"] == {"robots": 3, "external": 1}
    sitemaps = found["sitemaps"]
    assert (sitemaps["files"], sitemaps["read"]) == (3, 1)
    assert sitemaps["failed"] == 2
    assert sitemaps["reasons"] == {"SITEMAP_ABSENT": 2}
    (robots,) = found["robots"]
    assert robots == {
        "url": site.url("/robots.txt"),
        "host": site.address.removeprefix("http://"),
        "state": "ok",
        "agent": "*",
        "refused": 3,
    }
    (host,) = found["hosts"]
    assert host["host"] == robots["host"]
    assert host["requests"] == len(requests)
    answers = collections.Counter(requests)
    assert host["answers"] == {
        "200": len(requests) - 4,
        "301": 1,
        "404": 3,
    }, answers
    assert host["bytes"] > 500
    assert 1 <= host["peakInFlight"] <= 2 + 4
    assert 1 <= host["peakRate"] <= most_in_a_second(log)
    assert host["backoffs"] == {}
    assert host["delays"] == []
    assert (host["window"], host["gapSeconds"]) == (8, 0)
    assert found["totals"] == {
        "hosts": 1,
        "requests": host["requests"],
        "bytes": host["bytes"],
        "waitSeconds": host["waitSeconds"],
    }
    assert found["options"]["maxConcurrency"] == 2
    assert found["options"]["ignoreRobotsTxt"] is False
    assert found["options"]["delay"] is None
    assert found["limits"]["hostConcurrency"] == 8
    assert "scraper-service" in found["limits"]["userAgent"]


def test_the_group_of_another_agent_is_named(service):
    with ScriptedSite(SMALL) as site:
        path = crawl(service, site.url("/"), robotsUserAgent="Special", limit=1)
        (robots,) = wait(service, path)["robots"]
        assert robots["agent"] == "special"
        assert robots["refused"] == 1
        path = crawl(service, site.url("/"), ignoreRobotsTxt=True)
        assert wait(service, path)["robots"] == []


def test_the_report_shows_a_robots_txt_that_failed(service):
    with ScriptedSite({**SMALL, "/robots.txt": text("", 503)}) as site:
        found = wait(service, crawl(service, site.url("/")))
        (robots,) = found["robots"]
        assert robots["state"] == "unreachable"
        assert "503" in robots["detail"]
        assert robots["refused"] == 1
        assert found["reasons"] == {"ROBOTS_UNREACHABLE": 1}
        assert found["hosts"][0]["answers"]["503"] == 4


def test_traps_are_counted(service):
    with ScriptedSite({}) as site:
        url = site.url("/trap/growing/")
        path = crawl(service, url, limit=1000, crawlEntireDomain=True)
        found = wait(service, path)
        listed = service.get(f"{path}/urls?state=skipped&reason=trap").json["urls"]
    assert found["reasons"]["trap"] == len(listed) > 0
    assert found["addresses"]["skipped"] == len(listed)


@pytest.mark.parametrize("kind", ["crawl", "batch/scrape"])
def test_a_reason_that_does_not_exist_is_refused(service, kind):
    path = f"/v2/{kind}/{UNKNOWN}/urls"
    reply = service.get(f"{path}?reason=foo")
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")
    text = reply.json["error"]
    assert text.startswith("Invalid reason: must be one of discovery_depth, malformed")
    assert text.endswith("got 'foo'")
    names = text.partition("one of ")[2].rpartition(", got ")[0].split(", ")
    for name in names:
        assert service.get(f"{path}?reason={name}").status == 404
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    calls = {"BAD_REQUEST", "BAD_REQUEST_INVALID_JSON", "MAP_TIMEOUT"}
    calls |= {"PARSE_UNSUPPORTED_OPTIONS", "UNSUPPORTED_FILE_TYPE", "BROWSER_REQUIRED"}
    calls |= {"LANGUAGE_MODEL_REQUIRED", "EXPORT_UNAVAILABLE", "MISSING_SCOPE"}
    calls |= {"DISK_QUOTA_EXCEEDED", "JOB_FINISHED", "SOURCES_NOT_STORED"}
    assert documented - calls == {name for name in names if name.isupper()}


def test_a_limit_and_duplicates_are_counted(service):
    pages = {f"/{n}": page() for n in range(6)}
    start = {"/": page("/old", *pages), "/old": moved("/0")}
    with ScriptedSite({**start, **pages}) as site:
        path = crawl(service, site.url("/"), limit=4, maxConcurrency=1)
        found = wait(service, path)
        listed = service.get(f"{path}/urls").json["urls"]
    states = collections.Counter(row["state"] for row in listed)
    told = {name: count for name, count in found["addresses"].items() if count}
    assert told == states
    reasons = collections.Counter(row["reason"] for row in listed if "reason" in row)
    assert found["reasons"] == reasons
    assert found["reasons"]["limit"] == found["addresses"]["held"] == 3
    assert found["reasons"]["duplicate"] == 1


def test_a_batch_has_a_report_without_robots(service):
    with ScriptedSite(SMALL) as site:
        body = {"urls": [site.url("/private/a"), site.url("/open")], **FRESH}
        path = started(service.post("/v2/batch/scrape", body))
        found = wait(service, path)
    assert found["robots"] == []
    assert found["hosts"][0]["requests"] == 2
    assert found["addresses"]["done"] == 2
    assert found["sitemaps"] == {"files": 0, "read": 0, "failed": 0, "reasons": {}}
    assert found["options"] == {"maxConcurrency": None, "delay": None}


def test_a_stored_page_is_no_request(service):
    with ScriptedSite({"/": page()}) as site:
        cached = {"urls": [site.url("/")], "maxAge": 60_000}
        for expected in (1, 0):
            path = started(service.post("/v2/batch/scrape", cached))
            found = wait(service, path)
            assert found["totals"]["requests"] == expected
            # The page is stored a moment later.
            stored = {"url": site.url("/"), "lockdown": True}
            wait_until(lambda s=stored: service.post("/v2/scrape", s).status == 200)


def test_the_report_shows_retry_after_and_its_delays(service):
    with PacedSite(pages=2, first=1, status=429, retry_after=1) as site:
        found = wait(service, crawl(service, site.url()))
        (host,) = found["hosts"]
        assert host["requests"] == len(site.log) + 1  # the robots.txt
    assert host["answers"]["429"] == 1
    assert host["backoffs"] == {"429": 1}
    assert delays(host)["retryAfter"] == {
        "source": "retryAfter",
        "seconds": 1,
        "requests": 1,
    }
    assert delays(host)["adaptive"]["requests"] >= 1
    assert host["waitSeconds"] >= 0.9
    assert host["window"] == 1  # it had only begun to rise
    assert host["gapSeconds"] > 0


def test_a_503_response_without_retry_after_is_a_backoff(service):
    with PacedSite(pages=2, first=1, status=503) as site:
        (host,) = wait(service, crawl(service, site.url()))["hosts"]
    assert host["answers"] == {"200": 2, "404": 1, "503": 1}
    assert host["backoffs"] == {"503": 1}
    assert set(delays(host)) == {"backoff"}
    assert 0.75 <= delays(host)["backoff"]["seconds"] <= 1.25
    assert host["waitSeconds"] >= 0.75


def test_delays_are_reported_by_their_cause(service):
    robots = text("User-agent: *\nCrawl-delay: 0.4\n")
    pages = {"/": page("/a", "/b"), "/a": page(), "/b": page(), "/robots.txt": robots}
    with ScriptedSite(pages) as site:
        found = wait(service, crawl(service, site.url("/")))
        (host,), (rules,) = found["hosts"], found["robots"]
        assert (rules["crawlDelay"], rules["crawlDelayApplied"]) == (0.4, 0.4)
        assert delays(host)["crawlDelay"]["seconds"] == 0.4
        assert delays(host)["crawlDelay"]["requests"] == 2  # the first one found it
        assert host["waitSeconds"] >= 0.4
        assert host["peakInFlight"] == 1
    with ScriptedSite(pages) as site:
        found = wait(service, crawl(service, site.url("/"), delay=0.5))
        assert found["options"]["delay"] == 0.5
        (host,) = found["hosts"]
        assert delays(host)["delay"] == {
            "source": "delay",
            "seconds": 0.5,
            "requests": 3,
        }


def test_two_jobs_at_one_host_have_separate_counts(service):
    with PacedSite(pages=12, wait=0.05) as site:
        paths = [crawl(service, site.url(), limit=limit) for limit in (12, 5)]
        first, second = (wait(service, path) for path in paths)
        assert len(site.log) == 17
    assert first["totals"]["requests"] + second["totals"]["requests"] == 18
    assert second["totals"]["requests"] in {5, 6}  # one of them has the robots.txt


@pytest.mark.full
@pytest.mark.parametrize("database", ["SQLite", "PostgreSQL"])
def test_the_stats_of_two_crawlers_add_up_while_they_run_and_at_their_end(
    start_service, request, database
):
    settings = {"SCRAPER_JOB_CONCURRENCY": "4"}
    if database == "PostgreSQL":
        settings["SCRAPER_DATABASE_URL"] = request.getfixturevalue("postgres_tables")()
    services = [start_service(**settings) for _ in range(2)]
    with PacedSite(pages=60, wait=0.3) as site:
        path = crawl(services[0], site.url())

        def begun():
            stats = report(services[1], path)["stats"]
            return 0 < stats.get("pages/completed", 0) and stats

        live = wait_until(begun)
        assert live["pages/completed"] < 60
        assert "elapsed_time_seconds" not in live  # no crawler has ended

        wait(services[1], path)
        asked = len(site.log) + 2  # each has read the robots.txt

        def told():
            stats = report(services[1], path)["stats"]
            return stats.get("downloader/response_count") == asked and stats

        stats = wait_until(told)
        assert stats["pages/completed"] == stats["item_scraped_count"] == 60
        assert stats["downloader/response_status_count/200"] == 60
        assert not any(isinstance(value, str) for value in stats.values())
        for service in services:
            assert service.stop() == 0
    again = start_service(**settings)
    kept = report(again, path)["stats"]
    assert kept["elapsed_time_seconds"] > 0  # of both, also of the last one to end
    ends = {"elapsed_time_seconds": 0, "log_count/INFO": 0}
    assert {**kept, **ends} == {**stats, **ends}


@pytest.mark.slow
def test_the_counts_of_two_services_add_up_and_survive_both(start_service):
    settings = {"SCRAPER_LEASE_S": "2", "SCRAPER_API_KEYS": f"{KEY},fc-two"}
    services = [start_service(**settings) for _ in range(2)]
    # So many that the first service cannot lease all before the second one helps.
    with PacedSite(pages=200, wait=0.3) as site:
        path = crawl(services[0], site.url())
        wait(services[1], path)
        expected = len(site.log) + 2  # both have read the robots.txt

        def told():
            found = report(services[1], path)
            return found["totals"]["requests"] >= expected and found

        found = wait_until(told)
        most, log = site.most(), [(seen.begin, seen.path) for seen in site.log]
        (host,) = found["hosts"]
        assert host["requests"] == expected
        assert host["answers"] == {"200": 200, "404": 2}
        # Those in flight are exact to a second, and rates to its bounds.
        assert most <= host["peakInFlight"] <= 16
        rate = most_in_a_second(log)
        assert rate / 2 <= host["peakRate"] <= rate
        assert report(services[0], path)["hosts"] == [host]

        for kind in ("crawl", "batch/scrape"):
            target = f"/v2/{kind}/{path.rpartition('/')[2]}/report"
            assert services[0].get(target).status == 200
            reply = services[0].get(target, key="fc-two")
            assert reply.status == 404
            assert reply.json == {"success": False, "error": "Job not found"}

        # A process that stops loses nothing; both know the robots.txt.
        path = crawl(services[0], site.url())
        wait_until(lambda: len(site.log) >= 200 + 15)
        services[0].stop()
        found = wait(services[1], path)
        assert found["totals"]["requests"] == len(site.log) - 200
        services[0] = start_service(**settings)
        assert report(services[0], path)["totals"] == found["totals"]
        assert report(services[0], path)["addresses"] == found["addresses"]

        before = len(site.log)
        path = crawl(services[0], site.url())
        wait_until(lambda: len(site.log) >= before + 40)
        kill(services[1])
        found = wait(services[0], path)
        asked = len(site.log) - before
        # What the other one did in its last second and a half is lost.
        assert asked - 1.5 * 8 / 0.3 <= found["totals"]["requests"] <= asked + 1


def test_a_report_of_no_job_is_not_found(service):
    unknown = "00000000-0000-4000-8000-000000000000"
    assert service.get(f"/v2/crawl/{unknown}/report").status == 404
    assert service.get("/v2/crawl/nonsense/report").status == 400
