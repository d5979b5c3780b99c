"""The services of the compose files, run from the folder of an image. Root only.

Docker is not needed: the names of services become addresses, of this machine or of namespaces
of its kernel. What a container may do is in :mod:`tests.support.container`.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import yaml

from tests.support.container import contained
from tests.support.crash import Invariants, crawl_of, started
from tests.support.mockserver import SITE_HOST, MockServer
from tests.support.network import Machine, Switch
from tests.support.waiting import wait_until
from tools.bench.postgres import Postgres
from tools.bench.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.image import Image

DEPLOY = ROOT / "deploy"
KEY = "fc-of-the-trial"
PORT = 3002
NODES = {"node1": "127.0.0.31", "node2": "127.0.0.32"}
GIVEN = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_KEY_SECRET": "the secret of all",
    "SCRAPYD_PASSWORD": "secret",
    "POSTGRES_PASSWORD": "replaced",
}
HARDENED = {"read_only": True, "cap_drop": ["ALL"]}
START_S = 300  # on a busy machine
PAGES = 40
SITE_OF_WORKERS = "400-slow200-workers"


def services(*names: str) -> dict[str, dict[str, Any]]:
    """Return the services of compose files; later files add to earlier ones."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        content = yaml.safe_load((DEPLOY / name).read_text())["services"]
        for service, facts in content.items():
            into = found.setdefault(service, {})
            environment = {
                **into.get("environment", {}),
                **facts.get("environment", {}),
            }
            into |= {**facts, "environment": environment}
    return found


def substituted(text: str) -> str:
    """Return a value with its variables, as compose replaces them."""
    return re.sub(
        r"\$\{(\w+)(?::[?-][^}]*)?\}", lambda match: GIVEN.get(match[1], ""), text
    )


def profile_of(service: Mapping[str, Any]) -> Path:
    """Return the seccomp profile of a service; fail for one with more rights."""
    assert {name: service.get(name) for name in HARDENED} == HARDENED
    options = dict(o.partition("=")[::2] for o in service["security_opt"])
    assert "no-new-privileges:true" in options
    return DEPLOY / options["seccomp"]


