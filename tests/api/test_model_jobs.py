"""Model jobs through the API: llms.txt, extract; crashes in between."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections import Counter

import pytest
import sqlalchemy as sa

from scraper_service.api.errors import NO_SUCH_PATH
from tests.api.test_limits import Team, wait_until
from tests.conftest import Service
from tests.support import shop
from tests.support.chat_server import ChatServer
from tests.support.crash import kill, sqlite_of
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, moved, page, slow, text

KILLS = int(os.environ.get("CRASH_KILLS", "20"))
OTHER_HOST = "127.0.0.3"
SETTINGS = {"SCRAPER_LEASE_S": "3", "SCRAPER_EGRESS_ALLOW": "127.0.0.2/31"}


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
    return tmp_path_factory.mktemp("model_jobs")


@pytest.fixture(scope="module")
def running(data_dir):
    service = Service(data_dir, **SETTINGS)
    yield service
    assert service.stop() == 0, service.stderr


def start(service, path, **body):
    """Start a model job; return the path of its status."""
    reply = service.post(path, body)
    assert reply.status == 200, reply
    assert reply.json["success"] is True
    return f"{path}/{reply.json['id']}"


def ended(service, path):
    """Wait for the end of a model job; return its last status."""

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


def test_llmstxt_has_at_most_maxUrls_links(running, web):
    found = run(running, "/v1/llmstxt", url=web.url("/"), maxUrls=2)
    assert found["data"].keys() == {"llmstxt"}
    assert found["data"]["llmstxt"].count("\n- ") == 2


CLOSED = {
    "/": page("/open", "/private/a", "/private/b", title="Home"),
    "/open": page(title="Open"),
    "/private/a": page(title="Private"),
    "/private/b": page(title="Private"),
    "/robots.txt": text("User-agent: *\nDisallow: /private"),
}


def test_pages_of_a_site_that_robots_txt_refuses_are_left_out(running):
    with ScriptedSite(CLOSED) as site:
        found = run(running, "/v1/llmstxt", url=site.url("/"))
        assert found["data"]["llmstxt"].count("\n- ") == 2
        assert found["warning"] == "robots.txt refuses 2 of its pages."
        found = run(
            running, "/v2/extract", urls=[site.url("/*")], prompt="the title", limit=9
        )
        assert found["status"] == "completed"
        assert "robots.txt refuses 2 of its pages" in found["warning"]
        assert not any(path.startswith("/private") for path in site.paths())
        # What a caller names is read, as in a batch.
        url = site.url("/private/a")
        run(running, "/v2/extract", urls=[url], prompt="the title")
        run(running, "/v1/llmstxt", url=site.url("/private/b"))
        assert {"/private/a", "/private/b"} <= set(site.paths())


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
def test_an_unknown_job_of_these_kinds_is_not_found(running, web, path, text):
    reply = running.get(f"{path}/{uuid.uuid4()}")
    assert (reply.status, reply.json) == (404, {"success": False, "error": text})
    assert running.get(f"{path}/x").status == 400
    assert running.request("DELETE", f"{path}/{uuid.uuid4()}").status in {404, 405}
    started = start(running, "/v1/llmstxt", url=web.url("/shop/lamp"))
    job_id = started.rpartition("/")[2]
    if not path.endswith("llmstxt"):
        assert running.get(f"{path}/{job_id}").status == 404
    for other in ("/v1/crawl", "/v2/batch/scrape"):
        assert running.get(f"{other}/{job_id}").status == 404
    assert running.get("/v2/crawl/active").json["crawls"] == []
    ended(running, started)


def test_endpoints_that_only_v1_has_are_404_in_v2(running, web):
    reply = running.post("/v2/llmstxt", {"url": web.url("/")})
    assert reply.status == 404
    assert reply.json["error"] == NO_SUCH_PATH


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


def test_a_job_reads_as_many_pages_as_the_team_can_pay(running, data_dir, web):
    team = Team(running, data_dir, "--credits", "2")
    found = run(team, "/v1/llmstxt", url=web.url("/"))
    assert found["data"]["llmstxt"].count("\n- ") == 2
    assert "lowered from 10 to 2 pages" in found["warning"]
    assert team.remaining() == 0
    reply = team.post("/v1/llmstxt", {"url": web.url("/")})
    assert reply.status == 402
    assert reply.json["error"].startswith("Insufficient credits")
    assert team.post("/v2/extract", {"urls": [web.url("/")]}).status == 402


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "path", ["/v1/crawl", "/v2/crawl", "/v1/llmstxt", "/v2/extract"]
)
def test_a_job_limited_by_credits_starts_with_a_warning(running, data_dir, web, path):
    for number, noun in ((5, "pages"), (1, "page")):
        price = 5 if path == "/v2/extract" else 1
        team = Team(running, data_dir, "--credits", str(price * number))
        site = web.url("/")
        body = {"urls": [f"{site}*"], "prompt": "the title"}
        reply = team.post(path, body if price > 1 else {"url": site})
        assert reply.status == 200, reply.json
        assert f" to {number} {noun}: more cannot" in reply.json["warning"]


def test_an_extract_joins_its_pages_and_names_them(running, data_dir, web):
    team = Team(running, data_dir, "--credits", "100")
    urls = [web.url(path) for path in ("/gone", "/shop/lamp", "/shop/chair")]
    schema = {**shop.SCHEMA, "required": ["name", "founder"]}
    found = run(team, "/v2/extract", urls=urls, schema=schema, showSources=True)
    assert found["status"] == "completed", found
    assert found["data"] == {
        "name": "Brass Lamp",
        "price": 20.5,
        "currency": "EUR",
        "founder": None,
    }
    assert found["sources"]["name"] == [urls[1]]
    assert found["sources"]["currency"] == urls[1:]
    assert f"{urls[0]} (the site answered 404)" in found["warning"]
    assert "No page has founder" in found["warning"]
    assert (found["creditsUsed"], found["tokensUsed"]) == (10, 150)
    assert (team.remaining(), team.charged()) == (90, 10)
    calls = team.get("/v2/team/activity?endpoint=extract").json["data"]
    assert [(call["target"], call["api_version"]) for call in calls] == [
        (urls[0], "v2")
    ]
    assert "sources" not in run(team, "/v1/extract", urls=urls[1:], schema=schema)


PACKS = {
    f"/packs/{n}": page(title=f"Pack {n}", text=f"</p><p class=price>{n}.50 EUR")
    for n in range(11, 17)
}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_extract_by_a_prompt_has_the_fields_of_all_things(running, version):
    with ScriptedSite({**PACKS, "/packs": page(*PACKS, title="Packs")}) as site:
        body = {"urls": [site.url(path) for path in PACKS]}
        prompt = "name, price and seller of backpacks"
        found = run(running, f"/{version}/extract", **body, prompt=prompt)
    assert found["data"] == {
        "backpacks": [{"name": f"Pack {n}", "price": n + 0.5} for n in range(11, 17)]
    }
    assert found["warning"].endswith(" No page has backpacks.seller.")
    assert found["creditsUsed"] == 5 * len(PACKS)


def test_only_pages_that_an_extract_used_are_charged_for(running, data_dir):
    team = Team(running, data_dir, "--credits", "100")
    with ScriptedSite(PACKS) as site:
        urls = [site.url(path) for path in PACKS]
        one = run(team, "/v2/extract", urls=urls, prompt="name and fax")
        assert one["data"] == {"name": "Pack 11"}
        assert "No page has fax." in one["warning"]
        assert (one["creditsUsed"], one["tokensUsed"]) == (5, 75)
        assert (team.remaining(), team.charged()) == (95, 5)
        none = run(team, "/v2/extract", urls=urls, prompt="fax and calories")
        assert (none["status"], none["data"]) == ("completed", {})
        assert "No page has fax, calories." in none["warning"]
        assert (none["creditsUsed"], none["tokensUsed"]) == (0, 0)
        vague = run(team, "/v2/extract", urls=urls[:1], prompt="Summarize the page.")
        assert "No requested field was understood" in vague["warning"]
        assert (team.remaining(), team.charged()) == (90, 10)


def test_an_extract_of_a_site_chooses_the_pages_that_fit(running, web):
    site = {"urls": [web.url("/*")], "schema": shop.SCHEMA, "showSources": True}
    found = run(running, "/v2/extract", **site, prompt="founder of the shop")
    assert found["data"]["founder"] == "Ida Example"
    assert found["sources"]["founder"] == [web.url("/about")]
    below = {**site, "urls": [web.url("/shop/*")]}
    found = run(running, "/v2/extract", **below, ignoreSitemap=True)
    pages = {url for urls in found["sources"].values() for url in urls}
    assert pages <= {web.url(p) for p in ("/shop", "/shop/lamp", "/shop/chair")}


@pytest.mark.slow
def test_a_language_model_finds_the_data_of_each_page(start_service, web):
    urls = [web.url(f"/shop/{name}") for name in ("lamp", "chair")]
    body = {"urls": urls, "schema": shop.SCHEMA, "systemPrompt": "Be exact."}
    with ChatServer() as chat:
        service = start_service(**SETTINGS, **chat.environment)
        chat.behave(answer={"name": "A thing", "price": 12.5})
        found = run(service, "/v2/extract", **body)
        asked = [str(each["body"]["messages"]) for each in chat.asked()]
        chat.behave("refuses")
        without = run(service, "/v2/extract", **body)
    assert (found["data"]["name"], found["data"]["price"]) == ("A thing", 12.5)
    assert "warning" not in found
    assert found["tokensUsed"] == 200
    assert ["Be exact." in each for each in asked] == [True, True]
    assert "Rules answered 2 of 2 pages" in without["warning"]
    assert without["tokensUsed"] == 150


def test_an_extract_without_anything_to_read_fails(running, web):
    found = run(running, "/v2/extract", urls=[web.url("/gone")], prompt="the price")
    assert (found["success"], found["status"], found["data"]) == (False, "failed", [])
    assert "the site answered 404" in found["error"]


def test_an_extract_may_search_for_its_pages(running, web):
    running.post("/v2/scrape", {"url": web.url("/about")})
    asked = {"prompt": "the founder of the shop", "schema": shop.SCHEMA}
    found = run(running, "/v2/extract", **asked, showSources=True)
    assert found["data"]["founder"] == "Ida Example"
    assert found["sources"]["founder"] == [web.url("/about")]
    assert "No search engine is configured" in found["warning"]
    body = {**asked, "urls": [web.url("/shop/lamp")], "enableWebSearch": True}
    found = run(running, "/v2/extract", **body)
    assert found["data"]["name"] == "Brass Lamp"
    assert found["data"]["founder"] == "Ida Example"


def test_an_extract_may_follow_links_to_other_sites(running):
    facts = "<dl><dt>Founder</dt><dd>Ida Example</dd></dl>"
    with ScriptedSite({"/founder": page(title="Us", text=facts)}, OTHER_HOST) as other:
        partners = page(other.url("/founder"), title="Partners")
        with ScriptedSite({"/partners": partners}) as web:
            body = {"urls": [web.url("/partners/*")], "schema": shop.SCHEMA}
            inside = run(running, "/v2/extract", **body)
            outside = run(running, "/v2/extract", **body, allowExternalLinks=True)
    assert "founder" not in inside["data"]
    assert outside["data"]["founder"] == "Ida Example"


@pytest.mark.slow
def test_an_extract_that_times_out_returns_the_pages_it_has_read(running, web):
    urls = [web.url("/shop/lamp"), web.url("/never")]
    body = {"urls": urls, "schema": shop.SCHEMA, "timeout": 20_000}
    found = run(running, "/v1/extract", **body)
    assert found["status"] == "completed"
    assert found["data"]["name"] == "Brass Lamp"
    assert "only 1 of 2 pages could be read in time." in found["warning"]
    assert found["creditsUsed"] == 5
    # Nobody goes on with the page that was left.
    queue = "/v2/team/queue-status"
    wait_until(lambda: running.get(queue).json["jobsInQueue"] == 0)


def test_an_extract_sends_its_events_to_the_webhook(running, web):
    with Receiver() as receiver:
        hook = {"url": receiver.url("/ok/extract"), "metadata": {"run": "7"}}
        body = {"schema": shop.SCHEMA, "webhook": hook, "showSources": True}
        good = start(running, "/v2/extract", urls=[web.url("/shop/lamp")], **body)
        bad = start(running, "/v2/extract", urls=[web.url("/gone")], **body)
        statuses = [ended(running, path) for path in (good, bad)]
        wait_until(lambda: len(receiver.received("/ok/extract")) == 4)
        told = [each.json for each in receiver.received("/ok/extract")]
    events = {(each["id"], each["type"]): each for each in told}
    ids = [path.rpartition("/")[2] for path in (good, bad)]
    started = events[ids[0], "extract.started"]
    assert (started["success"], started["data"]) == (True, [])
    completed = events[ids[0], "extract.completed"]
    assert completed["metadata"] == {"run": "7"}
    [data] = completed["data"]
    assert (data["success"], data["extractId"]) == (True, ids[0])
    assert data["totalUrlsScraped"] == 1
    assert data["data"] == statuses[0]["data"]
    assert data["sources"] == statuses[0]["sources"]
    failed = events[ids[1], "extract.failed"]
    assert (failed["success"], failed["data"]) == (False, [])
    assert failed["error"] == statuses[1]["error"]


@pytest.mark.full
def test_model_jobs_go_on_after_a_kill(start_service, tmp_path):
    """With what was found before it: neither listed nor read again, nor paid twice."""
    settings = {**SETTINGS, "SCRAPER_HOST_CONCURRENCY": "1"}
    with ScriptedSite(shop.pages() | SLOW) as web:
        first = start_service(**settings)
        text = start(first, "/v1/llmstxt", url=web.url("/slow/"), maxUrls=13)
        urls = [web.url("/shop/lamp"), web.url("/shop/chair")]
        extract = start(first, "/v2/extract", urls=urls, schema=shop.SCHEMA)
        wait_until(lambda: "/slow/3" in web.paths())
        kill(first)
        second = start_service(**settings)
        found = ended(second, text)
        assert found["data"]["llmstxt"].count("\n- ") == 13
        assert ended(second, extract)["data"]["name"] == "Brass Lamp"
        asked = Counter(web.paths())
    assert asked["/robots.txt"] <= 2
    assert max(asked[f"/slow/{n}"] for n in range(12)) <= 2  # what was under way
    charges = charges_of(tmp_path)
    assert charges == {text: 13, extract: 10}


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_model_jobs_survive_many_kills(start_service, tmp_path, kind, request):
    """Two processes share the work; one after the other is killed."""
    settings = {**SETTINGS, "SCRAPER_HOST_CONCURRENCY": "2"}
    database = sqlite_of(tmp_path)
    if kind == "postgresql":
        database = request.getfixturevalue("postgres_tables")()
        settings["SCRAPER_DATABASE_URL"] = database
    chance = random.Random("operations")
    with ScriptedSite(shop.pages() | SLOW) as web:
        services = [start_service(**settings) for _ in range(2)]
        paths = {}
        for _ in range(KILLS):
            service = chance.choice(services)
            text = start(
                service, "/v1/llmstxt", url=web.url("/slow/"), cache=False, maxUrls=13
            )
            site = {"urls": [web.url("/shop/*")], "schema": shop.SCHEMA}
            paths |= {text: 13, start(service, "/v2/extract", **site): None}
            time.sleep(chance.random() * 3)
            victim = chance.randrange(2)
            kill(services[victim])
            services[victim] = start_service(**settings)
        ends = {path: ended(services[0], path) for path in paths}
    assert {end["status"] for end in ends.values()} == {"completed"}
    charges = charges_of(tmp_path, database)
    assert charges.keys() == paths.keys()
    for path, pages in paths.items():
        if pages is not None:
            assert ends[path]["data"]["llmstxt"].count("\n- ") == pages
        assert charges[path] == pages or ends[path].get("creditsUsed")


def charges_of(data_dir, database=None):
    """Return what each model job was charged, by the path of its status; all rows."""
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
