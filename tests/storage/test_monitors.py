"""Monitors and their checks, as a contract that every database has to keep."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from functools import partial

import pytest
from attrs import evolve
from sqlalchemy import func, select, update

from scraper_service.content.stored_pages import decompress
from scraper_service.errors import (
    CheckRunning,
    DiskQuotaExceeded,
    JobNotFound,
    MonitorLimit,
    OutOfCredits,
)
from scraper_service.options.jobs import MONITOR_CHECK, Webhook
from scraper_service.options.monitors import ScrapeTarget
from scraper_service.options.spider_arguments import batch_options
from scraper_service.services import upkeep
from scraper_service.services.monitoring.check_run import MonitorScheduler
from scraper_service.storage import webhooks
from scraper_service.storage.accounts import credits as ledger
from scraper_service.storage.accounts import disk_use
from scraper_service.storage.accounts.teams import TeamChange, change_team
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import JobState
from scraper_service.storage.jobs import job_deletion, job_rows, runs
from scraper_service.storage.monitors import (
    check_steps,
    checks,
    messages,
    monitors,
    snapshots,
)
from scraper_service.storage.monitors.checks import (
    CheckedPages,
    CheckEnd,
    PageRow,
)
from scraper_service.storage.monitors.messages import MAIL
from scraper_service.storage.monitors.monitors import (
    PAUSED,
    Definition,
    Monitor,
    MonitorChange,
)
from scraper_service.storage.monitors.snapshots import PageSnapshot, url_key
from scraper_service.storage.schema import (
    job,
    monitor,
    monitor_check,
    monitor_page,
    monitor_snapshot,
)
from scraper_service.storage.transactions import now_of
from tests.support.waiting import WAIT_S

TEAM, OWNER, RIVAL = "team", "owner", "rival"
HOUR = 3600
URLS = ("http://a.example/0", "http://a.example/1")
SCRAPE = batch_options({"urls": "http://a.example/0"}).scrape
END = CheckEnd(status="completed", error=None, results=(), price=2, credits=2)


class World:
    """The database, as processes use it."""

    def __init__(self, database):
        self.database = database
        self.do(job_rows.make_team, TEAM)
        for owner in (OWNER, RIVAL):
            self.do(leases.beat, owner, 100)

    def do(self, function, *args, **kwargs):
        work = self.database._writer.submit(lambda c: function(c, *args, **kwargs))
        return work.result(timeout=WAIT_S)

    def make(self, cron="0 * * * *", hook=None, scrape=SCRAPE, **values):
        target = ScrapeTarget(
            id=str(uuid.uuid4()), urls=URLS, scrape=scrape, mode="markdown"
        )
        shown = ({"type": "scrape", "urls": list(URLS), "id": target.id},)
        wanted = Monitor(
            id=str(uuid.uuid4()),
            team_id=TEAM,
            key_id=None,
            name="Prices",
            state="active",
            cron=cron,
            timezone="UTC",
            goal=None,
            judge=False,
            definition=Definition(targets=(target,), shown=shown, hook=hook),
            notification=None,
            retention_days=30,
            estimate=2,
            reserve=2,
        )
        return self.do(monitors.create, evolve(wanted, **values), 10)

    def get(self, found):
        return self.do(monitors.read_monitor, found.id, TEAM)

    def start(self, found, at, trigger="scheduled"):
        return self.do(checks.start_check, TEAM, found.id, trigger, at)

    def take(self, check, owner=OWNER):
        taken = self.do(runs.take, check.id, owner)
        assert self.do(check_steps.begin, check.id, taken.run_id)
        return taken.run_id

    def check(self, found):
        return self.do(checks.read_check, found.monitor_id, found.id)

    def end(self, check, **facts):
        lease = self.take(check)
        assert self.do(check_steps.finish, check.id, lease, evolve(END, **facts))

    def count(self, table):
        return self.do(lambda c: c.scalar(select(func.count()).select_from(table)))

    @property
    def balance(self):
        return self.do(ledger.balance, TEAM)


@pytest.fixture
def world(database):
    return World(database)


def test_a_stored_monitor_is_read_back_unchanged(world):
    hook = Webhook(url="http://h.example/", headers=(("X-Key", "s3cret"),))
    scrape = evolve(SCRAPE, headers=(("Cookie", "s3cret"),))
    made = world.make(hook=hook, scrape=scrape, notification={"email": {}})
    assert world.get(made) == made
    row = world.do(lambda c: c.execute(select(monitors.monitor)).one())
    assert row.definition is None
    assert b"s3cret" not in row.sealed
    assert world.do(monitors.read_monitor, made.id, "other") is None


def test_a_team_has_a_largest_number_of_monitors(world):
    for _ in range(10):
        assert isinstance(world.make(), Monitor)
    assert isinstance(world.make(), MonitorLimit)


def test_a_due_time_starts_one_check_and_sets_the_next_time(world):
    made = world.make()
    assert world.start(made, made.next_at - 1) is None
    check = world.start(made, made.next_at)
    assert (check.status, check.trigger) == ("queued", "scheduled")
    assert check.scheduled_for == made.next_at
    assert world.start(made, made.next_at) is None
    assert world.get(made).next_at == made.next_at + HOUR
    assert world.get(made).is_checked


def test_missed_times_start_one_check_for_the_last_time(world):
    made = world.make()
    check = world.start(made, made.next_at + 5 * HOUR + 60)
    assert check.scheduled_for == made.next_at + 5 * HOUR
    assert world.get(made).next_at == made.next_at + 6 * HOUR
    assert world.start(made, made.next_at + 5 * HOUR + 61) is None


def test_a_due_time_during_a_check_is_skipped(world):
    made = world.make(
        hook=Webhook(url="http://h.example/", events=("check.completed",))
    )
    first = world.start(made, made.next_at)
    second = world.start(made, made.next_at + HOUR)
    assert second.status == "skipped_overlap"
    assert second.pages == 0
    assert second.finished_at is not None
    assert second.deliveries == (1, 0, True)
    event = world.do(webhooks.read_event, second.id, 1)
    assert event.error == "The check before was still running."
    assert world.get(made).check_id == first.id


def test_a_manual_run_waits_for_the_check_before(world):
    made = world.make()
    first = world.start(made, None, "manual")
    assert first.scheduled_for is None
    assert world.get(made).next_at == made.next_at
    assert isinstance(world.start(made, None, "manual"), CheckRunning)
    world.end(first)
    assert world.start(made, None, "manual").status == "queued"
    found = world.do(checks.start_check, "other", made.id, "manual")
    assert isinstance(found, JobNotFound)


def test_a_check_reserves_credits_and_returns_the_remainder(world):
    world.do(change_team, TEAM, TeamChange(credits=3))
    made = world.make()
    check = world.start(made, None, "manual")
    assert world.balance == 1
    world.end(check, price=1, credits=1)
    assert world.balance == 2
    assert world.check(check).credits == 1


def test_a_debt_of_a_check_is_paid_before_new_work(world):
    """The rest of a check that cost more than its reserve is a hold below zero."""
    world.do(change_team, TEAM, TeamChange(credits=10))
    world.end(world.start(world.make(), None, "manual"), price=8, credits=8)
    assert world.balance == 2
    assert world.do(ledger.take, TEAM, 8) == 2
    assert world.balance == 2
    assert world.do(ledger.take, TEAM, 2) is None
    assert world.do(ledger.take, TEAM, 1) == 0


def test_a_debt_above_the_balance_stops_paid_calls(world):
    world.do(change_team, TEAM, TeamChange(credits=3))
    world.end(world.start(world.make(), None, "manual"), price=8, credits=8)
    assert world.do(ledger.take, TEAM, 1) == world.balance == -5
    assert world.do(ledger.take, TEAM, 0) is None


def test_a_debt_of_a_check_is_paid_at_once_if_the_balance_suffices(world):
    world.do(change_team, TEAM, TeamChange(credits=20))
    world.end(world.start(world.make(), None, "manual"), price=8, credits=8)
    assert world.do(ledger.take, TEAM, 5) is None
    assert world.balance == 7


def test_a_check_without_credits_is_skipped(world):
    world.do(change_team, TEAM, TeamChange(credits=1))
    made = world.make()
    check = world.start(made, made.next_at)
    assert (check.status, check.credits) == ("skipped_no_credits", 0)
    assert "it needs 2, and 1 remain" in check.error
    assert isinstance(world.start(made, None, "manual"), OutOfCredits)
    assert world.balance == 1


def test_pages_of_checks_count_for_the_disk_quota(world):
    made = world.make()
    check = world.start(made, None, "manual")
    lease = world.take(check)
    row = PageRow({"url": URLS[0], "status": "new", "title": "x" * 100})
    found = CheckedPages(target_id="t", rows=[row])
    world.do(check_steps.add_pages, check.id, lease, "{}", found)
    used = world.do(disk_use.read_used, TEAM)
    assert used == world.do(
        lambda c: c.scalar(select(func.sum(func.length(monitor_page.c.body))))
    )
    world.do(check_steps.finish, check.id, lease, END)
    world.do(disk_use.add, TEAM, 2**20)
    start = (checks.start_check, TEAM, made.id)
    full = world.do(*start, "manual", usual_disk_mb=1)
    assert isinstance(full, DiskQuotaExceeded)
    check = world.do(*start, "scheduled", made.next_at, usual_disk_mb=1)
    assert check.status == "failed"
    assert not world.get(made).is_checked


def test_a_paused_monitor_is_never_due_and_runs_by_hand(world):
    made = world.make()
    change = MonitorChange({"state": PAUSED})
    assert world.do(monitors.change, made.id, TEAM, change).next_at is None
    assert world.do(checks.due_monitors, made.next_at + 9 * HOUR, 10)[1] == []
    assert world.start(made, made.next_at) is None
    assert world.start(made, None, "manual").status == "queued"
    change = MonitorChange({"state": "active"})
    assert world.do(monitors.change, made.id, TEAM, change).next_at is not None


def test_a_page_is_stored_once_although_its_process_was_replaced(world):
    hook = Webhook(url="http://h.example/", events=("page", "check.completed"))
    made = world.make(hook=hook)
    target = made.definition.targets[0]
    check = world.start(made, None, "manual")
    lost = world.take(check)
    world.do(leases.beat, OWNER, -1)  # its process is gone
    lease = world.take(check, RIVAL)
    found = CheckedPages(
        target_id=target.id,
        rows=[PageRow({"url": url, "status": "new", "error": None}) for url in URLS],
        new=[PageSnapshot(url_key(url), url, None, b"old") for url in URLS],
    )
    store = (check_steps.add_pages, check.id)
    assert not world.do(*store, lost, "{}", found)
    assert world.do(*store, lease, '{"seen": 2}', found)
    assert world.count(monitor_page) == 2
    assert world.check(check).counts["new"] == 2
    assert not world.do(check_steps.finish, check.id, lost, END)
    assert world.do(check_steps.finish, check.id, lease, END)
    kinds = [world.do(webhooks.read_event, check.id, n).kind for n in (1, 2, 3)]
    assert kinds == ["page", "page", "check.completed"]
    after = world.get(made)
    assert (after.is_checked, after.summary["new"]) == (False, 2)


def test_snapshots_of_kept_targets_survive_a_change(world):
    made = world.make()
    [target] = made.definition.targets
    check = world.start(made, None, "manual")
    new = [PageSnapshot(url_key(url), url, None, b"old") for url in URLS]
    place = (made.id, target.id)
    world.do(snapshots.store, *place, check.id, 1.0, new)
    kept = evolve(target, urls=URLS[:1])
    change = MonitorChange({}, {"targets": (kept,)})
    world.do(monitors.change, made.id, TEAM, change)
    keys = [each.key for each in new]
    assert list(world.do(snapshots.read_snapshots, *place, keys)) == keys[:1]
    other = evolve(target, id=str(uuid.uuid4()))
    change = MonitorChange({}, {"targets": (other,)})
    world.do(monitors.change, made.id, TEAM, change)
    assert world.count(monitor_snapshot) == 0


def test_a_monitor_that_keeps_failing_runs_less_often(world):
    made = world.make()
    waits = []
    for number in range(5):
        check = world.start(made, None, "manual")
        world.end(check, status="failed", error="It is down.")
        waits.append(world.check(check))
        assert world.get(made).failures == number + 1
    assert waits[1].error == "It is down."
    assert "failed 3 times in a row" in waits[2].error
    later = world.get(made).next_at
    assert later >= made.next_at + 7 * HOUR  # 8 hours from now, on the hour
    world.end(world.start(made, None, "manual"))
    assert world.get(made).failures == 0


def test_a_check_that_was_lost_with_its_job_has_failed(world):
    hook = Webhook(url="http://h.example/", events=("check.completed",))
    made = world.make(hook=hook)
    check = world.start(made, None, "manual")
    world.do(outcomes.end_job, check.id, JobState.FAILED, "It broke.")
    assert world.do(check_steps.lost_checks, 10) == [check.id]
    assert world.do(check_steps.settle_lost, check.id)
    assert world.do(check_steps.lost_checks, 10) == []
    found = world.check(check)
    assert (found.status, found.error) == ("failed", "It broke.")
    assert found.deliveries == (1, 0, True)
    assert world.start(made, None, "manual").status == "queued"


def test_a_deleted_monitor_ends_its_check_and_keeps_waiting_deliveries(world):
    hook = Webhook(url="http://h.example/", events=("check.completed",))
    made = world.make(hook=hook)
    ended = world.start(made, None, "manual")
    world.end(ended)
    running = world.start(made, None, "manual")
    lease = world.take(running)
    assert not world.do(monitors.remove, made.id, "other")
    assert world.do(monitors.remove, made.id, TEAM)
    for check in (ended, running):
        world.do(checks.hide_check, check.id)
    assert not world.do(check_steps.finish, running.id, lease, END)
    assert world.get(made) is None
    while world.do(job_deletion.expire):
        pass
    rows = world.do(lambda c: c.scalars(select(job.c.id)).all())
    assert rows == [ended.id]  # its delivery waits
    assert world.do(webhooks.read_event, ended.id, 1).kind == "check.completed"


def test_checks_expire_with_their_pages(world):
    made = world.make(retention_days=1)
    check = world.start(made, None, "manual")
    lease = world.take(check)
    found = CheckedPages(
        target_id="t", rows=[PageRow({"url": URLS[0], "status": "error", "error": "x"})]
    )
    world.do(check_steps.add_pages, check.id, lease, "{}", found)
    world.do(check_steps.finish, check.id, lease, END)
    kept = world.do(
        lambda c: c.execute(select(job.c.expires_at, job.c.completed_at)).one()
    )
    assert kept.expires_at == pytest.approx(kept.completed_at + 86_400)
    world.do(lambda c: c.execute(job.update().values(expires_at=1)))
    while world.do(job_deletion.expire):
        pass
    assert world.count(monitor_page) == 0
    assert world.check(check) is None
    assert world.get(made) is not None


def test_pages_are_read_by_state_in_the_order_of_completion(world):
    made = world.make()
    check = world.start(made, None, "manual")
    lease = world.take(check)
    states = ["new", "same", "new", "error", "same"]
    rows = [PageRow({"url": str(n), "status": s}) for n, s in enumerate(states)]
    world.do(
        check_steps.add_pages,
        check.id,
        lease,
        "{}",
        CheckedPages(target_id="t", rows=rows),
    )
    read = checks.read_check_pages
    found = world.do(read, check.id, None, 1, 2)
    assert [row.facts["url"] for row in found.rows] == ["1", "2"]
    assert found.has_more
    found = world.do(read, check.id, "same", 0, 5)
    assert [row.facts["url"] for row in found.rows] == ["1", "4"]
    assert not found.has_more


# -- the scheduler -------------------------------------------------------------------------


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def look(*schedulers):
    """Let schedulers of several processes look at once; return the checks of each."""

    async def run():
        return await asyncio.gather(*(each.do_due() for each in schedulers))

    return asyncio.run(run())


def test_several_processes_start_each_check_once(world):
    made = [world.make() for _ in range(6)]
    clock = Clock(made[0].next_at)
    processes = [
        MonitorScheduler(world.database, lambda: None, clock) for _ in range(3)
    ]
    assert sum(look(*processes)) == 6
    assert sum(look(*processes)) == 0
    clock.now += HOUR
    assert sum(look(*processes)) == 6  # skipped, since the ones before still run


def test_the_clock_may_jump_ahead(world):
    made, woken = world.make(), []
    clock = Clock(made.next_at + 1000 * HOUR)
    scheduler = MonitorScheduler(world.database, lambda: woken.append(1), clock)
    assert look(scheduler) == [1]
    assert woken == [1]
    assert look(scheduler) == [0]


def test_the_clock_may_go_back(world):
    made = world.make()
    clock = Clock(made.next_at + 1000 * HOUR)
    scheduler = MonitorScheduler(world.database, lambda: None, clock)
    look(scheduler)
    assert world.get(made).next_at == made.next_at + 1001 * HOUR
    clock.now = made.next_at + 1
    assert look(scheduler) == [0]
    assert world.get(made).next_at == made.next_at + HOUR
    clock.now = made.next_at + HOUR
    assert look(scheduler) == [1]


UNREADABLE = {
    "zone": {"timezone": "Europe/Gone"},
    "definition": {"definition": json.dumps({"targets": [{"type": "newer"}]})},
}


def spoil(world, made, how):
    """Make a monitor that this version cannot read, as after a downgrade."""
    change = update(monitor).where(monitor.c.id == made.id).values(**UNREADABLE[how])
    world.do(lambda c: c.execute(change))


@pytest.mark.parametrize("how", UNREADABLE)
def test_a_monitor_that_cannot_be_read_stops_no_other(world, how):
    bad, *good = [world.make() for _ in range(3)]
    spoil(world, bad, how)
    world.do(checks.set_monitor, bad.id, next_at=bad.next_at - 1)  # it comes first
    clock = Clock(bad.next_at)
    scheduler = MonitorScheduler(world.database, lambda: None, clock)
    assert look(scheduler) == [2]
    assert all(world.get(each).is_checked for each in good)
    foreign = world.do(checks.start_check, "other", bad.id, "manual")
    assert isinstance(foreign, JobNotFound)
    next_at = select(monitor.c.next_at).where(monitor.c.id == bad.id)
    assert world.do(lambda c: c.scalar(next_at)) > clock.now  # others come first now
    clock.now -= 1000 * HOUR  # back: all run times are computed again
    assert look(scheduler) == [0]
    assert world.get(good[0]).next_at < clock.now + 2 * HOUR


@pytest.mark.parametrize("how", UNREADABLE)
def test_a_lost_check_ends_though_its_monitor_cannot_be_read(world, how):
    made = [world.make() for _ in range(2)]
    found = [world.start(each, None, "manual") for each in made]
    for check in found:
        world.take(check)
        world.do(outcomes.end_job, check.id, JobState.FAILED, "broke")
    spoil(world, made[0], how)
    if "definition" in UNREADABLE[how]:  # a check has its own copy
        spoilt = update(monitor_check).values(UNREADABLE[how])
        bad = monitor_check.c.job_id == found[0].id
        world.do(lambda c: c.execute(spoilt.where(bad)))
    look(MonitorScheduler(world.database, lambda: None))
    assert [world.check(each).status for each in found] == ["failed", "failed"]


def test_a_deleted_monitor_leaves_no_snapshot_of_its_running_check(world):
    made = world.make()
    lease = world.take(check := world.start(made, None, "manual"))
    found = CheckedPages(
        target_id=made.definition.targets[0].id,
        rows=[PageRow({"url": URLS[0], "status": "new", "previous": None})],
        new=[PageSnapshot(url_key(URLS[0]), URLS[0], None, b"a text")],
    )
    assert world.do(monitors.remove, made.id, TEAM)
    assert not world.do(check_steps.add_pages, check.id, lease, "{}", found)
    assert world.count(monitor_snapshot) == 0


def test_checks_that_an_unfinished_deletion_has_left_are_hidden(world):
    made, other = world.make(), world.make()
    kept = world.start(other, None, "manual")
    ended = world.start(made, None, "manual")
    world.end(ended)
    running = world.start(made, None, "manual")
    world.do(monitors.remove, made.id, TEAM)  # and the process ends here
    asyncio.run(upkeep.hide_left_behind(world.database))
    expires = {each.id: each.expires_at for each in rows(world, job)}
    states = {each.id: each.state for each in rows(world, job)}
    now = world.do(now_of)
    assert max(expires[ended.id], expires[running.id]) <= now
    assert states[running.id] == JobState.CANCELLED
    assert states[kept.id] == JobState.QUEUED
    assert world.do(checks.orphaned_checks, 10) == []


def rows(world, table):
    return world.do(lambda c: c.execute(select(table)).all())


def test_a_check_is_a_model_job_of_its_own_kind(world):
    made = world.make()
    check = world.start(made, None, "manual")
    waiting = runs.waiting_jobs
    assert world.do(waiting, OWNER, ["extract"], (), 10) == []
    [found] = world.do(waiting, OWNER, [MONITOR_CHECK], (), 10)
    assert (found.id, found.team_id) == (check.id, TEAM)


def test_the_body_of_a_page_is_small_in_the_database(world):
    made = world.make()
    check = world.start(made, None, "manual")
    lease = world.take(check)
    diff = json.dumps({"text": "+ line\n" * 10_000}).encode()
    row = PageRow({"url": URLS[0], "status": "changed"}, diff)
    found = CheckedPages(target_id="t", rows=[row])
    world.do(check_steps.add_pages, check.id, lease, "{}", found)
    body = world.do(lambda c: c.scalar(select(monitor_page.c.body)))
    assert len(body) < 2000
    assert PageRow.read(decompress(body)).diff == diff


# -- mail ----------------------------------------------------------------------------------

EMAIL = {"email": {"enabled": True, "recipients": ["a@b.example"]}}
due_mail = partial(messages.due_messages, limit=10, is_mail=True)


def with_page(world, made, status="changed"):
    """Run a check with one page; return it."""
    check = world.start(made, None, "manual")
    lease = world.take(check)
    rows = [PageRow({"url": URLS[0], "status": status})]
    found = CheckedPages(target_id="t", rows=rows)
    world.do(check_steps.add_pages, check.id, lease, "{}", found)
    world.do(check_steps.finish, check.id, lease, END)
    return check


def test_mail_of_a_check_is_leased_by_one_process_and_retried(world):
    made = world.make(notification=EMAIL)
    check = with_page(world, made)
    assert world.do(due_mail) == [(check.id, MAIL)]
    mail = world.do(messages.take_message, MAIL, check.id)
    assert (mail.name, mail.recipients) == ("Prices", ("a@b.example",))
    assert mail.pages[0].facts["url"] == URLS[0]
    assert world.do(messages.take_message, MAIL, check.id) is None
    assert world.do(messages.end_attempt, check.id, MAIL, (0.0,))
    assert world.do(messages.take_message, MAIL, check.id) is not None
    assert not world.do(messages.end_attempt, check.id, MAIL, (0.0,))
    assert world.do(due_mail) == []


def test_a_check_without_news_sends_no_mail(world):
    made = world.make(notification=EMAIL)
    with_page(world, made, "same")
    assert world.do(due_mail) == []
    other = world.make()
    with_page(world, other)
    assert world.do(due_mail) == []


def test_mail_that_is_not_wanted_any_more_is_not_sent(world):
    made = world.make(notification=EMAIL)
    check = with_page(world, made)
    change = MonitorChange({"notification": None})
    world.do(monitors.change, made.id, TEAM, change)
    assert world.do(messages.take_message, MAIL, check.id) is None
    assert world.do(due_mail) == []


def test_muting_a_monitor_drops_its_waiting_messages(world):
    made = world.make(notification={**EMAIL, "channels": ["team"]})
    check = with_page(world, made)
    assert world.do(messages.due_messages, 10) == [(check.id, "team")]
    change = MonitorChange({"muted_until": math.inf})
    world.do(monitors.change, made.id, TEAM, change)
    assert world.do(messages.take_message, MAIL, check.id) is None
    assert world.do(messages.take_message, "team", check.id) is None
    assert world.do(due_mail) == []
    assert world.do(messages.due_messages, 10) == []
    assert world.do(messages.open_messages, check.id) is None
