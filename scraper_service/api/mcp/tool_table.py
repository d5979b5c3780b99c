"""The table of tools: their names, arguments and hints, as ``tools/list`` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.mcp import tools
from scraper_service.api.mcp.tools import (
    FLAG,
    MOST_WAIT_S,
    NUMBER,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXTS,
    WAIT_S,
    Tool,
    doc,
    one_of,
)
from scraper_service.options import v2_requests
from scraper_service.options.parsing import Array, Choice, Key, Object, Text, bare_kind
from scraper_service.options.values import UrlOr

if TYPE_CHECKING:
    from collections.abc import Mapping


def _of(kind: Object, names: str) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of some keys of a request, short to save tokens."""
    return {name: _schema(kind.fields[name]) for name in names.split()}


def _schema(key: Key) -> Mapping[str, Any]:
    kind = bare_kind(key.kind)
    if isinstance(kind, Choice):
        return one_of(*kind.values)  # the words say enough
    types = kind.expected.split(" or ")
    found: dict[str, Any] = {"type": types if len(types) > 1 else types[0]}
    if isinstance(kind, UrlOr):
        found = {"type": ["string", "object"]}
    elif isinstance(kind, Array) and isinstance(bare_kind(kind.item), Text):
        found = TEXTS
    return found if key.required else doc(found, key.help)


