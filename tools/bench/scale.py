"""Measures how crawls scale over worker processes that share one PostgreSQL.

A model of the web answers instead of a network (``tools/bench/scale_worker.py``), so the
figures are those of the frontier, the pace of hosts and the storage of pages: pages a second,
CPU and transactions for each page, and what a page takes of the database and its log. Starts a
server of the system's packages: with whole pages in the log, as is usual, and without ``fsync``.

With ``--known`` the jobs know that many URLs at the start, all pending, of a web that has twice as many. They
are cancelled when ``--pages`` pages are stored: so a part in the middle of a large crawl is measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from attrs import frozen
from sqlalchemy import text

from scraper_service.options.spider_arguments import crawl_options
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import RowState
from scraper_service.storage.jobs import admission, job_deletion, job_rows
from scraper_service.storage.jobs.admission import Terms
from tools.bench.postgres import Postgres
from tools.bench.processes import ServerProcess
from tools.bench.report import MACHINE, arguments, publish, table
from tools.bench.scale_tables import OPTIONS, breakdown, sizes
from tools.bench.scale_worker import HOSTS

if TYPE_CHECKING:
    from sqlalchemy import Connection

RESULT = "scale.md"
HEADINGS = (
    *(
        "Jobs",
        "Workers",
        "Pages/s",
        "First page of all jobs, s",
        "Last job / first job",
    ),
    *("Worker CPU ms", "Database CPU ms", "Transactions", "Statements"),
    *("Database kB", "Log kB"),
)
TEAMS = 10
KEPT = {"database": "the database", "objects": "an object storage (left out)"}
POLL_S = 0.05
SLICE = 200_000  # known URLs of one transaction, which may not take long

# URLs of the model of the web, by which hosts have a power law, as in ``url_of``.
_ADD = text(
    "INSERT INTO frontier (job_number, key, url, depth, state, found_on)"
    " SELECT number, n, 'http://host-' || floor(power(:hosts, random()))::int"
    " || '.example/section/a-usual-address-' || n, 1, :state, 1"
    " FROM job, generate_series(CAST(:first AS int), CAST(:last AS int)) AS n WHERE job.id = :job"
)
_COUNT = text("UPDATE job SET open = open + :count WHERE id = :job")


@frozen
class Run:
    """One measurement. All but the rate are for each page."""

    jobs: int
    workers: int
    pages: int
    seconds: float
    first_s: float
    spread: float
    worker_cpu_s: float
    database_cpu_s: float
    transactions: int
    statements: int
    bytes: int
    log_bytes: int

    def cells(self) -> tuple[str, ...]:
        per = 1000 / self.pages
        return (
            str(self.jobs),
            str(self.workers),
            f"{self.pages / self.seconds:.0f}",
            f"{self.first_s:.1f}",
            f"{self.spread:.2f}",
            f"{self.worker_cpu_s * per:.2f}",
            f"{self.database_cpu_s * per:.2f}",
            f"{self.transactions / self.pages:.2f}",
            f"{self.statements / self.pages:.1f}",
            f"{self.bytes / self.pages / 1000:.1f}",
            f"{self.log_bytes / self.pages / 1000:.1f}",
        )


class Server:
    """Figures of the database server."""

    def __init__(self, url: str, pid: int):
        plain = url.replace("postgresql+psycopg:", "postgresql:")
        self._connection = psycopg.connect(plain, autocommit=True)
        self._pid = pid

    def ask(self, query: str, *values: Any) -> Any:
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else row[0]

    def rows(self, query: str) -> list[Any]:
        return self._connection.execute(query).fetchall()

    def begin(self) -> None:
        """Count statements from now on, directly after a checkpoint.

        The log has each page of a table as a whole when it changes first after a checkpoint. So
        the figures have the most of it, and do not depend on when the server made one.
        """
        self._connection.execute("CHECKPOINT")
        for name in ("pg_stat_statements", "pg_walinspect"):
            self._connection.execute(f"CREATE EXTENSION IF NOT EXISTS {name}")
        self._connection.execute("SELECT pg_stat_statements_reset()")

    def figures(self) -> tuple[int, int, int, float, str, int]:
        """Return transactions, bytes of the database and of its log, CPU seconds.

        And the position of the log, and the number of statements.
        """
        self._connection.execute("SELECT pg_stat_clear_snapshot()")
        commits = self.ask(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        )
        size = self.ask("SELECT pg_database_size(current_database())")
        place = self.ask("SELECT pg_current_wal_insert_lsn()::text")
        log = self.ask("SELECT pg_wal_lsn_diff(%s::pg_lsn, '0/0')", place)
        calls = self.ask(
            "SELECT coalesce(sum(s.calls), 0) FROM pg_stat_statements s JOIN pg_database d"
            " ON d.oid = s.dbid AND d.datname = current_database()"
        )
        return commits, size, int(log), cpu_of_group(self._pid), place, int(calls)


def cpu_of_group(pid: int) -> float:
    """Return the CPU seconds of a process and its children, those that ended included."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(folder.name) == pid:
            ticks += sum(map(int, fields[11:15]))  # with its children that ended
        elif int(fields[1]) == pid:
            ticks += sum(map(int, fields[11:13]))
    return ticks / 100


