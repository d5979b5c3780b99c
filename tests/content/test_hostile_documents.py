"""Files made to break a reader: each ends soon, within the memory of a process."""

from __future__ import annotations

import io
import random
import re
import time
import zipfile
import zlib

import pytest

from scraper_service.options.scrape import PdfParser
from tests.content import officemaker, pdfmaker
from tests.content.officemaker import archive, docx, epub, odf, paragraph, row, xlsx
from tests.content.pages import options, source, value
from tests.support.conversions import PoolInLoop, pool_in_loop
from tests.support.waiting import WAIT_S
from tools.bench.pdf_file import pdf_file

STREAM = "application/octet-stream"
LIMIT_S = 40  # of processor time on a slow machine; they take up to 6
LAUGHS = "".join(
    f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' if n else '<!ENTITY l0 "ha">'
    for n in range(12)
)
DOCTYPE = f"<!DOCTYPE x [{LAUGHS}]>"
OUTSIDE = '<!DOCTYPE x [<!ENTITY l11 SYSTEM "file:///etc/passwd">]>'


def nested(tag: str, depth: int, inside: str) -> str:
    return f"<{tag}>" * depth + inside + f"</{tag}>" * depth


def with_document(xml: str) -> bytes:
    return archive(
        {
            "_rels/.rels": officemaker.relations(
                ("r1", "officeDocument", "word/document.xml")
            ),
            "word/document.xml": xml,
        }
    )


SPACES = " " * 140_000_000
FILES = {
    "bomb in Word": lambda: with_document(SPACES),
    "bomb in a book": lambda: epub(SPACES),
    "laughs in Word": lambda: with_document(
        f"{DOCTYPE}<w:document {officemaker.W}><w:body>&l11;</w:body></w:document>"
    ),
    "laughs in a workbook": lambda: xlsx(
        ("a", "visible", row(1, "x")), strings="</sst>" + DOCTYPE + "<sst>"
    ),
    "laughs in OpenDocument": lambda: archive(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"{DOCTYPE}<x>&l11;</x>",
        },
        stored="mimetype",
    ),
    "a file from outside": lambda: archive(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"{OUTSIDE}<x>&l11;</x>",
        },
        stored="mimetype",
    ),
    "deep Word": lambda: with_document(
        f"<w:document {officemaker.W}><w:body>{nested('w:sdt', 100_000, '')}</w:body>"
        "</w:document>"
    ),
    "deep OpenDocument": lambda: odf(
        "text", nested("text:span", 240, "x") + nested("text:section", 240, "y")
    ),
    "deep rich text": lambda: b"{\\rtf1" + b"{" * 500_000 + b"x" + b"}" * 500_000,
    "deep Markdown": lambda: b"> " * 50_000 + b"x",
    "deep book": lambda: epub(nested("div", 50_000, "x")),
    "bomb in a workbook": lambda: xlsx(("a", "visible", SPACES)),
    "a document type in a sheet": lambda: xlsx(
        ("a", "visible", "</sheetData>" + DOCTYPE + "<sheetData>")
    ),
    "one long text in many cells": lambda: xlsx(
        (
            "a",
            "visible",
            "".join(
                f'<row r="{n}"><c t="s"><v>0</v></c></row>' for n in range(1, 9999)
            ),
        ),
        strings=f"<si><t>{'x' * 2_000_000}</t></si>",
    ),
    "a row of a very large number": lambda: xlsx(
        ("a", "visible", f'<row r="1"><c r="B{"9" * 400}"><v>1</v></c></row>')
    ),
    "rows without cells": lambda: xlsx(("a", "visible", "<row/>" * 1_048_576)),
    "cells without end": lambda: odf(
        "spreadsheet",
        '<table:table><table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell table:number-columns-repeated="16384"><text:p>x</text:p>'
        "</table:table-cell></table:table-row></table:table>",
    ),
    "thousands of sheets": lambda: xlsx(
        *((f"s{n}", "visible", row(1, "x")) for n in range(3000))
    ),
    "merged cells": lambda: xlsx(
        ("a", "visible", "".join(row(n, "x", "y") for n in range(1, 3000))),
        after="<mergeCells>"
        + "".join(f'<mergeCell ref="A{n}:XFD1048576"/>' for n in range(3000, 0, -1))
        + "</mergeCells>",
    ),
    "many parts": lambda: archive({f"word/{n}.xml": "" for n in range(30_000)}),
    "names that climb": lambda: archive(
        {
            "_rels/.rels": officemaker.relations(
                ("r1", "officeDocument", "../../../etc/passwd")
            ),
            "ppt/../../etc/passwd": "x",
        }
    ),
    "quotes never closed": lambda: b'a,b\n"' + b"x,\n" * 3_000_000,
    "many columns": lambda: b"a," * 200_000 + b"\n" + b"1," * 200_000,
    "many entries": lambda: (
        b"<rss><channel>"
        + b"<item><title>x</title></item>" * 100_000
        + b"</channel></rss>"
    ),
    "laughs in a feed": f"{DOCTYPE}<rss><channel><title>&l11;".encode,
}


