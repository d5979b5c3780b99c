"""How fast sites are asked, by their own log: over jobs, scrapes and processes."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from tests.api.test_limits import Team
from tests.support.crash import started
from tests.support.gauge import Gauge
from tests.support.paced_site import PacedSite
from tests.support.waiting import WAIT_S, wait_until
from tools.bench.processes import ROOT

FRESH = {"maxAge": 0}
DELAY_S = 0.2
SLACK_S = 0.005  # clocks of the site and of the database
REFRESH_S = 2.0  # what processes know of each other is at most that old


@pytest.fixture
def paced_site():
    """Return a function that starts a site with the given flags."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(PacedSite(**options))


SQLITE = {"SCRAPER_LEASE_S": "2"}


@pytest.fixture
def on_postgres(postgres):
    """The settings that name an empty database of a server."""
    return {**SQLITE, "SCRAPER_DATABASE_URL": postgres()}


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request):
    """The settings that name an empty database, for the services of a test."""
    if request.param == "sqlite":
        return SQLITE
    return request.getfixturevalue("on_postgres")


def crawl(service, url, **options):
    body = {"url": url, "sitemap": "skip", "scrapeOptions": FRESH, **options}
    return started(service.post("/v2/crawl", body))


def batch(service, urls, **options):
    reply = service.post("/v2/batch/scrape", {"urls": urls, **FRESH, **options})
    return started(reply)


def scrape(service, url, **options):
    return service.post("/v2/scrape", {"url": url, **FRESH, **options})


def documents(service, path):
    """Wait for the end of a job; return its pages."""

    def ended():
        found = service.get(path).json
        return found if found["status"] != "scraping" else None

    status = wait_until(ended)
    assert status["status"] == "completed"
    errors = service.get(f"{path}/errors").json["errors"]
    assert not errors, errors
    return status["data"]


def codes(pages):
    return [page["metadata"]["statusCode"] for page in pages]


@pytest.mark.full
@pytest.mark.slow_on("postgresql")
@pytest.mark.slow_on("sqlite")
def test_a_delay_applies_across_jobs_and_processes(start_service, settings, paced_site):
    site = paced_site(pages=5)
    services = [start_service(**settings) for _ in range(2)]
    jobs = [crawl(services[n % 2], site.url(), delay=DELAY_S) for n in range(4)]
    for number, job in enumerate(jobs):
        assert len(documents(services[number % 2], job)) == 5
    assert len(site.log) == 20
    assert site.most() == 1
    assert min(site.gaps()) >= DELAY_S - SLACK_S


@pytest.mark.slow
def test_a_delay_survives_the_process_that_made_the_last_request(
    start_service, on_postgres, paced_site
):
    site = paced_site(pages=8, wait=0.2)
    services = [start_service(**on_postgres) for _ in range(2)]
    job = crawl(services[0], site.url(), delay=DELAY_S)
    wait_until(lambda: len(site.log) >= 2)
    services[0].kill()
    assert len(documents(services[1], job)) == 8
    whole = [gap for gap in site.gaps() if gap > -1]  # of requests that had an end
    assert min(whole) >= DELAY_S - 0.2 - SLACK_S


