"""Operations of several steps through the API: llms.txt, extract; crashes in between."""

from __future__ import annotations

import os
import uuid

import pytest
import sqlalchemy as sa

from tests import shop
from tests.api.test_limits import Team, wait_until
from tests.conftest import Service
from tests.crash import sqlite_of
from tests.scripted_site import ScriptedSite, moved, page, slow

KILLS = int(os.environ.get("CRASH_KILLS", "20"))
RESUME_S = 60  # of a restarted service on a busy machine, until it is done
SETTINGS = {"SCRAPER_LEASE_S": "1", "SCRAPER_EGRESS_ALLOW": "127.0.0.2/31"}


SLOW = {
    "/slow/": page(*(f"/slow/{n}" for n in range(12)), title="Slow"),
    **{f"/slow/{n}": slow(page(title=f"Slow {n}"), 0.2) for n in range(12)},
}


@pytest.fixture(scope="module")
def web():
    """A shop, and places where something goes wrong."""
    troubles = {"/loop": moved("/loop"), "/never": slow("", 600)}
    with ScriptedSite(shop.pages() | troubles) as site:
        yield site


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("operations")


@pytest.fixture(scope="module")
def running(data_dir):
    service = Service(data_dir, **SETTINGS)
    yield service
    assert service.stop() == 0, service.stderr


def start(service, path, **body):
    """Start an operation; return the path of its status."""
    reply = service.post(path, body)
    assert reply.status == 200, reply
    assert reply.json["success"] is True
    return f"{path}/{reply.json['id']}"


def ended(service, path):
    """Wait for the end of an operation; return its last status."""

    def status():
        found = service.get(path)
        assert found.status == 200, found
        return found.json if found.json["status"] != "processing" else None

    return wait_until(status)


def run(service, path, **body):
    return ended(service, start(service, path, **body))


def test_the_text_of_a_site_lists_its_pages_in_order(running, web):
    found = run(running, "/v1/llmstxt", url=web.url("/"), showFullText=True)
    assert found["success"] is True
    assert found["status"] == "completed"
    assert found["data"]["llmstxt"] == (
        f"# {web.url('/')} llms.txt\n\n"
        f"- [The Shop]({web.url('/')}): We sell things.\n"
        f"- [All products]({web.url('/shop')})\n"
        f"- [About the shop]({web.url('/about')}): The shop was founded by Ida Example"
        " in the year 1999.\n"
        f"- [Brass Lamp]({web.url('/shop/lamp')}): All about the Brass Lamp.\n"
        f"- [Oak Chair]({web.url('/shop/chair')}): All about the Oak Chair.\n"
    )
    full = found["data"]["llmsfulltxt"]
    start = f"# {web.url('/')} llms-full.txt\n\n<|page-1|>\n## The Shop\n"
    assert full.startswith(start)
    assert "<|page-4|>\n## Brass Lamp\n\n# Brass Lamp\n\nThe Brass Lamp is" in full
    assert "expiresAt" in found


def test_the_text_of_a_site_is_as_long_as_asked_for(running, web):
    found = run(running, "/v1/llmstxt", url=web.url("/"), maxUrls=2)
    assert found["data"].keys() == {"llmstxt"}
    assert found["data"]["llmstxt"].count("\n- ") == 2


def test_a_site_that_cannot_be_read_fails(running, web):
    found = run(running, "/v1/llmstxt", url=web.url("/gone"), cache=False)
    assert (found["success"], found["status"]) == (False, "failed")
    assert "the site answered 404" in found["error"]
    assert found["data"] == {"llmstxt": ""}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/v1/llmstxt", "llmsTxt generation job not found"),
        ("/v1/extract", "Extract job not found"),
        ("/v2/extract", "Extract job not found"),
    ],
)
def test_what_is_not_there_is_not_found(running, web, path, text):
    reply = running.get(f"{path}/{uuid.uuid4()}")
    assert (reply.status, reply.json) == (404, {"success": False, "error": text})
    assert running.get(f"{path}/x").status == 400
    assert running.request("DELETE", f"{path}/{uuid.uuid4()}").status in {404, 405}
    started = start(running, "/v1/llmstxt", url=web.url("/shop/lamp"))
    operation_id = started.rpartition("/")[2]
    if not path.endswith("llmstxt"):
        assert running.get(f"{path}/{operation_id}").status == 404
    for other in ("/v1/crawl", "/v2/batch/scrape"):
        assert running.get(f"{other}/{operation_id}").status == 404
    assert running.get("/v2/crawl/active").json["crawls"] == []
    ended(running, started)


def test_there_is_one_version_of_what_the_second_has_not(running, web):
    reply = running.post("/v2/llmstxt", {"url": web.url("/")})
    assert (reply.status, reply.json["error"]) == (404, "Not found")


def test_credits_are_charged_once_for_the_pages_that_were_read(running, data_dir, web):
    team = Team(running, data_dir, "--credits", "10")
    found = run(team, "/v1/llmstxt", url=web.url("/"), maxUrls=8)
    assert found["status"] == "completed"
    assert (team.remaining(), team.charged()) == (5, 5)
    assert len(team.rows("SELECT 1 FROM ledger WHERE team_id = :team")) == 1
    failed = run(team, "/v1/llmstxt", url=web.url("/loop"))
    assert failed["status"] == "failed"
    assert (team.remaining(), team.charged()) == (5, 5)
    calls = team.get("/v2/team/activity?endpoint=llmstxt").json["data"]
    assert [call["target"] for call in calls] == [web.url("/loop"), web.url("/")]


def test_a_team_gets_as_many_pages_as_it_can_pay(running, data_dir, web):
    team = Team(running, data_dir, "--credits", "2")
    found = run(team, "/v1/llmstxt", url=web.url("/"))
    assert found["data"]["llmstxt"].count("\n- ") == 2
    assert "lowered from 10 to 2 pages" in found["warning"]
    assert team.remaining() == 0
    reply = team.post("/v1/llmstxt", {"url": web.url("/")})
    assert reply.status == 402
    assert reply.json["error"].startswith("Insufficient credits")
    assert team.post("/v2/extract", {"urls": [web.url("/")]}).status == 402


def test_an_extract_without_anything_to_read_fails(running, web):
    found = run(running, "/v2/extract", urls=[web.url("/gone")], prompt="the price")
    assert (found["success"], found["status"], found["data"]) == (False, "failed", [])
    assert "the site answered 404" in found["error"]


def charges_of(data_dir, database=None):
    """Return what each operation was charged, by the path of its status; all rows."""
    engine = sa.create_engine(database or sqlite_of(data_dir), poolclass=sa.NullPool)
    query = (
        "SELECT job.kind, job.id, ledger.credits FROM ledger"
        " LEFT JOIN job ON job.id = ledger.page_id"
    )
    with engine.connect() as connection:
        rows = connection.execute(sa.text(query)).all()
    engine.dispose()
    places = {"llmstxt": "/v1/llmstxt", "extract": "/v2/extract"}
    found = {f"{places[kind]}/{job_id}": price for kind, job_id, price in rows}
    assert len(found) == len(rows)
    return found
