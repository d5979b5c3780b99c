"""The examples: each README runs as a new user runs it, and prints what it shows."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest

from tests.conftest import Service
from tests.support.documents import ROOT, blocks, links, run, shows
from tests.support.receiver import Receiver
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = ROOT / "examples"
HOST = "127.0.0.1"  # where the README puts the shop
SITE = f"http://{HOST}:8000"
NAMES = sorted(page.parent.name for page in EXAMPLES.glob("*/README.md"))
COMPAT = ROOT / "tests" / "compat"
N8N_NODE = "@mendable/n8n-nodes-firecrawl"
MAX_CODE_LINES = 80
INSTALL_TIMEOUT_S = 300


class Copy(NamedTuple):
    """A copy of the examples, whose shop is served."""

    folder: Path
    site: str


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service as the README starts it."""
    data = tmp_path_factory.mktemp("examples")
    running = Service(data, SCRAPER_EGRESS_ALLOW=f"{HOST}/32")
    yield running
    assert running.stop() == 0


@pytest.fixture
def copy(tmp_path):
    folder = shutil.copytree(EXAMPLES, tmp_path / "examples")
    handler = functools.partial(QuietHandler, directory=folder / "site")
    with ThreadingHTTPServer((HOST, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Copy(folder, f"http://{HOST}:{server.server_port}")
        server.shutdown()
        thread.join()


def assert_readme_runs(name, copy, service, **variables):
    page = copy.folder / name / "README.md"
    shown = [block for block in blocks(page) if block.runs]
    assert shown
    own = {"KEY": service.key, "SERVICE": service.url, **variables}
    printed = run(page, {SITE: copy.site}, page.parent, **own)
    for block, output in zip(shown, printed, strict=True):
        assert block.output is not None
        assert shows(block, output), f"{block.text}printed\n{output}"


def test_every_example_is_listed_and_within_the_size_limits():
    linked = links(EXAMPLES / "README.md")
    assert sorted(linked) == [f"{name}/README.md" for name in NAMES]
    for name in NAMES:
        files = [
            path for path in (EXAMPLES / name).rglob("*.py") if path.stat().st_size
        ]
        lines = [line for path in files for line in path.read_text().splitlines()]
        assert len(files) <= 3, name
        assert sum(bool(line.strip()) for line in lines) <= MAX_CODE_LINES, name
        assert 15 <= len((EXAMPLES / name / "README.md").read_text().splitlines()) <= 30


@pytest.mark.full
def test_a_changed_price_is_noticed(copy, service):
    assert_readme_runs("price_monitor", copy, service)


@pytest.mark.full
def test_a_webhook_gets_the_prices_of_a_check(copy, service):
    script = str(copy.folder / "price_monitor" / "price_monitor.py")
    with Receiver(HOST) as receiver:
        own = {"KEY": service.key, "SERVICE": service.url}
        webhook = {"WEBHOOK": receiver.url("/ok")}
        lamp = f"{copy.site}/lamp.html"
        monitor = run_script(script, "create", lamp, **own, **webhook).strip()
        assert run_script(script, "check", monitor, **own) == f"{lamp} new: 20.5\n"
        [event] = wait_until(receiver.received)
    assert event.json["type"] == "monitor.page"
    assert event.json["data"][0]["url"] == lamp


def run_script(*arguments, **variables):
    done = subprocess.run(
        (sys.executable, "-W", "ignore", *arguments),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full
def test_the_agent_example_calls_tools_and_returns_an_answer(copy, service):
    assert_readme_runs("agent_mcp", copy, service)


@pytest.mark.full
def test_a_scrapy_project_gets_markdown(copy, service):
    assert_readme_runs("scrapy_project", copy, service)


@pytest.mark.full
def test_sql_reads_the_pages_of_a_crawl(copy, service):
    if importlib.util.find_spec("duckdb") is None:
        pytest.skip("duckdb is not installed")
    assert_readme_runs("duckdb_export", copy, service)


@pytest.mark.full
def test_questions_get_the_passages_of_a_site(copy, service, postgres):
    database = postgres().replace("+psycopg", "")
    with psycopg.connect(database) as connection:
        query = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
        if connection.execute(query).fetchone() is None:
            pytest.skip("PostgreSQL has no extension pgvector")
    assert_readme_runs("rag_pgvector", copy, service, DATABASE=database)


def workflow_of(site):
    """Return the workflow for n8n, with the URL of a site."""
    text = (EXAMPLES / "n8n_workflow" / "workflow.json").read_text()
    return json.loads(text.replace(SITE, site))


def test_the_connections_of_the_workflow_name_its_nodes():
    workflow = workflow_of(SITE)
    names = [node["name"] for node in workflow["nodes"]]
    assert len(set(names)) == len({node["id"] for node in workflow["nodes"]}) == 6
    targets = [
        target["node"]
        for outputs in workflow["connections"].values()
        for output in outputs["main"]
        for target in output
    ]
    assert {*workflow["connections"], *targets} == {*names}
    assert targets.count("Wait") == 2  # a crawl that runs is looked at again


@pytest.mark.full
@pytest.mark.timeout(2 * INSTALL_TIMEOUT_S)
def test_the_requests_of_the_workflow_succeed(copy, service, tmp_path):
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        pytest.skip("node and npm are not both installed")
    for name in ("n8n_node.mjs", "n8n_workflow.mjs"):
        shutil.copy(COMPAT / name, tmp_path)
    tested = json.loads((COMPAT / "package.json").read_text())["dependencies"]
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    installed = subprocess.run(
        (npm, "install", *options, f"{N8N_NODE}@{tested[N8N_NODE]}"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"npm could not install the node: {installed.stderr[-500:]}")
    (tmp_path / "workflow.json").write_text(json.dumps(workflow_of(copy.site)))
    done = subprocess.run(
        (node, "n8n_workflow.mjs", service.url, service.key, "workflow.json"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = [json.loads(line) for line in done.stdout.splitlines()]
    first = {page["markdown"].partition("\n")[0] for page in pages}
    assert first == {
        "# The Shop",
        "# Brass Lamp",
        "# Oak Chair",
        "# Delivery and returns",
    }