@pytest.fixture(scope="module")
def pool():
    with pool_in_loop(
        processes=1, timeout_s=WAIT_S, memory_mb=1024, tasks=1000
    ) as made:
        yield made


async def converted(pool: PoolInLoop, body: bytes, **changes):
    return await pool.pool.convert(source(body, STREAM), options(**changes), WAIT_S)


def run(pool: PoolInLoop, body: bytes, **changes):
    async def both():
        started = await pool.pool.run(time.process_time)
        content = await converted(pool, body, **changes)
        took = await pool.pool.run(time.process_time) - started
        after = await converted(pool, docx(paragraph("still here")))
        return content, took, after

    content, took, after = pool.run(both())
    assert took < LIMIT_S
    assert value(after, "markdown") == "still here"
    return content


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_hostile_files_end_in_text_or_in_a_clear_error(pool, make):
    content = run(pool, make())
    if content.error is None:
        text = value(content, "markdown")
        assert "root:" not in text
        assert text.count("ha") < 1000
        assert len(text) < 10_000_000
    else:
        assert content.error.code in {
            "SCRAPE_UNSUPPORTED_FILE_ERROR",
            "SCRAPE_ALL_ENGINES_FAILED",
        }


REPEATS = 50_000


def repeated(body: bytes, name: str, pattern: str) -> bytes:
    """Return an archive where what matches ``pattern`` in a member stands many times."""
    with zipfile.ZipFile(io.BytesIO(body)) as given:
        parts = {each: given.read(each) for each in given.namelist()}
    text = parts[name].decode()
    once = re.search(pattern, text)[0]
    many = "".join(once.replace("#", str(n)) for n in range(REPEATS))
    parts[name] = text.replace(once, many).encode()
    return archive(parts, stored="mimetype")


