"""Converts PDF files to Markdown, HTML and metadata.

PDFium reads nearly all pages. pdfminer.six reads pages with fonts that PDFium cannot
decode. Tesseract recognises the text of scanned pages if it is installed and ``mode``
allows it. The number of pages is limited before reading, and the time budget is checked
between pages. The caller enforces limits on memory and time by ending the process.
"""

from __future__ import annotations

import functools
import subprocess
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Self

import pypdfium2 as pdfium
from attrs import field, frozen
from pypdfium2 import raw

from scraper_service.content.decode import Unreadable, clean_text
from scraper_service.content.losses import Losses
from scraper_service.content.pdf.annotations import (
    PICTURE,
    count_pictures,
    insert_marks,
    read_annotations,
    record_attachments,
    text_of,
)
from scraper_service.content.pdf.blocks import (
    Part,
    by_page,
    html_of,
    join_pages,
    list_blocks,
    parts_of,
)
from scraper_service.content.pdf.lines import (
    Line,
    PageText,
    has_shifted_codes,
    rotate_box,
    unread_share,
)
from scraper_service.content.pdf.pdfium import PdfPageReader
from scraper_service.errors import plural
from scraper_service.items import PageError
from scraper_service.options.limits import RECOGNISER, can_recognise_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.options.scrape import PdfParser

MAX_PAGES = 10_000  # the largest ``maxPages`` of a request
MAX_LINKS = 10_000
MAX_TITLE = 2000  # characters of a title and other facts
DPI = 200  # of a picture of a page
PAGE_TIMEOUT_S = 30.0  # of Tesseract
MAX_LISTED = 10  # page numbers in a warning

_FACTS = {
    "Author": "author",
    "Subject": "subject",
    "Keywords": "keywords",
    "Creator": "creator",
    "Producer": "producer",
}
_DATES = {"CreationDate": "published_time", "ModDate": "modified_time"}
_XFA_FORMS = frozenset({raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND})
_NO_TEXT = "The PDF has no text layer; it may be a scan."
_XFA = "The PDF is an XFA form, whose fields only few programs can show."
NO_TEXT_FOUND = "The program tesseract found no text in the picture of a PDF page."


@frozen(kw_only=True)
class PdfContent:
    """A converted PDF file."""

    #: The whole text as Markdown.
    markdown: str
    #: The classified blocks of each page.
    parts: list[list[Part]]
    #: The Markdown of each page, if requested.
    pages: list[dict[str, Any]]
    #: The blocks with kind and position, if requested.
    blocks: list[dict[str, Any]]
    #: The distinct URLs that the pages link to.
    links: list[str]
    #: Title, language and dates.
    known: dict[str, str | list[str]]
    #: Author, subject, keywords, creator and producer.
    other: dict[str, str | list[str]]
    #: The number of parsed pages.
    num_pages: int
    #: The number of all pages of the file.
    total_pages: int
    #: Messages about pages that were not read.
    warnings: list[str] = field(factory=list)
    #: The parts of the file that the Markdown does not contain.
    losses: Losses = field(factory=Losses)

    @property
    def html(self) -> str:
        """The file as HTML, with a section for each page."""
        return html_of(self.parts, str(self.known.get("title", "")))


def pdf_content(
    body: bytes, parser: PdfParser, deadline_s: float | None = None
) -> PdfContent:
    """Convert a PDF file in ``deadline_s`` seconds at most; None means no limit.

    :raises Unreadable: if the file is damaged or encrypted, or the time is too short.
    """
    reading = _Reading(body, parser, deadline_s)
    try:
        return reading.read()
    except (Unreadable, MemoryError):
        raise
    except RecursionError as exc:
        raise _unsupported_error("its structure is nested too deeply") from exc
    except Exception as exc:  # pdfminer raises arbitrary exceptions for broken files
        raise _unsupported_error(_reason(exc)) from exc


