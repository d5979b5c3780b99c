"""``POST /mcp``: the protocol by hand, and the official client in each revision."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper_service.api.mcp.budget import AnswerPart, fit, tokens_of
from scraper_service.content.formats.summary_and_tokens import count_tokens
from tests.support.scripted_site import ScriptedSite, answer, moved, page, slow, text
from tests.support.waiting import wait_until

SIZE = 1000  # tokens
UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
LONG = "".join(
    f"<h2>Section {number}</h2><p>{f'Word{number} is here. ' * 40}"
    for number in range(40)
)
MANY = "".join(f'<a href="/many/{number}">n</a> ' for number in range(300))
SITE = {
    "/": page("/a", "/b"),
    "/a": page(title="A page of words"),
    "/b": page(title="B"),
    "/long": f"<title>Long</title>{LONG}",
    "/many": MANY,
    "/slow": slow(page(), 4),
}


@pytest.fixture(scope="module")
def web():
    with ScriptedSite(SITE) as found:
        yield found


def test_a_page_that_lost_a_part_has_a_line_about_the_loss(service):
    words = " ".join(map(str, range(3000)))
    body = answer(gzip.compress(words.encode())[:-500], Content_Encoding="gzip")
    with ScriptedSite({"/": body}) as site:
        found = call(service, "scrape", url=site.url("/"))
    assert found["lost"] == "Lost: 1 cut part"


@pytest.mark.parametrize("origin", ["http://[::1", "http://a]b", "http://a\u2100b"])
def test_a_malformed_origin_is_refused(service, origin):
    message = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    headers = {"Origin": origin.encode().decode("latin-1")}
    reply = service.post("/mcp", message, headers=headers)
    assert reply.status == 403
    assert "may not call" in reply.json["error"]["message"]


def send(service, message, path="/mcp", **options):
    return service.post(path, message, **options)


def ask(service, method, params=None, **options):
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    reply = send(service, message, **options)
    assert reply.json["id"] == 7
    assert reply.json["jsonrpc"] == "2.0"
    return reply


def call(service, tool, **arguments):
    """Return the answer of a tool, or the message of its error."""
    params = {"name": f"firecrawl_{tool}", "arguments": arguments}
    found = ask(service, "tools/call", params).json
    if "error" in found:
        assert found["error"]["code"] == -32602
        return found["error"]["message"]
    [content] = found["result"]["content"]
    assert content["type"] == "text"
    answer = json.loads(content["text"])
    has_failed = "error" in answer and answer.keys() <= {"error", "code", "next"}
    assert found["result"]["isError"] is has_failed
    assert count_tokens(content["text"]) <= arguments.get("maxTokens", 10_000)
    return answer


def whole(service, tool, **arguments):
    """Return all parts of an answer."""
    parts = [call(service, tool, **arguments)]
    while "nextCursor" in parts[-1]:
        assert parts[-1]["truncated"] is True
        cursor = parts[-1]["nextCursor"]
        parts.append(call(service, tool, **arguments, cursor=cursor))
    return parts


def bare(text):
    return "".join(text.split())


# -- the protocol -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
def test_a_handshake_agrees_on_a_revision(service, asked, answered):
    params = {"protocolVersion": asked, "capabilities": {}}
    reply = ask(service, "initialize", params)
    assert reply.json["result"]["protocolVersion"] == answered
    assert "tools" in reply.json["result"]["capabilities"]
    assert reply.headers.get("Mcp-Session-Id") is None


def test_tools_have_names_schemas_and_hints(service):
    tools = ask(service, "tools/list").json["result"]["tools"]
    names = [tool["name"] for tool in tools]
    assert {"firecrawl_scrape", "firecrawl_map", "firecrawl_crawl"} <= set(names)
    for tool in tools:
        schema = tool["inputSchema"]
        assert {"maxTokens", "cursor"} <= schema["properties"].keys()
        assert set(schema.get("required", [])) <= schema["properties"].keys()
        assert tool["annotations"].keys() == {
            *("title", "readOnlyHint", "openWorldHint", "destructiveHint")
        }
    assert tokens_of(tools) < 6000


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (b"{", 400, -32700),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, 400, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, 400, -32600),
        ([], 400, -32600),
        ("text", 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, 200, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "prompts/list"}, 200, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, 200, -32602),
    ],
)
def test_bad_messages_get_a_json_rpc_error(service, message, status, code):
    raw = message if isinstance(message, bytes) else None
    reply = send(service, None if raw else message, raw=raw)
    assert (reply.status, reply.json["error"]["code"]) == (status, code)


def test_notifications_and_responses_get_no_response(service):
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
        [{"jsonrpc": "2.0", "method": "notifications/cancelled"}],
    ):
        reply = send(service, message)
        assert (reply.status, reply.json) == (202, None)


def test_arrays_are_of_the_first_revision_only(service):
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    reply = send(service, [ping, 5, {**ping, "id": "b"}])
    assert [each["id"] for each in reply.json] == [1, None, "b"]
    headers = {"MCP-Protocol-Version": "2025-06-18"}
    reply = send(service, [ping], headers=headers)
    assert (reply.status, reply.json["error"]["code"]) == (400, -32600)
    headers = {"MCP-Protocol-Version": "2020-01-01"}
    reply = send(service, ping, headers=headers)
    assert (reply.status, reply.json["error"]["code"]) == (400, -32022)


def test_messages_of_a_json_array_run_in_parallel(service, site):
    held = [site.held(), site.held()]
    messages = [
        {
            "jsonrpc": "2.0",
            "id": url,
            "method": "tools/call",
            "params": {"name": "firecrawl_scrape", "arguments": {"url": url}},
        }
        for url in held
    ]
    with ThreadPoolExecutor() as threads:
        reply = threads.submit(send, service, messages)
        paths = [urlsplit(url).path for url in held]
        wait_until(lambda: all(site.paths(path) for path in paths))
        for url in held:
            site.release(url)
        answers = reply.result().json
    assert [each["id"] for each in answers] == held
    assert [each["result"]["isError"] for each in answers] == [False, False], answers


@pytest.mark.parametrize(
    "changed",
    [
        {"Mcp-Method": "tools/list"},
        {"Mcp-Method": None},
        {"Mcp-Name": "firecrawl_map"},
        {"_meta": {}},
    ],
)
def test_the_newest_revision_requires_headers_that_match_the_body(service, changed):
    version = "2026-07-28"
    meta = {"io.modelcontextprotocol/protocolVersion": version}
    params = {"name": "firecrawl_credit_usage", "_meta": changed.pop("_meta", meta)}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    right = {
        "MCP-Protocol-Version": version,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "firecrawl_credit_usage",
    }
    sent = {k: v for k, v in {**right, **changed}.items() if v is not None}
    reply = send(service, message, headers=sent)
    assert (reply.status, reply.json["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize("path", ["/mcp", "/v2/mcp"])
def test_keys_methods_and_origins(service, path):
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    refused = send(service, ping, path, key="wrong")
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    for method in ("GET", "DELETE"):
        assert service.request(method, path).status == 405
    assert send(service, ping, path, headers={"Origin": service.url}).status == 200
    foreign = {"Origin": "https://evil.example"}
    assert send(service, ping, path, headers=foreign).status == 403


@pytest.mark.full
def test_operators_choose_tools_origins_and_the_usual_budget(start_service, web):
    service = start_service(
        SCRAPER_MCP_TOOLS="firecrawl_scrape",
        SCRAPER_MCP_ORIGINS="https://agents.example",
        SCRAPER_MCP_MAX_TOKENS="300",
    )
    [tool] = ask(service, "tools/list").json["result"]["tools"]
    assert tool["name"] == "firecrawl_scrape"
    assert "unknown tool" in call(service, "map", url=web.url("/"))
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    allowed = {"Origin": "https://agents.example"}
    assert send(service, ping, headers=allowed).status == 200
    found = call(service, "scrape", url=web.url("/long"))
    assert count_tokens(found["markdown"]) < 300


def test_mcp_can_be_switched_off(start_service):
    service = start_service(SCRAPER_MCP="false")
    assert service.post("/mcp", {}).status == 404
    assert service.post("/v2/mcp", {}).status == 404


# -- tools ------------------------------------------------------------------------------


def test_a_scrape_returns_only_requested_formats_and_short_metadata(service, web):
    found = call(service, "scrape", url=web.url("/a"))
    assert found.keys() == {"markdown", "metadata"}
    assert found["metadata"].keys() <= {
        *("title", "url", "sourceURL", "statusCode", "engine", "scrapeId"),
        "tokenCount",
    }
    assert found["metadata"]["engine"] == "http"
    selectors = {"fields": [{"name": "title", "selector": "h1"}]}
    found = call(
        service,
        "scrape",
        url=web.url("/a"),
        formats=["json", "links"],
        jsonOptions={"selectors": selectors},
        toolDetail="full",
    )
    assert found["json"] == {"title": "A page of words"}
    assert found["links"] == []
    assert "markdown" not in found


def test_a_long_page_is_read_in_parts_without_a_fetch(service, web):
    text = call(service, "scrape", url=web.url("/long"), maxTokens=100_000)["markdown"]
    before = web.paths().count("/long")
    parts = whole(service, "scrape", url=web.url("/long"), maxTokens=SIZE)
    assert len(parts) > 5
    assert bare("".join(part["markdown"] for part in parts)) == bare(text)
    left = [part["remainingTokens"] for part in parts[:-1]]
    assert left == sorted(left, reverse=True)
    assert web.paths().count("/long") == before


def test_a_smaller_budget_cuts_the_next_part_further(service, web):
    text = call(service, "scrape", url=web.url("/long"), maxTokens=100_000)["markdown"]
    found = [call(service, "scrape", url=web.url("/long"), maxTokens=SIZE)]
    for size in (300, 5000, 250, SIZE):
        cursor = found[-1]["nextCursor"]
        found.append(
            call(service, "scrape", url="ignored", maxTokens=size, cursor=cursor)
        )
    texts = [part["markdown"] for part in found]
    assert bare(text).startswith(bare("".join(texts)))


def test_formats_beyond_the_budget_are_left_out_and_named(service, web):
    found = call(
        service,
        "scrape",
        url=web.url("/long"),
        formats=["html", "links", "markdown"],
        onlyMainContent=False,
        maxTokens=SIZE,
    )
    assert "html" in found["leftOut"]
    assert "markdown" in found


def test_all_parts_of_a_map_come_from_one_fetch(service, web):
    given = {"url": web.url("/many"), "sitemap": "skip", "limit": 250}
    parts = whole(service, "map", **given, maxTokens=SIZE)
    urls = [link["url"] for part in parts for link in part["links"]]
    assert len(parts) > 2
    assert len(urls) == len(set(urls)) == 250
    assert web.paths().count("/many") == 1


def test_a_crawl_is_followed_and_its_pages_are_read(service, web):
    done = call(service, "crawl", url=web.url("/"), limit=3)
    assert (done["status"], done["completed"], done["total"]) == ("completed", 3, 3)
    parts = whole(service, "check_crawl_status", id=done["id"], maxTokens=400)
    titles = {each["metadata"]["title"] for part in parts for each in part["data"]}
    assert titles == {"A page", "A page of words", "B"}
    started = call(service, "crawl", url=web.url("/slow"), limit=1, waitSeconds=0)
    assert started["status"] == "scraping"


@pytest.mark.full
def test_a_crawl_that_has_ended_names_its_urls_without_a_page(service):
    failing = [f"/down/{number}" for number in range(25)]
    private = ["/private/a", "/private/b"]
    pages = {
        "/": page("/a", *failing, *private),
        "/a": page(),
        "/robots.txt": text("User-agent: *\nDisallow: /private\n"),
        **dict.fromkeys(failing, moved("/down/0")),
    }
    with ScriptedSite(pages) as site:
        started = call(service, "crawl", url=site.url("/"), waitSeconds=50)
        job = {"id": started["id"]}
        done = call(service, "check_crawl_status", **job)
        assert (done["completed"], len(done["failed"])) == (2, 20)
        assert done["failedTotal"] == 25
        named = {each["url"] for each in done["failed"]}
        assert named < set(map(site.url, failing))
        assert all(each["error"] for each in done["failed"])
        assert sorted(done["robotsBlocked"]) == list(map(site.url, private))
        assert "robotsBlockedTotal" not in done
        for size in (200, 300, 400, 600):  # call() compares the size of the answer
            parts = whole(service, "check_crawl_status", **job, maxTokens=size)
            assert len(parts[0].get("failed", ())) < 20
        assert parts[0]["failedTotal"] == 25
        assert "failedTotal" not in parts[-1]
        fine = call(service, "crawl", url=site.url("/a"), limit=1)
        done = call(service, "check_crawl_status", id=fine["id"])
    assert not {"failed", "failedTotal", "robotsBlocked"} & done.keys()


def test_data_are_extracted_and_awaited(service, web):
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    given = {"urls": [web.url("/a")], "schema": schema}
    found = call(service, "extract", **given)
    assert found["data"]["title"] == "A page of words"
    slow_page = {"urls": [web.url("/slow")], "schema": schema}
    found = call(service, "extract", **slow_page, waitSeconds=0)
    assert found["status"] == "processing"
    found = call(service, "extract", **slow_page, cursor=found["nextCursor"])
    assert found["status"] == "completed"


@pytest.mark.parametrize("options", [{}, {"contentType": "text/html"}])
def test_a_file_is_sent_and_read(service, tmp_path, options):
    file = tmp_path / "a file.html"
    file.write_text("<title>File</title><h1>File</h1><p>Its words.")
    step = call(service, "parse", filePath=str(file), **options)
    subprocess.run(step["uploadCommand"], shell=True, check=True, capture_output=True)
    following = step["nextToolCall"]
    tool = following["name"].removeprefix("firecrawl_")
    assert "Its words." in call(service, tool, **following["arguments"])["markdown"]
    assert "exactly one" in call(service, "parse")


def test_monitors_are_made_listed_run_changed_and_deleted(service, web):
    made = call(service, "monitor_create", page=web.url("/a"), goal="words")["data"]
    newest, *_ = call(service, "monitor_list")["data"]  # others are of other tests
    assert newest["id"] == made["id"]
    assert call(service, "monitor_get", id=made["id"])["data"]["name"] == "words"
    check = call(service, "monitor_run", id=made["id"])
    assert (
        call(service, "monitor_checks", id=made["id"])["data"][0]["id"] == check["id"]
    )
    found = call(service, "monitor_check", id=made["id"], checkId=check["id"])
    assert isinstance(found["pages"], list)
    changed = call(service, "monitor_update", id=made["id"], body={"status": "paused"})
    assert changed["data"]["status"] == "paused"
    call(service, "monitor_delete", id=made["id"])
    assert "error" in call(service, "monitor_get", id=made["id"])
    assert "required" in call(service, "monitor_create", name="x")
    unnamed = call(service, "monitor_create", pages=[web.url("/a"), web.url("/b")])
    assert unnamed["data"]["name"] == f"{web.url('/a')}, {web.url('/b')}"


def test_credits_and_feedback(service, web):
    assert "remainingCredits" in call(service, "credit_usage")["data"]
    assert "periods" in call(service, "credit_usage", view="historical", byApiKey=True)
    scraped = call(service, "scrape", url=web.url("/a"))["metadata"]["scrapeId"]
    found = call(
        service,
        "feedback",
        endpoint="scrape",
        jobId=scraped,
        rating="bad",
        note="short",
    )
    assert "feedbackId" in found


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("nope", {}, "unknown tool"),
        ("scrape", {}, "'url'"),
        ("scrape", {"url": "x", "foo": 1}, "'foo'"),
        ("scrape", {"url": "ftp://x"}, "url"),
        ("scrape", {"url": "https://x.example", "waitFor": "long"}, "waitFor"),
        ("scrape", {"url": "https://x.example", "maxTokens": 0}, "maxTokens"),
        ("scrape", {"url": "https://x.example", "maxTokens": 10**9}, "maxTokens"),
        ("scrape", {"url": "https://x.example", "cursor": "?"}, "cursor"),
        ("scrape", {"url": "https://x.example", "cursor": "bnVsbA"}, "cursor"),
        ("scrape", {"url": "https://x.example", "jsonOptions": "x"}, "jsonOptions"),
        ("crawl", {"url": "https://x.example", "waitSeconds": 51}, "waitSeconds"),
        ("credit_usage", {"view": "all"}, "view"),
        ("check_crawl_status", {"id": "../team"}, "id"),
        (
            "map",
            {"url": "https://x.example", "limit": 0},
            "^limit must be >= 1, got 0$",
        ),
        ("scrape", {"url": "https://x.example", "formats": ["x"]}, r"^formats\.0 must"),
        ("scrape", {"url": "garden"}, "^url: URL must have .* got 'garden'$"),
    ],
)
def test_bad_arguments_are_named(service, tool, arguments, named):
    assert re.search(named, call(service, tool, **arguments))


def test_a_cursor_belongs_to_its_tool_and_its_team(start_service, web):
    service = start_service(SCRAPER_API_KEYS="test-key,other-key")
    found = call(service, "map", url=web.url("/many"), sitemap="skip", maxTokens=300)
    message = call(service, "search", query="x", cursor=found["nextCursor"])
    assert "firecrawl_map" in message
    arguments = {"url": "x", "cursor": found["nextCursor"]}
    params = {"name": "firecrawl_map", "arguments": arguments}
    foreign = ask(service, "tools/call", params, key="other-key").json
    assert "expired" in foreign["error"]["message"]


@pytest.mark.parametrize(
    ("tool", "arguments", "step"),
    [
        ("scrape", {"url": "http://nosuch.invalid/"}, "Check the URL"),
        ("check_crawl_status", {"id": UNKNOWN}, "Check the id"),
        ("check_crawl_status", {"id": "abc"}, "Correct the arguments"),
        ("parse", {"filePath": "a.zip", "contentType": "x/y"}, "Correct the arguments"),
    ],
)
def test_a_failed_tool_call_names_the_next_step(service, tool, arguments, step):
    found = call(service, tool, **arguments)
    keys = {"error", "next"} | ({"code"} if step != "Check the id" else set())
    assert found.keys() == keys
    assert found["next"].startswith(step)


# -- the official client ----------------------------------------------------------------


def with_client(service, mode, work):
    """Run ``work`` with a connected client of the official SDK."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def run():
        headers = {"Authorization": f"Bearer {service.key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{service.url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                return await work(client)

    return asyncio.run(run())


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_the_official_client_lists_calls_and_hears_of_progress(service, web, mode):
    heard = []

    async def note(progress, total, message):
        heard.append((progress, total, message))

    async def work(client):
        tools = await client.list_tools()
        scraped = await client.call_tool("firecrawl_scrape", {"url": web.url("/a")})
        arguments = {"url": web.url("/"), "limit": 3}
        crawled = await client.call_tool(
            "firecrawl_crawl", arguments, progress_callback=note
        )
        return tools.tools, scraped, crawled

    tools, scraped, crawled = with_client(service, mode, work)
    assert "firecrawl_scrape" in [tool.name for tool in tools]
    assert not scraped.is_error
    assert "A page of words" in scraped.content[0].text
    assert json.loads(crawled.content[0].text)["status"] == "completed"
    assert heard
    assert all(total for _, total, _ in heard)


def test_a_call_of_the_official_client_can_be_cancelled(service, web):
    async def work(client):
        arguments = {"url": web.url("/slow"), "maxAge": 0}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.call_tool("firecrawl_scrape", arguments)
        return await client.call_tool("firecrawl_scrape", {"url": web.url("/b")})

    assert not with_client(service, "auto", work).is_error


# -- the budget -------------------------------------------------------------------------

VALUES = st.recursive(
    st.text(max_size=400) | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
PAGES = st.fixed_dictionaries(
    {"markdown": st.text('ab .\n#日"\\', max_size=4000)},
    optional={"html": st.text(max_size=800), "json": VALUES},
)


def read_all(body, key, size):
    """Return all answers to a reader who follows the cursors."""
    index, path, found = 0, (), []
    while index is not None:
        fitted = fit(
            AnswerPart(
                body=body,
                shape="bare",
                key=key,
                first=0,
                index=index,
                path=path,
                max_tokens=size,
                slim=False,
            )
        )
        assert count_tokens(fitted.text) <= size
        found.append(json.loads(fitted.text))
        index, path = fitted.index, tuple(map(tuple, fitted.path))
        assert len(found) < 2000
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(PAGES, max_size=5), st.integers(200, 1200))
def test_no_tool_result_is_too_large_and_no_markdown_is_lost(pages, size):
    body = json.dumps({"success": True, "data": pages}).encode()
    found = read_all(body, "data", size)
    texts = [item.get("markdown") or "" for answer in found for item in answer["data"]]
    assert bare("".join(texts)) == bare("".join(page["markdown"] for page in pages))


@settings(max_examples=60, deadline=None)
@given(VALUES, st.integers(200, 600))
def test_data_of_any_form_come_whole(value, size):
    body = json.dumps({"success": True, "data": value}).encode()
    found = read_all(body, None, size)
    if len(found) == 1 and "part" not in found[0]:
        assert found[0]["data"] == value
    else:
        text = "".join(answer["part"] for answer in found)
        assert bare(text) == bare(json.dumps({"data": value}, ensure_ascii=False))


# -- bad arguments and cursors -------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "part"),
    [
        ("scrape", {"url": "http://a.example", "formats": True}, "formats must be of"),
        ("monitor_create", {"pages": True}, "pages must be of the type array"),
        ("monitor_create", {"body": "x"}, "body must be of the type object"),
        ("monitor_update", {"id": "x", "body": 1}, "body must be of the type object"),
        ("monitor_list", {"offset": "x"}, "offset must be of the type integer"),
        ("monitor_check", {"id": "x", "checkId": "y", "skip": "x"}, "skip must be of"),
        ("credit_usage", {"view": [[]]}, "view must be of the type string"),
        ("crawl", {"url": "http://a.example", "webhookHeaders": {}}, "needs webhook"),
        ("monitor_create", {"page": "x", "includeDiffs": True}, "needs email"),
        ("monitor_create", {"page": "x", "maxResults": 3}, "need queries"),
    ],
)
def test_an_argument_of_another_type_is_named(service, tool, arguments, part):
    assert part in call(service, tool, **arguments)


