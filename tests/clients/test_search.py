"""The unmodified public clients search: engines, pages, and the index of the service."""

from __future__ import annotations

import asyncio

import pytest
from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v1 import AsyncV1FirecrawlApp, V1FirecrawlApp, V1ScrapeOptions
from firecrawl.v2.types import Document, ScrapeOptions, SearchResultWeb
from firecrawl.v2.utils.error_handler import (
    BadRequestError,
    InternalServerError,
    RequestTimeoutError,
)

from tests.conftest import Service
from tests.support.scripted_site import ScriptedSite, page
from tests.support.search_engines import SearchEngines

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PAGES = {f"/p{n}": page(title=f"Page {n}", text=f"Hay, part {n}") for n in range(6)}


@pytest.fixture(scope="module")
def pages():
    with ScriptedSite(PAGES) as site:
        yield site


@pytest.fixture(scope="module")
def engines(pages):
    web = [
        {"url": pages.url(path), "title": f"Hay {path}", "text": "About hay"}
        for path in PAGES
    ]
    news = [{**web[0], "date": "yesterday", "image": "http://i.example/n.png"}]
    images = [{**web[1], "image": "http://i.example/a.png", "width": 4, "height": 3}]
    with SearchEngines({"web": web, "news": news, "images": images}) as running:
        yield running


def _service(engines, folder, mode):
    return Service(folder, **engines.environment("searxng", mode))


@pytest.fixture(scope="module")
def searching(engines, tmp_path_factory):
    running = _service(engines, tmp_path_factory.mktemp("searching"), "ok")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def blocked(engines, tmp_path_factory):
    running = _service(engines, tmp_path_factory.mktemp("blocked"), "blocked")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def client(searching):
    return Firecrawl(api_key=searching.key, api_url=searching.url)


@pytest.fixture(scope="module")
def first_client(searching):
    return V1FirecrawlApp(api_key=searching.key, api_url=searching.url)


def test_v2_searches_all_sources(client, pages):
    found = client.search("hay", sources=["web", "news", "images"], limit=3)
    assert [type(item) for item in found.web] == [SearchResultWeb] * 3
    assert found.web[0].url == pages.url("/p0")
    assert [item.position for item in found.web] == [1, 2, 3]
    assert found.news[0].date == "yesterday"
    assert found.images[0].image_width == 4


def test_v2_searches_with_every_option(client):
    found = client.search(
        "hay",
        sources=[{"type": "web"}],
        limit=2,
        tbs="qdr:y",
        location="Vienna, Austria",
        ignore_invalid_urls=True,
        include_domains=["127.0.0.2"],
        timeout=30_000,
        integration="_test",
    )
    assert len(found.web) == 2


def test_v2_scrapes_results(client):
    options = ScrapeOptions(formats=["markdown", "links"], only_main_content=False)
    found = client.search("hay", limit=2, scrape_options=options)
    assert [type(item) for item in found.web] == [Document] * 2
    assert found.web[0].markdown.startswith("# Page 0")
    assert found.web[0].metadata.status_code == 200


def test_v2_searches_asynchronously(searching):
    async def search():
        client = AsyncFirecrawl(api_key=searching.key, api_url=searching.url)
        return await client.search(
            "hay", limit=2, scrape_options=ScrapeOptions(formats=["markdown"])
        )

    found = asyncio.run(search())
    assert found.web[1].markdown.startswith("# Page 1")


def test_v1_searches(first_client, pages):
    found = first_client.search("hay", limit=2)
    assert found.success
    assert [item["url"] for item in found.data] == [pages.url(f"/p{n}") for n in (0, 1)]
    options = V1ScrapeOptions(formats=["markdown"])
    found = first_client.search("hay", limit=2, scrape_options=options)
    assert found.data[0]["markdown"].startswith("# Page 0")
    assert found.data[0]["title"] == "Hay /p0"


def test_v1_searches_asynchronously(searching):
    async def search():
        client = AsyncV1FirecrawlApp(api_key=searching.key, api_url=searching.url)
        return await client.search("hay", limit=1)

    assert len(asyncio.run(search())["data"]) == 1


def test_search_errors_become_client_exceptions(client, engines, blocked):
    with pytest.raises(BadRequestError, match="not a domain"):
        client.search("hay", include_domains=["not a domain"])
    down = Firecrawl(api_key=blocked.key, api_url=blocked.url)
    with pytest.raises(InternalServerError, match="SearXNG"):
        down.search("hay")
    with engines.held(), pytest.raises(RequestTimeoutError):
        client.search("hay", timeout=1)


def test_langchain_loads_search_results(searching, pages):
    loaders = pytest.importorskip("langchain_community.document_loaders.firecrawl")
    loader = loaders.FireCrawlLoader(
        query="hay",
        mode="search",
        api_key=searching.key,
        api_url=searching.url,
        params={"limit": 2, "sources": ["web", "news"]},
    )
    loaded = loader.load()
    assert [each.page_content for each in loaded] == [
        "About hay",
        "About hay",
        "Hay /p0",
    ]
    assert loaded[1].metadata["url"] == pages.url("/p1")
