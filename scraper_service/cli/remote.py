"""A running service, asked over its HTTP API with the user's own key.

The address is that of the user, not of a page: it may be anywhere, also on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from typing import TYPE_CHECKING, Any, Self

import aiohttp
import click

from scraper_service.cli.job_state import Failure, Status
from scraper_service.cli.reading import spelled
from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from types import TracebackType

CONNECT_S = 10
ANSWER_S = 330  # a scrape may take 300
RETRY_S = (1, 2, 4, 8, 15)  # before each further attempt at reading
MAX_WAIT_S = 60  # of a Retry-After
COUNT_S = 2.0  # between two looks at what the status does not tell
PAGES = 250  # in one answer


class RemoteError(Exception):
    """A service did not do what was asked; the text is a sentence.

    ``status`` is that of the answer, 0 for none.
    """

    def __init__(self, text: str, status: int = 0):
        self.status = status
        super().__init__(printable(text))


class Remote:
    """A client of a service; use as an asynchronous context manager."""

    def __init__(self, server: str, key: str):
        server = server if "://" in server else f"http://{server}"
        if not server.startswith(("http://", "https://")):
            raise click.UsageError(
                f"--server: must be an http or https address, got {server!r}"
            )
        self.address = server.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S, sock_read=ANSWER_S
        )
        self._session = aiohttp.ClientSession(
            headers=self._headers, timeout=timeout, trust_env=True
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(self, path: str) -> dict[str, Any]:
        """Return the answer to a GET; tried again while the service is away."""
        waits = iter(RETRY_S)
        while True:
            try:
                return await self.call("GET", path)
            except RemoteError as error:
                wait_s = next(waits, None)
                if wait_s is None or error.status not in {0, 429, 502, 503, 504}:
                    raise
            await asyncio.sleep(wait_s)

    async def send_file(self, name: str, data: bytes, options: Any) -> dict[str, Any]:
        """Return what ``POST /v2/parse`` makes of a file; see :meth:`call`."""
        form = aiohttp.FormData()
        form.add_field("file", data, filename=name)
        form.add_field("options", json.dumps(options))
        return await self.call("POST", "/v2/parse", form=form)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        form: aiohttp.FormData | None = None,
    ) -> dict[str, Any]:
        """Return the JSON object of an answer of 2xx; raise :exc:`RemoteError`."""
        assert self._session is not None
        headers = {} if body is None else {"x-idempotency-key": str(uuid.uuid4())}
        try:
            async with self._session.request(
                method,
                f"{self.address}{path}",
                json=body,
                data=form,
                headers=headers,
                allow_redirects=False,  # the key is for this address only
            ) as response:
                status, text = response.status, await response.read()
        except TimeoutError as error:
            raise RemoteError(f"{self.address} does not answer") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RemoteError(
                f"cannot reach {self.address}: {_reason(error)}"
            ) from error
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise RemoteError(
                f"{self.address} does not answer as a service (status {status})", status
            )
        if not 200 <= status < 300:
            raise RemoteError(self._refusal(status, found), status)
        if found.get("success") is False:  # 200 with it: the name does not resolve
            code = f" ({found['code']})" if found.get("code") else ""
            raise RemoteError(f"{self._refusal(status, found)}{code}", status)
        return found

    def _refusal(self, status: int, found: dict[str, Any]) -> str:
        text = str(found.get("error") or f"status {status}")
        if status == 401:
            return f"{self.address}: {text}; give a valid key: --key or SCRAPER_KEY"
        details = found.get("details")
        if status == 400 and isinstance(details, list) and details:
            faults = [
                spelled(tuple(d.get("path", ())), str(d.get("message", "")))
                for d in details
                if isinstance(d, dict)
            ]
            return "; ".join(faults) or text
        return text


class RemoteSource:
    """A job of a service, as :class:`~scraper_service.cli.follow.Source`."""

    poll_s = 1.0

    def __init__(self, remote: Remote, job_id: str):
        self._remote = remote
        self.job_id = job_id
        self._path = f"/v2/crawl/{job_id}"
        self._tells_more = True
        self._failed: int | None = None
        self._pending: int | None = None
        self._reasons: dict[str, int] = {}
        self._next = 0.0

    async def poll(self, skip: int) -> tuple[Status, list[bytes]]:
        found = await self._remote.get(f"{self._path}?skip={skip}&limit={PAGES}")
        state = str(found.get("status"))
        await self._count(is_last=state != "scraping")
        status = Status(
            state=state,
            total=int(found.get("total") or 0),
            pages=int(found.get("completed") or 0),
            failed=self._failed,
            pending=self._pending,
            warning=found.get("warning"),
            error=found.get("error"),
        )
        return status, [_line(page) for page in found.get("data") or ()]

    async def _count(self, *, is_last: bool) -> None:
        """Look at the report of the job; services of others have none."""
        if not self._tells_more or (time.monotonic() < self._next and not is_last):
            return
        self._next = time.monotonic() + COUNT_S
        try:
            report = await self._remote.call("GET", f"{self._path}/report")
        except RemoteError as error:
            self._tells_more = error.status not in {404, 405}
            return
        states = report.get("addresses") or {}
        self._failed = states.get("failed")
        self._reasons = report.get("reasons") or {}
        self._pending = states.get("pending", 0) + states.get("leased", 0)

    async def current(self) -> str | None:
        if not self._tells_more:
            return None
        try:
            path = f"{self._path}/urls?state=leased&limit=1"
            urls = (await self._remote.call("GET", path)).get("urls") or [{}]
        except RemoteError:
            return None
        url = urls[0].get("url")
        return None if url is None else str(url)

    async def left_out(self) -> dict[str, int]:
        return self._reasons

    async def failures(self) -> list[Failure]:
        found = await self._remote.get(f"{self._path}/errors")
        failures = [
            Failure(str(e["url"]), str(e.get("code") or "ERROR"), str(e["error"]))
            for e in found.get("errors") or ()
        ]
        if not (await self._remote.get(f"{self._path}?limit=1")).get("completed"):
            refused = found.get("robotsBlocked") or ()
            failures += [Failure.of_robots(str(url)) for url in refused]
        return failures


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        if number > 0:
            return os.strerror(number)
        return error.os_error.strerror or str(error.os_error)  # of the resolver
    return str(error) or type(error).__name__


def _line(page: Any) -> bytes:
    return json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )
