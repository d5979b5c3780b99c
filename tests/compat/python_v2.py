"""All methods of the Python client of v2: ``python -m tests.compat.python_v2``."""

from __future__ import annotations

import asyncio
import inspect
import sys
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from firecrawl import AsyncFirecrawl, Firecrawl
from firecrawl.v2.types import ChangeTrackingFormat, MonitorTarget, ScrapeOptions

from tests.compat.steps import FAILS_IN_CLIENT, Steps, arguments

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
UNKNOWN = str(uuid.uuid4())


def has(*path: str) -> Callable[[Any], bool]:
    """Return a check that something, or something in it, is there."""

    def check(value: Any) -> bool:
        for name in path:
            value = value[name] if isinstance(value, dict) else getattr(value, name)
        return value is not None

    return check


async def run(service: str, key: str, site: str, kind: type) -> None:
    """Call every method of ``kind``, the client or its async twin."""
    is_async = kind is AsyncFirecrawl
    client: Any = kind(api_key=key, api_url=service)
    steps = Steps("Python v2, async" if is_async else "Python v2")
    call = steps.call
    lamp, options = f"{site}/shop/lamp", ScrapeOptions(formats=["markdown"])
    quick: dict[str, Any] = {"poll_interval": 1, "timeout": 200}

    await call("scrape", lambda: client.scrape(lamp), has("markdown"))
    await call(
        "parse",
        lambda: client.parse(b"<h1>A file</h1>", filename="a.html"),
        has("markdown"),
    )
    await call("get_parse_formats", client.get_parse_formats)
    await call("search", lambda: client.search("lamp", limit=2), has("web"))
    started = await call(
        "start_crawl", lambda: client.start_crawl(f"{site}/", limit=3), has("id")
    )
    await call(
        "crawl",
        lambda: client.crawl(url=f"{site}/", limit=3, scrape_options=options, **quick),
        lambda found: found.status == "completed" and len(found.data) == 3,
    )
    if started:
        job = started.id
        for name in ("get_crawl_status", "get_crawl_status_page"):
            path = job if name == "get_crawl_status" else f"{service}/v2/crawl/{job}"
            if hasattr(client, name):
                await call(
                    name, lambda n=name, p=path: getattr(client, n)(p), has("status")
                )
        await call(
            "wait_crawl",
            lambda: client.wait_crawl(job, **quick),
            lambda found: found.status == "completed",
        )
        await call(
            "get_crawl_errors", lambda: client.get_crawl_errors(job), has("errors")
        )
    slow = await call(
        "start_crawl, a long one",
        lambda: client.start_crawl(f"{site}/", limit=100, delay=5),
        has("id"),
    )
    for name in ("get_active_crawls", "active_crawls"):
        if hasattr(client, name):
            await call(name, lambda n=name: getattr(client, n)(), has("crawls"))
    if slow:
        await call("cancel_crawl", lambda: client.cancel_crawl(slow.id))
    await call(
        "crawl_params_preview",
        lambda: client.crawl_params_preview(f"{site}/", "at most 5 pages of the shop"),
        lambda found: found.include_paths,
    )
    await call("map", lambda: client.map(f"{site}/"), has("links"))
    batch = await call(
        "start_batch_scrape",
        lambda: client.start_batch_scrape([lamp], formats=["markdown"]),
        has("id"),
    )
    await call(
        "batch_scrape",
        lambda: client.batch_scrape([lamp, f"{site}/about"], **quick),
        lambda found: found.completed == found.total == 2,
    )
    if batch:
        job = batch.id
        await call(
            "get_batch_scrape_status",
            lambda: client.get_batch_scrape_status(job),
            has("status"),
        )
        if hasattr(client, "get_batch_scrape_status_page"):
            await call(
                "get_batch_scrape_status_page",
                lambda: client.get_batch_scrape_status_page(
                    f"{service}/v2/batch/scrape/{job}"
                ),
                has("status"),
            )
        await call(
            "get_batch_scrape_errors",
            lambda: client.get_batch_scrape_errors(job),
            has("errors"),
        )
    stopped = client.start_batch_scrape([f"{site}/slow"] * 30)
    stopped = await stopped if is_async else stopped
    await call("cancel_batch_scrape", lambda: client.cancel_batch_scrape(stopped.id))
    extract = await call(
        "start_extract", lambda: client.start_extract([lamp], schema=SCHEMA), has("id")
    )
    await call(
        "extract",
        lambda: client.extract([lamp], schema=SCHEMA, **quick),
        lambda found: found.data["name"] == "Brass Lamp",
    )
    if extract:
        await call(
            "get_extract_status",
            lambda: client.get_extract_status(extract.id),
            has("status"),
        )
    await call("get_concurrency", client.get_concurrency, has("concurrency"))
    for name in ("credit", "token"):
        remaining, history = f"get_{name}_usage", f"get_{name}_usage_historical"
        await call(
            remaining,
            lambda n=remaining: getattr(client, n)(),
            has(f"remaining_{name}s"),
        )
        whole = getattr(client, "v2", client)
        if hasattr(whole, history):
            await call(
                history, lambda w=whole, n=history: getattr(w, n)(), has("periods")
            )
    await call("get_queue_status", client.get_queue_status, has("max_concurrency"))
    await _watch(call, client, site, is_async=is_async)
    if hasattr(client, "create_monitor"):
        await _monitor(call, client, lamp, site)
    await _sessions(call, client, lamp)
    await _agents(call, client, lamp)
    await _elsewhere(call, client, lamp)


