"""How pages reach the page index of their team."""

from __future__ import annotations

import asyncio

import pytest
from scrapy.settings import Settings

from scraper_service.crawling.pipelines.pages import AT_ONCE, SearchIndex
from scraper_service.errors import ServiceUnavailable
from scraper_service.items import SearchPage
from scraper_service.storage.database import INDEX, Database
from scraper_service.storage.page_index import PageIndex

CLOSE_S = 10


@pytest.fixture
def settings(tmp_path):
    values = Settings()
    values.setmodule("scraper_service.settings")
    values.setdict({"DATA_DIR": str(tmp_path), "DATABASE_URL": ""})
    yield values
    Database.shared(values).close()


async def add(index, count):
    for number in range(count):
        await index.add(SearchPage("team", f"http://a.example/{number}", b""))


def test_a_database_that_is_down_does_not_delay_the_end(settings, monkeypatch):
    tries = []
    has_begun = asyncio.Event()

    async def fail(*_):
        tries.append(True)
        has_begun.set()
        raise ServiceUnavailable("down")

    async def run():
        index = SearchIndex.shared(settings)
        await add(index, 3 * AT_ONCE)
        await has_begun.wait()  # the first pages are tried again and again
        async with asyncio.timeout(CLOSE_S):
            await SearchIndex.close_all()

    monkeypatch.setattr(PageIndex, "add", fail)
    asyncio.run(run())
    assert len(tries) < 5


def test_a_late_entry_delays_no_other_team(settings, monkeypatch):
    written = []

    async def add_pages(_self, team_id, pages, _retention_s):
        written.extend((team_id, url) for url, _ in pages)

    async def run():
        index = SearchIndex.shared(settings)
        late = asyncio.get_running_loop().create_future()
        await index.add(SearchPage("slow", "http://a.example/late", late))
        await index.add(SearchPage("quick", "http://a.example/", b"entry"))
        async with asyncio.timeout(CLOSE_S):
            await Database.shared(settings).wait_for_expected((INDEX, "quick"))
            assert written == [("quick", "http://a.example/")]
            late.set_result(b"entry")
            await SearchIndex.close_all()
        assert written[1:] == [("slow", "http://a.example/late")]

    monkeypatch.setattr(PageIndex, "add", add_pages)
    asyncio.run(run())
