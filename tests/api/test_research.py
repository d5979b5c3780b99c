"""Deep research through the API: bounds, sources, a language model, and crashes."""

from __future__ import annotations

import re
import uuid

import pytest

from tests.api.test_limits import Team, wait_until
from tests.api.test_operations import ended, run, start
from tests.conftest import Service
from tests.support import shop
from tests.support.chat_server import ChatServer
from tests.support.crash import kill
from tests.support.scripted_site import ScriptedSite, page, slow

QUESTION = "Who founded the shop?"
FOUNDED = "The shop was founded by Ida Example in the year 1999."
SETTINGS = {"SCRAPER_LEASE_S": "3"}
TOPIC = "The granite bridge of Aldermoor"


def topic_pages():
    """Pages about one thing that name another one, which has pages of its own."""
    said = f"{TOPIC} was designed by the engineer Corvin Hallaway in 1888"
    pages = {
        f"/bridge/{n}": page(title=f"Bridge {n}", text=f"{said}, says source {n}.")
        for n in range(3)
    }
    for n in range(3):
        text = f"Corvin Hallaway was born in Aldermoor as a baker's child, part {n}."
        pages[f"/man/{n}"] = page(title=f"The engineer, part {n}", text=text)
    return pages


@pytest.fixture(scope="module")
def web():
    with ScriptedSite(shop.pages() | topic_pages()) as site:
        yield site


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("research")


@pytest.fixture(scope="module")
def running(data_dir, web):
    service = Service(data_dir, **SETTINGS)
    know(service, web, shop.pages())
    yield service
    assert service.stop() == 0, service.stderr


def know(service, web, paths):
    """Scrape pages, so that a search finds them."""
    for path in paths:
        service.post("/v2/scrape", {"url": web.url(path)})


def test_each_statement_has_its_source(running, web):
    body = {"query": QUESTION, "maxDepth": 1, "maxUrls": 3, "timeLimit": 60}
    found = run(running, "/v1/deep-research", **body)
    assert (found["success"], found["status"]) == (True, "completed")
    data = found["data"]
    text, _, listed = data["finalAnalysis"].partition("\n\n## Sources\n\n")
    [number] = re.findall(rf"- {re.escape(FOUNDED)} \[(\d)\]", text)
    assert data["sources"][int(number) - 1]["url"] == web.url("/about")
    assert listed.splitlines() == [
        f"{n}. [{each['title']}]({each['url']})"
        for n, each in enumerate(data["sources"], 1)
    ]
    assert found["sources"] == data["sources"]
    assert found["activities"] == data["activities"]
    assert (found["currentDepth"], found["maxDepth"]) == (1, 1)
    assert found["totalUrls"] == len(data["sources"]) <= 3
    begun = found["activities"][0]["message"]
    assert begun.startswith("1 search is ") or " searches are " in begun
    assert "1 searches" not in begun
    assert found["activities"][0].keys() == {
        *("type", "status", "message", "timestamp", "depth"),
    }
    assert "json" not in data


def test_what_pages_speak_of_is_searched_for_next(running, web):
    know(running, web, topic_pages())
    body = {"query": f"Who designed {TOPIC}?", "maxUrls": 6, "timeLimit": 60}
    found = run(running, "/v1/deep-research", **body, maxDepth=2)
    read = {each["url"] for each in found["sources"]}
    assert read >= {web.url(f"/bridge/{n}") for n in range(3)}
    assert any("Corvin Hallaway" in each["message"] for each in found["activities"])
    assert found["currentDepth"] == 2
    assert read & {web.url(f"/man/{n}") for n in range(3)}


def test_data_may_be_asked_for_instead_of_a_text(running, web):
    body = {"query": QUESTION, "maxDepth": 1, "maxUrls": 2, "formats": ["json"]}
    found = run(
        running, "/v1/deep-research", **body, jsonOptions={"schema": shop.SCHEMA}
    )
    assert found["data"]["finalAnalysis"] == ""
    assert isinstance(found["data"]["json"], dict)


