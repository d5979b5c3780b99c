"""Credits, rates and shares of permits, as a contract that every database has to keep."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import uuid
from collections import Counter

import pytest
from sqlalchemy import func, select, update

from scraper_service.crawling.politeness.shared_limit import TeamPermits
from scraper_service.errors import (
    IdempotencyKeyUsed,
    OutOfCredits,
    QueueFull,
    RateLimited,
)
from scraper_service.options.spider_arguments import batch_options, crawl_options
from scraper_service.storage import politeness as stored_permits
from scraper_service.storage import transactions
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import usage
from scraper_service.storage.accounts.credits import Call
from scraper_service.storage.accounts.teams import (
    UNLIMITED,
    TeamChange,
    change_team,
    list_teams,
)
from scraper_service.storage.database import Database
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import Job, JobState, Outcome
from scraper_service.storage.jobs import admission, job_rows
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.politeness import Need
from scraper_service.storage.schema import ledger as ledger_table
from scraper_service.storage.schema import permit, rate
from scraper_service.storage.transactions import now_of
from tests.support.waiting import WAIT_S

TEAM, OTHER, OWNER = "team", "other", "owner"


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request, tmp_path):
    """Two processes' views of one database."""
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_tables")()
    both = [Database(tmp_path, url) for _ in range(2)]
    for name in (TEAM, OTHER):
        write(both[0], job_rows.make_team, name)
    yield both
    for each in both:
        each.close()


@pytest.fixture
def database(databases):
    return databases[0]


def write(database, function, *args, name=""):
    """Call a function as :meth:`Database.write` does for a name."""
    work = database._writer.submit(lambda c: function(c, *args), name)
    return work.result(timeout=WAIT_S)


def first(database, function, *args):
    return write(database, function, *args, name=f"!{args[0]}")


def give(database, amount, name=TEAM):
    write(database, change_team, name, TeamChange(credits=amount))


def balance(database, name=TEAM):
    return write(database, ledger.balance, name)


def a_call(name=TEAM):
    return Call(str(uuid.uuid4()), name, None, "scrape", 2, "http://a.example/", 1.0)


def batch(count):
    urls = "\n".join(f"http://a.example/{n}" for n in range(count))
    return batch_options({"urls": urls})


def start(database, asked, **terms):
    given = {"team_id": TEAM, "page_price": 1, **terms}
    return write(database, admission.create_job, Terms(**given), asked, 2)


def finish(database, job_id, price=1, page=b"{}"):
    """Deliver every page of a job."""
    while rows := write(database, leases.claim, job_id, OWNER, 10, name=job_id).rows:
        ended = [
            Outcome(
                row_id=row.id,
                key=row.key,
                token=row.token,
                owner=OWNER,
                page_id=str(uuid.uuid4()),
                page=page,
                credits=price if page else 0,
            )
            for row in rows
        ]
        work = [
            database._writer.submit_each(outcomes.append, job_id, each)
            for each in ended
        ]
        for each in work:
            each.result(60)


def charged(database, name=TEAM):
    query = select(func.coalesce(func.sum(ledger_table.c.credits), 0))
    return write(
        database, lambda c: int(c.scalar(query.where(ledger_table.c.team_id == name)))
    )


@pytest.mark.full
def test_processes_never_overspend_the_balance(databases):
    give(databases[0], 100)
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        found = list(
            threads.map(
                lambda n: first(databases[n % 2], ledger.take, TEAM, 1), range(300)
            )
        )
    assert Counter(found) == {None: 100, 0: 200}
    assert balance(databases[0]) == 0


def test_a_call_is_charged_its_final_price(database):
    give(database, 10)
    for held, price, left in ((2, 2, 8), (2, 0, 8), (1, 5, 3), (3, 1, 2)):
        call = a_call()
        assert write(database, ledger.open_hold, call, held, OWNER) is None
        assert write(database, ledger.settle, call, price, None) is None
        assert balance(database) == left
    assert charged(database) == 8
    call = a_call()
    write(database, ledger.open_hold, call, 1, OWNER)
    assert write(database, ledger.settle, call, 3, b"{}") == 2
    assert (balance(database), charged(database)) == (2, 8)
    assert write(database, job_rows.read_scrape, call.id, TEAM) is None


def test_credits_reserved_by_a_lost_process_come_back_when_needed(database):
    give(database, 2)
    write(database, leases.beat, OWNER, 100)
    for owner in (OWNER, "lost"):
        assert write(database, ledger.open_hold, a_call(), 1, owner) is None
    assert balance(database) == 1
    assert write(database, ledger.take, TEAM, 1) is None
    assert write(database, ledger.take, TEAM, 1) == 0
    write(database, leases.beat, OWNER, -1)
    assert balance(database) == 1


