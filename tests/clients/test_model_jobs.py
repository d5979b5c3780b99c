"""The unmodified public Python clients on extract, llms.txt and research."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v1 import V1FirecrawlApp
from firecrawl.v1.client import AsyncV1FirecrawlApp
from firecrawl.v2.types import ScrapeOptions

from tests.conftest import Service
from tests.support import shop
from tests.support.scripted_site import ScriptedSite

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
    service = Service(tmp_path_factory.mktemp("model_jobs"))
    yield service
    assert service.stop() == 0, service.stderr


@pytest.fixture(scope="module")
def client(running):
    return Firecrawl(api_key=running.key, api_url=running.url)


@pytest.fixture(scope="module")
def first_client(running):
    return V1FirecrawlApp(api_key=running.key, api_url=running.url)


def assert_lamp(found, web):
    assert found.success is True
    assert found.data["name"] == "Brass Lamp"
    assert found.data["price"] == 20.5
    assert found.sources["name"] == [web.url("/shop/lamp")]


def test_extract_of_both_versions(client, first_client, web):
    asked = {"schema": shop.SCHEMA, "show_sources": True}
    urls = [web.url("/shop/lamp"), web.url("/gone")]
    found = client.extract(urls, poll_interval=1, **asked)
    assert found.status == "completed"
    assert_lamp(found, web)
    assert "/gone" in found.warning
    assert (found.credits_used, found.tokens_used) == (5, 75)
    assert found.expires_at is not None
    assert_lamp(first_client.extract(urls[:1], prompt="the product", **asked), web)


def test_extract_of_both_versions_async(running, web):
    asked = {"schema": shop.SCHEMA, "show_sources": True, "prompt": "the product"}

    async def both():
        second = AsyncFirecrawl(api_key=running.key, api_url=running.url)
        first = AsyncV1FirecrawlApp(api_key=running.key, api_url=running.url)
        urls = [web.url("/shop/lamp")]
        return await asyncio.gather(
            second.extract(urls, poll_interval=1, **asked),
            first.extract(urls, **asked),
        )

    for found in asyncio.run(both()):
        assert_lamp(found, web)


def test_extract_can_be_started_and_polled_separately(client, first_client, web):
    started = client.start_extract(
        [web.url("/shop/*")],
        prompt="products and their prices",
        ignore_invalid_urls=True,
        scrape_options=ScrapeOptions(max_age=0),
        integration="test",
    )
    assert started.success is True
    assert client.get_extract_status(started.id).status in {"processing", "completed"}
    assert first_client.get_extract_status(started.id).success is True
    with pytest.raises(Exception, match="not found"):
        client.get_extract_status(str(uuid.uuid4()))


def test_a_failed_extract_names_the_error(client, first_client, web):
    found = client.extract([web.url("/gone")], prompt="the product", poll_interval=1)
    assert (found.success, found.status) == (False, "failed")
    assert "the site answered 404" in found.error
    with pytest.raises(Exception, match="404"):
        first_client.extract([web.url("/gone")], prompt="the product")


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


def test_a_failed_llms_txt_job_names_the_error(first_client, web):
    found = first_client.generate_llms_text(web.url("/gone"))
    assert found.status == "failed"
    assert "404" in found.error


@pytest.mark.full
def test_research_uses_pages_scraped_before(clever, chat, web):
    client = V1FirecrawlApp(api_key=clever.key, api_url=clever.url)
    for path in ("/about", "/shop/lamp", "/shop/chair"):
        client.scrape_url(web.url(path))
    report = "The shop was founded by Ida Example in the year 1999. [1]"
    answers = [{"queries": ["Who founded the shop?"]}, {"queries": []}, report]
    chat.behave(answer={"answers": answers})
    activities, sources = [], []
    asked = {"max_depth": 2, "max_urls": 3, "time_limit": 60}
    found = client.deep_research(
        "Who founded the shop?",
        on_activity=activities.append,
        on_source=sources.append,
        **asked,
    )
    assert found["status"] == "completed"
    assert found["data"]["finalAnalysis"].startswith(f"{report}\n\n## Sources")
    assert found["sources"] == found["data"]["sources"] == sources
    assert found["activities"] == activities
    assert sources[0]["url"] == web.url("/about")
    assert {activity["type"] for activity in activities} >= {"search", "extract"}
    assert (found["maxDepth"], found["totalUrls"]) == (2, len(sources))

    async def once():
        client = AsyncV1FirecrawlApp(api_key=clever.key, api_url=clever.url)
        return await client.deep_research("Who founded the shop?", **asked)

    chat.behave(answer={"answers": answers})
    again = asyncio.run(once())
    assert again["data"]["finalAnalysis"] == found["data"]["finalAnalysis"]
    with pytest.raises(Exception, match="not found"):
        client.check_deep_research_status(str(uuid.uuid4()))
    with pytest.raises(Exception, match="No page about it"):
        client.deep_research("xylophone quarks zeppelin", time_limit=30)


def test_research_needs_a_language_model(first_client):
    with pytest.raises(Exception, match="SCRAPER_LLM_BASE_URL"):
        first_client.deep_research("Who founded the shop?", time_limit=30)
