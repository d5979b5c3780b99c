"""Agents through the API: rounds, bounds, credits, sources, crashes, webhooks."""

from __future__ import annotations

import json
import uuid
from collections import Counter

import pytest

from tests.api.test_limits import Team, wait_until
from tests.api.test_model_jobs import ended, run, start
from tests.conftest import Service
from tests.support import shop
from tests.support.crash import kill
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, moved, page, slow, text

PROMPT = "Who founded the shop?"
TEXT = "The founder is Ida Example [1]."
SETTINGS = {"SCRAPER_LEASE_S": "3", "SCRAPER_EGRESS_ALLOW": "127.0.0.2/31"}
OTHER_HOST = "127.0.0.3"
CHOOSE, ANSWER, FILL = (
    "Choose the action of this round",
    "Write the answer from",
    "Give the data from",
)
READ_PAGE = "Extract data from the document"
EXTRACT = {"action": "extract"}


def scrape(*urls):
    return {"action": "scrape", "urls": urls}


def search(query):
    return {"action": "search", "query": query}


@pytest.fixture(scope="module")
def web():
    closed = {
        "/private": page(title="Private", text="Nobody may read this sentence here."),
        "/robots.txt": text("User-agent: *\nDisallow: /private"),
        "/index": page("/private", "/about", title="Index", text="Links to pages."),
    }
    with ScriptedSite(shop.pages() | closed) as site:
        yield site


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("agents")


@pytest.fixture(scope="module")
def running(data_dir, chat):
    service = Service(data_dir, **SETTINGS, **chat.environment)
    yield service
    assert service.stop() == 0, service.stderr


def behave(chat, *actions, text=TEXT, value=None, page_value=None):
    """Let the model choose ``actions``, read pages, and answer."""
    answers = {
        CHOOSE: {"answers": list(actions)},
        ANSWER: text,
        FILL: value,
        READ_PAGE: page_value,
    }
    chat.behave(answer={"by_text": answers})


def agent(service, **body):
    return run(service, "/v2/agent", prompt=body.pop("prompt", PROMPT), **body)


def chosen(chat):
    """Return the requests in which the model was to choose an action."""
    texts = [each["body"]["messages"][-1]["content"] for each in chat.asked()]
    return [text for text in texts if CHOOSE in text]


def test_an_agent_job_without_a_language_model_is_refused(service):
    refused = service.post("/v2/agent", {"prompt": PROMPT})
    assert refused.status == 400
    found = refused.json
    assert found.keys() == {"success", "code", "error"}
    assert (found["success"], found["code"]) == (False, "LANGUAGE_MODEL_REQUIRED")
    assert found["error"].startswith("The agent needs a language model")
    for name in ("SCRAPER_LLM_BASE_URL", "/v2/extract", "enableWebSearch"):
        assert name in found["error"]
    assert service.get("/v2/agent").json == {"success": True, "agents": []}
    assert service.get("/v2/jobs?kind=agent").json["jobs"] == []
    for method in ("GET", "DELETE"):
        reply = service.request(method, f"/v2/agent/{uuid.uuid4()}")
        assert (reply.status, reply.json["error"]) == (404, "Agent job not found")


