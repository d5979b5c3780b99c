"""Answer a question about a site by an agent whose tools are those of the service.

python agent.py SITE QUESTION
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

if TYPE_CHECKING:
    from mcp.types import Tool

SERVICE = os.environ.get("SERVICE", "http://127.0.0.1:3002")
KEY = os.environ["KEY"]
MAX_STEPS = 8
MAX_PAGES = 4  # that the stand-in reads
TIMEOUT_S = 60  # of a tool


@dataclass(frozen=True)
class Call:
    """A tool to call."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """What a model needs for its next step."""

    site: str
    question: str
    tools: list[Tool]
    #: The calls so far, each with its result.
    steps: list[tuple[Call, Any]]


def stand_in(task: Task) -> Call | str:
    """Map the site, read its best pages, and quote the best sentence. It is no model."""
    if not task.steps:
        search = {"url": task.site, "search": task.question, "limit": MAX_PAGES}
        return Call("firecrawl_map", search)
    links, *pages = [result for _, result in task.steps]
    if "links" not in links:
        return f"The site has no map: {links['error']}"
    if len(pages) < len(links["links"]):
        return Call("firecrawl_scrape", {"url": links["links"][len(pages)]["url"]})
    text = "\n".join(page.get("markdown", "") for page in pages)
    sentences = re.split(r"\n+|(?<=[.!?]) ", text)
    words = set(re.findall(r"\w{4,}", task.question.lower()))
    return max(sentences, key=lambda line: len(words & set(line.lower().split())))


# REPLACE THIS LINE by your model: it gets the question, the tools (name, description,
# input_schema) and the steps so far, and returns a Call, or a text as the final answer.
next_step = stand_in


async def run(client: Client, site: str, question: str) -> str:
    """Let the model call tools until it answers."""
    tools = (await client.list_tools()).tools
    task = Task(site, question, tools, [])
    for _ in range(MAX_STEPS):
        step = next_step(task)
        if isinstance(step, str):
            return step
        result = await client.call_tool(step.tool, step.arguments)
        parts = [part for part in result.content if isinstance(part, TextContent)]
        text = parts[0].text  # each tool of the service returns one text, which is JSON
        print(step.tool, json.dumps(step.arguments))
        if result.is_error:  # the text has the reason and what to do, for the model too
            print(text)
        task.steps.append((step, json.loads(text)))
    raise SystemExit(f"No answer after {MAX_STEPS} steps.")


async def main(site: str, question: str) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http:
        transport = streamable_http_client(f"{SERVICE}/mcp", http_client=http)
        async with Client(transport) as client:
            print(await run(client, site, question))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
