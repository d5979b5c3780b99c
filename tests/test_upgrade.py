"""Today's service starts on the data of the first release."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
import uuid
import zlib

import pytest
from sqlalchemy import create_engine, text

from scraper_service.storage.database import HEAD, migrate
from tests.conftest import Service
from tests.support.waiting import WAIT_S, wait_until

FIRST = "r0002"
SECRET, KEY = "the secret of the first release", "fc-of-the-first-release"
DAY_S = 86_400
CREDITS = 50
SCRAPE_ID, DONE_ID, RUNNING_ID = (str(uuid.UUID(int=n)) for n in (1, 2, 3))
# The options of jobs as the first release wrote them.
SCRAPE = """{"formats": [{"type": "markdown"}], "headers": [], "include_tags": [],
"exclude_tags": [], "only_main_content": true, "only_clean_content": false,
"timeout_ms": null, "wait_for_ms": 0, "mobile": false, "parsers": [{"mode": "auto",
"max_pages": null, "pages": false, "blocks": false, "page_markers": false,
"type": "pdf"}], "actions": [], "location": null, "skip_tls_verification": true,
"remove_base64_images": true, "fast_mode": false, "block_ads": true, "proxy": "auto",
"max_age_ms": 172800000, "min_age_ms": null, "store_in_cache": true, "lockdown": false,
"zero_data_retention": false, "site_rules": null, "profile": null, "session": null,
"check_prompt_injection": false}"""
CRAWL = """{"url": "http://127.0.0.2/", "limit": 3, "max_discovery_depth": null,
"delay_s": null, "max_concurrency": null, "crawl_entire_domain": false,
"allow_subdomains": false, "allow_external_links": false, "include_paths": [],
"exclude_paths": [], "regex_on_full_url": false, "ignore_robots_txt": false,
"robots_user_agent": null, "sitemap": "include", "deduplicate_similar_urls": true,
"ignore_query_parameters": false, "max_path_depth": null, "prompt": null,
"dedupe_boilerplate": false, "webhook": null, "scrape": SCRAPE, "origin": "api",
"integration": null, "audit_username": null}"""
BATCH = """{"urls": ["URL"], "max_concurrency": null, "dedupe_boilerplate": false,
"webhook": null, "scrape": SCRAPE, "origin": "api", "integration": null,
"audit_username": null}"""
PENDING, LEASED, DONE = 1, 2, 3


def page_of(url, page_id):
    facts = {"sourceURL": url, "url": url, "statusCode": 200, "scrapeId": page_id}
    page = {"markdown": f"Old {url}", "metadata": {**facts, "creditsUsed": 1}}
    return zlib.compress(json.dumps(page).encode())


def rows_of_the_first_release(now, urls):
    """Yield (table, row): a team, its key, a scrape, a job that ended and one that runs."""
    secret = SECRET.encode()
    digest = hmac.new(secret, KEY.removeprefix("fc-").encode(), hashlib.sha256)
    team, key = "team", "key"
    made = {"created_at": "2026-01-01 00:00:00"}
    yield "team", {"id": team, "name": "shop", "credits": CREDITS, **made}
    yield (
        "key",
        {
            "id": key,
            "team_id": team,
            "name": "first",
            "hint": "ease",
            **made,
            "hash": digest.hexdigest(),
            "source": "created",
        },
    )
    body = page_of("http://127.0.0.2/scraped", SCRAPE_ID)
    until = {"expires_at": now + DAY_S}
    yield "scrape", {"id": SCRAPE_ID, "team_id": team, "body": body, **until}
    called = {"team_id": team, "endpoint": "scrape", "version": 2, "at": now}
    yield "activity", {"id": SCRAPE_ID, "target": "http://127.0.0.2/", **called}
    charged = {"team_id": team, "key_id": key, "credits": 1, "at": now}
    charged["day"] = int(now // DAY_S)
    yield "ledger", {"page_id": SCRAPE_ID, **charged}
    counts = dict.fromkeys(("open", "done", "failed", "pages", "held", "credits"), 0)
    job = {"team_id": team, "key_id": key, "version": 2, "created_at": now, **counts}
    done = {"done": 2, "pages": 2, "credits": 2, "page_limit": 3}
    crawl = CRAWL.replace("SCRAPE", SCRAPE)
    yield (
        "job",
        {
            **job,
            **done,
            **until,
            "id": DONE_ID,
            "kind": "crawl",
            "state": "completed",
            "url": "http://127.0.0.2/",
            "completed_at": now,
            "options": crawl,
        },
    )
    running = {"open": 2, "done": 1, "pages": 1, "credits": 1}
    running |= {"page_price": 1, "reserved": 2}  # of the team's credits, for two pages
    batch = BATCH.replace("SCRAPE", SCRAPE).replace("URL", urls[0])
    yield (
        "job",
        {
            **job,
            **running,
            **until,
            "id": RUNNING_ID,
            "kind": "batch",
            "state": "scraping",
            "url": urls[0],
            "options": batch,
        },
    )
    # The process of the job was killed while it fetched a page.
    gone = {"state": LEASED, "owner": "gone", "token": 1, "attempts": 1}
    states = [{"state": DONE, "token": 1, "ended_at": now}] * 3
    states += [gone, {"state": PENDING, "token": 0}]
    jobs = [(DONE_ID, "http://127.0.0.2/0"), (DONE_ID, "http://127.0.0.2/1")]
    jobs += [(RUNNING_ID, url) for url in urls]
    numbers = {DONE_ID: 0, RUNNING_ID: 0}
    for number, ((job_id, url), state) in enumerate(zip(jobs, states, strict=True), 1):
        page_id = str(uuid.UUID(int=100 + number))
        row = {"id": number, "job_id": job_id, "key": number, "url": url, "depth": 0}
        if state["state"] != DONE:
            yield "frontier", {**row, **state}
            continue
        yield "frontier", {**row, **state, "page_id": page_id}
        seq = numbers[job_id]
        numbers[job_id] += 1
        page = {"id": page_id, "job_id": job_id, "seq": seq, "size": 100}
        yield "page", {**page, "frontier_id": number, "body": page_of(url, page_id)}
        event = {"id": number, "job_id": job_id, "kind": "page", "at": now}
        yield "event", {**event, "page_id": page_id}
        yield "ledger", {"page_id": page_id, "job_id": job_id, **charged}


def insert(connection, table, row):
    names = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request, tmp_path):
    """The URL of a database of today, and the engine of the same database."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres")()
    path = tmp_path / "jobs.sqlite"
    engine = create_engine(url or f"sqlite:///{path}")
    yield url, engine
    engine.dispose()