def team_of(number: int) -> str:
    """Return the team of a job by its number."""
    return f"team-{number % TEAMS}"


def make_jobs(
    url: str, folder: Path, count: int, pages: int, known: int = 0
) -> list[str]:
    """Store jobs of :data:`TEAMS` teams, each with a limit of ``pages``.

    With ``known`` URLs in all, which are added, they have no such limit.
    """
    database = Database(folder, url, "bench")
    pages = known or pages
    options = crawl_options(
        {"url": "http://host-1.example/", "limit": str(pages), "sitemap": "skip"}
    )
    found = []
    for number in range(count):
        team = team_of(number)
        database.write_blocking(job_rows.make_team, team)
        job: Any = database.write_blocking(
            admission.create_job, Terms(team_id=team), options, 2
        )
        found.append(job.id)
        if known:
            add_known(database, job.id, known // count)
    database.close()
    return found


def add_known(database: Database, job_id: str, count: int) -> None:
    """Add the first ``count`` URLs of the model to a job, all of them pending."""
    for first in range(1, count + 1, SLICE):
        database.write_blocking(_add, job_id, first, min(first + SLICE - 1, count))


def _add(connection: Connection, job_id: str, first: int, last: int) -> None:
    values = {"first": first, "last": last, "hosts": HOSTS, "job": job_id}
    connection.execute(_ADD, {**values, "state": int(RowState.PENDING)})
    connection.execute(_COUNT, {"job": job_id, "count": last - first + 1})


def cancel(url: str, folder: Path, ids: list[str]) -> None:
    """Cancel all jobs."""
    database = Database(folder, url, "bench")
    for number, job_id in enumerate(ids):
        database.write_blocking(job_deletion.cancel, job_id, team_of(number))
    database.close()


def measure(
    url: str,
    pid: int,
    ids: list[str],
    workers: int,
    pages: int,
    latency_s: float,
    kept: str,
    *,
    known: int = 0,
    shows_tables: bool = False,
) -> Run:
    """Crawl ``pages`` in all by the jobs ``ids``, and check that each was stored once.

    ``shows_tables`` prints what each page took by table.
    """
    jobs = len(ids)
    urls = 2 * known // jobs
    with tempfile.TemporaryDirectory() as name:
        running = [
            ServerProcess(
                *("tools.bench.scale_worker", url, name, ",".join(ids)),
                *(str(latency_s), kept, str(urls)),
            )
            for _ in range(workers)
        ]
        try:
            for each in running:
                each.line("ready")
            server = Server(url, pid)
            server.begin()
            before = server.figures()
            sizes_before = sizes(server)
            begin, began_at = time.perf_counter(), time.time()
            for each in running:
                each.write("go")
            begun = "SELECT count(*) FROM job WHERE pages > 0"
            wait_until(server, running, begun, jobs)
            first_s = time.perf_counter() - begin
            if known:
                wait_until(server, running, "SELECT sum(pages) FROM job", pages)
                for each in running:
                    each.write("end")
            reports = [json.loads(each.line("{")) for each in running]
            seconds = time.perf_counter() - begin
            after = server.figures()
            if known:
                cancel(url, Path(name), ids)
            stored = check(server, pages, "cancelled" if known else "completed")
            if shows_tables:
                print(breakdown(server, sizes_before, before[4], stored))
            ends = server.rows("SELECT completed_at FROM job")
            spans = [ended_at - began_at for (ended_at,) in ends]
        finally:
            for each in running:
                each.stop()
    return Run(
        jobs=jobs,
        workers=workers,
        pages=stored,
        seconds=seconds,
        first_s=first_s,
        spread=max(spans) / min(spans),
        worker_cpu_s=sum(report["cpu_s"] for report in reports),
        database_cpu_s=after[3] - before[3],
        transactions=after[0] - before[0],
        statements=after[5] - before[5],
        bytes=after[1] - before[1],
        log_bytes=after[2] - before[2],
    )


def wait_until(
    server: Server, running: list[ServerProcess], query: str, least: int
) -> None:
    """Wait until a query gives at least ``least``. Raises :exc:`RuntimeError` if a worker ends."""
    goes_on = True
    while server.ask(query) < least:
        if not goes_on:
            ended = next(each for each in running if not each.is_running)
            raise RuntimeError(f"a worker ended: {ended.stderr}")
        goes_on = all(each.is_running for each in running)
        time.sleep(POLL_S)


def check(server: Server, pages: int, state: str) -> int:
    """Raise :exc:`AssertionError` unless pages, URLs, credits and events agree.

    There are exactly ``pages``, or some more where the jobs were cancelled after so many. Returns
    how many.
    """
    total = server.ask("SELECT sum(pages) FROM job")
    assert total == pages or (state == "cancelled" and total > pages), total
    for query in (
        "SELECT count(*) FROM page",
        "SELECT count(DISTINCT frontier_id) FROM page",
        "SELECT count(*) FROM ledger WHERE page_id IS NOT NULL",
    ):
        found = server.ask(query)
        assert found == total, f"{query}: {found}, not {total}"
    states = server.rows("SELECT DISTINCT state FROM job")
    assert states == [(state,)], states
    return int(total)


def run(
    counts: list[int],
    jobs: list[int],
    pages: int,
    latency_s: float,
    kept: str,
    *,
    known: int = 0,
    shows_tables: bool = False,
) -> str:
    found = []
    options = {
        "full_page_writes": "on",
        "shared_buffers": "256MB",
        "max_connections": "300",  # ten for each worker
        **OPTIONS,
    }
    with Postgres(**options) as postgres:
        for number in jobs:
            filled = postgres()  # once, since millions of URLs take a while
            with tempfile.TemporaryDirectory() as name:
                ids = make_jobs(filled, Path(name), number, pages // number, known)
            for workers in counts:
                url = postgres(filled)
                found.append(
                    measure(
                        *(url, postgres.pid, ids, workers, pages, latency_s, kept),
                        known=known,
                        shows_tables=shows_tables,
                    )
                )
                print(" | ".join(found[-1].cells()), file=sys.stderr)
    cells = table(HEADINGS, (each.cells() for each in found))
    begin = f" from {known:,} known URLs on" if known else ""
    return (
        f"# Scale benchmark\n\n{MACHINE}, PostgreSQL on the same machine, {pages} pages in"
        f" all{begin}, latency {latency_s * 1000:.0f} ms, responses kept in"
        f" {KEPT[kept]}. Times, transactions and kB are for each"
        f" page.\n\n{cells}\n"
    )


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--jobs", default="1,20")
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument(
        "--known", type=int, default=0, help="URLs of all jobs at the start"
    )
    parser.add_argument("--latency", type=float, default=0.02, help="mean, in seconds")
    parser.add_argument(
        "--tables", action="store_true", help="print what a page takes by table"
    )
    parser.add_argument("--kept", default="database", choices=KEPT)
    options = parser.parse_args()
    workers = [int(each) for each in options.workers.split(",")]
    jobs = [int(each) for each in options.jobs.split(",")]
    pages = options.pages
    if options.quick:
        workers, jobs, pages = [2], [2], 100
    report = run(
        *(workers, jobs, pages, options.latency, options.kept),
        known=options.known,
        shows_tables=options.tables,
    )
    publish(report, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
