"""PDF files as Markdown, with the text layer read by pdfminer.six.

The caller bounds memory and time by ending the process; here pages are capped before
they are parsed, and a time budget is looked at between pages.
"""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any

from attrs import field, frozen
from pdfminer.converter import PDFPageAggregator
from pdfminer.layout import LAParams
from pdfminer.pdfdocument import PDFDocument
from pdfminer.pdfinterp import PDFPageInterpreter, PDFResourceManager
from pdfminer.pdfpage import PDFPage
from pdfminer.pdfparser import PDFParser
from pdfminer.pdftypes import resolve1
from pdfminer.utils import decode_text

from scraper_service.formats.decode import Unreadable, clean_text
from scraper_service.formats.pdf.layout import PdfPage, laid_out
from scraper_service.items import PageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.options.scrape import PdfParser

MAX_PAGES = 10_000  # the largest maxPages a caller may ask for
MAX_LINKS = 10_000
MAX_COUNT = 1_000_000  # a higher page count in a file is a lie


@frozen(kw_only=True)
class PdfContent:
    """A converted file. ``total_pages`` counts those that were not parsed as well."""

    markdown: str
    pages: list[dict[str, Any]]
    blocks: list[dict[str, Any]]
    links: list[str]
    known: dict[str, str | list[str]]
    other: dict[str, str | list[str]]
    num_pages: int
    total_pages: int
    warnings: list[str] = field(factory=list)


def pdf_content(
    body: bytes, parser: PdfParser, deadline_s: float | None = None
) -> PdfContent:
    """Convert a PDF file; ``deadline_s`` are the seconds left for it.

    :raises Unreadable: for a damaged or encrypted file, and when time runs out.
    """
    reading = _Reading(parser, deadline_s)
    try:
        return reading.read(body)
    except (Unreadable, MemoryError):
        raise
    except RecursionError as exc:
        raise _unsupported("its structure is nested too deeply") from exc
    except Exception as exc:  # pdfminer raises whatever a broken file makes it meet
        raise _unsupported(_reason(exc)) from exc


class _Reading:
    """One file being read. ``parser`` says how much of it."""

    def __init__(self, parser: PdfParser, deadline_s: float | None):
        self.parser = parser
        self.deadline_s = deadline_s
        self.started = time.monotonic()
        self.warnings: list[str] = []
        self.links: dict[str, None] = {}

    def read(self, body: bytes) -> PdfContent:
        document = PDFDocument(PDFParser(io.BytesIO(body)), caching=True)
        pages, more = self._pages(document)
        if not pages:
            raise _unsupported("it has no readable pages")
        total = max(_count(document), len(pages)) if more else len(pages)
        texts, blocks = laid_out(pages)
        known, other = _info(document)
        if not any(texts):
            self.warnings.append("The PDF has no text layer; it may be a scan.")
        return PdfContent(
            markdown=_joined(texts, markers=self.parser.page_markers),
            pages=[{"pageNumber": n, "markdown": t} for n, t in enumerate(texts, 1)],
            blocks=blocks,
            links=list(self.links),
            known=known,
            other=other,
            num_pages=len(pages),
            total_pages=total,
            warnings=self.warnings,
        )

    def _pages(self, document: Any) -> tuple[list[PdfPage], bool]:
        """Parse the allowed pages; tell whether there are more."""
        limit = self.parser.max_pages or MAX_PAGES
        convert = _converter()
        pages: list[PdfPage] = []
        for page in PDFPage.create_pages(document):
            if len(pages) == limit:
                return pages, True
            self._check_time(len(pages), document)
            try:
                pages.append(convert(page))
                self._annotations(page)
            except (RecursionError, MemoryError):
                raise
            except Exception as exc:  # as in pdf_content, for one page
                pages.append(PdfPage())
                self.warnings.append(
                    f"Page {len(pages)} of the PDF could not be read ({_reason(exc)})."
                )
        return pages, False

    def _check_time(self, done: int, document: Any) -> None:
        if self.deadline_s is None:
            return
        spent = time.monotonic() - self.started
        if spent < self.deadline_s:
            return
        count = max(_count(document), done, 1)
        wanted = min(count, self.parser.max_pages or MAX_PAGES)
        needed_ms = int(1500 * spent * wanted / max(done, 1)) + 1000
        raise Unreadable(
            PageError(
                "SCRAPE_PDF_INSUFFICIENT_TIME_ERROR",
                f"Insufficient time to process PDF of {count} pages. Please use a "
                f"timeout of at least {needed_ms} ms.",
            )
        )

    def _annotations(self, page: Any) -> None:
        for uri in _uris(page):
            if uri.startswith(("http://", "https://", "mailto:")):
                if len(self.links) == MAX_LINKS:
                    return
                self.links[uri] = None


def _converter() -> Any:
    """Return the function from pdfminer's page to ours."""

    class Aggregator(PDFPageAggregator):
        def handle_undefined_char(self, font: Any, cid: int) -> str:
            return ""  # instead of "(cid:NN)"

    resources = PDFResourceManager(caching=True)
    # A boxes_flow would make the analysis quadratic in the number of boxes.
    device = Aggregator(resources, laparams=LAParams(boxes_flow=None, all_texts=True))
    interpreter = PDFPageInterpreter(resources, device)

    def convert(page: Any) -> PdfPage:
        interpreter.process_page(page)
        return PdfPage.from_layout(device.get_result())

    return convert


def _uris(page: Any) -> Iterator[str]:

    annotations = resolve1(page.annots)
    for reference in annotations if isinstance(annotations, list) else ():
        annotation = resolve1(reference)
        action = resolve1(annotation.get("A")) if isinstance(annotation, dict) else None
        uri = resolve1(action.get("URI")) if isinstance(action, dict) else None
        if isinstance(uri, bytes):
            yield clean_text(uri.decode("utf-8", "replace")).strip()


def _count(document: Any) -> int:
    """Return the number of pages the file claims, 0 for an unlikely one."""
    tree = resolve1(document.catalog.get("Pages"))
    count = resolve1(tree.get("Count")) if isinstance(tree, dict) else 0
    return count if isinstance(count, int) and 0 < count <= MAX_COUNT else 0


def _info(document: Any) -> tuple[dict[str, Any], dict[str, Any]]:

    facts: dict[str, str] = {}
    for info in document.info:
        for name in ("Title", "Author", "Subject", "Keywords"):
            value = resolve1(info.get(name))
            if isinstance(value, bytes | str):
                raw = decode_text(value) if isinstance(value, bytes) else value
                text = " ".join(clean_text(raw).split())[:2000]
                if text:
                    facts[name.lower()] = text
    title = {"title": facts.pop("title")} if "title" in facts else {}
    return title, facts


def _joined(texts: list[str], *, markers: bool) -> str:
    if not markers:
        return "\n\n".join(text for text in texts if text)
    parts = [texts[0]]
    for number, text in enumerate(texts[1:], 2):
        parts.append(f"---\n\n<!-- page {number} -->\n\n{text}")
    return "\n\n".join(part.strip() for part in parts).strip()


def _reason(exc: Exception) -> str:
    name = type(exc).__name__
    if "Password" in name or "Encryption" in name:
        return "it is encrypted"
    return "it is damaged or not a PDF"


def _unsupported(reason: str) -> Unreadable:
    return Unreadable(
        PageError(
            "SCRAPE_UNSUPPORTED_FILE_ERROR", f"The PDF cannot be converted: {reason}"
        )
    )