def test_a_job_reserves_credits_for_its_pages_and_returns_the_remainder(database):
    give(database, 50)
    found = start(database, batch(5), page_price=2)
    assert (found.page_price, balance(database)) == (2, 40)
    finish(database, found.id, price=1)
    assert write(database, job_rows.get_job, found.id, TEAM).state is JobState.COMPLETED
    assert (balance(database), charged(database)) == (45, 5)
    ended = start(database, batch(5))
    assert balance(database) == 40
    write(database, outcomes.end_job, ended.id, JobState.FAILED, "x", name=ended.id)
    assert balance(database) == 45
    write(database, outcomes.end_job, ended.id, JobState.CANCELLED, name=ended.id)
    assert balance(database) == 45


def test_a_dear_page_of_a_job_is_paid_beforehand_or_not_at_all(database):
    give(database, 5)
    found = start(database, batch(1))
    row = write(database, leases.claim, found.id, OWNER, 1, name=found.id).rows[0]
    for amount, paid, left in ((5, False, 4), (3, True, 1), (3, True, 1), (9, True, 1)):
        # A second call for the page is a repetition: the response of the first was lost.
        page = TEAM, found.id, row.id, "the page", amount
        assert write(database, ledger.top_up, *page) is paid
        assert balance(database) == left
    lease = [(row.id, row.token)]
    write(database, leases.release, found.id, lease, name=found.id)
    finish(database, found.id, price=4)
    assert (balance(database), charged(database)) == (1, 4)
    late = TEAM, found.id, row.id, "another page", 1
    assert write(database, ledger.top_up, *late) is True  # the job has ended
    assert balance(database) == 1


def test_a_refused_job_takes_no_credits(database):
    give(database, 5)
    used = str(uuid.uuid4())
    terms = Terms(team_id=TEAM, page_price=1, most_jobs=2)
    asked = crawl_options({"url": "http://a.example/", "limit": "3"})

    def call(terms, asked, key=None):
        return write(database, admission.create_job, terms, asked, 2, key)

    refusal = call(terms, batch(6), used)
    assert isinstance(refusal, OutOfCredits)
    assert (refusal.needed, refusal.remaining) == (6, 5)
    assert isinstance(call(terms, asked, used), Job)
    assert isinstance(call(terms, batch(1), used), IdempotencyKeyUsed)
    assert balance(database) == 2
    lowered = call(terms, asked)
    assert (lowered.page_limit, balance(database)) == (2, 0)
    assert isinstance(call(terms, asked), QueueFull)
    elsewhere = Terms(team_id=TEAM, page_price=1, least_pages=3)
    assert isinstance(call(elsewhere, asked), OutOfCredits)


def test_a_balance_is_changed_while_it_is_used(database):
    found = start(database, batch(5), page_price=None)
    assert balance(database) is None
    give(database, 10)
    finish(database, found.id)
    assert (balance(database), charged(database)) == (10, 5)  # it began without one
    reserved = start(database, batch(4))
    write(database, change_team, TEAM, TeamChange(more_credits=5, concurrency=3))
    assert balance(database) == 11
    write(database, change_team, TEAM, TeamChange(rates={"map": 3, "crawl": 1}))
    write(database, change_team, TEAM, TeamChange(rates={"crawl": None}))
    [row] = [each for each in write(database, list_teams) if each.id == TEAM]
    assert (row.credits, row.plan_credits, row.concurrency) == (11, 15, 3)
    assert row.rates == {"map": 3}
    give(database, UNLIMITED)
    finish(database, reserved.id)
    assert balance(database) is None
    with pytest.raises(ValueError, match="set a number first"):
        write(database, change_team, TEAM, TeamChange(more_credits=1))


