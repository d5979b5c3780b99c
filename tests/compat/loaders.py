"""The document loaders of three frameworks: ``python -m tests.compat.loaders``.

They are in an environment of their own (``loaders.txt``).
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tests.compat.steps import Steps, arguments


async def langchain(service: str, key: str, site: str) -> None:
    from langchain_community.document_loaders.firecrawl import (
        FireCrawlLoader,
    )

    call = Steps("LangChain").call
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}

    def load(mode: str, url: str, **params: Any) -> list[Any]:
        loader = FireCrawlLoader(
            url=url, api_key=key, api_url=service, mode=mode, params=params
        )
        return list(loader.lazy_load())

    lamp = f"{site}/shop/lamp"
    await call("FireCrawlLoader, scrape", lambda: load("scrape", lamp))
    await call(
        "FireCrawlLoader, crawl",
        lambda: load("crawl", f"{site}/", limit=2),
        lambda found: len(found) == 2,
    )
    await call("FireCrawlLoader, map", lambda: load("map", f"{site}/"))
    await call(
        "FireCrawlLoader, extract",
        lambda: load("extract", lamp, schema=schema, prompt="the name"),
    )
    await call("FireCrawlLoader, search", lambda: load("search", "lamp", query="lamp"))


async def langchain_firecrawl(service: str, key: str, site: str) -> None:
    """Call the loader and the tools of the newer package."""
    from langchain_firecrawl import (
        FirecrawlCrawl,
        FirecrawlExtract,
        FirecrawlLoader,
        FirecrawlMap,
        FirecrawlScrape,
        FirecrawlSearch,
    )

    call = Steps("langchain-firecrawl").call
    lamp = f"{site}/shop/lamp"

    def load(mode: str, url: str, **given: Any) -> list[Any]:
        loader = FirecrawlLoader(
            url=url, api_key=key, api_url=service, mode=mode, **given
        )
        return list(loader.lazy_load())

    await call("FirecrawlLoader, scrape", lambda: load("scrape", lamp))
    await call(
        "FirecrawlLoader, crawl",
        lambda: load("crawl", f"{site}/", params={"limit": 2}),
        lambda found: len(found) == 2,
    )
    await call("FirecrawlLoader, map", lambda: load("map", f"{site}/"))
    prompt = {"prompt": "the name"}
    await call("FirecrawlLoader, extract", lambda: load("extract", lamp, params=prompt))
    await call("FirecrawlLoader, search", lambda: load("search", "lamp", query="lamp"))
    uses: tuple[tuple[Any, dict[str, Any]], ...] = (
        (FirecrawlScrape, {"url": lamp}),
        (FirecrawlCrawl, {"url": f"{site}/", "limit": 2}),
        (FirecrawlMap, {"url": f"{site}/"}),
        (FirecrawlExtract, {"urls": [lamp], "prompt": "the name"}),
        (FirecrawlSearch, {"query": "lamp"}),
    )
    for tool, given in uses:
        # A tool returns its errors as texts.
        await call(
            tool.__name__,
            lambda tool=tool, given=given: tool(api_key=key, api_url=service).invoke(
                given
            ),
            lambda found: found and not isinstance(found, str),
        )


async def llama_index(service: str, key: str, site: str) -> None:
    from llama_index.readers.web import FireCrawlWebReader

    call = Steps("LlamaIndex").call

    def read(
        mode: str, params: dict[str, Any] | None = None, **given: Any
    ) -> list[Any]:
        reader = FireCrawlWebReader(
            api_key=key, api_url=service, mode=mode, params=params or {}
        )
        return list(reader.load_data(**given))

    lamp = f"{site}/shop/lamp"
    await call("FireCrawlWebReader, scrape", lambda: read("scrape", url=lamp))
    await call(
        "FireCrawlWebReader, crawl",
        lambda: read("crawl", {"limit": 2}, url=f"{site}/"),
        lambda found: len(found) == 2,
    )
    await call("FireCrawlWebReader, search", lambda: read("search", query="lamp"))
    await call(
        "FireCrawlWebReader, extract",
        lambda: read("extract", {"prompt": "the name"}, urls=[lamp]),
    )


async def haystack(service: str, key: str, site: str) -> None:
    from firecrawl import AsyncFirecrawl, Firecrawl
    from haystack.utils import Secret
    from haystack_integrations.components.fetchers.firecrawl import FirecrawlCrawler
    from haystack_integrations.components.websearch.firecrawl import (
        FirecrawlWebSearch,
    )

    call = Steps("Haystack").call

    def component(kind: type, **given: Any) -> Any:
        made = kind(api_key=Secret.from_token(key), **given)
        # They have no option for the URL; a client that is there is used.
        made._firecrawl_client = Firecrawl(api_key=key, api_url=service)
        made._async_firecrawl_client = AsyncFirecrawl(api_key=key, api_url=service)
        return made

    crawler = component(FirecrawlCrawler, params={"limit": 2})
    search = component(FirecrawlWebSearch, top_k=2)
    await call(
        "FirecrawlCrawler",
        lambda: crawler.run(urls=[f"{site}/"]),
        lambda found: len(found["documents"]) == 2,
    )
    await call(
        "FirecrawlCrawler, async",
        lambda: crawler.run_async(urls=[f"{site}/shop/lamp"]),
        lambda found: "Brass Lamp" in found["documents"][0].content,
    )
    await call(
        "FirecrawlWebSearch",
        lambda: search.run(query="lamp"),
        lambda found: found["links"] and found["documents"][0].content,
    )
    await call(
        "FirecrawlWebSearch, async",
        lambda: search.run_async(query="lamp"),
        lambda found: found["links"],
    )


def main() -> None:
    asyncio.run(langchain(*arguments()))  # type: ignore[call-arg]
    asyncio.run(langchain_firecrawl(*arguments()))  # type: ignore[call-arg]
    asyncio.run(llama_index(*arguments()))  # type: ignore[call-arg]
    asyncio.run(haystack(*arguments()))  # type: ignore[call-arg]


if __name__ == "__main__":
    sys.exit(main())