class Container:
    """A running service of a compose file, a context manager; it must end by itself.

    After SIGTERM it has the time that the file gives it.
    """

    def __init__(self, image: Image, service: Mapping[str, Any], **more: str):
        command = service.get("command") or image.commands["CMD"]
        environment = {k: substituted(v) for k, v in service["environment"].items()}
        self._command = contained(
            image.folder, image.user, image.workdir, profile_of(service), *command
        )
        self._environment = {**image.environment, **environment, **more}
        self._grace_s = int(service["stop_grace_period"].removesuffix("s"))
        # scrapyd ends by the signal, after its processes.
        self._codes = {0, -signal.SIGTERM} if command[0] == "scrapyd" else {0}
        self._is_stopped = False

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, env=self._environment, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_stopped:
            self.stop()

    def stop(self) -> None:
        """Stop it as ``docker stop`` does; fail if it has to be killed."""
        self._is_stopped = True
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(self._grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.returncode
        if code not in self._codes:
            raise SystemExit(f"{self._command[-1]} ended with {code}")

    def kill(self) -> None:
        """Kill all its processes, as the kernel does for lack of memory."""
        self._is_stopped = True
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None


def call(method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Return the JSON of a call to the service; fail for another status than 200."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=START_S)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.status != 200:
        raise SystemExit(f"{method} {path}: {response.status} {text[:500]!r}")
    found: dict[str, Any] = json.loads(text)
    return found


def wait_until_healthy(image: Image, container: Container) -> None:
    """Run the health check of the image until it succeeds."""
    check = image.command(*image.commands["HEALTHCHECK"])
    end = time.monotonic() + START_S
    while subprocess.run(
        check, env=image.environment, stderr=subprocess.DEVNULL, check=False
    ).returncode:
        if container.has_ended or time.monotonic() > end:
            raise SystemExit("the service does not answer")
        time.sleep(0.5)
    status = Path(f"/proc/{container.pid}/status").read_text()
    for line in (r"Uid:\s+10001\s", r"CapBnd:\s+0+$", "Seccomp:\t2"):
        assert re.search(f"^{line}", status, re.MULTILINE), status


def renderers(pid: int) -> list[int]:
    """Return the processes below ``pid`` that run pages of Chromium."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            line = Path(f"/proc/{child}/cmdline").read_bytes()
            assert b"--no-sandbox" not in line
            if b"--type=renderer" in line:
                found.append(child)
            found += renderers(child)
    return found


def namespace(pid: int) -> str:
    """Return the user namespace of a process."""
    return str(Path(f"/proc/{pid}/ns/user").readlink())


def try_one(image: Image) -> None:
    """Render pages in the service of ``compose.yaml``."""
    service = services("compose.yaml")["api"]
    more = {"SCRAPER_EGRESS_ALLOW": f"{SITE_HOST}/32", "SCRAPER_RENDER": "always"}
    with MockServer() as site, Container(image, service, **more) as container:
        wait_until_healthy(image, container)
        body = {
            "url": site.url("/text"),
            "formats": ["markdown", "screenshot"],
            "waitFor": 5000,
        }
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(call, "POST", "/v2/scrape", body)
            boxed = wait_until(lambda: renderers(container.pid), START_S)
            boxes = {namespace(pid) for pid in boxed}
            page = waiting.result()["data"]
        assert page["markdown"], page
        assert page["screenshot"], page
        assert namespace(container.pid) not in boxes
    print("compose.yaml: a page is rendered in a sandbox")


def try_nodes(image: Image) -> None:
    """Crawl with the service, the nodes and the database of ``compose.nodes.yaml``."""
    found = services("compose.yaml", "compose.nodes.yaml")
    with ExitStack() as stack:
        site = stack.enter_context(MockServer())
        database = stack.enter_context(Postgres())()
        more = {"SCRAPER_DATABASE_URL": database.replace("+psycopg", "")}
        more["SCRAPER_EGRESS_ALLOW"] = f"{SITE_HOST}/32"
        listed = found["api"]["environment"]["SCRAPER_SCRAPYD_NODES"]
        for name, address in NODES.items():
            listed = listed.replace(f"@{name}:", f"@{address}:")
        nodes = {"SCRAPER_SCRAPYD_NODES": substituted(listed)}
        service = stack.enter_context(Container(image, found["api"], **more, **nodes))
        wait_until_healthy(image, service)
        for name, address in NODES.items():
            bound = {"SCRAPYD_BIND_ADDRESS": address}
            stack.enter_context(Container(image, found[name], **more, **bound))
        body = {"url": site.url(f"/site/{PAGES}-slow50/p/"), "limit": PAGES}
        job = call("POST", "/v2/crawl", body)["id"]
        end = time.monotonic() + START_S
        while (state := call("GET", f"/v2/crawl/{job}"))["status"] == "scraping":
            if time.monotonic() > end:
                raise SystemExit(f"the crawl does not end: {state}")
            time.sleep(0.5)
        assert state["status"] == "completed", state
        assert state["completed"] == PAGES, state
    print(f"compose.nodes.yaml: a crawl of {PAGES} pages on nodes")


class Networks:
    """The networks of a compose file, with a machine for each service. A context manager."""

    def __init__(self, names: Iterable[str]):
        self._stack = ExitStack()
        self.by_name = {
            name: self._stack.enter_context(Switch(name, number))
            for number, name in enumerate(names, 1)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def join(self, name: str, networks: Iterable[str]) -> tuple[Machine, list[str]]:
        """Return a machine in some of the networks, and its addresses there."""
        machine = self._stack.enter_context(Machine(name))
        return machine, [self.by_name[each].join(machine)[0] for each in networks]


def try_workers(image: Image) -> None:
    """Crawl with the workers of ``compose.workers.yaml``; one is stopped, one is killed."""
    found = services("compose.yaml", "compose.workers.yaml")
    api = SimpleNamespace(
        url=f"http://127.0.0.1:{PORT}",
        get=lambda path: SimpleNamespace(status=200, json=call("GET", path)),
    )
    with ExitStack() as stack:
        networks = stack.enter_context(Networks(("web", "inside")))
        machine, [address] = networks.join("database", found["database"]["networks"])
        with machine.inside():
            database = stack.enter_context(Postgres(address))()
        machine, [address] = networks.join("site", ["web"])
        with machine.inside():
            site = stack.enter_context(MockServer(address))
        more = {"SCRAPER_DATABASE_URL": database.replace("+psycopg", "")}
        more["SCRAPER_EGRESS_ALLOW"] = networks.by_name["web"].network

        def start(name: str, machine: Machine) -> Container:
            with machine.inside():
                container = Container(image, found[name], **more)
                stack.enter_context(container)
                wait_until_healthy(image, container)
            return container

        machine, _ = networks.join("api", found["api"]["networks"])
        start("api", machine)
        stack.enter_context(machine.inside())
        names = ("worker1", "worker2")
        joined = [networks.join(name, found[name]["networks"]) for name in names]
        machines = [machine for machine, _ in joined]
        first, second = map(start, names, machines)
        body = {
            "url": site.url(f"/site/{SITE_OF_WORKERS}/p/"),
            "sitemap": "skip",
            "scrapeOptions": {"maxAge": 0},
        }
        reply = call("POST", "/v2/crawl", body)
        job = Invariants(
            started(SimpleNamespace(status=200, json=reply)),
            crawl_of(SITE_OF_WORKERS),
            name=SITE_OF_WORKERS,
            site=site,
            database=database,
        )
        pages = len(crawl_of(SITE_OF_WORKERS).ended(()))
        wait_until(lambda: job.poll(api) and job.completed > pages / 4, START_S)
        visitors = {visit.client for visit in site.visits("/site/")}
        assert visitors == {each for _, [each, _] in joined}, visitors
        first.stop()
        wait_until(lambda: job.poll(api) and job.completed > pages / 2, START_S)
        assert job.state == "scraping"
        assert found["worker2"]["restart"] == "unless-stopped"
        second.kill()
        job.kills = 1
        start("worker2", machines[1])
        job.wait(api)
        job.check(api)
    print(f"compose.workers.yaml: {pages} pages by workers; one stopped, one killed")


def try_sandbox(image: Image) -> None:
    """Start Chromium under the profile, and under one without its additions."""
    profile = profile_of(services("compose.yaml")["api"])
    rules = json.loads(profile.read_text())
    for rule in rules["syscalls"]:
        rule["names"] = [n for n in rule["names"] if n not in {"unshare", "chroot"}]
    without = image.folder / "without.json"
    without.write_text(json.dumps(rules))
    for path, works in ((profile, True), (without, False)):
        shell = "cd /tmp && exec chromium-headless-shell --dump-dom about:blank"
        command = contained(image.folder, image.user, "/", path, "sh", "-c", shell)
        done = subprocess.run(
            command,
            env={**image.environment, "HOME": "/tmp"},
            capture_output=True,
            timeout=START_S,
            check=False,
        )
        if (b"<html" in done.stdout) != works:
            raise SystemExit(f"{path.name}: {done.stdout!r} {done.stderr[-2000:]!r}")
    print("Chromium's sandbox works under the profile, and needs its additions")
