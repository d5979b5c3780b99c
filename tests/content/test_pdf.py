from __future__ import annotations

import base64
import sys

import pytest

from scraper_service.content.pdf.content import _languages
from scraper_service.options.scrape import PdfParser
from tests.content.pages import convert, value
from tests.content.pdfmaker import ENCRYPTED, pdf

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


def test_the_first_heading_stands_for_a_title():
    assert read(pdf([LETTER, LETTER])).known == {"title": "Tide tables"}


def test_pages_are_capped_before_parsing():
    content = read(numbered(9), max_pages=2)
    assert (content.num_pages, content.total_pages) == (2, 9)
    assert "sheet C" not in value(content, "markdown")


def test_a_page_count_that_lies_is_not_believed():
    content = read(pdf([LETTER] * 3, count=10**9), max_pages=2)
    assert (content.num_pages, content.total_pages) == (2, 3)


def test_repeated_headers_and_footers_are_dropped():
    text = value(read(numbered(5)), "markdown")
    assert text == "\n\n".join(f"Text of sheet {c}" for c in "ABCDE")


def test_few_pages_keep_their_headers():
    assert "Harbour yearbook" in value(read(numbered(3)), "markdown")


def test_columns_are_read_one_after_another():
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


def test_pages_are_absent_unless_requested():
    assert set(read(pdf([LETTER]), "markdown").values) == {"markdown"}


def test_links_come_from_annotations():
    content = read(pdf([LETTER], link="https://x.example/a"), "links")
    assert value(content, "links") == ["https://x.example/a"]
    assert content.found == ("https://x.example/a",)


def test_html_has_the_same_structure():
    html = value(read(pdf([LETTER], title="Tides & co"), "html"), "html")
    assert html == (
        "<html><head><title>Tides &amp; co</title></head><body>\n<section>\n"
        "<h1>Tide tables</h1>\n<p>High water comes at four in the afternoon, and low "
        "water at ten.</p>\n<p>A second paragraph stands here.</p>\n</section>\n"
        "</body></html>"
    )


def test_a_pdf_without_a_parser_is_delivered_as_a_file():
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


@pytest.mark.full(keep=2)
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
    from scraper_service.content.convert import make_content
    from tests.content.pages import options, source

    content = make_content(
        source(numbered(30), MIME), options(parsers=parsers), deadline_s=0.0
    )
    assert content.error is not None
    assert content.error.code == "SCRAPE_PDF_INSUFFICIENT_TIME_ERROR"
    assert content.error.message.startswith(
        "Insufficient time to process PDF of 30 pages"
    )


def page_at(*rows: tuple[float, float, str], size: int = 11):
    return [(x, y, size, words) for x, y, words in rows]


def test_rows_of_cells_are_a_table():
    page = page_at(
        (72, 740, "Heights of the year in metres, as they were read:"),
        *((72, 700 - 14 * n, name) for n, name in enumerate(("Place", "Pier", "Mole"))),
    )
    page += page_at(
        *((200, 700 - 14 * n, f) for n, f in enumerate(("Height", "2.4", "3 | 1"))),
        *((300, 700 - 14 * n, f) for n, f in enumerate(("Year", "2024", "2023"))),
    )
    page.sort(key=lambda text: (-text[1], text[0]))
    text = value(read(pdf([page]), "markdown"), "markdown")
    assert text == (
        "Heights of the year in metres, as they were read:\n\n"
        "| Place | Height | Year |\n| --- | --- | --- |\n"
        "| Pier | 2.4 | 2024 |\n| Mole | 3 \\| 1 | 2023 |"
    )
    html = value(read(pdf([page]), "html"), "html")
    assert "<tr><td>Pier</td><td>2.4</td><td>2024</td></tr>" in html


def test_a_table_of_contents_is_a_list():
    page = page_at(
        (72, 700, "1 Tides . . . . . . . . . . . 3"),
        (72, 686, "2 Harbours . . . . . . . . . 17"),
    )
    text = value(read(pdf([page])), "markdown")
    assert text == "- 1 Tides \u2026 3\n- 2 Harbours \u2026 17"


def test_links_are_placed_on_their_words():
    body = pdf([page_at((72, 700, "see here"))], link="https://x.example/a")
    body = body.replace(b"/Rect [0 0 9 9]", b"/Rect [90 697 150 712]")
    content = read(body, "markdown", "html")
    assert value(content, "markdown") == "see [here](https://x.example/a)"
    assert 'see <a href="https://x.example/a">here</a>' in value(content, "html")


def test_heads_that_change_with_the_chapter_are_dropped():
    pages = [
        page_at(
            (72, 770, f"{n + 1}  Chapter {n // 3 + 1}: {'ABCD'[n // 3]} waters"),
            (
                72,
                700,
                f"The text of sheet {chr(65 + n)} goes here and it is long enough,",
            ),
            (72, 686, "and it has a second line."),
        )
        for n in range(12)
    ]
    text = value(read(pdf(pages)), "markdown")
    assert "Chapter" not in text
    assert text.count("The text of sheet") == 12