class _Reading:
    """Reads one file with the options ``parser``."""

    def __init__(self, body: bytes, parser: PdfParser, deadline_s: float | None):
        self._body = body
        self._parser = parser
        self._deadline_s = deadline_s
        self._started = time.monotonic()
        self._warnings: list[str] = []
        self._unread: list[int] = []
        self._scanned: list[int] = []
        self._shifted: list[int] = []
        self._pictured: list[int] = []  # scanned pages that are not blank
        self._losses = Losses()
        self._may_recognise = parser.mode == "auto" and can_recognise_text()
        self._limit = parser.max_pages or MAX_PAGES
        self._miner: Any = None

    def read(self) -> PdfContent:
        try:
            file = PdfiumFile(self._body)
        except pdfium.PdfiumError as exc:
            if exc.err_code in {raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY}:
                raise _unsupported_error("it is encrypted with a password") from exc
            raise _unsupported_error(_reason(exc)) from exc
        with file:
            total = len(file)
            if not total:
                raise _unsupported_error("it has no readable pages")
            pages = []
            for index in range(min(total, self._limit)):
                self._check_time(index, total)
                pages.append(self._page(file, index))
            if len(self._unread) == len(pages):
                raise _unsupported_error("none of its pages can be read")
            self._losses.extend(file.losses)
            if file.is_xfa and not file.fields:
                self._warnings.append(_XFA)
                self._losses.add("formField", _XFA)
            return self._content(pages, total, file.facts())

    def _page(self, file: PdfiumFile, index: int) -> PageText:
        is_broken = False
        try:
            page, is_doubtful = file.page(index)
        except pdfium.PdfiumError:
            page, is_doubtful, is_broken = PageText(), True, True
        if self._parser.mode == "ocr":
            return self._recognise(file, index, page) or self._unreadable(index, page)
        if is_doubtful:
            page = self._better(page, index)
        if page.lines and has_shifted_codes(page):
            if self._may_recognise and (found := self._recognise(file, index, page)):
                return found
            self._shifted.append(index + 1)
        if not page.lines:
            return self._scan(file, index, page, is_broken=is_broken)
        if page.pictures:
            self._losses.add("image", PICTURE, count=page.pictures)
        insert_marks(page)
        return page

    def _scan(
        self, file: PdfiumFile, index: int, page: PageText, *, is_broken: bool
    ) -> PageText:
        """Return a page without a text layer."""
        if is_broken:
            return self._unreadable(index, page)
        found = page
        if self._may_recognise:
            recognised = self._recognise(file, index, page)
            if recognised is None:
                return self._unreadable(index, page)
            found = recognised
        if not found.lines:
            self._scanned.append(index + 1)
            if not page.is_blank and self._may_recognise:
                self._losses.add("image", NO_TEXT_FOUND, count=max(page.pictures, 1))
            elif not page.is_blank:
                self._pictured.append(index + 1)
        insert_marks(found)
        return found

    def _unreadable(self, index: int, page: PageText) -> PageText:
        """Return a page whose text could not be recognised: its fields and notes."""
        self._unread.append(index + 1)
        page.lines = []
        insert_marks(page)
        return page

    def _better(self, page: PageText, index: int) -> PageText:
        """Return the page as read by pdfminer if it has more text, else ``page``."""
        try:
            other = self._read_with_miner(index)
        except (RecursionError, MemoryError):
            raise
        except Exception:  # as in pdf_content, for one page
            return page
        if other is None or _score(other) <= _score(page):
            return page
        other.links = page.links or other.links
        other.marks, other.pictures = page.marks, page.pictures
        other.grids = page.grids
        return other

    def _read_with_miner(self, index: int) -> PageText | None:
        from scraper_service.content.pdf.miner import MinerFile  # noqa: PLC0415  # big

        if self._miner is None:
            self._miner = MinerFile(self._body)
        found: PageText | None = self._miner.page(index)
        return found

    def _recognise(
        self, file: PdfiumFile, index: int, page: PageText
    ) -> PageText | None:
        """Return ``page`` with the lines that Tesseract recognises in its picture.

        None if the recognition fails.
        """
        left = None
        if self._deadline_s is not None:
            left = self._deadline_s - (time.monotonic() - self._started)
        try:
            text = recognise_text(file.picture(index, DPI), left)
        except (OSError, subprocess.SubprocessError, pdfium.PdfiumError):
            return None
        found = PageText(_lines_of_text(text), page.links, marks=page.marks)
        if found.lines:
            insert_marks(found, is_drawn=True)
        return found

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
                f"Insufficient time to process PDF of {plural(count, 'page')}. Please use a "
                f"timeout of at least {needed_ms} ms.",
            )
        )

    def _content(
        self, pages: list[PageText], total: int, facts: dict[str, str]
    ) -> PdfContent:
        links = dict.fromkeys(url for page in pages for url in page.links)
        parts = parts_of(pages)
        self._warn(len(pages), total)
        known, other = metadata(facts)
        if "title" not in known and (heading := _first_heading(parts)):
            known = {"title": heading, **known}
        return PdfContent(
            markdown=join_pages(parts, markers=self._parser.page_markers),
            parts=parts,
            pages=by_page(parts) if self._parser.pages else [],
            blocks=list_blocks(parts) if self._parser.blocks else [],
            links=list(links)[:MAX_LINKS],
            known=known,
            other=other,
            num_pages=len(pages),
            total_pages=max(total, len(pages)),
            warnings=self._warnings,
            losses=self._losses,
        )

    def _warn(self, count: int, total: int) -> None:
        if count < total:
            self._losses.add(
                "truncated",
                f"The limit maxPages is {self._limit}: {count} of the {total} pages of "
                "the PDF were converted.",
            )
        if self._unread:
            unread = f"{_page_numbers(self._unread)} of the PDF could not be read."
            self._lose_text(unread, len(self._unread))
        if self._shifted:
            self._lose_text(
                f"{_page_numbers(self._shifted)} of the PDF: the text layer has the codes of "
                "glyphs instead of letters; the program tesseract reads such pages in "
                "the mode auto of the parser pdf.",
                len(self._shifted),
            )
        scanned = [n for n in self._scanned if n not in self._unread]
        if scanned and len(self._scanned) == count:
            self._warnings.append(_NO_TEXT)
        elif scanned:
            self._warnings.append(
                f"{_page_numbers(scanned)} of the PDF: no text layer; it may be a scan."
            )
        if self._pictured:
            self._losses.add(
                "unreadableText",
                f"{_page_numbers(self._pictured)} of the PDF: no text layer; the program "
                "tesseract reads scans in the mode auto of the parser pdf.",
                count=len(self._pictured),
            )

    def _lose_text(self, reason: str, count: int) -> None:
        self._warnings.append(reason)
        self._losses.add("unreadableText", reason, count=count)


