"""What callers entrust to a job: readable for nobody during it, and gone after it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import uuid
from contextlib import closing
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.cli.command import run as run_command
from tests.support import waiting
from tests.support.crash import sqlite_of
from tests.support.servers import InThread

HELD_S = 120
until = partial(waiting.wait_until, seconds=HELD_S)
KINDS = ("crawl", "batch", "added", "extract", "scrape", "hook")
CANARIES = {kind: f"canary-{kind}-{uuid.uuid4().hex}" for kind in KINDS}
PAGES = 3
SCRAPY = (sys.executable, "-m", "scrapy")
OPEN = {"SCRAPER_AUTH_ENABLED": "false", "SCRAPER_LEASE_S": "1"}


class _Handler(BaseHTTPRequestHandler):
    """Answers below ``/held/`` when the gate is open, and hooks as they are told to."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        kind, number = self.path.rpartition("/")[::2]
        if self.path.startswith("/held/"):
            self.server.gate.wait(HELD_S)
        link = f'<a href="{kind}/{int(number or 0) + 1}">next</a>'
        more = self.path.startswith("/held/crawl") and int(number) < PAGES - 1
        self.answer(200, f"<title>{number}</title><p>A page</p>{link if more else ''}")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.hooks.append((self.path, dict(self.headers)))
        self.answer(200 if self.server.takes_hooks else 500, "")

    def answer(self, status, text):
        found = 404 if self.path == "/robots.txt" else status
        body = text.encode()
        self.send_response(found)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Site(InThread, HTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.2", 0), _Handler)
        self.gate = threading.Event()
        self.seen = []
        self.hooks = []
        self.takes_hooks = True

    def handle_error(self, *_):
        pass  # a service that is killed leaves

    def asked(self, kind):
        """Return the headers of all requests for pages of a kind."""
        return [headers for path, headers in self.seen if f"/{kind}/" in path]


@pytest.fixture
def web():
    with Site() as site:
        yield site
        site.gate.set()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Return the address of the job database, and the settings that name it."""
    if request.param == "sqlite":
        return sqlite_of(tmp_path / "data"), {}
    address = request.getfixturevalue("postgres_tables")()
    return address, {"SCRAPER_DATABASE_URL": address}


def hidden(kind):
    return {"Cookie": f"session={CANARIES[kind]}", "X-Kind": kind}


def start_all(service, web):
    """Start a job of each kind; return the paths of their states."""
    hook = {"url": web.url("/hook"), "headers": {"X-Key": CANARIES["hook"]}}
    common = {"webhook": hook}
    crawl = {
        "url": web.url("/held/crawl/0"),
        "sitemap": "skip",
        "ignoreRobotsTxt": True,
        "crawlEntireDomain": True,
        "scrapeOptions": {"headers": hidden("crawl"), "maxAge": 0},
    }
    urls = [web.url(f"/held/batch/{n}") for n in range(PAGES)]
    batch = {"urls": urls, "headers": hidden("batch"), "maxAge": 0}
    extract = {
        "urls": [web.url("/held/extract/0")],
        "prompt": "the title",
        "scrapeOptions": {"headers": hidden("extract"), "maxAge": 0},
    }
    jobs = []
    for path, body in (("crawl", crawl), ("batch/scrape", batch), ("extract", extract)):
        reply = service.post(f"/v2/{path}", {**common, **body})
        assert reply.status == 200, reply
        jobs.append(f"/v2/{path}/{reply.json['id']}")
    added = {
        "urls": [web.url(f"/held/added/{n}") for n in range(PAGES)],
        "maxAge": 0,
        "headers": hidden("added"),
        "appendToId": jobs[1].rpartition("/")[2],
    }
    assert service.post("/v2/batch/scrape", added).status == 200
    single = {"url": web.url("/scrape/0"), "headers": hidden("scrape"), "maxAge": 0}
    assert service.post("/v2/scrape", single).status == 200
    return jobs


def stored_bytes(data_dir, address):
    """Return all that is on disk of the data directory, and a dump of the database."""
    found = {str(p): p.read_bytes() for p in data_dir.rglob("*") if p.is_file()}
    if address.startswith("postgresql"):
        url = address.replace("+psycopg", "")
        done = subprocess.run(("pg_dump", url), capture_output=True, check=True)
        found["dump"] = done.stdout
    return found


def places_of(secrets, found):
    """Return where secrets are, as they are or in hexadecimal numbers."""
    forms = {form for secret in secrets for form in (secret, secret.hex().encode())}
    return {name for name, data in found.items() if any(f in data for f in forms)}


def sealed(address):
    """Return what the database keeps encrypted."""
    engine = sa.create_engine(address, poolclass=sa.NullPool)
    with closing(engine.connect()) as connection:
        rows = connection.exec_driver_sql("SELECT body FROM secret").scalars().all()
    return [bytes(row) for row in rows]


def modes(data_dir):
    return {
        path: oct(stat.S_IMODE(path.stat().st_mode))
        for path in (data_dir, *data_dir.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    }


@pytest.mark.full
@pytest.mark.slow_on("postgresql")
def test_secrets_of_jobs_are_encrypted_and_survive_a_crash(
    start_service, place, tmp_path, web
):
    address, settings = place
    data_dir = tmp_path / "data"
    clear = [text.encode() for text in CANARIES.values()]
    former = os.umask(0o022)
    try:
        service = start_service(data_dir, **OPEN, **settings)
    finally:
        os.umask(former)
    jobs = start_all(service, web)
    until(lambda: all(web.asked(kind) for kind in ("crawl", "batch", "extract")))
    encrypted = sealed(address)
    assert len(encrypted) >= 7, "options of three jobs, an addition, three webhooks"
    assert places_of(clear, stored_bytes(data_dir, address)) == set()
    assert modes(data_dir) == {}
    [crawl] = service.get("/v2/crawl/active").json["crawls"]
    assert crawl["options"]["scrapeOptions"]["headers"] == hidden("crawl")

    service.kill()
    before = {kind: len(web.asked(kind)) for kind in KINDS}
    again = start_service(data_dir, **OPEN, **settings)
    until(lambda: all(len(web.asked(k)) > before[k] for k in ("crawl", "batch")))
    web.gate.set()
    for job in jobs:
        until(lambda job=job: again.get(job).json["status"] == "completed")
    for kind in ("crawl", "batch", "added", "extract"):
        asked = web.asked(kind)
        assert len(asked) >= (1 if kind == "extract" else PAGES)
        assert {each.get("Cookie") for each in asked} == {f"session={CANARIES[kind]}"}
        assert {each.get("X-Kind") for each in asked} == {kind}
    until(lambda: not sealed(address))
    assert {headers.get("X-Key") for _, headers in web.hooks} == {CANARIES["hook"]}
    assert len(web.hooks) >= 3 * 2 + PAGES * 3
    assert places_of(clear, stored_bytes(data_dir, address)) == set()
    assert modes(data_dir) == {}
    assert again.stop() == 0
    left = stored_bytes(data_dir, address)
    assert places_of([*clear, *encrypted], left) == set()
    for text in CANARIES.values():
        assert text not in service.stderr + again.stderr


@pytest.mark.full
def test_another_secret_is_an_error_of_the_job(start_service, tmp_path, web):
    one = {**OPEN, "SCRAPER_KEY_SECRET": "one"}
    service = start_service(**one)
    [crawl, batch, extract] = start_all(service, web)
    until(lambda: all(web.asked(kind) for kind in ("crawl", "batch", "extract")))
    service.kill()
    by_hand = subprocess.run(
        (*SCRAPY, "crawl", "batch", "-a", f"job_id={batch.rpartition('/')[2]}"),
        env={
            **os.environ,
            "SCRAPER_DATA_DIR": str(tmp_path),
            "SCRAPER_KEY_SECRET": "of the node",
            "SCRAPER_CONVERTER_PROCESSES": "1",
        },
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=HELD_S,
        check=False,
    )
    assert "KEY_SECRET" in by_hand.stderr
    forgotten = run_command(
        tmp_path, "keys", "forget-secret", "--data-dir", str(tmp_path)
    )
    assert forgotten.returncode == 0, forgotten.stderr
    other = start_service(**{**OPEN, "SCRAPER_KEY_SECRET": "two"})
    web.gate.set()
    for job in (crawl, batch, extract):
        until(lambda job=job: other.get(job).json["status"] == "failed")
    engine = sa.create_engine(sqlite_of(tmp_path), poolclass=sa.NullPool)
    with closing(engine.connect()) as connection:
        texts = connection.exec_driver_sql(
            "SELECT error FROM job WHERE parent_id IS NULL"
        ).scalars()
        assert all("KEY_SECRET" in text for text in texts)
    assert CANARIES["batch"] not in by_hand.stdout + by_hand.stderr + other.stderr


def test_headers_of_a_webhook_stay_until_all_events_have_arrived(
    start_service, tmp_path, web
):
    web.gate.set()
    web.takes_hooks = False
    service = start_service(**OPEN, SCRAPER_WEBHOOK_RETRY_S="0")
    headers = {"X-Key": CANARIES["hook"]}
    body = {
        "urls": [web.url("/batch/0")],
        "webhook": {"url": web.url("/hook"), "headers": headers},
    }
    job = f"/v2/batch/scrape/{service.post('/v2/batch/scrape', body).json['id']}"

    def states():
        rows = service.get(f"{job}/deliveries").json["deliveries"]
        return {row["state"] for row in rows} if len(rows) == 3 else None

    until(lambda: states() == {"failed"})
    address = sqlite_of(tmp_path)
    assert len(sealed(address)) == 1
    web.hooks.clear()
    web.takes_hooks = True
    assert service.post(f"{job}/deliveries/replay").json["replayed"] == 3
    until(lambda: states() == {"delivered"})
    assert {found.get("X-Key") for _, found in web.hooks} == {CANARIES["hook"]}
    until(lambda: not sealed(address))

    refused = service.post(f"{job}/deliveries/1/replay")
    assert refused.status == 409
    assert "headers of the webhook were deleted" in refused.json["error"]
    more = {"urls": [web.url("/batch/1")], "appendToId": job.rpartition("/")[2]}
    refused = service.post("/v2/batch/scrape", more)
    assert refused.status == 409
    assert "send the webhook again" in refused.json["error"]
    web.hooks.clear()
    again = service.post("/v2/batch/scrape", {**more, "webhook": body["webhook"]})
    assert again.status == 200
    until(
        lambda: len(web.hooks) == 2 and service.get(job).json["status"] == "completed"
    )
    assert {found.get("X-Key") for _, found in web.hooks} == {CANARIES["hook"]}