def test_the_data_of_the_first_release_is_used_on(old, tmp_path, site):
    url, engine = old
    urls = [site.url(f"/text?{number}") for number in range(3)]
    with engine.begin() as connection:
        migrate(connection, FIRST)
        for table, row in rows_of_the_first_release(time.time(), urls):
            insert(connection, table, row)
        if url:  # rows with numbers of their own
            for table in ("frontier", "event"):
                connection.execute(
                    text(
                        f"SELECT setval('{table}_id_seq', (SELECT max(id) FROM {table}))"
                    )
                )
    engine.dispose()
    with Service(
        tmp_path,
        SCRAPER_DATABASE_URL=url,
        SCRAPER_KEY_SECRET=SECRET,
        SCRAPER_API_KEYS="",
    ) as service:

        def get(path):
            reply = service.get(path, key=KEY)
            assert reply.status == 200, reply
            return reply.json

        assert get("/health/ready")["schemaVersion"] == HEAD
        scraped = get(f"/v2/scrape/{SCRAPE_ID}")["data"]
        assert scraped["markdown"] == "Old http://127.0.0.2/scraped"
        crawl = get(f"/v2/crawl/{DONE_ID}")
        assert (crawl["status"], crawl["completed"]) == ("completed", 2)
        pages = [page["markdown"] for page in crawl["data"]]
        assert pages == ["Old http://127.0.0.2/0", "Old http://127.0.0.2/1"]

        def ended():
            batch = get(f"/v2/batch/scrape/{RUNNING_ID}")
            return batch if batch["status"] != "scraping" else None

        batch = wait_until(ended)
        assert (batch["status"], batch["completed"], batch["total"]) == (
            *("completed", 3, 3),
        )
        pages = {page["metadata"]["sourceURL"]: page for page in batch["data"]}
        assert pages.keys() == {*urls}
        assert pages[urls[0]]["markdown"] == f"Old {urls[0]}"
        assert pages[urls[1]]["markdown"] == pages[urls[2]]["markdown"] != ""
        usage = get("/v2/team/credit-usage")["data"]
        assert usage["remainingCredits"] == CREDITS
        months = get("/v2/team/credit-usage/historical")["periods"]
        # A scrape, two pages of the crawl, three of the batch.
        assert sum(month["creditsUsed"] for month in months) == 6
        listed = {job["id"] for job in get("/v2/jobs")["jobs"]}
        assert listed >= {DONE_ID, RUNNING_ID}
    assert "Traceback" not in service.stderr


def test_tables_of_a_newer_version_are_refused_with_what_to_do(old, tmp_path):
    url, engine = old
    with engine.begin() as connection:
        migrate(connection)
        connection.execute(text("UPDATE alembic_version SET version_num = 'r9999'"))
    engine.dispose()
    done = subprocess.run(
        (
            *(sys.executable, "-m", "scraper_service", "serve", "--port", "0"),
            *("--data-dir", str(tmp_path)),
        ),
        env={**os.environ, "SCRAPER_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 1
    assert "newer version (r9999)" in done.stderr
    assert "install the newer version" in done.stderr
    assert "Traceback" not in done.stderr
    with engine.connect() as connection:
        found = connection.execute(text("SELECT version_num FROM alembic_version"))
        assert found.scalar() == "r9999"
