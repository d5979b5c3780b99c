"""Another attempt at failed pages, as a contract that every database has to keep."""

from __future__ import annotations

import json
import uuid

import pytest
from attrs import evolve
from sqlalchemy import select, text

from scraper_service.errors import (
    HeadersForgotten,
    IdempotencyKeyUsed,
    InvalidOptions,
    JobFinished,
    JobNotFound,
    OutOfCredits,
)
from scraper_service.options.jobs import EVENTS, RetryRequest, Webhook
from scraper_service.options.scrape import Location
from scraper_service.options.spider_arguments import batch_options, crawl_options
from scraper_service.storage import webhooks
from scraper_service.storage.frontier import outcomes
from scraper_service.storage.job_records import JobState, RowState
from scraper_service.storage.jobs import (
    admission,
    job_control,
    job_log,
    job_rows,
    job_urls,
)
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.schema import frontier as rows_of
from tests.storage.test_frontier import OWNER, TEAM
from tests.storage.test_job_control import Control

TIMEOUT, SITE_ERROR = "SCRAPE_TIMEOUT", "SCRAPE_SITE_ERROR"
MANY = 40_000
FAILURES = (
    """
    WITH RECURSIVE counted (n) AS
      (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < :many)
    INSERT INTO frontier
      (job_number, key, url, depth, state, page_id, code, error, status, ended_at)
    SELECT job.number, 1000 + n, 'http://a.example/p/' || n, 1, :failed, 'page ' || n,
      'SCRAPE_TIMEOUT', 'The page timed out.', 503, 1.0
    FROM counted, job WHERE job.id = :job_id
    """,
    """
    INSERT INTO event (job_number, kind, row_id, at)
    SELECT job_number, 'page', id, 1.0 FROM frontier WHERE state = :failed
    """,
    "UPDATE job SET failed = failed + :many WHERE id = :job_id",
)


class Retries(Control):
    """Batches and crawls with failed pages."""

    def retry(self, job_id, team=TEAM, key=None, price=None, **fields):
        sets = {
            name: frozenset(value) if name != "scrape" else value
            for name, value in fields.items()
        }
        terms = Terms(team_id=team, page_price=price)
        request = RetryRequest(**sets)
        return self.run(job_control.retry_pages, job_id, terms, request, key)

    def batch(self, *urls, price=None, **options):
        made = batch_options({"urls": ",".join(urls), **options})
        terms = Terms(team_id=TEAM, page_price=price)
        return self.run(admission.create_job, terms, made, 2).id

    def end(self, job_id, **failed):
        """Deliver all pending pages but those whose paths have an error code."""
        for row in self.claim(job_id):
            name = row.url.rpartition("/")[2]
            if (code := failed.get(name)) is None:
                self.deliver(job_id, row)
            else:
                fields = {"code": code, "error": f"{name}: {code}", "status": 503}
                self.append(job_id, row, OWNER, **fields)

    def errors(self, job_id):
        return [(e.url, e.code) for e in self.run(job_urls.read_errors, job_id)[0]]

    def options(self, job_id):
        """Return the scrape options of pending pages, as a crawler gets them."""
        return [json.loads(row.options) for row in self.claim(job_id)]


@pytest.fixture
def retries(database):
    return Retries(database)


@pytest.fixture
def ended(retries):
    """A batch of four pages that completed with two errors."""
    job_id = retries.batch(*(f"http://a.example/{name}" for name in "abcd"))
    retries.end(job_id, b=TIMEOUT, d=SITE_ERROR)
    assert retries.check(job_id).state is JobState.COMPLETED
    return job_id


@pytest.mark.full
def test_many_failed_pages_are_fetched_again(retries):
    """PostgreSQL, which has not counted the tables yet, must not join all with all."""
    job_id = retries.batch("http://a.example/a")

    def fail(connection):
        values = {"job_id": job_id, "many": MANY, "failed": int(RowState.FAILED)}
        for statement in FAILURES:
            connection.execute(text(statement), values)

    retries.run(fail)
    retries.end(job_id)
    assert retries.check(job_id).state is JobState.COMPLETED
    assert retries.retry(job_id).retried == MANY
    assert retries.check(job_id).open == MANY


