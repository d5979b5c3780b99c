"""All methods of the Python client of v1: ``python -m tests.compat.python_v1``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from firecrawl.v1 import V1FirecrawlApp
from firecrawl.v1.client import AsyncV1FirecrawlApp

from tests.compat.python_v2 import SCHEMA, has
from tests.compat.steps import FAILS_IN_CLIENT, Steps, arguments


async def run(service: str, key: str, site: str, kind: type) -> None:
    """Call every method of ``kind``, the client or its async twin."""
    is_async = kind is AsyncV1FirecrawlApp
    client: Any = kind(api_key=key, api_url=service)
    call = Steps("Python v1, async" if is_async else "Python v1").call
    lamp = f"{site}/shop/lamp"

    await call("scrape_url", lambda: client.scrape_url(lamp), has("markdown"))
    await call("search", lambda: client.search("lamp", limit=2), has("data"))
    await call(
        "crawl_url",
        lambda: client.crawl_url(f"{site}/", limit=3, poll_interval=1),
        lambda found: found.status == "completed" and len(found.data) == 3,
    )
    started = await call(
        "async_crawl_url",
        lambda: client.async_crawl_url(f"{site}/", limit=3),
        has("id"),
    )
    if started:
        job = started.id
        await call(
            "check_crawl_status", lambda: client.check_crawl_status(job), has("status")
        )
        await call(
            "check_crawl_errors", lambda: client.check_crawl_errors(job), has("errors")
        )
    slow = client.async_crawl_url(f"{site}/", limit=100, delay=5)
    slow = await slow if is_async else slow
    await call("cancel_crawl", lambda: client.cancel_crawl(slow.id))
    await call("map_url", lambda: client.map_url(f"{site}/"), has("links"))
    await call(
        "batch_scrape_urls",
        lambda: client.batch_scrape_urls([lamp], poll_interval=1),
        lambda found: found.completed == 1,
    )
    batch = await call(
        "async_batch_scrape_urls",
        lambda: client.async_batch_scrape_urls([lamp]),
        has("id"),
    )
    if batch:
        for name in ("check_batch_scrape_status", "check_batch_scrape_errors"):
            found = "status" if name.endswith("status") else "errors"
            await call(name, lambda n=name: getattr(client, n)(batch.id), has(found))
    await call(
        "extract",
        lambda: client.extract([lamp], schema=SCHEMA, prompt="the name"),
        lambda found: _data(found)["name"] == "Brass Lamp",
    )
    extract = await call(
        "async_extract", lambda: client.async_extract([lamp], schema=SCHEMA), has("id")
    )
    if extract:
        await call(
            "get_extract_status",
            lambda: client.get_extract_status(_id(extract)),
            has("status"),
        )
    await call(
        "generate_llms_text",
        lambda: client.generate_llms_text(f"{site}/", max_urls=2),
        has("data"),
    )
    text = await call(
        "async_generate_llms_text",
        lambda: client.async_generate_llms_text(f"{site}/", max_urls=2),
        has("id"),
    )
    await call(
        "check_generate_llms_text_status",
        lambda: client.check_generate_llms_text_status(_id(text)),
        has("status"),
    )
    asked = {"max_depth": 1, "max_urls": 1, "time_limit": 30}
    await call(
        "deep_research",
        lambda: client.deep_research("Who founded the shop?", **asked),
        has("data"),
    )
    research = await call(
        "async_deep_research",
        lambda: client.async_deep_research("Who founded the shop?", **asked),
        _id,
    )
    await call(
        "check_deep_research_status",
        lambda: client.check_deep_research_status(_id(research)),
        has("status"),
    )
    for name in ("credit", "token"):
        remaining, history = f"get_{name}_usage", f"get_{name}_usage_historical"
        await call(remaining, lambda n=remaining: getattr(client, n)(), has("data"))
        await call(history, lambda n=history: getattr(client, n)(), has("periods"))
    await _watch(call, client, site, lamp, is_async=is_async)


def _data(found: Any) -> Any:
    return found["data"] if isinstance(found, dict) else found.data


def _id(started: Any) -> Any:
    return started["id"] if isinstance(started, dict) else started.id


async def _watch(
    call: Any, client: Any, site: str, lamp: str, *, is_async: bool
) -> None:
    async def followed(name: str, *args: Any, **options: Any) -> Any:
        started = getattr(client, name)(*args, **options)
        watcher = await started if is_async else started
        done: list[Any] = []
        watcher.add_event_listener("done", done.append)
        await watcher.connect()
        return done

    # The async client calls its own method with arguments that it does not take.
    broken = FAILS_IN_CLIENT if is_async else ""
    options = {} if is_async else {"limit": 2}
    await call(
        "crawl_url_and_watch" + broken,
        lambda: followed("crawl_url_and_watch", f"{site}/", **options),
    )
    await call(
        "batch_scrape_urls_and_watch" + broken,
        lambda: followed("batch_scrape_urls_and_watch", [lamp]),
    )


def main() -> None:
    for kind in (V1FirecrawlApp, AsyncV1FirecrawlApp):
        asyncio.run(run(*arguments(), kind))  # type: ignore[call-arg]


if __name__ == "__main__":
    sys.exit(main())
