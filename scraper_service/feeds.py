"""What Scrapy's feeds get: flat items of plain values, and the exporters for them.

The exporters serve projects and commands with the setting ``FEEDS``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Self

from attrs import fields
from scrapy.exceptions import NotConfigured
from scrapy.exporters import BaseItemExporter, CsvItemExporter, XmlItemExporter
from scrapy.extensions.feedexport import FeedExporter

from scraper_service.api.responses import page_metadata
from scraper_service.api.schemas import camel
from scraper_service.cli.outputs.page_files import keys_of_options
from scraper_service.crawling.middlewares import item_made
from scraper_service.errors import InvalidOptions, Issue
from scraper_service.exports.tables import FACTS, LAST, cell
from scraper_service.items import MapLink, Page, SearchResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from io import BytesIO

    from scrapy.crawler import Crawler

ERROR_CODE = "errorCode"
TAIL = (*LAST, ERROR_CODE)
PLAIN = (str, int, float, list, tuple, dict, type(None))
# Characters that XML cannot contain (XML 1.0, production 2).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
        request = getattr(spider, "page", None) or getattr(spider, "options", None)
        keys = keys_of_options(request.scrape) if request else ()
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


class Feeds(FeedExporter):
    """Scrapy's extension for feeds. It ends a run whose feeds cannot be written.

    Scrapy's own logs why, and the run fetches its pages for nothing.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        try:
            found = super().from_crawler(crawler)
        except NotConfigured:
            if not (crawler.settings.getdict("FEEDS") or crawler.settings["FEED_URI"]):
                raise
            raise _unwritable("the log has the reason") from None
        for feed in found.feeds.values():
            name = feed["format"]
            if found.exporters[name] is BaseItemExporter:
                raise _unwritable(f"use `scraper-service crawl -o x.{name}` for {name}")
        return found


def _unwritable(reason: str) -> InvalidOptions:
    text = f"the feeds of FEEDS, -o or -O cannot be written: {reason}"
    return InvalidOptions([Issue("custom", ("FEEDS",), text)])


class TableExporter(CsvItemExporter):
    """A CSV exporter with the columns and cells of the command line's tables."""

    def __init__(self, file: BytesIO, **options: Any):
        super().__init__(file, **{"errors": "replace", **options})

    def export_item(self, item: Any) -> None:
        _set_columns(self, item)
        super().export_item(item)

    def serialize_field(self, field: Mapping[str, Any], name: str, value: Any) -> Any:
        if "serializer" in field:
            return super().serialize_field(field, name, value)
        return cell(value if isinstance(value, PLAIN) else str(value))


class XmlExporter(XmlItemExporter):
    """An XML exporter with the columns of :class:`TableExporter`.

    Lists of texts become ``value`` elements, other data become JSON.
    """

    def export_item(self, item: Any) -> None:
        _set_columns(self, item)
        super().export_item(item)

    def serialize_field(self, field: Mapping[str, Any], name: str, value: Any) -> Any:
        value = super().serialize_field(field, name, value)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return [_NOT_XML.sub("\ufffd", each) for each in value]
        if isinstance(value, (list, tuple, dict)):
            value = json.dumps(value, ensure_ascii=False, default=str)
        return _NOT_XML.sub("\ufffd", str(value))


def _set_columns(exporter: BaseItemExporter, item: Any) -> None:
    """Use the columns of the first item, unless ``FEED_EXPORT_FIELDS`` is set."""
    if exporter.fields_to_export is None and isinstance(item, FlatItem):
        exporter.fields_to_export = item.columns
