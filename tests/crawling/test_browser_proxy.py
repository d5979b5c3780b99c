"""The proxy between the browser and the network, with an event loop of uvloop."""

from __future__ import annotations

import asyncio
import socket
import struct

from scraper_service.crawling.browser.proxy import Passage
from scraper_service.crawling.download.event_loop import EventLoop
from scraper_service.crawling.egress import EgressPolicy


class LatePassage(Passage):
    """A proxy that finds out that a host is not reached when the browser has gone."""

    def __init__(self, policy):
        super().__init__(policy)
        self.is_asked, self.has_gone = asyncio.Event(), asyncio.Event()

    async def _reach(self, host, port, *, tunnel):
        self.is_asked.set()
        await self.has_gone.wait()
        while not self.writers[0].transport.is_closing():  # noqa: ASYNC110  # no event
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the loop closes it in a later turn
        raise OSError("no such host")

    async def _serve(self, reader, writer):
        self.writers = [writer]
        await super()._serve(reader, writer)


def test_a_browser_that_has_gone_is_no_error_of_the_service(caplog):
    caplog.set_level("ERROR")

    async def visit():
        async with LatePassage(EgressPolicy()) as passage:
            port = int(passage.address.rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port)) as browser:
                browser.sendall(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
                await passage.is_asked.wait()
                at_once = struct.pack("ii", 1, 0)
                browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            passage.has_gone.set()
            await asyncio.gather(*passage._tasks)

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(visit())
    assert caplog.text == ""
