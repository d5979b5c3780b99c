"""The invariants of a job whose service is killed at any time.

:class:`Invariants` polls one job. At the end it compares the responses of the API, the
rows of the database and the requests to the site.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from tests.support import linked_site
from tests.support.waiting import WAIT_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from tests.conftest import Service
    from tests.support.mockserver import MockServer

TERMINAL = {"completed", "failed", "cancelled"}
GIVEN_UP = "SCRAPE_RETRY_LIMIT"  # error of a page whose process ended too often
HELD, PENDING, LEASED, DONE, FAILED = range(5)  # states of a URL
POLL_S = 0.1
GIVE_UPS_PER_KILL = 5  # kills / attempts, times the concurrent leases


class Rows(NamedTuple):
    """The rows of one job in the database, as dictionaries."""

    job: dict[str, Any]
    frontier: list[dict[str, Any]]
    pages: list[dict[str, Any]]  # in the order of the feed
    ledger: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def count(self, state: int) -> int:
        return sum(row["state"] == state for row in self.frontier)

    @property
    def endings(self) -> list[str]:
        return [row["kind"] for row in self.events if row["kind"] in TERMINAL]


def read_rows(database: str, job_id: str) -> Rows:
    """Read all rows of a job in one transaction."""
    of_job = "job_number = (SELECT number FROM job WHERE id = :job)"
    queries = (
        "SELECT * FROM job WHERE id = :job",
        f"SELECT id, key, url, state, error FROM frontier WHERE {of_job}",
        f"SELECT id, seq, frontier_id FROM page WHERE {of_job} ORDER BY seq",
        "SELECT page_id, credits FROM ledger WHERE job_id = :job",
        f"SELECT kind, page_id, row_id FROM event WHERE {of_job} ORDER BY id",
    )
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    begin = "BEGIN"
    if engine.dialect.name == "postgresql":
        begin = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    with engine.connect() as connection:
        connection.exec_driver_sql(begin)
        found = [
            [
                dict(row)
                for row in connection.execute(
                    sa.text(query), {"job": job_id}
                ).mappings()
            ]
            for query in queries
        ]
    engine.dispose()
    return Rows(found[0][0], *found[1:])


def sqlite_of(data_dir: Path) -> str:
    """Return the database URL of a service with this data folder."""
    return f"sqlite:///{data_dir / 'jobs.sqlite'}"


class Expected(NamedTuple):
    """The expected end of a job.

    ``ended`` maps the numbers of failed pages to all pages that must end, with counts.
    Pages in ``failing`` always fail. With ``limit`` fewer pages may end.
    """

    ended: Callable[[Collection[int]], Counter[int]]
    failing: Collection[int] = ()
    limit: int | None = None


def crawl_of(name: str, limit: int | None = None) -> Expected:
    """Return the expected end of a crawl of a linked site from its page 0."""
    site = linked_site.named(name)
    return Expected(
        lambda dead: Counter(site.reachable(dead)), site.flaky_pages(), limit
    )


def batch_of(numbers: Collection[int], failing: Collection[int] = ()) -> Expected:
    """Return the expected end of a batch; duplicates count."""
    return Expected(lambda _dead: Counter(numbers), failing)


class Invariants:
    """Watches one job on a linked site; every method may raise :exc:`AssertionError`.

    ``path`` is the path of the job's status. Each call takes the service, because a test
    may have replaced its process.
    """

    def __init__(
        self,
        path: str,
        expected: Expected,
        *,
        name: str,
        site: MockServer,
        database: str,
    ):
        self.path = path
        self.job_id = path.rpartition("/")[2]
        self.expected = expected
        self.prefix = f"/site/{name}/"
        self.site = site
        self.database = database
        self.documents: list[dict[str, Any]] = []
        self.kills = 0
        self._last: dict[str, Any] = {"total": 0, "completed": 0, "creditsUsed": 0}

    @property
    def completed(self) -> int:
        """Number of completed documents at the last poll."""
        return int(self._last["completed"])

    @property
    def state(self) -> str:
        return str(self._last.get("status", "scraping"))

    def poll(self, service: Service) -> str:
        """Read the status and the documents since the last poll; return the state."""
        reply = service.get(f"{self.path}?skip={len(self.documents)}")
        assert reply.status == 200, reply
        status = reply.json
        assert status["success"] is True
        assert status["status"] in {"scraping", *TERMINAL}
        assert self.state in {"scraping", status["status"]}, "left a final state"
        if self.state in TERMINAL:
            for key in ("total", "completed", "creditsUsed"):
                assert status[key] == self._last[key], f"{key} changed after the end"
        for key in ("total", "completed", "creditsUsed"):
            assert status[key] >= self._last[key], f"{key} fell"
        assert status["completed"] <= status["total"]
        assert status.get("next", "") is not None
        self._last = {**status, "data": None}
        self.documents += status["data"]
        assert len(self.documents) <= status["completed"], "shows more than it counts"
        return self.state

    def wait(self, service: Service, seconds: float = WAIT_S) -> None:
        """Poll until the job has ended."""
        wait_until(lambda: self.poll(service) in TERMINAL, seconds, POLL_S)

    def check(self, service: Service) -> None:
        """Check a completed job: its documents, errors, rows and fetches."""
        self.poll(service)
        assert self.state == "completed", self._last
        documents = read_all(service, self.path)
        seen = self.documents
        assert documents[: len(seen)] == seen, "a page that was shown has changed"
        errors = self.read_errors(service)
        self._check_addresses(documents, errors)
        self._check_counts(documents, errors)
        self.check_rows()
        self._check_fetches(documents, errors)

    def read_errors(self, service: Service) -> list[dict[str, Any]]:
        """Return the job's errors, and check that their ids are unique."""
        reply = service.get(f"{self.path}/errors")
        assert reply.status == 200, reply
        assert reply.json["success"] is True
        assert reply.json["robotsBlocked"] == []
        errors: list[dict[str, Any]] = reply.json["errors"]
        ids = [error["id"] for error in errors]
        assert len(set(ids)) == len(ids)
        return errors

    def check_rows(self) -> Rows:
        """Compare the rows of an ended job with each other and with the last poll."""
        rows = read_rows(self.database, self.job_id)
        job, page_ids = rows.job, [row["id"] for row in rows.pages]
        assert job["state"] == self.state
        assert rows.endings == [self.state], "one terminal state, noted once"
        kinds = Counter(row["kind"] for row in rows.events)
        assert kinds["started"] <= 1
        told = [row for row in rows.events if row["kind"] == "page"]
        noted = [row["page_id"] for row in told if row["page_id"]]
        assert noted == page_ids, "one event for each page, in order"
        failures = [row["row_id"] for row in told if not row["page_id"]]
        failed = [row["id"] for row in rows.frontier if row["state"] == FAILED]
        assert sorted(failures) == sorted(failed), "one event for each page that failed"
        charged = [row["page_id"] for row in rows.ledger]
        assert sorted(charged) == sorted(page_ids), "each page is charged once"
        credits_used = sum(row["credits"] for row in rows.ledger)
        assert credits_used == job["credits"] == self._last["creditsUsed"]
        assert [row["seq"] for row in rows.pages] == list(range(len(rows.pages)))
        assert len(rows.pages) == job["pages"] == self._last["completed"]
        done = {row["id"] for row in rows.frontier if row["state"] == DONE}
        stored = [row["frontier_id"] for row in rows.pages]
        assert len(set(stored)) == len(stored)
        assert done.issuperset(stored)
        self._check_balance(rows)
        return rows

    def _check_balance(self, rows: Rows) -> None:
        """Check the law of conservation: the job's counters equal the counts of its rows."""
        keys = [row["key"] for row in rows.frontier]
        assert len(set(keys)) == len(keys)
        job = rows.job
        assert rows.count(DONE) == job["done"]
        assert rows.count(FAILED) == job["failed"]
        assert rows.count(HELD) == job["held"]
        assert rows.count(PENDING) + rows.count(LEASED) == job["open"]
        assert job["open"] + job["done"] + job["failed"] == self._last["total"]
        if self.state == "completed":
            assert job["open"] == 0

    def _check_addresses(
        self, documents: list[dict[str, Any]], errors: list[dict[str, Any]]
    ) -> None:
        """Check that each URL ended as often as expected, as a page or as an error."""
        delivered = Counter(page_of(document) for document in documents)
        failed = Counter(linked_site.page_number(error["url"]) for error in errors)
        ended = delivered + failed
        expected = self.expected.ended(failed)
        limit = self.expected.limit
        if limit is None:
            lost, more = expected - ended, ended - expected
            assert not lost, f"lost {sorted(lost.elements())[:20]}"
            assert not more, f"too often {sorted(more.elements())[:20]}"
        else:
            assert not ended - expected, "an address ended twice"
            assert len(documents) == min(limit, (expected - failed).total())
        given_up = [error for error in errors if error.get("code") == GIVEN_UP]
        assert len(given_up) <= self.kills * GIVE_UPS_PER_KILL
        blamed = {linked_site.page_number(error["url"]) for error in given_up}
        unexplained = set(failed) - set(self.expected.failing) - blamed
        assert not unexplained, [
            error
            for error in errors
            if linked_site.page_number(error["url"]) in unexplained
        ][:3]

    def _check_counts(
        self, documents: list[dict[str, Any]], errors: list[dict[str, Any]]
    ) -> None:
        assert self._last["completed"] == len(documents)
        assert self._last["total"] == len(documents) + len(errors)
        charged = sum(document["metadata"]["creditsUsed"] for document in documents)
        assert self._last["creditsUsed"] == charged
        for document in documents:
            number = page_of(document)
            assert f"Page {number} of" in document["markdown"], document

    def _check_fetches(
        self, documents: list[dict[str, Any]], errors: list[dict[str, Any]]
    ) -> None:
        """Check that each shown page was fetched, and no page too often."""
        fetched = fetches(self.site, self.prefix)
        delivered = Counter(page_of(document) for document in documents)
        failed = {linked_site.page_number(error["url"]) for error in errors}
        assert not delivered - fetched
        assert set(fetched) <= delivered.keys() | failed
        often = {
            number: count
            for number, count in fetched.items()
            if number not in failed and count > delivered[number] + self.kills
        }
        assert not often, f"fetched again and again: {often}"