def test_research_costs_a_page_for_a_page(running, data_dir, web):
    team = Team(running, data_dir, "--credits", "10")
    know(team, web, ["/about"])
    found = run(team, "/v1/deep-research", query=QUESTION, maxDepth=1, maxUrls=5)
    assert found["totalUrls"] == 1
    assert (team.remaining(), team.charged()) == (8, 2)  # one is that of the scrape
    # Another team's pages are not found.
    other = Team(running, data_dir, "--credits", "10")
    found = run(other, "/v1/deep-research", query=QUESTION)
    assert found["status"] == "failed"
    assert "No page about it could be found" in found["error"]
    assert other.remaining() == 10


def test_there_is_something_to_read_from_the_start(running):
    path = start(running, "/v1/deep-research", topic=QUESTION, maxDepth=3)
    first = running.get(path).json
    assert first["success"] is True
    for key in ("activities", "sources"):
        assert first[key] == first["data"][key]
    assert first["maxDepth"] == 3
    ended(running, path)
    unknown = running.get(f"/v1/deep-research/{uuid.uuid4()}")
    assert (unknown.status, unknown.json["error"]) == (
        404,
        "Deep research job not found",
    )
    assert running.post("/v2/deep-research", {"query": "x"}).status == 404
    prompts = {"analysisPrompt": "As a table.", "maxDepth": 1}
    found = run(running, "/v1/deep-research", query=QUESTION, **prompts)
    assert "no effect without a language model" in found["warning"]


def test_a_language_model_plans_and_writes(start_service, web):
    text = "The founder is Ida Example [1]."
    plans = [{"queries": ["founder of the shop", "Ida Example"]}, {"queries": []}]
    with ChatServer() as chat:
        service = start_service(**SETTINGS, **chat.environment)
        know(service, web, ["/about"])
        chat.behave(answer={"answers": [*plans, text]})
        body = {"query": QUESTION, "analysisPrompt": "Be brief.", "maxDepth": 3}
        found = run(service, "/v1/deep-research", **body)
        asked = [each["body"]["messages"] for each in chat.asked()]
        chat.behave("refuses")
        without = run(service, "/v1/deep-research", query=QUESTION, maxDepth=1)
    assert found["data"]["finalAnalysis"] == (
        f"{text}\n\n## Sources\n\n1. [About the shop]({web.url('/about')})"
    )
    messages = [each["message"] for each in found["activities"]]
    assert any("'Ida Example'" in message for message in messages)
    assert len(asked) == 3
    # What pages say is data: it never stands among the orders.
    last = asked[-1]
    assert FOUNDED in last[-1]["content"]
    assert not any(
        FOUNDED in each["content"] for each in last if each["role"] == "system"
    )
    assert "Be brief." in str(last)
    # One that fails costs the answer nothing but a warning.
    assert without["status"] == "completed"
    assert FOUNDED in without["data"]["finalAnalysis"]
    assert "The language model gave no answer" in without["warning"]


def test_research_goes_on_after_a_kill(start_service):
    pages = {path: slow(found, 0.3) for path, found in topic_pages().items()}
    with ScriptedSite(pages) as web:
        first = start_service(**SETTINGS)
        know(first, web, pages)
        body = {"query": f"Who designed {TOPIC}?", "maxUrls": 6, "maxDepth": 2}
        path = start(first, "/v1/deep-research", **body)
        wait_until(lambda: first.get(path).json["activities"])
        kill(first)
        second = start_service(**SETTINGS)
        found = ended(second, path)
        again = run(second, "/v1/deep-research", **body)
    assert found["status"] == "completed"
    read, read_again = ({s["url"] for s in each["sources"]} for each in (found, again))
    assert read == read_again
    assert found["totalUrls"] == len(read)
    assert "designed by the engineer Corvin Hallaway" in found["data"]["finalAnalysis"]