def test_a_question_is_answered_from_pages_that_the_model_chooses(
    running, data_dir, web, chat
):
    team = Team(running, data_dir, "--credits", "100")
    behave(chat, scrape(web.url("/")), scrape(web.url("/about")), EXTRACT)
    found = agent(team, prompt=f"{PROMPT} See {web.url('/')}.", effort="low")
    expires = found.pop("expiresAt")
    ids = [each.pop("scrapeId") for each in found["sources"]]
    assert found == {
        "success": True,
        "status": "completed",
        "data": {
            "answer": TEXT,
            "sources": [{"url": web.url("/"), "title": "The Shop"}],
        },
        "model": "stand-in",
        "effort": "low",
        "creditsUsed": 10,
        "sources": [
            {"url": web.url("/"), "title": "The Shop"},
            {"url": web.url("/about"), "title": "About the shop"},
        ],
        "progress": {
            "rounds": 2,
            "pages": 2,
            "searches": 0,
            "message": "The run is complete.",
        },
    }
    assert expires.endswith("Z")
    assert len(set(ids)) == 2
    assert (team.remaining(), team.charged()) == (90, 10)
    # What pages say is data: it never stands among the orders.
    last = chosen(chat)[-1]
    task, _, document = last.partition("The document:")
    assert "Ida Example" in document
    assert "Ida Example" not in task
    [listed] = running.request("GET", "/v2/jobs?kind=agent", key=team.key).json["jobs"]
    assert (listed["state"], listed["creditsUsed"]) == ("completed", 10)
    assert listed["url"].endswith(f"/v2/agent/{listed['id']}")
    details = running.request("GET", f"/v2/jobs/{listed['id']}", key=team.key).json
    assert details["data"]["options"]["prompt"].startswith(PROMPT)


def test_searches_and_maps_find_only_permitted_urls(running, data_dir, web, chat):
    team = Team(running, data_dir, "--credits", "100")
    team.scrape(web.url("/about"))
    site = {"action": "map", "url": web.url("/")}
    behave(
        chat, search("founder of the shop"), site, scrape(web.url("/about")), EXTRACT
    )
    found = agent(team, urls=[web.url("/")])
    assert found["status"] == "completed", found
    assert found["data"]["sources"][0]["url"] == web.url("/about")
    assert found["progress"]["searches"] == 1
    assert found["creditsUsed"] == 2 + 1 + 5
    assert team.remaining() == 100 - 1 - 8
    assert web.url("/shop") in chosen(chat)[2]


def test_a_schema_is_filled_and_fields_name_their_pages(running, data_dir, web, chat):
    team = Team(running, data_dir, "--credits", "100")
    value = {"name": "Brass Lamp", "price": 20.5, "evil": 1}
    behave(chat, scrape(web.url("/shop/lamp")), EXTRACT, value=value, page_value=value)
    body = {"urls": [web.url("/shop/lamp")], "schema": shop.SCHEMA, "model": "spark-2"}
    found = agent(team, prompt="The lamp", **body)
    assert found["status"] == "completed", found
    assert found["data"] == {"name": "Brass Lamp", "price": 20.5}
    assert found["model"] == "spark-2"
    assert "effort" not in found
    assert "warning" not in found
    [source] = found["sources"]
    assert source["fields"] == ["name", "price"]
    assert (found["creditsUsed"], team.remaining()) == (5, 95)


def test_a_required_value_that_no_page_has_is_null(running, web, chat):
    url = web.url("/about")
    behave(chat, scrape(url), EXTRACT, value={"founder": "Ida"}, page_value={})
    found = agent(running, urls=[url], schema=shop.SCHEMA)
    assert found["data"] == {"name": None, "founder": "Ida"}
    assert "No page has name, which the schema requires." in found["warning"]


def test_data_of_pages_is_merged_if_the_model_returns_no_data(running, web, chat):
    url = web.url("/shop/lamp")
    page_value = {"name": "Brass Lamp"}
    behave(chat, scrape(url), EXTRACT, value="null", page_value=page_value)
    found = agent(running, urls=[url], schema=shop.SCHEMA)
    assert found["data"] == page_value
    assert "were merged by rules" in found["warning"]
    behave(chat, scrape(url), EXTRACT, text=" ")
    found = agent(running, urls=[url])
    assert found["error"] == "The language model wrote no answer (it said nothing)."
    assert found["partial"]["sources"] == [{"url": url, "title": "Brass Lamp"}]


def test_a_schema_may_describe_a_list(running, web, chat):
    url = web.url("/shop")
    schema = {"type": "array", "items": {"type": "string"}}
    value = {"value": ["Brass Lamp", "Oak Chair"]}
    behave(chat, scrape(url), EXTRACT, value=value, page_value=value)
    found = agent(running, urls=[url], schema=schema)
    assert (found["status"], found["data"]) == ("completed", value["value"])


