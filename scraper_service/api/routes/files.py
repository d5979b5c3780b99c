"""Files of pages, such as screenshots, by signed URLs without an API key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from twisted.web.server import NOT_DONE_YET

from scraper_service.api.errors import answer_to, not_found, refused_method
from scraper_service.api.openapi.described import Described, RootResource
from scraper_service.api.openapi.shapes import TEXT
from scraper_service.api.parameters import PathParameter, TextParameter
from scraper_service.api.responses import encode
from scraper_service.errors import ServiceUnavailable
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.files import artefacts
from scraper_service.storage.files.artefacts import KINDS

if TYPE_CHECKING:
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
        (
            "GET",
            "/artefacts/<name>",
            Described(
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
        ),
    )

    def __init__(self, files: Artefacts, database: Database):
        super().__init__()
        self._files = files
        self._database = database
        self._tasks = BackgroundTasks()

    def render(self, request: Request) -> bytes | int:
        if (refusal := refused_method(request)) is not None:
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
            path = self._files.path(name)
            data = await asyncio.to_thread(path.read_bytes) if is_readable else None
        except (OSError, ValueError):
            data = None
        except ServiceUnavailable as error:
            if not gone.called:
                answer = answer_to(error, str)
                request.setResponseCode(answer.status)
                request.write(encode(answer.members))
                request.finish()
            return
        if gone.called:
            return
        if data is None:
            request.write(not_found(request))
        else:
            request.setHeader(b"Content-Type", KINDS[name.rpartition(".")[2]].encode())
            request.setHeader(b"Content-Length", b"%d" % len(data))
            for key, value in HEADERS.items():
                request.setHeader(key.encode(), value.encode())
            if request.method == b"GET":
                request.write(data)
        request.finish()
