"""What teams may do: credits, rates, concurrency, blocked sites; over sockets."""

from __future__ import annotations

import concurrent.futures
import itertools
import sqlite3
import time
import uuid
from collections import Counter
from contextlib import closing

import pytest
from click.testing import CliRunner

from scraper_service.cli.main import main
from tests.content.pdfmaker import pdf
from tests.support.crash import kill
from tests.support.scripted_site import ScriptedSite, answer, moved, page
from tests.support.waiting import wait_until

BLOCKED = "127.0.0.3"
STORED = "SELECT count(*) FROM source WHERE team_id = :team"
TERMINAL = {"completed", "failed", "cancelled"}
UNLIMITED = 1_000_000_000
_names = itertools.count()


def command(data_dir, *arguments):
    """Run a command of the service on its data; return what it printed."""
    done = CliRunner().invoke(main, [*arguments, "--data-dir", str(data_dir)])
    assert done.exit_code == 0, done.output
    return done.output


class Team:
    """A team with a key of its own, and the service as it sees it."""

    def __init__(self, service, data_dir, *limits):
        self.service, self.data_dir = service, data_dir
        self.name = f"team {next(_names)}"
        self.key = self.further_key(*limits)

    def further_key(self, *limits):
        made = ("keys", "create", "--team", self.name, *limits)
        return command(self.data_dir, *made).split()[-1]

    def set(self, *limits):
        return command(self.data_dir, "teams", "set", self.name, *limits)

    def post(self, path, body, **options):
        return self.service.post(path, body, key=self.key, **options)

    def get(self, path, **options):
        return self.service.get(path, key=self.key, **options)

    def scrape(self, url, **body):
        return self.post(
            "/v2/scrape", {"url": url, "maxAge": 0, "timeout": 200_000, **body}
        )

    def together(self, count, call):
        """Make calls in parallel; return how often each status came."""
        with concurrent.futures.ThreadPoolExecutor(min(count, 100)) as threads:
            replies = list(threads.map(lambda _: call(), range(count)))
        return Counter(reply.status for reply in replies)

    def start(self, kind, **body):
        body = {"scrapeOptions": {"maxAge": 0}, **body} if kind == "crawl" else body
        reply = self.post(f"/v2/{kind}", body)
        assert reply.status == 200, reply.json
        return "/" + reply.json["url"].split("/", 3)[3]

    def ended(self, path):
        return wait_until(
            lambda: (
                status
                if (status := self.get(path).json)["status"] in TERMINAL
                else None
            )
        )

    def remaining(self):
        return self.get("/v2/team/credit-usage").json["data"]["remainingCredits"]

    def rows(self, query, *values):
        """Read the job database; ``:team`` is the id of the team."""
        with closing(sqlite3.connect(self.data_dir / "jobs.sqlite")) as database:
            find = "SELECT id FROM team WHERE name = ?"
            [(team_id,)] = database.execute(find, (self.name,)).fetchall()
            return database.execute(query, {"team": team_id}).fetchall()

    def charged(self):
        """Return the sum of the ledger."""
        query = "SELECT coalesce(sum(credits), 0) FROM ledger WHERE team_id = :team"
        return self.rows(query)[0][0]


