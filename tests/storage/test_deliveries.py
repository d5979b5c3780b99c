"""The outbox, as a contract that every database has to keep."""

from __future__ import annotations

import json
import math

import pytest
from sqlalchemy import func, select, update

from scraper_service.options.jobs import EVENTS, Webhook
from scraper_service.storage import webhooks
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.frontier.links import Seed
from scraper_service.storage.job_records import (
    DeliveryResult,
    DeliveryState,
    JobState,
    Link,
)
from scraper_service.storage.jobs import job_deletion, job_rows
from scraper_service.storage.schema import delivery, job, webhook
from scraper_service.storage.transactions import now_of
from scraper_service.storage.webhooks import due_jobs, record, take
from tests.storage.test_frontier import TEAM, Harness

LEASE_S = 60
RETRIES_S = (0.0, 50.0)
HOOK = Webhook(url="http://A.example:81/hook", events=EVENTS)


class Outbox(Harness):
    def begin(self, keys=(0,), hook=HOOK):
        links = tuple(Link(key, f"http://a.example/{key}", 0) for key in keys)
        seed = Seed("crawl", "http://a.example/", None, links)
        job_id = self.run(job_rows.insert_job, TEAM, seed, "{}", 2).id
        if hook is not None:
            self.run(webhooks.attach, job_id, hook)
            self.run(lambda c: webhooks.tell_locked(c, job_id, "started", now_of(c)))
        return job_id

    def take(self, job_id):
        return self.run(take, job_id, LEASE_S)

    def record(self, turn, *answers, lease_s=None):
        return self.run(record, turn, answers, RETRIES_S, lease_s)

    def listed(self, job_id):
        found, _ = self.run(
            webhooks.read_deliveries, job_id, state=None, after=0, limit=100
        )
        return found

    def due(self, busy=()):
        due, _ = self.run(due_jobs, busy, 10)
        return due


@pytest.fixture
def outbox(database):
    return Outbox(database)


def ok(due):
    return DeliveryResult(seq=due.seq, at=1.0, status=200)


def bad(due, **facts):
    return DeliveryResult(
        seq=due.seq, at=1.0, status=500, error="answered 500", **facts
    )


def test_the_time_of_the_next_retry_is_returned(outbox):
    job_id = outbox.begin()
    for _ in RETRIES_S:
        assert outbox.run(due_jobs, (), 10) == ([(job_id, "a.example:81")], math.inf)
        turn = outbox.take(job_id)
        outbox.record(turn, bad(turn.due[0]))
    due, next_s = outbox.run(due_jobs, (), 10)
    assert due == []
    assert RETRIES_S[-1] - 10 < next_s <= RETRIES_S[-1]


def test_events_are_numbered_in_the_order_of_what_happened(outbox):
    job_id = outbox.begin(keys=(0, 1, 2))
    first, second, third = outbox.claim(job_id)
    outbox.deliver(job_id, second)
    outbox.fail(job_id, first)
    outbox.deliver(job_id, third)
    found = outbox.listed(job_id)
    assert [(d.seq, d.kind, d.page_url) for d in found] == [
        (1, "started", None),
        (2, "page", "http://a.example/1"),
        (3, "page", "http://a.example/0"),
        (4, "page", "http://a.example/2"),
        (5, "completed", None),
    ]
    told = [outbox.run(webhooks.read_event, job_id, seq) for seq in range(1, 6)]
    assert [event.page for event in told] == [None, b'{"n":1}', None, b'{"n":2}', None]
    assert [event.error for event in told] == [None, None, "x", None, None]


def test_a_job_without_a_webhook_writes_no_deliveries(outbox):
    job_id = outbox.begin(hook=None)
    [row] = outbox.claim(job_id)
    outbox.deliver(job_id, row)
    assert outbox.listed(job_id) == []
    assert outbox.take(job_id) is None
    assert outbox.due() == []