def test_a_model_that_does_not_finish_is_stopped_by_the_limits(running, web, chat):
    behave(chat, scrape(web.url("/about")))  # the same for ever
    found = agent(running, urls=[web.url("/about")], effort="low")
    assert found["status"] == "completed"
    assert (found["progress"]["rounds"], found["creditsUsed"]) == (3, 5)
    assert len(chosen(chat)) == 3
    assert "read before" in chosen(chat)[-1]
    behave(chat, EXTRACT)
    found = agent(running, urls=[web.url("/about")], effort="low")
    assert (found["status"], found["creditsUsed"]) == ("failed", 0)
    assert found["error"].startswith("No page about it could be found and read.")
    assert found["stopReason"] == "error"
    assert "partial" not in found


def test_a_page_with_malformed_links_is_read(running, web, chat):
    bad = ("http://[::1", "http://[domain]/", "http://user:pa[ss@h/", "//[x")
    with ScriptedSite({"/": page(*bad, "/b", text="Some words here.")}) as site:
        behave(chat, scrape(site.url("/")))
        found = agent(running, urls=[site.url("/")], effort="low")
        assert found["status"] == "completed"
        assert [each["url"] for each in found["sources"]] == [site.url("/")]


def test_urls_that_the_model_makes_up_are_refused(running, web, chat):
    lie, other = web.url("/shop/lamp"), "http://127.0.0.1/secret"
    before = web.paths().count("/shop/lamp")
    lies = [scrape(lie, other), {"action": "map", "url": lie}]
    behave(chat, *lies, scrape(web.url("/about"), lie))
    found = agent(running, urls=[web.url("/about")], effort="low")
    assert found["status"] == "completed"
    assert [each["url"] for each in found["sources"]] == [web.url("/about")]
    assert web.paths().count("/shop/lamp") == before
    observed = chosen(chat)
    assert "scrape was refused: not in the request" in observed[1]
    assert "map was refused" in observed[2]


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    "answer",
    [
        {"action": "dance"},
        "I would rather not.",
        {"action": None},
        scrape(),
        "{",
        "null",
        '[{"action": "extract"}]',
    ],
    ids=["unknown", "no JSON", "no action", "no urls", "broken", "null", "a list"],
)
def test_a_reply_of_the_model_without_an_action_costs_a_round(
    running, web, chat, answer
):
    behave(chat, answer, answer, answer, scrape(web.url("/about")), EXTRACT)
    found = agent(running, urls=[web.url("/about")])
    assert found["status"] in {"completed", "failed"}
    assert found["progress"]["rounds"] <= 6
    if found["status"] == "completed":
        assert found["data"]["answer"] == TEXT


def test_an_agent_job_without_a_working_model_costs_no_credits(
    running, data_dir, web, chat
):
    team = Team(running, data_dir, "--credits", "100")
    chat.behave("refuses")
    found = agent(team, urls=[web.url("/about")], effort="low")
    assert found["status"] == "failed"
    assert "The language model chose no action (" in found["error"]
    assert team.remaining() == 100


def test_max_credits_end_a_run_that_then_is_free(running, data_dir, web, chat):
    team = Team(running, data_dir, "--credits", "100")
    value = {"name": "The Shop"}
    two = [scrape(web.url("/about")), scrape(web.url("/shop"))]
    behave(chat, *two, value=value, page_value=value)
    urls = [web.url("/about"), web.url("/shop")]
    found = agent(team, urls=urls, maxCredits=9.5, schema=shop.SCHEMA)
    assert found["status"] == "failed"
    assert found["error"] == "Max credits exceeded"
    assert found["stopReason"] == "credit_limit_reached"
    assert found["partial"] == value
    assert found["partialSchemaValid"] is True
    assert found["creditsUsed"] == 0
    assert "data" not in found
    assert (team.remaining(), team.charged()) == (100, 0)
    behave(chat, scrape(*urls), EXTRACT)
    found = agent(team, urls=urls, maxCredits=9.5)
    assert (found["status"], found["creditsUsed"]) == ("completed", 5)
    assert len(found["sources"]) == 1


