"""Converter processes that die, stop or are busy, seen by callers of the service."""

from __future__ import annotations

import concurrent.futures
import os
import random
import shutil
import signal
import time
import urllib.parse
from pathlib import Path

import pytest

from scraper_service.crawling.scheduler import STORED_AT_ONCE
from tests.conftest import Service
from tests.process.test_service import converters_of, is_gone
from tests.support import raw_site
from tests.support.conversions import Orders
from tests.support.linked_site import named
from tests.support.raw_site import RawSite
from tests.support.waiting import wait_until

PATIENCE_S = 120  # on a busy machine
FRESH = {"maxAge": 0}
LONG_CRAWL = 1000  # pages
POLL_S = 0.002
ROOT = Path(__file__).parents[2]
FEW = 10  # pages
# Pages that come between two kills, so that none meets a page twice. Pages that were
# converted before the first kill may still wait for their commit.
BETWEEN = STORED_AT_ONCE + FEW


@pytest.fixture
def orders(tmp_path):
    return Orders(tmp_path / "orders")


def converters(service):
    return [pid for pid in converters_of(service.pid) if not is_gone(pid)]


def is_busy(pid):
    """Return True if a process computes right now."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "R"


def busy_converter(service):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = [pid for pid in converters(service) if is_busy(pid)]
        if found:
            return found[0]
        time.sleep(POLL_S)
    raise AssertionError("no converter was busy")


def ordered(site, order, number=0, body="<p>words of a page", count=1):
    query = {"body": body, "count": count, "do": order, "n": number}
    return site.url(f"/html?{urllib.parse.urlencode(query)}")


def start_job(service, path, body, **options):
    reply = service.post(path, body, **options)
    assert reply.status == 200, reply
    return f"{path}/{reply.json['id']}"


def start_crawl(service, site, name, **options):
    body = {
        "url": site.url(named(name).path(0)),
        "sitemap": "skip",
        "limit": 10_000,
        "scrapeOptions": FRESH,
    }
    return start_job(service, "/v2/crawl", body, **options)


def finished(service, path, seconds=PATIENCE_S, **options):
    def status():
        found = service.get(path, **options).json
        return found if found["status"] in {"completed", "failed"} else None

    return wait_until(status, seconds)


def failures(service, path):
    return service.get(f"{path}/errors").json["errors"]


def kill_while_crawling(service, path, kills, stop=signal.SIGKILL):
    """Send a signal to a busy converter so often, with some pages between."""
    for _ in range(kills):
        before = service.get(path).json["completed"]
        wait_until(
            lambda b=before: service.get(path).json["completed"] >= b + BETWEEN,
            PATIENCE_S,
        )
        os.kill(busy_converter(service), stop)


@pytest.mark.full
def test_pages_of_a_crawl_survive_the_ends_of_their_converters(start_service, site):
    service = start_service()
    path = start_crawl(service, site, "250-converters-slow50")
    kill_while_crawling(service, path, 3)
    done = finished(service, path)
    assert (done["status"], done["completed"]) == ("completed", 250)
    assert failures(service, path) == []


@pytest.mark.full
def test_pages_of_a_crawl_survive_a_stopped_converter(start_service, site):
    service = start_service()
    path = start_crawl(service, site, "100-stopped-slow50")
    kill_while_crawling(service, path, 1, signal.SIGSTOP)
    done = finished(service, path)
    assert (done["status"], done["completed"]) == ("completed", 100)
    assert failures(service, path) == []


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_only_the_page_that_ends_its_converter_fails(
    start_service, site, orders, processes
):
    service = start_service(**orders.environment, SCRAPER_CONVERTER_PROCESSES=processes)
    bad = ordered(site, "die")
    good = [ordered(site, "nothing", n) for n in range(30)]
    urls = [*good[:10], bad, *good[10:]]
    path = start_job(service, "/v2/batch/scrape", {"urls": urls, **FRESH})
    done = finished(service, path)
    assert {page["metadata"]["sourceURL"] for page in done["data"]} == set(good)
    [failed] = failures(service, path)
    assert failed["url"] == bad
    assert failed["error"] == "The page ended its converter twice (signal 9)."

    reply = service.post("/v2/scrape", {"url": bad, **FRESH})
    assert (reply.status, reply.json["code"]) == (500, "SCRAPE_ALL_ENGINES_FAILED")
    assert "ended its converter twice" in reply.json["error"]
    assert "Traceback" not in service.stderr


# Each input of the first kind is larger than 1 MiB; those of the second seem small.
@pytest.mark.full(keep=1)
@pytest.mark.parametrize("count", [3_400_000, 1], ids=["large", "small"])
def test_slow_pages_of_a_team_do_not_delay_other_teams(
    start_service, site, orders, count
):
    service = start_service(SCRAPER_API_KEYS="fc-one,fc-two", **orders.environment)

    def scrape_slow(number):
        # Five of them were more than all teams together might fetch.
        url = ordered(site, "hold", number, "water", count)
        body = {"url": url, "timeout": 1000 * PATIENCE_S, "formats": ["links"], **FRESH}
        return service.post("/v2/scrape", body, key="fc-one").status

    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        slow = [threads.submit(scrape_slow, number) for number in range(5)]
        crawl = start_crawl(service, site, "50-slow-team", key="fc-one")
        wait_until(lambda: orders.held, PATIENCE_S)
        for number in range(5):
            url = site.url(f"/text?{number}")
            reply = service.post("/v2/scrape", {"url": url, **FRESH}, key="fc-two")
            assert reply.status == 200
        other = start_crawl(service, site, "50-other-team", key="fc-two")
        for path, key in ((other, "fc-two"), (crawl, "fc-one")):
            done = finished(service, path, key=key)
            assert (done["status"], done["completed"]) == ("completed", 50)
        assert not any(each.done() for each in slow)
        orders.let_go()
        statuses = [each.result() for each in slow]
    assert statuses == [200] * 5


def test_too_many_bytes_of_a_team_are_a_429_and_its_jobs_wait(
    start_service, site, orders
):
    service = start_service(
        SCRAPER_API_KEYS="fc-one,fc-two",
        SCRAPER_CONVERTER_QUEUE_MB="2",
        **orders.environment,
    )
    small = {"url": site.url("/text"), **FRESH}
    body = {
        "url": ordered(site, "hold", 0, "water", 400_000),
        "timeout": 1000 * PATIENCE_S,
        **FRESH,
    }
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        slow = threads.submit(service.post, "/v2/scrape", body, key="fc-one")
        wait_until(lambda: orders.held, PATIENCE_S)
        reply = service.post("/v2/scrape", small, key="fc-one")
        assert reply.status == 429
        assert int(reply.headers["Retry-After"]) > 0
        assert "Too many bytes" in reply.json["error"]
        assert service.post("/v2/scrape", small, key="fc-two").status == 200

        waiting = start_crawl(service, site, "20-waiting", key="fc-one")
        other = start_crawl(service, site, "20-other", key="fc-two")
        assert finished(service, other, key="fc-two")["completed"] == 20
        assert service.get(waiting, key="fc-one").json["completed"] == 0
        orders.let_go()
        assert slow.result().status == 200
    assert finished(service, waiting, key="fc-one")["completed"] == 20


def test_options_that_take_long_to_validate_do_not_delay_other_requests(
    start_service, site, orders
):
    service = start_service(
        SCRAPER_CONVERTER_PROCESSES="1",
        SCRAPER_API_KEYS="fc-one,fc-two",
        **orders.environment,
    )
    selectors = [f"main div.part-{number} > p:not(.small)" for number in range(100)]
    costly = {"url": site.url("/text"), "limit": 1, "sitemap": "skip"}
    costly["scrapeOptions"] = {"includeTags": selectors, **FRESH}
    simple = {"url": site.url("/text"), "limit": 1, "sitemap": "skip"}
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        held = threads.submit(
            service.post,
            "/v2/scrape",
            {"url": ordered(site, "hold"), "timeout": 1000 * PATIENCE_S, **FRESH},
            key="fc-two",
        )
        wait_until(lambda: orders.held, PATIENCE_S)
        waiting = threads.submit(service.post, "/v2/crawl", costly, key="fc-one")
        wrong = {**costly, "includePaths": ["("]}
        refused = threads.submit(service.post, "/v2/crawl", wrong, key="fc-one")
        assert service.post("/v2/crawl", simple, key="fc-one").status == 200
        assert not waiting.done()
        orders.let_go()
        assert held.result().status == waiting.result().status == 200
        assert refused.result().status == 400
        [issue] = refused.result().json["details"]
        assert issue["path"] == ["includePaths", 0]


def test_large_pages_wait_for_other_large_pages_of_their_team(start_service):
    service = start_service(
        SCRAPER_API_KEYS="fc-one,fc-two", SCRAPER_CONVERTER_QUEUE_MB="8"
    )
    whole = raw_site.page(b"<p>All of it.</p>" + b" " * 3_000_000)
    slow = (whole[:2_000_000], 10.0, whole[2_000_000:])
    with RawSite({"/": whole, "/slow": slow}) as site:

        def scrape(path, key="fc-one", timeout=60_000):
            body = {"url": site.url(path), "timeout": timeout, **FRESH}
            return service.post("/v2/scrape", body, key=key)

        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            first = threads.submit(scrape, "/slow")
            wait_until(lambda: site.asked)
            time.sleep(1.5)  # until its first megabytes were read
            patient = threads.submit(scrape, "/")
            refused = scrape("/", timeout=3000)
            assert (refused.status, refused.json["code"]) == (408, "SCRAPE_TIMEOUT")
            assert "other large pages of the team" in refused.json["error"]
            assert scrape("/", key="fc-two").status == 200
            assert not first.done()
            assert not patient.done()
            for each in (first, patient):
                assert each.result().json["data"]["markdown"] == "All of it."


def test_the_service_ends_while_a_converter_process_is_stopped(start_service):
    service = start_service(SCRAPER_CONVERTER_PROCESSES="2")
    pids = converters(service)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert service.stop() == 0
    wait_until(lambda: all(map(is_gone, pids)))


@pytest.mark.full
def test_converters_that_cannot_start_end_the_start(tmp_path):
    from tests.process.test_service import run_serve

    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'converter_process' in ' '.join(sys.orig_argv):\n"
        "    import os\n    os._exit(7)\n"
    )
    done = run_serve("--data-dir", str(tmp_path / "data"), PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "converter processes cannot be started: exit code 7" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("processes", ["1", "3"])
def test_a_long_crawl_survives_many_ends_of_converters(start_service, site, processes):
    service = start_service(SCRAPER_CONVERTER_PROCESSES=processes)
    path = start_crawl(service, site, f"{LONG_CRAWL}-converters-slow20")
    choice = random.Random("converters")
    kills = 0
    while (status := service.get(path).json)["completed"] < LONG_CRAWL - 20 * FEW:
        kill_while_crawling(
            service, path, 1, choice.choice([signal.SIGKILL] * 4 + [signal.SIGSTOP])
        )
        kills += 1
        wait_until(
            lambda s=status: (
                service.get(path).json["completed"] >= s["completed"] + 2 * FEW
            ),
            PATIENCE_S,
        )
    done = finished(service, path, 600)
    assert (done["status"], done["completed"]) == ("completed", LONG_CRAWL)
    assert failures(service, path) == []
    assert kills >= 10


@pytest.mark.full
def test_a_service_that_is_reinstalled_loses_no_page(tmp_path, site):
    """Its files are gone for a while, as between the two halves of an update."""
    shutil.copytree(ROOT / "scraper_service", tmp_path / "installed/scraper_service")
    content = tmp_path / "installed/scraper_service/content"
    away = tmp_path / "content"
    where = {"PYTHONPATH": str(content.parents[1]), "PYTHONSAFEPATH": "1"}
    with Service(tmp_path / "data", **where) as service:
        body = {"url": site.url("/pdf?pages=1"), "timeout": 250_000}
        content.rename(away)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            reply = threads.submit(service.post, "/v2/scrape", body)
            wait_until(lambda: "could not start" in service.stderr)
            away.rename(content)
            assert reply.result().status == 200, reply.result()
        (content / "formats" / "branding.py").unlink()  # loaded on first use
        body = {"url": site.url("/article"), "formats": ["branding"]}
        text = service.post("/v2/scrape", body).json["error"]
    missing = "a part of the service is missing: No module named"
    assert (
        f"{missing} 'scraper_service.content.formats.branding'; was the service reinstalled?"
        in text
    )
