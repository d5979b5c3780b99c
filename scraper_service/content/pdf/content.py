"""PDF files as Markdown: each page by the reader that gets the most out of it.

PDFium reads nearly all pages; pdfminer.six those whose letters PDFium does not know;
scanned pages are recognised where that is possible and wanted. The caller bounds memory
and time by ending the process; here pages are capped before they are read, and a time
budget is looked at between pages.
"""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any

import pypdfium2 as pdfium
from attrs import field, frozen

from scraper_service.content.decode import Unreadable
from scraper_service.content.pdf import ocr
from scraper_service.content.pdf.blocks import Part, parts_of
from scraper_service.content.pdf.facts import metadata
from scraper_service.content.pdf.lines import Line, PageText, unread_share
from scraper_service.content.pdf.pdfium import (
    PASSWORD_ERROR,
    SECURITY_ERROR,
    PdfiumFile,
)
from scraper_service.content.pdf.writing import by_page, html_of, listed, whole
from scraper_service.items import PageError
from scraper_service.options.available import can_recognise_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.options.scrape import PdfParser

MAX_PAGES = 10_000  # the largest maxPages a caller may ask for
MAX_LINKS = 10_000
MAX_LISTED = 10  # numbers of pages in one warning

_NO_TEXT = "The PDF has no text layer; it may be a scan."


@frozen(kw_only=True)
class PdfContent:
    """A converted file. ``total_pages`` counts those that were not parsed as well."""

    markdown: str
    parts: list[list[Part]]
    pages: list[dict[str, Any]]
    blocks: list[dict[str, Any]]
    links: list[str]
    known: dict[str, str | list[str]]
    other: dict[str, str | list[str]]
    num_pages: int
    total_pages: int
    warnings: list[str] = field(factory=list)

    @property
    def html(self) -> str:
        """The same as HTML, a section for each page."""
        return html_of(self.parts, str(self.known.get("title", "")))


def pdf_content(
    body: bytes, parser: PdfParser, deadline_s: float | None = None
) -> PdfContent:
    """Convert a PDF file; ``deadline_s`` are the seconds left for it.

    :raises Unreadable: for a damaged or encrypted file, and when time runs out.
    """
    reading = _Reading(body, parser, deadline_s)
    try:
        return reading.read()
    except (Unreadable, MemoryError):
        raise
    except RecursionError as exc:
        raise _unsupported("its structure is nested too deeply") from exc
    except Exception as exc:  # pdfminer raises whatever a broken file makes it meet
        raise _unsupported(_reason(exc)) from exc


