"""All that a page says of itself, gathered in one walk of its tree."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from scraper_service.content.metadata.linked_data import (
    LinkedData,
    folded,
    linked_data,
    text_of,
)
from scraper_service.content.metadata.marks import Marks, marks
from scraper_service.content.passes import elements, texts_in
from scraper_service.content.text.words import main_words

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

MAX_METAS = 1000
MAX_VALUE = 20_000  # characters
MAX_HEADINGS = 10

_UNREAD = ("style", "script", "template")
_WANTED = ("meta", "link", "script", "title", "h1")


class Evidence:
    """The ``<meta>`` values, links, headings and structured data of a page.

    ``metas`` are pairs of the name as written and the value, ``links`` the elements, all
    in document order. It has to be made before the page is cleaned.
    """

    def __init__(self, document: Document):
        self.document = document
        self.root: Any = document.root
        found: dict[str, list[Any]] = {tag: [] for tag in _WANTED}
        for element in elements(self.root, *_WANTED):
            found[element.tag].append(element)
        self.links = found["link"][:MAX_METAS]
        self.scripts = found["script"]
        self.metas: list[tuple[str, str]] = []
        self._by_name: dict[str, list[str]] = {}
        self._titles = found["title"]
        self._headings = found["h1"][:MAX_HEADINGS]
        self.meta_elements = found["meta"][:MAX_METAS]
        for meta in self.meta_elements:
            self._take(meta.attrib)

    def _take(self, meta: Any) -> None:
        value = meta.get("content")
        if value is None:
            return
        value = value.strip()[:MAX_VALUE]
        key = meta.get("name") or meta.get("property") or meta.get("itemprop")
        if key and (key := key.strip()):
            self.metas.append((key, value))
            self._by_name.setdefault(key.lower(), []).append(value)
        elif key := meta.get("http-equiv"):
            self._by_name.setdefault(f"http-equiv {key.strip().lower()}", []).append(
                value
            )

    def all(self, name: str) -> list[str]:
        """Return the values of ``name`` (lower case), empty ones left out."""
        return [value for value in self._by_name.get(name, ()) if value]

    def first(self, *names: str) -> str:
        """Return the first value of the first of ``names`` that has one."""
        return next((value for name in names for value in self.all(name)), "")

    @property
    def title(self) -> str:
        """The text of ``<title>``, which is no part of a drawing."""
        for title in self._titles:
            if next(title.iterancestors("svg"), None) is None and (
                text := _text(title)
            ):
                return text
        return ""

    @property
    def headings(self) -> list[str]:
        """The texts of the first ``<h1>``."""
        return [text for text in map(_text, self._headings) if text]

    @cached_property
    def site_names(self) -> frozenset[str]:
        """Names of the site or its publisher, as :func:`folded` has them."""
        names = [*self.all("og:site_name"), *self.all("application-name")]
        names += [text_of(n.get("publisher")) for n in self.linked.subjects]
        return frozenset(folded(name) for name in names) - {""}

    @cached_property
    def linked(self) -> LinkedData:
        """The page's JSON-LD."""
        return linked_data(self.scripts)

    @cached_property
    def words(self) -> str:
        """The text outside menus and forms, from the start a part."""
        return main_words(self.document)

    @cached_property
    def marks(self) -> Marks:
        """What stands in plain sight of author and dates."""
        return marks(self.document.body)


def _text(element: Any) -> str:
    parts = texts_in(element)
    if len(element) and next(element.iterdescendants(*_UNREAD), None) is not None:
        parts = [
            text
            for text in element.xpath(".//text()")
            if not (text.is_text and text.getparent().tag in _UNREAD)
        ]
    text = " ".join("".join(parts).split())[:MAX_VALUE]
    return text.rstrip("¶ ") or text
