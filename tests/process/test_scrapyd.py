"""Jobs on nodes: real scrapyds on loopback, and a service that schedules on them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import subprocess
import sys
import time
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper_service.cli.main import main
from tests.process.test_service import children_of
from tests.support.crash import (
    LEASED,
    Invariants,
    crawl_of,
    fetches,
    kill,
    sqlite_of,
    started,
)
from tests.support.linked_site import named
from tests.support.mockserver import SITE_HOST
from tests.support.scripted_site import ScriptedSite, page, text
from tests.support.servers import InThread
from tests.support.trace_collector import TraceCollector
from tests.support.waiting import WAIT_S
from tools.bench.processes import ROOT
from tools.bench.scrapyd_node import PASSWORD, PROJECT, USER, ScrapydNode, free_port

LEASE_S = 5
ENDED = 2  # state of a run
RUNNER = "scraper_service.services.scrapyd.runner.ScrapydRunner"
SETTINGS = {"SCRAPER_LEASE_S": str(LEASE_S), "SCRAPER_HOST_CONCURRENCY": "24"}
EGRESS = {"SCRAPER_EGRESS_ALLOW": f"{SITE_HOST}/32"}

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


class Place(NamedTuple):
    """A database, as a service, a node and a test name it."""

    address: str
    service: dict[str, str]
    node: dict[str, str]


def sqlite_place(folder):
    return Place(sqlite_of(folder), {}, {"SCRAPER_DATA_DIR": str(folder)})


def postgres_place(folder, address):
    # As an operator writes it: without the name of the driver.
    url = {"SCRAPER_DATABASE_URL": address.replace("postgresql+psycopg:", "postgres:")}
    return Place(address, url, {**url, "SCRAPER_DATA_DIR": str(folder / "none")})


@pytest.fixture(params=["sqlite", "postgresql"])
def each_place(request, tmp_path):
    if request.param == "sqlite":
        return sqlite_place(tmp_path)
    return postgres_place(tmp_path, request.getfixturevalue("postgres_tables")())


class Cluster:
    """Nodes and a service of theirs, started and stopped one by one."""

    def __init__(self, start_service, stack, folder, place, site, nodes=2, processes=2):
        self.start_service = start_service
        self.stack = stack
        self.folder = folder
        self.place = place
        self.site = site
        self.ports = [free_port() for _ in range(nodes)]
        self.processes = processes

    def node(self, number, **environment):
        node = ScrapydNode(
            self.folder / f"node{number}",
            port=self.ports[number],
            **SETTINGS,
            **EGRESS,
            **self.place.node,
            **environment,
        )
        self.stack.callback(kill_node, node)
        return node

    def service(self):
        names = [node_address(port) for port in self.ports]
        return self.start_service(
            SCRAPER_JOB_RUNNER=RUNNER,
            SCRAPER_SCRAPYD_NODES=",".join(names),
            SCRAPER_SCRAPYD_PROCESSES_PER_JOB=str(self.processes),
            **SETTINGS,
            **self.place.service,
        )

    def crawl(self, service, name):
        body = {
            "url": self.site.url(named(name).path(0)),
            "limit": 10_000,
            "sitemap": "skip",
            "scrapeOptions": {"maxAge": 0},
        }
        return Invariants(
            started(service.post("/v2/crawl", body)),
            crawl_of(name),
            name=name,
            site=self.site,
            database=self.place.address,
        )

    def query(self, text, **values):
        engine = sa.create_engine(self.place.address, poolclass=sa.NullPool)
        with engine.connect() as connection:
            found = connection.execute(sa.text(text), values).all()
        engine.dispose()
        return found

    def change(self, text, **values):
        engine = sa.create_engine(self.place.address, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text(text), values)
        engine.dispose()

    def owners(self, job):
        """Return the processes that have addresses of a job."""
        text = (
            "SELECT DISTINCT owner FROM frontier JOIN job ON job.number = job_number"
            " WHERE job.id = :job AND frontier.state = :state"
        )
        return {owner for (owner,) in self.query(text, job=job.job_id, state=LEASED)}

    def runs(self, job):
        text = "SELECT id, node, state, reason FROM run WHERE job_id = :job ORDER BY created_at"
        return self.query(text, job=job.job_id)


def node_address(port):
    node = ScrapydNode.__new__(ScrapydNode)
    node.port = port
    return node.address


def kill_node(node):
    with contextlib.suppress(ProcessLookupError):
        node.kill()


@pytest.fixture
def make_cluster(start_service, tmp_path, site):
    with contextlib.ExitStack() as stack:

        def make(place=None, **options):
            place = place or sqlite_place(tmp_path)
            return Cluster(start_service, stack, tmp_path, place, site, **options)

        yield make


def wait_until(condition, what):
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return found


def crawls_with(cluster, job, service, count, pages=20):
    """Poll until a job is being worked on by ``count`` processes."""

    def condition():
        assert job.poll(service) == "scraping", "it ended too early for this test"
        return job.completed >= pages and len(cluster.owners(job)) == count

    wait_until(condition, f"no {count} processes: {cluster.runs(job)}")


def by_documentation(node, wanted, replacements):
    """Schedule as docs/how-to/deployment.md does; return what scrapyd calls the process."""
    text = (ROOT / "docs" / "how-to" / "deployment.md").read_text().replace("\\\n", "")
    [command] = (x for x in text.splitlines() if "schedule.json" in x and wanted in x)
    replacements = {"http://127.0.0.1:6800": node.name, **replacements}
    for old, new in replacements.items():
        assert old in command
        command = command.replace(old, new)
    user = ("-u", f"{USER}:{PASSWORD}")
    done = subprocess.run(
        (*shlex.split(command), "-s", *user), capture_output=True, check=True
    )
    answer = json.loads(done.stdout)
    assert answer["status"] == "ok", answer
    return answer["jobid"]


# -- plain crawls --------------------------------------------------------------------


@pytest.fixture(scope="module")
def egg(tmp_path_factory):
    folder = tmp_path_factory.mktemp("egg")
    build = ("--bdist-dir", str(folder / "build"), "--dist-dir", str(folder))
    subprocess.run(
        (
            *(sys.executable, "setup.py", "-q"),
            *("egg_info", "--egg-base", str(folder)),
            *("build", "--build-base", str(folder / "base"), "bdist_egg", *build),
        ),
        cwd=ROOT,
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    [path] = folder.glob("*.egg")
    return path


def test_the_egg_has_every_module(egg):
    with zipfile.ZipFile(egg) as found:
        names = {name for name in found.namelist() if name.endswith(".py")}
    ours = (str(p.relative_to(ROOT)) for p in (ROOT / "scraper_service").rglob("*.py"))
    spiders = (f"scraper_service/spiders/{p.name}" for p in ROOT.glob("spiders/*.py"))
    assert names >= {*ours, *spiders}
    assert not any(name.startswith("spiders/") for name in names)


@pytest.mark.slow
def test_a_plain_crawl_from_an_egg_writes_a_feed(egg, tmp_path, site):
    """The egg lies in the folder of a node that does not have the package."""
    home = tmp_path / "node" / "eggs" / PROJECT
    home.mkdir(parents=True)
    home.joinpath("0_1_0.egg").write_bytes(egg.read_bytes())
    config = tmp_path / "scrapyd.conf"
    text = (ROOT / "deploy" / "scrapyd.conf").read_text()
    ours = ("scraper_service = ", "launcher = ")
    lines = [line for line in text.splitlines() if not line.startswith(ours)]
    config.write_text("\n".join(lines))
    plain = {"PYTHONPATH": "", **EGRESS}
    with ScrapydNode(tmp_path / "node", config=config, **plain) as node:
        url = site.url(named("60-plain").path(0))
        job = by_documentation(node, "-d url=", {"https://example.org": url})
        node.wait_for(job)
        pages = node.feed("crawl", job)
        log = node.log("crawl", job)
        assert len(pages) == 50, log
        assert all(page["markdown"].startswith("# Page") for page in pages)
        assert "Traceback" not in log
        assert node.status_of("daemonstatus.json", password=None) == 401
        assert node.status_of("daemonstatus.json", password="wrong") == 401
        for name in ("addversion.json", "delversion.json", "delproject.json"):
            assert node.status_of(name, form={"project": PROJECT}) == 404


# -- jobs of a service ---------------------------------------------------------------


@pytest.mark.slow
def test_a_node_dies_in_the_middle_of_a_crawl_and_comes_back(make_cluster, each_place):
    cluster = make_cluster(each_place)
    nodes = [cluster.node(number) for number in range(2)]
    service = cluster.service()
    name = each_place.address[:6]
    job = cluster.crawl(service, f"400-slow1500-dies-{name}")
    crawls_with(cluster, job, service, 2)
    assert sorted(len(node.jobs("running")) for node in nodes) == [1, 1]
    nodes[0].kill()
    job.kills += 1
    job.wait(service)
    job.check(service)
    assert len(cluster.runs(job)) > 2, "nobody took its place"
    assert {run.node for run in cluster.runs(job)[:2]} == {x.name for x in nodes}
    nodes[0] = cluster.node(0)
    later = [cluster.crawl(service, f"60-slow400-{x}-{name}") for x in ("b", "c")]
    for other in later:
        other.wait(service)
        other.check(service)
    used = {run.node for other in later for run in cluster.runs(other)}
    assert used == {node.name for node in nodes}, "the node that is back is idle"
    wait_until(lambda: not any(n.jobs("running") for n in nodes), "a process stays")
    states = {run.state for each in (job, *later) for run in cluster.runs(each)}
    assert states == {ENDED}


def test_the_logs_of_processes_have_the_form_of_the_service(make_cluster):
    cluster = make_cluster(nodes=1, processes=1)
    node = cluster.node(0, SCRAPER_LOG_JSON="true")
    service = cluster.service()
    job = cluster.crawl(service, "20-slow200-logs")
    job.wait(service)
    wait_until(lambda: not node.jobs("running"), "the process stays")
    for run in cluster.runs(job):
        told = [json.loads(line) for line in node.log("crawl", run.id).splitlines()]
        events = [line["event"] for line in told if "event" in line]
        assert {line["job"] for line in told if "event" in line} == {job.job_id}
        assert (events[0], events[-1]) == ("began", "completed")


@pytest.mark.slow
def test_jobs_wait_for_nodes_and_survive_the_service(make_cluster):
    cluster = make_cluster(nodes=1, processes=1)
    service = cluster.service()
    job = cluster.crawl(service, "250-slow1500-waits")
    time.sleep(LEASE_S)
    assert job.poll(service) == "scraping"
    assert job.completed == 0
    [warning] = service.get("/health").json["warnings"]
    assert "takes crawls and batches" in warning
    assert f"127.0.0.1:{cluster.ports[0]}" in warning
    cluster.node(0)
    crawls_with(cluster, job, service, 1, pages=5)
    assert service.get("/health").json["warnings"] == []
    kill(service)
    before = sum(fetches(cluster.site, job.prefix).values())
    wait_until(
        lambda: sum(fetches(cluster.site, job.prefix).values()) > before,
        "the process did not go on",
    )
    service = cluster.service()
    job.wait(service)
    job.check(service)
    assert len(cluster.runs(job)) == 1, "the process that went on was enough"
    assert service.stop() == 0


def small_node(cluster, folder):
    """Start the first node, with one process at a time."""
    config = folder / "scrapyd.conf"
    text = (ROOT / "deploy" / "scrapyd.conf").read_text()
    config.write_text(text.replace("max_proc_per_cpu = 1", "max_proc = 1"))
    node = ScrapydNode(
        folder / "small",
        port=cluster.ports[0],
        config=config,
        **SETTINGS,
        **EGRESS,
        **cluster.place.node,
    )
    cluster.stack.callback(kill_node, node)
    return node


def test_a_run_waits_for_its_node_while_the_service_restarts(make_cluster, tmp_path):
    cluster = make_cluster(nodes=1, processes=1)
    node = small_node(cluster, tmp_path)
    service = cluster.service()
    first = cluster.crawl(service, "5000-slow1500-runs")
    crawls_with(cluster, first, service, 1, pages=1)
    second = cluster.crawl(service, "10-small-waits")
    wait_until(lambda: node.jobs("pending"), "none waits")
    for end in (kill, lambda service: service.stop()):
        end(service)
        time.sleep(2 * LEASE_S)  # the process of the first job ends lost runs
        service = cluster.service()
    assert service.request("DELETE", first.path).status == 200
    second.wait(service)
    assert [run.reason for run in cluster.runs(second)] == ["finished"]
    assert service.stop() == 0


def test_cancel_stops_processes_that_run_and_that_wait(make_cluster, tmp_path):
    cluster = make_cluster(nodes=1, processes=2)
    node = small_node(cluster, tmp_path)
    service = cluster.service()
    job = cluster.crawl(service, "2000-slow400-cancel")
    crawls_with(cluster, job, service, 1)
    wait_until(lambda: len(node.jobs("pending")) == 1, "none waits")
    assert service.request("DELETE", job.path).status == 200
    wait_until(lambda: not node.jobs("pending") + node.jobs("running"), "one stays")
    after = fetches(cluster.site, job.prefix)
    time.sleep(2)
    assert fetches(cluster.site, job.prefix) == after
    assert job.poll(service) == "cancelled"
    job.check_rows()
    wait_until(
        lambda: {run.state for run in cluster.runs(job)} == {ENDED}, "a run stays"
    )


def test_the_processes_of_a_paused_job_end_and_come_back(make_cluster):
    cluster = make_cluster(nodes=1, processes=1)
    node = cluster.node(0)
    service = cluster.service()
    job = cluster.crawl(service, "120-slow400-pause")
    crawls_with(cluster, job, service, 1)
    paused = service.request("PATCH", job.path, {"paused": True})
    assert paused.status == 200, paused.json
    wait_until(lambda: not node.jobs("running"), "a process stays")
    [run] = cluster.runs(job)
    assert (run.state, run.reason) == (ENDED, "paused")
    assert cluster.owners(job) == set()
    before = fetches(cluster.site, job.prefix)
    assert service.get(job.path).json["completed"] == before.total()
    assert service.request("PATCH", job.path, {"paused": False}).status == 200
    job.wait(service)
    job.check(service)
    assert len(cluster.runs(job)) == 2


def large_pages():
    """Return a start page with links to 10 pages of some 200 kB that hardly shrink."""
    paths = [f"/{n}" for n in range(10)]
    texts = {path: random.Random(path).randbytes(100_000).hex() for path in paths}
    return {
        "/robots.txt": text("User-agent: *\nCrawl-delay: 0\n"),
        "/": page(*paths),
        **{path: page(text=words) for path, words in texts.items()},
    }


def ended(service, path, key):
    found = service.get(f"{path}?limit=100", key=key).json
    return None if found["status"] == "scraping" else found


def test_nodes_obey_the_disk_quota_reprocess_and_send_traces(make_cluster, tmp_path):
    command = ("keys", "create", "--team", "small", "--disk-mb", "1")
    made = CliRunner().invoke(main, [*command, "--data-dir", str(tmp_path)])
    key = made.stdout.strip()
    with TraceCollector() as collector, ScriptedSite(large_pages()) as site:
        cluster = make_cluster(nodes=1, processes=1)
        node = cluster.node(0, **collector.environment)
        service = cluster.service()
        body = {
            "url": site.url("/"),
            "limit": 11,
            "sitemap": "skip",
            "delay": 0.3,  # there are pages left when the quota is looked at
            "scrapeOptions": {"formats": ["markdown", "rawHtml"], "maxAge": 0},
        }
        job_id = service.post("/v2/crawl", body, key=key).json["id"]
        path, facts = f"/v2/crawl/{job_id}", f"/v2/jobs/{job_id}"
        wait_until(
            lambda: service.get(facts, key=key).json["data"]["state"] == "paused",
            "the quota does not pause it",
        )
        assert "disk quota" in service.get(facts, key=key).json["data"]["warning"]
        wait_until(lambda: not node.jobs("running"), "a process stays")
        stored = service.get(path, key=key).json["completed"]
        assert 0 < stored < 11
        changed = ("teams", "set", "small", "--disk-mb", "100")
        CliRunner().invoke(main, [*changed, "--data-dir", str(tmp_path)])
        go_on = {"paused": False, "delay": None}
        wait_until(  # a key is remembered for a second
            lambda: service.request("PATCH", path, go_on, key=key).status == 200,
            "it does not go on",
        )
        found = wait_until(lambda: ended(service, path, key), "no end")
        assert (found["status"], found["completed"]) == ("completed", 11)
        before = site.paths()
        again = {"formats": ["links"]}
        other = service.post(f"{path}/reprocess", again, key=key).json["id"]
        new = wait_until(lambda: ended(service, f"/v2/crawl/{other}", key), "no end")
        assert site.paths() == before
        assert (new["status"], new["completed"]) == ("completed", 11)
        scrapes = {each["metadata"]["scrapeId"] for each in found["data"]}
        assert {x["metadata"]["sourceScrapeId"] for x in new["data"]} == scrapes
        [start] = [x for x in new["data"] if x["metadata"]["url"] == site.url("/")]
        assert len(start["links"]) == 10
        kinds = [run.reason for run in cluster.runs(JobId(job_id))]
        assert kinds == ["paused", "finished"]
        spans = wait_until(lambda: job_spans(collector, job_id, 2), "no spans")
        assert len({each.trace for each in spans}) == 1  # two processes, one trace
        [span] = wait_until(lambda: job_spans(collector, other, 1), "no span")
        assert span.name == "reprocess"


class JobId(NamedTuple):
    job_id: str


def job_spans(collector, job_id, count):
    found = [
        each
        for name in ("crawl", "reprocess")
        for each in collector.spans(name)
        if each.attributes.get("scraper.job_id") == job_id
    ]
    return found if len(found) >= count else None


@pytest.mark.slow
def test_a_process_started_by_hand_shares_a_crawl_until_its_node_stops(
    make_cluster, tmp_path, postgres
):
    place = postgres_place(tmp_path, postgres())
    cluster = make_cluster(place, nodes=1, processes=1)
    nodes = [cluster.node(0)]
    service = cluster.service()
    cluster.ports.append(free_port())
    nodes.append(cluster.node(1))
    job = cluster.crawl(service, "240-slow1500-hand")
    by_hand = by_documentation(nodes[1], "job_id=", {"$ID": job.job_id})
    crawls_with(cluster, job, service, 2)
    assert len([run for run in cluster.runs(job) if run.node]) == 1
    [running] = nodes[1].call("listjobs.json")["running"]
    [*_, converter] = children_of(running["pid"])
    environment = Path(f"/proc/{converter}/environ").read_bytes()
    assert b"SCRAPER_LEASE_S=" in environment
    assert b"PASSWORD" not in environment
    assert b"DATABASE_URL" not in environment
    nodes[1].stop()
    assert "Spider closed (shutdown)" in nodes[1].log("crawl", by_hand)
    job.wait(service)
    job.check(service)
    assert job.kills == 0, "nothing was to be fetched twice"
    assert not list(nodes[1].folder.glob("items/*/*/*.jl")), "pages have one place"


@pytest.mark.slow
def test_a_process_that_was_given_up_gives_way(make_cluster):
    cluster = make_cluster(nodes=2, processes=1)
    nodes = [cluster.node(number) for number in range(2)]
    service = cluster.service()
    job = cluster.crawl(service, "200-slow1500-gives")
    crawls_with(cluster, job, service, 1)
    [run] = cluster.runs(job)
    node = next(node for node in nodes if node.name == run.node)
    cluster.change(
        "UPDATE run SET state = 2, reason = 'lost' WHERE id = :id", id=run.id
    )
    node.wait_for(run.id)
    assert "has replaced this process" in node.log("crawl", run.id)
    crawls_with(cluster, job, service, 1, pages=job.completed + 20)
    job.wait(service)
    job.check(service)
    assert [other.state for other in cluster.runs(job)] == [ENDED, ENDED]


def test_a_process_for_an_unknown_job_exits_with_an_error(tmp_path):
    done = subprocess.run(
        (sys.executable, "-m", "scrapy", "crawl", "crawl", "-a", "job_id=nobodys"),
        cwd=ROOT,
        env={**os.environ, "SCRAPER_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode != 0
    assert "no job nobodys is in this database" in done.stderr


def test_a_node_for_others_needs_a_password(tmp_path):
    with pytest.raises(RuntimeError, match="takes SCRAPYD_USERNAME and"):
        ScrapydNode(tmp_path, SCRAPYD_BIND_ADDRESS="0.0.0.0", SCRAPYD_PASSWORD="")


class FakeNode(InThread):
    """A node that takes every run, starts none, and remembers what it was asked."""

    def __init__(self):
        self.calls = []
        super().__init__(("127.0.0.1", 0), FakeNodeHandler)

    def count(self, name):
        return sum(name in path for path in self.calls)


class FakeNodeHandler(BaseHTTPRequestHandler):
    def do_GET(self):
        length = int(self.headers.get("Content-Length", 0))
        self.rfile.read(length)
        self.server.calls.append(self.path)
        answer = {"status": "ok", "pending": 0, "running": 0, "finished": []}
        if "listjobs" in self.path:
            answer |= {"pending": [], "running": []}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *args):
        """Keep quiet."""


def test_an_idle_service_polls_its_nodes_rarely(start_service, site):
    with FakeNode() as node:
        service = start_service(
            SCRAPER_JOB_RUNNER=RUNNER, SCRAPER_SCRAPYD_NODES=node.url("")
        )
        wait_until(lambda: node.count("listjobs") > 0, "a poll")
        before = len(node.calls)
        time.sleep(6)
        # Two calls a poll: every second they would be twelve.
        assert len(node.calls) - before <= 4
        reply = service.post("/v2/crawl", {"url": site.url("/"), "limit": 1})
        assert reply.status == 200
        wait_until(lambda: node.count("schedule") > 0, "a run")
        service.request("DELETE", f"/v2/crawl/{reply.json['id']}")


def test_the_service_refuses_to_have_no_nodes(tmp_path):
    done = subprocess.run(
        (
            *(sys.executable, "-m", "scraper_service", "-s", f"JOB_RUNNER={RUNNER}"),
            *("serve", "--port", "0", "--data-dir", str(tmp_path)),
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode != 0
    assert "SCRAPYD_NODES must name a node" in done.stderr
    assert "Traceback" not in done.stderr
