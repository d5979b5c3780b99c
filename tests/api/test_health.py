"""Health: live, ready, and the truth of ``/health`` while a part of the service fails."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

from scraper_service.api.errors import NO_SUCH_PATH
from scraper_service.services.observability.health import Health, HealthCheck, Unhealthy
from scraper_service.storage.database import HEAD
from tests.conftest import Service
from tests.process.test_service import converters_of
from tools.bench.postgres import Postgres, PostgresMissing, find_programs

PATHS = ("/health", "/health/ready")
DISK_MB = 32  # of the disk that the service of these tests has
MIN_DISK_MB = 4
#: A conversion takes at most that long; so may the notice that none is made.
PATIENCE_S = 60


def until(condition, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def states(service):
    """Return the checks that fail, with their reasons."""
    reply = service.get("/health/ready", key=None)
    failing = {k: v for k, v in reply.json["checks"].items() if v != "ok"}
    assert reply.status == (503 if failing else 200)
    assert reply.json["success"] is not bool(failing)
    return failing


def assert_fails(service, name, text=""):
    """Wait until a check fails, alone; then all addresses tell the truth."""
    until(lambda: name in states(service))
    until(lambda: list(states(service)) == [name])
    assert text in states(service)[name]
    for path in PATHS:
        reply = service.get(path, key=None)
        assert reply.status == 503
        assert reply.headers["Retry-After"].isdigit()
        assert reply.json["success"] is False
        assert reply.json["status"] == "failing"
        assert f"{name}: " in reply.json["error"]
    reply = service.get("/health/live", key=None)
    assert (reply.status, reply.json) == (200, {"success": True, "status": "ok"})


def assert_recovers(service):
    until(lambda: not states(service))
    assert service.get("/health", key=None).status == 200


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A folder, on a small disk of its own where we may mount one."""
    folder = tmp_path_factory.mktemp("disk")
    command = ("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder))
    done = subprocess.run(command, capture_output=True, check=False)
    yield folder
    if done.returncode == 0:
        subprocess.run(("umount", "-l", str(folder)), check=True)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """What stands in for a browser: a program that is never started here."""
    found = tmp_path_factory.mktemp("browser") / "chromium"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    return found


@pytest.fixture(scope="module")
def frail(disk, program):
    with Service(
        disk,
        SCRAPER_RENDER="always",
        SCRAPER_CHROMIUM_PATH=str(program),
        SCRAPER_BROWSER_SANDBOX="false",
        SCRAPER_MIN_DISK_MB=str(MIN_DISK_MB),
        SCRAPER_CONVERTER_PROCESSES="2",
    ) as running:
        yield running


def test_all_is_well(service):
    until(lambda: not states(service))  # other tests may keep it busy
    reply = service.get("/health", key=None)
    assert reply.status == 200
    assert reply.json.keys() == {
        *("success", "status", "pendingMaps", "pendingScrapes", "pendingSearches"),
        *("watchers", "loopLagP99Ms", "runningJobs", "runningOperations"),
        *("workers", "warnings"),
    }
    assert (reply.json["success"], reply.json["status"]) == (True, "ok")
    ready = service.get("/health/ready", key=None)
    assert ready.json.pop("version")
    assert ready.json == {
        "success": True,
        "status": "ok",
        "schemaVersion": HEAD,
        "checks": dict.fromkeys(("database", "disk", "converters", "eventLoop"), "ok"),
    }
    live = service.get("/health/live", key=None)
    assert (live.status, live.json) == (200, {"success": True, "status": "ok"})


@pytest.mark.parametrize("path", ["/health/", "//health", "/health//ready/"])
def test_slashes_make_no_difference(service, path):
    assert service.get(path, key=None).json["status"] in {"ok", "failing"}


@pytest.mark.parametrize(
    "path",
    [
        "/health/none-such",
        "/health/ready/x",
        "/health/live/x",
        "/health/x/y",
        "/healthy",
    ],
)
def test_paths_below_health_are_404(service, path):
    reply = service.get(path, key=None)
    assert reply.status == 404
    assert reply.json == {"success": False, "error": NO_SUCH_PATH}


@pytest.mark.parametrize("path", [*PATHS, "/health/live"])
def test_health_accepts_only_get_and_head(service, path):
    reply = service.post(path, {}, key=None)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")
    reply = service.request("HEAD", path, key=None)
    assert reply.status in {200, 503}
    assert reply.json is None


def fill(path, size):
    """Write until a file has a size or the disk is full."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with contextlib.suppress(OSError):
        while os.fstat(file).st_size < size:
            os.write(file, bytes(4096))
    os.close(file)


def test_a_full_disk(frail, disk):
    if not os.path.ismount(disk):
        pytest.skip("only root may mount a small disk")
    ballast = disk / "ballast"
    fill(ballast, (DISK_MB - MIN_DISK_MB + 1) * 2**20)
    assert_fails(frail, "disk", "fewer than SCRAPER_MIN_DISK_MB")
    fill(ballast, DISK_MB * 2**20)
    until(lambda: "cannot be written to" in states(frail).get("disk", ""))
    ballast.unlink()
    assert_recovers(frail)


def test_a_disk_that_accepts_no_writes_makes_health_503(frail):
    limits = resource.prlimit(frail.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(frail.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        until(lambda: "cannot be written to" in states(frail).get("disk", ""))
        assert frail.get("/health").status == 503
    finally:
        resource.prlimit(frail.pid, resource.RLIMIT_FSIZE, limits)
    assert_recovers(frail)


def test_a_locked_database(frail, disk):
    other = sqlite3.connect(disk / "jobs.sqlite", isolation_level=None, timeout=60)
    with contextlib.closing(other):
        other.execute("BEGIN IMMEDIATE")
        assert_fails(frail, "database")
        other.execute("ROLLBACK")
    assert_recovers(frail)


def test_a_flood_of_calls_costs_little(frail, disk):
    """Also while a check hangs: one of a kind is under way."""
    other = sqlite3.connect(disk / "jobs.sqlite", isolation_level=None, timeout=60)
    with contextlib.closing(other):
        other.execute("BEGIN IMMEDIATE")
        assert_fails(frail, "database")
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(20) as threads:
            replies = list(
                threads.map(lambda n: frail.get(PATHS[n % 2], key=None), range(200))
            )
        assert {reply.status for reply in replies} == {503}
        taken_s = time.monotonic() - begin
        other.execute("ROLLBACK")
    assert_recovers(frail)
    logged = frail.stderr.count("the job database failed")
    assert logged <= taken_s + PATIENCE_S


def test_converters_that_are_stopped(frail):
    assert_recovers(frail)
    assert converters_of(frail.pid)
    is_over = threading.Event()

    def stop_all():
        """Stop converters, and those that replace them."""
        while not is_over.wait(0.05):
            for pid in converters_of(frail.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)

    stopping = threading.Thread(target=stop_all)
    stopping.start()
    try:
        assert_fails(frail, "converters", "converter processes are")
    finally:
        is_over.set()
        stopping.join()
        for pid in converters_of(frail.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert_recovers(frail)


def test_a_browser_that_is_gone(frail, program):
    assert_recovers(frail)
    hidden = program.with_name("hidden")
    program.rename(hidden)
    try:
        assert_fails(frail, "browser", str(program))
    finally:
        hidden.rename(program)
    assert_recovers(frail)


def test_a_missing_browser_is_unhealthy_if_all_pages_need_a_browser(start_service):
    service = start_service(SCRAPER_RENDER="always", SCRAPER_CHROMIUM_PATH="/none/such")
    assert_fails(
        service, "browser", "no program is at SCRAPER_CHROMIUM_PATH (/none/such)"
    )


@pytest.mark.full
def test_a_database_server_that_is_down(tmp_path):
    try:
        server = Postgres()
    except PostgresMissing as error:
        pytest.skip(str(error))
    with (
        server,
        Service(tmp_path, SCRAPER_DATABASE_URL=server()) as service,
    ):
        assert_recovers(service)
        server._process.send_signal(signal.SIGINT)
        server._process.wait(30)
        assert_fails(service, "database", "job database")
        server._process = server._start(find_programs())
        server._wait()
        assert_recovers(service)


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_gets_ready_and_watchdog_messages(start_service, tmp_path, is_abstract):
    name = f"\0{tmp_path}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name)
        manager.settimeout(PATIENCE_S)
        service = start_service(
            NOTIFY_SOCKET=name.replace("\0", "@"), WATCHDOG_USEC="200000"
        )
        told = [manager.recv(100) for _ in range(4)]
        assert told == [b"READY=1", *[b"WATCHDOG=1"] * 3]
        assert service.get("/health/live").status == 200
        assert service.stop() == 0
        told = [manager.recv(100)]
        while told[-1] == b"WATCHDOG=1":
            told.append(manager.recv(100))
        assert told[-1] == b"STOPPING=1"


# -- checks by themselves ------------------------------------------------------------------


def reported(*checks, stopping=False):
    return Health(checks, lambda: stopping).report()


def test_a_check_that_hangs_fails_and_is_begun_once():
    began, release = [], asyncio.Event()

    async def hang():
        began.append(1)
        await release.wait()

    async def scenario():
        check = HealthCheck("slow", hang, limit_s=0.2, every_s=0)
        reports = await asyncio.gather(*(reported(check) for _ in range(50)))
        assert not any(report.is_ready for report in reports)
        assert "no answer" in reports[0].checks["slow"]
        assert not (await reported(check)).is_ready
        assert len(began) == 1
        release.set()
        await asyncio.sleep(0)
        assert (await reported(check)).is_ready

    asyncio.run(scenario())


def test_a_running_check_reports_the_previous_result_within_its_limit():
    release = asyncio.Event()
    results = iter([None, Unhealthy("broken")])

    async def run():
        if (result := next(results)) is not None:
            await release.wait()
            raise result

    async def scenario():
        check = HealthCheck("busy", run, limit_s=60, every_s=0)
        assert (await reported(check)).is_ready
        assert (await reported(check)).is_ready  # the next one is under way
        release.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        check.every_s = 60
        assert (await reported(check)).checks == {"busy": "broken"}

    asyncio.run(scenario())


def test_a_check_that_breaks_is_a_failure():
    async def broken():
        raise KeyError("x")

    report = asyncio.run(reported(HealthCheck("odd", broken)))
    assert report.members() == {
        "success": False,
        "status": "failing",
        "checks": {"odd": "the check failed (KeyError: 'x')"},
        "error": "The service is not ready (odd: the check failed (KeyError: 'x')).",
    }


def test_a_service_that_stops_is_not_ready():
    async def fine():
        pass

    report = asyncio.run(reported(HealthCheck("fine", fine), stopping=True))
    assert not report.is_ready
    assert report.members()["status"] == "stopping"
    assert "shutting down" in report.members()["error"]