def test_an_agent_job_spends_at_most_the_credits_of_its_team(
    running, data_dir, web, chat
):
    team = Team(running, data_dir, "--credits", "7")
    two = [scrape(web.url("/about")), scrape(web.url("/shop"))]
    behave(chat, *two)
    found = agent(team, urls=[web.url("/about"), web.url("/shop")])
    assert found["error"] == "Max credits exceeded"
    assert found["partial"]["sources"][0]["url"] == web.url("/about")
    assert "partialSchemaValid" not in found
    assert "The run may cost 7 credits" in found["warning"]
    assert team.remaining() == 7
    started = team.post("/v2/agent", {"prompt": PROMPT}).json
    assert "The run may cost 7 credits" in started["warning"]
    poor = Team(running, data_dir, "--credits", "4")
    assert poor.post("/v2/agent", {"prompt": PROMPT}).status == 402


def test_a_run_that_takes_too_long_fails(start_service, chat):
    with ScriptedSite({"/about": slow(page(title="Slow"), 30)}) as site:
        running = start_service(SCRAPER_OPERATION_TIMEOUT_S="2", **chat.environment)
        behave(chat, scrape(site.url("/about")), EXTRACT)
        found = agent(running, urls=[site.url("/about")])
    assert found["stopReason"] == "timeout"
    assert found["error"] == "The agent run took longer than 2 seconds."


def test_only_the_urls_of_the_request_may_be_read(running, web, chat):
    elsewhere = {"/": page(title="Elsewhere", text="This is another place.")}
    with ScriptedSite(elsewhere, host=OTHER_HOST) as other:
        web.put("/leave", moved(other.url("/")))
        web.put("/stay", moved("/about"))
        urls = [web.url("/leave"), web.url("/stay")]
        behave(chat, search("x"), scrape(web.url("/about")), scrape(*urls), EXTRACT)
        found = agent(running, urls=urls, strictConstrainToURLs=True)
        assert other.paths() == []
    assert found["status"] == "completed", found
    assert [each["url"] for each in found["sources"]] == [web.url("/stay")]
    observed = chosen(chat)[-1]
    assert "search was refused: strictConstrainToURLs" in observed
    assert "scrape was refused: not in the request" in observed
    assert "/leave" in found["warning"]
    assert found["progress"]["searches"] == 0


def test_pages_that_robots_txt_refuses_are_not_read(running, web, chat):
    first, second = web.url("/index"), web.url("/private")
    behave(chat, scrape(first), scrape(second), EXTRACT)
    found = agent(running, urls=[first])
    assert found["status"] == "completed"
    assert "robots.txt refuses 1" in found["warning"]
    assert "/private" not in web.paths()
    # What a caller names is read, as in a batch.
    behave(chat, scrape(second), EXTRACT)
    found = agent(running, urls=[second])
    assert found["status"] == "completed"
    assert "/private" in web.paths()


@pytest.mark.full
def test_a_run_goes_on_after_kills_and_is_charged_once(start_service, tmp_path, chat):
    pages = {f"/{n}": slow(page(title=f"Page {n}"), 0.4) for n in range(6)}
    rounds = [(0, 1), (2, 3), (4, 5)]
    settings = {**SETTINGS, **chat.environment}
    with ScriptedSite(pages) as site:
        urls = [site.url(path) for path in pages]
        behave(chat, *(scrape(*(urls[n] for n in each)) for each in rounds), EXTRACT)
        service = start_service(**settings)
        team = Team(service, tmp_path, "--credits", "200")
        path = start(team, "/v2/agent", prompt=PROMPT, urls=urls)
        for each in (1, 3):
            wait_until(lambda n=each: len(site.paths()) > n)
            kill(service)
            service = start_service(**settings)
            team.service = service
        found = ended(team, path)
        paths = Counter(p for p in site.paths() if p != "/robots.txt")
    assert found["status"] == "completed", found
    assert [each["url"] for each in found["sources"]] == urls
    assert found["creditsUsed"] == 30
    assert (team.remaining(), team.charged()) == (170, 30)
    assert len(team.rows("SELECT 1 FROM ledger WHERE team_id = :team")) == 1
    # A page whose fetch was cut off by a kill is fetched again, and no other.
    assert sum(paths.values()) <= len(urls) + 2 * 2


