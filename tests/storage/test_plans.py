"""How the databases find rows: always in an index, however many there are.

Both tell it of the statements that are really sent. PostgreSQL does so by ``auto_explain``,
of plans that were made without the parameters: those of prepared statements.
"""

from __future__ import annotations

import re
import uuid
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import select

from scraper_service.options.jobs import CRAWLED, Webhook
from scraper_service.storage import webhooks
from scraper_service.storage.accounts import usage
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import leases as frontier
from scraper_service.storage.frontier import links, outcomes, refused_links
from scraper_service.storage.frontier.links import Seed
from scraper_service.storage.job_records import ClaimedRow, Link, Outcome, RowState
from scraper_service.storage.jobs import (
    admission,
    job_deletion,
    job_rows,
    job_urls,
    model_jobs,
    runs,
)
from scraper_service.storage.jobs.job_urls import Cursor, UrlQuery
from scraper_service.storage.monitors import check_steps
from scraper_service.storage.schema import frontier as rows_of
from scraper_service.storage.schema import job as job_table
from scraper_service.storage.transactions import number_of

PENDING = 100_000
OF_OTHERS = 20_000
OWNER = "owner"
USES = 8  # of each statement: the driver prepares it at the sixth
_READERS = ("SELECT", "UPDATE", "DELETE", "WITH")
_READS_LISTS = "FROM refused_list LEFT OUTER JOIN frontier"
MOST_READ = 1000  # rows of one step of a plan, those that it drops included
_READS_ALL_JOBS = re.compile(
    r"SCAN (job|parent|run|monitor_check)\b"
    r"|SEARCH job USING (COVERING )?INDEX ix_job_team_id"
)
_READ = re.compile(r"(?:actual rows=|Rows Removed by (?:Join )?Filter: )(\d+)")

_ROWS = """
INSERT INTO frontier (job_number, key, url, depth, state, code)
  WITH RECURSIVE n(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM n WHERE n < {last})
  SELECT number, n, 'http://a.example/some/path/' || n, 1, {state}, {code}
    FROM n, job WHERE id = '{job}'
"""
_LISTS = """
INSERT INTO refused_list (job_number, urls, depth, code, body)
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {lists})
  SELECT number, 1, 1, 'external', {body} FROM n, job
"""
_LISTED = """
INSERT INTO refused_key (job_number, key, list_id)
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {last})
  SELECT number, -n, 1 FROM n, job
"""
_TOLD = """
INSERT INTO delivery (job_id, seq, kind, at, state, due_at)
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {last})
  SELECT '{job}', n, 'page', 1, CASE WHEN n > {delivered} THEN 0 ELSE 1 END, 0 FROM n
"""