class PdfiumFile:
    """An open file; a context manager that frees PDFium's memory.

    :raises pypdfium2.PdfiumError: if PDFium cannot open the file.
    """

    def __init__(self, body: bytes):
        self._document = pdfium.PdfDocument(body)
        #: True for a form whose fields are in XFA, which PDFium does not read.
        self.is_xfa = self._document.get_formtype() in _XFA_FORMS
        #: The parts of the pages read so far, and the attachments, that are lost.
        self.losses = Losses()
        #: The number of form fields on the pages read so far, also of empty ones.
        self.fields = 0
        # Streams are never compressed together with their dictionaries.
        self._has_pictures = b"/Image" in body
        self._form: Any = None
        self._form_info = raw.FPDF_FORMFILLINFO(version=2)
        if self._document.get_formtype() != raw.FORMTYPE_NONE:
            self._form = raw.FPDFDOC_InitFormFillEnvironment(
                self._document.raw, self._form_info
            )
        record_attachments(self._document.raw, self.losses)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._form:
            raw.FPDFDOC_ExitFormFillEnvironment(self._form)
        self._document.close()

    def __len__(self) -> int:
        return len(self._document)

    def facts(self) -> dict[str, str]:
        """Return the document information: ``Title``, ``Author``, ``Lang``, ..."""
        found: dict[str, str] = dict(self._document.get_metadata_dict(skip_empty=True))
        found["Lang"] = text_of(raw.FPDFCatalog_GetLanguage, self._document)
        return found

    def page(self, index: int) -> tuple[PageText, bool]:
        """Return a page's text, and whether pdfminer may read more of it."""
        document = self._document.raw
        page = raw.FPDF_LoadPage(document, index)
        text_page = raw.FPDFText_LoadPage(page) if page else None
        try:
            if not text_page:
                raise pdfium.PdfiumError(f"Page {index + 1} cannot be loaded.")
            if self._form:
                raw.FORM_OnAfterLoadPage(page, self._form)
            text, is_doubtful = PdfPageReader(document, page, text_page).text()
            marks, fields = read_annotations(page, self._form, self.losses)
            self.fields += fields
            for mark in marks if text.angle else ():
                mark.box = rotate_box(mark.box, text.angle)
            text.marks = marks
            text.is_blank = not raw.FPDFPage_CountObjects(page)
            if self._has_pictures:
                text.pictures = count_pictures(page)
            return text, is_doubtful
        finally:
            if self._form and page:
                raw.FORM_OnBeforeClosePage(page, self._form)
            raw.FPDFText_ClosePage(text_page)
            raw.FPDF_ClosePage(page)

    def picture(self, index: int, dpi: int) -> bytes:
        """Return a page as a greyscale picture in PGM format."""
        page = self._document[index]
        try:
            bitmap = page.render(scale=dpi / 72, grayscale=True)
            try:
                width, height, stride = bitmap.width, bitmap.height, bitmap.stride
                rows = bytes(bitmap.buffer)
            finally:
                bitmap.close()
        finally:
            page.close()
        if stride != width:
            starts = range(0, height * stride, stride)
            rows = b"".join(rows[start : start + width] for start in starts)
        return b"P5 %d %d 255\n" % (width, height) + rows


