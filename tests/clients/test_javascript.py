"""The unmodified public JavaScript client, v2 and the v1 inside it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.browser.conftest import SETTINGS, why_no_browser
from tests.support import shop
from tests.support.app_site import AppSite
from tests.support.chat_server import ChatServer
from tests.support.linked_site import page_number
from tests.support.scripted_site import ScriptedSite, page
from tests.support.search_engines import SearchEngines

SOURCES = Path(__file__).parents[1] / "js"
INSTALL_TIMEOUT_S = 120
RUN_TIMEOUT_S = 600

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(INSTALL_TIMEOUT_S + RUN_TIMEOUT_S + 60),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Install the client; return what runs a script of ``js/`` against a service.

    ``run(name, service, *arguments)`` returns what each step printed, by its name.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        pytest.skip("node and npm are not both installed")
    folder = tmp_path_factory.mktemp("js")
    for source in SOURCES.glob("*.js*"):
        shutil.copy(source, folder)
    command = (npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund")
    try:
        done = subprocess.run(
            (*command, "--ignore-scripts", "--loglevel=error"),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not install the client in time")
    if done.returncode:
        pytest.skip(f"npm could not install the client: {done.stderr[-500:]}")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy")
    }

    def run_script(name, service, *arguments):
        done = subprocess.run(
            (node, folder / f"{name}.js", service.url, service.key, *arguments),
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        lines = [json.loads(x) for x in done.stdout.splitlines() if x[:1] == "{"]
        return {line["step"]: line for line in lines}

    return run_script


@pytest.fixture(scope="module")
def steps(run, service, site):
    """Run the longest script once."""
    return run("client", service, site.url(""))


@pytest.fixture
def service_of_model_jobs(start_service):
    with ScriptedSite(shop.pages()) as web:
        yield start_service(), web


@pytest.mark.full
def test_searches(run, start_service):
    pages = {f"/p{n}": page(title=f"Page {n}", text="Hay") for n in range(3)}
    with ScriptedSite(pages) as site:
        web = [{"url": site.url(path), "title": path, "text": "hay"} for path in pages]
        with SearchEngines({"web": web, "news": web}) as engines:
            service = start_service(**engines.environment("searxng"))
            found = run("search", service)
    value = found["v2"]["value"]
    assert [len(value[kind]) for kind in ("web", "news")] == [2, 2]
    [item] = found["v2 with pages"]["value"]["web"]
    assert item["markdown"].startswith("# Page 0")
    given, again = (found[name]["value"] for name in ("searchFeedback", "feedback"))
    assert given["creditsRefunded"] == again["creditsRefunded"] == 0
    assert found["feedback on an unknown one"]["status"] == 404
    assert "query" in found["v2 without a query"]["error"].lower()
    assert len(found["v1"]["value"]["data"]) == 2
    assert found["v1 with pages"]["value"]["data"][0]["markdown"].startswith("# Page")


@pytest.mark.full
def test_screenshots_and_actions(run, start_service):
    if why := why_no_browser():
        pytest.skip(why)
    service = start_service(**SETTINGS)
    with AppSite() as app:
        steps = run("browser", service, app.url(""))
    for name in ("v2 scrape", "v1 scrape"):
        found = steps[name]["value"]
        assert found["screenshot"].startswith(service.url), steps[name]
        assert len(found["actions"]["screenshots"]) == 1
        assert found["actions"]["javascriptReturns"][0]["value"] == "Form"
        assert "clicked" in found["markdown"]


@pytest.mark.full
@pytest.mark.parametrize("has_model", [True, False], ids=["model", "rules"])
def test_data_and_summaries(run, service, start_service, site, has_model):
    with ChatServer() as chat:
        data = {"Extract data": {"title": "By the model"}, "": "A text of the model."}
        chat.behave("obeys", {"by_text": data})
        asked = start_service(**chat.environment) if has_model else service
        steps = run("answers", asked, site.url(""))
    title = "By the model" if has_model else "How the harbour reads its tides"
    for name in ("v2 json", "v1 json", "v1 extract"):
        page = steps[name]["value"]
        assert page[name.partition(" ")[2]]["title"] == title, steps[name]
    assert steps["v2 summary"]["value"]["summary"]
    if has_model:
        assert steps["v2 question"]["value"]["answer"]
    else:
        assert steps["v2 question"]["status"] == 400


@pytest.fixture
def value(steps):
    """Return a function: what the named step gave; it must not have thrown."""

    def find(name):
        line = steps[name]
        assert "error" not in line, line
        return line["value"]

    return find


def numbers(documents):
    return sorted(page_number(page["metadata"]["sourceURL"]) for page in documents)


def assert_completed(job, pages, *, total=None):
    assert job["status"] == "completed"
    assert job["completed"] == len(job["data"]) == pages
    assert job["total"] == (total or pages)
    assert job["creditsUsed"] == pages
    assert len(set(numbers(job["data"]))) == pages
    assert not job.get("next")
    assert all(page["markdown"].startswith("# Page") for page in job["data"])


def test_v2_scrapes(value):
    page = value("v2 scrape")
    assert page["markdown"].startswith("# Page 0")
    assert page["links"]
    assert page["metadata"]["statusCode"] == 200


def test_v2_previews_the_options_of_a_prompt(value):
    found = value("v2 crawlParamsPreview")
    assert found["limit"] == 50
    assert found["excludePaths"] == ["^/private(?:/|$)"]


def test_both_versions_track_changes(value):
    assert value("v2 changeTracking")["changeTracking"]["changeStatus"] == "new"
    assert value("v1 changeTracking")["changeTracking"]["changeStatus"] == "same"


def test_v2_starts_a_crawl_and_reads_its_status(value, service):
    started = value("v2 startCrawl")
    assert started["url"] == f"{service.url}/v2/crawl/{started['id']}"
    assert_completed(value("v2 getCrawlStatus"), 20)
    assert_completed(value("v2 one page of status"), 20)


def test_v2_waits_for_a_crawl(value):
    job = value("v2 crawl")
    assert_completed(job, 12)
    assert numbers(job["data"]) == list(range(12))


def test_v2_errors_carry_the_message_of_the_service(steps):
    unknown = steps["v2 getCrawlStatus of an unknown one"]
    assert "not found" in unknown["error"]
    assert unknown["status"] == 404
    finished = steps["v2 cancelCrawl of a finished one"]
    assert "already completed" in finished["error"]
    assert finished["status"] == 409


def test_v2_lists_and_cancels_a_running_crawl(value):
    job_id = value("v2 startCrawl, slow")["id"]
    active = value("v2 getActiveCrawls")
    assert active["success"] is True
    mine = next(crawl for crawl in active["crawls"] if crawl["id"] == job_id)
    assert "/site/900-slow200-js/" in mine["url"]
    assert mine["teamId"]
    assert mine["options"]["limit"] == 800
    assert value("v2 getCrawlStatus of a running one")["status"] == "scraping"
    assert value("v2 cancelCrawl") is True
    cancelled = value("v2 getCrawlStatus of a cancelled one")
    assert cancelled["status"] == "cancelled"
    assert len(cancelled["data"]) == cancelled["completed"] <= cancelled["total"]
    after = value("v2 getActiveCrawls after it")
    assert job_id not in [crawl["id"] for crawl in after["crawls"]]


def test_v2_reads_the_errors_of_a_crawl(value):
    assert_completed(value("v2 crawl with bad pages"), 18, total=20)
    errors = value("v2 getCrawlErrors")
    assert sorted(page_number(error["url"]) for error in errors["errors"]) == [9, 19]
    assert all(error["id"] and error["error"] for error in errors["errors"])
    assert errors["robotsBlocked"] == []


def test_v2_starts_a_batch_and_reads_its_status(value, service):
    started = value("v2 startBatchScrape")
    assert started["url"] == f"{service.url}/v2/batch/scrape/{started['id']}"
    assert started["invalidURLs"] == ["http://"]
    assert_completed(value("v2 getBatchScrapeStatus"), 8)
    assert value("v2 getBatchScrapeErrors")["errors"] == []


def test_v2_waits_for_a_batch(value):
    assert_completed(value("v2 batchScrape"), 6)


def test_v2_collects_a_result_of_several_chunks(value, service):
    job = value("v2 batchScrape of more than 20 MB")
    assert job["status"] == "completed"
    assert len(job["urls"]) == len(set(job["urls"])) == 20
    reply = service.get(f"/v2/batch/scrape/{job['id']}")
    assert 0 < len(reply.json["data"]) < 20
    skip = len(reply.json["data"])
    path = f"/v2/batch/scrape/{job['id']}?skip={skip}"
    assert reply.json["next"] == service.url + path


def test_v1_scrapes(value):
    page = value("v1 scrapeUrl")
    assert page["success"] is True
    assert page["markdown"].startswith("# Page 0")


def test_v1_waits_for_a_crawl(value):
    job = value("v1 crawlUrl")
    assert job["success"] is True
    assert_completed(job, 10)


def test_v1_reads_status_and_errors_of_a_crawl(value, service):
    started = value("v1 asyncCrawlUrl")
    assert started["success"] is True
    assert started["url"] == f"{service.url}/v1/crawl/{started['id']}"
    assert_completed(value("v1 checkCrawlStatus"), 18, total=20)
    errors = value("v1 checkCrawlErrors")  # sent as DELETE, yet nothing may be deleted
    assert sorted(page_number(error["url"]) for error in errors["errors"]) == [9, 19]
    assert errors["robotsBlocked"] == []
    assert_completed(value("v1 checkCrawlStatus after it"), 18, total=20)


def test_v1_waits_for_a_batch(value):
    assert_completed(value("v1 batchScrapeUrls"), 6)


def test_v1_cancels_a_crawl(value):
    assert value("v1 cancelCrawl")["status"] == "cancelled"
    status = value("v1 checkCrawlStatus of a cancelled one")
    assert status["status"] == "cancelled"


def test_v2_maps(value, steps):
    links = value("v2 map")["links"]
    assert len(links) == 4
    assert links[0]["url"].endswith("/p/3")
    assert steps["v2 map, wrong"]["status"] == 400


def test_v1_maps(value):
    found = value("v1 mapUrl")
    assert found["success"] is True
    assert found["links"][0].endswith("/5-js/p")
    assert len(found["links"]) == 4


def assert_watched(found, pages):
    assert (found["type"], found["status"]) == ("done", "completed")
    assert sorted(map(page_number, found["documents"])) == list(range(pages))


def test_v2_watches_a_crawl(value):
    found = value("v2 watcher of a crawl")
    assert_watched(found, 12)
    assert found["completed"] == 12
    assert found["snapshots"] == ["scraping"]
    again = value("v2 watcher of a crawl that has ended")
    assert_watched(again, 12)
    assert again["snapshots"] == ["completed"]


def test_v2_watches_a_batch(value):
    assert_watched(value("v2 watcher of a batch"), 8)


def test_v2_watches_a_crawl_that_is_cancelled(value):
    found = value("v2 watcher of a cancelled crawl")
    assert (found["type"], found["status"]) == ("done", "cancelled")
    assert found["snapshots"] == ["scraping", "cancelled"]


def test_v2_gets_large_pages_that_do_not_fit_the_first_message(value):
    found = value("v2 watcher of large pages")
    assert (found["type"], found["completed"]) == ("done", 3)
    assert len(set(found["documents"])) == 3


@pytest.mark.parametrize(
    ("name", "pages"),
    [("v1 crawlUrlAndWatch", 12), ("v1 batchScrapeUrlsAndWatch", 6)],
)
def test_v1_watches(value, name, pages):
    assert_watched(value(name), pages)


def test_usage_is_read(value):
    unlimited = 1_000_000_000
    assert value("v2 getCreditUsage")["remainingCredits"] == unlimited
    assert value("v2 getTokenUsage")["remainingTokens"] == unlimited
    [period] = value("v2 getCreditUsageHistorical")["periods"]
    assert period["creditsUsed"] > 50
    assert period["apiKey"] == "fixed key"
    [period] = value("v2 getTokenUsageHistorical")["periods"]
    assert period["tokensUsed"] % 15 == 0
    running = value("v2 getConcurrency")
    assert running["maxConcurrency"] == unlimited
    assert isinstance(running["concurrency"], int)
    queue = value("v2 getQueueStatus")
    assert queue["jobsInQueue"] >= queue["activeJobsInQueue"] >= 0
    assert queue["mostRecentSuccess"]
    assert value("v1 getCreditUsage")["data"]["remaining_credits"] == unlimited
    assert value("v1 getTokenUsage")["data"]["remaining_tokens"] == unlimited


@pytest.mark.full
def test_model_jobs(run, service_of_model_jobs):
    service, web = service_of_model_jobs
    steps = run("model_jobs", service, web.url(""))
    assert not [line for line in steps.values() if "error" in line]
    value = {name: line["value"] for name, line in steps.items()}
    for name in ("v2 extract", "v1 extract"):
        assert value[name]["success"] is True
        assert value[name]["data"] == {"name": "Brass Lamp", "price": 20.5}
    assert value["v2 extract"]["sources"]["name"] == [web.url("/shop/lamp")]
    for name in ("v2 getExtractStatus", "v1 getExtractStatus"):
        assert value[name]["status"] in {"processing", "completed"}
    text = value["v1 generateLLMsText"]["data"]
    assert text["llmstxt"].count("\n- ") == text["llmsfulltxt"].count("<|page-") == 3


@pytest.mark.full
def test_research_with_a_language_model(run, clever, chat):
    report = "The shop was founded by Ida Example in the year 1999. [1]"
    queries = {"queries": ["Who founded the shop?"]}
    chat.behave(answer={"answers": [queries, report]})
    with ScriptedSite(shop.pages()) as web:
        steps = run("research", clever, web.url(""))
    assert not [line for line in steps.values() if "error" in line]
    found = steps["v1 deepResearch"]["value"]
    assert report in found["data"]["finalAnalysis"]
    assert {"search", "extract"} <= set(found["seen"])