@pytest.mark.full
def test_two_processes_with_postgresql_run_agents(
    start_service, tmp_path, postgres, web, chat
):
    settings = {**SETTINGS, **chat.environment, "SCRAPER_DATABASE_URL": postgres()}
    services = [start_service(tmp_path, **settings) for _ in range(2)]
    behave(chat, scrape(web.url("/about")))
    body = {"prompt": PROMPT, "urls": [web.url("/about")], "effort": "low"}
    paths = [start(services[n % 2], "/v2/agent", **body) for n in range(6)]
    found = [ended(services[0], path) for path in paths]
    assert {each["status"] for each in found} == {"completed"}
    listed = services[1].get("/v2/agent").json["agents"]
    assert [f"/v2/agent/{each['id']}" for each in listed] == paths[::-1]
    times = [each["createdAt"] for each in listed]
    assert len(set(times)) == len(times)
    chat.behave("slow")
    path = start(services[0], "/v2/agent", **body)
    assert services[1].request("DELETE", path).status == 200
    assert services[0].get(path).json["stopReason"] == "cancelled"


@pytest.mark.full
def test_a_finished_round_is_not_fetched_again_after_a_kill(
    start_service, tmp_path, chat
):
    settings = {**SETTINGS, **chat.environment}
    with ScriptedSite({"/a": page(title="A"), "/b": slow(page(title="B"), 3)}) as site:
        urls = [site.url("/a"), site.url("/b")]
        behave(chat, scrape(urls[0]), scrape(urls[1]), EXTRACT)
        service = start_service(**settings)
        path = start(service, "/v2/agent", prompt=PROMPT, urls=urls)
        wait_until(lambda: "/b" in site.paths())
        assert service.get(path).json["creditsUsed"] == 5
        kill(service)
        found = ended(start_service(**settings), path)
        assert site.paths().count("/a") == 1
    assert (found["status"], found["creditsUsed"]) == ("completed", 10)
    assert len(chosen(chat)) == 3


def test_a_cancelled_run_reads_failed(running, data_dir, chat):
    team = Team(running, data_dir, "--credits", "200")
    with ScriptedSite({"/a": page(title="A"), "/b": slow(page(title="B"), 8)}) as site:
        urls = [site.url("/a"), site.url("/b")]
        behave(chat, scrape(urls[0]), scrape(urls[1]), EXTRACT)
        path = start(team, "/v2/agent", prompt=PROMPT, urls=urls)
        wait_until(lambda: "/b" in site.paths())
        for _ in range(2):
            reply = running.request("DELETE", path, key=team.key)
            assert (reply.status, reply.json) == (200, {"success": True})
        found = team.get(path).json
    assert (found["success"], found["status"]) == (True, "failed")
    assert found["error"] == "Agent run was cancelled"
    assert found["stopReason"] == "cancelled"
    assert found["partial"]["sources"] == [{"url": urls[0], "title": "A"}]
    assert found["creditsUsed"] == 0
    wait_until(lambda: team.remaining() == 200)
    behave(chat, scrape(urls[0]))
    assert len(chosen(chat)) == 0


def test_a_finished_run_cannot_be_cancelled(running, web, chat):
    behave(chat, scrape(web.url("/about")), EXTRACT)
    path = start(running, "/v2/agent", prompt=PROMPT, urls=[web.url("/about")])
    ended(running, path)
    reply = running.request("DELETE", path)
    assert reply.status == 409
    assert reply.json["error"] == "Agent run is already completed"


