"""The index of scraped pages, as a contract that every database has to keep."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, event, text

from scraper_service.content.search import parse_query, search_entry
from scraper_service.options.map_search import ResultList, time_filter
from scraper_service.storage.database import Database
from scraper_service.storage.jobs import job_rows
from scraper_service.storage.page_index import (
    MAX_RANKED,
    PageIndex,
    add_pages,
    expire,
    search,
)

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
            self.run(job_rows.make_team, team)

    def run(self, function, *args):
        return self.database._writer.submit(lambda c: function(c, *args)).result(60)

    def add(self, pages, team=TEAM, retention_s=DAY_S):
        new = [(url, _entry(url, *page)) for url, page in pages.items()]
        self.run(add_pages, team, new, retention_s)

    def add_noise(self, count, start=0, team=TEAM):
        """Add pages of no interest."""
        self.add(
            {
                f"http://noise.example/{n}": (" ".join([*NOISE, f"w{n}"]), {})
                for n in range(start, start + count)
            },
            team,
        )

    def hits(self, query, team=TEAM, limit=10, **source):
        return self.run(search, team, parse_query(query), ResultList(**source), limit)

    def find(self, query, **asked):
        return [hit.url for hit in self.hits(query, **asked)]

    def counts(self):
        """Return the number of pages, and of pages with words."""
        tables = ("search_page", "search_index")
        count = "SELECT count(*) FROM "
        return [self.run(lambda c, t=t: c.scalar(text(count + t))) for t in tables]


def _entry(url, text, known):
    kind = "pdf" if url.endswith(".pdf") else "html"
    entry = search_entry(url, text, {"language": "en", **known}, {}, kind)
    return entry.pack()


@pytest.fixture
def index(database):
    return Index(database)


@pytest.fixture
def filled(index):
    """All of :data:`PAGES`."""
    index.add(PAGES)
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


def test_a_hit_quotes_the_text_around_the_words(filled):
    [hit] = filled.hits('"running shoes"')
    assert hit.title == "Shoes for dogs"
    assert "beside running shoes, red" in hit.description


def test_news_and_images_are_pages_with_a_date_or_a_picture(filled):
    assert [(h.url, h.date) for h in filled.hits("fox", kind="news")] == [
        (NEWS, "2020-05-31T08:00:00+02:00")
    ]
    assert [(h.url, h.image_url) for h in filled.hits("painting", kind="images")] == [
        (PICTURE, "http://c.example/i.png")
    ]
    assert filled.hits("painting", kind="news") == []


def test_result_dates_are_page_dates_or_else_fetch_dates(filled):
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


def test_results_stay_within_the_limit_without_duplicates(filled):
    filled.add_noise(30, start=1000)
    found = filled.find("lorem ipsum", limit=25)
    assert len(found) == len(set(found)) == 25


def test_expired_pages_are_not_found_and_then_deleted(index):
    index.add(PAGES, retention_s=-1)
    assert index.find("fox") == []
    index.add({"http://a.example/hen": ("The quick hen", {})})
    while index.run(expire):
        pass
    assert index.counts() == [1, 1]
    assert index.find("quick") == ["http://a.example/hen"]


def test_a_page_may_miss_few_of_many_words(index):
    index.add(
        {
            "http://a.example/1": ("cheap flights to Mauritius", {}),
            "http://a.example/2": ("cheap hotels", {}),
            "http://a.example/3": ("hotels and flights", {}),
        }
    )
    assert index.find("cheap flights mauritius november") == ["http://a.example/1"]
    assert index.find("mauritius november") == ["http://a.example/1"]


def test_a_rare_word_is_found_together_with_a_common_word(index):
    index.add({"http://a.example/zebra": ("Of zebras", {})})
    for start in range(0, max(MAX_RANKED.values()), 200):
        index.add_noise(200, start=start)
    assert index.find("lorem zebra", limit=1) == ["http://a.example/zebra"]


def test_an_excluded_site_hides_no_other(index):
    index.add({"http://a.example/lorem": (" ".join(NOISE), {})})
    index.add_noise(250)
    found = index.find("lorem -site:noise.example")
    assert found == ["http://a.example/lorem"]


@pytest.mark.parametrize(
    "query",
    ["site:a\"b'c\\", "filetype:'", "inurl:a:*|!b", "intitle:no')&(", "NOT AND("],
)
def test_no_text_is_an_operator_of_the_database(filled, query):
    assert filled.find(query) == []


def test_marks_of_vowels_are_parts_of_words(index):
    index.add({"http://a.example/hi": ("हिन्दी में पाठ", {"title": "किताब"})})
    for query in ("हिन्दी", '"हिन्दी में"', "intitle:किताब"):
        assert index.find(query) == ["http://a.example/hi"], query


def test_the_plan_of_a_search_reads_no_more_than_it_needs(tmp_path):
    database = Database(tmp_path)
    index = Index(database)
    index.add(PAGES)
    index.add_noise(200)
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
            if statement.strip().startswith(("SELECT", "WITH"))
            for row in connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {statement}", parameters
            )
        ]

    found = index.run(plans)
    database.close()
    assert any("search_index VIRTUAL TABLE" in plan for plan in found)
    assert not [plan for plan in found if plan.startswith("SCAN search_page")]
    # An index of the team would read all its pages.
    reads = [plan for plan in found if "search_page" in plan]
    assert not [plan for plan in reads if "ix_search_page_key" in plan]


def test_a_search_needs_no_thread_of_the_event_loop(tmp_path):
    """Name servers that do not answer may keep all of these threads busy."""
    database = Database(tmp_path)
    database.write_blocking(job_rows.make_team, TEAM)
    found = PageIndex(database)

    async def find():
        async with asyncio.timeout(10):
            await found.search(TEAM, parse_query("fox"), ResultList(), 10)

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        over = threading.Event()
        resolving = loop.run_in_executor(None, over.wait)
        try:
            await find()
        finally:
            over.set()
            await resolving

    asyncio.run(run())
    database.close()


@pytest.mark.parametrize("extension", ["php", "asp", "aspx", "jsp", "cgi", "htm", "do"])
def test_marks_of_an_entry_are_in_the_same_order_in_every_process(extension):
    url = f"https://a.example/page.{extension}"
    found = search_entry(url, "Words.", {}, {}, "html").marks.split()
    files = [each for each in found if each.startswith("file:")]
    assert files == ["file:html", f"file:{extension}"]
