"""Pictures of the page of a session, one after the other in one response.

A browser shows ``multipart/x-mixed-replace`` in an ``<img>``, so the view needs no script.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from scraper_service.api.streams.streaming import Stream

if TYPE_CHECKING:
    from scraper_service.api.version import Api
    from scraper_service.services.browser_sessions.running_session import (
        RunningSession,
    )

BOUNDARY = "picture"
REST_S = 1.0  # between two pictures
BEAT_S = 15.0  # after which a picture is sent again
#: The view: no scripts, and nothing from elsewhere.
PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Browser session</title>'
    '<img alt="The page of the session" width="100%" src="view/pictures?token={}">'
)
PAGE_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; frame-ancestors *",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class PictureStream(Stream):
    """The pictures of a session, until it ends."""

    def __init__(self, api: Api, session: RunningSession):
        super().__init__(
            api.watchers.sessions,
            api.checks,
            api.urls,
            session.record.id,
            session.team,
        )
        self._session = session
        self._last = b""

    def render(self, request: Any) -> Any:
        kind = f"multipart/x-mixed-replace; boundary={BOUNDARY}"
        request.setHeader("Content-Type", kind)
        request.setHeader("Cache-Control", "no-store")
        request.setHeader("X-Accel-Buffering", "no")  # off in nginx
        return b"" if request.method == b"HEAD" else super().render(request)

    def open(self) -> None:
        self.request.write(b"--%s\r\n" % BOUNDARY.encode())

    async def tell(self) -> None:
        rests = 0.0
        while not self._session.ending.is_set():
            picture = await self._session.picture()
            if picture and (picture != self._last or rests >= BEAT_S):
                self._last, rests = picture, 0.0
                await self.valve.wait()
                self.beat()
            rests += REST_S
            await asyncio.sleep(REST_S)
        await self.goodbye()

    async def fail(self, error: Exception) -> None:
        await self.goodbye()

    async def goodbye(self) -> None:
        await self.valve.wait()
        self.request.unregisterProducer()
        self.request.finish()

    def beat(self) -> None:
        """Write the last picture."""
        head = f"Content-Type: image/jpeg\r\nContent-Length: {len(self._last)}\r\n\r\n"
        self.request.write(head.encode() + self._last)
        self.request.write(b"\r\n--%s\r\n" % BOUNDARY.encode())