async def _monitor(call: Any, client: Any, lamp: str, site: str) -> None:
    scrape = MonitorTarget(
        type="scrape",
        urls=[f"{site}/shop", f"{site}/about"],
        scrape_options=ScrapeOptions(
            only_main_content=False,
            formats=["markdown", ChangeTrackingFormat(modes=["git-diff"])],
        ),
    )
    data = MonitorTarget(
        type="scrape",
        urls=[lamp],
        scrape_options=ScrapeOptions(
            formats=["markdown", ChangeTrackingFormat(modes=["json"], schema=SCHEMA)]
        ),
    )
    request = {
        "name": "Lamps",
        "schedule": {"text": "every 30 minutes", "timezone": "Europe/Berlin"},
        "targets": [scrape, data],
        "webhook": {"url": f"{site}/hook", "events": ["monitor.page"]},
        "retention_days": 7,
    }
    made = await call(
        "create_monitor",
        lambda: client.create_monitor(**request),
        lambda found: found.schedule.cron and found.retention_days == 7,
    )
    if not made:
        return
    await call("list_monitors", client.list_monitors, lambda found: found[0].id)
    await call("get_monitor", lambda: client.get_monitor(made.id), has("name"))
    await call(
        "update_monitor",
        lambda: client.update_monitor(made.id, status="paused"),
        lambda found: found.status == "paused" and found.next_run_at is None,
    )
    check = await call("run_monitor", lambda: client.run_monitor(made.id), has("id"))
    await call(
        "list_monitor_checks",
        lambda: client.list_monitor_checks(made.id),
        lambda found: found[0].id == check.id,
    )

    async def ended() -> Any:
        for _ in range(600):
            found = client.get_monitor_check(made.id, check.id, limit=1)
            found = await found if inspect.isawaitable(found) else found
            if found.status not in {"queued", "running"}:
                return found
            await asyncio.sleep(0.1)
        return None

    await call(
        "get_monitor_check",
        ended,
        lambda found: (
            found.status == "completed"
            and len(found.pages) == found.summary.new == 3
            and any(page.snapshot and page.snapshot.json for page in found.pages)
        ),
    )
    await call("delete_monitor", lambda: client.delete_monitor(made.id))


async def _watch(call: Any, client: Any, site: str, *, is_async: bool) -> None:
    async def followed() -> Any:
        started = client.start_crawl(f"{site}/", limit=3)
        job = (await started if is_async else started).id
        if is_async:
            watcher = client.watcher(job, kind="crawl", timeout=200)
            return [snapshot async for snapshot in watcher][-1]
        found: list[Any] = []
        watcher = client.watcher(job, kind="crawl", timeout=200)
        watcher.add_event_listener("done", found.append)
        watcher.start()
        for _ in range(2000):
            if found:
                break
            await asyncio.sleep(0.1)
        watcher.stop()
        return found[0] if found else None

    def is_whole(found: Any) -> bool:
        status = found["status"] if isinstance(found, dict) else found.status
        return bool(status == "completed")

    await call("watcher", followed, is_whole)