@pytest.mark.full
def test_runs_are_listed_in_parts_the_newest_first(running, data_dir, web, chat):
    team = Team(running, data_dir)
    behave(chat, scrape(web.url("/about")), EXTRACT)
    ids = []
    for number in range(23):
        body = {"prompt": f"{number} {'x' * 100}", "origin": "test"}
        if number == 22:
            body |= {"urls": [web.url("/about")], "effort": "high", "integration": "i"}
            body["schema"] = {"type": "object", "properties": {"a": {"type": "string"}}}
        ids.append(team.post("/v2/agent", body).json["id"])
    first = team.get("/v2/agent").json
    assert len(first["agents"]) == 20
    newest = first["agents"][0]
    assert newest.pop("createdAt").endswith("Z")
    assert newest.pop("status") in {"processing", "completed", "failed"}
    assert newest == {
        "id": ids[-1],
        "targetHint": web.url("/about"),
        "origin": "test",
        "integration": "i",
        "settings": {"hidden": False, "starred": False},
        "options": {
            "urls": [web.url("/about")],
            "prompt": f"22 {'x' * 100}",
            "schema": {"type": "object", "properties": {"a": {"type": "string"}}},
            "model": "stand-in",
            "effort": "high",
        },
    }
    assert first["agents"][1]["targetHint"] == f"21 {'x' * 77}"
    assert first["agents"][1]["options"].keys() == {"prompt", "model"}
    path = first["next"].removeprefix(running.url)
    assert path.startswith("/v2/agent?before=")
    second = team.get(path).json
    assert second.keys() == {"success", "agents"}
    listed = [each["id"] for each in first["agents"] + second["agents"]]
    assert listed == ids[::-1]
    assert team.get("/v2/agent?before=0").json["agents"] == []
    assert team.get("/v2/agent?before=x").status == 400
    for each in ids:
        running.request("DELETE", f"/v2/agent/{each}", key=team.key)


def test_a_webhook_gets_each_action(running, data_dir, web, chat):
    team = Team(running, data_dir, "--credits", "100")
    url = web.url("/about")
    with Receiver() as receiver:
        hook = {"url": receiver.url("/ok"), "metadata": {"run": "7"}}
        behave(chat, search("x"), scrape(url), EXTRACT)
        agent(team, urls=[url], webhook=hook)
        wait_until(lambda: len(receiver.received()) >= 5)
        events = [each.json for each in receiver.received()]
        types = [each["type"] for each in events]
        assert types[0] == "agent.started"
        assert Counter(types) == {
            "agent.started": 1,
            "agent.action": 3,
            "agent.completed": 1,
        }
        assert events[0]["data"] == []
        assert all(each["success"] for each in events)
        actions = [e["data"] for e in events if e["type"] == "agent.action"]
        spent = actions[1][0]["creditsUsed"]
        assert actions == [
            [{"creditsUsed": 0, "action": "search", "input": {"query": "x"}}],
            [{"creditsUsed": spent, "action": "scrape", "input": {"urls": [url]}}],
            [{"creditsUsed": spent + 5, "action": "extract", "input": {}}],
        ]
        [done] = events[-1]["data"]
        assert done.keys() == {"creditsUsed", "data"}
        assert done["creditsUsed"] == spent + 5
        assert done["data"]["answer"] == TEXT
        assert events[-1]["metadata"] == {"run": "7"}

        hook = {"url": receiver.url("/ok/f"), "events": ["failed", "agent.cancelled"]}
        behave(chat, EXTRACT)
        agent(team, effort="low", webhook=hook)
        wait_until(lambda: receiver.received("/ok/f"))
        [failed] = [each.json for each in receiver.received("/ok/f")]
        assert (failed["type"], failed["success"]) == ("agent.failed", False)
        assert failed["data"] == [{"creditsUsed": 0}]
        assert failed["error"].startswith("No page about it")

        hook["url"] = receiver.url("/ok/c")
        chat.behave("slow")
        path = start(team, "/v2/agent", prompt=PROMPT, webhook=hook)
        running.request("DELETE", path, key=team.key)
        wait_until(lambda: receiver.received("/ok/c"))
        [cancelled] = [each.json for each in receiver.received("/ok/c")]
        assert (cancelled["type"], cancelled["success"]) == ("agent.cancelled", False)
        assert cancelled["data"] == [{"creditsUsed": 0}]
        assert cancelled["error"] == "Agent run was cancelled"


