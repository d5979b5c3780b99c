"""Feed exporters, for projects and commands with the setting ``FEEDS``.

Imported only for a feed: exporters of Scrapy import every library with a type of items.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Self

from scrapy.exceptions import NotConfigured
from scrapy.exporters import BaseItemExporter, CsvItemExporter, XmlItemExporter
from scrapy.extensions.feedexport import FeedExporter

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.exports.formats import FORMATS, FileSpec, make_writer
from scraper_service.exports.tables import FACTS, cell
from scraper_service.feeds.flat_items import FlatItem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BytesIO

    from scrapy.crawler import Crawler

    from scraper_service.exports.formats import FileWriter

PLAIN = (str, int, float, list, tuple, dict, type(None))
# Characters that XML cannot hold (XML 1.0, production 2).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
            exporter = found.exporters[feed["format"]]
            missing = FORMATS["parquet"].missing
            if missing and issubclass(exporter, ParquetExporter):
                raise _unwritable(missing)
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


class ParquetExporter(BaseItemExporter):
    """A Parquet exporter with the columns of :class:`TableExporter`.

    Needs the extra ``parquet``, and raises :exc:`ImportError` without it.
    """

    def __init__(self, file: BytesIO, **options: Any):
        super().__init__(dont_fail=True, **options)
        if missing := FORMATS["parquet"].missing:
            raise ImportError(missing)
        self._file = file
        self._writer: FileWriter | None = None

    def export_item(self, item: Any) -> None:
        _set_columns(self, item)
        values = dict(self.get_serialized_fields(item, include_empty=True))
        writer = self._begin(values)
        self._file.write(writer.add(_row(values)))

    def finish_exporting(self) -> None:
        self._file.write(self._begin({}).end())

    def _begin(self, values: dict[str, Any]) -> FileWriter:
        if self._writer is None:
            spec = FileSpec(format="parquet", fields=tuple(values) or FACTS)
            self._writer = make_writer(spec)
            self._file.write(self._writer.head())
        return self._writer


class MarkdownExporter(BaseItemExporter):
    """An exporter of a ZIP file with the Markdown of each page, as the export ``md``."""

    def __init__(self, file: BytesIO, **options: Any):
        super().__init__(dont_fail=True, **options)
        self._file = file
        self._writer = make_writer(FileSpec(format="md", at=time.time()))

    def export_item(self, item: Any) -> None:
        values = dict(self.get_serialized_fields(item, include_empty=False))
        page = {"markdown": values.pop("markdown", ""), "metadata": values}
        self._file.write(self._writer.add(_row(page)))

    def finish_exporting(self) -> None:
        self._file.write(self._writer.end())


def _row(values: dict[str, Any]) -> bytes:
    return json.dumps(values, default=str).encode()


def _set_columns(exporter: BaseItemExporter, item: Any) -> None:
    """Use the columns of the first item, unless ``FEED_EXPORT_FIELDS`` is set."""
    if exporter.fields_to_export is None and isinstance(item, FlatItem):
        exporter.fields_to_export = item.columns