def test_failed_pages_of_a_completed_job_are_fetched_again(retries, ended):
    found = retries.retry(ended)
    assert (found.retried, found.job.state) == (2, JobState.SCRAPING)
    assert found.job.completed_at is None
    assert retries.errors(ended) == []
    assert retries.check(ended).total == 4
    retries.end(ended, d=TIMEOUT)
    last = retries.check(ended)
    assert (last.state, last.pages, last.failed) == (JobState.COMPLETED, 3, 1)
    assert retries.errors(ended) == [("http://a.example/d", TIMEOUT)]
    assert retries.events(ended) == {"started": 1, "page": 6, "completed": 2}


@pytest.mark.full(keep=9)
@pytest.mark.parametrize(
    ("filters", "pages"),
    [
        ({"codes": [TIMEOUT]}, "b"),
        ({"codes": [TIMEOUT, SITE_ERROR]}, "bd"),
        ({"codes": ["OTHER"]}, ""),
        ({"statuses": [503]}, "bd"),
        ({"statuses": [500]}, ""),
        ({"urls": ["http://a.example/d", "http://a.example/a"]}, "d"),
        ({"hosts": ["a.example"]}, "bd"),
        ({"hosts": ["example"]}, ""),
        ({"hosts": ["a.example"], "codes": [SITE_ERROR]}, "d"),
    ],
)
def test_filters_choose_pages(retries, ended, filters, pages):
    before = retries.job(ended)
    assert retries.retry(ended, **filters).retried == len(pages)
    claimed = retries.claim(ended)
    assert [row.url[-1] for row in claimed] == list(pages)
    if not pages:
        assert retries.job(ended) == before


def test_scope_rules_and_robots_are_no_failures(retries):
    urls = [f"http://a.example/{name}" for name in "abcd"]
    job_id = retries.batch(*urls)
    codes = {"a": "robots", "b": "CRAWL_DENIAL", "c": "EXTERNAL_LINK"}
    retries.end(job_id, **codes)
    before = retries.job(job_id)
    assert retries.retry(job_id).retried == 0
    assert retries.job(job_id) == before


def test_jobs_that_cannot_be_retried(retries, ended):
    assert isinstance(retries.retry(ended, "other"), JobNotFound)
    running = retries.batch("http://a.example/a", "http://a.example/b")
    [row] = retries.claim(running, 1)
    retries.fail(running, row)
    assert retries.retry(running).retried == 1
    assert retries.check(running).open == 2
    retries.run(outcomes.end_job, running, JobState.CANCELLED)
    assert isinstance(retries.retry(running), JobFinished)


def test_a_crawl_keeps_its_limit(retries):
    made = crawl_options({"url": "http://a.example/s", "sitemap": "skip", "limit": "3"})
    job_id = retries.run(admission.create_job, Terms(team_id=TEAM), made, 2).id
    [start] = retries.claim(job_id)
    retries.append(job_id, start, OWNER, page=b"{}", links=retries.links(1, 2, 3, 4))
    retries.end(job_id, **{"1": TIMEOUT, "2": TIMEOUT})
    retries.end(job_id, **{"3": TIMEOUT})
    job = retries.check(job_id)
    assert (job.state, job.pages, job.failed) == (JobState.COMPLETED, 2, 3)
    found = retries.retry(job_id)
    assert (found.retried, found.job.failed) == (1, 2)
    assert found.warning.endswith("leaves out 2 more failed pages.")
    retries.end(job_id)
    assert retries.check(job_id).pages == 3
    assert retries.retry(job_id).retried == 0