def read_all(service: Service, path: str) -> list[dict[str, Any]]:
    """Return all documents of an ended job by following ``next``."""
    documents: list[dict[str, Any]] = []
    cursors = set()
    target = path
    while target:
        assert target not in cursors, "a cursor came twice"
        cursors.add(target)
        status = service.get(target).json
        documents += status["data"]
        target = status.get("next", "").removeprefix(service.url)
        assert target.startswith(("/", "")), target
    return documents


def page_of(document: dict[str, Any]) -> int:
    """Return the page number of a document of a linked site."""
    return linked_site.page_number(document["metadata"]["sourceURL"])


def fetches(site: MockServer, prefix: str) -> Counter[int]:
    """Return the number of requests for each page of a linked site."""
    paths = site.paths(f"{prefix}p")
    pages = (path for path in paths if not path.endswith("/sitemap.xml"))
    return Counter(map(linked_site.page_number, pages))


def kill(service: Service) -> None:
    """Kill the service's main process by SIGKILL, then stop its remaining processes."""
    os.kill(service.pid, signal.SIGKILL)
    service.stop()


def started(reply: Any) -> str:
    """Return the status path of a new job from the response to its start."""
    assert reply.status == 200, reply
    assert reply.json["success"] is True
    return "/" + reply.json["url"].split("/", 3)[3]