LONG = "A sentence of the part. " * 4000
REPEATED = {
    "a chapter of a book": lambda: repeated(
        epub(f"<p>{LONG}</p>", "<p>The last one.</p>"),
        "OEBPS/book.opf",
        '<itemref idref="c0"/>',
    ),
    "a slide": lambda: repeated(
        officemaker.pptx(
            officemaker.shape("title", LONG), officemaker.shape("body", "The last one.")
        ),
        "ppt/presentation.xml",
        '<p:sldId id="256" r:id="r1"/>',
    ),
    "a sheet": lambda: repeated(
        xlsx(
            ("a#", "visible", row(1, LONG)), ("z", "visible", row(1, "The last one."))
        ),
        "xl/workbook.xml",
        '<sheet name="a#"[^>]*>',
    ),
}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("make", REPEATED.values(), ids=REPEATED)
def test_a_part_that_is_named_many_times_is_read_once(pool, make):
    content = run(pool, make())
    assert content.error is None
    text = value(content, "markdown")
    assert text.count("A sentence of the part.") in {4000, len(LONG[:32_767]) // 24}
    assert "The last one." in text
    assert content.warnings == ()


def test_notes_of_many_slides_are_read_once(pool):
    slides = [officemaker.shape("body", f"Slide {n}.") for n in range(20)]
    notes = officemaker.shape("body", "The only notes.")
    body = officemaker.pptx(*slides, notes=notes)
    with zipfile.ZipFile(io.BytesIO(body)) as given:
        parts = {each: given.read(each) for each in given.namelist()}
    shared = parts["ppt/slides/_rels/slide1.xml.rels"]
    parts |= {f"ppt/slides/_rels/slide{n}.xml.rels": shared for n in range(2, 21)}
    text = value(run(pool, archive(parts)), "markdown")
    assert text.count("The only notes.") == 1
    assert "Slide 19." in text


def test_hidden_sheets_of_a_large_file_take_no_quadratic_time(pool):
    hidden = (
        '<style:style style:name="h"><style:table-properties table:display="false"/>'
    )
    tables = '<table:table table:name="t" table:style-name="h"/>' * 20_000
    shown = (
        '<table:table table:name="z"><table:table-row><table:table-cell><text:p>The last'
        " one.</text:p></table:table-cell></table:table-row></table:table>"
    )
    plain = '<table:table table:name="e"/>' * 20_000
    body = odf("spreadsheet", shown + tables + plain, styles=f"{hidden}</style:style>")
    assert "The last one." in value(run(pool, body), "markdown")


def test_a_truncated_document_has_a_warning(pool):
    content = run(pool, FILES["cells without end"]())
    assert "was truncated" in content.warnings[0]


def scattered() -> bytes:
    place = random.Random(1)
    return pdfmaker.pdf(
        [
            [
                (place.random() * 500, place.random() * 700, 9, f"w{n}")
                for n in range(5000)
            ]
        ]
    )


def forms(depth: int) -> bytes:
    """Return a file whose page shows a form that shows ten, and so on."""
    shown = [
        b" ".join(b"/X%d Do" % (n + 1) for _ in range(10)) for n in range(depth - 1)
    ]
    shown.append(b"BT /F1 9 Tf (x) Tj ET")
    objects = [
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 600 700] /Resources << /XObject "
        b"<< /X%d %d 0 R >> >> /Length %d >>\nstream\n%s\nendstream"
        % (n + 1, 7 + n, len(body), body)
        for n, body in enumerate(shown)
    ]
    return one_page(b"/X0 Do", b"/XObject << /X0 6 0 R >>", *objects)


def one_page(content: bytes, resources: bytes = b"", *objects: bytes) -> bytes:
    packed = zlib.compress(content, 9)
    return pdf_file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << "
            b"/Font << /F1 3 0 R >> %s >> /Contents 5 0 R >>" % resources,
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream"
            % (len(packed), packed),
            *objects,
        ],
        b"",
    )


PDFS = {
    "scattered words": scattered,
    "a bomb": lambda: one_page(b" " * 300_000_000),
    "forms in forms": lambda: forms(20),
    "one endless line": lambda: one_page(
        b"BT /F1 9 Tf " + b"(ab) Tj 5 0 Td " * 50_000 + b"ET"
    ),
    "deep arrays": lambda: one_page(b"[" * 500_000),
    "many pages": lambda: pdfmaker.pdf([[(72, 700, 11, "x")]] * 2000),
}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("make", PDFS.values(), ids=PDFS)
def test_hostile_pdf_files_cost_their_page_only(pool, make):
    content = run(pool, make(), parsers=(PdfParser(),))
    if content.error is not None:
        assert content.error.code in {
            "SCRAPE_UNSUPPORTED_FILE_ERROR",
            "SCRAPE_ALL_ENGINES_FAILED",
        }
        assert content.error.message