def test_a_retry_is_paid(retries):
    retries.pay(10)
    urls = [f"http://a.example/{name}" for name in "abc"]
    job_id = retries.batch(*urls, price=3)
    retries.end(job_id, a=TIMEOUT, b=TIMEOUT)
    assert retries.job(job_id).credits == 1
    assert retries.balance == 9
    retries.pay(5)
    poor = retries.retry(job_id, price=3)
    assert isinstance(poor, OutOfCredits)
    assert (retries.balance, retries.job(job_id).failed) == (5, 2)
    assert retries.retry(job_id, price=3, codes=[TIMEOUT], urls=urls[:1]).retried == 1
    assert retries.balance == 2
    retries.end(job_id)
    assert retries.balance == 4


def test_an_idempotency_key_counts_once(retries, ended):
    key = str(uuid.uuid4())
    retries.pay(100)
    assert retries.retry(ended, key=key, codes=["OTHER"]).retried == 0
    assert retries.retry(ended, key=key, price=2, codes=[TIMEOUT]).retried == 1
    assert retries.balance == 98
    again = retries.retry(ended, key=key, price=2)
    assert isinstance(again, IdempotencyKeyUsed)
    assert retries.balance == 98
    assert retries.check(ended).failed == 1


def test_options_are_replaced_for_the_retried_pages(retries, ended):
    scrape = {"timeout_ms": 99_000, "location": Location("de"), "mobile": True}
    assert retries.retry(ended, scrape=scrape, codes=[TIMEOUT]).retried == 1
    [options] = retries.options(ended)
    assert (options["timeout_ms"], options["mobile"]) == (99_000, True)
    assert options["location"]["country"] == "DE"
    assert "headers" in options
    bad = retries.retry(ended, scrape={"wait_for_ms": 60_000, "timeout_ms": 1})
    assert isinstance(bad, InvalidOptions)
    assert bad.issues[0].path[0] == "scrapeOptions"
    assert retries.check(ended).failed == 1


def test_secrets_of_a_running_job_go_with_the_retried_pages(retries):
    urls = [f"http://a.example/{name}" for name in "ab"]
    made = batch_options({"urls": ",".join(urls)})
    made = evolve(made, scrape=evolve(made.scrape, headers=(("X-A", "secret"),)))
    job_id = retries.run(admission.create_job, Terms(team_id=TEAM), made, 2).id
    [row] = retries.claim(job_id, 1)
    retries.fail(job_id, row)
    assert retries.retry(job_id, scrape={"timeout_ms": 90_000}).retried == 1
    first = retries.claim(job_id)[0]
    assert json.loads(first.options)["headers"] == [["X-A", "secret"]]
    stored = retries.rows(select(rows_of.c.options).where(rows_of.c.id == first.id))
    assert "secret" not in str(json.loads(stored[0].options)["headers"])
    retries.fail(job_id, first)
    assert retries.retry(job_id, scrape={"headers": (("X-B", "other"),)}).retried == 1
    again = retries.claim(job_id)[0]
    assert json.loads(again.options)["headers"] == [["X-B", "other"]]
    assert json.loads(again.options)["timeout_ms"] == 90_000
    retries.fail(job_id, again)
    assert retries.retry(job_id, scrape={"headers": ()}).retried == 1
    again = retries.claim(job_id)[0]
    assert json.loads(again.options)["headers"] == []
    retries.fail(job_id, again)
    retries.run(outcomes.end_job, job_id, JobState.CANCELLED)


def test_a_completed_job_without_its_headers_is_not_retried(retries):
    made = batch_options({"urls": "http://a.example/a"})
    made = evolve(made, scrape=evolve(made.scrape, headers=(("X-A", "secret"),)))
    job_id = retries.run(admission.create_job, Terms(team_id=TEAM), made, 2).id
    retries.end(job_id, a=TIMEOUT)
    lost = retries.retry(job_id)
    assert isinstance(lost, HeadersForgotten)
    assert str(lost).startswith("The headers of the job were deleted when it ended")
    assert retries.check(job_id).state is JobState.COMPLETED
    assert retries.retry(job_id, scrape={"headers": (("X-A", "new"),)}).retried == 1
    [options] = retries.options(job_id)
    assert options["headers"] == [["X-A", "new"]]


