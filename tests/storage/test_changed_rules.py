"""Changed paths and depths of a running crawl, as a contract of every database."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select, update

from scraper_service.options.spider_arguments import crawl_options
from scraper_service.storage.frontier import leases, refused_links, sweeps
from scraper_service.storage.jobs import admission, job_control, job_store
from scraper_service.storage.jobs.admission import Terms
from scraper_service.storage.jobs.job_records import (
    Effect,
    JobState,
    Link,
    RowState,
    UrlKind,
)
from scraper_service.storage.schema import event, job
from scraper_service.storage.schema import frontier as rows_of
from scraper_service.storage.transactions import number_of
from tests.storage.test_frontier import OWNER, TEAM
from tests.storage.test_job_control import Control

SITE = "http://a.example"
NEWS = [f"/news/{n}" for n in range(4)]
BLOG = [f"/blog/{n}" for n in range(4)]


class Crawls(Control):
    """Crawls of a site whose start page has links."""

    def begin(self, links=(), depth=1, **options):
        """Start a crawl whose start page is delivered with ``links``, as paths."""
        arguments = {"url": f"{SITE}/", "sitemap": "skip", "limit": "100", **options}
        made = crawl_options(arguments)
        terms = Terms(team_id=TEAM)
        job_id = self.run(admission.create_job, terms, made, 2).id
        [start] = self.claim(job_id)
        self.deliver(job_id, start, links=self.made(start, links, depth))
        return job_id

    def links(self, *links):
        return links

    def made(self, row, links, depth=1):
        """Return links, as paths or as (path, reason)."""
        pairs = [each if isinstance(each, tuple) else (each, None) for each in links]
        return [
            Link(hash(path), SITE + path, depth, found_on=row.id, code=reason)
            for path, reason in pairs
        ]

    def urls(self, job_id):
        """Return the paths of a job by state, and reasons of skipped ones."""
        query = select(rows_of).where(
            rows_of.c.job_number == number_of(job_id), rows_of.c.kind == UrlKind.PAGE
        )
        found = {}
        for row in self.rows(query.order_by(rows_of.c.id)):
            name = RowState(row.state).name.lower()
            found.setdefault(name, []).append(row.url.removeprefix(SITE))
            if row.state == RowState.SKIPPED:
                found.setdefault(row.code, []).append(row.url.removeprefix(SITE))
        listed, _ = self.run(refused_links.read, job_id, None, 0, 0, 1000)
        for link in listed:
            found.setdefault(link.code, []).append(link.url.removeprefix(SITE))
        return found

    def updates(self, job_id):
        """Return the excluded paths and the effects of the events of changes."""
        query = select(event.c.detail).where(
            event.c.job_number == number_of(job_id), event.c.kind == "updated"
        )
        found = [json.loads(r.detail) for r in self.rows(query.order_by(event.c.id))]
        return [
            (each["options"]["exclude_paths"], Effect(**each["effect"]))
            for each in found
        ]


@pytest.fixture
def crawls(database):
    return Crawls(database)


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr(sweeps, "SLICE_ROWS", 3)


def test_urls_that_no_longer_pass_are_skipped(crawls):
    job_id = crawls.begin([*NEWS, *BLOG], limit="6")
    assert crawls.urls(job_id)["held"] == BLOG[1:]
    changed = crawls.change(job_id, exclude_paths=("/news/[02]",))
    assert changed.change.effect == Effect(admitted=2, dropped=2)
    assert changed.change.options["exclude_paths"] == ["/news/[02]"]
    found = crawls.urls(job_id)
    assert found["pending"] == ["/news/1", "/news/3", "/blog/0", "/blog/1", "/blog/2"]
    assert found["held"] == ["/blog/3"]
    assert found["excluded"] == ["/news/0", "/news/2"]
    assert (crawls.check(job_id).skipped, changed.is_whole) == (2, True)


def test_urls_that_the_former_lists_skipped_are_restored(crawls):
    listed = [(path, "not_included") for path in [*NEWS, *BLOG]]
    job_id = crawls.begin([*listed, "/docs/1"], include_paths="^/docs", limit="4")
    changed = crawls.change(job_id, include_paths=("^/docs", "^/blog"))
    assert changed.change.effect == Effect(restored=4)
    found = crawls.urls(job_id)
    assert found["pending"] == ["/docs/1", "/blog/0", "/blog/1"]
    assert found["held"] == ["/blog/2", "/blog/3"]
    assert found["not_included"] == NEWS
    again = crawls.change(job_id, include_paths=(), exclude_paths=("/news/0", "^/docs"))
    assert again.change.effect == Effect(admitted=1, dropped=1, restored=3)
    found = crawls.urls(job_id)
    assert found["excluded"] == ["/docs/1", "/news/0"]
    assert crawls.check(job_id).skipped == 2


def test_restored_urls_obey_the_rules_that_were_not_checked_before(crawls):
    paths = ["/a/1", "/b/1", "/a/x.png"]
    links = ["/a/keep", *((path, "excluded") for path in paths)]
    start = f"{SITE}/a/"
    job_id = crawls.begin(links, url=start, exclude_paths=".")
    changed = crawls.change(job_id, exclude_paths=())
    assert changed.change.effect == Effect(restored=1)
    found = crawls.urls(job_id)
    assert found["pending"] == ["/a/keep", "/a/1"]
    assert (found["outside_path"], found["file_type"]) == (["/b/1"], ["/a/x.png"])


def test_the_depth_is_changed_in_both_directions(crawls):
    deep = [(path, "discovery_depth") for path in BLOG]
    job_id = crawls.begin(NEWS, max_discovery_depth="1")
    [first, *_] = crawls.claim(job_id, 1)
    crawls.deliver(job_id, first, links=crawls.made(first, deep, depth=2))
    changed = crawls.change(job_id, max_discovery_depth=2)
    assert changed.change.effect == Effect(restored=4)
    assert crawls.urls(job_id)["pending"] == [*NEWS[1:], *BLOG]
    changed = crawls.change(job_id, max_discovery_depth=0)
    assert changed.change.effect == Effect(dropped=7)
    assert changed.job.state is JobState.COMPLETED
    assert crawls.change(job_id, max_discovery_depth=None).state == "completed"
    assert crawls.check(job_id).pages == 2


def test_start_urls_and_running_pages_stay(crawls):
    made = crawl_options({"url": f"{SITE}/", "sitemap": "skip"})
    job_id = crawls.run(admission.create_job, Terms(team_id=TEAM), made, 2).id
    assert crawls.change(job_id, exclude_paths=(".",)).change.effect == Effect()
    [start] = crawls.claim(job_id)
    crawls.change(job_id, exclude_paths=())
    crawls.deliver(job_id, start, links=crawls.made(start, NEWS))
    running = crawls.claim(job_id, 2)
    assert crawls.change(job_id, exclude_paths=("/news/",)).change.effect.dropped == 2
    for row in running:
        assert crawls.deliver(job_id, row).delivered
    assert crawls.check(job_id).state is JobState.COMPLETED


def test_links_by_the_former_rules_are_judged_by_the_present_ones(crawls):
    job_id = crawls.begin(["/late"], exclude_paths="/news/")
    [late] = crawls.claim(job_id)
    crawls.change(job_id, exclude_paths=("/blog/",))
    former = [*((path, "excluded") for path in NEWS), *BLOG, ("/x.png", "file_type")]
    assert crawls.deliver(job_id, late, links=crawls.made(late, former)).new_links == 4
    found = crawls.urls(job_id)
    assert (found["pending"], found["excluded"]) == (NEWS, BLOG)
    assert found["file_type"] == ["/x.png"]
    crawls.check(job_id)


def test_returned_leases_are_judged_before_the_next_one(crawls):
    job_id = crawls.begin([*NEWS, *BLOG])
    rows = crawls.claim(job_id)
    changed = crawls.change(job_id, exclude_paths=("/news/",))
    assert changed.change.effect == Effect()
    crawls.run(leases.release, job_id, [(row.id, row.token) for row in rows])
    assert [row.url.removeprefix(SITE) for row in crawls.claim(job_id, 2)] == BLOG[:2]
    assert crawls.urls(job_id)["excluded"] == NEWS
    assert crawls.check(job_id).total == 5


def test_a_large_job_is_swept_in_slices(crawls, narrow):
    job_id = crawls.begin([*NEWS, *BLOG, ("/old", "excluded")], limit="7")
    rows = crawls.claim(job_id, 1)
    changed = crawls.change(job_id, exclude_paths=("/(news|blog)/",))
    assert (changed.is_whole, changed.change.effect) == (False, Effect(dropped=3))
    crawls.deliver(job_id, rows[0])
    found = crawls.check(job_id)
    assert (found.state, "updated" in crawls.kinds(job_id)) == ("scraping", False)
    slices = 1
    while not crawls.run(sweeps.go_on, job_id):
        slices += 1
        crawls.check(job_id)
    assert slices >= 2
    whole = crawls.run(job_control.read_changed, job_id)
    assert whole.change.effect == Effect(dropped=7, restored=1)
    assert crawls.kinds(job_id).count("updated") == 1
    assert crawls.urls(job_id)["pending"] == ["/old"]
    crawls.check(job_id)


def test_claims_go_on_with_a_sweep_that_was_left(crawls, narrow):
    job_id = crawls.begin([*NEWS, *BLOG])
    crawls.change(job_id, exclude_paths=("/news/",))
    claims = [crawls.run(leases.claim, job_id, OWNER, 100) for _ in range(9)]
    counts = [len(claim.rows) for claim in claims]
    assert counts[:2] == [0, 0]
    assert sum(counts) == 4
    assert {claim.revision for claim in claims} == {1}
    assert crawls.run(sweeps.go_on, job_id)
    assert crawls.kinds(job_id).count("updated") == 1


def test_further_rules_start_the_sweep_again(crawls, narrow):
    job_id = crawls.begin([*NEWS, *BLOG])
    first = crawls.change(job_id, exclude_paths=("/news/",), paused=True)
    again = crawls.change(job_id, exclude_paths=("/blog/",))
    assert (first.is_whole, again.is_whole) == (False, False)
    # A slice of each, no more:
    assert crawls.urls(job_id)["excluded"] == [*NEWS[:3], *BLOG[:2]]
    while not crawls.run(sweeps.go_on, job_id):
        assert crawls.claim(job_id) == ()
    found = crawls.urls(job_id)
    assert (sorted(found["pending"]), found["excluded"]) == (NEWS, BLOG)
    whole = crawls.run(job_control.read_changed, job_id)
    assert whole.change.effect == Effect(dropped=4, restored=3)
    assert crawls.updates(job_id) == [
        (["/news/"], Effect(dropped=3)),
        (["/blog/"], Effect(dropped=4, restored=3)),
    ]
    assert crawls.check(job_id).paused_at is not None


def test_changes_of_limit_pace_and_pause_leave_a_sweep_running(crawls, narrow):
    job_id = crawls.begin([*NEWS, *BLOG], limit="7")
    crawls.change(job_id, exclude_paths=("/(news|blog)/",))
    for options in ({"delay_s": 1.0}, {"paused": True}, {"limit": 3}, {"limit": 9}):
        dropped = crawls.urls(job_id)["excluded"]
        changed = crawls.change(job_id, **options)
        assert (changed.is_whole, changed.job.state) == (True, "scraping")
        assert (changed.change.effect.dropped, dropped) == (0, NEWS[:3])
        crawls.check(job_id)
    assert not crawls.change(job_id, limit=9).is_whole  # asks for what holds already
    while not crawls.run(sweeps.go_on, job_id):
        assert crawls.claim(job_id) == ()
    assert sorted(crawls.urls(job_id)["excluded"]) == sorted([*NEWS, *BLOG])
    excluded, effects = zip(*crawls.updates(job_id), strict=True)
    assert set(map(tuple, excluded)) == {("/(news|blog)/",)}
    assert [each.dropped for each in effects] == [0, 0, 0, 8]
    assert crawls.resume(job_id).state is JobState.COMPLETED
    crawls.check(job_id)


def test_a_sweep_ends_with_its_job(crawls, narrow):
    job_id = crawls.begin([*NEWS, *BLOG])
    crawls.change(job_id, exclude_paths=("/news/",))
    crawls.run(job_store.end_job, job_id, JobState.CANCELLED)
    assert crawls.run(sweeps.go_on, job_id)
    assert crawls.check(job_id).state is JobState.CANCELLED


def test_a_start_page_that_moved_is_the_base_of_changed_rules(crawls):
    job_id = crawls.begin([("/news/1", "excluded"), "/keep"], exclude_paths=".")
    moved = update(job).where(job.c.id == job_id).values(base="http://b.example/")
    crawls.run(lambda connection: connection.execute(moved).rowcount)
    assert crawls.change(job_id, exclude_paths=()).change.effect == Effect()
    assert crawls.urls(job_id)["external"] == ["/news/1"]


def test_links_of_a_moved_start_page_and_of_sitemaps_are_restored(crawls):
    new = "http://b.example"
    options = {"url": f"{SITE}/", "sitemap": "include", "allow_external_links": "true"}
    terms = Terms(team_id=TEAM)
    made = crawl_options(options)
    job_id = crawls.run(admission.create_job, terms, made, 2).id
    start, robots = sorted(crawls.claim(job_id), key=lambda row: row.kind)
    at_start = [Link(1, f"{new}/p1", 1, found_on=start.id)]
    crawls.deliver(job_id, start, links=at_start, base=f"{new}/")
    files = UrlKind.SITEMAP
    nested = [Link(2, f"{SITE}/sitemap.xml", 1, kind=files, found_on=robots.id)]
    crawls.append(job_id, robots, OWNER, kind=files, is_done=True, links=nested)
    file = next(row for row in crawls.claim(job_id) if row.kind == files)
    listed = [Link(3, f"{new}/p2", 0, found_on=file.id)]
    crawls.append(job_id, file, OWNER, kind=files, is_done=True, links=listed)
    of_job = select(rows_of).where(rows_of.c.job_number == number_of(job_id))
    page = next(row for row in crawls.rows(of_job) if row.key == 1)
    crawls.run(leases.release, job_id, [(page.id, page.token)])
    changed = crawls.change(job_id, paused=True, exclude_paths=("p[12]",))
    assert changed.change.effect == Effect(dropped=2)
    changed = crawls.change(job_id, exclude_paths=())
    assert changed.change.effect == Effect(restored=2)
    assert crawls.urls(job_id)["pending"] == [f"{new}/p1", f"{new}/p2"]
    crawls.check(job_id)


def test_limit_and_paths_change_together(crawls):
    job_id = crawls.begin([*NEWS, *BLOG], limit="2")
    changed = crawls.change(job_id, limit=4, exclude_paths=("/news/",))
    assert changed.change.effect == Effect(admitted=3, dropped=4)
    found = crawls.urls(job_id)
    assert (found["pending"], found["held"]) == (BLOG[:3], BLOG[3:])
    crawls.check(job_id)
