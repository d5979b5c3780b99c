"""The index of scraped pages, as a contract that every database has to keep."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Engine, event, func, select, update

from scraper_service.content.text.search_entry import search_entry
from scraper_service.content.text.search_query import parse_query
from scraper_service.options.search import Source, time_filter
from scraper_service.storage import jobs
from scraper_service.storage.database import Database
from scraper_service.storage.job_records import SegmentState
from scraper_service.storage.page_index import expiry, merging, rows, searching
from scraper_service.storage.page_index.postings import MAX_PAGES
from scraper_service.storage.schema import search_list, search_page, search_segment

TEAM, OTHER = "team", "other"
DAY_S = 86_400
NOISE = "lorem ipsum dolor sit amet consetetur sadipscing elitr sed diam".split()

FOX = "The quick brown fox jumps over dogs that are running"
SHOES = "A lazy dog sleeps beside running shoes, red ones"
PAGES = {
    "http://a.example/fox": (FOX, {"title": "Foxes"}),
    "http://www.b.example/shop/shoes": (SHOES, {"title": "Shoes for dogs"}),
    "http://docs.a.example/manual.pdf": ("Shoes that run: how to make them", {}),
    "http://c.example/de": (
        "Die Läufer liefen durch die Straßen der Stadt",
        {"language": "de-AT", "title": "Läufer"},
    ),
    "http://c.example/ja": ("東京タワーの高さは333メートルです", {"language": "ja"}),
    "http://c.example/news": (
        "A flood of foxes in the city",
        {"published_time": "2020-05-31T08:00:00+02:00", "title": "Flood"},
    ),
    "http://c.example/picture": (
        "A painting",
        {"title": "Gallery", "og_image": "http://c.example/i.png"},
    ),
}


class Index:
    """The index of a database, as one process uses it."""

    def __init__(self, database):
        self.database = database
        for team in (TEAM, OTHER):
            self.run(jobs.make_team, team)

    def run(self, function, *args):
        return self.database._writer.submit(lambda c: function(c, *args)).result(60)

    def add(self, pages, team=TEAM, retention_s=DAY_S):
        new = [rows.NewPage(url, _entry(url, *page)) for url, page in pages.items()]
        return self.run(rows.add_pages, team, new, retention_s)

    def add_noise(self, count, start=0, team=TEAM):
        """Add pages of no interest, until segments are made of them."""
        for first in range(start, start + count, rows.GATHERED):
            self.add(
                {
                    f"http://noise.example/{n}": (" ".join([*NOISE, f"w{n}"]), {})
                    for n in range(first, min(first + rows.GATHERED, start + count))
                },
                team,
            )

    def merge(self):
        async def merge_all():
            while await merging.merge_segments(self.database, TEAM):
                pass

        asyncio.run(merge_all())

    def hits(self, query, team=TEAM, limit=10, **source):
        return self.run(
            searching.search, team, parse_query(query), Source(**source), limit
        )

    def find(self, query, **asked):
        return [hit.url for hit in self.hits(query, **asked)]

    def levels(self):
        found = self.run(
            lambda c: c.execute(
                select(search_segment.c.level, func.count())
                .where(search_segment.c.state == SegmentState.LIVE)
                .group_by(search_segment.c.level)
            ).all()
        )
        return dict(found)

    def count(self, table):
        return self.run(lambda c: c.scalar(select(func.count()).select_from(table)))


def _entry(url, text, known):
    kind = "pdf" if url.endswith(".pdf") else "html"
    entry = search_entry(url, text, {"language": "en", **known}, {}, kind)
    return entry.packed()


@pytest.fixture
def index(database):
    return Index(database)


@pytest.fixture(params=["waiting", "in a segment"])
def filled(request, index):
    """All of :data:`PAGES`, before and after they are gathered."""
    index.add(PAGES)
    if request.param == "in a segment":
        index.add_noise(rows.GATHERED)
        assert index.levels() == {0: 1}
    return index


FOX_URL, SHOES_URL, PDF_URL, GERMAN, JAPANESE, NEWS, PICTURE = PAGES


QUERIES = {
    "fox": [FOX_URL, NEWS],  # more often, and in the title
    "FOXES": [FOX_URL, NEWS],
    "running shoes": [SHOES_URL, PDF_URL, FOX_URL],
    '"running shoes"': [SHOES_URL],
    '"shoes running"': [],
    '"run"': [PDF_URL],  # no other form of the word
    "fox -flood": [FOX_URL],
    'dog -"lazy dog"': [FOX_URL],
    "dog -dog": [FOX_URL],  # the word itself is in the other's text
    "shoes site:a.example": [PDF_URL],
    "shoes site:docs.a.example": [PDF_URL],
    "shoes -site:a.example": [SHOES_URL],
    "site:b.example/shop": [SHOES_URL],
    "site:b.example/other": [],
    "site:a.example OR site:b.example shoes": [SHOES_URL, PDF_URL],
    "filetype:pdf": [PDF_URL],
    "shoes -filetype:pdf": [SHOES_URL],
    "inurl:manual shoes": [PDF_URL],
    "-inurl:manual shoes": [SHOES_URL],
    "intitle:dog": [SHOES_URL],
    "shoes -intitle:dogs": [PDF_URL],
    "laufer": [GERMAN],
    "Läufern": [GERMAN],
    "strasse": [GERMAN],
    "東京タワー": [JAPANESE],
    '"タワーの高さ"': [JAPANESE],
    "大阪": [],
    "zebra": [],
    "the": [NEWS, FOX_URL],
    "how to find the fox": [FOX_URL, NEWS],
    "unheard": [],
    "!!!": [],
}


def test_queries(filled):
    assert {query: filled.find(query) for query in QUERIES} == QUERIES


def test_a_page_says_where_the_words_are(filled):
    [hit] = filled.hits('"running shoes"')
    assert hit.title == "Shoes for dogs"
    assert "beside running shoes, red" in hit.snippet


def test_news_and_images_are_pages_with_a_date_or_a_picture(filled):
    assert [(h.url, h.date) for h in filled.hits("fox", kind="news")] == [
        (NEWS, "2020-05-31T08:00:00+02:00")
    ]
    assert [(h.url, h.image_url) for h in filled.hits("painting", kind="images")] == [
        (PICTURE, "http://c.example/i.png")
    ]
    assert filled.hits("painting", kind="news") == []


def test_dates_are_those_of_pages_else_of_their_fetch(filled):
    expected = {
        "qdr:d": [FOX_URL],
        "cdr:1,cd_min:5/30/2020,cd_max:5/31/2020": [NEWS],
        "cdr:1,cd_max:5/30/2020": [],
        "sbd:1": [FOX_URL, NEWS],
    }
    found = {tbs: filled.find("fox", when=time_filter(tbs)) for tbs in expected}
    assert found == expected


def test_the_latest_copy_of_a_page_counts(filled):
    assert filled.find("jumping") == [FOX_URL]
    filled.add({"https://a.example/fox/": ("It is about zebras now", {})})
    assert filled.find("jumping") == []
    assert filled.find("zebra") == ["https://a.example/fox/"]


def test_routes_in_a_script_are_pages_of_their_own(index):
    for route in ("#/hay", "#/straw"):
        index.add({f"https://a.example/app{route}": (f"About {route[2:]}", {})})
    index.add({"https://a.example/app#part": ("About parts", {})})
    index.add({"https://a.example/app": ("About them all", {})})
    assert index.find("straw") == ["https://a.example/app#/straw"]
    assert len(index.find("about")) == 3


def test_teams_do_not_find_each_others_pages(filled):
    assert filled.find("fox", team=OTHER) == []
    before = filled.find("running shoes")
    filled.add({f"http://o.example/{n}": ("running " * 9, {}) for n in range(9)}, OTHER)
    assert filled.find("running shoes") == before
    assert len(filled.find("running", team=OTHER)) == 9


def test_the_limit_is_kept_and_nothing_is_told_twice(filled):
    filled.add_noise(30, start=1000)
    found = filled.find("lorem ipsum", limit=25)
    assert len(found) == len(set(found)) == 25


def test_expired_pages_are_not_found_and_then_deleted(index):
    index.add(PAGES, retention_s=-1)
    assert index.find("fox") == []
    index.add_noise(rows.GATHERED)
    assert index.levels() == {0: 1}

    def age(connection):
        for table in (search_page, search_segment):
            connection.execute(update(table).values(expires_at=1))

    index.run(age)
    while index.run(expiry.expire):
        pass
    tables = (search_page, search_segment, search_list)
    assert [index.count(table) for table in tables] == [0, 0, 0]


def test_merges_change_nothing_for_searches(index, monkeypatch):
    monkeypatch.setattr(merging, "TOGETHER", 3)
    index.add(PAGES)
    for n in range(5):
        index.add_noise(rows.GATHERED, start=1000 * n)
    queries = ("running shoes", "lorem w1003", '"running shoes"', "site:c.example")
    before = {query: index.find(query, limit=50) for query in queries}
    assert index.levels() == {0: 5}
    index.add({FOX_URL: ("Nothing of it is left", {})})
    index.merge()
    assert index.levels() == {0: 2, 1: 1}
    for query in queries:
        expected = [url for url in before[query] if url != FOX_URL]
        found = index.find(query, limit=50)
        assert [url for url in found if url != FOX_URL] == expected
    while index.run(expiry.expire):
        pass
    assert index.count(search_segment) == 3


def outdated(connection, segment_id):
    """Let the process that builds a segment be gone for long."""
    old = update(search_segment).where(search_segment.c.id == segment_id)
    connection.execute(old.values(created_at=1.0))


def test_of_two_merges_of_the_same_parts_one_is_dropped(index, monkeypatch):
    monkeypatch.setattr(merging, "TOGETHER", 2)
    for n in range(2):
        index.add_noise(rows.GATHERED, start=1000 * n)
    merge = index.run(merging.plan, TEAM)
    late = index.run(merging._begin, "", TEAM, merge)
    assert index.run(merging._begin, "", TEAM, merge) is None
    index.run(outdated, late)
    index.merge()
    assert not index.run(merging._finish, "", TEAM, late, merge)
    assert index.run(merging._begin, "", TEAM, merge) is None
    assert not index.run(merging._add, late, {})
    assert index.levels() == {1: 1}
    assert len(index.find("lorem", limit=200)) == 2 * rows.GATHERED


def test_no_segment_gets_more_pages_than_it_can_number():
    merged = rows.MOST_GATHERED * merging.TOGETHER**merging.TOP_LEVEL
    assert merged <= MAX_PAGES


def test_the_plans_of_a_search_read_no_more_than_they_need(tmp_path):
    database = Database(tmp_path)
    index = Index(database)
    index.add(PAGES)
    index.add_noise(2 * rows.GATHERED)
    statements = []

    def note(_connection, _cursor, statement, parameters, _context, _many):
        statements.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    assert index.find("running shoes")
    event.remove(Engine, "before_cursor_execute", note)

    def plans(connection):
        return [
            row[3]
            for statement, parameters in statements
            if statement.startswith("SELECT")
            for row in connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {statement}", parameters
            )
        ]

    found = index.run(plans)
    database.close()
    tables = ("search_page", "search_segment", "search_list")
    used = [plan for plan in found if any(table in plan for table in tables)]
    assert {table for table in tables if table in "".join(used)} == set(tables)
    assert not [plan for plan in used if plan.startswith("SCAN")]
    # The index of addresses would read all pages of the team.
    assert not [plan for plan in used if "ix_search_page_key" in plan]
