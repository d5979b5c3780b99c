"""The unmodified public Python clients on extract, llms.txt and research."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from firecrawl import Firecrawl
from firecrawl.v1 import V1FirecrawlApp
from firecrawl.v1.client import AsyncV1FirecrawlApp

from tests import shop
from tests.conftest import Service
from tests.scripted_site import ScriptedSite

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def web():
    with ScriptedSite(shop.pages()) as site:
        yield site


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    service = Service(tmp_path_factory.mktemp("operations"))
    yield service
    assert service.stop() == 0, service.stderr


@pytest.fixture(scope="module")
def client(running):
    return Firecrawl(api_key=running.key, api_url=running.url)


@pytest.fixture(scope="module")
def first_client(running):
    return V1FirecrawlApp(api_key=running.key, api_url=running.url)


def test_the_text_file_of_a_site(first_client, running, web):
    found = first_client.generate_llms_text(
        web.url("/"), max_urls=3, show_full_text=True
    )
    assert found.status == "completed"
    assert found.data.llmstxt.startswith(f"# {web.url('/')} llms.txt\n\n- [The Shop](")
    assert found.data.llmsfulltxt.count("<|page-") == 3

    async def once():
        client = AsyncV1FirecrawlApp(api_key=running.key, api_url=running.url)
        return await client.generate_llms_text(web.url("/"), max_urls=1)

    found = asyncio.run(once())
    assert found["data"].keys() == {"llmstxt"}
    assert found["data"]["llmstxt"].count("\n- ") == 1


def test_a_failed_text_file_says_why(first_client, web):
    found = first_client.generate_llms_text(web.url("/gone"))
    assert found.status == "failed"
    assert "404" in found.error


def test_research_over_what_was_scraped(client, first_client, running, web):
    for path in ("/about", "/shop/lamp", "/shop/chair"):
        client.scrape(web.url(path))
    activities, sources = [], []
    asked = {"max_depth": 2, "max_urls": 3, "time_limit": 60}
    found = first_client.deep_research(
        "Who founded the shop?",
        on_activity=activities.append,
        on_source=sources.append,
        **asked,
    )
    assert found["status"] == "completed"
    assert (
        "founded by Ida Example in the year 1999. [1]" in found["data"]["finalAnalysis"]
    )
    assert found["sources"] == found["data"]["sources"] == sources
    assert found["activities"] == activities
    assert sources[0]["url"] == web.url("/about")
    assert {activity["type"] for activity in activities} >= {"search", "extract"}
    assert (found["maxDepth"], found["totalUrls"]) == (2, len(sources))

    async def once():
        client = AsyncV1FirecrawlApp(api_key=running.key, api_url=running.url)
        return await client.deep_research("Who founded the shop?", **asked)

    again = asyncio.run(once())
    assert again["data"]["finalAnalysis"] == found["data"]["finalAnalysis"]
    with pytest.raises(Exception, match="not found"):
        first_client.check_deep_research_status(str(uuid.uuid4()))


def test_research_that_finds_nothing_fails(first_client):
    with pytest.raises(Exception, match="No page about it"):
        first_client.deep_research("xylophone quarks zeppelin", time_limit=30)