@pytest.mark.full
def test_parallel_charges_add_up_without_a_deadlock(databases, caplog):
    """Calls, starts, pages and ends of jobs of two teams, from two processes."""
    for name in (TEAM, OTHER):
        give(databases[0], 10_000, name)
    caplog.set_level(logging.INFO)

    def work(n):
        database, name = databases[n % 2], (TEAM, OTHER)[n // 2 % 2]
        call = a_call(name)
        first(database, lambda c, _: ledger.open_hold(c, call, 2, OWNER), name)
        terms = Terms(team_id=name, page_price=1)
        found = first(
            database, lambda c, _: admission.create_job(c, terms, batch(6), 2), name
        )
        other = databases[(n + 1) % 2]
        with other.engine.execution_options(immediate=True).begin() as connection:
            ledger.top_up(connection, name, found.id, -n, f"page {n}", 3)
        finish(database, found.id, page=None if n % 5 == 0 else b"{}")
        first(database, lambda c, _: ledger.settle(c, call, 1, b"{}"), name)
        state = JobState.CANCELLED
        write(other, outcomes.end_job, found.id, state, name=found.id)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(40)))
    for name in (TEAM, OTHER):
        assert balance(databases[0], name) == 10_000 - charged(databases[0], name)
    assert charged(databases[0], TEAM) == 20 + 6 * 16
    assert "deadlock" not in caplog.text


def test_parallel_calls_pass_up_to_the_rate_limit(databases):
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        found = list(
            threads.map(
                lambda n: first(databases[n % 2], usage.count_call, TEAM, "map", 20),
                range(100),
            )
        )
    refused = [each for each in found if each]
    assert len(refused) == 80
    assert all(isinstance(each, RateLimited) for each in refused)
    assert {each.used for each in refused} == {20}
    assert all(1 <= each.retry_after_s <= 60 for each in refused)
    assert first(databases[0], usage.count_call, TEAM, "crawl", 1) is None
    assert first(databases[0], usage.count_call, OTHER, "map", 1) is None
    # A minute after the first call the bucket is full again.
    write(databases[0], lambda c: c.execute(update(rate).values(until=1.0)))
    assert first(databases[0], usage.count_call, TEAM, "map", 1) is None
    assert first(databases[0], usage.count_call, TEAM, "map", 1).used == 1


def test_a_full_bucket_does_not_outlast_a_clock_that_is_set_back(database):
    assert first(database, usage.count_call, TEAM, "map", 1) is None
    write(database, lambda c: c.execute(update(rate).values(until=rate.c.until + 7200)))
    assert first(database, usage.count_call, TEAM, "map", 1) is None
    assert first(database, usage.count_call, TEAM, "map", 1).retry_after_s <= 60


# -- permits -----------------------------------------------------------------------------------


def ask(database, owner, wanted, in_use, limit=4):
    needs = [Need(TEAM, limit, wanted, in_use)]
    [grant] = write(
        database, stored_permits.ask_for_permits, stored_permits.TEAM, owner, needs
    )
    return grant


@pytest.fixture
def two_owners(database):
    for owner in ("a", "b"):
        write(database, leases.beat, owner, 100)
    write(database, change_team, TEAM, TeamChange(concurrency=4))
    return database


def test_a_process_knows_where_a_team_has_pages(two_owners):
    def elsewhere():
        limits, found = write(two_owners, stored_permits.read_teams, "b")
        assert limits == {TEAM: 4}
        return found

    assert elsewhere() == {}
    ask(two_owners, "a", 4, 1)
    ask(two_owners, "b", 4, 1)
    assert elsewhere() == {TEAM: (1, 1)}
    write(two_owners, leases.beat, "c", 100)
    ask(two_owners, "c", 4, 2)
    assert elsewhere() == {TEAM: (2, 3)}
    write(two_owners, leases.forget_worker, "c")
    assert elsewhere() == {TEAM: (1, 1)}


def test_processes_share_permits_equally(two_owners):
    assert ask(two_owners, "a", 4, 0) == (4, 4)
    assert ask(two_owners, "b", 4, 0) == (0, 0)
    # Who has them all gives up half, as its pages end.
    assert ask(two_owners, "a", 4, 4) == (2, 4)
    assert ask(two_owners, "b", 4, 0) == (0, 0)
    assert ask(two_owners, "a", 4, 3) == (2, 3)
    assert ask(two_owners, "b", 4, 0) == (1, 1)
    assert ask(two_owners, "a", 4, 2) == (2, 2)
    assert ask(two_owners, "b", 4, 1) == (2, 2)
    # And has them again when nobody else wants any.
    assert ask(two_owners, "b", 0, 0) == (0, 0)
    assert ask(two_owners, "a", 4, 2) == (4, 4)


def test_a_dead_process_has_no_permits(two_owners):
    assert ask(two_owners, "a", 4, 4).granted == 4
    assert ask(two_owners, "b", 4, 0).granted == 0
    write(two_owners, leases.beat, "a", -1)
    assert ask(two_owners, "b", 4, 0) == (4, 4)