def test_a_lost_webhook_lease_stores_no_attempts(outbox):
    job_id = outbox.begin()
    turn = outbox.take(job_id)
    assert (turn.receiver, turn.team_id, turn.hook) == ("a.example:81", TEAM, HOOK)
    assert outbox.take(job_id) is None
    assert outbox.due() == []
    outbox.run(lambda c: c.execute(update(webhook).values(until=0)).rowcount)
    other = outbox.take(job_id)
    assert other.due == turn.due
    assert outbox.record(turn, bad(turn.due[0])) is False
    assert outbox.listed(job_id)[0].attempts == ()
    assert outbox.record(other, ok(other.due[0])) is True
    assert outbox.listed(job_id)[0].state is DeliveryState.DELIVERED
    assert outbox.due() == []


def test_failures_are_tried_again_and_then_given_up(outbox):
    job_id = outbox.begin()
    for attempt in (1, 2):
        assert outbox.due() == [(job_id, "a.example:81")]
        assert outbox.due(busy=["a.example:81"]) == []
        turn = outbox.take(job_id)
        [due] = turn.due
        assert due.attempt == attempt
        outbox.record(turn, bad(due))
    assert outbox.due() == []  # the second pause is longer
    outbox.run(lambda c: c.execute(update(delivery).values(due_at=1)).rowcount)
    outbox.run(lambda c: c.execute(update(webhook).values(due_at=1)).rowcount)
    turn = outbox.take(job_id)
    outbox.record(turn, bad(turn.due[0]))
    [found] = outbox.listed(job_id)
    assert (found.state, len(found.attempts)) == (DeliveryState.FAILED, 3)
    assert outbox.run(webhooks.replay, job_id, None) == 1
    [due] = outbox.take(job_id).due
    assert due.attempt == 4


def test_deliveries_added_during_a_lease_are_due_afterwards(outbox):
    job_id = outbox.begin()
    turn = outbox.take(job_id)
    outbox.run(outcomes.end_job, job_id, JobState.CANCELLED)
    outbox.record(turn, bad(turn.due[0], is_final=True))
    [due] = outbox.take(job_id).due
    assert (due.seq, due.kind) == (2, "cancelled")


def test_a_receiver_that_is_gone_gets_no_further_deliveries(outbox):
    job_id = outbox.begin(keys=(0, 1))
    one, two = outbox.claim(job_id)
    outbox.deliver(job_id, one)
    turn = outbox.take(job_id)
    gone = DeliveryResult(
        seq=1, at=1.0, status=410, error="answered 410", is_final=True
    )
    outbox.record(turn, gone)
    outbox.deliver(job_id, two)
    assert [d.state for d in outbox.listed(job_id)] == [DeliveryState.FAILED] * 2
    assert outbox.due() == []


def test_first_attempts_come_before_retries(outbox):
    job_id = outbox.begin(keys=(0, 1, 2))
    turn = outbox.take(job_id)
    outbox.record(turn, bad(turn.due[0]))
    for row in outbox.claim(job_id):
        outbox.deliver(job_id, row)
    assert [due.seq for due in outbox.take(job_id).due] == [2, 3, 4, 5, 1]


def test_an_expired_job_leaves_no_row_in_the_outbox(outbox):
    job_id = outbox.begin()
    outbox.run(outcomes.end_job, job_id, JobState.CANCELLED)
    outbox.run(lambda c: c.execute(update(job).values(expires_at=1)).rowcount)
    while outbox.run(job_deletion.expire):
        pass
    for table in (delivery, webhook, job):
        assert outbox.rows(select(func.count()).select_from(table)) == [(0,)]


def test_the_log_of_a_delivery_is_bounded(outbox):
    job_id = outbox.begin()
    log = json.dumps([{"attempt": n, "at": 1.0} for n in range(1, 51)])
    outbox.run(
        lambda c: c.execute(update(delivery).values(log=log, attempts=50)).rowcount
    )
    turn = outbox.take(job_id)
    outbox.record(turn, ok(turn.due[0]))
    [found] = outbox.listed(job_id)
    assert [a["attempt"] for a in found.attempts] == list(range(2, 52))
