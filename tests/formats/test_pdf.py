from __future__ import annotations

import base64

import pytest

from scraper_service.options.scrape import PdfParser
from tests.formats.pages import convert, value
from tests.formats.pdfmaker import ENCRYPTED, pdf

LETTER = [
    (72, 720, 24, "Tide tables"),
    (72, 680, 11, "High water comes at four in the after-"),
    (72, 667, 11, "noon, and low water at ten."),
    (72, 630, 11, "A second paragraph stands here."),
]
MIME = "application/pdf"


def read(body: bytes, *names, parser=None, **changes):
    parsers = (parser or PdfParser(**changes),)
    return convert(body, *names or ("markdown",), content_type=MIME, parsers=parsers)


def numbered(count: int) -> bytes:
    return pdf(
        [
            [
                (72, 770, 9, "Harbour yearbook"),
                (72, 400, 11, f"Text of sheet {chr(65 + n % 26)}"),
                (72, 20, 9, f"Page {n + 1} of {count}"),
            ]
            for n in range(count)
        ]
    )


def test_headings_paragraphs_and_hyphens():
    assert value(read(pdf([LETTER])), "markdown") == (
        "# Tide tables\n\nHigh water comes at four in the afternoon, and low water at ten.\n\n"
        "A second paragraph stands here."
    )


def test_facts_of_the_file():
    content = read(pdf([LETTER, LETTER], title="Tides", author="A. Writer"))
    assert content.known == {"title": "Tides"}
    assert content.other == {"author": "A. Writer"}
    assert (content.num_pages, content.total_pages) == (2, 2)


def test_pages_are_capped_before_parsing():
    content = read(numbered(9), max_pages=2)
    assert (content.num_pages, content.total_pages) == (2, 9)
    assert "sheet C" not in value(content, "markdown")


def test_a_page_count_that_lies_is_not_believed():
    content = read(pdf([LETTER] * 3, count=10**9), max_pages=2)
    assert (content.num_pages, content.total_pages) == (2, 2)


def test_repeated_headers_and_footers_are_dropped():
    text = value(read(numbered(5)), "markdown")
    assert text == "\n\n".join(f"Text of sheet {c}" for c in "ABCDE")


def test_few_pages_keep_their_headers():
    assert "Harbour yearbook" in value(read(numbered(3)), "markdown")


def test_columns_are_read_one_after_the_other():
    rows = [(700 - 14 * n) for n in range(8)]
    page = [
        (
            72,
            740,
            11,
            "A line over both columns of the text which is long enough for it",
        )
    ]
    for n, y in enumerate(rows):
        page += [
            (72, y, 10, f"left column words {n}"),
            (330, y, 10, f"right column words {n}"),
        ]
    text = value(read(pdf([page])), "markdown")
    assert text.index("left column words 7") < text.index("right column words 0")
    assert text.startswith("A line over both")


def test_bullets_are_list_items():
    page = [
        (72, 700, 11, "\u2022 one"),
        (72, 686, 11, "\u2022 two"),
        (72, 672, 11, "\u2022 three"),
    ]
    assert value(read(pdf([page])), "markdown") == "- one\n- two\n- three"


def test_text_is_escaped():
    page = [(72, 700, 11, "# <b>no</b> *markup*")]
    assert value(read(pdf([page])), "markdown") == "\\# \\<b>no\\</b> \\*markup\\*"


def test_page_markers():
    text = value(read(pdf([LETTER[1:2], LETTER[3:]]), page_markers=True), "markdown")
    assert text.endswith(
        "after-\n\n---\n\n<!-- page 2 -->\n\nA second paragraph stands here."
    )


def test_pages_and_blocks():
    content = read(pdf([LETTER[3:], LETTER[3:]]), pages=True, blocks=True)
    text = "A second paragraph stands here."
    assert value(content, "pages") == [
        {"pageNumber": 1, "markdown": text},
        {"pageNumber": 2, "markdown": text},
    ]
    block = value(content, "blocks")[1]
    assert (block["pageNumber"], block["type"], block["text"]) == (2, "paragraph", text)
    assert block["bbox"][0] == 72


def test_pages_are_absent_unless_asked_for():
    assert set(read(pdf([LETTER]), "markdown").values) == {"markdown"}


def test_links_come_from_annotations():
    content = read(pdf([LETTER], link="https://x.example/a"), "links")
    assert value(content, "links") == ["https://x.example/a"]
    assert content.found == ("https://x.example/a",)


def test_html_is_the_text():
    html = value(read(pdf([LETTER[3:]]), "html"), "html")
    assert (
        html == "<html><body><pre>A second paragraph stands here.</pre></body></html>"
    )


def test_without_parser_the_file_is_delivered():
    body = pdf([LETTER])
    content = convert(body, "markdown", content_type=MIME)
    assert value(content, "markdown").startswith("JVBERi")
    assert base64.b64decode(value(content, "markdown")) == body
    assert content.num_pages is None


def test_the_file_is_known_by_its_first_bytes():
    parsers = (PdfParser(),)
    content = convert(
        pdf([LETTER]), "markdown", content_type="text/html", parsers=parsers
    )
    assert content.num_pages == 1


def test_no_text_layer_is_warned_of():
    content = read(pdf([[]]))
    assert value(content, "markdown") == ""
    assert content.warnings == ("The PDF has no text layer; it may be a scan.",)


WHOLE = pdf([LETTER])
BROKEN = {
    "encrypted": pdf([LETTER], trailer=ENCRYPTED),
    "only a header": b"%PDF-1.4\n",
    "truncated": WHOLE[:60],
    "wrong type": b"%PDF-1.7 <html>no pdf at all</html>" * 50,
    "deep arrays": b"%PDF-1.4\n1 0 obj\n"
    + b"[" * 200_000
    + b"\nendobj\ntrailer << /Root 1 0 R >>",
    "pages of themselves": b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
    b"2 0 obj\n<< /Type /Pages /Kids [2 0 R] /Count 1 >>\nendobj\ntrailer << /Root 1 0 R >>",
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_broken_files_are_errors(body):
    error = read(body).error
    assert error is not None
    assert error.code == "SCRAPE_UNSUPPORTED_FILE_ERROR"
    assert error.message.startswith("The PDF cannot be converted: ")


def test_a_damaged_end_is_read_without_its_table():
    body = WHOLE.replace(b"startxref\n", b"startxref\n9")
    assert "Tide tables" in value(read(body), "markdown")


def test_time_runs_out_between_pages():
    parsers = (PdfParser(),)
    from scraper_service.formats.render import make_content
    from tests.formats.pages import options, source

    content = make_content(
        source(numbered(30), MIME), options(parsers=parsers), deadline_s=0.0
    )
    assert content.error is not None
    assert content.error.code == "SCRAPE_PDF_INSUFFICIENT_TIME_ERROR"
    assert content.error.message.startswith(
        "Insufficient time to process PDF of 30 pages"
    )
