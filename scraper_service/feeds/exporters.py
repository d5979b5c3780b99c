"""Feed exporters, for projects and commands with the setting ``FEEDS``.

Imported only for a feed: exporters of Scrapy import every library with a type of items.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from scrapy.exporters import CsvItemExporter, XmlItemExporter

from scraper_service.cli.output import cell
from scraper_service.feeds.flat_items import FlatItem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BytesIO

    from scrapy.exporters import BaseItemExporter

PLAIN = (str, int, float, list, tuple, dict, type(None))
# Characters that XML cannot hold (XML 1.0, production 2).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
