"""Services without jobs, and workers that run them: together exact, fair, replaceable."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from click.testing import CliRunner

from scraper_service.cli.main import main
from tests.cli import command
from tests.support import monitors
from tests.support.crash import fetches, kill, started
from tests.support.linked_site import named
from tests.support.pgbouncer import PROGRAM, PgBouncer
from tests.support.waiting import wait_until
from tests.support.workers import KEYS, LEASE_S, NO_JOBS, Fleet, Worker


@pytest.fixture
def fleet(postgres, tmp_path, start_service):
    """Return a function that starts a fleet."""
    with ExitStack() as stack:
        yield lambda url=None, **settings: Fleet(
            stack, url or postgres(), tmp_path, start_service, **settings
        )


def test_a_service_without_workers_warns_that_jobs_wait(fleet, site):
    all_ = fleet()
    path = all_.crawl(site, "3-waits")
    wait_until(lambda: len(all_.health()["warnings"]) == 3)
    assert "No process runs crawls and batches" in all_.health()["warnings"][0]
    assert "SCRAPER_MAX_RUNNING_JOBS" in all_.api.stderr
    assert all_.api.get("/health/ready", key=None).status == 200
    [job] = all_.api.get("/v2/jobs").json["jobs"]
    assert job["state"] == "queued"
    assert all_.health()["workers"] == {"service": 1}
    worker = all_.worker()
    wait_until(lambda: all_.api.get(path).json["status"] == "completed")
    wait_until(lambda: all_.health()["warnings"] == [])
    assert all_.health()["workers"] == {"service": 1, "worker": 1}
    assert all_.health()["runningJobs"] == 0
    assert worker.get("/health/live", key=None).status == 200
    assert worker.get("/health/ready", key=None).json["checks"]["database"] == "ok"
    assert worker.get("/v2/crawl/active").status == 404
    assert worker.get("/").status == 200


@pytest.mark.full
def test_small_crawls_of_teams_end_exactly_and_fairly(fleet, site):
    all_ = fleet(SCRAPER_MAX_RUNNING_JOBS="2")
    counts = Counter()
    for team, crawls in enumerate((11, 3, 3, 3)):
        for n in range(crawls):
            name = f"{5 + n}-slow20-smallteam{team}n{n}"
            all_.crawl(site, name, limit=5, key=KEYS[team])
            counts[team] += 1
    workers = [all_.worker(), all_.worker()]
    ended = "SELECT count(*) FROM job WHERE state = 'completed'"
    wait_until(lambda: all_.rows(ended) == [(sum(counts.values()),)])
    exact = all_.rows(
        "SELECT count(*), sum(pages), sum(credits),"
        " (SELECT count(*) FROM page), (SELECT sum(credits) FROM ledger),"
        " (SELECT count(*) FROM event WHERE kind = 'page'),"
        " (SELECT count(*) FROM event WHERE kind = 'completed'),"
        " max(pages), sum(reserved) FROM job"
    )
    assert [*map(int, exact[0])] == [20, 100, 100, 100, 100, 100, 20, 5, 0]
    assert site_requests(site, "smallteam") == 100
    # The first team has more than half of the crawls, stored first. The others need not wait.
    order = all_.rows(
        "SELECT team_id, rank() OVER (ORDER BY created_at) FROM job"
        " ORDER BY completed_at"
    )
    large = next(team for team, rank in order if rank == 1)
    others = [place for place, (team, _) in enumerate(order) if team != large]
    assert sum(others) / len(others) < 9, order
    assert others[-1] < 17, order
    # Both workers took part, and few small crawls had two of them.
    owners = Counter(owner for (owner,) in all_.rows("SELECT owner FROM run"))
    assert len(owners) == len(workers)
    assert owners.total() < 30, owners  # with those that gave way for a while


def site_requests(site, part):
    return sum(part in path and "/p/" in path for path in site.paths("/site/"))


@pytest.fixture
def pooled(postgres):
    """Return the URL of a database, behind PgBouncer where it is installed."""
    with ExitStack() as stack:
        url = postgres()
        yield stack.enter_context(PgBouncer(url)).url if PROGRAM else url


@pytest.mark.full
def test_workers_are_replaced_and_killed_during_a_crawl(pooled, fleet, site):
    all_ = fleet(pooled)
    workers = [all_.worker(), all_.worker()]
    name = "500-slow200-rolls"  # starts of workers take seconds on a busy machine
    job = all_.watched(site, name)
    newer = []
    for number, worker in enumerate(workers):
        done = 50 * (1 + number)
        wait_until(lambda d=done: job.poll(all_.api) and job.completed >= d)
        newer.append(all_.worker())
        assert worker.stop() == 0, worker.stderr
    fetched = fetches(site, f"/site/{name}/")
    assert fetched.total() - len(fetched) <= 2, "pages were fetched twice"
    assert all_.rows("SELECT kind FROM worker WHERE drains") == []
    wait_until(lambda: job.poll(all_.api) and job.completed >= 150)
    assert job.state == "scraping"
    kill(newer[0])
    job.kills = 1
    job.wait(all_.api)
    job.check(all_.api)


@pytest.mark.full
def test_a_worker_that_drains_ends_its_pages_and_returns_all_others(fleet, site):
    all_ = fleet()
    worker = all_.worker()
    name = f"24-slow{1000 * (LEASE_S + 2)}-drains"
    urls = [site.url(named(name).path(number)) for number in range(1, 24)]
    started(all_.api.post("/v2/batch/scrape", {"urls": urls}))
    leased = "SELECT count(*) FROM frontier WHERE state = 2"
    running = lambda: site_requests(site, "drains")  # noqa: E731
    wait_until(lambda: all_.rows(leased)[0][0] > running() > 0)
    os.kill(worker.pid, signal.SIGTERM)
    wait_until(lambda: all_.rows("SELECT id FROM worker WHERE drains"))
    wait_until(lambda: all_.rows(leased) == [(running(),)])
    found = listed(all_)
    assert {each["kind"]: each["drains"] for each in found} == {
        "service": False,
        "worker": True,
    }
    assert worker.is_running
    # The service would take over pages without heartbeats before they end.
    wait_until(lambda: not worker.is_running)
    assert worker.stop() == 0, worker.stderr
    assert all_.rows("SELECT done, open FROM job") == [(running(), 23 - running())]
    assert [each["kind"] for each in listed(all_)] == ["service"]


def test_a_second_signal_ends_a_worker_at_once(fleet, site):
    all_ = fleet()
    worker = all_.worker()
    all_.crawl(site, "40-slow20000-signals")
    wait_until(lambda: site_requests(site, "signals"))
    os.kill(worker.pid, signal.SIGTERM)
    wait_until(lambda: "stopping after" in worker.stderr)
    time.sleep(0.6)  # signals that come together count once
    os.kill(worker.pid, signal.SIGTERM)
    wait_until(lambda: not worker.is_running)


def listed(all_):
    """Return what `scraper-service workers --json` prints."""
    return [json.loads(line) for line in all_.command("workers", "--json").splitlines()]


def test_a_worker_runs_model_jobs_and_checks_too(fleet, site):
    all_ = fleet()
    worker = all_.worker()
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    body = {"urls": [site.url("/text")], "schema": schema}
    reply = all_.api.post("/v2/extract", body)
    assert reply.status == 200, reply
    path = f"/v2/extract/{reply.json['id']}"
    wait_until(lambda: all_.api.get(path).json["status"] == "completed")
    monitor = monitors.create(all_.api, monitors.scrape(site.url("/text")))
    check = monitors.run(all_.api, monitor)
    assert [each["status"] for each in check["pages"]] == ["new"]
    [service, found] = listed(all_)
    assert (service["kind"], service["takes"]) == ("service", [])
    assert (found["kind"], found["pid"]) == ("worker", worker.pid)
    assert found["takes"] == ["jobs", "operations", "checks"]


def test_a_worker_shares_the_folder_of_a_service(start_service, tmp_path, site):
    service = start_service(tmp_path, **NO_JOBS)
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # of systemd
    address = str(tmp_path / "notify")
    manager.bind(address)
    with manager, Worker(tmp_path, NOTIFY_SOCKET=address):
        assert manager.recv(100) == b"READY=1"
        body = {"urls": [site.url("/text")]}
        path = started(service.post("/v2/batch/scrape", body))
        wait_until(lambda: service.get(path).json["status"] == "completed")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "there is no job database in"),
        ({"DATABASE_URL": "postgresql://a@127.0.0.1:1/b"}, "needs the secret"),
    ],
)
def test_a_worker_needs_a_service(settings, text, tmp_path, monkeypatch):
    monkeypatch.delenv("SCRAPER_KEY_SECRET", raising=False)
    sets = [word for k, v in settings.items() for word in ("-s", f"{k}={v}")]
    done = CliRunner().invoke(main, [*sets, "worker", "--data-dir", str(tmp_path)])
    assert done.exit_code == 1
    assert text in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_worker_with_another_secret_does_not_start(fleet):
    all_ = fleet()
    with pytest.raises(RuntimeError, match="not that of the services"):
        all_.worker(SCRAPER_KEY_SECRET="another")


def test_a_command_runs_its_job_if_services_run_no_jobs(site, tmp_path):
    url = site.url("/text")
    words = ("crawl", url, "--limit", "1")
    done = command.run(tmp_path, *words, SCRAPER_MAX_RUNNING_JOBS="0")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr
