"""Reads pages with pdfminer.six: slower than PDFium, but it decodes more fonts."""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING, Any

from pdfminer.converter import PDFPageAggregator
from pdfminer.layout import LAParams, LTChar, LTTextLine
from pdfminer.pdfdocument import PDFDocument
from pdfminer.pdfinterp import PDFPageInterpreter, PDFResourceManager
from pdfminer.pdfpage import PDFPage
from pdfminer.pdfparser import PDFParser
from pdfminer.pdftypes import resolve1

from scraper_service.content.decode import clean_text
from scraper_service.content.pdf.lines import BOLD, FIXED, Cell, Line, PageText, tidy

if TYPE_CHECKING:
    from collections.abc import Iterator


class MinerFile:
    """An open file; read its pages in ascending order.

    pdfminer raises arbitrary exceptions for broken files: callers catch :exc:`Exception`.
    """

    def __init__(self, body: bytes):
        self._document = PDFDocument(PDFParser(io.BytesIO(body)), caching=True)
        self._pages = enumerate(PDFPage.create_pages(self._document))
        resources = PDFResourceManager(caching=True)
        # A boxes_flow would make the analysis quadratic in the number of boxes.
        layout = LAParams(boxes_flow=None, all_texts=True)
        self._device = _Aggregator(resources, laparams=layout)
        self._interpreter = PDFPageInterpreter(resources, self._device)

    def page(self, index: int) -> PageText | None:
        """Return the text of a page; None if the file has no such page."""
        for number, page in self._pages:
            if number == index:
                self._interpreter.process_page(page)
                lines = map(_line, _lines(self._device.get_result()))
                found = [line for line in lines if line is not None]
                return PageText(found, list(_uris(page)))
        return None


class _Aggregator(PDFPageAggregator):
    def handle_undefined_char(self, font: Any, cid: int) -> str:
        return ""  # instead of "(cid:NN)"


def _lines(layout: Any) -> Iterator[Any]:
    """Yield the lines of text, including the lines in figures."""
    for item in layout:
        if isinstance(item, LTTextLine):
            yield item
        elif hasattr(item, "__iter__"):
            yield from _lines(item)


def _line(line: Any) -> Line | None:
    text = tidy(line.get_text())
    if not text:
        return None
    letters = [letter for letter in line if isinstance(letter, LTChar)]
    sizes = Counter(round(2 * letter.size) / 2 for letter in letters)
    fonts = Counter(letter.fontname for letter in letters)
    size = sizes.most_common(1)[0][0] if sizes else line.height
    font = fonts.most_common(1)[0][0] if fonts else ""
    found = Line(text, size, *line.bbox)
    found.cells = [Cell(text, found.x0, found.x1)]
    found.is_bold = bool(BOLD.search(font))
    found.is_fixed = bool(FIXED.search(font))
    return found


def _uris(page: Any) -> Iterator[str]:
    annotations = resolve1(page.annots)
    for reference in annotations if isinstance(annotations, list) else ():
        annotation = resolve1(reference)
        action = resolve1(annotation.get("A")) if isinstance(annotation, dict) else None
        uri = resolve1(action.get("URI")) if isinstance(action, dict) else None
        if isinstance(uri, bytes):
            url = clean_text(uri.decode("utf-8", "replace")).strip()
            if url.startswith(("http://", "https://", "mailto:")):
                yield url
