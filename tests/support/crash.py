"""What must hold of a job however often its service was killed.

:class:`Invariants` watches one job from outside, poll by poll, and compares in the end
what the API shows, what the database holds and what the site was asked for.
"""

from __future__ import annotations

import http.client
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
GIVEN_UP = "SCRAPE_RETRY_LIMIT"  # of a page whose process ended again and again
HELD, PENDING, LEASED, DONE, FAILED = range(5)  # states of an address
POLL_S = 0.1
GIVE_UPS_PER_KILL = 5  # kills / attempts, times the leases that are out at once


class Rows(NamedTuple):
    """What the database holds of one job; rows as dictionaries."""

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
    """Read everything about a job, in one transaction."""
    queries = (
        "SELECT * FROM job WHERE id = :job",
        "SELECT id, key, url, state, error FROM frontier WHERE job_id = :job",
        "SELECT id, seq, frontier_id FROM page WHERE job_id = :job ORDER BY seq",
        "SELECT page_id, credits FROM ledger WHERE job_id = :job",
        "SELECT kind, page_id, row_id FROM event WHERE job_id = :job ORDER BY id",
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
    """Return the address of the database that a service keeps in its folder."""
    return f"sqlite:///{data_dir / 'jobs.sqlite'}"


class Expected(NamedTuple):
    """What a job has to end with.

    ``ended`` maps the addresses that failed to all that must have ended, each as often
    as it must; ``failing`` ones always fail. With ``limit``, ``ended`` is the most.
    """

    ended: Callable[[Collection[int]], Counter[int]]
    failing: Collection[int] = ()
    limit: int | None = None


def crawl_of(name: str, limit: int | None = None) -> Expected:
    """Return what a crawl of a linked site from its page 0 ends with."""
    site = linked_site.named(name)
    return Expected(
        lambda dead: Counter(site.reachable(dead)), site.flaky_pages(), limit
    )


def batch_of(numbers: Collection[int], failing: Collection[int] = ()) -> Expected:
    """Return what a batch ends with; each entry counts."""
    return Expected(lambda _dead: Counter(numbers), failing)


class Invariants:
    """Watches one job on a linked site; every method raises AssertionError.

    ``path`` is the address of its status. The service is given to each call, since a
    new process may have taken its place.
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
        """Documents delivered, as far as the last poll saw."""
        return int(self._last["completed"])

    @property
    def state(self) -> str:
        return str(self._last.get("status", "scraping"))

    def poll(self, service: Service) -> str:
        """Read the status from where the last poll ended; return its state."""
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
        """Check a job that has completed: what ended, the rows, what was fetched."""
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
        """Return the job's errors, none of them twice."""
        reply = service.get(f"{self.path}/errors")
        assert reply.status == 200, reply
        assert reply.json["success"] is True
        assert reply.json["robotsBlocked"] == []
        errors: list[dict[str, Any]] = reply.json["errors"]
        ids = [error["id"] for error in errors]
        assert len(set(ids)) == len(ids)
        return errors

    def check_rows(self) -> Rows:
        """Compare the tables with each other and with the last poll, of a final job."""
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
        """The law of conservation: the counts on the job are those of its rows."""
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
        """Each address ended as a page or a failure, none lost and none twice."""
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
        """Nothing was shown that was not fetched, or fetched beyond need or limit."""
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
    """Return all documents of a job that has ended, by following ``next``."""
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
    """Return the number of the linked site's page that a document is."""
    return linked_site.page_number(document["metadata"]["sourceURL"])


def fetches(site: MockServer, prefix: str) -> Counter[int]:
    """Return how often each page of a linked site was asked for."""
    paths = site.paths(f"{prefix}p")
    pages = (path for path in paths if not path.endswith("/sitemap.xml"))
    return Counter(map(linked_site.page_number, pages))


def kill(service: Service) -> None:
    """End the service's main process as the kernel would; reap what is left of it."""
    os.kill(service.pid, signal.SIGKILL)
    service.stop()


def started(reply: Any) -> str:
    """Return the path of the status of a job that was just started."""
    assert reply.status == 200, reply
    assert reply.json["success"] is True
    return "/" + reply.json["url"].split("/", 3)[3]


#: What a request to a service that is being killed may end with.
CONNECTION_LOST = (OSError, http.client.HTTPException)