@pytest.mark.parametrize(
    ("body", "path", "told"),
    [
        ({"prompt": None}, ["prompt"], "required"),
        ({"prompt": "  "}, ["prompt"], "'  '"),
        ({"prompt": "x" * 10_001}, ["prompt"], "10001"),
        ({"urls": ["http://a.com"] * 101}, ["urls"], "101"),
        ({"urls": ["ftp://a.com"]}, ["urls", 0], "protocol"),
        ({"strictConstrainToURLs": True}, ["strictConstrainToURLs"], "true"),
        ({"strictConstrainToURLs": 1}, ["strictConstrainToURLs"], "1"),
        ({"maxCredits": 0}, ["maxCredits"], "0"),
        ({"maxCredits": -2}, ["maxCredits"], "-2"),
        ({"effort": "max"}, ["effort"], "'max'"),
        ({"model": 5}, ["model"], "5"),
        ({"schema": "x"}, ["schema"], "'x'"),
        ({"mode": "chat"}, ["mode"], "'chat'"),
        ({"mode": "plan"}, ["mode"], "'plan'"),
        ({"threadId": "7"}, ["threadId"], "'7'"),
        ({"exchange": {"approve": "a"}}, ["exchange", "approve"], "'a'"),
        ({"exchange": {"decline": True}}, ["exchange", "decline"], "true"),
        ({"webhook": {"url": "http://a.com", "events": ["page"]}}, None, "'page'"),
        ({"zzz": 1}, [], "zzz"),
    ],
)
def test_bad_requests_name_the_field_and_its_value(running, body, path, told):
    reply = running.post("/v2/agent", {"prompt": PROMPT, **body})
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")
    [issue] = reply.json["details"]
    assert told in issue["message"]
    if path is not None:
        assert issue["path"] == path


def test_a_run_whose_data_is_not_kept_takes_no_retention(running):
    body = {"prompt": PROMPT, "zeroDataRetention": True, "retentionDays": 2}
    reply = running.post("/v2/agent", body)
    assert reply.status == 400
    assert "retentionDays must be left out with zeroDataRetention" in str(reply.json)


def test_keys_without_effect_are_named(running, chat):
    behave(chat, EXTRACT)
    body = {
        "prompt": PROMPT,
        "effort": "low",
        "mode": "extract",
        "threadId": None,
        "exchange": {"enabled": True},
        "location": {"country": "DE"},
        "zeroDataRetention": False,
        "auditMetadata": {"username": "u"},
    }
    reply = running.post("/v2/agent", body)
    assert reply.json["warning"] == "This option has no effect here: exchange."
    ended(running, f"/v2/agent/{reply.json['id']}")
    for further in ("trace", f"snapshots/{uuid.uuid4()}"):
        assert running.get(f"/v2/agent/{reply.json['id']}/{further}").status == 404
    assert running.get(f"/v2/agent/threads/{uuid.uuid4()}").status == 404
    assert running.post("/v1/agent", body).status == 404


def test_the_prompt_of_the_model_is_bounded(running, chat):
    words = "The granite bridge is long and was built by many workers in a town. "
    pages = {f"/{n}": page(title=f"P{n}", text=words * 400) for n in range(10)}
    with ScriptedSite(pages) as site:
        urls = [site.url(path) for path in pages]
        behave(chat, scrape(*urls), scrape(*urls), EXTRACT)
        found = agent(running, prompt="the bridge", urls=urls)
    assert found["progress"]["pages"] == 10
    sizes = [len(json.dumps(each["body"]["messages"])) for each in chat.asked()]
    assert max(sizes[:3]) < 40_000
    assert len(chosen(chat)) == 3
