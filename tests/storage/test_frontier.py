"""The transactions of a job, as a contract that every database has to keep."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import evolve
from sqlalchemy import select, text, update
from sqlalchemy.exc import OperationalError

from scraper_service.discovery.sitemap import GUESS
from scraper_service.errors import JobNotFound
from scraper_service.options.spider_arguments import batch_options, crawl_options
from scraper_service.storage.accounts import credits as ledger_of
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.connections import ASIDE
from scraper_service.storage.frontier import leases as frontier
from scraper_service.storage.frontier import outcomes, refused_links
from scraper_service.storage.frontier.links import Seed
from scraper_service.storage.job_records import (
    ACTIVE,
    Job,
    JobState,
    Link,
    Outcome,
    RowState,
    UrlKind,
)
from scraper_service.storage.jobs import admission, job_deletion, job_rows, job_urls
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.schema import event, job, ledger, page, worker
from scraper_service.storage.schema import frontier as rows_of
from scraper_service.storage.transactions import lock_job, number_of
from tests.support.waiting import WAIT_S

TEAM = "team"
OWNER = "owner"


class Harness:
    """Calls the functions of the frontier as a crawler would, one by one."""

    def __init__(self, database):
        self.database = database
        self.run(job_rows.make_team, TEAM)

    def run(self, function, *args, **kwargs):
        work = self.database._writer.submit(
            lambda connection: function(connection, *args, **kwargs)
        )
        return work.result(timeout=WAIT_S)

    def start(self, keys=(0,), limit=None, kind="crawl"):
        links = [Link(key, f"http://a.example/{key}", 0) for key in keys]
        seed = Seed(kind, "http://a.example/", limit, tuple(links))
        return self.run(job_rows.insert_job, TEAM, seed, "{}", 2).id

    def claim(self, job_id, count=100, owner=OWNER):
        return self.run(frontier.claim, job_id, owner, count).rows

    def deliver(self, job_id, row, links=(), owner=OWNER, **changes):
        page = b'{"n":%d}' % row.key
        fields = {"page": page, "credits": 1, "links": self.links(*links)}
        if "final_key" in changes and (key := changes.pop("final_key")) is not None:
            fields["final"] = (key, f"http://a.example/{key}")
        return self.append(job_id, row, owner, **(fields | changes))

    def fail(self, job_id, row, owner=OWNER):
        return self.append(job_id, row, owner, code="SCRAPE_SITE_ERROR", error="x")

    def links(self, *keys):
        return tuple(Link(key, f"http://a.example/{key}", 1) for key in keys)

    def outcome(self, row, owner=OWNER, **fields):
        return Outcome(
            row_id=row.id,
            key=row.key,
            token=row.token,
            owner=owner,
            page_id=str(uuid.uuid4()),
            **fields,
        )

    def append(self, job_id, row, owner, **fields):
        outcome = self.outcome(row, owner, **fields)
        return self.append_all(job_id, [outcome])[0]

    def append_all(self, job_id, ended):
        return self.run(outcomes.append, job_id, ended)

    def job(self, job_id):
        return self.run(job_rows.get_job, job_id, TEAM)

    def rows(self, query):
        return self.run(lambda connection: connection.execute(query).all())

    def check(self, job_id):
        """Compare the counts of the job with its rows, its pages and its ledger."""
        found = self.job(job_id)
        of_job = rows_of.c.job_number == number_of(job_id)
        rows = self.rows(select(rows_of.c.state, rows_of.c.kind).where(of_job))
        states = Counter(r.state for r in rows)
        pages = self.rows(
            select(page.c.seq)
            .where(page.c.job_number == number_of(job_id))
            .order_by(page.c.seq)
        )
        charged = self.rows(select(ledger.c.credits).where(ledger.c.job_id == job_id))
        waits = states[RowState.PENDING] + states[RowState.LEASED]
        assert found.open + found.sitemaps == waits
        read = sum(r.state == RowState.DONE and r.kind == UrlKind.SITEMAP for r in rows)
        assert found.done + read == states[RowState.DONE]
        assert found.failed == states[RowState.FAILED]
        assert found.held == states[RowState.HELD]
        listed = self.run(refused_links.count, job_id)
        refused = states[RowState.SKIPPED] + states[RowState.ALIAS]
        assert found.skipped == refused + listed
        assert found.pages == len(pages) <= found.done
        assert [p.seq for p in pages] == list(range(len(pages)))
        assert found.credits == sum(row.credits for row in charged)
        assert (found.state is JobState.COMPLETED) <= (found.open == 0)
        return found

    def events(self, job_id):
        query = select(event.c.kind).where(event.c.job_number == number_of(job_id))
        return Counter(row[0] for row in self.rows(query.order_by(event.c.id)))


@pytest.fixture
def harness(database):
    return Harness(database)


def test_a_url_that_a_link_found_first_has_the_time_of_the_sitemap(harness):
    job_id = harness.start((0, 9))
    first, sitemap = harness.claim(job_id)
    harness.deliver(job_id, first, (1, 2))
    listed = [
        Link(key, f"http://a.example/{key}", 0, lastmod=f"2026-01-0{key}")
        for key in (1, 3)
    ]
    harness.append(job_id, sitemap, OWNER, is_done=True, links=tuple(listed))
    found = {row.key: row.lastmod for row in harness.claim(job_id)}
    assert found == {1: "2026-01-01", 2: None, 3: "2026-01-03"}
    harness.check(job_id)


def test_a_job_ends_with_its_last_url_exactly_once(harness):
    job_id = harness.start()
    [row] = harness.claim(job_id)
    first = harness.deliver(job_id, row, links=[1, 2])
    assert first.new_links == 2
    one, two = harness.claim(job_id)
    harness.deliver(job_id, one, links=[0, 1, 2])
    last = harness.fail(job_id, two)
    assert last.state is JobState.COMPLETED
    found = harness.check(job_id)
    assert (found.total, found.pages, found.failed) == (3, 2, 1)
    assert harness.events(job_id) == {"started": 1, "page": 3, "completed": 1}
    assert harness.claim(job_id) == ()


def test_outcomes_in_one_transaction_are_counted_as_in_separate_transactions(harness):
    job_id = harness.start(range(6), limit=5)
    rows = harness.claim(job_id)
    assert len(rows) == 5
    stale = evolve(harness.outcome(rows[4], page=b"{}"), token=rows[4].token + 1)
    ended = [
        harness.outcome(rows[0], page=b"{}", links=harness.links(7, 8)),
        harness.outcome(rows[1], page=b"{}", final=(2, "http://a.example/2")),
        harness.outcome(rows[2], page=b"{}", final=(1, "http://a.example/1")),
        harness.outcome(rows[3], code="SCRAPE_SITE_ERROR", links=harness.links(8, 9)),
        stale,
    ]
    commits = harness.append_all(job_id, ended)
    assert [found.accepted for found in commits] == [True, True, False, True, False]
    assert [found.delivered for found in commits] == [True, True, False, False, False]
    found = harness.check(job_id)
    # Two pages, one lease, and room for two of those that wait; row 2 is row 1's page.
    assert (found.pages, found.failed, found.open, found.held) == (2, 1, 3, 2)


def test_a_page_that_robots_txt_refuses_is_skipped_once(harness):
    """The warning names the refused start, and counts the failed pages."""
    job_id = harness.start(keys=(0, 1, 2))
    start, *others = harness.claim(job_id)
    refused = harness.outcome(start, code="robots", error="Disallow: /")
    for _ in range(2):  # as after a lost response
        [commit] = harness.append_all(job_id, [refused])
        assert (commit.accepted, commit.delivered) == (True, False)
    assert harness.check(job_id).skipped == 1
    harness.append_all(job_id, [harness.outcome(x, error="It broke") for x in others])
    assert harness.job(job_id).warning.endswith(
        "http://a.example/0: Disallow: /. 2 more URLs failed or were left out."
    )


@pytest.mark.parametrize("code", ["discovery_depth", "nofollow"])
def test_refused_urls_are_listed_and_not_fetched(harness, code):
    job_id = harness.start()
    [row] = harness.claim(job_id)
    refused = Link(9, "http://b.example/", 1, code="external", error="b.example")
    deep = Link(8, "http://a.example/8", 3, code=code, error="3 of 2")
    near = Link(8, "http://a.example/8", 1, found_on=row.id)
    first = harness.outcome(row, page=b"{}", links=(refused, deep, *harness.links(1)))
    harness.append_all(job_id, [first])
    found = harness.check(job_id)
    assert (found.total, found.skipped) == (2, 2)
    [one] = harness.claim(job_id)
    harness.append_all(job_id, [harness.outcome(one, page=b"{}", links=(near, near))])
    [eight] = harness.claim(job_id)
    assert (eight.key, eight.depth) == (8, 1)
    assert harness.deliver(job_id, eight).state is JobState.COMPLETED
    assert harness.check(job_id).total == 3


def test_guessed_sitemaps_that_are_missing_leave_no_rows(harness):
    job_id = harness.start()
    [row] = harness.claim(job_id)
    guesses = [
        Link(n, f"http://a.example/{n}.xml", 2, kind=UrlKind.SITEMAP) for n in (7, 8)
    ]
    harness.append_all(job_id, [harness.outcome(row, page=b"{}", links=guesses)])
    files = harness.claim(job_id)
    end = {"kind": UrlKind.SITEMAP, "code": GUESS}
    ends = [evolve(harness.outcome(file, error="none"), **end) for file in files]
    harness.append_all(job_id, ends)
    found = harness.check(job_id)
    assert (found.state, found.total, found.failed) == (JobState.COMPLETED, 1, 0)
    with harness.database.engine.connect() as connection:
        query = select(rows_of.c.id).where(rows_of.c.kind == UrlKind.SITEMAP)
        assert connection.execute(query).all() == []
        query = select(job.c.sitemap_files, job.c.sitemaps).where(job.c.id == job_id)
        assert tuple(connection.execute(query).one()) == (0, 0)


def test_links_to_known_pages_change_no_rows(harness):
    if harness.database.engine.dialect.name != "postgresql":
        pytest.skip("only PostgreSQL would lock their rows, and log each page of them")
    job_id = harness.start(keys=(0, 1, 2))
    [row] = harness.claim(job_id, 1)
    known = text("SELECT key, xmin, xmax FROM frontier WHERE key > 0 ORDER BY key")
    before = harness.run(lambda c: c.execute(known).all())
    assert harness.deliver(job_id, row, links=(3, 1, 2, 1)).new_links == 1
    assert harness.run(lambda c: c.execute(known).all())[:-1] == before
    assert len(before) == 2


def test_a_job_waits_for_its_sitemaps_which_are_in_no_total(harness):
    seed = (
        Link(0, "http://a.example/", 0),
        Link(1, "http://a.example/sitemap.xml", 0, kind=UrlKind.SITEMAP),
    )
    job_id = harness.run(
        job_rows.insert_job,
        TEAM,
        Seed("crawl", "http://a.example/", 10, seed),
        "{}",
        2,
    ).id
    start, sitemap = harness.claim(job_id)
    assert (start.kind, sitemap.kind) == (UrlKind.PAGE, UrlKind.SITEMAP)
    assert harness.deliver(job_id, start).state is JobState.SCRAPING
    found = harness.check(job_id)
    assert (found.total, found.pages, found.sitemaps) == (1, 1, 1)
    read = harness.outcome(
        sitemap, kind=UrlKind.SITEMAP, is_done=True, links=harness.links(5)
    )
    assert harness.append_all(job_id, [read])[0].new_links == 1
    [five] = harness.claim(job_id)
    assert harness.deliver(job_id, five).state is JobState.COMPLETED
    assert harness.check(job_id).total == 2


def test_a_url_is_leased_to_one_owner(harness):
    job_id = harness.start(range(10))
    mine, theirs = harness.claim(job_id, 6), harness.claim(job_id, 6, "other")
    assert len(mine) == 6
    assert len(theirs) == 4
    assert not {row.id for row in mine} & {row.id for row in theirs}


def test_a_lost_url_lease_stores_no_page(harness):
    job_id = harness.start([0, 1])
    row, _ = harness.claim(job_id)
    harness.run(frontier.release, job_id, [(row.id, row.token)])
    [again] = harness.claim(job_id, 1, "other")
    assert not harness.deliver(job_id, row, links=[5]).accepted
    assert harness.check(job_id).total == 2
    assert harness.deliver(job_id, again, owner="other").accepted
    assert not harness.deliver(job_id, again, owner="other").accepted
    assert harness.check(job_id).pages == 1


@pytest.mark.parametrize("limit", [1, 2, 5, 10])
def test_the_limit_is_exact_and_does_not_count_failed_pages(harness, limit):
    job_id = harness.start([0], limit)
    numbers = iter(range(1, 1000))
    failures = 0
    while rows := harness.claim(job_id):
        assert len(rows) <= limit
        for row in rows:
            links = [next(numbers) for _ in range(3)]
            if row.key % 3 == 1 and failures < 4:
                failures += 1
                harness.fail(job_id, row)
            else:
                harness.deliver(job_id, row, links=links)
            found = harness.check(job_id)
            assert found.open + found.pages <= limit
    assert found.state is JobState.COMPLETED
    assert found.pages == limit
    assert found.failed == failures


def test_a_redirect_to_a_known_page_is_delivered_once(harness):
    job_id = harness.start([0, 1, 2, 3])
    zero, one, two, three = harness.claim(job_id)
    assert harness.deliver(job_id, zero, final_key=77).delivered
    assert not harness.deliver(job_id, one, final_key=77).delivered
    assert not harness.deliver(job_id, two, final_key=0).delivered
    assert harness.deliver(job_id, three, links=[77]).new_links == 0
    found = harness.check(job_id)
    assert (found.total, found.pages, found.state) == (4, 2, JobState.COMPLETED)


def test_a_redirect_to_a_pending_page_replaces_its_row(harness):
    job_id = harness.start([0, 1])
    [zero] = harness.claim(job_id, 1)
    assert harness.deliver(job_id, zero, final_key=1).delivered
    found = harness.check(job_id)
    assert (found.total, found.pages, found.state) == (1, 1, JobState.COMPLETED)


def test_a_cancelled_job_accepts_no_pages_or_links(harness):
    job_id = harness.start([0, 1])
    zero, _ = harness.claim(job_id)
    assert harness.run(outcomes.end_job, job_id, JobState.CANCELLED)
    assert not harness.run(outcomes.end_job, job_id, JobState.FAILED)
    assert not harness.deliver(job_id, zero).accepted
    assert harness.check(job_id).state is JobState.CANCELLED
    assert harness.events(job_id) == {"started": 1, "cancelled": 1}


def test_leases_of_a_process_that_is_gone_are_given_to_others(harness):
    job_id = harness.start([0, 1])
    harness.run(frontier.beat, "live", 60)
    [dead] = harness.claim(job_id, 1, "dead")
    harness.run(frontier.beat, "dead", -1)
    [live] = harness.claim(job_id, 1, "live")
    assert harness.run(frontier.reap, job_id) == 1
    [again] = harness.claim(job_id, 5, "live")
    assert again.id == dead.id
    assert again.token == dead.token + 1
    assert not harness.deliver(job_id, dead, owner="dead").accepted
    assert harness.deliver(job_id, live, owner="live").accepted
    harness.check(job_id)


def test_a_page_that_ends_its_process_each_time_fails_in_the_end(harness):
    job_id = harness.start([0, 1])
    for number in range(frontier.MAX_ATTEMPTS):
        owner = f"dead {number}"
        assert harness.claim(job_id, 1, owner)
        harness.run(frontier.beat, owner, -1)
        harness.run(frontier.reap, job_id)
    found = harness.check(job_id)
    assert found.failed == 1
    [error], _ = harness.run(job_urls.read_errors, job_id)
    assert error.code == "SCRAPE_RETRY_LIMIT"


def test_a_lease_that_was_given_back_is_no_attempt(harness):
    job_id = harness.start([0])
    for _ in range(frontier.MAX_ATTEMPTS + 2):
        [row] = harness.claim(job_id)
        harness.run(frontier.release, job_id, [(row.id, row.token)])
    assert harness.claim(job_id)
    harness.run(frontier.beat, OWNER, -1)
    harness.run(frontier.reap, job_id)
    assert harness.check(job_id).failed == 0


def test_pages_are_read_in_chunks_by_count_and_size(harness):
    job_id = harness.start(range(8))
    sizes = [10, 40, 60, 250, 30, 30, 40, 100]
    bodies = []
    for row, size in zip(harness.claim(job_id), sizes, strict=True):
        bodies.append(b"%d" % row.key + b"x" * (size - 1))
        harness.deliver(job_id, row, page=bodies[-1])
    read, chunks = [], []
    while chunk := harness.run(job_rows.read_pages, job_id, len(read), max_bytes=100):
        chunks.append(len(chunk))
        read += chunk
    assert read == bodies
    assert chunks == [2, 1, 1, 3, 1]
    assert harness.run(job_rows.read_pages, job_id, 4, 2, 100) == bodies[4:6]
    assert harness.run(job_rows.read_pages, job_id, 8) == []


def test_a_batch_that_was_completed_goes_on_with_new_entries(harness):
    job_id = harness.start(range(2), kind="batch")
    for row in harness.claim(job_id):
        harness.deliver(job_id, row)
    assert harness.check(job_id).state is JobState.COMPLETED
    urls = ["http://a.example/x", "http://a.example/x"]
    asked = batch_options({"urls": ",".join(urls)})
    added = harness.run(admission.add_entries, job_id, Terms(team_id=TEAM), asked)
    assert added.state is JobState.SCRAPING
    assert added.total == 4
    for row in harness.claim(job_id):
        harness.deliver(job_id, row)
    assert harness.check(job_id).pages == 4
    found = harness.run(admission.add_entries, job_id, Terms(team_id="other"), asked)
    assert isinstance(found, JobNotFound)


def test_expired_jobs_are_deleted_in_slices(harness, monkeypatch):
    monkeypatch.setattr(job_deletion, "EXPIRE_ROWS", 3)
    job_id, kept = harness.start(range(8)), harness.start()
    for row in harness.claim(job_id):
        harness.deliver(job_id, row)
    call = Call("scrape", TEAM, None, "scrape", 2, "http://a.example/", 1.0)
    harness.run(ledger_of.record, call, 1, b"{}")
    old = {"expires_at": 1.0}
    harness.run(
        lambda c: c.execute(update(job).where(job.c.id == job_id).values(**old))
    )
    assert harness.job(job_id) is None
    steps = 0
    while harness.run(job_deletion.expire):
        steps += 1
    assert steps > 3
    assert (
        harness.rows(
            select(rows_of.c.id).where(rows_of.c.job_number == number_of(job_id))
        )
        == []
    )
    assert harness.rows(select(page.c.id)) == []
    assert harness.check(kept).total == 1
    assert harness.run(job_rows.read_scrape, "scrape", TEAM) == b"{}"


@pytest.mark.full
def test_random_crawls_by_several_owners_keep_the_law(harness):
    chance = random.Random(4)
    job_id = harness.start([0], limit=60)
    harness.run(frontier.beat, "b", 60)
    leases, step = [], 0
    while harness.job(job_id).is_active:
        step += 1
        assert step < 2000
        if chance.random() < 0.4 or not leases:
            owner = chance.choice("ab")
            rows = harness.claim(job_id, chance.randint(1, 5), owner)
            leases += [(owner, row) for row in rows]
            continue
        owner, row = leases.pop(chance.randrange(len(leases)))
        fate = chance.random() if harness.job(job_id).pages > 3 else 1
        links = [chance.randrange(200) for _ in range(6)]
        if fate < 0.15:
            harness.run(frontier.release, job_id, [(row.id, row.token)])
        elif fate < 0.3:
            harness.fail(job_id, row, owner)
        else:
            final = chance.choice([None, None, row.key, chance.randrange(400)])
            harness.deliver(job_id, row, links, owner, final_key=final)
        harness.check(job_id)
    assert harness.check(job_id).pages == 60


def test_a_failed_write_does_not_fail_its_group(harness):
    job_id = harness.start([0])
    writer = harness.database._writer
    gate = threading.Event()
    first = writer.submit(lambda _: gate.wait(10))
    bad = writer.submit(lambda connection: 1 / 0)
    good = writer.submit(lambda connection: job_rows.get_job(connection, job_id, TEAM))
    gate.set()
    assert first.result(10)
    assert good.result(10).id == job_id
    with pytest.raises(ZeroDivisionError):
        bad.result(10)


def test_a_worker_has_one_row(harness):
    for _ in range(3):
        harness.run(frontier.beat, OWNER, 10)
    assert len(harness.rows(select(worker.c.id))) == 1


def test_an_idempotency_key_starts_one_job(harness):
    key = str(uuid.uuid4())
    asked = crawl_options({"url": "http://a.example/"})

    def start():
        return harness.database._writer.submit(
            lambda connection: admission.create_job(
                connection, Terms(team_id=TEAM), asked, 2, key
            )
        )

    made = [work.result(10) for work in [start() for _ in range(20)]]
    assert len([found for found in made if isinstance(found, Job)]) == 1
    assert harness.run(admission.is_key_used, TEAM, key)
    assert not harness.run(admission.is_key_used, TEAM, str(uuid.uuid4()))


def test_leases_wait_for_no_page_that_is_stored(harness):
    engine = harness.database.engine
    if engine.dialect.name != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    job_id = harness.start(range(9), limit=6)
    first, *_ = harness.claim(job_id, 3)
    with engine.connect() as storing, engine.connect() as claiming:
        for each in (storing, claiming):
            each.execute(text("SET lock_timeout = '200ms'"))
        outcome = harness.outcome(first, page=b"{}", links=harness.links(20, 21))
        outcomes.append(storing, job_id, [outcome])
        found = frontier.claim(claiming, job_id, "other", 3)
        assert [row.key for row in found.rows] == [3, 4, 5]
        # What takes pending URLs away waits for both.
        with engine.connect() as changing:
            changing.execute(text("SET lock_timeout = '200ms'"))
            with pytest.raises(OperationalError):
                lock_job(changing, job_id)
        claiming.commit()
        storing.commit()
    counted = harness.check(job_id)
    assert (counted.pages, counted.open, counted.held) == (1, 5, 5)


def test_processes_that_claim_and_store_together_keep_the_limit(harness):
    if harness.database.engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    job_id = harness.start(limit=200)

    def work(owner):
        rng = random.Random(owner)
        engine = harness.database.engine.execution_options(waits=ASIDE)
        state = JobState.QUEUED
        while state in ACTIVE:
            with engine.begin() as connection:
                found = frontier.claim(connection, job_id, owner, rng.randint(1, 8))
            state = found.state
            if not found.rows:
                time.sleep(0.01)
                continue
            ended = [
                harness.outcome(
                    row,
                    owner,
                    page=b"{}" if rng.random() > 0.1 else None,
                    credits=1,
                    links=harness.links(*(rng.randrange(1000) for _ in range(20))),
                )
                for row in found.rows
            ]
            with engine.begin() as connection:
                commits = outcomes.append(connection, job_id, ended)
            state = commits[-1].state

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, "abcd", timeout=WAIT_S))
    counted = harness.check(job_id)
    assert counted.state is JobState.COMPLETED
    assert counted.pages == 200
    assert harness.events(job_id)["completed"] == 1


def test_urls_of_other_sites_are_found_after_many_urls_of_one_site(
    harness, monkeypatch
):
    monkeypatch.setattr(frontier, "LOOK_ROWS", 10)
    sites = ["a.example"] * 25 + ["b_example.test"] * 3 + ["a.example"] * 4
    links = [Link(n, f"http://{site}/{n}", 0) for n, site in enumerate(sites)]
    seed = Seed("batch", "http://a.example/", None, tuple(links))
    job_id = harness.run(job_rows.insert_job, TEAM, seed, "{}", 2).id

    def look(last, *names):
        beyond = frontier.Beyond(last or 0, tuple(f"http://{name}/" for name in names))
        return harness.run(frontier.claim, job_id, OWNER, 2, beyond)

    first = harness.claim(job_id, 5)
    assert {row.url[:17] for row in first} == {"http://a.example/"}
    found, last = [], 0
    for _ in range(4):
        claim = look(last, "a.example")
        found.append([row.key for row in claim.rows])
        last = claim.last
        harness.check(job_id)
    # Ten rows at a time, and no more than two of them.
    assert found == [[], [], [25, 26], [27]]
    assert last is None  # the end
    assert [row.key for row in look(0, "c.example").rows] == [5, 6]
    # An underscore in a name stands for itself.
    assert [row.key for row in look(0, "b-example.test").rows] == [7, 8]


def test_a_process_whose_lease_ended_leases_no_urls_before_its_heartbeat(harness):
    job_id = harness.start(range(3))
    harness.run(frontier.beat, OWNER, -1)
    assert harness.claim(job_id) == ()
    harness.run(frontier.beat, OWNER, 60)
    assert len(harness.claim(job_id)) == 3