async def _sessions(call: Any, client: Any, lamp: str) -> None:
    """Keep a page open, after a scrape and without one."""

    def is_done(found: Any) -> bool:
        return bool(found.success and found.exit_code == 0 and "Lamp" in found.stdout)

    title = {"code": "agent-browser get title", "language": "bash"}
    page = await call("scrape, then interact", lambda: client.scrape(lamp))
    used = page.metadata.scrape_id
    for name in ("interact", "scrape_execute"):
        await call(name, lambda n=name: getattr(client, n)(used, **title), is_done)
    for name in (
        "stop_interaction",
        "stop_interactive_browser",
        "delete_scrape_browser",
    ):
        await call(
            name,
            lambda n=name: getattr(client, n)(used),
            lambda found: found.success and found.credits_billed == 2,
        )
    opened = await call(
        "browser",
        lambda: client.browser(ttl=60, activity_ttl=30, block_ads=False),
        has("expires_at"),
    )
    lines = f"agent-browser open {lamp} && agent-browser get title"
    await call(
        "browser_execute", lambda: client.browser_execute(opened.id, lines), is_done
    )
    await call(
        "list_browsers",
        lambda: client.list_browsers(status="active"),
        lambda found: opened.id in {each.id for each in found.sessions},
    )
    await call(
        "delete_browser",
        lambda: client.delete_browser(opened.id),
        lambda found: found.status == "destroyed" and found.session_duration_ms > 0,
    )


async def _agents(call: Any, client: Any, lamp: str) -> None:
    """Run an agent, and cancel another one."""
    asked = {"urls": [lamp], "prompt": "The name", "effort": "low"}
    await call(
        "agent",
        lambda: client.agent(**asked, schema=SCHEMA, poll_interval=1),
        lambda found: found.status == "completed" and found.data["name"],
    )
    place = {"country": "DE"}
    await call(
        "start_agent, location and zero_data_retention",
        lambda: client.start_agent(**asked, location=place, zero_data_retention=True),
        has("id"),
    )
    started = await call("start_agent", lambda: client.start_agent(**asked), has("id"))
    await call("cancel_agent", lambda: client.cancel_agent(started.id))
    await call(
        "get_agent_status",
        lambda: client.get_agent_status(started.id),
        lambda found: found.status == "failed" and found.stop_reason == "cancelled",
    )
    is_async = isinstance(client, AsyncFirecrawl)
    await call(
        f"list_agents{FAILS_IN_CLIENT if is_async else ''}",
        client.list_agents,
        lambda found: found.agents[0].id == started.id,
    )


async def _elsewhere(call: Any, client: Any, lamp: str) -> None:
    """Call what this service does not offer; each has to fail with a clear error."""
    for name, given in {
        "get_agent_trace": (UNKNOWN,),
        "get_agent_thread": (UNKNOWN,),
        "get_agent_snapshot": (UNKNOWN, UNKNOWN),
        "developer_search": ("lamp",),
        "gov_search": ("lamp",),
        "search_papers": ("lamp",),
        "search_github": ("lamp",),
        "find_tools": {"urls": [lamp]},
    }.items():
        if hasattr(client, name):
            by_place = given if isinstance(given, tuple) else ()
            by_name = given if isinstance(given, dict) else {}
            asked = partial(getattr(client, name), *by_place, **by_name)
            await call(
                f"{name} (not offered)",
                lambda asked=asked: _refusal(asked),
                lambda found: False,
            )


async def _refusal(asked: Callable[[], Any]) -> Any:
    """Return an answer; raise what it says where the client reports failure so."""
    answer = asked()
    if inspect.isawaitable(answer):
        answer = await answer
    if getattr(answer, "success", None) is False:
        raise RuntimeError(answer.error)
    return answer


def main() -> None:
    for kind in (Firecrawl, AsyncFirecrawl):
        asyncio.run(run(*arguments(), kind))  # type: ignore[call-arg]


if __name__ == "__main__":
    sys.exit(main())