def test_headers_of_an_earlier_retry_are_missed(retries):
    job_id = retries.batch("http://a.example/a")
    retries.end(job_id, a=TIMEOUT)
    headers = (("X-A", "secret"),)
    assert retries.retry(job_id, scrape={"headers": headers}).retried == 1
    retries.end(job_id, a=TIMEOUT)
    lost = retries.retry(job_id)
    assert isinstance(lost, HeadersForgotten)
    assert str(lost).startswith("The headers of the job were deleted when it ended")
    assert retries.check(job_id).state is JobState.COMPLETED
    assert retries.retry(job_id, scrape={"headers": headers}).retried == 1
    [options] = retries.options(job_id)
    assert options["headers"] == [["X-A", "secret"]]


def test_events_of_earlier_failures_stay(retries):
    job_id = retries.batch("http://a.example/a")
    hook = Webhook(url="http://a.example/hook", events=EVENTS)
    retries.run(webhooks.attach, job_id, hook)
    retries.end(job_id, a=TIMEOUT)
    retries.retry(job_id)
    retries.end(job_id, a=SITE_ERROR)
    retries.retry(job_id)
    retries.end(job_id)
    kinds = ["page", "completed"] * 3
    failures = [f"a: {TIMEOUT}", f"a: {SITE_ERROR}", None]
    read = webhooks.read_event
    told = [retries.run(read, job_id, seq) for seq in range(1, 7)]
    noted = retries.run(job_log.read_events, job_id, TEAM, 0, 10**6).events[1:]
    for events in (told, noted):
        assert [each.kind for each in events] == kinds
        assert [each.error for each in events][::2] == failures
        assert [each.page for each in events][::2] == [None, None, b'{"n":0}']
        assert {each.detail for each in events} == {None}


def test_the_order_of_delivered_pages_stays(retries, ended):
    before = retries.run(job_rows.read_pages, ended, 0)
    retries.retry(ended)
    retries.end(ended)
    after = retries.run(job_rows.read_pages, ended, 0)
    assert after[: len(before)] == before
    assert sorted(json.loads(page)["n"] for page in after) == [0, 1, 2, 3]


def test_a_warning_of_the_end_goes_with_the_retry(retries):
    job_id = retries.batch("http://a.example/a")
    retries.end(job_id, a=TIMEOUT)
    assert "ended without a page" in retries.job(job_id).warning
    retries.retry(job_id)
    assert retries.job(job_id).warning is None
    retries.end(job_id)
    assert retries.job(job_id).warning is None


def test_retried_pages_of_a_paused_job_wait(retries):
    job_id = retries.batch("http://a.example/a", "http://a.example/b")
    retries.end(job_id, a=TIMEOUT)
    retries.retry(job_id)
    retries.pause(job_id)
    assert retries.claim(job_id) == ()
    assert retries.in_state(job_id, RowState.PENDING) == [0]
    assert retries.resume(job_id).state is JobState.SCRAPING


def test_a_page_that_a_redirect_has_delivered_is_not_fetched_again(retries):
    made = crawl_options({"url": "http://a.example/s", "sitemap": "skip"})
    job_id = retries.run(admission.create_job, Terms(team_id=TEAM), made, 2).id
    [start] = retries.claim(job_id)
    retries.append(job_id, start, OWNER, page=b"{}", links=retries.links(1, 2, 3))
    rows = {row.url[-1]: row for row in retries.claim(job_id)}
    for name in "13":
        fields = {"code": TIMEOUT, "error": "late", "status": 503}
        retries.append(job_id, rows[name], OWNER, **fields)
    retries.deliver(job_id, rows["2"], final_key=1)
    job = retries.check(job_id)
    assert (job.state, job.pages, job.failed) == (JobState.COMPLETED, 2, 2)
    assert retries.retry(job_id).retried == 1
    retries.end(job_id)
    job = retries.check(job_id)
    assert (job.state, job.pages, job.failed) == (JobState.COMPLETED, 3, 1)
    assert retries.errors(job_id) == [("http://a.example/1", TIMEOUT)]