def test_different_first_lines_of_pages_are_no_page_header():
    pages = [
        page_at((72, 770, f"Title {'ABCDEF'[n]}"), (72, 700, "Some text of the slide."))
        for n in range(6)
    ]
    text = value(read(pdf(pages)), "markdown")
    assert all(f"Title {letter}" in text for letter in "ABCDEF")


def test_a_paragraph_goes_on_over_the_end_of_a_page():
    pages = [
        page_at((72, 700, "It was a long day and the har-")),
        page_at((72, 700, "bour was empty.")),
    ]
    assert value(read(pdf(pages)), "markdown") == (
        "It was a long day and the harbour was empty."
    )


def test_hyphens_before_a_capital_stay():
    page = page_at((72, 700, "The theorem of Eilenberg-"), (72, 687, "Steenrod holds."))
    text = value(read(pdf([page])), "markdown")
    assert text == "The theorem of Eilenberg- Steenrod holds."


def test_words_are_separated_by_their_distance_on_the_page():
    page = page_at((72, 700, "high"), (94.5, 700, "water"), (121.5, 700, "s"))
    assert value(read(pdf([page])), "markdown") == "high waters"


def test_lines_in_a_monospaced_font_are_code():
    page = page_at((72, 700, "def tide(x):"), (85.2, 687, "return x"))
    body = pdf([page]).replace(b"/BaseFont /Helvetica", b"/BaseFont /Courier")
    assert value(read(body), "markdown") == "```\ndef tide(x):\n  return x\n```"


@pytest.mark.parametrize(
    "turn", ["0 1 -1 0 700 0", "-1 0 0 -1 612 792", "0 -1 1 0 0 792"]
)
def test_pages_that_are_turned_are_read_as_if_upright(turn):
    rows = [(72, 500, 11, "Place"), (200, 500, 11, "Height"), (300, 500, 11, "Year")]
    rows += [(72, 486, 11, "Pier"), (200, 486, 11, "2.4"), (300, 486, 11, "2024")]
    page = [f"{turn} cm".encode(), *reversed(LETTER[:3]), *rows]
    content = read(pdf([page]), "markdown", blocks=True)
    assert value(content, "markdown") == (
        "# Tide tables\n\n"
        "High water comes at four in the afternoon, and low water at ten.\n\n"
        "| Place | Height | Year |\n| --- | --- | --- |\n| Pier | 2.4 | 2024 |"
    )


def test_blocks_of_rotated_pages_have_their_position_on_the_page():
    content = read(pdf([[b"0 1 -1 0 612 0 cm", *LETTER]]), "markdown", blocks=True)
    left, bottom, right, top = value(content, "blocks")[0]["bbox"]
    assert bottom == pytest.approx(72, abs=2)
    assert left < 612 - 720 < right  # its baseline
    assert top - bottom > right - left


def test_turned_text_at_the_margin_keeps_the_columns_in_order():
    page = [b"BT /F1 20 Tf 0 1 -1 0 30 200 Tm (Preprint of last year) Tj ET"]
    for n in range(8):
        y = 700 - 14 * n
        page += [
            (330, y, 10, f"right column words {n}"),
            (72, y, 10, f"left column words {n}"),
        ]
    text = value(read(pdf([page])), "markdown")
    assert text.index("left column words 7") < text.index("right column words 0")
    assert text.endswith("Preprint of last year")


def test_double_spaced_lines_form_a_single_paragraph():
    lines = [
        "The tide tables of the port are read",
        "by the pilots every day, who write down",
        "what they have seen from the pier and",
        "tell the harbour master of it. In the",
        "evening the table is compared with the",
        "marks on the wall, and where both differ",
        "the wall is right, as it always has been",
        "since it was built.",
    ]
    page = [(72, 700 - 24 * n, 12, line) for n, line in enumerate(lines)]
    assert value(read(pdf([page])), "markdown") == " ".join(lines)


@pytest.mark.parametrize(
    ("end", "begin", "whole"),
    [
        ("the high-", "water mark", "the high-water mark"),  # as it stands above
        ("the PDF-", "based form", "the PDF-based form"),
        ("the har-", "bour wall", "the harbour wall"),
        ("a low-", "lying shore", "a lowlying shore"),
        ("some-", "times known", "sometimes known"),
        ("a state-of-", "the art", "a state-of-the art"),
        ("the self-", "made boat", "the self-made boat"),
        ("the break-", "water", "the breakwater"),
    ],
)
def test_a_hyphen_that_belongs_to_the_word_stays(end, begin, whole):
    page = [
        (
            72,
            760,
            11,
            "It works well in some known times, by the breakwater and water.",
        ),
        (72, 740, 11, "A high-water mark is here."),
        (72, 700, 11, end),
        (72, 687, 11, begin),
    ]
    text = value(read(pdf([page])), "markdown")
    assert text.endswith(f"A high-water mark is here.\n\n{whole}")


