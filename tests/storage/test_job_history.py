"""Lists of jobs and single calls: order, filters, and what a part of a list costs."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import closing

import pytest
from attrs import evolve
from sqlalchemy import event, select, update

from scraper_service.options.spider_arguments import batch_options, crawl_options
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import admission, job_history, job_rows
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.job_history import CALLS, JOBS, HistoryQuery
from scraper_service.storage.schema import job

TEAM, OTHER = "team", "other"
EVERY = HistoryQuery(kinds=frozenset({*JOBS.values(), *CALLS}), limit=10)
MANY = 100_000
MAX_STEPS = 20_000  # of SQLite for a part of a list: about a row each

_MANY_JOBS = """
INSERT INTO job (id, number, team_id, kind, version, state, url, target, options, open, done,
    failed, pages, held, credits, created_at, completed_at, expires_at)
  WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
  SELECT 'job-' || n, 100 + n, '{team}',
    CASE WHEN n / 1000 * 1000 = n THEN 'extract' ELSE 'crawl' END, 2,
    CASE WHEN n = 5 THEN 'scraping' WHEN n / 100 * 100 = n THEN 'failed'
      ELSE 'completed' END,
    'http://a.example/' || n, 'http://a.example/' || n, '{options}', 0, 1, 0, 1, 0, 1,
    {now} - n, {now}, {now} + 1000 FROM n
