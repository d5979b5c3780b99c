"""Callers with a model and tools: ``python -m tests.compat.hosts``.

One translates the tools of ``/mcp`` into function definitions of the chat-completions API; the
other is the OpenAI Agents SDK, a host of MCP servers over HTTP and over standard streams. The
model is a stand-in (``tool_model.py``). They are in an environment of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.compat.steps import Steps, arguments
from tests.compat.tool_model import ToolModel

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = "stand-in"
ROUNDS = 8


def calls_of(site: str) -> dict[str, tuple[list[Any], str]]:
    """Return the tools to call, and what has to be in their results."""
    lamp = f"{site}/shop/lamp"
    selectors = {"fields": [{"name": "title", "selector": "h1"}]}
    data = {"formats": ["json"], "jsonOptions": {"selectors": selectors}}
    return {
        "scrape": (["firecrawl_scrape", {"url": lamp}], "Brass Lamp"),
        "scrape, data": (["firecrawl_scrape", {"url": lamp, **data}], "Brass Lamp"),
        "map": (["firecrawl_map", {"url": f"{site}/"}], "/shop/lamp"),
        "search": (["firecrawl_search", {"query": "lamp"}], "/shop"),
        "a failure": (
            ["firecrawl_scrape", {"url": "http://127.0.0.1/"}],
            "UNSUPPORTED_SITE",
        ),
    }


async def openai_tools(service: str, key: str, site: str) -> None:
    """Run a loop as programs of the chat-completions API have it."""
    from openai import OpenAI

    def mcp(method: str, params: dict[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        sent = json.dumps(message).encode()
        request = urllib.request.Request(f"{service}/mcp", sent, headers)
        with urllib.request.urlopen(request) as found:
            return json.loads(found.read())

    def result_of(call: Any) -> str:
        given = json.loads(call.function.arguments)
        found = mcp("tools/call", {"name": call.function.name, "arguments": given})
        if "error" in found:
            return str(found["error"]["message"])
        return str(found["result"]["content"][0]["text"])

    tools = [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["inputSchema"],
            },
        }
        for tool in mcp("tools/list", {})["result"]["tools"]
    ]
    step = Steps("OpenAI tools").call
    with ToolModel() as model:
        client: Any = OpenAI(base_url=model.base_url, api_key="none")

        def ask(*calls: list[Any]) -> str:
            messages: list[Any] = [{"role": "user", "content": json.dumps(calls)}]
            for _ in range(ROUNDS):
                found = client.chat.completions.create(
                    model=MODEL, messages=messages, tools=tools
                )
                message = found.choices[0].message
                if not message.tool_calls:
                    return str(message.content)
                messages.append(message)
                messages += [
                    {"role": "tool", "tool_call_id": x.id, "content": result_of(x)}
                    for x in message.tool_calls
                ]
            raise TimeoutError("the model has not ended")

        await _run_all(step, site, ask)


async def agents_sdk(service: str, key: str, site: str) -> None:
    """Run an agent whose tools come from MCP servers of both transports."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    headers = {"Authorization": f"Bearer {key}"}
    http: Any = {"url": f"{service}/mcp", "headers": headers}
    stdio: Any = {
        "command": os.environ["SERVICE_PYTHON"],
        "args": ["-m", "scraper_service", "mcp", "--server", service],
        "env": {"SCRAPER_KEY": key},
    }
    with ToolModel() as stand_in:
        client = AsyncOpenAI(base_url=stand_in.base_url, api_key="none")
        model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
        for name, server in (
            ("HTTP", MCPServerStreamableHttp(http, client_session_timeout_seconds=60)),
            ("stdio", MCPServerStdio(stdio, client_session_timeout_seconds=60)),
        ):
            async with server:
                agent = Agent(name="host", model=model, mcp_servers=[server])

                async def ask(*calls: list[Any], agent: Any = agent) -> str:
                    found = await Runner.run(agent, json.dumps(calls))
                    return str(found.final_output)

                await _run_all(Steps(f"Agents SDK, {name}").call, site, ask)


async def _run_all(step: Any, site: str, ask: Callable[..., Any]) -> None:
    calls = calls_of(site)
    for name, (call, part) in calls.items():
        await step(name, lambda call=call: ask(call), lambda x, part=part: part in x)
    both = [calls["scrape"][0], calls["map"][0]]
    await step("two tools", lambda: ask(*both), lambda x: "Brass" in x and "/shop" in x)


def main() -> None:
    asyncio.run(openai_tools(*arguments()))  # type: ignore[call-arg]
    asyncio.run(agents_sdk(*arguments()))  # type: ignore[call-arg]


if __name__ == "__main__":
    sys.exit(main())
