"""The document loaders of two frameworks: ``python -m tests.compat.loaders``.

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


def main() -> None:
    asyncio.run(langchain(*arguments()))  # type: ignore[call-arg]
    asyncio.run(llama_index(*arguments()))  # type: ignore[call-arg]


if __name__ == "__main__":
    sys.exit(main())