"""


@pytest.fixture
def stored(database):
    run(database, job_rows.make_team, TEAM)
    run(database, job_rows.make_team, OTHER)
    return database


def run(database, function, *args, **kwargs):
    return database.write_blocking(function, *args, **kwargs)


def start(database, url="http://a.example/", team=TEAM, **options):
    found = crawl_options({"url": url, **options})
    return run(database, admission.create_job, Terms(team_id=team), found, 2).id


def call(database, target="http://a.example/", team=TEAM, endpoint="scrape", **facts):
    made = Call(str(uuid.uuid4()), team, None, endpoint, 2, target, time.time())
    run(database, ledger.record, evolve(made, **facts), 1)
    return made.id


def part(database, query=EVERY, team=TEAM):
    """Return ids of a part of a list, and the position behind it."""
    found, behind = run(database, job_history.read_history, team, query)
    return [each.id for each in found], behind


def listed(database, query=EVERY, team=TEAM):
    """Return all ids of a list, read part by part."""
    ids = []
    while True:
        found, behind = part(database, query, team)
        ids += found
        if behind is None:
            return ids
        query = evolve(query, after=behind)


def summary(database, job_id, team=TEAM):
    found = run(database, job_history.read_details, job_id, team)
    return found and found.summary


def test_jobs_and_calls_are_listed_together_newest_first(stored):
    begun = []
    for _ in range(7):
        begun += [start(stored), call(stored), call(stored, endpoint="map")]
    start(stored, team=OTHER)
    assert listed(stored) == begun[::-1]
    assert listed(stored, evolve(EVERY, limit=1)) == begun[::-1]
    assert listed(stored, evolve(EVERY, limit=100)) == begun[::-1]


@pytest.mark.full(keep=1)
def test_new_jobs_never_shift_later_parts(stored):
    begun = [start(stored) if n % 2 else call(stored) for n in range(25)]
    query, found = evolve(EVERY, limit=3), []
    while True:
        ids, behind = part(stored, query)
        found += ids
        if behind is None:
            break
        query = evolve(query, after=behind)
        start(stored)
        call(stored)
    assert found == begun[::-1]


def test_jobs_of_the_same_moment_are_all_listed_once(stored):
    ids = {start(stored) for _ in range(9)} | {call(stored) for _ in range(9)}
    for table, at in (("job", "created_at"), ("activity", "at")):
        sql(stored, f"UPDATE {table} SET {at} = 1795000000.5")
    found = listed(stored, evolve(EVERY, limit=2))
    assert found == sorted(ids, reverse=True)


def sql(database, text):
    run(database, lambda connection: connection.exec_driver_sql(text))


def test_filters_by_kind_and_state(stored):
    queued, running, ended = (start(stored) for _ in range(3))
    run(stored, job_rows.start_job, running)
    run(stored, outcomes.end_job, ended, JobState.CANCELLED)
    paused, stopped = start(stored), start(stored)
    run(stored, job_rows.start_job, stopped)
    run(stored, outcomes.end_job, stopped, JobState.FAILED)
    ids = f"('{paused}', '{stopped}')"
    sql(stored, f"UPDATE job SET paused_at = 1 WHERE id IN {ids}")
    good, bad = call(stored), call(stored, error="no response")
    for states, expected in (
        ({"queued"}, [queued]),
        ({"running"}, [running]),
        ({"cancelled"}, [ended]),
        ({"completed"}, [good]),
        ({"failed"}, [bad, stopped]),
        ({"queued", "failed"}, [bad, stopped, queued]),
        ({"paused"}, [paused]),
        ({"paused", "running", "queued"}, [paused, running, queued]),
        (None, [bad, good, stopped, paused, ended, running, queued]),
    ):
        query = evolve(EVERY, states=states and frozenset(states))
        assert listed(stored, query) == expected, states
    for kinds, expected in (
        ({"crawl"}, [stopped, paused, ended, running, queued]),
        ({"scrape"}, [bad, good]),
        ({"agent", "monitor_check", "extract"}, []),
    ):
        assert listed(stored, evolve(EVERY, kinds=frozenset(kinds))) == expected


def test_filters_by_site_text_and_time(stored):
    first = start(stored, "https://docs.example.com:8443/Straße/x")
    at = summary(stored, first).created_at
    second = call(stored, "http://example.com/other")
    third = call(stored, "example.com", endpoint="search")
    fourth = start(stored, "http://notexample.com/")
    for change, expected in (
        ({"site": "example.com"}, [second, first]),
        ({"site": "docs.example.com"}, [first]),
        ({"site": "com"}, [fourth, second, first]),
        ({"text": "EXAMPLE.com"}, [fourth, third, second, first]),
        ({"text": "STRASSE"}, [first]),
        ({"text": "%"}, []),
        ({"until": at}, []),
        ({"since": at, "until": at + 1e-6}, [first]),
        ({"since": at}, [fourth, third, second, first]),
    ):
        assert listed(stored, evolve(EVERY, **change)) == expected, change


def test_zero_data_retention_hides_the_target(stored):
    hidden = start(stored, "http://hidden.example/", zero_data_retention="true")
    silent = call(stored, None)
    for job_id in (hidden, silent):
        found = summary(stored, job_id)
        assert (found.target, found.site) == (None, None)
    for change in ({"text": "hidden"}, {"site": "hidden.example"}):
        assert listed(stored, evolve(EVERY, **change)) == []
    assert listed(stored) == [silent, hidden]


def test_a_target_has_at_most_300_characters(stored):
    long = "http://a.example/" + "x" * 400
    for job_id in (start(stored, long), call(stored, long)):
        assert summary(stored, job_id).target == long[:300]


def test_a_job_of_another_team_is_unknown(stored):
    for job_id in (start(stored, team=OTHER), call(stored, team=OTHER)):
        assert summary(stored, job_id) is None
        assert summary(stored, job_id, OTHER).id == job_id


def test_expired_jobs_are_not_listed(stored):
    old, running, over = start(stored), start(stored), call(stored)
    run(stored, outcomes.end_job, old, JobState.FAILED, "x")
    for table in ("job", "activity"):
        sql(stored, f"UPDATE {table} SET expires_at = 1")
    assert listed(stored) == [running]
    assert summary(stored, old) is None
    assert summary(stored, over) is None


def test_counts_cover_all_urls_of_the_job(stored):
    urls = " ".join(f"http://a.example/{n}" for n in range(5))
    options = batch_options({"urls": urls})
    made = run(stored, admission.create_job, Terms(team_id=TEAM), options, 2)
    run(stored, leases.claim, made.id, "owner", 2)
    run(
        stored,
        lambda c: c.execute(
            update(job).where(job.c.id == made.id).values(held=3, skipped=4)
        ),
    )
    found = summary(stored, made.id)
    assert found.counts == {
        "pending": 3,
        "leased": 2,
        "held": 3,
        "done": 0,
        "failed": 0,
        "skipped": 4,
    }
    assert (found.kind, found.total, found.limit) == ("batch_scrape", 5, None)


def test_a_job_starts_once(stored):
    job_id = start(stored)
    assert summary(stored, job_id).started_at is None
    run(stored, job_rows.start_job, job_id)
    began = summary(stored, job_id).started_at
    assert began >= summary(stored, job_id).created_at
    run(stored, job_rows.start_job, job_id)
    assert summary(stored, job_id).started_at == began


def test_steps_of_model_jobs_are_not_listed(stored):
    parent, child = start(stored), start(stored)
    sql(stored, f"UPDATE job SET parent_id = '{parent}' WHERE id = '{child}'")
    assert listed(stored) == [parent]
    assert summary(stored, child) is None


# -- many jobs -----------------------------------------------------------------------


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled(request, tmp_path_factory):
    """A database with a hundred thousand jobs of a team."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_tables")()
    with closing(Database(tmp_path_factory.mktemp("many"), url)) as database:
        run(database, job_rows.make_team, TEAM)
        options = json.dumps({"origin": "api"})
        facts = {"team": TEAM, "options": options, "now": time.time()}
        sql(database, _MANY_JOBS.format(count=MANY, **facts))
        yield database


