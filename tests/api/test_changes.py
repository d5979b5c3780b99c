"""``changeTracking``: what a page was like before, through the API and real clients."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from firecrawl import Firecrawl
from firecrawl.v1 import V1FirecrawlApp
from firecrawl.v1.client import V1ChangeTrackingOptions

from tests.api.test_crawl_scope import Crawl
from tests.cli.command import run
from tests.support.crash import kill
from tests.support.linked_site import named
from tests.support.scripted_site import ScriptedSite, answer, page, sitemap

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
DIFF = {"type": "changeTracking", "modes": ["git-diff"]}


def fee(amount, more=""):
    return f"<title>Fees</title><h1>Fees</h1><p>Fee: {amount}</p>{more}"


@pytest.fixture(scope="module")
def pages():
    """A site whose pages may be changed; each test has a path of its own."""
    with ScriptedSite({}) as site:
        yield site


@pytest.fixture
def track(service, pages, request):
    """Return a function that scrapes the page of this test; a body replaces it first."""
    path = f"/{request.node.name}"

    def scrape(found=None, running=service, key=None, **options):
        if found is not None:
            pages.put(path, found)
        options.setdefault("formats", ["markdown", "changeTracking"])
        body = {"url": pages.url(path), **options}
        reply = running.post("/v2/scrape", body, key=key or running.key)
        assert reply.status == 200, reply
        return reply.json["data"]

    scrape.path = path
    return scrape


def change(document):
    return document["changeTracking"]


def statuses(*documents):
    return [change(document)["changeStatus"] for document in documents]


def test_a_page_is_new_then_the_same_then_changed(track):
    before = datetime.now(UTC)
    first = track(fee(4))
    again = track()
    third = track(fee(5))
    assert change(first) == {
        "previousScrapeAt": None,
        "changeStatus": "new",
        "visibility": "visible",
    }
    assert statuses(again, third) == ["same", "changed"]
    times = [change(x)["previousScrapeAt"] for x in (again, third)]
    assert times == sorted(times)
    assert datetime.fromisoformat(times[0]) >= before.replace(microsecond=0)
    assert all("cacheState" not in x["metadata"] for x in (first, again, third))
    assert not {"diff", "json"} & {*change(again), *change(third)}


def test_git_applies_the_diff(track, tmp_path):
    lines = "".join(f"<p>Line {number}</p>" for number in range(30))
    first = track(fee(4, lines), formats=["markdown", DIFF])
    again = track(formats=["markdown", DIFF])
    third = track(fee(5, lines + "<p>More</p>"), formats=["markdown", DIFF])
    assert "diff" not in change(first) | change(again)
    diff = change(third)["diff"]
    assert "-Fee: 4\n+Fee: 5\n" in diff["text"]
    (tmp_path / "page.md").write_text(first["markdown"])
    subprocess.run(
        ["git", "apply", "-"],
        input=diff["text"].encode(),
        cwd=tmp_path,
        check=True,
        env={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent), "PATH": "/usr/bin:/bin"},
    )
    assert (tmp_path / "page.md").read_text() == third["markdown"]
    [file] = diff["json"]["files"]
    signs = Counter(x["type"] for chunk in file["chunks"] for x in chunk["changes"])
    assert (signs["add"], signs["del"]) == (4, 2)  # the last line gets an end


def test_fields_that_differ_have_both_values(track):
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    kind = {"type": "changeTracking", "modes": ["json", "git-diff"], "schema": schema}
    first = track(fee(4), formats=["markdown", kind])
    again = track(formats=["markdown", kind])
    third = track(fee(4).replace("Fees", "Charges"), formats=["markdown", kind])
    assert not {"json", "diff"} & {*change(first), *change(again)}
    assert change(third)["json"] == {
        "title": {"previous": "Fees", "current": "Charges"},
    }
    assert "+# Charges" in change(third)["diff"]["text"]
    assert [x["metadata"]["creditsUsed"] for x in (first, again, third)] == [5, 5, 5]


def test_white_space_and_frames_make_no_change(track):
    framed = '<iframe srcdoc="<p>Time: {}</p>"></iframe>'
    first = track(fee(4, framed.format(1)))
    second = track("\n\n" + fee(" 4 ", framed.format(2)) + "  ")
    third = track(fee(4, framed.format(3) + "<p>x</p>"))
    assert statuses(first, second, third) == ["new", "same", "changed"]


def test_each_tag_has_its_own_history(track):
    def tagged(tag, found=None):
        kind = {"type": "changeTracking", "tag": tag}
        return track(found, formats=["markdown", kind])

    found = [tagged("a", fee(4)), tagged("b"), tagged(None), tagged("a", fee(5))]
    found += [tagged("b"), tagged("a")]
    assert statuses(*found) == ["new", "new", "new", "changed", "changed", "same"]


def test_spellings_of_one_url_share_a_change_history(track, service, pages):
    first = track(fee(4))
    shouting = pages.url(track.path).replace("http://", "HTTP://") + "#part"
    body = {"url": shouting, "formats": ["markdown", "changeTracking"]}
    again = service.post("/v2/scrape", body).json["data"]
    other = service.post("/v2/scrape", {**body, "url": pages.url(track.path) + "?a"})
    route = service.post("/v2/scrape", {**body, "url": pages.url(track.path) + "#/a"})
    assert statuses(first, again) == ["new", "same"]
    assert statuses(other.json["data"], route.json["data"]) == ["new", "new"]


def test_a_page_that_is_gone_was_removed(track):
    gone = answer("<p>Nothing is here.</p>", status=410)
    found = [track(gone), track(fee(4)), track(gone, formats=["markdown", DIFF])]
    found.append(track(fee(4)))
    assert statuses(*found) == ["new", "changed", "removed", "changed"]
    assert "diff" not in change(found[2])


def test_a_site_in_trouble_is_not_compared(track):
    first = track(fee(4))
    failed = track(answer("<p>Try later.</p>", status=503))
    again = track(fee(4))
    assert "changeTracking" not in failed
    assert "503" in failed["warning"]
    assert statuses(first, again) == ["new", "same"]


def test_a_scrape_without_the_format_does_not_count(track):
    first = track(fee(4))
    track(fee(5), formats=["markdown"], maxAge=0)
    third = track(fee(4))
    assert statuses(first, third) == ["new", "same"]


def test_zero_retention_stores_no_snapshot(track):
    first = track(fee(4), zeroDataRetention=True)
    second = track(fee(5))
    third = track(fee(6), zeroDataRetention=True)
    fourth = track(fee(5))
    assert statuses(first, second, third, fourth) == ["new", "new", "changed", "same"]
    assert "zeroDataRetention" in first["warning"]
    assert "warning" not in second


def test_one_of_parallel_scrapes_of_a_page_is_new(track, service):
    track(fee(4), formats=["markdown"])
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: track(), range(16)))
    assert Counter(statuses(*found)) == {"new": 1, "same": 15}


def test_a_batch_counts_each_of_its_entries(service, pages):
    pages.put("/entries", fee(4))
    body = {
        "urls": [pages.url("/entries")] * 12,
        "formats": ["markdown", "changeTracking"],
    }
    started = service.post("/v2/batch/scrape", body).json
    done = Crawl(service, f"/v2/batch/scrape/{started['id']}")
    assert Counter(statuses(*done.documents)) == {"new": 1, "same": 11}


@pytest.fixture(scope="module")
def linked():
    """A site of which one page is linked, one is in the sitemap, and one neither."""
    pages = {
        "/": page("/a", title="Start"),
        "/a": page(title="A"),
        "/b": page(title="B"),
        "/alone": page(title="Alone"),
        "/sitemap.xml": sitemap("{site}/b"),
    }
    with ScriptedSite(pages) as site:
        yield site


def test_a_page_that_its_site_does_not_link_is_hidden(service, linked):
    formats = ["markdown", "changeTracking"]

    def crawl(**options):
        body = {"url": linked.url("/"), "scrapeOptions": {"formats": formats}}
        started = service.post("/v2/crawl", {**body, **options}).json
        return Crawl(service, f"/v2/crawl/{started['id']}")

    def scrape(path):
        body = {"url": linked.url(path), "formats": formats}
        return change(service.post("/v2/scrape", body).json["data"])

    assert scrape("/alone")["visibility"] == "visible"  # nothing speaks against it
    found = crawl().documents
    assert {(change(x)["changeStatus"], change(x)["visibility"]) for x in found} == {
        ("new", "visible")
    }
    assert len(found) == 3
    assert scrape("/alone") | {"previousScrapeAt": 0} == {
        "changeStatus": "same",
        "visibility": "hidden",
        "previousScrapeAt": 0,
    }
    assert scrape("/a")["visibility"] == scrape("/b")["visibility"] == "visible"
    assert set(statuses(*crawl().documents)) == {"same"}


def test_an_incomplete_crawl_marks_no_page_as_hidden(service, pages):
    pages.put("/part/", page("/part/a", title="Start"))
    pages.put("/part/a", page(title="A"))
    pages.put("/part/alone", page(title="Alone"))
    for options in (
        {"limit": 1},
        {"maxDiscoveryDepth": 1},
        {"sitemap": "skip"},
        {"excludePaths": ["alone"]},
    ):
        started = service.post("/v2/crawl", {"url": pages.url("/part/"), **options})
        Crawl(service, f"/v2/crawl/{started.json['id']}")
    body = {"url": pages.url("/part/alone"), "formats": ["markdown", "changeTracking"]}
    found = service.post("/v2/scrape", body).json["data"]
    assert change(found)["visibility"] == "visible"


@pytest.mark.slow
def test_history_is_of_a_team_and_outlives_the_service(start_service, tmp_path, track):
    keys = {"SCRAPER_API_KEYS": "fc-one,fc-two"}
    running = start_service(tmp_path, **keys)
    first = track(fee(4), running, "fc-one")
    running.stop()
    running = start_service(tmp_path, **keys)
    again = track(None, running, "fc-one")
    other = track(None, running, "fc-two")
    assert statuses(first, again, other) == ["new", "same", "new"]


@pytest.mark.slow
def test_one_of_parallel_scrapes_by_two_services_is_new(
    start_service, tmp_path, postgres, track, pages
):
    shared = {"SCRAPER_DATABASE_URL": postgres(), "SCRAPER_KEY_SECRET": "shared"}
    both = [start_service(tmp_path / name, **shared) for name in ("one", "two")]
    pages.put(track.path, fee(4))
    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(lambda n: track(None, both[n % 2]), range(40)))
    assert Counter(statuses(*found)) == {"new": 1, "same": 39}


@pytest.mark.slow
def test_a_killed_service_loses_no_change(start_service, tmp_path, site):
    """A snapshot is kept if and only if its page is delivered."""
    linked = named("40-slow100-changes")
    urls = [site.url(linked.path(number)) for number in range(linked.size)]
    formats = ["markdown", "changeTracking"]
    running = start_service(tmp_path, SCRAPER_LEASE_S="2")

    def start():
        body = {"urls": urls, "formats": formats, "maxConcurrency": 4}
        return running.post("/v2/batch/scrape", body).json["id"]

    job_id = start()
    for _ in range(3):
        time.sleep(0.5)
        kill(running)
        running = start_service(tmp_path, SCRAPER_LEASE_S="2")
    done = Crawl(running, f"/v2/batch/scrape/{job_id}")
    again = Crawl(running, f"/v2/batch/scrape/{start()}")
    assert len(done.documents) == linked.size
    assert set(statuses(*done.documents)) == {"new"}
    assert set(statuses(*again.documents)) == {"same"}


def test_v2_client(service, pages):
    client = Firecrawl(api_key=service.key, api_url=service.url)
    pages.put("/client2", fee(4))
    first = client.scrape(
        pages.url("/client2"), formats=["markdown", "change_tracking"]
    )
    pages.put("/client2", fee(5))
    second = client.scrape(
        pages.url("/client2"),
        formats=[
            "markdown",
            {"type": "change_tracking", "modes": ["git-diff", "json"], "prompt": "fee"},
        ],
    )
    assert first.change_tracking["changeStatus"] == "new"
    assert second.change_tracking["changeStatus"] == "changed"
    assert "+Fee: 5" in second.change_tracking["diff"]["text"]
    assert isinstance(second.change_tracking["json"], dict)
    assert second.metadata.credits_used == 5


def test_v1_client(service, pages):
    client = V1FirecrawlApp(api_key=service.key, api_url=service.url)
    pages.put("/client1", fee(4))
    first = client.scrape_url(
        pages.url("/client1"), formats=["markdown", "changeTracking"]
    )
    pages.put("/client1", fee(5))
    second = client.scrape_url(
        pages.url("/client1"),
        formats=["markdown", "changeTracking"],
        change_tracking_options=V1ChangeTrackingOptions(modes=["git-diff"]),
    )
    assert first.changeTracking.changeStatus == "new"
    assert first.changeTracking.visibility == "visible"
    assert second.changeTracking.changeStatus == "changed"
    assert "+Fee: 5" in second.changeTracking.diff["text"]


@pytest.mark.slow
def test_local_runs_have_a_history_in_their_data_directory(tmp_path, pages):
    options = '{"formats": ["markdown", "changeTracking"]}'

    def scrape(found):
        pages.put("/local", found)
        done = run(tmp_path, "scrape", pages.url("/local"), "--options", options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert statuses(scrape(fee(4)), scrape(fee(5))) == ["new", "changed"]
