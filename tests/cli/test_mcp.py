"""`scraper-service mcp`: the tools over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import command
from tests.cli.command import COMMAND, Command, environment
from tests.support.scripted_site import ScriptedSite, page, slow
from tests.support.waiting import WAIT_S, wait_until

SITE = {"/": page(title="A page"), "/slow": slow(page(), 30)}


@pytest.fixture(scope="module")
def web():
    with ScriptedSite(SITE) as found:
        yield found


def with_client(folder, arguments, mode, work):
    """Run ``work`` with the official client and the command as its server."""
    from mcp import Client, StdioServerParameters, stdio_client

    async def run():
        server = StdioServerParameters(
            command=COMMAND[0],
            args=[*COMMAND[1:], "mcp", *arguments],
            env=environment(),
            cwd=folder,
        )
        async with Client(stdio_client(server), mode=mode) as client:
            return await work(client)

    return asyncio.run(run())


def text_of(result):
    return json.loads(result.content[0].text)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_running_service_is_used(service, web, tmp_path, mode):
    arguments = ("--server", service.url, "--key", service.key)

    async def work(client):
        tools = await client.list_tools()
        found = await client.call_tool("firecrawl_scrape", {"url": web.url("/")})
        return tools.tools, found

    tools, found = with_client(tmp_path, arguments, mode, work)
    assert "firecrawl_map" in [tool.name for tool in tools]
    assert text_of(found)["metadata"]["title"] == "A page"
    assert list(tmp_path.iterdir()) == []


def test_mcp_starts_a_service_of_its_own_and_ends_it(web, tmp_path):
    async def work(client):
        return await client.call_tool("firecrawl_scrape", {"url": web.url("/")})

    assert (
        text_of(with_client(tmp_path, (), "auto", work))["metadata"]["title"]
        == "A page"
    )
    assert (tmp_path / "data" / "jobs.sqlite").exists()
    wait_until(lambda: not services_in(tmp_path))


def services_in(folder):
    """Return the services whose working directory is ``folder``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"serve" in words and (process / "cwd").resolve() == folder:
                found.append(int(process.name))
        except OSError:
            continue
    return found


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the end by a kill is of Linux")
def test_the_service_of_a_killed_mcp_command_ends(tmp_path):
    with Command(tmp_path, "mcp") as process:
        ask(process, "ping")
        assert services_in(tmp_path)
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not services_in(tmp_path))


def ask(process, method, **params):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    process.stdin.write(f"{json.dumps(message)}\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def run(folder, lines, *arguments):
    stdin = "".join(f"{line}\n" for line in lines)
    return command.run(folder, "mcp", *arguments, stdin=stdin)


def test_errors_are_json_rpc_responses(service, tmp_path):
    ping = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping"})
    done = run(tmp_path, ["{", ping], "--server", service.url, "--key", "wrong")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["error"]["code"] for each in answers if each["id"] == 5] == [-32603]
    assert "(status 401); give a valid key: --key or SCRAPER_KEY" in done.stdout
    done = run(tmp_path, ["{"], "--server", service.url, "--key", service.key)
    assert json.loads(done.stdout)["error"]["code"] == -32700
    done = run(tmp_path, [ping], "--server", "http://127.0.0.1:9")
    assert "cannot reach" in json.loads(done.stdout)["error"]["message"]
    assert done.returncode == 0


@pytest.mark.full
def test_a_message_of_over_10_mib_is_refused_and_others_go_on(service, tmp_path):
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    sent = json.dumps(ping).encode()
    long = b'"' + b"x" * (10 * 2**20) + b'"'
    done = subprocess.run(
        [*COMMAND, "mcp", "--server", service.url, "--key", service.key],
        input=b"\n".join([long, b"[" * 100_000, sent, long]),
        stdout=subprocess.PIPE,
        env=environment(),
        cwd=tmp_path,
        timeout=WAIT_S,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    refused = [each["error"] for each in found if each["id"] is None]
    assert sorted(each["code"] for each in refused) == [-32700, -32600, -32600]
    texts = [each["message"] for each in refused]
    assert sum("at most 10485760 bytes" in text for text in texts) == 2
    assert [each["result"] for each in found if each["id"] == 1] == [{}]


def test_a_cancelled_call_ends_and_others_go_on(service, web, tmp_path):
    call = {"name": "firecrawl_scrape", "arguments": {"url": web.url("/slow")}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 1},
        },
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
    ]
    arguments = ("--server", service.url, "--key", service.key)
    done = run(tmp_path, map(json.dumps, lines), *arguments)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [2]


@pytest.mark.full
def test_ctrl_c_ends_the_mcp_command(tmp_path):
    with Command(tmp_path, "mcp") as process:
        ask(process, "ping")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(WAIT_S) == 130
    wait_until(lambda: not services_in(tmp_path))
