"""Use a running service over its HTTP API: call it, follow its jobs, list them.

The user names the URL of the service, so no egress rules apply: this machine is allowed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import time
import uuid
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import click

from scraper_service.cli.follow import Follower, ShownRun, export_pages
from scraper_service.cli.options import with_flag
from scraper_service.cli.outputs import OutputFailed, ReaderGone
from scraper_service.cli.terminal import (
    READER_GONE,
    UUID_LENGTH,
    FailedUrl,
    ShownJob,
    Status,
    choose_id,
    tell_left_out,
)
from scraper_service.errors import plural, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from scraper_service.cli.options import Wanted
    from scraper_service.cli.outputs.output import Destination


CONNECT_S = 10
ANSWER_S = 330  # a scrape may take 300
RETRY_S = (1, 2, 4, 8, 15)  # before each further attempt at reading
COUNT_S = 2.0  # between two reads of the report
PART_BYTES = 256 * 2**10  # of a file, written at once
PAGES = 250  # per response


class RemoteError(Exception):
    """Raised when a call to a service fails; the text is a sentence.

    ``status`` is the HTTP status of the response, 0 without a response.
    """

    def __init__(self, text: str, status: int = 0):
        self.status = status
        super().__init__(printable(text))


class Remote:
    """An HTTP client of a service; use as an asynchronous context manager."""

    def __init__(self, server: str, key: str):
        server = server if "://" in server else f"http://{server}"
        if not server.startswith(("http://", "https://")):
            raise click.UsageError(
                f"--server: must be an http or https URL, got {server!r}"
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

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(self, path: str) -> dict[str, Any]:
        """Return the response to a GET. Retries while the service is unavailable."""
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
        """Return the response of ``POST /v2/parse`` to a file; see :meth:`call`."""
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
        """Return the JSON object of a 2xx response; raise :exc:`RemoteError`."""
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
                f"cannot reach {self.address}: {_reason(error)};"
                " check that the service runs there, and at this port"
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
        if found.get("success") is False:  # with status 200: the name does not resolve
            code = f" ({found['code']})" if found.get("code") else ""
            raise RemoteError(f"{self._refusal(status, found)}{code}", status)
        return found

    async def download(
        self, path: str, write: Callable[[bytes], None]
    ) -> dict[str, str]:
        """Pass the body of a response to ``write``; return its headers.

        Raises :exc:`RemoteError`, also for an incomplete body.
        """
        assert self._session is not None
        try:
            async with self._session.get(
                f"{self.address}{path}", allow_redirects=False
            ) as response:
                if response.status != 200:
                    found = json.loads(await response.read() or b"{}")
                    text = self._refusal(response.status, found)
                    raise RemoteError(text, response.status)
                async for part in response.content.iter_chunked(PART_BYTES):
                    await asyncio.to_thread(write, part)
                return dict(response.headers)
        except TimeoutError as error:
            raise RemoteError(f"{self.address} does not answer") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RemoteError(
                f"the file of {self.address} is incomplete: {_reason(error)}"
            ) from error

    def _refusal(self, status: int, found: dict[str, Any]) -> str:
        text = str(found.get("error") or f"status {status}")
        if status == 401:
            return f"{self.address}: {text}; give a valid key: --key or SCRAPER_KEY"
        details = found.get("details")
        if status == 400 and isinstance(details, list) and details:
            details = [
                with_flag(tuple(d.get("path", ())), str(d.get("message", "")))
                for d in details
                if isinstance(d, dict)
            ]
            return "; ".join(details) or text
        return text


class RemoteSource:
    """A :class:`~scraper_service.cli.follow.JobSource` for a job of a service."""

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
        if not self._tells_more or (time.monotonic() < self._next and not is_last):
            return
        self._next = time.monotonic() + COUNT_S
        if (report := await self._report()) is None:
            return
        states = report.get("addresses") or {}
        self._failed = states.get("failed")
        self._reasons = report.get("reasons") or {}
        self._pending = states.get("pending", 0) + states.get("leased", 0)

    async def _report(self) -> dict[str, Any] | None:
        """Return the report of the job. Other compatible services have no report."""
        try:
            return await self._remote.call("GET", f"{self._path}/report")
        except RemoteError as error:
            self._tells_more = error.status not in {404, 405}
            return None

    async def stats(self) -> dict[str, float]:
        """Return the Scrapy stats of the job."""
        return (await self._report() or {}).get("stats") or {}

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

    async def count_left_out(self) -> dict[str, int]:
        return self._reasons

    async def robots_blocked(self) -> list[str]:
        """Return the URLs that robots.txt refuses."""
        found = await self._remote.get(f"{self._path}/errors")
        return [str(url) for url in found.get("robotsBlocked") or ()]

    async def failures(self) -> list[FailedUrl]:
        found = await self._remote.get(f"{self._path}/errors")
        failures = [
            FailedUrl(str(e["url"]), str(e.get("code") or "ERROR"), str(e["error"]))
            for e in found.get("errors") or ()
        ]
        if not (await self._remote.get(f"{self._path}?limit=1")).get("completed"):
            refused = found.get("robotsBlocked") or ()
            failures += [FailedUrl.of_robots(str(url)) for url in refused]
        return failures


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        if number > 0:
            return os.strerror(number)
        return error.os_error.strerror or str(
            error.os_error
        )  # an error of the resolver
    return str(error) or type(error).__name__


def _line(page: Any) -> bytes:
    return json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


T = TypeVar("T")
PATHS = {"crawl": "/v2/crawl", "batch": "/v2/batch/scrape"}
KINDS = {"crawl": "crawl", "batch_scrape": "batch"}  # as in a job database
MOST_RECENT = 100  # jobs among which a prefix is looked up
USUAL_JOBS = 20  # in a list


class RemoteClient:
    """Lets a running service do the work of commands, see :mod:`scraper_service.cli.clients`."""

    def __init__(self, server: str, key: str):
        self.server = server
        self._key = key

    def call(self, work: Callable[[Remote], Awaitable[T]]) -> T:
        """Run ``work`` with a connection to the service, and return its result.

        Raises :exc:`click.ClickException`.
        """
        remote = Remote(self.server, self._key)

        async def run() -> T:
            async with remote:
                return await work(remote)

        try:
            return asyncio.run(run())
        except RemoteError as error:
            if error.status == 400:
                raise click.UsageError(str(error)) from error
            raise click.ClickException(str(error)) from error

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        return self.call(lambda remote: remote.call(method, path, body))

    # -- pages

    def scrape(self, body: dict[str, Any]) -> dict[str, Any]:
        return self._call("POST", "/v2/scrape", body).get("data") or {}

    def parse(self, name: str, data: bytes, body: dict[str, Any]) -> dict[str, Any]:
        found = self.call(lambda remote: remote.send_file(name, data, body))
        return found.get("data") or {}

    def map(self, body: dict[str, Any]) -> tuple[list[dict[str, str]], list[str]]:
        found = self._call("POST", "/v2/map", body)
        return found.get("links") or [], _warnings(found)

    def search(self, body: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
        found = self._call("POST", "/v2/search", body)
        groups = (found.get("data") or {}).items()
        results = [{"source": kind, **item} for kind, items in groups for item in items]
        return results, _warnings(found)

    # -- jobs

    def start(self, kind: str, body: dict[str, Any]) -> str:
        """Start a job that goes on without the command; return its id."""
        return self.call(lambda remote: start(remote, kind, body))

    def run(
        self, kind: str, body: dict[str, Any], target: Destination, *, quiet: bool
    ) -> int:
        return RemoteRun(self, target, quiet=quiet).run((kind, body))

    def newest(self, most: int | None) -> list[dict[str, Any]]:
        """Return crawls and batches with their counts, the newest first."""
        kinds = ",".join(KINDS)
        query = urlencode({"kind": kinds, "limit": most or USUAL_JOBS}, safe=",")
        found = self._call("GET", f"/v2/jobs?{query}")
        return [_row(each) for each in found.get("jobs") or ()]

    def find(self, text: str) -> str:
        """Return the full id of a job. ``text`` is an id, a prefix or ``last``."""
        if len(text) == UUID_LENGTH:
            return text
        return choose_id(text, [row["id"] for row in self.newest(MOST_RECENT)])

    def show(self, job_id: str) -> ShownJob:
        async def read(remote: Remote) -> ShownJob:
            source = RemoteSource(remote, job_id)
            facts = _row((await remote.call("GET", f"/v2/jobs/{job_id}"))["data"])
            failures, refused = await source.failures(), await source.robots_blocked()
            return ShownJob(facts, failures, refused, await source.stats())

        return self.call(read)

    def log(self, text: str) -> NoReturn:
        raise click.UsageError(
            "a service does not give the log of a job: use the command where its job"
            " database is, without --server and SCRAPER_SERVER"
        )

    def cancel(self, job_id: str) -> None:
        self._call("DELETE", f"/v2/crawl/{job_id}")

    def pause(self, job_id: str) -> None:
        self._call("PATCH", f"/v2/crawl/{job_id}", {"paused": True})

    def retry(self, job_id: str, codes: tuple[str, ...]) -> tuple[int, str | None]:
        """Return the number of pages that are fetched again, and a warning."""
        body = {"codes": list(codes)} if codes else {}
        found = self._call("POST", f"/v2/crawl/{job_id}/retry", body)
        return found["retried"], found.get("warning")

    def reprocess(self, job_id: str, body: dict[str, Any]) -> tuple[str, int]:
        """Start a job of the stored pages of another one. Return its id and their number."""

        async def make(remote: Remote) -> tuple[str, int]:
            path = f"/v2/crawl/{job_id}/reprocess"
            made = str((await remote.call("POST", path, body))["id"])
            status = await remote.call("GET", f"/v2/crawl/{made}?limit=1")
            return made, status["total"]

        return self.call(make)

    def resume(self, job_id: str, wanted: Wanted) -> int:
        """Let a job go on if it is paused, and follow it to its end."""

        async def resume(remote: Remote) -> None:
            status, _ = await RemoteSource(remote, job_id).poll(0)
            if status.state != "scraping":
                return
            try:
                await remote.call("PATCH", f"/v2/crawl/{job_id}", {"paused": False})
            except RemoteError as error:
                if error.status != 409:  # it has ended meanwhile
                    raise

        run = RemoteRun(self, wanted.destination(), quiet=wanted.quiet)
        self.call(resume)
        return run.run(job_id)

    def export(self, job_id: str, target: Destination, *, quiet: bool) -> int:
        run = RemoteRun(self, target, quiet=quiet)
        return run.download(job_id) if target.is_archive else run.export(job_id)


def _warnings(answer: dict[str, Any]) -> list[str]:
    """Return the warnings in a response of a service."""
    return [str(answer["warning"])] if answer.get("warning") else []


async def start(remote: Remote, kind: str, body: dict[str, Any]) -> str:
    """Start a job and return its id. Prints the URLs that are left out."""
    found = await remote.call("POST", PATHS[kind], body)
    tell_left_out(found.get("invalidURLs") or ())
    return str(found["id"])


class RemoteRun(ShownRun):
    """Follows a new or a known job of a service, and writes its pages.

    An interruption cancels a new job. A known job continues at the service.
    """

    def __init__(self, client: RemoteClient, target: Destination, *, quiet: bool):
        super().__init__(quiet=quiet)
        self._client = client
        self._target = target

    def run(self, work: str | tuple[str, dict[str, Any]]) -> int:
        """Return the exit code; raise :exc:`click.ClickException`.

        ``work`` are kind and body of a new job, or the id of a known one.
        """

        async def follow(remote: Remote) -> int:
            if is_known := isinstance(work, str):
                await remote.get(f"/v2/crawl/{work}?limit=1")  # check that it exists
            output = self._target.output()
            output.open()  # before the job is created
            self._listen()
            job_id = work if isinstance(work, str) else await start(remote, *work)
            return await self._follow(remote, job_id, output, is_new=not is_known)

        return self._run(follow)

    def export(self, job_id: str) -> int:
        """Write the pages that a job has so far; return the exit code."""

        async def work(remote: Remote) -> int:
            source = RemoteSource(remote, job_id)
            status, written = await export_pages(source, self._target.output())
            text = f"{plural(written, 'page')} of a job that is {status.state}"
            self._progress.say(text)
            return 0

        return self._run(work)

    def download(self, job_id: str) -> int:
        """Write the file of an export of the service; return the exit code."""

        async def work(remote: Remote) -> int:
            output = self._target.copied_file()
            output.open()
            path = f"/v2/crawl/{job_id}/export?format={self._target.format}"
            headers = await remote.download(path, output.copy)
            output.close(None)
            count = int(headers.get("X-Total-Pages") or 0)
            state = headers.get("X-Job-Status")
            self._progress.say(f"{plural(count, 'page')} of a job that is {state}")
            return 0

        return self._run(work)

    def _run(self, work: Callable[[Remote], Awaitable[int]]) -> int:
        try:
            return self._client.call(work)
        except OutputFailed as error:
            raise click.ClickException(str(error)) from error
        except ReaderGone:
            return READER_GONE
        finally:
            self._progress.stop()

    async def _follow(
        self, remote: Remote, job_id: str, output: Any, *, is_new: bool
    ) -> int:
        target = self._target
        self._show(target)
        follower = Follower(RemoteSource(remote, job_id), output, self._progress)
        again = self._command("resume" if not is_new else "export", job_id)
        try:
            status = await follower.follow(self._stopped)
            if self._stopped.is_set() and status.is_active and is_new:
                status = await self._cancel(remote, job_id, follower)
            ending = await follower.close(status)
        except RemoteError as error:
            text = (
                f"{error}; the job may go on there: {self._command('resume', job_id)}"
            )
            raise RemoteError(text, error.status) from error
        except (OutputFailed, ReaderGone) as error:
            if is_new:
                await remote.call("DELETE", f"/v2/crawl/{job_id}")
            if isinstance(error, OutputFailed):
                raise OutputFailed(f"{error}\nits pages so far: {again}") from error
            end = "cancelled" if is_new else "stopped"
            text = f"{end}: nobody reads the output any more"
            self._progress.say(f"{text}\nits pages so far: {again}")
            return READER_GONE
        self._progress.stop()
        if not self._signal:
            return self._end(status, ending, target, self._command("export", job_id))
        if status.is_active:
            text = f"job {job_id} goes on at {remote.address}; to follow it: {again}"
        else:
            text = (
                f"{status.state}: {plural(status.pages, 'page')}; a service does not go on with a"
                f" cancelled job. Its pages: {again}"
            )
        self._progress.say(text)
        return 128 + self._signal

    async def _cancel(self, remote: Remote, job_id: str, follower: Follower) -> Status:
        self._progress.say("cancelling the job at the service")
        try:
            await remote.call("DELETE", f"/v2/crawl/{job_id}")
        except RemoteError as error:
            if error.status != 409:  # the job has ended already
                raise
        return await follower.follow(self._stopped)

    def _command(self, verb: str, job_id: str) -> str:
        # Without the key: terminals keep their output.
        words = ["scraper-service", "jobs", verb, job_id]
        return shlex.join([*words, "--server", self._client.server])


def _row(job: dict[str, Any]) -> dict[str, Any]:
    counts = job.get("counts") or {}
    state = str(job.get("state"))
    facts = {
        "id": str(job["id"]),
        "kind": KINDS.get(job.get("kind", ""), job.get("kind")),
        "state": "scraping" if state == "running" else state,  # as in the status
        "pages": job.get("completed", 0),
        "failed": counts.get("failed", 0),
        "pending": counts.get("pending", 0) + counts.get("leased", 0),
        "created": job.get("createdAt"),
        "url": job.get("target"),
    }
    texts = {name: job[name] for name in ("warning", "error") if job.get(name)}
    return {**facts, **texts}