class _Reading:
    """One file being read. ``parser`` says how much of it, and how."""

    def __init__(self, body: bytes, parser: PdfParser, deadline_s: float | None):
        self._body = body
        self._parser = parser
        self._deadline_s = deadline_s
        self._started = time.monotonic()
        self._warnings: list[str] = []
        self._unread: list[int] = []
        self._scanned: list[int] = []
        self._limit = parser.max_pages or MAX_PAGES
        self._miner: Any = None

    def read(self) -> PdfContent:
        try:
            file = PdfiumFile(self._body)
        except pdfium.PdfiumError as exc:
            if exc.err_code in {PASSWORD_ERROR, SECURITY_ERROR}:
                raise _unsupported("it is encrypted with a password") from exc
            return self._by_pdfminer()
        with file:
            total = len(file)
            if not total:
                return self._by_pdfminer()
            pages = []
            for index in range(min(total, self._limit)):
                self._check_time(index, total)
                pages.append(self._page(file, index))
            if len(self._unread) == len(pages):
                raise _unsupported("none of its pages can be read")
            return self._content(pages, total, file.facts())

    def _page(self, file: PdfiumFile, index: int) -> PageText:
        if self._parser.mode == "ocr":
            return self._recognised(file, index)
        is_broken = False
        try:
            page, is_doubtful = file.page(index)
        except pdfium.PdfiumError:
            page, is_doubtful, is_broken = PageText(), True, True
        if is_doubtful:
            page = self._better(page, index)
        if page.lines:
            return page
        if is_broken:
            self._unread.append(index + 1)
            return page
        if self._parser.mode == "auto" and can_recognise_text():
            page = self._recognised(file, index)
        if not page.lines:
            self._scanned.append(index + 1)
        return page

    def _better(self, page: PageText, index: int) -> PageText:
        """Return what pdfminer reads of a page if it is more, else ``page``."""
        try:
            other = self._mined(index)
        except (RecursionError, MemoryError):
            raise
        except Exception:  # as in pdf_content, for one page
            return page
        if other is None or _score(other) <= _score(page):
            return page
        other.links = page.links or other.links
        return other

    def _mined(self, index: int) -> PageText | None:
        from scraper_service.content.pdf.miner import MinerFile  # noqa: PLC0415  # big

        if self._miner is None:
            self._miner = MinerFile(self._body)
        found: PageText | None = self._miner.page(index)
        return found

    def _by_pdfminer(self) -> PdfContent:
        """Read a file that PDFium cannot open."""
        pages: list[PageText] = []
        total = 0
        while len(pages) < self._limit:
            self._check_time(len(pages), max(total, len(pages)))
            page = self._mined(len(pages))
            if page is None:
                break
            pages.append(page)
            total = max(self._miner.count(), len(pages))
        if not pages:
            raise _unsupported("it has no readable pages")
        return self._content(pages, total, self._miner.facts())

    def _recognised(self, file: PdfiumFile, index: int) -> PageText:
        """Return the text in the picture of a page, as lines below each other."""
        left = None
        if self._deadline_s is not None:
            left = self._deadline_s - (time.monotonic() - self._started)
        try:
            text = ocr.recognised(file.picture(index, ocr.DPI), left)
        except (OSError, subprocess.SubprocessError, pdfium.PdfiumError):
            self._unread.append(index + 1)
            return PageText()
        return PageText(_typed(text))

    def _check_time(self, done: int, count: int) -> None:
        if self._deadline_s is None:
            return
        spent = time.monotonic() - self._started
        if spent < self._deadline_s:
            return
        wanted = min(count, self._limit)
        needed_ms = int(1500 * spent * wanted / max(done, 1)) + 1000
        raise Unreadable(
            PageError(
                "SCRAPE_PDF_INSUFFICIENT_TIME_ERROR",
                f"Insufficient time to process PDF of {count} pages. Please use a "
                f"timeout of at least {needed_ms} ms.",
            )
        )

    def _content(
        self, pages: list[PageText], total: int, facts: dict[str, str]
    ) -> PdfContent:
        links = dict.fromkeys(address for page in pages for address in page.links)
        parts = parts_of(pages)
        self._warn(len(pages))
        known, other = metadata(facts)
        return PdfContent(
            markdown=whole(parts, markers=self._parser.page_markers),
            parts=parts,
            pages=by_page(parts) if self._parser.pages else [],
            blocks=listed(parts) if self._parser.blocks else [],
            links=list(links)[:MAX_LINKS],
            known=known,
            other=other,
            num_pages=len(pages),
            total_pages=max(total, len(pages)),
            warnings=self._warnings,
        )

    def _warn(self, count: int) -> None:
        if self._unread:
            self._warnings.append(
                f"{_numbered(self._unread)} of the PDF could not be read."
            )
        scanned = [n for n in self._scanned if n not in self._unread]
        if scanned and len(self._scanned) == count:
            self._warnings.append(_NO_TEXT)
        elif scanned:
            self._warnings.append(
                f"{_numbered(scanned)} of the PDF: no text layer; it may be a scan."
            )


def _score(page: PageText) -> float:
    text = "".join(line.text for line in page.lines)
    return page.letters * (1 - unread_share(text))


def _typed(text: str) -> list[Line]:
    """Return plain text as lines at made-up places, paragraphs apart."""
    lines = []
    y = 10_000.0
    for row in text.split("\n"):
        y -= 12
        if row.strip():
            lines.append(Line(row.strip(), 10.0, 0.0, y, 500.0, y + 10))
    return lines


def _numbered(pages: Iterable[int]) -> str:
    numbers = [str(number) for number in pages]
    shown = ", ".join(numbers[:MAX_LISTED])
    rest = len(numbers) - MAX_LISTED
    more = f" and {rest} more" if rest > 0 else ""
    return f"Page {shown}" if len(numbers) == 1 else f"Pages {shown}{more}"


def _reason(exc: Exception) -> str:
    name = type(exc).__name__
    if "Password" in name or "Encryption" in name:
        return "it is encrypted with a password"
    return "it is damaged or not a PDF"


def _unsupported(reason: str) -> Unreadable:
    return Unreadable(
        PageError(
            "SCRAPE_UNSUPPORTED_FILE_ERROR", f"The PDF cannot be converted: {reason}"
        )
    )