@pytest.mark.slow
def test_a_site_with_a_rate_limit_is_fetched_at_its_rate(start_service, paced_site):
    site = paced_site(pages=24, rate=5, retry_after=1)
    service = start_service()
    jobs = [crawl(service, site.url(), limit=n) for n in (24, 12)]
    for job, count in zip(jobs, (24, 12), strict=True):
        assert codes(documents(service, job)) == [200] * count
    log = site.log
    refused = [seen for seen in log if seen.status == 429]
    # What was under way when it first said no; then it had no reason to.
    assert len(refused) <= 8
    assert 429 not in site.statuses()[len(log) // 2 :]
    assert early(log) <= 3


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("kind", ["batch", "crawl", "scrapes"])
def test_a_site_that_takes_two_a_second_is_begun_gently(service, paced_site, kind):
    site = paced_site(pages=12, rate=2, retry_after=2, wait=0.1)
    urls = [site.url(f"/p/{n}") for n in range(12)]
    if kind == "scrapes":
        with concurrent.futures.ThreadPoolExecutor(12) as threads:
            list(threads.map(lambda url: scrape(service, url), urls))
    else:
        job = batch(service, urls) if kind == "batch" else crawl(service, site.url())
        wait_until(lambda: len(service.get(job).json["data"]) >= 4, 60)
        service.request("DELETE", job)
    assert 1 <= site.statuses().count(429) <= 3


def early(log):
    """Return how many requests began in a pause that had been asked for before."""
    pauses = [(seen.end, seen.end + seen.pause_s) for seen in log if seen.pause_s]
    return sum(
        any(begin + 0.02 < seen.begin < end for begin, end in pauses) for seen in log
    )


@pytest.mark.slow
def test_two_processes_learn_a_rate_from_each_other(start_service, paced_site):
    site = paced_site(pages=28, rate=6, retry_after=1)
    services = [start_service(**SQLITE) for _ in range(2)]
    time.sleep(3 * REFRESH_S)
    job = crawl(services[0], site.url())
    assert codes(documents(services[1], job)) == [200] * 28
    log = site.log
    assert sum(seen.status == 429 for seen in log) <= 16
    assert 429 not in site.statuses()[len(log) // 2 :]
    assert early(log) <= 3
    # Both use the rate that one of them met, together.
    good = [seen.begin for seen in log if seen.begin > refused_at(log) + 1]
    # In no second more than the site takes, however its clock and theirs may jitter.
    assert len(good) > 6
    assert min(b - a for a, b in zip(good, good[6:], strict=False)) > 1


def refused_at(log):
    return max(seen.begin for seen in log if seen.status == 429)


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("status", "retry_after", "least_s"),
    [
        (503, "date+6", 6),
        (429, "6", 6),
        (503, "soon", 0.7),
        (429, "-5", 0.7),
        (429, "1e9", 0.7),
        (503, "", 0.7),
    ],
)
def test_a_page_of_a_job_is_fetched_again_after_the_pause(
    service, paced_site, status, retry_after, least_s
):
    site = paced_site(first=1, status=status, retry_after=retry_after)
    job = batch(service, [site.url()], timeout=5000)
    assert codes(documents(service, job)) == [200]
    assert site.statuses() == [status, 200]
    assert site.gaps()[0] >= least_s


@pytest.mark.slow
def test_the_response_of_the_last_attempt_becomes_the_page(start_service, paced_site):
    service = start_service(SCRAPER_RETRY_TIMES="2")
    site = paced_site(first=100, status=503, retry_after="1")
    job = batch(service, [site.url()])
    assert codes(documents(service, job)) == [503]
    assert site.statuses() == [503] * 3


def test_a_broken_page_does_not_delay_other_pages_of_its_host(
    start_service, paced_site
):
    service = start_service(SCRAPER_RETRY_TIMES="2")
    site = paced_site(broken="/p/0", status=503, retry_after="1")
    job = batch(service, [site.url(f"/p/{n}") for n in range(8)])
    assert sorted(codes(documents(service, job))) == [200] * 7 + [503]
    paths = [seen.path for seen in site.log]
    assert paths.count("/p/0") == 3
    assert paths[1] == "/p/1"
    assert paths[-1] == "/p/0"  # its further pause was for itself only


@pytest.mark.slow
def test_pages_of_a_host_that_refuses_every_request_are_tried_once(
    start_service, paced_site
):
    service = start_service(SCRAPER_RETRY_TIMES="1")
    site = paced_site(first=100, status=429)
    job = batch(service, [site.url(f"/p/{n}") for n in range(8)])
    assert codes(documents(service, job)) == [429] * 8
    paths = [seen.path for seen in site.log]
    assert [paths.count(path) for path in dict.fromkeys(paths)][-3:] == [1] * 3


@pytest.mark.parametrize("status", [429, 503])
def test_a_single_scrape_returns_the_error_response_of_its_site(
    service, paced_site, status
):
    site = paced_site(first=100, status=status, retry_after="1000000000")
    reply = scrape(service, site.url())
    assert reply.status == 200
    assert codes([reply.json["data"]]) == [status]
    # Ten minutes are the longest pause, and too long for anybody who waits.
    reply = scrape(service, site.url("/p/1"), timeout=100_000)
    assert (reply.status, reply.json["code"]) == (408, "SCRAPE_TIMEOUT")
    assert "no further requests" in reply.json["error"]
    assert len(site.log) == 1


def test_a_scrape_waits_for_a_paused_site_within_its_timeout(service, paced_site):
    site = paced_site(first=1, status=429, retry_after="8")
    scrape(service, site.url())
    assert scrape(service, site.url(), timeout=1000).status == 408
    reply = scrape(service, site.url(), timeout=200_000)
    assert codes([reply.json["data"]]) == [200]
    assert site.gaps()[0] >= 8


@pytest.mark.full
def test_pages_that_wait_for_their_site_lose_no_time(service, paced_site):
    site = paced_site(first=8, status=503, retry_after="8")
    job = batch(service, [site.url(f"/p/{n}") for n in range(30)], timeout=7000)
    assert codes(documents(service, job)) == [200] * 30
    assert early(site.log) == 0


def test_pages_of_other_hosts_pass_in_front(start_service, paced_site):
    service = start_service()
    closed = paced_site(first=1000, status=429, retry_after="500")
    site = paced_site()
    urls = [closed.url(f"/p/{n}") for n in range(40)]
    job = batch(service, [*urls, *(site.url(f"/p/{n}") for n in range(10))])
    wait_until(lambda: len(service.get(job).json["data"]) == 10)
    assert len(closed.log) <= 8
    assert early(closed.log) == 0
    # What waits does not hold up the end.
    assert service.stop() == 0


@pytest.mark.full
def test_a_job_that_waits_for_a_host_returns_the_lock_of_the_host(
    start_service, paced_site
):
    """Else the job that has its place would wait for the turn, and both for ever."""
    service = start_service(SCRAPER_MAX_RUNNING_JOBS="1")
    site = paced_site(pages=2, first=1, status=503, retry_after="20")
    first = crawl(service, site.url(), delay=DELAY_S)
    wait_until(lambda: site.log)
    second = crawl(service, site.url(), delay=DELAY_S)
    assert [len(documents(service, each)) for each in (first, second)] == [2, 2]
    assert site.most() == 1
    assert min(site.gaps()) >= DELAY_S - SLACK_S


@pytest.mark.full
def test_a_job_that_waits_for_a_host_returns_the_permit_of_its_team(
    start_service, tmp_path, paced_site
):
    service = start_service(SCRAPER_MAX_RUNNING_JOBS="1")
    team = Team(service, tmp_path, "--concurrency", "1")
    shut = paced_site(pages=2, first=1, status=429, retry_after="24")
    slow, site = paced_site(pages=1, wait=10), paced_site(pages=2)
    first = team.start("batch/scrape", urls=[shut.url()], **FRESH)
    wait_until(lambda: shut.log)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        reply = threads.submit(team.scrape, slow.url())
        wait_until(lambda: slow.log)
        time.sleep(6)  # until the engine asks for a next page, and with it for a permit
        second = team.start("batch/scrape", urls=[site.url()], **FRESH)
        for job in (second, first):
            wait_until(lambda job=job: team.get(job).json["status"] == "completed")
        assert reply.result().status == 200


@pytest.mark.full
def test_a_cancelled_job_returns_the_host_lock_it_waits_for(start_service, paced_site):
    service = start_service()
    host = paced_site(pages=2, wait=6)
    other = crawl(service, host.url(), delay=1)
    wait_until(lambda: host.log)
    cancelled = crawl(service, host.url("/p/1"), delay=1)
    time.sleep(2.5)  # its first page waits for the turn after the running one
    assert service.request("DELETE", cancelled).status == 200
    assert len(documents(service, other)) == 2
    assert len(host.log) == 2
    assert service.get(cancelled).json["status"] == "cancelled"


@pytest.mark.full
@pytest.mark.parametrize("processes", [1, 2])
def test_jobs_that_wait_for_hosts_leave_their_slot_to_other_jobs(
    start_service, paced_site, processes
):
    settings = {"SCRAPER_MAX_RUNNING_JOBS": "1", "SCRAPER_RETRY_TIMES": "1"}
    service, *_ = [start_service(**settings) for _ in range(processes)]
    closed = [paced_site(first=100, status=429, retry_after="45") for _ in range(2)]
    site = paced_site()
    patient = [batch(service, [each.url()]) for each in closed]
    wait_until(lambda: all(each.log for each in closed))
    assert codes(documents(service, batch(service, [site.url()]))) == [200]
    assert {service.get(each).json["status"] for each in patient} == {"scraping"}
    # What is added to a job that rests does not wait for its first host.
    *_, job_id = patient[0].split("/")
    batch(service, [site.url("/p/1")], appendToId=job_id)
    wait_until(lambda: len(site.log) == 2)
    assert len(closed[0].log) == 1
    assert sorted(codes(documents(service, patient[0]))) == [200, 429]
    assert codes(documents(service, patient[1])) == [429]
    assert [len(each.log) for each in closed] == [2, 2]  # each has one retry
    assert [early(each.log) for each in closed] == [0, 0]


@pytest.mark.full
def test_a_crawl_that_waits_for_its_delay_leaves_its_slot(start_service, paced_site):
    service = start_service(SCRAPER_MAX_RUNNING_JOBS="1")
    slow, site = paced_site(pages=2), paced_site(pages=2)
    job = crawl(service, slow.url(), delay=25)
    wait_until(lambda: slow.log)
    assert len(documents(service, crawl(service, site.url()))) == 2
    assert len(slow.log) == 1
    service.request("PATCH", job, {"retentionDays": 1})
    assert len(documents(service, job)) == 2
    assert slow.gaps()[0] >= 25 - SLACK_S


@pytest.mark.full
def test_two_slow_hosts_leave_capacity_to_other_hosts(start_service, paced_site):
    service = start_service()
    slow = [paced_site(pages=1, wait=20) for _ in range(2)]
    fast = [paced_site(pages=1) for _ in range(4)]
    # The first URLs fill what the job leases and looks at.
    urls = [site.url(f"/p/{n}") for n in range(100) for site in slow]
    urls += [site.url(f"/p/{n}") for n in range(20) for site in fast]
    job = batch(service, urls, timeout=120_000)
    wait_until(lambda: all(len(site.log) == 20 for site in fast))
    wait_until(lambda: len(service.get(job).json["data"]) >= 80)
    assert max(site.most() for site in slow) <= 8


@pytest.mark.full
@pytest.mark.parametrize("processes", [1, 2])
def test_a_host_has_one_limit_for_all_callers(start_service, paced_site, processes):
    site = paced_site(pages=20, wait=1)
    services = [start_service() for _ in range(processes)]
    jobs = [crawl(service, site.url()) for service in services]
    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        replies = list(
            threads.map(
                lambda n: scrape(services[n % processes], site.url(f"/p/{n}")),
                range(40),
            )
        )
    assert [reply.status for reply in replies] == [200] * 40
    for job in jobs:
        documents(services[0], job)
    assert site.most() == 8


def test_a_big_job_does_not_starve_a_scrape(start_service):
    service = start_service(SCRAPER_HOST_CONCURRENCY="2")
    patient = {"timeout": 200_000}
    with Gauge() as site, concurrent.futures.ThreadPoolExecutor(1) as threads:
        site.gate.clear()
        batch(service, [site.url(f"/{n}") for n in range(60)], **patient)
        wait_until(lambda: site.now == 2)
        reply = threads.submit(scrape, service, site.url("/mine"), **patient)
        wait_until(lambda: service.get("/health").json["pendingScrapes"] == 1)
        site.gate.set()
        assert reply.result().status == 200
        assert site.asked.index("/mine") < 20  # of 60


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("-a", f"delay_s={DELAY_S}"),
        (
            *("-s", 'EXTENSIONS={"tests.support.crawl_delay.CrawlDelay": 1}'),
            *("-s", f"CRAWL_DELAY_S={DELAY_S}"),
        ),
    ],
    ids=["delay", "crawl-delay"],
)
def test_a_local_run_keeps_the_delay(tmp_path, paced_site, arguments):
    site = paced_site(pages=5)
    output = tmp_path / "pages.jsonl"
    done = subprocess.run(
        (
            *(sys.executable, "-m", "scrapy", "crawl", "crawl"),
            *("-a", f"url={site.url()}", *arguments),
            *("-s", f"PACED_SITE={site.url()}", "-O", str(output)),
        ),
        cwd=ROOT,
        env={**os.environ, "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32"},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(output.read_text().splitlines()) == 5
    assert min(site.gaps()) >= DELAY_S - SLACK_S
    assert site.most() == 1
