"""What jobs ask of hosts: counted in processes, added up in the database."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from scraper_service.crawling.observability import JobTally
from scraper_service.crawling.page_errors import HostBusy
from scraper_service.crawling.politeness.host_pace import HostPace
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.storage.frontier import job_counts, leases, outcomes
from scraper_service.storage.frontier.job_counts import (
    Delay,
    HostCounts,
    RobotsSeen,
    Share,
)
from scraper_service.storage.frontier.links import insert_links
from scraper_service.storage.job_records import (
    JobState,
    Link,
    Outcome,
    RowState,
    UrlKind,
)
from scraper_service.storage.jobs import admission, job_deletion, job_rows, job_urls
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.job_urls import read_report
from scraper_service.storage.schema import job, job_host, job_robots, job_stat
from scraper_service.storage.transactions import read_number

SITE = "a.example"
ROBOTS = f"http://{SITE}/robots.txt"
TEAM = "a team"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def write(database):
    """Return a function that runs one of a connection in a transaction."""

    def run(function, *args, **kwargs):
        with database.engine.begin() as connection:
            return function(connection, *args, **kwargs)

    return run


@pytest.fixture
def job_id(write):
    write(job_rows.make_team, TEAM)
    options = crawl_options({"url": f"http://{SITE}/", "limit": "5"})
    return write(admission.create_job, Terms(team_id=TEAM), options, 2).id


def ask(tally, count, *, answer="200"):
    """Begin so many requests at once, which get their answers; :func:`end` ends them."""
    for _ in range(count):
        tally.begin(SITE)
        tally.count_response(SITE, answer, 10, None)


def end(tally, count):
    for _ in range(count):
        tally.end(SITE)


def total(*tallies, onto=None):
    counts = onto or HostCounts()
    for tally in tallies:
        if found := tally.take().hosts.get(SITE):
            counts.add(found)
    return counts


def test_peaks_are_computed_from_the_sums_over_processes(clock):
    first, second = JobTally(clock), JobTally(clock)
    ask(first, 3)
    ask(second, 2)
    counts = total(first, second)
    assert (counts.requests, counts.peak_rate, counts.peak_in_flight) == (5, 5, 5)
    end(first, 3)
    end(second, 2)
    clock.now += 1
    ask(first, 4)
    end(first, 4)
    total(first, second, onto=counts)
    assert (counts.requests, counts.peak_rate, counts.peak_in_flight) == (9, 5, 5)


def test_a_second_that_is_reported_twice_counts_once(clock):
    tally = JobTally(clock)
    counts = HostCounts()
    for _ in range(3):
        ask(tally, 2)
        end(tally, 2)
        total(tally, onto=counts)
    assert (counts.requests, counts.peak_rate, counts.peak_in_flight) == (6, 6, 2)


def test_running_requests_of_several_processes_add_up(clock):
    slow, quick = JobTally(clock), JobTally(clock)
    ask(slow, 4)
    counts = total(slow)
    clock.now += 3
    ask(quick, 1)
    total(slow, quick, onto=counts)
    assert counts.peak_in_flight == 5
    assert counts.peak_rate == 4


def test_counts_that_were_not_stored_are_reported_again(clock):
    tally = JobTally(clock)
    tally.add_delay(SITE, "retryAfter", 2.0)
    tally.robots(ROBOTS, RobotsSeen("ok", "", "*", None))
    ask(tally, 1)
    taken = tally.take()
    tally.put_back(taken)
    ask(tally, 1, answer="429")
    end(tally, 2)
    again = tally.take()
    assert again.robots == taken.robots
    assert again.hosts[SITE].requests == 2
    assert again.hosts[SITE].answers == {"200": 1, "429": 1}
    assert again.hosts[SITE].delays == {"retryAfter": Delay(1, 2.0)}
    assert not tally.take()


def test_idle_tallies_are_forgotten(clock):
    tally = JobTally(clock)
    ask(tally, 1)
    assert tally.take()
    clock.now += 60
    assert len(tally.take().hosts[SITE].seconds) == 10  # it goes on
    end(tally, 1)
    clock.now += 60
    assert not tally.take()
    assert not tally._in_flight


def test_seconds_are_not_kept_without_end(clock):
    tally, counts = JobTally(clock), HostCounts()
    for _ in range(100):
        ask(tally, 1)
        end(tally, 1)
        total(tally, onto=counts)
        clock.now += 1
    assert len(counts.seconds) == 10
    assert len(counts.facts()) < 1000


def test_a_request_that_ends_without_a_response_has_failed(clock):
    tally, pace = JobTally(clock), HostPace(8)

    async def run():
        async with pace.slot(SITE, tally=tally):
            pass
        async with pace.slot(SITE, tally=tally) as slot:
            slot.note_response(429, 10, 0.01, 5.0, page="/")
        with pytest.raises(HostBusy):  # it does not get its turn
            await pace.slot(SITE, patience_s=1.0, tally=tally).__aenter__()

    asyncio.run(run())
    counts = tally.take().hosts[SITE]
    assert (counts.requests, counts.bytes) == (2, 10)
    assert counts.answers == {"failed": 1, "429": 1}
    assert counts.backoffs == {"429": 1}
    assert counts.delays == {"retryAfter": Delay(1, 5.0)}
    assert not tally._in_flight


def test_counts_of_processes_add_up_in_the_database(write, job_id, clock):
    for answer, source in (("200", "delay"), ("429", "retryAfter")):
        tally = JobTally(clock)
        tally.add_delay(SITE, source, 1.5)
        tally.add_wait("b.example", 2.0)
        ask(tally, 3, answer=answer)
        tally.robots(ROBOTS, RobotsSeen("ok", "", answer, 2.0))
        write(job_counts.add_requests, job_id, tally.take())
    found = write(read_report, job_id, TEAM)
    assert list(found.hosts) == [SITE, "b.example"]
    counts = found.hosts[SITE]
    assert (counts.requests, counts.bytes, counts.peak_rate) == (6, 60, 6)
    assert counts.answers == {"200": 3, "429": 3}
    assert counts.delays == {"delay": Delay(1, 1.5), "retryAfter": Delay(1, 1.5)}
    assert {s for shares in counts.seconds.values() for s in shares.values()} == {
        Share(3, 3)
    }
    assert (found.totals.hosts, found.totals.requests) == (2, 6)
    assert found.totals.wait_s == pytest.approx(4.0, abs=0.1)
    assert [row.seen.agent for row in found.robots] == ["429"]
    assert write(read_report, job_id, "another team") is None


def test_numbers_of_scrapys_stats_add_up_in_the_database(write, job_id, clock):
    first, second = JobTally(clock), JobTally(clock)
    stats = {"items": 2, "elapsed": 0.25, "finish_reason": "finished", "start": clock}
    stats |= {"memusage/startup": 9, "request_depth_max": 3, "n" * 201: 1}
    for tally, found in ((first, stats), (second, {"items": 1, "errors": 1})):
        write(job_counts.add_requests, job_id, tally.take(found))
    lost = first.take({**stats, "items": 5})
    assert lost.stats == {"items": 3}
    first.put_back(lost)
    write(job_counts.add_requests, job_id, first.take({**stats, "items": 6}))
    assert not first.take({**stats, "items": 6})
    found = write(read_report, job_id, TEAM).stats
    assert found == {"elapsed": 0.25, "errors": 1, "items": 7}
    assert isinstance(found["items"], int)


def test_a_crawler_stores_a_hundred_stats_at_most(clock):
    tally = JobTally(clock)
    stats = {f"of/page/{number}": 1 for number in range(150)}
    assert list(tally.take(stats).stats) == list(stats)[:100]
    assert not tally.take(stats | {"aaa": 1})


def test_counts_of_a_deleted_job_are_dropped(write, job_id, clock):
    tally = JobTally(clock)
    ask(tally, 1)
    tallied = tally.take({"items": 1})
    write(job_counts.add_requests, "no job", tallied)
    write(job_counts.add_requests, job_id, tallied)
    write(outcomes.end_job, job_id, JobState.CANCELLED)
    write(lambda connection: connection.execute(job.update().values(expires_at=1.0)))
    while write(job_deletion.expire):
        pass
    for table in (job_host, job_robots, job_stat, job):
        assert (
            write(lambda connection, t=table: connection.execute(t.select()).all())
            == []
        )


def link(number, code=None, **facts):
    url = f"http://{SITE}/{number}"
    return Link(number, url, facts.pop("depth", 1), code=code, error=code, **facts)


def brute_force(connection, job_id):
    """Count by reading every row."""
    rows = []
    after = None
    while True:
        query = job_urls.UrlQuery(after=after, limit=7)
        part = job_urls.read_urls(connection, job_id, query)
        rows += part.urls
        after = part.next
        if after is None:
            break
    assert len(rows) == part.total
    rows = [row for row in rows if row.kind == "page"]
    states = Counter(row.state for row in rows)
    return states, Counter(row.reason for row in rows if row.reason)


def test_urls_are_counted_by_their_listed_state(write, job_id):
    codes = ["trap", "robots", "external", "discovery_depth", "robots"]
    refused = [link(number, code) for number, code in enumerate(codes)]
    pages = [link(number) for number in range(10, 18)]
    files = [link(number, kind=UrlKind.SITEMAP) for number in range(20, 23)]
    ends = {
        UrlKind.PAGE: [
            {"page": b"{}", "links": (*refused, *pages, *files)},
            {"page": b"{}", "final": (99, f"http://{SITE}/99")},
            {"page": b"{}", "final": (1, f"http://{SITE}/1")},
            {"page": b"{}", "final": (99, f"http://{SITE}/99")},
            {"code": "robots", "error": "line 1", "final": (11, f"http://{SITE}/11")},
            {"code": "SCRAPE_TIMEOUT", "error": "late"},
        ],
        UrlKind.SITEMAP: [
            {"is_done": True},
            {"code": "SITEMAP_ABSENT", "error": "404"},
        ],
    }
    while rows := write(leases.claim, job_id, "owner", 1).rows:
        row = rows[0]
        if not ends[UrlKind(row.kind)]:
            continue  # it stays leased
        facts = ends[UrlKind(row.kind)].pop(0)
        known = {"row_id": row.id, "key": row.key, "token": row.token}
        ended = Outcome(
            page_id=f"{row.id}", owner="owner", kind=UrlKind(row.kind), **known, **facts
        )
        (commit,) = write(outcomes.append, job_id, [ended])
        assert commit.accepted
    assert not any(ends.values())
    states, reasons, _ = write(job_urls.count_by_state, job_id)
    known_states, known_reasons = write(brute_force, job_id)
    assert {name: count for name, count in states.items() if count} == known_states
    assert reasons == known_reasons
    assert {"leased", "done", "failed", "skipped", "held"} == set(known_states)


def test_refusals_are_counted_once_for_each_robots_txt(write, job_id):
    (row,) = (r for r in write(leases.claim, job_id, "o", 9).rows if r.kind == 0)
    other = Link(50, "https://b.example:8443/x", 1, code="robots", error="line 3")
    links = (link(1, "robots"), link(2, "robots"), link(1, "robots"), other)

    def outcome(**facts):
        known = {"row_id": row.id, "key": row.key, "token": row.token, "owner": "o"}
        return Outcome(page_id="a", **known, **facts)

    write(outcomes.append, job_id, [outcome(links=links, goes_on=True)])
    write(outcomes.append, job_id, [outcome(links=links, goes_on=True)])
    end_ = {"code": "robots", "error": "line 1", "final": (row.key, row.url)}
    write(outcomes.append, job_id, [outcome(**end_)])
    found = write(read_report, job_id, TEAM)
    assert {each.url: each.refused for each in found.robots} == {
        ROBOTS: 3,
        "https://b.example:8443/robots.txt": 1,
    }
    assert found.robots[0].seen is None
    assert found.reasons["robots"] == 4


def test_sitemaps_are_counted_separately(write, job_id):
    links = [link(n, kind=UrlKind.SITEMAP) for n in range(3)]
    number = write(read_number, job_id)
    write(insert_links, number, links[:1], RowState.DONE)
    write(insert_links, number, [link(9, "X", kind=UrlKind.SITEMAP)], RowState.FAILED)
    write(insert_links, number, links[1:], RowState.PENDING)
    _, reasons, files = write(job_urls.count_by_state, job_id)
    assert (files.files, files.read, files.failed) == (4, 1, 1)
    assert files.reasons == {"X": 1}
    assert reasons == {}