@pytest.fixture(scope="module")
def pages():
    """A site with a few pages, one of which leads to a blocked site."""
    numbers = [f"/p/{n}" for n in range(40)]
    content = {
        "/": page(*numbers),
        "/out": page("/p/1", f"http://{BLOCKED}/x", f"http://{BLOCKED}:81/y"),
        "/moved": moved(f"http://{BLOCKED}/x"),
        "/pdf": answer(
            pdf([[(72, 700, 12, f"Page {n}")] for n in range(3)]),
            Content_Type="application/pdf",
        ),
        "/with-pdf": page("/pdf", "/p/1"),
        **{number: page(title=number) for number in numbers},
    }
    with ScriptedSite(content) as site:
        yield site


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service with a blocked site, and its data."""
    from tests.conftest import Service, _stop

    data_dir = tmp_path_factory.mktemp("limits")
    service = Service(
        data_dir,
        SCRAPER_BLOCKED_SITES=f"{BLOCKED}, blocked.example,xn--bcher-kva.example",
    )
    yield service, data_dir
    _stop(service)


@pytest.fixture
def team(running):
    """Return a function that makes a team with limits."""
    return lambda *limits: Team(*running, *limits)


# -- credits ------------------------------------------------------------------------------


def test_parallel_scrapes_never_overspend_the_balance(team, pages):
    poor = team("--credits", "20")
    statuses = poor.together(200, lambda: poor.scrape(pages.url("/p/1")))
    assert statuses == {200: 20, 402: 180}
    assert poor.remaining() == 0
    assert poor.charged() == 20
    reply = poor.scrape(pages.url("/p/1"))
    text = "Insufficient credits to perform this request: it needs 1, and 0 remain."
    assert (reply.status, reply.json) == (402, {"success": False, "error": text})


def test_failed_scrapes_are_free_and_cache_hits_are_not(team, pages):
    poor = team("--credits", "10")
    assert poor.scrape("http://127.0.0.2:2/").status == 500
    assert poor.remaining() == 10
    for state in ("miss", "hit"):
        reply = poor.post("/v2/scrape", {"url": pages.url("/p/2")})
        assert reply.json["data"]["metadata"]["cacheState"] == state
        assert reply.json["data"]["metadata"]["creditsUsed"] == 1
        wait_until(lambda: poor.rows(STORED) == [(1,)])
    assert poor.remaining() == 8
    charges = "SELECT credits FROM ledger WHERE team_id = :team ORDER BY at"
    assert poor.rows(charges) == [(0,), (1,), (1,)]


def test_checks_of_monitors_are_charged_once_and_not_beyond_the_balance(team, pages):
    poor = team("--credits", "7")
    urls = [pages.url(f"/p/{n}") for n in range(3)]
    crawl = {"type": "crawl", "url": pages.url("/"), "crawlOptions": {"limit": 40}}
    body = {
        "name": "x",
        "schedule": {"cron": "0 0 29 2 *"},
        "targets": [{"type": "scrape", "urls": urls}, crawl],
    }
    made = poor.post("/v2/monitor", body).json["data"]["id"]
    path = f"/v2/monitor/{made}"

    def run():
        check = poor.post(f"{path}/run", {}).json["id"]
        return wait_until(
            lambda: (
                found
                if (found := poor.get(f"{path}/checks/{check}").json["data"])["status"]
                not in {"queued", "running"}
                else None
            )
        )

    check = run()
    assert check["status"] == "completed"
    assert check["summary"]["new"] == check["actualCredits"] == 7  # of 43
    assert "lowered" in check["targetResults"][1]["warning"]
    assert (poor.remaining(), poor.charged()) == (0, 7)
    assert poor.post(f"{path}/run", {}).status == 402
    assert poor.post("/v2/monitor", body).status == 402
    poor.set("--add-credits", "3")
    check = run()
    assert check["status"] == "partial"
    assert "do not suffice" in check["targetResults"][1]["error"]
    assert (check["summary"]["same"], poor.remaining(), poor.charged()) == (3, 0, 10)


def test_no_target_of_a_monitor_is_on_a_blocked_site(team):
    rich = team()
    for target in (
        {"type": "scrape", "urls": ["http://a.example/", f"http://{BLOCKED}/"]},
        {"type": "crawl", "url": "http://www.blocked.example/"},
    ):
        body = {"name": "x", "schedule": {"cron": "0 0 29 2 *"}, "targets": [target]}
        assert rich.post("/v2/monitor", body).status == 403


def test_a_page_above_the_remaining_credits_is_neither_charged_nor_returned(
    team, pages
):
    poor = team("--credits", "2")
    reply = poor.scrape(pages.url("/pdf"))
    assert reply.status == 402
    assert "it needs 3, and 2 remain" in reply.json["error"]
    assert (poor.remaining(), poor.charged()) == (2, 0)
    poor.set("--add-credits", "1")
    assert poor.scrape(pages.url("/pdf")).json["data"]["metadata"]["creditsUsed"] == 3
    assert (poor.remaining(), poor.charged()) == (0, 3)


def test_a_map_costs_one_credit(team, pages):
    poor = team("--credits", "1")
    body = {"url": pages.url("/"), "limit": 1000}
    assert poor.post("/v1/map", body).status == 200
    assert poor.post("/v2/map", body).status == 402
    assert (poor.remaining(), poor.charged()) == (0, 1)


def test_a_job_returns_unused_credits(team, pages):
    poor = team("--credits", "30")
    path = poor.start(
        "crawl", url=pages.url("/with-pdf"), limit=20, crawlEntireDomain=True
    )
    status = poor.ended(path)
    assert (status["status"], status["creditsUsed"]) == ("completed", 5)
    assert poor.remaining() == 25
    charged = sum(p["metadata"]["creditsUsed"] for p in status["data"])
    assert charged == poor.charged() == 5


def test_a_limit_that_cannot_be_paid_is_refused_before_it_is_checked(team, pages):
    poor = team("--credits", "5")
    url, used = pages.url("/"), str(uuid.uuid4())
    headers = {"x-idempotency-key": used}
    for body in ({"url": url, "limit": 6}, {"url": url, "limit": 6, "nonsense": 1}):
        assert poor.post("/v2/crawl", body, headers=headers).status == 402
    urls = [url] * 6
    assert poor.post("/v1/batch/scrape", {"urls": urls}, headers=headers).status == 402
    many = {"urls": ["http://a.example/" + "x" * 60] * 5000}
    assert poor.post("/v2/batch/scrape", many).status == 402  # read in the pool
    # Neither was the idempotency key used nor anything taken.
    body = {"url": url, "limit": 5}
    assert poor.post("/v2/crawl", body, headers=headers).status == 200
    assert poor.post("/v2/crawl", body, headers=headers).status == 402
    poor.set("--credits", "100")
    time.sleep(1.1)  # for that long a key is remembered with its team
    assert poor.post("/v2/crawl", body, headers=headers).status == 409


def test_a_crawl_without_limit_is_limited_by_the_remaining_credits(team, pages):
    poor = team("--credits", "7")
    path = poor.start("crawl", url=pages.url("/"))
    assert poor.scrape(pages.url("/p/1")).status in {200, 402}
    status = poor.ended(path)
    assert status["completed"] == status["creditsUsed"] == 7
    assert status["warning"].startswith("The limit was lowered from 10000 to 7 pages")
    assert poor.remaining() == 0


def test_pages_that_fail_cost_nothing_in_a_batch(team, pages):
    poor = team("--credits", "6")
    urls = [
        pages.url("/p/1"),
        "http://127.0.0.2:2/",
        pages.url("/p/1"),
        pages.url("/pdf"),
    ]
    status = poor.ended(poor.start("batch/scrape", urls=urls, maxAge=0))
    assert (status["total"], status["completed"], status["creditsUsed"]) == (4, 3, 5)
    assert (poor.remaining(), poor.charged()) == (1, 5)


def test_a_page_that_the_team_cannot_pay_is_an_error_of_the_job(team, pages):
    poor = team("--credits", "2")
    path = poor.start(
        "batch/scrape", urls=[pages.url("/pdf"), pages.url("/p/1")], maxAge=0
    )
    status = poor.ended(path)
    assert (status["completed"], status["creditsUsed"]) == (1, 1)
    [error] = poor.get(path + "/errors").json["errors"]
    assert error["code"] == "INSUFFICIENT_CREDITS"
    assert poor.remaining() == 1


def test_a_cancelled_job_gives_its_credits_back(team, site):
    poor = team("--credits", "50")
    urls = [site.url("/delay/600")] * 40
    path = poor.start("batch/scrape", urls=urls, timeout=200_000)
    assert poor.remaining() == 10
    assert poor.service.request("DELETE", path, key=poor.key).status == 200
    assert poor.remaining() == 50
    assert poor.scrape(site.url("/text")).status == 200
    assert poor.remaining() == 49


def test_added_urls_cost_credits(team, pages):
    poor = team("--credits", "3")
    urls = [pages.url("/p/1")] * 2
    path = poor.start("batch/scrape", urls=urls, maxAge=0)
    poor.ended(path)
    more = {"urls": urls, "appendToId": path.rpartition("/")[2], "maxAge": 0}
    assert poor.post("/v2/batch/scrape", more).status == 402
    assert poor.post("/v2/batch/scrape", {**more, "urls": urls[:1]}).status == 200
    assert wait_until(lambda: poor.ended(path)["completed"] == 3)
    assert (poor.remaining(), poor.charged()) == (0, 3)


def test_a_client_that_disconnects_pays_nothing(team, site):
    poor = team("--credits", "2")
    with pytest.raises(TimeoutError):
        _call_and_leave(poor, site.url("/delay/30"))
    wait_until(lambda: poor.remaining() == 2)
    assert poor.charged() == 0


def _call_and_leave(team, url):
    import http.client
    import json
    from urllib.parse import urlsplit

    connection = http.client.HTTPConnection(
        urlsplit(team.service.url).netloc, timeout=1
    )
    headers = {"Authorization": f"Bearer {team.key}"}
    try:
        connection.request("POST", "/v2/scrape", json.dumps({"url": url}), headers)
        connection.getresponse()
    finally:
        connection.close()


@pytest.mark.full
def test_credits_add_up_after_a_crash(start_service, tmp_path, site):
    lease = {"SCRAPER_LEASE_S": "2"}
    service = start_service(**lease)
    poor = Team(service, tmp_path, "--credits", "100")
    urls = [site.url(f"/text?{n}") for n in range(30)] + [site.url("/delay/2")] * 3
    path = poor.start("batch/scrape", urls=urls, maxAge=0)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(lambda: poor.scrape(site.url("/delay/20")))
        held = "SELECT count(*) FROM hold WHERE team_id = :team"
        wait_until(lambda: poor.rows(held) == [(4,)])
        wait_until(lambda: poor.get(path).json["completed"] >= 10)
        kill(service)
    poor.service = start_service(**lease)
    status = poor.ended(path)
    assert status["completed"] == status["creditsUsed"] == poor.charged() == 33
    wait_until(lambda: poor.remaining() == 67)


def test_a_team_without_a_balance_has_no_spending_limit(team, pages):
    rich = team()
    assert rich.remaining() == UNLIMITED
    assert rich.scrape(pages.url("/p/1")).status == 200
    wait_until(lambda: rich.charged() == 1)
    assert rich.remaining() == UNLIMITED


# -- rates ----------------------------------------------------------------------------------


def test_parallel_calls_pass_up_to_the_rate_limit(team, pages):
    busy = team("--rate", "scrape=20")
    statuses = busy.together(200, lambda: busy.scrape(pages.url("/p/1")))
    assert statuses == {200: 20, 429: 180}
    reply = busy.scrape(pages.url("/p/1"))
    assert 1 <= int(reply.headers["Retry-After"]) <= 60
    text = reply.json["error"]
    assert text.startswith("Rate limit exceeded. Consumed (req/min): 20, remaining")
    assert f"retry after {reply.headers['Retry-After']}s, resets at 20" in text


def test_modes_have_rates_of_their_own(team, pages):
    busy = team("--rate", "crawl=1", "--rate", "account=1", "--rate", "crawlStatus=2")
    path = busy.start("crawl", url=pages.url("/p/1"), limit=1)
    used = {"x-idempotency-key": str(uuid.uuid4())}
    body = {"url": pages.url("/p/1"), "nonsense": 1}
    assert busy.post("/v1/crawl", body, headers=used).status == 429
    assert [busy.get(path).status for _ in range(3)] == [200, 200, 429]
    assert busy.get("/v1/concurrency-check").status == 429
    assert [busy.get("/v2/team/activity").status for _ in range(2)] == [200, 429]
    assert busy.scrape(pages.url("/p/1")).status == 200
    # A refused call does not use its idempotency key.
    busy.set("--rate", "crawl=0")
    time.sleep(1.1)  # for that long a key is remembered with its team
    good = {"url": pages.url("/p/1"), "limit": 1}
    assert busy.post("/v1/crawl", good, headers=used).status == 200


def test_keys_of_one_team_share_a_rate_limit_and_other_teams_have_their_own(
    team, pages
):
    busy, other = team("--rate", "map=2"), team("--rate", "map=2")
    second = busy.further_key()
    body = {"url": pages.url("/p/1")}
    statuses = [
        busy.service.post("/v1/map", body, key=key).status
        for key in (busy.key, second, busy.key, second, other.key)
    ]
    assert statuses == [200, 200, 429, 429, 200]


@pytest.mark.slow
def test_the_rate_limit_survives_a_restart_and_applies_to_all_teams(
    start_service, tmp_path
):
    limits = {"SCRAPER_RATE_LIMITS": "account=3"}
    service = start_service(**limits)
    path = "/v2/team/queue-status"
    assert [service.get(path).status for _ in range(2)] == [200, 200]
    service.stop()
    service = start_service(**limits)
    assert [service.get(path).status for _ in range(2)] == [200, 429]
    own = Team(service, tmp_path, "--rate", "account=0")
    assert [own.get(path).status for _ in range(5)] == [200] * 5


# -- concurrency ------------------------------------------------------------------------------


def test_jobs_and_scrapes_of_a_team_share_its_concurrency(team, gauge):
    narrow = team("--concurrency", "3")
    gauge.gate.clear()
    paths = [
        narrow.start(
            "batch/scrape",
            urls=[gauge.url(f"/{kind}/{n}") for n in range(12)],
            timeout=200_000,
        )
        for kind in ("a", "b")
    ]
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        calls = [threads.submit(narrow.scrape, gauge.url(f"/s/{n}")) for n in range(6)]
        wait_until(lambda: gauge.now == 3)
        queue = "/v2/team/queue-status"
        wait_until(lambda: narrow.get(queue).json["jobsInQueue"] == 24 + 6)
        gauge.gate.set()
        replies = [call.result() for call in calls]
    assert [reply.status for reply in replies] == [200] * 6
    statuses = [narrow.ended(path) for path in paths]
    assert [status["completed"] for status in statuses] == [12, 12]
    assert gauge.most == 3
    pages = [*(p for status in statuses for p in status["data"])]
    pages += [reply.json["data"] for reply in replies]
    late = [p for p in pages if p["metadata"].get("concurrencyLimited")]
    # Pages of jobs end in groups of up to three, by their common commit. Of those that follow
    # a group, the first has waited, and the others may find their places free.
    assert len(late) >= (len(pages) - 3) / 3
    scraped = [reply.json["data"]["metadata"] for reply in replies]
    assert sum(each.get("concurrencyLimited", False) for each in scraped) >= 3
    for found in late:
        assert found["metadata"]["concurrencyLimited"] is True
        assert found["metadata"]["concurrencyQueueDurationMs"] >= 0
        assert "had as many under way as it may have" in found["warning"]
    assert all("warning" not in p for p in pages if p not in late)
    # Jobs take turns: the second did not wait for the end of the first.
    firsts = [path[1] for path in gauge.asked[:18]]
    assert min(firsts.count("a"), firsts.count("b")) >= 3


def test_a_team_at_its_limit_does_not_delay_other_teams(team, gauge, site):
    narrow, other = team("--concurrency", "1"), team("--concurrency", "1")
    gauge.gate.clear()
    urls = [gauge.url(f"/{n}") for n in range(500)]
    path = narrow.start("batch/scrape", urls=urls, timeout=200_000)
    wait_until(lambda: gauge.now)
    reply = other.scrape(site.url("/text"))
    assert reply.status == 200
    assert "concurrencyLimited" not in reply.json["data"]["metadata"]
    status = narrow.get("/v2/team/queue-status").json
    assert status["activeJobsInQueue"] <= 1
    assert status["waitingJobsInQueue"] >= 400
    assert status["maxConcurrency"] == 1
    check = narrow.get("/v1/concurrency-check").json
    assert check == {"success": True, "concurrency": 1, "maxConcurrency": 1}
    narrow.service.request("DELETE", path, key=narrow.key)


def test_a_scrape_that_waits_too_long_for_a_permit_times_out(team, gauge):
    narrow = team("--concurrency", "1")
    gauge.gate.clear()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        first = threads.submit(narrow.scrape, gauge.url("/1"))
        wait_until(lambda: gauge.now)
        reply = narrow.scrape(gauge.url("/2"), timeout=1000)
        assert reply.status == 408
        assert reply.json["code"] == "CONCURRENCY_QUEUE_TIMEOUT"
        gauge.gate.set()
        assert first.result().status == 200
    assert gauge.asked == ["/1"]


@pytest.mark.slow
def test_two_processes_share_the_concurrency_of_a_team(start_service, tmp_path, gauge):
    services = [start_service(), start_service()]
    narrow = Team(services[0], tmp_path, "--concurrency", "4")
    gauge.wait_s = 0.2

    def call(n):
        found = services[n % 2].post(
            "/v2/scrape", {"url": gauge.url(f"/{n}")}, key=narrow.key
        )
        return n % 2, found.status

    with concurrent.futures.ThreadPoolExecutor(40) as threads:
        replies = Counter(threads.map(call, range(40)))
    assert replies == {(0, 200): 20, (1, 200): 20}
    assert gauge.most <= 4


@pytest.mark.full
def test_scrapes_above_the_queue_limit_get_a_429(start_service, tmp_path, gauge):
    service = start_service(SCRAPER_MAX_QUEUED_SCRAPES="2", SCRAPER_MAX_ACTIVE_JOBS="2")
    narrow = Team(service, tmp_path, "--concurrency", "1")
    gauge.gate.clear()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(narrow.scrape, gauge.url("/1")) for _ in range(8)]
        wait_until(lambda: sum(call.done() for call in calls) == 5)
        gauge.gate.set()
        statuses = Counter(call.result().status for call in calls)
    assert statuses == {200: 3, 429: 5}
    gauge.gate.clear()
    body = {"urls": [gauge.url("/1")] * 4, "timeout": 200_000}
    statuses = narrow.together(6, lambda: narrow.post("/v2/batch/scrape", body))
    assert statuses == {200: 2, 429: 4}
    reply = narrow.post("/v2/batch/scrape", body)
    assert int(reply.headers["Retry-After"]) > 0
    other = Team(service, tmp_path)
    assert other.post("/v2/batch/scrape", {"urls": [gauge.url("/1")]}).status == 200
    gauge.gate.set()


@pytest.mark.slow
def test_a_team_with_many_jobs_leaves_capacity_to_another_team(
    start_service, tmp_path, gauge
):
    service = start_service(SCRAPER_MAX_RUNNING_JOBS="4")
    many, few = Team(service, tmp_path), Team(service, tmp_path)
    gauge.wait_s = 0.3
    urls = [gauge.url(f"/many/{n}") for n in range(1000)]
    paths = [many.start("batch/scrape", urls=urls, maxAge=0) for _ in range(8)]
    wait_until(lambda: gauge.now)
    path = few.start("batch/scrape", urls=[gauge.url("/few")], maxAge=0)
    assert few.ended(path)["completed"] == 1
    assert all(many.get(each).json["status"] == "scraping" for each in paths)
    for each in paths:
        service.request("DELETE", each, key=many.key)


# -- blocked sites ------------------------------------------------------------------------------

REFUSED = {
    "success": False,
    "code": "UNSUPPORTED_SITE",
    "error": "The operator of this service does not allow this site.",
}


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(
    "url",
    [
        f"http://{BLOCKED}:99/x",
        "https://blocked.example",
        "a.B.Blocked.example/p?q",
        "http://bücher.example/",
        "http://0x7f.0.0.3/",
    ],
)
def test_blocked_sites_are_refused_before_anything_is_checked(team, version, url):
    poor = team("--credits", "0")
    for path in ("scrape", "map", "crawl"):
        reply = poor.post(f"/{version}/{path}", {"url": url, "nonsense": 1})
        assert (reply.status, reply.json) == (403, REFUSED), path
    urls = ["http://127.0.0.2/", url]
    reply = poor.post(f"/{version}/batch/scrape", {"urls": urls})
    assert (reply.status, reply.json) == (403, REFUSED)


@pytest.mark.parametrize("url", ["http://notblocked.example/", "http://127.0.0.2:2/"])
def test_other_sites_are_not_blocked(team, url):
    assert team().scrape(url).json["code"] != "UNSUPPORTED_SITE"


def test_a_redirect_to_a_blocked_site_ends_there(team, pages):
    reply = team().scrape(pages.url("/moved"))
    assert (reply.status, reply.json) == (403, REFUSED)


def test_a_caller_cannot_allow_a_blocked_site(team, pages):
    rules = {"mode": "manual-only", "whitelist": [BLOCKED]}
    for url in (f"http://{BLOCKED}/x", pages.url("/moved")):
        reply = team().post("/v2/scrape", {"url": url, "threatProtection": rules})
        assert (reply.status, reply.json) == (403, REFUSED)


def test_a_crawl_skips_links_to_blocked_sites_and_names_the_reason(team, pages):
    rich = team()
    url = pages.url("/out")
    path = rich.start("crawl", url=url, crawlEntireDomain=True, allowExternalLinks=True)
    status = rich.ended(path)
    assert (status["total"], status["completed"]) == (2, 2)
    skipped = rich.get(f"{path}/urls?state=skipped&reason=blocked_site").json["urls"]
    assert [found["url"] for found in skipped] == [
        f"http://{BLOCKED}/x",
        f"http://{BLOCKED}:81/y",
    ]
    assert skipped[0]["detail"] == REFUSED["error"]