def test_a_cursor_that_was_changed_is_refused(service, web):
    cursor = call(service, "scrape", url=web.url("/long"), maxTokens=400)["nextCursor"]
    text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    forged = base64.urlsafe_b64encode(text.replace(b'"i":0', b'"i":1')).decode()
    assert forged.rstrip("=") != cursor
    said = call(service, "scrape", url="ignored", cursor=forged)
    assert said == "cursor must be the nextCursor of an earlier answer"


def test_a_number_without_end_is_no_json(service):
    reply = send(service, None, raw=b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}')
    assert (reply.status, reply.json["error"]["code"]) == (400, -32700)


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://evil.example:80", 403), ("http://127.0.0.1:80", 200)],
)
def test_an_origin_with_a_host_name_is_refused_if_keys_are_off(
    start_service, origin, status
):
    service = start_service(SCRAPER_AUTH_ENABLED="false")
    headers = {"Origin": origin, "Host": urlsplit(origin).netloc}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert send(service, ping, headers=headers, key=None).status == status


def test_agents_are_offered_with_a_model(service, clever, chat, web):
    names = {"firecrawl_agent", "firecrawl_agent_status"}
    for running, offered in ((service, set()), (clever, names)):
        tools = ask(running, "tools/list").json["result"]["tools"]
        assert {tool["name"] for tool in tools} & names == offered
    url = web.url("/a")
    actions = [{"action": "scrape", "urls": [url]}, {"action": "extract"}]
    by_text = {"Choose the action": {"answers": actions}, "Write the answer": "So [1]."}
    chat.behave(answer={"by_text": by_text})
    started = call(clever, "agent", prompt="the title", urls=[url], effort="low")
    assert started.keys() == {"id", "answer"}
    status = {}

    def is_over():
        status.update(call(clever, "agent_status", id=started["id"]))
        return status["status"] == "completed"

    wait_until(is_over)
    assert status["data"]["answer"] == "So [1]."
    assert "has no argument 'mode'" in call(clever, "agent", prompt="x", mode="chat")