def test_a_word_split_over_distant_lines_is_joined():
    page = [
        (72, 740, 11, "check.names"),
        (200, 740, 11, "whether row names are changed to syntac-"),
        (200, 700, 11, "tic names."),
    ]
    text = value(read(pdf([page])), "markdown")
    assert text.endswith("changed to syntactic names.")


def test_gaps_inside_a_piece_of_text_part_the_cells():
    rows = (
        f"BT /F1 10 Tf 72 {700 - 14 * n} Td [({a}) -9000 ({b})] TJ ET".encode()
        for n, (a, b) in enumerate((("Place", "Tide"), ("Pier", "Low"), ("Mole", "Up")))
    )
    page = [*rows, (72, 600, 10, "Text of one piece stands below the table.")]
    body = pdf([page, [b"BT /F1 10 Tf 72 700 Td (x) Tj ET"]])
    assert value(read(body), "markdown").startswith("| Place | Tide |")


@pytest.mark.parametrize("name", [b"t1xtt", b"ABCDEF+CMTT10", b"SourceCodePro-Regular"])
def test_monospaced_fonts_are_recognised_by_name(name):
    page = [(72, 700, 11, "def tide(x):"), (85.2, 687, 11, "return x")]
    body = pdf([page]).replace(b"/BaseFont /Helvetica", b"/BaseFont /" + name)
    assert value(read(body), "markdown").startswith("```\ndef tide(x):")


def test_a_paragraph_names_code_on_a_line_of_its_own():
    face = b"/FontDescriptor << /Type /FontDescriptor /FontName /Courier /Flags 33 >>"
    code = b"<< /Type /Font /Subtype /Type1 /BaseFont /Courier " + face + b" >>"
    start = (
        "Whoever has lost the key of the gate of the harbour asks the master for it at"
    )
    page = [(72, 700, 10, start), b"BT /F2 10 Tf 72 688 Td (gate@port.example) Tj ET"]
    body = pdf([page]).replace(b"/F1 3 0 R >>", b"/F1 3 0 R /F2 " + code + b" >>")
    assert value(read(body), "markdown") == f"{start} gate@port.example"


def test_dates_and_language():
    body = pdf([LETTER]).replace(
        b"/Author ()", b"/CreationDate (D:20240301110000+01'00') /ModDate (nonsense)"
    )
    body = body.replace(b"/Type /Catalog", b"/Lang (de-DE) /Type /Catalog")
    assert read(body).known == {
        "title": "Tide tables",
        "language": "de-DE",
        "published_time": "2024-03-01T11:00:00+01:00",
    }


TESSERACT = """#!{python}
import sys
if "--list-langs" in sys.argv:
    print("List of available languages (3):\\ndeu\\neng\\nosd")
else:
    assert sys.argv[-2:] == ["-l", "deu+eng"], sys.argv
    head = sys.stdin.buffer.read(30).split(b"\\n")[0]
    print(f"Recognised\\nfrom {{head.decode()}}\\n\\nSecond.")
"""


@pytest.fixture
def tesseract(tmp_path, monkeypatch):
    """A stand-in for the program, which tells the kind of picture it was given."""
    program = tmp_path / "tesseract"
    program.write_text(TESSERACT.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    _languages.cache_clear()
    yield
    _languages.cache_clear()


PICTURE = "Recognised from P5 1700 2200 255\n\nSecond."


def test_scans_are_recognised_where_the_program_is_installed(tesseract):
    content = read(pdf([[]]))
    assert value(content, "markdown") == PICTURE
    assert content.warnings == ()


def test_mode_ocr_recognises_pages_with_text_too(tesseract):
    assert value(read(pdf([LETTER]), mode="ocr"), "markdown") == PICTURE


def test_mode_fast_runs_no_text_recognition(tesseract):
    content = read(pdf([[], LETTER]), mode="fast")
    assert "Tide tables" in value(content, "markdown")
    assert content.warnings == ("Page 1 of the PDF: no text layer; it may be a scan.",)


def test_a_recognition_that_fails_costs_its_page(tesseract, tmp_path):
    (tmp_path / "tesseract").write_text("#!/bin/false")
    content = read(pdf([[], LETTER]))
    assert content.warnings == ("Page 1 of the PDF could not be read.",)


def test_no_page_contains_cid_codes():
    body = pdf([LETTER]).replace(b"/Subtype /Type1", b"/Subtype /Type0")
    content = read(body)
    assert content.error or "cid:" not in value(content, "markdown")
