"""Links that a crawl only lists: each once, in parts of any size, and gone with the job."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from sqlalchemy import func, select, update

from scraper_service.discovery.canonical_urls import crawl_key
from scraper_service.options.jobs import unstructure
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.storage.frontier import refused_links
from scraper_service.storage.frontier.job_warnings import explain_result, sentence_of
from scraper_service.storage.job_records import Link
from scraper_service.storage.jobs import job_deletion, job_log, job_urls
from scraper_service.storage.jobs.job_urls import UrlQuery
from scraper_service.storage.schema import frontier, job, refused_key, refused_list
from scraper_service.storage.transactions import read_number
from tests.storage.test_frontier import OWNER, Harness

OPTIONS = crawl_options({"url": "http://a.example/"})


def refused(number, code="external", site="b.example"):
    url = f"http://{site}/{number}"
    key = crawl_key(OPTIONS, url)
    return Link(key, url, 1, code=code, error=f"rule {number}")


def several(first, last, code="external"):
    return tuple(refused(number, code) for number in range(first, last))


@pytest.fixture
def harness(database):
    return Harness(database)


@pytest.fixture
def job_id(harness):
    found = harness.start(range(4))
    text = json.dumps(unstructure(OPTIONS))
    harness.run(lambda c: c.execute(update(job).values(options=text)))
    return found


def page_with(harness, job_id, links, **changes):
    [row] = harness.claim(job_id, 1)
    found = tuple(link._replace(found_on=row.id) for link in links)
    facts = {"page": b"{}", "credits": 1, "links": found} | changes
    commit = harness.append(job_id, row, OWNER, **facts)
    assert commit.accepted
    return row, commit


def counted(harness, job_id):
    """Check the counts. Return the number of listed URLs."""
    keys, urls = harness.rows(
        select(
            select(func.count()).select_from(refused_key).scalar_subquery(),
            func.coalesce(func.sum(refused_list.c.urls), 0),
        )
    )[0]
    rows = harness.rows(select(frontier.c.state))
    assert keys == urls == harness.run(refused_links.count, job_id)
    assert harness.job(job_id).skipped == keys + sum(row.state >= 5 for row in rows)
    return keys


def listed(harness, job_id, limit=1000, skip=0, **query):
    """Return what lists have in parts of a size, and check the totals."""
    found, after = [], None
    while True:
        asked = UrlQuery(after=after, limit=limit, skip=skip, **query)
        part = harness.run(job_urls.read_urls, job_id, asked)
        found += part.urls
        after, skip = part.next, 0
        if after is None:
            return found, part.total


def test_a_link_is_listed_once(harness, job_id):
    page_with(harness, job_id, (*several(0, 5), *several(3, 7)))
    page_with(harness, job_id, (*several(5, 9), refused(8, "trap")))
    assert counted(harness, job_id) == 9
    found, total = listed(harness, job_id, state="skipped")
    assert total == 9
    assert [each.url for each in found] == [f"http://b.example/{n}" for n in range(9)]
    assert {each.reason for each in found} == {"external"}
    assert [each.detail for each in found] == [f"rule {n}" for n in range(9)]
    sources = Counter(each.found_on for each in found)
    assert sources == {"http://a.example/0": 7, "http://a.example/1": 2}


def test_a_url_has_a_single_state(harness, job_id):
    first = refused(1)
    as_page = first._replace(code=None, error=None)
    of_page = refused(2)._replace(code=None, error=None)
    page_with(harness, job_id, (first, refused(2), of_page))
    assert counted(harness, job_id) == 1
    page_with(harness, job_id, (as_page, refused(2)))  # too late, both of them
    assert counted(harness, job_id) == 1
    [found] = listed(harness, job_id, state="skipped")[0]
    assert (found.url, found.reason) == (first.url, "external")
    urls = [each.url for each in listed(harness, job_id)[0]]
    assert Counter(urls).most_common(1)[0][1] == 1


def test_refused_links_that_a_change_may_admit_are_stored(harness, job_id):
    codes = sorted(refused_links.AS_ROWS)
    links = [refused(n, code) for n, code in enumerate(codes)]
    page_with(harness, job_id, (*links, refused(99)))
    assert counted(harness, job_id) == 1
    found, total = listed(harness, job_id, state="skipped")
    assert (len(found), total) == (len(codes) + 1, len(codes) + 1)
    assert {each.reason for each in found} == {*codes, "external"}


def test_lists_are_read_in_parts_of_any_size(harness, job_id):
    page_with(harness, job_id, (*several(0, 4), *several(10, 13, "trap")))
    page_with(harness, job_id, (*several(20, 25, "trap"), refused(30, "excluded")))
    everything, total = listed(harness, job_id)
    assert len(everything) == total == 4 + 13
    reasons = Counter(each.reason for each in everything if each.reason)
    assert reasons == {"external": 4, "trap": 8, "excluded": 1}
    assert harness.run(job_urls.count_by_state, job_id)[1] == reasons
    for limit in (1, 2, 3, 7):
        assert listed(harness, job_id, limit)[0] == everything
    for skip in range(len(everything) + 2):
        assert listed(harness, job_id, 3, skip)[0] == everything[skip:]
    traps = [each for each in everything if each.reason == "trap"]
    for skip in range(len(traps) + 2):
        found, total = listed(harness, job_id, 2, skip, reason="trap")
        assert (found, total) == (traps[skip:], 8)


def test_a_page_with_very_many_links_has_several_lists(harness, job_id):
    page_with(harness, job_id, several(0, 2500))
    assert counted(harness, job_id) == 2500
    assert len(harness.rows(select(refused_list.c.id))) == 3
    assert len(listed(harness, job_id, 700, state="skipped")[0]) == 2500


def test_a_redirect_to_a_listed_url_takes_it_from_its_list(harness, job_id):
    target = refused(1)
    page_with(harness, job_id, several(0, 3))
    final = {"final": (target.key, target.url)}
    assert page_with(harness, job_id, (), **final)[1].delivered
    assert counted(harness, job_id) == 2
    assert not page_with(harness, job_id, (), **final)[1].delivered
    found = listed(harness, job_id, state="skipped")[0]
    assert [(each.url, each.reason) for each in found] == [
        ("http://b.example/0", "external"),
        ("http://b.example/2", "external"),
        (target.url, "duplicate"),
    ]
    number = harness.run(read_number, job_id)
    for each in (0, 2):  # the list ends with its last URL
        key = refused(each).key
        harness.run(
            lambda c, key=key: refused_links.take_out(
                c, number, key, lambda url: crawl_key(OPTIONS, url)
            )
        )
    assert harness.rows(select(refused_list.c.id)) == []


def test_logs_and_warnings_count_lists(harness, job_id):
    page_with(harness, job_id, (*several(0, 3), *several(5, 7, "outside_path")))
    reasons = harness.run(job_log.read_log, job_id).reasons
    assert reasons == (("external", 3, "rule 2"), ("outside_path", 2, "rule 6"))
    ((code, data),) = harness.run(explain_result, job_id, 1, 0)
    text = sentence_of(code, **data)
    assert "2 outside the path of the start URL" in text
    # without a failed URL
    ((code, data),) = harness.run(explain_result, job_id, 0, 0)
    text = sentence_of(code, **data)
    assert text.startswith("The job ended without a page. Skipped URLs: 2 outside")


def test_lists_go_with_their_job(harness, job_id):
    page_with(harness, job_id, several(0, 1500))
    harness.run(
        lambda c: c.execute(update(job).values(expires_at=0, state="completed"))
    )
    while harness.run(job_deletion.expire):
        pass
    for table in (refused_key, refused_list, job):
        assert harness.rows(select(func.count()).select_from(table)) == [(0,)]
