"""Files of pages, such as screenshots, by signed URLs without an API key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.web.server import NOT_DONE_YET

from scraper_service.api.errors import answer_to, not_found, refuse_method
from scraper_service.api.openapi.route import RootResource, Route
from scraper_service.api.parameters import PathParameter, TextParameter
from scraper_service.api.schemas import TEXT, encode
from scraper_service.api.streams.streaming import Stalled, Valve
from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.artefacts import KINDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from twisted.internet.defer import Deferred
    from twisted.web.server import Request

    from scraper_service.storage.database import Database
    from scraper_service.storage.files.artefacts import Artefacts

HEADERS = {
    "Cache-Control": "private, max-age=3600",
    # A browser never runs a file as content of this origin.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


class ArtefactFiles(RootResource):
    """``/artefacts/NAME?expires=...&signature=...``."""

    isLeaf = True
    routes = (
        Route(
            "GET /artefacts/<name>",
            summary="Return a file of a page, such as a screenshot.",
            returns={},
            media=tuple(KINDS.values()),
            parameters=(
                PathParameter("name", "The name of the file.", TEXT),
                TextParameter("expires", "From the URL of the file."),
                TextParameter("signature", "From the URL of the file."),
            ),
            errors=(404, 503),
            is_own=True,
        ),
    )

    def __init__(self, files: Artefacts, database: Database, stall_s: float):
        super().__init__()
        self._files = files
        self._database = database
        self._stall_s = stall_s
        self._tasks = BackgroundTasks()

    def render(self, request: Request) -> bytes | int:
        if (refusal := refuse_method(request)) is not None:
            return refusal
        name = b"/".join(request.postpath or ()).decode("latin-1")
        query = request.uri.partition(b"?")[2].decode("latin-1")
        # The same response for unknown, expired and unsigned URLs.
        if not self._files.allows(name, query):
            return not_found(request)
        self._tasks.spawn(self._answer(request, name))
        return NOT_DONE_YET

    async def _answer(self, request: Request, name: str) -> None:
        gone = request.notifyFinish()
        gone.addErrback(lambda _: None)  # the client went away
        try:
            # The file may outlive its page, for example in the page cache.
            is_readable = await self._database.read(artefacts.is_readable, name)
            found = await self._files.get(name) if is_readable else None
        except OSError:
            found = None
        except ServiceUnavailable as error:
            if not gone.called:
                answer = answer_to(error, str)
                request.setResponseCode(answer.status)
                request.write(encode(answer.members))
                request.finish()
            return
        if gone.called:
            return
        if found is None:
            request.write(not_found(request))
            request.finish()
            return
        size, chunks = found
        request.setHeader(b"Content-Type", KINDS[name.rpartition(".")[2]].encode())
        request.setHeader(b"Content-Length", b"%d" % size)
        for key, value in HEADERS.items():
            request.setHeader(key.encode(), value.encode())
        if request.method != b"GET" or await self._send(request, chunks, gone):
            request.finish()

    async def _send(
        self, request: Request, chunks: AsyncIterator[bytes], gone: Deferred[None]
    ) -> bool:
        """Write a file as fast as the client reads. Return False for a cut connection."""
        valve = Valve(self._stall_s)
        request.registerProducer(valve, True)  # Twisted's own signature
        try:
            async for data in chunks:
                if gone.called:
                    return False
                request.write(data)
                await valve.wait()
        except (ServiceUnavailable, Stalled):
            # The client has the status: only an incomplete body says that it failed.
            if not gone.called:
                transport: Any = request.transport
                transport.abortConnection()
            return False
        finally:
            if not gone.called:
                request.unregisterProducer()
        return not gone.called
