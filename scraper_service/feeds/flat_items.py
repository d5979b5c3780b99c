"""Flat items of plain values, for feeds and users' pipelines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from attrs import fields

from scraper_service.api.responses import page_metadata
from scraper_service.api.schemas import camel
from scraper_service.cli.outputs.page_formats import keys_of_options
from scraper_service.crawling.middlewares import item_made
from scraper_service.exports.tables import FACTS, LAST
from scraper_service.items import MapLink, Page, SearchResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy.crawler import Crawler

ERROR_CODE = "errorCode"
TAIL = (*LAST, ERROR_CODE)


class FlatItem(dict[str, Any]):
    """An item of plain values by name. Values that are None are left out."""

    def __init__(self, values: Mapping[str, Any], columns: Iterable[str]):
        super().__init__((k, v) for k, v in values.items() if v is not None)
        self._columns = tuple(columns)
        self._made_with = frozenset(self)

    @property
    def columns(self) -> list[str]:
        """The columns of a table: those of every item of the run, then added keys."""
        added = (k for k in self if k not in self._made_with | {*self._columns})
        return [*self._columns, *added]


class FlatItems:
    """The last pipeline of this package: makes a :class:`FlatItem` of each item.

    The order in a page is: :data:`~scraper_service.exports.tables.FACTS`, the formats, other
    metadata, ``warning``, ``error`` and ``errorCode``. Items stay unchanged if the
    project has no feeds, extensions or further pipelines, as in the service.
    """

    def __init__(self, crawler: Crawler):
        self._crawler = crawler
        names = ("EXTENSIONS", "FEEDS", "ITEM_PIPELINES")
        self._is_wanted = any(crawler.settings.getdict(name) for name in names)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, (Page, MapLink, SearchResult)):
            return item
        self._crawler.signals.send_catch_log(item_made, item=item)
        if not self._is_wanted:
            return item
        if isinstance(item, Page):
            return self._page(item)
        return FlatItem(item.as_dict(), (fact.name for fact in fields(type(item))))

    def _page(self, page: Page) -> FlatItem:
        spider: Any = self._crawler.spider
        # A resident crawler has no options: each of its pages has options of its own.
        asked = getattr(spider, "page", None) or getattr(spider, "options", None)
        keys = keys_of_options(asked.scrape) if asked else ()
        values = {camel(name): json.loads(text) for name, text in page.values.items()}
        failure, facts = page.failure, page_metadata(page.metadata)
        shown = {name: facts.pop(name, None) for name in FACTS}
        last = {
            "warning": page.warning,
            "error": facts.pop("error", None),
            ERROR_CODE: failure.code if failure else None,
        }
        others = {k: v for k, v in facts.items() if k not in {*values, *last}}
        columns = dict.fromkeys((*FACTS, *keys, *values, *TAIL))
        return FlatItem({**shown, **values, **others, **last}, columns)
