"""Changes of jobs by their callers, as a contract that every database has to keep."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select, update

from scraper_service.errors import (
    JobFinished,
    JobNotFound,
    OptionUnavailable,
    OutOfCredits,
)
from scraper_service.options.jobs import CRAWLED, EVENTS, ChangeRequest, Webhook
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.storage import webhooks
from scraper_service.storage.accounts import credits as credits_of
from scraper_service.storage.accounts.teams import TeamChange, change_team
from scraper_service.storage.frontier import leases, outcomes
from scraper_service.storage.job_records import (
    MAX_LIMIT,
    Effect,
    JobState,
    RowState,
    UrlKind,
)
from scraper_service.storage.jobs import admission, job_control, job_log, runs
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.schema import event, job
from scraper_service.storage.schema import frontier as rows_of
from scraper_service.storage.transactions import number_of
from tests.storage.test_frontier import OWNER, TEAM, Harness

HOUR_S = 3600


class Control(Harness):
    """Changes jobs, and works on them as a crawler would."""

    def change(self, job_id, team=TEAM, paused=None, **options):
        request = ChangeRequest(paused=paused, options=options)
        return self.run(job_control.change_job, job_id, team, request)

    def pause(self, job_id):
        return self.change(job_id, paused=True).job

    def resume(self, job_id):
        return self.change(job_id, paused=False).job

    def pay(self, amount):
        """Set the balance of the team."""
        self.run(change_team, TEAM, TeamChange(credits=amount))

    @property
    def balance(self):
        return self.run(credits_of.balance, TEAM)

    def crawl(self, limit, price=None):
        """Start a crawl with the options of a caller, who pays ``price`` per page."""
        options = crawl_options({"url": "http://a.example/", "limit": str(limit)})
        terms = Terms(team_id=TEAM, page_price=price)
        return self.run(admission.create_job, terms, options, 2).id

    def in_state(self, job_id, state):
        """Return the keys of the URLs in a state, in the order of their rows."""
        query = select(rows_of.c.key).where(
            rows_of.c.job_number == number_of(job_id),
            rows_of.c.state == state,
            rows_of.c.kind == UrlKind.PAGE,
        )
        return [row.key for row in self.rows(query.order_by(rows_of.c.id))]

    def kinds(self, job_id):
        query = select(event.c.kind).where(event.c.job_number == number_of(job_id))
        return [row[0] for row in self.rows(query.order_by(event.c.id))]


@pytest.fixture
def control(database):
    return Control(database)


def test_a_paused_job_leases_no_urls(control):
    job_id = control.start(keys=(0, 1, 2))
    paused = control.pause(job_id)
    assert paused.paused_at is not None
    assert paused.is_active
    assert control.claim(job_id) == ()
    assert control.resume(job_id).paused_at is None
    assert len(control.claim(job_id)) == 3
    control.check(job_id)


def test_running_pages_of_a_paused_job_are_delivered_with_their_links(control):
    job_id = control.start(keys=(0, 1))
    first, second = control.claim(job_id)
    control.pause(job_id)
    assert control.deliver(job_id, first, links=[2, 3]).accepted
    control.fail(job_id, second)
    found = control.check(job_id)
    assert (found.pages, found.failed, found.open) == (1, 1, 2)
    assert found.paused_at is not None
    assert control.claim(job_id) == ()


def test_a_paused_job_waits_at_its_end_and_completes_when_it_goes_on(control):
    job_id = control.start()
    [row] = control.claim(job_id)
    control.pause(job_id)
    assert control.deliver(job_id, row).state is JobState.SCRAPING
    found = control.check(job_id)
    assert (found.state, found.open, found.completed_at) == ("scraping", 0, None)
    ended = control.resume(job_id)
    assert (ended.state, ended.paused_at) == (JobState.COMPLETED, None)
    assert control.kinds(job_id) == [
        "started",
        "paused",
        "page",
        "resumed",
        "completed",
    ]


def test_returned_and_lost_leases_of_a_paused_job_wait_for_its_end(control):
    job_id = control.start(keys=(0, 1))
    first, _ = control.claim(job_id)
    control.pause(job_id)
    control.run(leases.release, job_id, [(first.id, first.token)])
    assert control.run(leases.reap, job_id) == 1  # its process was never alive
    assert control.claim(job_id) == ()
    control.resume(job_id)
    assert {row.key for row in control.claim(job_id)} == {0, 1}


def test_a_change_to_the_current_value_has_no_effect(control):
    job_id = control.start()
    assert control.resume(job_id).revision == 0
    first = control.pause(job_id)
    assert control.pause(job_id) == first
    assert first.revision == 1
    assert control.kinds(job_id) == ["started", "paused"]


def test_processes_notice_a_change_by_the_revision(control):
    job_id = control.start(keys=(0, 1))
    [row] = control.claim(job_id, 1)
    control.pause(job_id)
    assert control.run(leases.claim, job_id, OWNER, 1).revision == 1
    assert control.deliver(job_id, row).revision == 1
    assert control.run(runs.running_jobs, "me", [job_id]).active == {job_id: 1}
    assert control.run(runs.standing, job_id, "") == ("scraping", 1, False)


def test_a_paused_job_needs_no_process(control):
    job_id = control.start()
    control.pause(job_id)
    waiting = (runs.waiting_jobs, OWNER, CRAWLED, (), 10)
    assert control.run(*waiting) == []
    assert control.run(runs.take, job_id, OWNER) is None
    control.resume(job_id)
    assert control.run(*waiting) == [runs.WaitingJob(job_id, TEAM, is_queued=True)]
    assert control.run(runs.take, job_id, OWNER) is not None


def test_a_job_that_has_not_begun_can_be_paused(control):
    job_id = control.start()
    assert control.pause(job_id).state is JobState.QUEUED
    assert control.resume(job_id).state is JobState.QUEUED


def test_an_ended_job_cannot_be_paused(control):
    job_id = control.start()
    control.pause(job_id)
    assert control.run(outcomes.end_job, job_id, JobState.CANCELLED)
    assert control.job(job_id).paused_at is None
    for paused in (True, False):
        error = control.change(job_id, paused=paused)
        assert isinstance(error, JobFinished)
        assert str(error) == "Crawl is already cancelled"


def test_a_team_changes_its_own_jobs(control):
    job_id = control.start()
    assert isinstance(control.change(job_id, "other", paused=True), JobNotFound)
    assert control.job(job_id).paused_at is None


def test_a_long_pause_ends_the_job(control):
    jobs = [control.start(), control.start(), control.start()]
    for job_id in jobs[:2]:
        control.pause(job_id)
    earlier = job.c.paused_at - HOUR_S - 1
    moved = update(job).where(job.c.id == jobs[0]).values(paused_at=earlier)
    control.run(lambda connection: connection.execute(moved).rowcount)
    assert control.run(job_control.long_paused, HOUR_S) == [jobs[0]]
    for job_id in jobs:
        control.run(job_control.end_long_pause, job_id, HOUR_S, "too long")
    states = [control.job(job_id).state for job_id in jobs]
    assert states == [JobState.CANCELLED, JobState.QUEUED, JobState.QUEUED]
    assert control.job(jobs[0]).error == "too long"


def test_events_and_deliveries_have_the_options_in_force(control):
    job_id = control.start(limit=7)
    hook = Webhook(url="http://a.example/hook", events=EVENTS)
    control.run(webhooks.attach, job_id, hook)
    control.pause(job_id)
    control.resume(job_id)
    found = control.run(job_log.read_events, job_id, TEAM, 0, 10_000).events
    told = [control.run(webhooks.read_event, job_id, seq) for seq in (1, 2)]
    for each in (*found[1:], *told):
        detail = json.loads(each.detail)
        assert detail["options"]["limit"] == 7
        assert detail["effect"] == {"admitted": 0}
        assert each.error is None
    assert [each.kind for each in told] == ["paused", "resumed"]


def test_urls_over_the_limit_wait_while_a_job_is_paused(control):
    job_id = control.start(keys=(0, 1, 2), limit=1)
    [row] = control.claim(job_id)
    control.pause(job_id)
    control.fail(job_id, row)
    found = control.check(job_id)
    assert (found.open, found.held, found.failed) == (1, 1, 1)
    states = select(rows_of.c.state).where(rows_of.c.job_number == number_of(job_id))
    assert RowState.LEASED not in {row.state for row in control.rows(states)}
    assert control.claim(job_id) == ()


# -- limit and pace ------------------------------------------------------------------


def test_a_higher_limit_admits_waiting_urls_in_order(control):
    job_id = control.start(keys=range(6), limit=2)
    changed = control.change(job_id, limit=4)
    assert changed.change.effect == Effect(admitted=2)
    assert changed.change.options["limit"] == changed.job.page_limit == 4
    assert control.in_state(job_id, RowState.PENDING) == [0, 1, 2, 3]
    assert (control.check(job_id).held, changed.job.revision) == (2, 1)
    assert control.change(job_id, limit=99).change.effect == Effect(admitted=2)
    assert control.check(job_id).held == 0


def test_a_lower_limit_defers_the_newest_urls(control):
    job_id = control.start(keys=range(6), limit=6)
    first = control.claim(job_id, 1)[0]
    assert control.change(job_id, limit=3).change.effect == Effect()
    found = control.check(job_id)
    assert (found.open, found.held, found.total) == (3, 3, 3)
    assert control.in_state(job_id, RowState.PENDING) == [1, 2]
    control.deliver(job_id, first, links=[7])
    for row in control.claim(job_id):
        control.deliver(job_id, row)
    ended = control.check(job_id)
    assert (ended.state, ended.pages, ended.held) == ("completed", 3, 4)


def test_a_limit_below_what_is_done_ends_the_job_with_its_running_pages(control):
    job_id = control.start(keys=range(6), limit=6)
    rows = control.claim(job_id, 4)
    for row in rows[:3]:
        control.deliver(job_id, row)
    control.change(job_id, limit=1)
    found = control.check(job_id)
    assert (found.state, found.pages, found.open) == ("scraping", 3, 1)
    assert control.claim(job_id) == ()
    last = control.deliver(job_id, rows[3], links=[8, 9])
    assert (last.delivered, last.state) == (True, JobState.COMPLETED)
    assert control.check(job_id).pages == 4


def test_returned_urls_respect_a_limit_that_was_lowered_meanwhile(control):
    job_id = control.start(keys=range(4), limit=4)
    rows = control.claim(job_id)
    control.change(job_id, limit=2)
    assert control.check(job_id).open == 4
    returned = [(row.id, row.token) for row in rows[:2]]
    control.run(leases.release, job_id, returned)
    assert control.in_state(job_id, RowState.HELD) == [0, 1]
    assert control.run(leases.reap, job_id) == 2  # the process of the others is dead
    found = control.check(job_id)
    assert (found.open, found.held) == (2, 2)
    assert [row.key for row in control.claim(job_id)] == [2, 3]


def test_a_job_ends_when_no_url_is_left_under_its_new_limit(control):
    job_id = control.start(keys=range(3), limit=3)
    rows = control.claim(job_id, 1)
    control.deliver(job_id, rows[0])
    changed = control.change(job_id, limit=1)
    assert changed.job.state is JobState.COMPLETED
    assert control.kinds(job_id) == ["started", "page", "updated", "completed"]
    assert control.check(job_id).held == 2


def test_a_limit_is_paid_when_it_is_raised_and_returned_when_it_is_lowered(control):
    control.pay(100)
    job_id = control.crawl(limit=10, price=3)
    assert control.balance == 70
    control.change(job_id, limit=20)
    assert control.balance == 40
    refused = control.change(job_id, limit=34, delay_s=2.0, paused=True)
    assert isinstance(refused, OutOfCredits)
    assert (refused.needed, refused.remaining) == (42, 40)
    found = control.job(job_id)
    assert (found.page_limit, found.revision, found.paused_at) == (20, 1, None)
    assert control.balance == 40
    control.change(job_id, limit=33)
    assert control.balance == 1
    control.change(job_id, limit=5)
    assert control.balance == 85
    control.run(outcomes.end_job, job_id, JobState.CANCELLED)
    assert control.balance == 100


def test_running_pages_above_a_lower_limit_stay_paid(control):
    control.pay(100)
    job_id = control.crawl(limit=10, price=1)
    [start] = control.claim(job_id, 1)
    control.deliver(job_id, start, links=range(1, 10))
    rows = [row for row in control.claim(job_id) if row.kind == UrlKind.PAGE]
    assert len(rows) == 9
    control.change(job_id, limit=1)
    assert control.balance == 90
    for row in rows:
        control.deliver(job_id, row)
    assert control.job(job_id).credits == 10
    control.run(outcomes.end_job, job_id, JobState.CANCELLED)
    assert control.balance == 90


def test_a_change_of_the_pace_is_stored_with_the_options(control):
    job_id = control.crawl(limit=10)
    changed = control.change(job_id, delay_s=2.5, max_concurrency=3)
    assert changed.change.options["delay_s"] == 2.5
    options = json.loads(control.job(job_id).options)
    assert (options["delay_s"], options["max_concurrency"]) == (2.5, 3)
    assert control.change(job_id, delay_s=2.5, limit=10).job.revision == 1
    assert control.change(job_id, delay_s=None).change.options["delay_s"] is None
    assert control.kinds(job_id) == ["started", "updated", "updated"]


def test_a_batch_has_no_limit_to_change(control):
    job_id = control.start(kind="batch")
    error = control.change(job_id, limit=5)
    assert isinstance(error, OptionUnavailable)
    assert error.attribute == "limit"
    assert control.change(job_id, delay_s=1.0).job.revision == 1


def test_a_single_change_may_pause_and_update(control):
    job_id = control.start(keys=range(3), limit=1)
    changed = control.change(job_id, paused=True, limit=2)
    assert (changed.job.revision, changed.change.effect) == (1, Effect(admitted=1))
    assert control.kinds(job_id) == ["started", "updated", "paused"]


def test_a_limit_is_capped_at_the_integer_range_of_the_database(control):
    job_id = control.crawl(limit=2**40)
    assert control.job(job_id).page_limit == MAX_LIMIT
    assert control.change(job_id, limit=5).job.page_limit == 5
    assert control.change(job_id, limit=2**53 - 1).job.page_limit == MAX_LIMIT
