"""The event loop resolves names in threads."""

import asyncio
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from scraper_service.crawling.download.event_loop import EventLoop
from tests.support.waiting import WAIT_S

SLOW = 16  # libuv would resolve two names at a time


@pytest.fixture
def loop():
    loop = EventLoop()
    loop.set_default_executor(ThreadPoolExecutor(SLOW + 1))
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def test_host_names_that_do_not_resolve_delay_no_other_name(loop, monkeypatch):
    go_on, real = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host, *arguments, **options):
        if host.endswith(".slow.example"):
            go_on.wait(30)
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return real(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def run():
        slow = [
            asyncio.create_task(loop.getaddrinfo(f"n{n}.slow.example", 80))
            for n in range(SLOW)
        ]
        found = await loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
        assert not any(task.done() for task in slow)
        go_on.set()
        errors = await asyncio.gather(*slow, return_exceptions=True)
        assert all(isinstance(error, socket.gaierror) for error in errors)
        return found

    family, kind, *_, address = loop.run_until_complete(run())[0]
    assert (family, kind, address) == (
        socket.AF_INET,
        socket.SOCK_STREAM,
        ("127.0.0.1", 80),
    )


def test_the_event_loop_of_asyncio_is_used_without_uvloop():
    code = (
        "import asyncio, sys; sys.modules['uvloop'] = None\n"
        "from scraper_service.crawling.download.event_loop import EventLoop\n"
        "assert issubclass(EventLoop, asyncio.SelectorEventLoop)\n"
        "async def run():\n"
        "    server = await asyncio.start_server(lambda r, w: w.write(b'x'), '127.0.0.1')\n"
        "    port = server.sockets[0].getsockname()[1]\n"
        "    reader, writer = await asyncio.open_connection('localhost', port)\n"
        "    assert await reader.readexactly(1) == b'x'\n"
        "    writer.close()\n"
        "with asyncio.Runner(loop_factory=EventLoop) as runner:\n"
        "    runner.run(run())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=WAIT_S)