QUERIES = {
    "all": EVERY,
    "jobs": evolve(EVERY, kinds=frozenset(JOBS.values())),
    "rare kind": evolve(EVERY, kinds=frozenset({"extract"})),
    "rare state": evolve(EVERY, states=frozenset({"failed"})),
    "running": evolve(EVERY, states=frozenset({"running"})),
    "no match": evolve(EVERY, kinds=frozenset({"batch_scrape"})),
}


@pytest.mark.full(keep=4)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("is_analyzed", [False, True])
def test_a_part_reads_only_its_rows(filled, name, is_analyzed):
    if is_analyzed:
        sql(filled, "ANALYZE")
    query = QUERIES[name]
    if name in {"all", "jobs"}:
        # In the middle of the list.
        at = filled.write_blocking(
            lambda c: c.scalar(
                select(job.c.created_at).order_by(job.c.created_at).offset(50_000)
            )
        )
        query = evolve(query, after=job_history.ListPosition(at, "f"))
    assert _rows_read(filled, query) < MAX_STEPS


@pytest.mark.full
def test_a_scan_is_bounded_and_goes_on_at_its_end(filled):
    query = evolve(EVERY, text="example/99999", limit=5)
    calls, found = 0, []
    while True:
        summaries, behind = run(filled, job_history.read_history, TEAM, query)
        calls += 1
        found += [each.target for each in summaries]
        if behind is None:
            break
        query = evolve(query, after=behind)
    assert found == ["http://a.example/99999"]
    assert calls == pytest.approx(MANY / job_history.MAX_SCANNED, abs=1)


def _rows_read(database, query):
    """Return the number of rows or steps that the first statement of a part costs."""
    statements = []

    def read(connection):
        seen = _note_statements(connection, statements)
        try:
            found, _ = job_history.read_history(connection, TEAM, query)
        finally:
            seen()
        return found

    with database.engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            steps = [0]

            def count():
                steps[0] += 100

            raw = connection.connection.driver_connection
            raw.set_progress_handler(count, 100)
            read(connection)
            raw.set_progress_handler(None, 0)
            return steps[0]
        read(connection)
        return max(_explained(connection, *each) for each in statements)


def _note_statements(connection, statements):
    def note(_, __, statement, parameters, ___, ____):
        if "FROM job" in statement:
            statements.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    return lambda: event.remove(connection, "before_cursor_execute", note)


def _explained(connection, statement, parameters):
    """Return the most rows that a step of the plan read."""
    text = f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) {statement}"
    plan = connection.exec_driver_sql(text, parameters).scalar()
    return max(_rows_of(plan[0]["Plan"]))


def _rows_of(step):
    dropped = step.get("Rows Removed by Filter", 0)
    yield (step["Actual Rows"] + dropped) * step["Actual Loops"]
    for inner in step.get("Plans", ()):
        yield from _rows_of(inner)