def test_a_single_permit_rotates_between_processes(two_owners):
    assert ask(two_owners, "a", 1, 0, limit=1).target == 1
    assert ask(two_owners, "b", 1, 0, limit=1).target == 0
    assert ask(two_owners, "a", 1, 1, limit=1) == (0, 1)
    assert ask(two_owners, "a", 1, 0, limit=1) == (0, 0)  # b has waited for longer
    assert ask(two_owners, "b", 1, 0, limit=1) == (1, 1)


def test_pages_of_two_processes_never_exceed_the_limit(databases):
    write(databases[0], change_team, TEAM, TeamChange(concurrency=3))
    for owner in ("a", "b"):
        write(databases[0], leases.beat, owner, 100)
    now = most = 0
    done = Counter()

    async def process(permits, owner):
        async def page(job_id):
            nonlocal now, most
            if not permits.enter(TEAM):
                await permits.wait(TEAM, job_id)
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.02)
            now -= 1
            done[owner, job_id] += 1
            permits.leave(TEAM)

        await asyncio.gather(*(page(f"{n % 3}") for n in range(30)))
        assert permits.in_use(TEAM) == 0

    async def refreshing(permits):
        # For as long as the process lives: only this returns the permits of idle teams.
        while True:
            await permits.refresh()
            await permits.shared_limit.look()
            await asyncio.sleep(0.1)

    async def run():
        both = [TeamPermits(), TeamPermits()]
        for permits, database, owner in zip(both, databases, "ab", strict=True):
            permits.connect(database, owner)
            await permits.refresh()
        tasks = [asyncio.ensure_future(refreshing(permits)) for permits in both]
        await asyncio.wait_for(
            asyncio.gather(*(process(p, o) for p, o in zip(both, "ab", strict=True))),
            60,
        )
        for task in tasks:
            task.cancel()

    asyncio.run(run())
    assert most == 3
    assert set(done.values()) == {10}
    assert len(done) == 6


def test_teams_without_a_limit_need_no_permits_of_the_database(database):
    async def run():
        permits = TeamPermits()
        permits.connect(database, OWNER)
        await permits.refresh()
        await permits.shared_limit.look()
        assert all(permits.enter(TEAM) for _ in range(1000))
        await permits.shared_limit.look()
        for _ in range(1000):
            permits.leave(TEAM)
        await asyncio.gather(*permits.shared_limit._tasks)

    asyncio.run(run())
    assert write(database, parts) == []


def parts(connection):
    return connection.execute(select(permit).where(permit.c.name != "*")).all()


def test_processes_know_the_pages_of_a_team_without_limit(database):
    async def run():
        both = first, second = TeamPermits(), TeamPermits()
        for permits, owner in zip(both, "ab", strict=True):
            await database.write(leases.beat, owner, 100)
            permits.connect(database, owner)
        for permits in (first, second, first):  # it asks when all others do
            await permits.shared_limit.look()

        async def told():
            await first.shared_limit.look()
            await asyncio.gather(*first.shared_limit._tasks)
            await second.refresh()
            return second.processes_of(TEAM), second.in_use_elsewhere(TEAM)

        assert all(first.enter(TEAM) for _ in range(3))
        assert await told() == (2, 3)
        first.leave(TEAM)
        assert await told() == (2, 2)
        for _ in range(2):
            first.leave(TEAM)
        assert await told() == (1, 0)
        assert await database.read(parts) == []

    asyncio.run(run())


def test_charges_of_long_ago_are_deleted_and_balances_stay(database, monkeypatch):
    monkeypatch.setattr(transactions, "EXPIRE_ROWS", 2)

    def work(function, *args):
        return database._writer.submit(lambda c: function(c, *args)).result(WAIT_S)

    now = work(now_of)
    for name in (TEAM, OTHER):
        work(job_rows.make_team, name)
        work(change_team, name, TeamChange(credits=10))
        for days in (1, 399, 401, 402, 500):
            row = ledger.charge_row(
                str(uuid.uuid4()), name, None, None, 1, now - days * ledger.DAY_S
            )
            work(ledger.ADD_CHARGE.run, row)
    assert sorted(work(ledger.teams_with_charges, 400)) == sorted([TEAM, OTHER])
    deleted = [work(ledger.expire, TEAM, 400) for _ in range(3)]
    assert deleted == [2, 1, 0]  # in slices
    assert work(ledger.teams_with_charges, 400) == [OTHER]
    assert work(ledger.teams_with_charges, 501) == []
    count = select(func.count()).select_from(ledger_table)
    assert work(lambda c: c.scalar(count)) == 2 + 5
    assert work(ledger.balance, TEAM) == 10