_PARSE_OPTIONS: dict[str, Mapping[str, Any]] = {
    "formats": doc(TEXTS, "markdown (default), html, links, summary, json, ..."),
    "jsonOptions": doc(OBJECT, "For json: prompt, schema or selectors."),
    "queryOptions": doc(OBJECT, "For query: prompt, mode."),
    "pdfOptions": doc(OBJECT, "maxPages."),
    **_of(
        v2_requests.PAGE,
        "parsers onlyMainContent includeTags excludeTags timeout removeBase64Images"
        " redactPII zeroDataRetention",
    ),
}
_PAGE_OPTIONS: dict[str, Mapping[str, Any]] = {
    **_PARSE_OPTIONS,
    "screenshotOptions": doc(OBJECT, "fullPage, quality, viewport."),
    **_of(
        v2_requests.PAGE,
        "waitFor actions mobile location proxy maxAge skipTlsVerification storeInCache"
        " lockdown profile",
    ),
}
_WAIT = {
    "waitSeconds": doc(
        {**NUMBER, "minimum": 0, "maximum": MOST_WAIT_S, "default": WAIT_S},
        "How long to wait for the end.",
    )
}
_ID = {"id": TEXT}
_SIGNALS: dict[str, Mapping[str, Any]] = {
    "rating": one_of("good", "partial", "bad"),
    "valuableSources": OBJECTS,
    "missingContent": OBJECTS,
    "querySuggestions": TEXT,
}
TOOLS: tuple[Tool, ...] = (
    Tool(
        name="firecrawl_scrape",
        title="Read a page",
        description="Return one page as Markdown, or in other formats.",
        arguments={"url": TEXT, **_PAGE_OPTIONS},
        required=("url",),
        routes=(("POST", "/scrape"),),
        reads_only=True,
        run=tools.run_scrape,
    ),
    Tool(
        name="firecrawl_map",
        title="List the URLs of a site",
        description="Return the URLs of a site, those that fit search first.",
        arguments=_of(
            v2_requests.MAP,
            "url search sitemap includeSubdomains limit ignoreQueryParameters",
        ),
        required=("url",),
        routes=(("POST", "/map"),),
        reads_only=True,
        run=tools.run_map,
    ),
    Tool(
        name="firecrawl_search",
        title="Search the web",
        description="Return results of a web search; scrapeOptions adds their pages.",
        arguments={
            **_of(
                v2_requests.SEARCH,
                "query limit tbs filter location includeDomains excludeDomains sources"
                " categories scrapeOptions",
            ),
            "highlights": FLAG,
            "enterprise": TEXTS,
        },
        required=("query",),
        routes=(("POST", "/search"),),
        reads_only=True,
        run=tools.run_search,
    ),
    Tool(
        name="firecrawl_crawl",
        title="Crawl a site",
        description="Start a crawl and wait for it a while; returns its id and counts.",
        arguments={
            **_of(
                v2_requests.CRAWL,
                "url prompt limit maxDiscoveryDepth includePaths excludePaths"
                " regexOnFullURL allowSubdomains allowExternalLinks crawlEntireDomain"
                " sitemap delay maxConcurrency ignoreRobotsTxt robotsUserAgent"
                " ignoreQueryParameters deduplicateSimilarURLs dedupeBoilerplate"
                " zeroDataRetention retentionDays webhook scrapeOptions",
            ),
            "webhookHeaders": OBJECT,
            **_WAIT,
        },
        required=("url",),
        routes=(("POST", "/crawl"), ("GET", "/crawl/{}")),
        run=tools.run_crawl,
    ),
    Tool(
        name="firecrawl_check_crawl_status",
        title="Read a crawl",
        description="Return the state of a crawl and its pages, and once it has ended the"
        " URLs that failed or that robots.txt refuses.",
        arguments=_ID,
        required=("id",),
        routes=(("GET", "/crawl/{}"), ("GET", "/crawl/{}/errors")),
        reads_only=True,
        is_open_world=False,
        run=tools.run_crawl_status,
    ),
    Tool(
        name="firecrawl_extract",
        title="Extract data",
        description="Return data from pages, by a prompt or a JSON Schema.",
        arguments={
            **_of(
                v2_requests.EXTRACT,
                "urls prompt schema allowExternalLinks enableWebSearch"
                " includeSubdomains",
            ),
            **_WAIT,
        },
        required=("urls",),
        routes=(("POST", "/extract"), ("GET", "/extract/{}")),
        reads_only=True,
        run=tools.run_extract,
    ),
    Tool(
        name="firecrawl_agent",
        title="Research by an agent",
        description="Let an agent search and read pages for a prompt; returns its id.",
        arguments=_of(
            v2_requests.AGENT,
            "prompt urls schema effort maxCredits strictConstrainToURLs",
        ),
        required=("prompt",),
        routes=(("POST", "/agent"), ("GET", "/agent/{}")),
        needs_model=True,
        run=tools.run_agent,
    ),
    Tool(
        name="firecrawl_agent_status",
        title="Read an agent's run",
        description="Return the state of an agent and its answer.",
        arguments=_ID,
        required=("id",),
        routes=(("GET", "/agent/{}"),),
        reads_only=True,
        is_open_world=False,
        needs_model=True,
        run=tools.run_agent_status,
    ),
    Tool(
        name="firecrawl_interact",
        title="Use a page in a browser",
        description="Do one step in a page that stays open: actions, or a prompt.",
        arguments={
            "scrapeId": doc(TEXT, "Of an earlier scrape."),
            "url": doc(TEXT, "A page to open first."),
            "prompt": TEXT,
            "code": TEXT,
            "actions": OBJECTS,
            "language": one_of("bash", "python", "node"),
            "timeout": doc(NUMBER, "Seconds."),
            "scrapeOptions": doc(OBJECT, "With url."),
        },
        routes=(("POST", "/scrape/{}/interact"),),
        is_destructive=True,
        needs_browser=True,
        run=tools.run_interact,
    ),
    Tool(
        name="firecrawl_interact_stop",
        title="Close a page in a browser",
        description="End the session of a page.",
        arguments={"scrapeId": TEXT},
        required=("scrapeId",),
        routes=(("DELETE", "/scrape/{}/interact"),),
        is_open_world=False,
        needs_browser=True,
        run=tools.run_interact_stop,
    ),
    Tool(
        name="firecrawl_parse",
        title="Read a file",
        description=(
            "Convert a file. First with filePath: returns a command that sends the file."
            " Then with uploadRef: returns its content."
        ),
        arguments={
            "filePath": TEXT,
            "uploadRef": TEXT,
            "contentType": doc(TEXT, "Of the file; by default its name decides."),
            "declaredSizeBytes": NUMBER,
            **_PARSE_OPTIONS,
        },
        routes=(("POST", "/parse"), ("POST", "/parse/upload-url")),
        is_open_world=False,
        run=tools.run_parse,
    ),
    Tool(
        name="firecrawl_monitor_create",
        title="Watch pages",
        description="Watch pages or searches on a schedule, and report changes.",
        arguments={
            "body": doc(OBJECT, "The whole monitor, instead of the others."),
            "page": TEXT,
            "pages": TEXTS,
            "queries": TEXTS,
            "goal": doc(TEXT, "Which changes matter."),
            "name": TEXT,
            "scheduleText": doc(TEXT, "Such as: every 30 minutes, daily at 9:00."),
            "timezone": TEXT,
            "searchWindow": TEXT,
            "maxResults": NUMBER,
            "includeDomains": TEXTS,
            "excludeDomains": TEXTS,
            "email": TEXT,
            "includeDiffs": FLAG,
            "webhookUrl": TEXT,
        },
        routes=(("POST", "/monitor"),),
        run=tools.run_monitor_create,
    ),
    Tool(
        name="firecrawl_monitor_list",
        title="List monitors",
        description="Return the monitors.",
        arguments={"limit": NUMBER, "offset": NUMBER},
        routes=(("GET", "/monitor"),),
        reads_only=True,
        is_open_world=False,
        run=tools.listing("/monitor", "offset", "data"),
    ),
    Tool(
        name="firecrawl_monitor_get",
        title="Read a monitor",
        description="Return one monitor.",
        arguments=_ID,
        required=("id",),
        routes=(("GET", "/monitor/{}"),),
        reads_only=True,
        is_open_world=False,
        run=tools.of_monitor("GET", "/monitor/{}"),
    ),
    Tool(
        name="firecrawl_monitor_update",
        title="Change a monitor",
        description="Change what body names: name, status, schedule, targets, ...",
        arguments={**_ID, "body": OBJECT},
        required=("id", "body"),
        routes=(("PATCH", "/monitor/{}"),),
        is_open_world=False,
        run=tools.of_monitor("PATCH", "/monitor/{}"),
    ),
    Tool(
        name="firecrawl_monitor_delete",
        title="Delete a monitor",
        description="Delete a monitor with its checks.",
        arguments=_ID,
        required=("id",),
        routes=(("DELETE", "/monitor/{}"),),
        is_open_world=False,
        is_destructive=True,
        run=tools.of_monitor("DELETE", "/monitor/{}"),
    ),
    Tool(
        name="firecrawl_monitor_run",
        title="Check a monitor now",
        description="Start a check of a monitor.",
        arguments=_ID,
        required=("id",),
        routes=(("POST", "/monitor/{}/run"),),
        run=tools.of_monitor("POST", "/monitor/{}/run"),
    ),
    Tool(
        name="firecrawl_monitor_checks",
        title="List checks",
        description="Return the checks of a monitor.",
        arguments={**_ID, "limit": NUMBER, "offset": NUMBER, "status": TEXT},
        required=("id",),
        routes=(("GET", "/monitor/{}/checks"),),
        reads_only=True,
        is_open_world=False,
        run=tools.listing("/monitor/{}/checks", "offset", "data"),
    ),
    Tool(
        name="firecrawl_monitor_check",
        title="Read a check",
        description="Return the pages of a check with what changed.",
        arguments={
            **_ID,
            "checkId": TEXT,
            "limit": NUMBER,
            "skip": NUMBER,
            "pageStatus": one_of("new", "changed", "same", "removed", "error"),
        },
        required=("id", "checkId"),
        routes=(("GET", "/monitor/{}/checks/{}"),),
        reads_only=True,
        is_open_world=False,
        run=tools.listing("/monitor/{}/checks/{}", "skip", "pages"),
    ),
    Tool(
        name="firecrawl_feedback",
        title="Rate a result",
        description="Tell whether a scrape, search, map or parse was useful.",
        arguments={
            "endpoint": one_of("search", "scrape", "parse", "map"),
            "jobId": TEXT,
            **_SIGNALS,
            "issues": TEXTS,
            "tags": TEXTS,
            "note": TEXT,
            "url": TEXT,
            "pageNumbers": {"type": "array", "items": NUMBER},
            "metadata": OBJECT,
        },
        required=("endpoint", "jobId", "rating"),
        routes=(("POST", "/feedback"),),
        is_open_world=False,
        run=tools.run_feedback,
    ),
    Tool(
        name="firecrawl_search_feedback",
        title="Rate a search",
        description="Tell whether a search was useful.",
        arguments={"searchId": TEXT, **_SIGNALS},
        required=("searchId", "rating"),
        routes=(("POST", "/search/{}/feedback"),),
        is_open_world=False,
        run=tools.run_search_feedback,
    ),
    Tool(
        name="firecrawl_credit_usage",
        title="Read the credits",
        description="Return the credits that are left, or what was used by month.",
        arguments={"view": one_of("current", "historical"), "byApiKey": FLAG},
        routes=(("GET", "/team/credit-usage"),),
        reads_only=True,
        is_open_world=False,
        run=tools.run_credit_usage,
    ),
)
