"""The tools that start and read agents."""

from __future__ import annotations

from scraper_service.api.mcp.tools import (
    FLAG,
    OBJECT,
    TEXT,
    TEXTS,
    Tool,
    one_of,
    run_agent,
    run_agent_status,
    said,
)

AGENT_TOOLS = (
    Tool(
        name="firecrawl_agent",
        title="Research by an agent",
        description="Let an agent search and read pages for a prompt; returns its id.",
        arguments={
            "prompt": TEXT,
            "urls": said(TEXTS, "Where to start."),
            "schema": OBJECT,
            "effort": one_of("low", "medium", "high"),
            "maxCredits": {"type": "number"},
            "strictConstrainToURLs": said(FLAG, "Read nothing but urls."),
        },
        required=("prompt",),
        routes=(("POST", "/agent"), ("GET", "/agent/{}")),
        needs_model=True,
        run=run_agent,
    ),
    Tool(
        name="firecrawl_agent_status",
        title="Read an agent's run",
        description="Return the state of an agent and its answer.",
        arguments={"id": TEXT},
        required=("id",),
        routes=(("GET", "/agent/{}"),),
        reads_only=True,
        is_open_world=False,
        needs_model=True,
        run=run_agent_status,
    ),
)
