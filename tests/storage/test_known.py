"""What a map learns from the team's crawls, on every database."""

from __future__ import annotations

import json

from sqlalchemy import update

from scraper_service.options.jobs import unstructure
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.storage.frontier import links
from scraper_service.storage.frontier.links import seed_of
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.schema import job
from tests.storage.test_frontier import TEAM, Harness


def start(harness, url, team=TEAM, **arguments):
    options = crawl_options({"url": url, "sitemap": "skip", **arguments})
    text = json.dumps(unstructure(options))
    return harness.run(job_rows.insert_job, team, seed_of(options), text, 2).id


def read_all(harness, job_ids):
    reading = links.KnownUrlReader(job_ids)
    found = []
    while pages := harness.run(reading.next):
        found += pages
    return found


def test_crawls_are_those_of_the_team_and_the_site_that_keep_their_pages(database):
    harness = Harness(database)
    harness.run(job_rows.make_team, "other")
    old = start(harness, "https://www.a.example/x")
    new = start(harness, "http://docs.a.example")
    start(harness, "http://b.example")
    start(harness, "http://a.example", team="other")
    start(harness, "http://a.example", zero_data_retention="true")
    expired = start(harness, "http://a.example/expired")
    harness.run(
        lambda c: c.execute(update(job).where(job.c.id == expired).values(expires_at=1))
    )
    assert harness.run(links.crawls_of, TEAM, "https://a.example/y") == [new, old]


def test_delivered_pages_come_first_with_their_bodies(database, monkeypatch):
    monkeypatch.setattr(links, "BODY_ROWS", 2)
    monkeypatch.setattr(links, "SLICE_ROWS", 2)
    monkeypatch.setattr(links, "MAX_BODIES", 3)
    harness = Harness(database)
    job_id = harness.start(range(9))
    rows = harness.claim(job_id, 7)
    for row in rows[:5]:
        harness.deliver(job_id, row)
    harness.fail(job_id, rows[5])
    found = read_all(harness, [job_id])
    assert len(found) == 8  # all but the one that failed
    assert len({page.url for page in found}) == 8
    delivered = {row.url for row in rows[:5]}
    assert {page.url for page in found[:5]} == delivered
    assert 3 <= sum(page.body is not None for page in found) <= 4
