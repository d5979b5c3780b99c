"""Measures PDF pages per CPU second, compared with the underlying libraries.

The input is a generated book, and optionally other files. The libraries alone return text
without headings, tables, links or reading order.
"""

from __future__ import annotations

import io
import random
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pypdfium2
from attrs import frozen
from pdfminer.high_level import extract_text

from scraper_service.content.pdf.content import pdf_content
from scraper_service.options.scrape import PdfParser
from tools.bench.pages import SENTENCES
from tools.bench.pdf_file import pdf_file
from tools.bench.report import MACHINE, arguments, publish, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RESULT = "pdf.md"
REPEATS = 3  # the fastest run counts, because other processes use the machine
WIDTH = 78  # characters per line
HEADINGS = ("File", "Pages", "Reader", "Pages/CPU-s", "Against pdfminer.six")


@frozen
class Run:
    """The speed of one reader with one file."""

    file: str
    pages: int
    reader: str
    pages_per_s: float


def book(pages: int) -> bytes:
    """Return a book; each page has a header, headings, paragraphs and a table."""
    chance = random.Random(pages)  # seeded: equal bytes on every run
    return _file([_page(chance, number) for number in range(1, pages + 1)])


def _page(chance: random.Random, number: int) -> bytes:
    rows = [(9, 72.0, 760.0, f"Tides and harbours {number}")]
    y = 720.0
    for _ in range(2):
        rows.append((16, 72.0, y, f"Section {chance.randrange(1000)}"))
        y -= 24
        words = " ".join(chance.choices(SENTENCES, k=16)).split()
        line = ""
        for word in words:
            if len(line) + len(word) >= WIDTH:
                rows.append((10, 72.0, y, line))
                line, y = "", y - 12
            line = f"{line} {word}".strip()
        rows.append((10, 72.0, y, line))
        y -= 30
    for _ in range(4):
        rows += [
            (10, 72.0 + 120 * n, y, str(chance.randrange(10**6))) for n in range(4)
        ]
        y -= 14
    return "\n".join(
        f"BT /F1 {size} Tf {x} {at} Td ({text}) Tj ET" for size, x, at, text in rows
    ).encode()


def _file(pages: list[bytes]) -> bytes:
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, content in enumerate(pages):
        packed = zlib.compress(content)
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font "
            b"<< /F1 3 0 R >> >> /Contents %d 0 R >>" % (5 + 2 * number),
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream"
            % (len(packed), packed),
        ]
    return pdf_file(objects)


def _ours(body: bytes) -> int:
    return pdf_content(body, PdfParser()).num_pages


def _pdfminer(body: bytes) -> int:
    return extract_text(io.BytesIO(body)).count("\f")


def _pdfium(body: bytes) -> int:
    document = pypdfium2.PdfDocument(body)
    for page in document:
        page.get_textpage().get_text_bounded()
    return len(document)


READERS: dict[str, Callable[[bytes], int]] = {
    "this service": _ours,
    "PDFium, text only": _pdfium,
    "pdfminer.six, text only": _pdfminer,
}


def measure(name: str, body: bytes) -> list[Run]:
    """Measure each reader with one file."""
    runs = []
    for reader, read in READERS.items():
        best_s = float("inf")
        for _ in range(REPEATS):
            begin = time.process_time()
            pages = read(body)
            best_s = min(best_s, time.process_time() - begin)
        runs.append(Run(name, pages, reader, pages / best_s))
    return runs


def markdown(results: Iterable[list[Run]]) -> str:
    rows: list[tuple[str, ...]] = []
    for runs in results:
        plain = runs[-1].pages_per_s
        rows += [
            (
                run.file,
                str(run.pages),
                run.reader,
                f"{run.pages_per_s:.0f}",
                f"{run.pages_per_s / plain:.1f}",
            )
            for run in runs
        ]
    cells = table(HEADINGS, rows)
    return f"# PDF benchmark\n\n{MACHINE}; one process.\n\n{cells}\n"


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument("files", nargs="*", type=Path, help="further PDF files")
    options: Any = parser.parse_args()
    files = {"generated book": book(5 if options.quick else 100)}
    files |= {path.name: path.read_bytes() for path in options.files}
    text = markdown([measure(name, body) for name, body in files.items()])
    publish(text, RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
