"""`mcp`: the tools for agents over standard input and output.

Each line is a message of the Model Context Protocol. It is sent to ``/mcp`` of a service: a
running one, or one that the command starts and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Self

import click

from scraper_service.cli.clients import Where, takes_service

if TYPE_CHECKING:
    from collections.abc import Iterator

START_S = 60  # for a service of our own
END_S = 15
READ_BYTES = 2**16
ANSWER_S = 330  # a scrape may take 300
MAX_LINE_BYTES = 10 * 2**20  # of a body of the service, too
TOO_LONG = b"too long"
LISTENING = "listening on "
INVALID_REQUEST, INTERNAL_ERROR = -32600, -32603
VERSION_META = "io.modelcontextprotocol/protocolVersion"


@click.command("mcp")
@takes_service
def mcp_command(where: Where) -> None:
    """Serve the tools for agents (MCP) on standard input and output.

    With --server the tools are those of a running service. Without it the command starts a
    service of its own, which only it can use, and ends it at the end of the input.
    """
    try:
        if where.server is not None:
            asyncio.run(_relay(where.server, where.key))
            return
        with OwnService(where.data_dir, where.overrides) as own:
            asyncio.run(_relay(own.url, own.key))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


class OwnService:
    """A service on a free port of this machine with a secret key, ended by ``close``."""

    def __init__(self, data_dir: str | None, overrides: tuple[str, ...]):
        self.key = f"fc-{secrets.token_hex(20)}"
        command = [sys.executable, "-m", "scraper_service"]
        command += [word for pair in overrides for word in ("-s", pair)]
        command.append("serve")
        command += ["--host", "127.0.0.1", "--port", "0"]
        command += ["--data-dir", data_dir] if data_dir else []
        environment = {**os.environ, "SCRAPER_API_KEYS": self.key}
        environment.setdefault("SCRAPER_LOG_LEVEL", "WARNING")
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  # there are no threads yet
        )
        self.url = ""

    def __enter__(self) -> Self:
        timer = threading.Timer(START_S, self._process.kill)
        timer.start()
        try:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                if line.startswith(LISTENING):
                    self.url = line.removeprefix(LISTENING).strip()
                    threading.Thread(target=self._drain, daemon=True).start()
                    return self
        finally:
            timer.cancel()
        self.close()
        raise click.ClickException("the service did not start; see the lines above")

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _drain(self) -> None:
        assert self._process.stdout is not None
        for _ in self._process.stdout:  # it would stop at a full pipe
            pass

    def close(self) -> None:
        """End the service."""
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _end_with_parent() -> None:
    """Let Linux end this process when its parent is killed."""
    with contextlib.suppress(OSError, AttributeError):
        import ctypes  # in the new process only

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _lines(number: int) -> Iterator[bytes]:
    """Yield the lines of a file descriptor, :data:`TOO_LONG` for one of over 10 MiB.

    The lock of ``sys.stdin`` would keep the interpreter from its end.
    """
    held, is_too_long = b"", False
    while data := os.read(number, READ_BYTES):
        *whole, held = (held + data).split(b"\n")
        for line in whole:
            yield (
                TOO_LONG if is_too_long or len(line) > MAX_LINE_BYTES else line + b"\n"
            )
            is_too_long = False
        if len(held) > MAX_LINE_BYTES:
            held, is_too_long = b"", True
    if held or is_too_long:
        yield TOO_LONG if is_too_long else held


async def _relay(server: str, key: str) -> None:
    """Answer the messages on standard input until its end."""
    import aiohttp  # it takes a tenth of a second

    server = server if "://" in server else f"http://{server}"
    headers = {"Accept": "application/json, text/event-stream"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=ANSWER_S)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        relay = _Relay(session, f"{server.rstrip('/')}/mcp")
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            for line in _lines(sys.stdin.fileno()):
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, b"")

        threading.Thread(target=read, daemon=True).start()
        while line := await lines.get():
            if line.strip():
                relay.take(line)
        await relay.finish()


class _Relay:
    """Sends messages to a service and writes its answers as lines."""

    def __init__(self, session: Any, url: str):
        self._session = session
        self._url = url
        self._version: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[Any, asyncio.Task[None]] = {}

    def take(self, line: bytes) -> None:
        """Answer the message of a line; a cancellation ends the call that it names."""
        if line == TOO_LONG:
            text = f"a message must have at most {MAX_LINE_BYTES} bytes"
            self._write(_failure(None, text, INVALID_REQUEST), {})
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):  # the service says what is wrong
            message = None
        facts = message if isinstance(message, dict) else {}
        if facts.get("method") == "notifications/cancelled":
            params = facts.get("params")
            wanted = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(wanted, str | int) and (task := self._running.get(wanted)):
                task.cancel()
            return
        request_id = facts.get("id")
        task = asyncio.create_task(self._answer(line, facts, request_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if isinstance(request_id, str | int):
            self._running[request_id] = task
            task.add_done_callback(lambda _: self._running.pop(request_id, None))

    async def finish(self) -> None:
        """Wait for the answers of all messages."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(
        self, line: bytes, facts: dict[str, Any], request_id: Any
    ) -> None:
        import aiohttp  # as above

        headers = {"Content-Type": "application/json", **dict(self._routing(facts))}
        try:
            async with self._session.post(
                self._url, data=line, headers=headers
            ) as response:
                if response.content_type == "text/event-stream":
                    async for found in response.content:
                        if found.startswith(b"data: "):
                            self._write(found.removeprefix(b"data: "), facts)
                    return
                body = await response.read()
                if response.status == 202 or not body.strip():
                    return
                self._write(self._message(response.status, body, request_id), facts)
        except TimeoutError:
            self._fail(request_id, f"{self._url} does not answer")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._fail(request_id, f"cannot reach {self._url}: {error}")

    def _routing(self, facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the headers that say what the message says."""
        params = facts.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        version = meta.get(VERSION_META) if isinstance(meta, dict) else None
        if isinstance(version, str):
            yield "MCP-Protocol-Version", version
            yield "Mcp-Method", str(facts.get("method"))
            if facts.get("method") == "tools/call":
                yield "Mcp-Name", str(params.get("name"))
        elif self._version is not None and facts.get("method") != "initialize":
            yield "MCP-Protocol-Version", self._version

    def _message(self, status: int, body: bytes, request_id: Any) -> bytes:
        """Return an answer of the service as a message of the protocol."""
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if isinstance(found, list) or (isinstance(found, dict) and "jsonrpc" in found):
            return body
        text = found.get("error") if isinstance(found, dict) else None
        hint = "; give a valid key: --key or SCRAPER_KEY" if status == 401 else ""
        text = f"{text or 'the call failed'} (status {status}){hint}"
        return _failure(request_id, text)

    def _fail(self, request_id: Any, text: str) -> None:
        if request_id is not None:
            self._write(_failure(request_id, text), {})

    def _write(self, message: bytes, facts: dict[str, Any]) -> None:
        if facts.get("method") == "initialize":
            with contextlib.suppress(ValueError, KeyError, TypeError):
                self._version = json.loads(message)["result"]["protocolVersion"]
        sys.stdout.buffer.write(message.replace(b"\n", b" ").strip() + b"\n")
        sys.stdout.buffer.flush()


def _failure(request_id: Any, text: str, code: int = INTERNAL_ERROR) -> bytes:
    error = {"code": code, "message": text}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()