def _first_heading(pages: Iterable[Iterable[Part]]) -> str:
    """Return the first heading of level 1, which stands for a title; empty without one."""
    found = (
        " ".join(clean_text(part.text).split())
        for parts in pages
        for part in parts
        if part.kind == "heading" and part.level == 1
    )
    return next(filter(None, found), "")[:MAX_TITLE]


def metadata(facts: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return title, language and dates, and the PDF's own fields."""

    def clean_fact(name: str) -> str:
        return " ".join(clean_text(facts.get(name, "")).split())[:MAX_TITLE]

    known = {"title": clean_fact("Title"), "language": clean_fact("Lang")[:100]}
    known |= {name: _date(clean_fact(key)) for key, name in _DATES.items()}
    other = {name: clean_fact(key) for key, name in _FACTS.items()}
    return _present(known), _present(other)


def _present(facts: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if value}


def _date(text: str) -> str:
    """Return a PDF date (ISO 32000-1, 7.9.4) in ISO 8601; empty if invalid."""
    digits = text.removeprefix("D:").replace("'", "")
    try:
        moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S")  # zone: see below
        sign, hours, minutes = digits[14:15], digits[15:17], digits[17:19]
        shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        zone = timezone(-shift if sign == "-" else shift) if sign in {"+", "-"} else UTC
        return moment.replace(tzinfo=zone).isoformat()
    except (ValueError, OverflowError):
        return ""


def _score(page: PageText) -> float:
    text = "".join(line.text for line in page.lines)
    return page.letters * (1 - unread_share(text))


def recognise_text(picture: bytes, timeout_s: float | None = None) -> str:
    """Return the text in ``picture``, an image file in any format Tesseract reads.

    :raises OSError: if the program cannot be started.
    :raises subprocess.SubprocessError: if the program fails or exceeds ``timeout_s``.
    """
    limit = min(PAGE_TIMEOUT_S, PAGE_TIMEOUT_S if timeout_s is None else timeout_s)
    command = [RECOGNISER, "stdin", "stdout", "--dpi", str(DPI)]
    if languages := _languages():
        command += ["-l", languages]
    done = subprocess.run(  # noqa: S603  # a fixed program reads the picture from stdin
        command, input=picture, capture_output=True, timeout=max(limit, 0.1), check=True
    )
    return done.stdout.decode("utf-8", "replace").replace("\f", "")


@functools.cache
def _languages() -> str:
    done = subprocess.run(  # noqa: S603
        [RECOGNISER, "--list-langs"], capture_output=True, timeout=10, check=True
    )
    names = done.stdout.decode("utf-8", "replace").split("\n")[1:]
    return "+".join(name for name in names if name and name not in {"osd", "equ"})


def _lines_of_text(text: str) -> list[Line]:
    """Return the rows of plain text as lines with invented positions.

    Empty rows leave a gap, so that paragraphs stay separate.
    """
    lines = []
    y = 10_000.0
    for row in text.split("\n"):
        y -= 12
        if row.strip():
            lines.append(Line(row.strip(), 10.0, 0.0, y, 500.0, y + 10))
    return lines


def _page_numbers(pages: Iterable[int]) -> str:
    numbers = [str(number) for number in pages]
    shown = ", ".join(numbers[:MAX_LISTED])
    left = len(numbers) - MAX_LISTED
    more = f" and {left} more" if left > 0 else ""
    return f"Page {shown}" if len(numbers) == 1 else f"Pages {shown}{more}"


def _reason(exc: Exception) -> str:
    name = type(exc).__name__
    if "Password" in name or "Encryption" in name:
        return "it is encrypted with a password"
    return "it is damaged or not a PDF"


def _unsupported_error(reason: str) -> Unreadable:
    return Unreadable(
        PageError(
            "SCRAPE_UNSUPPORTED_FILE_ERROR", f"The PDF cannot be converted: {reason}"
        )
    )