class Filled:
    """A job with :data:`PENDING` rows, between others."""

    def __init__(self, database):
        self.database = database
        self.run(job_rows.make_team, "team")
        before, self.job, after = (self.start() for _ in range(3))
        self.fill(before, OF_OTHERS, RowState.DONE)
        self.fill(self.job, PENDING, RowState.PENDING)
        self.fill(self.job, OF_OTHERS, RowState.HELD, PENDING)
        self.fill(after, OF_OTHERS, RowState.PENDING)
        self.fill(after, OF_OTHERS, RowState.SKIPPED, OF_OTHERS, "'robots'")
        self.sql(_LISTED.format(last=OF_OTHERS))
        body = refused_links._pack([("http://b.example/", None)]).hex()
        mark = f"x'{body}'"
        if database.engine.dialect.name == "postgresql":
            mark = f"decode('{body}', 'hex')"
        self.sql(_LISTS.format(lists=OF_OTHERS // 4, body=mark))
        counts = {
            "skipped": OF_OTHERS,
            "open": PENDING,
            "held": OF_OTHERS,
            "page_limit": PENDING + 100,
        }
        counts["deliveries"] = OF_OTHERS
        self.sql(
            f"UPDATE job SET {', '.join(f'{k} = {v}' for k, v in counts.items())}"
            f" WHERE id = '{self.job}'"
        )
        hook = Webhook(url="http://b.example/", events=("page",))
        self.run(webhooks.attach, self.job, hook)
        self.sql(_TOLD.format(job=self.job, last=OF_OTHERS, delivered=OF_OTHERS - 500))
        self.sql(f"UPDATE webhook SET due_at = 1 WHERE job_id = '{self.job}'")

    def run(self, function, *args):
        return self.database.write_blocking(function, *args)

    def sql(self, text):
        self.run(lambda connection: connection.exec_driver_sql(text))

    def start(self):
        link = Link(-1, "http://a.example/", 0)
        seed = Seed("crawl", "http://a.example/", None, (link,))
        return self.run(job_rows.insert_job, "team", seed, "{}", 2).id

    def fill(self, job, count, state, first=0, code="NULL"):
        last = first + count - 1
        self.sql(
            _ROWS.format(job=job, first=first, last=last, state=int(state), code=code)
        )

    def most_are_done(self):
        """Let most pending rows be done: only the statistics do not know of it."""
        self.sql(
            f"UPDATE frontier SET state = {RowState.DONE:d}"
            f" WHERE job_number = (SELECT number FROM job WHERE id = '{self.job}')"
            f" AND key BETWEEN 0 AND {PENDING * 9 // 10}"
        )


def work(connection, job_id):
    """Do with a job, in a transaction, what is done while its row is locked.

    And what callers ask of it, again and again.
    """
    for _ in range(USES):
        claim = frontier.claim(connection, job_id, OWNER, 16)
        assert len(claim.rows) == 16
        ids = [row.id for row in claim.rows]
        assert ids == sorted(ids)
        first, second, *others = claim.rows
        found = [
            Link(10**6 + first.id * 100 + n, f"http://c/{n}", 2) for n in range(30)
        ]
        found += [
            Link(10**9 + first.id * 1000 + n, f"http://d/{n}", 2, code="external")
            for n in range(600)
        ]
        found.append(Link(-5, "http://d/", 2, code="external"))
        outcomes.append(
            connection,
            job_id,
            [outcome(first, b"{}", found), outcome(second, None, ())],
        )
        leases = [(row.id, row.token) for row in others[:-2]]
        frontier.release(connection, job_id, leases)
        frontier.jobs_with_lost_leases(connection)
        assert frontier.reap(connection, job_id) == 2
        assert job_urls.read_current(connection, job_id) is None
        page_of_listing(connection, job_id)
        listed, _ = refused_links.read(connection, job_id, None, 2_500_000, 0, 50)
        assert len(listed) == 50
        assert len(links.KnownUrlReader([job_id]).next(connection)) > 0
        webhook_turn(connection, job_id)


def outcome(row: ClaimedRow, page, links):
    return Outcome(
        row_id=row.id,
        key=row.key,
        token=row.token,
        owner=OWNER,
        page_id=str(uuid.uuid4()),
        page=page,
        error=None if page else "x",
        code=None if page else "SCRAPE_SITE_ERROR",
        links=links,
    )


def page_of_listing(connection, job_id):
    last = connection.scalar(
        select(rows_of.c.id).where(
            rows_of.c.job_number == number_of(job_id), rows_of.c.key == PENDING - 100
        )
    )
    cursor = Cursor(RowState.PENDING, last)
    found = job_urls.read_urls(
        connection, job_id, UrlQuery(state="pending", after=cursor, limit=50)
    )
    assert len(found.urls) == 50


def webhook_turn(connection, job_id):
    connection.exec_driver_sql(
        f"UPDATE webhook SET until = 0 WHERE job_id = '{job_id}'"
    )
    turn = webhooks.take(connection, job_id, 1.0)
    assert len(turn.due) == webhooks.FIRST_ROWS
    assert webhooks.record(connection, turn, [], [60.0], None)


@contextmanager
def rolled_back(database):
    with database.engine.connect() as connection:
        yield connection
        connection.rollback()


def bad_plans(database, job_id, mode="force_generic_plan"):
    """Return the plans of :func:`work` that read more than they need."""
    plans = plans_of(database, mode, work, job_id)
    assert len(plans) > 20 * USES
    # The counts of a listing read what they count, once per page of it.
    return reads_too_much(plan for plan in plans if "count(*)" not in plan)


def reads_too_much(plans):
    return [plan for plan in plans if max(map(int, _READ.findall(plan))) > MOST_READ]


def plans_of(database, mode, work, *args):
    """Return the plans of PostgreSQL for what ``work`` sends."""
    plans = []
    with rolled_back(database) as connection:
        connection.exec_driver_sql("SELECT 1")  # what begins it cannot be prepared
        driver = connection.connection.driver_connection
        usual, driver.prepare_threshold = driver.prepare_threshold, 0
        driver.add_notice_handler(lambda notice: plans.append(notice.message_primary))
        for text in (
            "LOAD 'auto_explain'",
            "SET LOCAL auto_explain.log_min_duration = 0",
            "SET LOCAL auto_explain.log_analyze = on",
            "SET LOCAL auto_explain.log_timing = off",
            "SET LOCAL auto_explain.log_level = notice",
            "SET LOCAL client_min_messages = notice",
            f"SET LOCAL plan_cache_mode = {mode}",
        ):
            connection.exec_driver_sql(text)
        work(connection, *args)
        driver.prepare_threshold = usual
    return [plan for plan in plans if plan and "Query Text:" in plan]


@pytest.mark.full
def test_postgresql_reads_no_row_that_it_does_not_need(tmp_path, postgres):
    with closing(Database(tmp_path, postgres())) as database:
        database.write_blocking(
            lambda c: c.exec_driver_sql(
                "ALTER TABLE frontier SET (autovacuum_enabled = false)"
            )
        )
        filled = Filled(database)
        # It sorts the lists of a job, which it takes for few.
        bad = [x for x in bad_plans(database, filled.job) if _READS_LISTS not in x]
        assert bad == [], "before ANALYZE"
        filled.sql("ANALYZE")
        assert bad_plans(database, filled.job) == [], "after ANALYZE"
        filled.most_are_done()
        assert bad_plans(database, filled.job) == [], "with old statistics"
        assert bad_plans(database, filled.job, "force_custom_plan") == []
        filled.sql("ANALYZE")
        assert bad_plans(database, filled.job) == [], "with new statistics"


def scans(database, job_id):
    """Return the statements of :func:`work` that find rows without an index, with the plan."""
    sent = []
    with rolled_back(database) as connection:
        driver = connection.connection.driver_connection
        driver.set_trace_callback(sent.append)
        try:
            work(connection, job_id)
        finally:
            driver.set_trace_callback(None)
        found = {}
        for statement in sent:
            if "count(*)" in statement or not statement.lstrip().startswith(_READERS):
                continue
            plan = driver.execute(f"EXPLAIN QUERY PLAN {statement}")
            steps = [row[-1] for row in plan]
            if any(_is_bad(step) for step in steps):
                found[statement] = steps
    assert len(sent) > 20 * USES
    return found


def _is_bad(step):
    in_order = "TEMP B-TREE FOR ORDER BY" in step
    return in_order or re.match(
        r"SCAN (frontier|delivery|event|page|refused_key|refused_list)\b(?! USING)",
        step,
    )


def test_sqlite_reads_no_row_that_it_does_not_need(tmp_path):
    with closing(Database(tmp_path)) as database:
        filled = Filled(database)
        assert scans(database, filled.job) == {}, "before ANALYZE"
        filled.sql("ANALYZE")
        assert scans(database, filled.job) == {}, "after ANALYZE"


def test_ended_jobs_of_a_team_are_not_read(tmp_path):
    """Starts, ends and lists of active jobs take as long however many have ended."""
    with closing(Database(tmp_path)) as database:
        database.write_blocking(job_rows.make_team, "team")
        seed = Seed("crawl", "http://a.example/", None, ())
        made = database.write_blocking(job_rows.insert_job, "team", seed, "{}", 2)
        for analyze in (False, True):
            if analyze:
                database.write_blocking(lambda c: c.exec_driver_sql("ANALYZE"))
            with rolled_back(database) as connection:
                driver, sent = connection.connection.driver_connection, []
                driver.set_trace_callback(sent.append)
                admission._active(connection, "team")
                model_jobs.next_start(connection, "team", "agent")
                model_jobs.read_model_jobs(connection, "team", "agent", None, 20)
                job_deletion.cancel(connection, made.id, "team")
                job_rows.active_jobs(connection, "team")
                usage.read_queue(connection, "team")
                check_steps.lost_checks(connection, 20)
                look_for_jobs(connection)
                driver.set_trace_callback(None)
                plans = {
                    statement: driver.execute(f"EXPLAIN QUERY PLAN {statement}")
                    for statement in sent
                    if statement.lstrip().startswith(_READERS)
                }
                steps = [row[-1] for plan in plans.values() for row in plan]
            assert len(plans) > 11
            bad = [step for step in steps if _READS_ALL_JOBS.match(step)]
            assert bad == [], analyze


_JOBS = """
INSERT INTO job ({columns})
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
  SELECT {values} FROM n, job WHERE id = '{original}'
"""
_RUNS = """
INSERT INTO run (id, job_id, owner, state, progress, created_at)
  SELECT 'of ' || number, id, 'owner', CASE WHEN state = 'scraping' THEN 1 ELSE 2 END, 0, 1
    FROM job WHERE kind <> 'agent'
"""


def copy_job(connection, original, count, **values):
    """Copy a job, with ``values`` in SQL, where ``n`` counts the copies."""
    columns = [column.name for column in job_table.columns]
    chosen = ", ".join(values.get(name, f"job.{name}") for name in columns)
    names = ", ".join(columns)
    connection.exec_driver_sql(
        _JOBS.format(columns=names, count=count, values=chosen, original=original)
    )


def look_for_jobs(connection):
    """Do what each process does again and again to find jobs."""
    for kinds in (CRAWLED, ("agent", "llmstxt")):
        runs.has_untaken(connection, kinds)
        for most_processes in (None, 2):
            runs.waiting_jobs(
                connection, OWNER, kinds, ("1",), 4, 8, None, most_processes
            )
    runs.running_jobs(connection, OWNER, ("1",))


@pytest.mark.full
@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_postgresql_reads_no_ended_job_to_find_others(tmp_path, postgres, mode):
    with closing(Database(tmp_path, postgres())) as database:
        database.write_blocking(job_rows.make_team, "team")
        seed = Seed("crawl", "http://a.example/", None, ())
        made = database.write_blocking(job_rows.insert_job, "team", seed, "{}", 2).id

        def fill(connection):
            step = {"kind": "'batch'", "state": "'scraping'"}
            ended = {"kind": "'crawl'", "state": "'completed'"}
            agent = {"kind": "'agent'", "state": "'scraping'"}
            for name, count, values in (
                ("1", OF_OTHERS, ended),
                ("2", 50, agent),
                ("3", 800, {**step, "parent_id": "'2-' || n"}),
            ):
                number = f"{name}00000 + n"
                own = {"id": f"'{name}-' || n", "number": number, "created_at": "n"}
                copy_job(connection, made, count, **own, **values)
            connection.exec_driver_sql(_RUNS)

        database.write_blocking(fill)
        for analyze in (False, True):
            if analyze:
                database.write_blocking(lambda c: c.exec_driver_sql("ANALYZE"))
            plans = plans_of(database, mode, look_for_jobs)
            assert len(plans) > 7
            assert reads_too_much(plans) == [], analyze
