"""Scrape any web page as Markdown, HTML, links, images and metadata over HTTP.

:func:`convert` and :class:`Converted` are the interface for Python programs without a
service.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scraper_service.library import Converted, convert

__all__ = ["Converted", "convert"]

# An installation has the subpackage ``spiders`` in this folder. In a checkout it is
# next to this package, where Scrapy projects keep their spiders.
if not Path(__path__[0], "spiders").is_dir():
    __path__.append(str(Path(__path__[0]).parent))


def __getattr__(name: str) -> Any:
    # Every module of the package imports this one: what it names is loaded when used.
    if name in __all__:
        from scraper_service import library  # noqa: PLC0415

        return getattr(library, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
