"""The service as a process: start, first key, stop, crash, bad settings."""

from __future__ import annotations

import concurrent.futures
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import forked_start
from tests.support.waiting import wait_until

SERVE = (sys.executable, "-m", "scraper_service", "serve", "--port", "0")


def children_of(pid):
    """Return the processes below ``pid``."""
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            todo += map(int, task.read_text().split())
        found.append(parent)
    return found[1:]


def is_gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def converters_of(pid):
    """Return the converter processes of the service ``pid``."""
    return [child for child in children_of(pid) if _name_of(child) == "converter"]


def _name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.full
def test_converters_of_the_installed_command_load_no_commands(tmp_path):
    command = Path(sys.executable).parent / "scraper-service"
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    log = tmp_path / "imports"
    with (
        log.open("w") as imports,
        subprocess.Popen(
            (command, *SERVE[3:], "--data-dir", tmp_path / "data"),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=imports,
        ) as process,
    ):
        assert process.stdout.readline().startswith(b"listening on ")
        process.send_signal(signal.SIGTERM)
    names = [line.rpartition("|")[2].strip() for line in log.read_text().splitlines()]
    assert names.count("scraper_service.content.convert") == 1  # for all converters
    assert names.count("scraper_service.cli.main") == 1


@pytest.mark.full
def test_the_first_start_names_a_command_that_makes_keys(tmp_path):
    folder = tmp_path / "my data"
    command = Path(sys.executable).parent / "scraper-service"
    serve = (command, *SERVE[3:], "--data-dir", folder)
    environment = {**os.environ, "PATH": os.defpath}
    with subprocess.Popen(
        serve, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        said = iter(process.stdout.readline, b"")
        line = next(text for text in said if text.startswith(b"More keys: "))
        made = subprocess.run(
            ("sh", "-c", line.decode().removeprefix("More keys: ")),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        process.send_signal(signal.SIGTERM)
    assert made.stdout.startswith("fc-"), made.stderr


def test_the_first_start_prints_a_key_and_a_command_that_works(tmp_path, site):
    environment = {**os.environ, "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32"}
    data_dir = tmp_path / "data"
    command = (*SERVE, "--data-dir", str(data_dir))
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        lines = []
        while not any("keys create" in line for line in lines):
            lines.append(process.stdout.readline().decode())
        text = "".join(lines)
        curl = next(line for line in lines if line.strip().startswith("curl"))
        curl = curl.replace("https://example.org", site.url("/text"))
        answer = subprocess.run(shlex.split(curl), capture_output=True, check=True)
        process.send_signal(signal.SIGTERM)
    key = re.search(r"fc-[0-9a-f]{64}", text)[0]
    assert b'"success":true' in answer.stdout
    assert process.returncode == 0
    stored = b"".join(p.read_bytes() for p in data_dir.iterdir() if p.is_file())
    assert key.removeprefix("fc-").encode() not in stored
    assert (data_dir / "key.secret").stat().st_mode & 0o077 == 0

    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        second = process.stdout.readline().decode()
        process.send_signal(signal.SIGTERM)
        second += process.stdout.read().decode()
    assert "listening on" in second
    assert "fc-" not in second


@pytest.mark.slow
def test_created_and_revoked_keys_apply_to_a_running_service_in_a_second(
    start_service, site, tmp_path
):
    service = start_service()
    body = {"url": site.url("/text")}

    def keys(*arguments):
        command = (sys.executable, "-m", "scraper_service", "keys", *arguments)
        done = subprocess.run(
            (*command, "--data-dir", str(tmp_path)), capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    key = keys("create", "--name", "mine")
    assert service.post("/v2/scrape", body, key=key).status == 200
    listed = next(line for line in keys("list").splitlines() if "mine" in line)
    assert key[-4:] in listed
    assert key not in listed
    keys("revoke", listed.split()[0])
    time.sleep(1)
    assert service.post("/v2/scrape", body, key=key).status == 401
    assert "revoked" in keys("list")


@pytest.mark.slow
def test_a_fixed_key_ends_when_it_leaves_the_settings(start_service, site):
    body = {"url": site.url("/text")}
    first = start_service(SCRAPER_API_KEYS="fc-one,fc-two")
    assert first.post("/v2/scrape", body, key="fc-one").status == 200
    assert first.stop() == 0
    second = start_service(SCRAPER_API_KEYS="fc-two,fc-three")
    statuses = [
        second.post("/v2/scrape", body, key=key).status
        for key in ("fc-one", "fc-two", "fc-three")
    ]
    assert statuses == [401, 200, 200]


def test_sigterm_finishes_running_requests_and_refuses_new_requests(
    start_service, site
):
    service = start_service()
    body = {"url": site.url("/delay/2")}
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        site.forget()
        running = [threads.submit(service.post, "/v2/scrape", body) for _ in range(8)]
        wait_until(lambda: len(site.requests) == 8)
        children = children_of(service.pid)
        assert service.stop() == 0
        replies = [future.result() for future in running]
    assert [reply.status for reply in replies] == [200] * 8
    assert children
    wait_until(lambda: all(map(is_gone, children)))


def test_a_page_delivered_just_before_sigterm_can_be_read_after_a_restart(
    start_service, site
):
    service = start_service()
    page = service.post("/v2/scrape", {"url": site.url("/text")}).json["data"]
    assert service.stop() == 0
    scrape_id = page["metadata"]["scrapeId"]
    found = start_service().get(f"/v2/scrape/{scrape_id}")
    assert found.json["data"]["markdown"] == page["markdown"]


def test_a_call_that_outlives_the_grace_time_gets_a_503(start_service, site):
    service = start_service(SCRAPER_SHUTDOWN_TIMEOUT_S="1")
    body = {"url": site.held(), "timeout": 300_000}
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        site.forget()
        running = threads.submit(service.post, "/v2/scrape", body)
        wait_until(lambda: site.requests)
        assert service.stop() == 0
        answer = running.result()
    assert answer.status == 503
    assert "is stopping" in answer.json["error"]
    assert answer.headers["Retry-After"]


def test_a_killed_service_leaves_no_child_process(start_service, site):
    service = start_service()
    assert service.post("/v2/scrape", {"url": site.url("/text")}).status == 200
    children = children_of(service.pid)
    os.kill(service.pid, signal.SIGKILL)
    wait_until(lambda: not service.is_running)
    assert children
    wait_until(lambda: all(map(is_gone, children)))


def test_a_signal_to_all_processes_finishes_running_requests(start_service, site):
    service = start_service()  # leads a group, as under a service manager or a terminal
    body = {"url": site.url("/delay/1")}
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        site.forget()
        running = threads.submit(service.post, "/v2/scrape", body)
        wait_until(lambda: site.requests)
        os.killpg(service.pid, signal.SIGTERM)
        assert running.result().status == 200
    wait_until(lambda: not service.is_running)
    assert service.stop() == 0
    assert "died" not in service.stderr


def test_a_signal_that_comes_twice_at_once_counts_once(start_service, site):
    service = start_service()
    body = {"url": site.url("/delay/1")}
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        site.forget()
        running = threads.submit(service.post, "/v2/scrape", body)
        wait_until(lambda: site.requests)
        os.kill(service.pid, signal.SIGTERM)
        wait_until(lambda: "stopping after" in service.stderr)
        os.kill(service.pid, signal.SIGTERM)
        assert running.result().status == 200
    wait_until(lambda: not service.is_running)
    assert service.stop() == 0


def test_a_second_signal_ends_the_service_at_once(start_service, site):
    service = start_service()
    children = children_of(service.pid)
    body = {"url": site.held(), "timeout": 300_000}
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        site.forget()
        running = threads.submit(service.post, "/v2/scrape", body)
        wait_until(lambda: site.requests)
        os.kill(service.pid, signal.SIGTERM)
        wait_until(lambda: "stopping after" in service.stderr)
        time.sleep(1)  # signals that come together count once
        os.kill(service.pid, signal.SIGTERM)
        assert running.exception() or running.result().status >= 400
    wait_until(lambda: not service.is_running)
    assert service.stop() == 1
    assert "running work is lost" in service.stderr
    wait_until(lambda: all(map(is_gone, children)))


def test_a_start_after_a_kill_finds_its_keys(start_service, site):
    service = start_service()
    os.kill(service.pid, signal.SIGKILL)
    wait_until(lambda: not service.is_running)
    again = start_service()
    assert again.post("/v2/scrape", {"url": site.url("/text")}).status == 200


def test_a_killed_converter_is_replaced(start_service, site):
    service = start_service(SCRAPER_CONVERTER_PROCESSES="1")
    body = {"url": site.url("/text")}
    assert service.post("/v2/scrape", body).status == 200
    converters = converters_of(service.pid)
    assert converters
    for pid in converters:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: service.post("/v2/scrape", body).status == 200)


def test_converters_see_no_secrets(start_service):
    # A variable of interpreters: the service and its children are not forked.
    service = start_service(SCRAPER_KEY_SECRET="planted", PYTHONUTF8="1")
    for pid in children_of(service.pid):
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert b"planted" not in environment
        assert b"test-key" not in environment


def run_serve(*arguments, **environment):
    variables = {**os.environ, **environment}
    arguments = (*SERVE[3:], *arguments)
    return forked_start.run(forked_start.SERVICE, arguments, variables, Path.cwd())


# A run without pytest, as that of `make compat`. It has started a service when it is killed.
KILLED_RUN = """
import sys
from pathlib import Path
from tests.conftest import Service

print(Service(Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.full
def test_a_test_run_that_is_killed_leaves_no_service(tmp_path):
    own = {k: v for k, v in os.environ.items() if k != forked_start.SOCKET}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    arguments = (sys.executable, "-c", KILLED_RUN, str(tmp_path / "data"))
    with subprocess.Popen(arguments, env=own, cwd=forked_start.ROOT, **pipes) as run:
        service = int(run.stdout.readline())
        assert not is_gone(service)
        run.kill()
    wait_until(lambda: is_gone(service))


# The first key is stored only after a signal has closed the port.
SLOW_FIRST_KEY = """
import os, signal, socket, sys, time
from scraper_service.cli.main import main
from scraper_service.storage.accounts import teams

create_key = teams.create_key

def created_at_the_end(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(3000):
        try:
            socket.create_connection(("127.0.0.1", int(sys.argv[-1]))).close()
        except ConnectionRefusedError:
            break
        time.sleep(0.01)
    return create_key(*arguments, **options)

teams.create_key = created_at_the_end
main()
"""


@pytest.mark.full
def test_a_signal_between_the_port_and_the_first_key_ends_the_start(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    serve = ("serve", "--data-dir", str(tmp_path), "--port", port)
    environment = {**os.environ, "SCRAPER_CONVERTER_PROCESSES": "1"}
    done = subprocess.run(
        (sys.executable, "-c", SLOW_FIRST_KEY, *serve),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(
        r"fc-[0-9a-f]{64}", done.stdout
    )  # it is stored: nobody sees it again


@pytest.mark.full
def test_a_port_in_use_is_an_error_and_makes_no_first_key(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run_serve("--data-dir", str(tmp_path), "--port", port)
    assert done.returncode == 1
    text = "cannot be listened on (Address already in use); end what uses it"
    assert f"127.0.0.1:{port} {text}, or use --port" in done.stderr
    assert "Traceback" not in done.stderr
    assert "listening" not in done.stdout

    command = (*SERVE, "--data-dir", str(tmp_path))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        said = [process.stdout.readline().decode() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
    assert "A first API key was made" in "".join(said)


def test_a_host_that_is_not_this_machine_is_an_error(tmp_path):
    done = run_serve("--data-dir", str(tmp_path), "--host", "service.invalid")
    assert done.returncode == 1
    assert "service.invalid:0 cannot be listened on (" in done.stderr
    assert "); set --host or SCRAPER_HOST to an address of this machine" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("SCRAPER_EGRESS_ALLOW", "nonsense", "EGRESS_ALLOW entry 'nonsense'"),
        ("SCRAPER_AUTH_ENABLED", "perhaps", "AUTH_ENABLED"),
        ("SCRAPER_HOST_CONCURRENCY", "many", "HOST_CONCURRENCY"),
        ("SCRAPER_HOST_CONCURRENCY", "0", "HOST_CONCURRENCY"),
        ("SCRAPER_DATABASE_URL", "nonsense", "DATABASE_URL"),
        ("SCRAPER_JOB_RUNNER", "nonsense", "JOB_RUNNER"),
        ("SCRAPER_LANGUAGE_MODEL", "nonsense", "LANGUAGE_MODEL"),
        ("SCRAPER_MCP_TOOLS", "firecrawl_scrap", "MCP_TOOLS"),
    ],
)
def test_a_wrong_setting_is_named_and_ends_the_start(tmp_path, name, value, text):
    done = run_serve("--data-dir", str(tmp_path), **{name: value})
    assert done.returncode != 0
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert "listening" not in done.stdout


@pytest.mark.full
def test_a_part_that_cannot_be_closed_does_not_keep_the_service(
    start_service, tmp_path
):
    path = tmp_path / "broken_runner.py"
    path.write_text(
        "from scraper_service.services.job_runner import LocalRunner\n"
        "class BrokenRunner(LocalRunner):\n"
        "    async def close(self):\n"
        "        raise RuntimeError('planted')\n"
    )
    service = start_service(
        PYTHONPATH=str(tmp_path), SCRAPER_JOB_RUNNER="broken_runner.BrokenRunner"
    )
    assert service.stop() == 0
    assert "planted" in service.stderr


def test_a_misspelt_variable_is_warned_about(start_service):
    service = start_service(SCRAPER_HOST_CONCURENCY="3")
    service.stop()
    assert "SCRAPER_HOST_CONCURENCY" in service.stderr


def test_requests_are_503_without_a_database(start_service, tmp_path):
    service = start_service()
    with sqlite3.connect(tmp_path / "jobs.sqlite") as connection:
        connection.execute("ALTER TABLE key RENAME TO hidden")
    reply = service.post("/v2/scrape", {"url": "http://127.0.0.2/"})
    assert reply.status == 503
    assert int(reply.headers["Retry-After"]) > 0
    with sqlite3.connect(tmp_path / "jobs.sqlite") as connection:
        connection.execute("ALTER TABLE hidden RENAME TO key")
    assert service.post("/v2/scrape", {}).status == 400


@pytest.mark.slow
def test_parallel_first_starts_create_one_database(tmp_path):
    command = (sys.executable, "-m", "scraper_service", "keys", "create")
    command = (*command, "--data-dir", str(tmp_path))
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    ended = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 4, ended
    with sqlite3.connect(tmp_path / "jobs.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM key").fetchone() == (4,)


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("wait_s", [0, 0.01, 0.02, 0.03, 0.04, 0.06])
def test_a_crawl_that_opens_does_not_delay_the_shutdown(start_service, site, wait_s):
    service = start_service()
    service.post("/v2/crawl", {"url": site.url("/text"), "limit": 1})
    time.sleep(wait_s)  # it opens for some hundredths of a second
    assert service.stop() == 0
    assert "still running" not in service.stderr
