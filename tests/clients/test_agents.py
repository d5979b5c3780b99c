"""The unmodified public Python client on agents."""

from __future__ import annotations

import asyncio

import pytest
from firecrawl import AsyncFirecrawl, Firecrawl

from tests.api.test_agent import EXTRACT, PROMPT, TEXT, behave, scrape
from tests.conftest import Service
from tests.support import shop
from tests.support.scripted_site import ScriptedSite, page, slow

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def web():
    late = {"/slow": slow(page(title="Slow"), 20)}
    with ScriptedSite(shop.pages() | late) as site:
        yield site


@pytest.fixture(scope="module")
def running(tmp_path_factory, chat):
    service = Service(tmp_path_factory.mktemp("agents"), **chat.environment)
    yield service
    assert service.stop() == 0, service.stderr


@pytest.fixture(scope="module")
def client(running):
    return Firecrawl(api_key=running.key, api_url=running.url)


def test_agents_by_the_python_client(client, web, chat):
    url = web.url("/about")
    behave(chat, scrape(url), EXTRACT)
    found = client.agent([url], prompt=PROMPT, effort="low", poll_interval=1)
    assert (found.success, found.status) == (True, "completed")
    assert found.data["answer"] == TEXT
    assert found.data["sources"][0]["url"] == url
    assert (found.credits_used, found.model, found.effort) == (5, "stand-in", "low")
    assert found.expires_at is not None

    value = {"founder": "Ida Example"}
    behave(chat, scrape(url), EXTRACT, value=value, page_value=value)
    schema = {"type": "object", "properties": {"founder": {"type": "string"}}}
    asked = {
        "schema": schema,
        "max_credits": 50,
        "strict_constrain_to_urls": True,
        "location": {"country": "DE"},
        "zero_data_retention": True,
        "webhook": "http://127.0.0.1:9/",
    }
    found = client.agent([url], prompt=PROMPT, poll_interval=1, **asked)
    assert (found.status, found.data) == ("completed", value)
    assert found.credits_used == 6  # one is for zero retention


def test_agents_are_started_listed_and_cancelled(client, web, chat):
    url = web.url("/slow")
    behave(chat, scrape(url))
    started = client.start_agent([url], prompt=PROMPT)
    assert started.success is True
    assert client.get_agent_status(started.id).status == "processing"
    listed = client.list_agents()
    assert listed.agents[0].id == started.id
    assert listed.agents[0].target_hint == url
    assert listed.agents[0].options.prompt == PROMPT
    assert listed.next is None
    assert client.list_agents(before=1).agents == []
    assert client.cancel_agent(started.id) is True
    found = client.get_agent_status(started.id)
    assert (found.status, found.error) == ("failed", "Agent run was cancelled")
    assert found.stop_reason == "cancelled"
    for name in ("get_agent_trace", "get_agent_thread"):
        with pytest.raises(Exception, match="Not found"):
            getattr(client, name)(started.id)
    with pytest.raises(Exception, match="threadId"):
        client.start_agent([url], prompt=PROMPT, thread_id=started.id)
    with pytest.raises(Exception, match="chat"):
        client.start_agent([url], prompt=PROMPT, mode="chat")


def test_agents_by_the_asynchronous_client(running, web, chat):
    url = web.url("/about")
    behave(chat, scrape(url), EXTRACT)

    async def one():
        client = AsyncFirecrawl(api_key=running.key, api_url=running.url)
        # Its list_agents fails in the client itself.
        return await client.agent([url], prompt=PROMPT, poll_interval=1)

    found = asyncio.run(one())
    assert (found.status, found.data["answer"]) == ("completed", TEXT)
