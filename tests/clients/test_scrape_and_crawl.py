"""The unmodified public clients against the service."""

from __future__ import annotations

import pytest
from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v1 import V1FirecrawlApp
from firecrawl.v2.utils.error_handler import BadRequestError, DNSResolutionError

from tests.support.scripted_site import ScriptedSite, page, sitemap

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def client(service):
    return Firecrawl(api_key=service.key, api_url=service.url)


@pytest.fixture(scope="module")
def first_client(service):
    return V1FirecrawlApp(api_key=service.key, api_url=service.url)


def test_v2_scrapes_with_defaults(client, site):
    document = client.scrape(site.url("/article"))
    assert document.markdown.startswith("# ")
    assert document.metadata.status_code == 200
    assert document.metadata.source_url == site.url("/article")


def test_v2_scrapes_with_every_option_of_this_release(client, site):
    document = client.scrape(
        site.url("/article"),
        formats=[
            "markdown",
            "html",
            "rawHtml",
            "links",
            "images",
        ],
        only_main_content=False,
        exclude_tags=["footer"],
        headers={"X-A": "b"},
        timeout=200_000,
        parsers=["pdf"],
        max_age=0,
    )
    assert document.html
    assert document.raw_html
    assert all(link.startswith(("http", "mailto:")) for link in document.links)
    assert all(image.startswith("http") for image in document.images)


def test_v2_gets_typed_metadata(client, site):
    document = client.scrape(site.url("/metas"))
    assert isinstance(document.metadata.og_locale_alternate, list)
    assert isinstance(document.metadata.description, str)


def test_v2_reads_pages_whose_metas_have_names_of_its_own(client):
    names = ("num_pages", "total_pages", "cache_state", "concurrency_limited")
    metas = "".join(f"<meta name={name} content=x>" for name in (*names, "source_url"))
    with ScriptedSite({"/a": f"{metas}<meta name=my_own content=y><p>A.</p>"}) as site:
        urls = [site.url("/a")]
        job = client.batch_scrape(urls)
        documents = [client.scrape(*urls), *job.data]
    assert len(documents) == 2
    for document in documents:
        assert document.metadata.source_url == urls[0]
        assert document.metadata.num_pages is None
        assert document.metadata_dict["my_own"] == "y"


def test_v2_raises_its_own_errors(client, site):
    with pytest.raises(DNSResolutionError):
        client.scrape("http://nosuch.invalid/")
    with pytest.raises(BadRequestError, match="screenshot"):
        client.scrape(site.url("/text"), formats=["screenshot"])


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_v2_async_scrapes(service, site):
    import asyncio

    async def scrape():
        client = AsyncFirecrawl(api_key=service.key, api_url=service.url)
        return await client.scrape(site.url("/article"), formats=["markdown"])

    assert asyncio.run(scrape()).markdown.startswith("# ")


def test_v1_scrapes(first_client, site):
    document = first_client.scrape_url(
        site.url("/article"), formats=["markdown", "html", "links"], timeout=200_000
    )
    assert document.markdown.startswith("# ")
    assert document.links
    assert document.metadata["statusCode"] == 200


def test_v1_raises_the_error_of_the_service(first_client, site):
    with pytest.raises(Exception, match="certificate"):
        first_client.scrape_url(site.https("/text", "expired"))


def test_an_api_url_with_a_trailing_slash_works(service, site):
    client = Firecrawl(api_key=service.key, api_url=service.url + "/")
    assert client.scrape(site.url("/text")).markdown


@pytest.fixture(scope="module")
def listed():
    pages = {
        "/": page("/linked", title="Home"),
        "/sitemap.xml": sitemap("{site}/a", "{site}/pricing"),
    }
    with ScriptedSite(pages) as site:
        yield site


def test_v2_maps(client, listed):
    found = client.map(listed.url("/"))
    assert [link.url for link in found.links] == [
        *(listed.address, listed.url("/a"), listed.url("/pricing")),
        listed.url("/linked"),
    ]
    assert found.links[0].title == "Home"
    found = client.map(
        listed.url("/"),
        search="pricing",
        include_subdomains=False,
        limit=2,
        sitemap="only",
        timeout=200_000,
        integration="test",
    )
    assert [link.url for link in found.links] == [
        listed.url("/pricing"),
        listed.url("/a"),
    ]
    with pytest.raises(BadRequestError, match="limit"):
        client.map(listed.url("/"), limit=100_001)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_v2_async_maps(service, listed):
    import asyncio

    async def find():
        client = AsyncFirecrawl(api_key=service.key, api_url=service.url)
        return await client.map(listed.url("/"), sitemap="skip")

    urls = [link.url for link in asyncio.run(find()).links]
    assert urls == [listed.address, listed.url("/linked")]


def test_v1_maps(first_client, listed):
    found = first_client.map_url(listed.url("/"))
    assert found.success
    assert found.links[0] == listed.address
    found = first_client.map_url(
        listed.url("/"),
        search="pricing",
        ignore_sitemap=False,
        include_subdomains=True,
        sitemap_only=True,
        limit=1,
        timeout=200_000,
    )
    assert found.links == [listed.url("/pricing")]
