from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta

import pytest

from scraper_service.content.convert import make_content
from scraper_service.content.documents import files
from scraper_service.content.documents.sheets import format_value
from tests.content import officemaker
from tests.content.officemaker import docx, epub, odf, ole, paragraph, pptx, row, xlsx
from tests.content.pages import convert, options, source, value

STREAM = "application/octet-stream"
LINK = "https://x.example/a"
KNOWN = {"title": "Tide tables", "published_time": "2024-03-01T10:00:00Z"}


def read(body: bytes | str, *names, content_type=STREAM, **changes):
    content = convert(
        body, *names or ("markdown",), content_type=content_type, **changes
    )
    assert content.error is None, content.error
    return content


def markdown_of(body: bytes | str, content_type=STREAM, **changes) -> str:
    return value(read(body, content_type=content_type, **changes), "markdown")


def refusal(body: bytes) -> str:
    error = convert(body, "markdown", content_type=STREAM).error
    assert error is not None
    assert error.code == "SCRAPE_UNSUPPORTED_FILE_ERROR"
    return error.message


def item(text: str, level: int) -> str:
    place = f'<w:ilvl w:val="{level}"/><w:numId w:val="1"/>'
    return paragraph(text, properties=f"<w:numPr>{place}</w:numPr>")


def cells(*texts: str) -> str:
    inner = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in texts)
    return f"<w:tr>{inner}</w:tr>"


WORD = docx(
    paragraph("Tides", "Title")
    + paragraph("Harbour &amp; sea", "heading 1")
    + paragraph(
        officemaker.run("High ")
        + officemaker.run("water", "<w:b/>")
        + officemaker.run(" at ")
        + officemaker.run("four", "<w:i/>")
        + f'<w:hyperlink r:id="l1">{officemaker.run(" here")}</w:hyperlink>'
        + '<w:r><w:footnoteReference w:id="2"/></w:r>'
    )
    + item("one", 0)
    + item("two", 0)
    + item("inner", 1)
    + f"<w:tbl>{cells('Place', 'Height')}{cells('Pier', '2.4 | m')}</w:tbl>"
    + paragraph("Said she.", "Quote")
    + f"<w:del>{paragraph('deleted')}</w:del>",
    ("l1", "hyperlink", LINK),
    **{
        "footnotes.xml": (
            f'<w:footnotes {officemaker.W}><w:footnote w:id="2">'
            f"{paragraph('A note of some words.')}</w:footnote></w:footnotes>"
        )
    },
)


def facts(content):
    """Return what a file says of itself; how long it is, is counted."""
    counted = {"word_count", "reading_time"}
    assert counted <= set(content.known)
    return {name: fact for name, fact in content.known.items() if name not in counted}


def test_word_documents():
    content = read(WORD, "markdown", "links", "html")
    assert value(content, "markdown") == (
        f"# Tides\n\n# Harbour & sea\n\nHigh **water** at *four* [here]({LINK})[^1]\n\n"
        "- one\n- two\n  - inner\n\n"
        "| Place | Height |\n| --- | --- |\n| Pier | 2.4 \\| m |\n\n> Said she.\n\n"
        "[^1]: A note of some words."
    )
    assert value(content, "links") == [LINK]
    assert "<h1>Tides</h1>" in value(content, "html")
    assert facts(content) == {**KNOWN, "description": "Of the harbour"}
    assert content.other == {"author": "A. Writer"}
    assert content.found == (LINK,)
    assert content.num_pages is None


def test_macros_are_left_out_and_warned_of():
    body = docx(paragraph("text"), **{"vbaProject.bin": b"MACRO"})
    content = read(body)
    assert value(content, "markdown") == "text"
    assert content.warnings == ("The macros of the document were left out.",)


def test_pictures_outside_of_a_document_are_never_opened():
    drawing = (
        '<w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/'
        'drawingml/2006/wordprocessingDrawing"><wp:docPr descr="a map"/>'
        '<a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
        '<a:graphicData><pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/'
        '2006/picture"><pic:blipFill><a:blip r:link="i1"/></pic:blipFill></pic:pic>'
        "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
    )
    body = docx(
        paragraph("text") + f"<w:p>{drawing}</w:p>",
        ("i1", "image", "file:///etc/passwd"),
    )
    content = read(body, "markdown", "html", remove_base64_images=False)
    assert value(content, "markdown") == "text"
    assert "<img" not in value(content, "html")


SHEET = xlsx(
    (
        "Prices &amp; more",
        "visible",
        row(3, "Item", "Price", "Since")
        + row(4, "Rope", 1234.5, None, style=1)
        + row(5, None, None, 45352, style=2)
        + '<row r="6"><c r="A6" t="s"><v>0</v></c><c r="B6" t="b"><v>1</v></c>'
        '<c r="C6" t="e"><v>#DIV/0!</v></c></row>',
    ),
    ("Secret", "hidden", row(1, "no")),
    strings="<si><r><t xml:space='preserve'>Net </t></r><r><t>&lt;b&gt;</t></r><rPh><t>x</t></rPh></si>",
    formats=("#,##0.00&quot; EUR&quot;", "d mmm yyyy"),
    links=(("h1", "hyperlink", LINK),),
    after='<mergeCells><mergeCell ref="A4:A5"/></mergeCells>'
    '<hyperlinks><hyperlink ref="A6" r:id="h1"/></hyperlinks>',
)


def test_workbooks_are_shown_as_in_the_program():
    content = read(SHEET, "markdown", "html", "links")
    assert value(content, "markdown") == (
        "## Prices & more\n\n| Item | Price | Since |\n| --- | --- | --- |\n"
        "| Rope | 1,234.50 EUR |  |\n|  |  | 2024-03-01 |\n"
        f"| [Net \\<b>]({LINK}) | TRUE | #DIV/0! |"
    )
    assert '<td rowspan="2">Rope</td>' in value(content, "html")
    assert content.warnings == ("Hidden sheets were left out: 'Secret'.",)
    assert content.known["title"] == "Tide tables"


NUMBERS = (
    (1234567.0, "General", "1234567"),
    (0.1 + 0.2, "General", "0.3"),
    (1234.5, "#,##0.00", "1,234.50"),
    (-1234.5, "#,##0.00;[Red](#,##0.00)", "(1,234.50)"),
    (0.0, '0;-0;"none"', "none"),
    (0.256, "0.0%", "25.6%"),
    (1.5, "0.##", "1.5"),
    (2.0, "0.##", "2"),
    (7.0, "000", "007"),
    (1234567.0, '#,##0,"k"', "1,235k"),
    (12.5, "[$€-407] 0.00", "€ 12.50"),
    (12345.0, "0.00E+00", "12345"),
    (0.1234, '"Rate: "0.0%;-0.0%', "Rate: 12.3%"),
    (5551234567.0, "(000) 000-0000", "5551234567"),
    (5.0, "0" + 400 * ",", "0"),
    (5.0, "0" + 400 * "%", "5"),
    (45352.0, "yyyy-mm-dd", "2024-03-01"),
    (45352.75, "d/m/yy h:mm AM/PM", "2024-03-01 18:00:00"),
    (datetime(2024, 3, 1, 12, 30), "dddd, mmmm d hh:mm:ss", "2024-03-01 12:30:00"),
    (date(2024, 3, 1), "mmm-yy", "2024-03-01"),
    (date(2024, 3, 1), "", "2024-03-01"),
    (datetime(2024, 3, 1, 12, 30), "", "2024-03-01 12:30:00"),
    (time(18, 5), "h:mm", "18:05:00"),
    (timedelta(hours=36, minutes=5), "[h]:mm", "36:05:00"),
    (0.0007, "mm:ss.0", "00:01:00.480000"),
    (-1.0, "yyyy-mm-dd", "-1"),
    (1e12, "yyyy-mm-dd", "1000000000000"),
    (0.5, "# ?/?", "0.5"),
    (5.0, "@", "5"),
)


@pytest.mark.parametrize(("number", "code", "shown"), NUMBERS)
def test_number_formats(number, code, shown):
    assert format_value(number, code) == shown


def test_hidden_rows_of_a_workbook_are_left_out():
    rows = row(1, "a", "b") + row(2, "no", 1) + row(3, "c", 2)
    body = xlsx(("S", "visible", rows.replace('<row r="2"', '<row hidden="1" r="2"')))
    assert markdown_of(body) == "## S\n\n| a | b |\n| --- | --- |\n| c | 2 |"


def test_cells_without_references_have_their_formats():
    cells = (
        '<row><c t="inlineStr"><is><t>Share</t></is></c><c s="1"><v>0.5</v></c></row>'
    )
    body = xlsx(("S", "visible", cells), formats=("0%",))
    assert "| Share | 50% |" in markdown_of(body)


def test_a_sheet_with_distant_cells_is_left_out_with_a_warning():
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    content = read(
        xlsx(
            ("Far", "visible", row(1, "x") + far),
            ("Near", "visible", row(1, "a", "b")),
        )
    )
    assert value(content, "markdown").startswith("## Near\n\n| a | b |")
    assert content.warnings == (
        "The sheet 'Far' was left out: its cells are too far apart.",
    )


def test_a_damaged_sheet_is_left_out_with_a_warning():
    damaged = '<row r="1"><c r="A1" t="s"><v>no number</v></c></row>'
    content = read(
        xlsx(("Bad", "visible", damaged), ("Good", "visible", row(1, "a", "b")))
    )
    assert value(content, "markdown").startswith("## Good\n\n| a | b |")
    assert content.warnings == ("The sheet 'Bad' was left out: it is damaged.",)


def test_formatted_cells_without_a_value_are_left_out():
    far = '<row r="1048576"><c r="XFD1048576" s="1"/></row>'
    content = read(xlsx(("S", "visible", row(1, "x", "y") + far), formats=("0%",)))
    assert value(content, "markdown").startswith("## S\n\n| x | y |")
    assert content.warnings == ()


def test_presentations():
    linked = (
        '<a:p><a:pPr lvl="1"/><a:r><a:rPr b="1"><a:hlinkClick r:id="l1"/></a:rPr>'
        "<a:t>below</a:t></a:r></a:p>"
    )
    body = pptx(
        officemaker.shape("title", "First")
        + officemaker.shape("body", "point", linked)
        # the frame of the slide
        + officemaker.shape("sldNum", "1"),
        "hidden" + officemaker.shape("title", "No"),
        "<p:graphicFrame><a:tbl><a:tblPr firstRow='1'/><a:tr><a:tc><a:txBody><a:p><a:r>"
        "<a:t>a</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>b</a:t>"
        "</a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></p:graphicFrame>",
        notes=officemaker.shape("body", "Say this."),
        links=(("l1", "hyperlink", LINK),),
    )
    content = read(body)
    assert value(content, "markdown") == (
        f"## First\n\n- point\n  - [**below**]({LINK})\n\n> Notes:\n>\n> Say this.\n\n"
        "## Slide 3\n\n| a | b |\n| --- | --- |"
    )
    assert content.warnings == ("Hidden slides were left out: 1.",)
    assert content.other == {"author": "A. Writer"}


def test_opendocument_texts():
    body = odf(
        "text",
        '<text:h text:outline-level="2">Harbour</text:h>'
        '<text:p>High<text:s text:c="2"/><text:span text:style-name="B">water</text:span>'
        f'<text:line-break/><text:a xlink:href="{LINK}">here</text:a>'
        "<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>A note of words.</text:p></text:note-body></text:note></text:p>"
        "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item>"
        "<text:p>inner</text:p></text:list-item></text:list></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell office:value-type='string'>"
        "<text:p>Place</text:p></table:table-cell><table:table-cell "
        "office:value-type='string'><text:p>Height</text:p></table:table-cell>"
        "</table:table-row><table:table-row><table:table-cell><text:p>Pier</text:p>"
        "</table:table-cell><table:table-cell office:value-type='float'><text:p>2.4</text:p>"
        "</table:table-cell></table:table-row></table:table>",
        '<style:style style:name="B"><style:text-properties fo:font-weight="bold"/>'
        "</style:style>",
    )
    content = read(body)
    assert value(content, "markdown") == (
        f"## Harbour\n\nHigh **water**  \n[here]({LINK})[^1]\n\n- one\n  - inner\n\n"
        "| Place | Height |\n| --- | --- |\n| Pier | 2.4 |\n\n[^1]: A note of words."
    )
    assert facts(content) == {
        "title": "Tide tables",
        "keywords": "sea, moon",
        "published_time": "2024-03-01T10:00:00",
    }
    assert content.other == {"author": "A. Writer"}


def test_opendocument_sheets():
    def table(name: str, style: str, *rows: str) -> str:
        return (
            f'<table:table table:name="{name}" table:style-name="{style}">'
            f"{''.join(rows)}</table:table>"
        )

    def cell(text: str, kind: str = "string", more: str = "") -> str:
        return (
            f'<table:table-cell office:value-type="{kind}" {more}><text:p>{text}</text:p>'
            "</table:table-cell>"
        )

    def line(*inner: str) -> str:
        return f"<table:table-row>{''.join(inner)}</table:table-row>"

    body = odf(
        "spreadsheet",
        table(
            "Prices",
            "T1",
            line(cell("Item"), cell("Price")),
            line(cell("Rope"), cell("1,50 €", "currency")),
            line(cell("twice", more='table:number-columns-repeated="2"')),
            '<table:table-row table:number-rows-repeated="1048000"><table:table-cell '
            'table:number-columns-repeated="1024"/></table:table-row>',
        )
        + table("Secret", "T2", line(cell("no"))),
        '<style:style style:name="T2"><style:table-properties table:display="false"/>'
        "</style:style>",
    )
    content = read(body)
    assert value(content, "markdown") == (
        "## Prices\n\n| Item | Price |\n| --- | --- |\n| Rope | 1,50 € |\n"
        "| twice | twice |"
    )
    assert content.warnings == ("Hidden sheets were left out: 'Secret'.",)


def test_opendocument_presentations():
    body = odf(
        "presentation",
        '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>First'
        "</text:p></draw:text-box></draw:frame><draw:frame><draw:text-box><text:list>"
        "<text:list-item><text:p>point</text:p></text:list-item></text:list>"
        "</draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box>"
        "<text:p>Say this.</text:p></draw:text-box></draw:frame></presentation:notes>"
        "</draw:page>",
    )
    assert markdown_of(body) == "## First\n\n- point\n\n> Notes:\n>\n> Say this."


RTF = (
    r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}}"
    r"{\info{\title Tide tables}{\author A. Writer}}{\*\generator x;}{\header No}"
    r"\pard\outlinelevel0\b Harbour\b0\par\pard caf\'e9 \u8364? {\f1 \'cf} \{x\} "
    r'{\field{\*\fldinst{HYPERLINK "https://x.example/a"}}{\fldrslt here}}, '
    r"\i slanted\i0{\footnote A note of words.}\par"
    r"\pard{\pntext\'B7\tab}one\par{\pntext\'B7\tab}two\par"
    r"\pard\trowd\intbl a\cell b\cell\row\intbl 1\cell 2\cell\row\pard After.\par}"
)


def test_a_wide_cell_of_rich_text_spans_the_columns_below_it():
    found = markdown_of(
        r"{\rtf1 \trowd\cellx1000\cellx2000\cellx3000 \intbl Boat\cell Seats\cell Price\cell\row"
        r"\trowd\cellx2010\cellx3000 \intbl All boats\cell 9\cell\row"
        r"\trowd\cellx1000\cellx2000\cellx3000 \intbl Seal\cell 12\cell 30\cell\row}",
        "text/rtf",
    )
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in found.splitlines()]
    assert rows[2:] == [["All boats", "", "9"], ["Seal", "12", "30"]]


def test_rich_text():
    content = read(RTF, content_type="text/plain")
    assert value(content, "markdown") == (
        f"# Harbour\n\ncafé € П {{x}} [here]({LINK}), *slanted*[^1]\n\n- one\n- two\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\nAfter.\n\n[^1]: A note of words."
    )
    assert facts(content) == {"title": "Tide tables"}
    assert content.other == {"author": "A. Writer"}


def test_headings_of_rich_text_may_have_the_marks_of_a_list():
    paragraphs = (
        r"\pard\plain \s1\ilvl0\outlinelevel0{\listtext\pard\plain \tab}Harbour\par"
        r"\pard\outlinelevel1\ilvl1{\listtext\pard 1.1.\tab}Tides\par\pard Text.\par"
    )
    text = markdown_of(rf"{{\rtf1 {paragraphs}}}", "text/rtf")
    assert text == "# Harbour\n\n## 1.1. Tides\n\nText."


def test_adjacent_footnotes_of_rich_text_have_a_link_each():
    text = value(
        read(
            r"{\rtf1 A{\footnote one}{\footnote two} b\par}",
            "html",
            content_type="text/rtf",
        ),
        "html",
    )
    for number in "12":
        assert f'<sup><a href="#note-{number}">{number}</a></sup>' in text


def test_halves_of_a_sign_of_rich_text_may_have_different_replacements():
    assert (
        markdown_of(r"{\rtf1 a \uc0 \u55357\uc1 \u56832\'3f b}", "text/rtf") == "a 😀 b"
    )


def test_hidden_text_and_hidden_slides_of_opendocument_are_left_out():
    style = '<style:style style:name="h"><style:{}/></style:style>'
    body = odf(
        "text",
        '<text:p>Seen.<text:span text:style-name="h"> Not so.</text:span></text:p>'
        '<text:p text:style-name="h">Nor this.</text:p>',
        styles=style.format('text-properties text:display="none"'),
    )
    content = read(body)
    assert value(content, "markdown") == "Seen."
    assert content.losses[0]["kind"] == "hiddenPart"
    assert content.losses[0]["texts"] == ["Not so.", "Nor this."]
    slide = (
        "<draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    )
    body = odf(
        "presentation",
        f"<draw:page>{slide.format('Seen.')}</draw:page>"
        f'<draw:page draw:style-name="h">{slide.format("Not so.")}</draw:page>',
        styles=style.format('drawing-page-properties presentation:visibility="hidden"'),
    )
    content = read(body)
    assert value(content, "markdown") == "## Slide 1\n\nSeen."
    assert content.warnings == ("Hidden slides were left out: 1.",)
    assert content.losses[0]["kind"] == "hiddenPart"


def test_all_text_of_a_page_of_notes_is_read():
    box = "<p:sp><p:txBody><a:p><a:r><a:t>In a box.</a:t></a:r></a:p></p:txBody></p:sp>"
    body = pptx(
        officemaker.shape("title", "Tides"),
        notes=officemaker.shape("sldNum", "7")
        + officemaker.shape("body", "Said.")
        + box,
    )
    assert markdown_of(body) == "## Tides\n\n> Notes:\n>\n> Said.\n>\n> In a box."


def test_rich_text_of_an_unknown_code_page_is_read():
    assert markdown_of(r"{\rtf1\ansi\ansicpg99999 caf\'e9}", "text/plain") == "café"


def test_books_in_the_order_of_their_spine():
    body = epub(
        '<h1>One</h1><p>See <a href="c1.xhtml#x">there</a> and '
        f'<a href="{LINK}">out</a><script>no</script></p><img src="a.png" alt="sea"/>',
        "<h1>Two</h1><p>The <em>end</em>.</p>",
    )
    content = read(body, "markdown", "links")
    text = value(content, "markdown")
    assert text.startswith("# One\n\nSee ")
    assert f"[out]({LINK})" in text
    assert "no" not in text
    assert "![sea]" in text
    assert text.endswith("# Two\n\nThe *end*.")
    assert value(content, "links") == [LINK]
    assert facts(content) == {
        "title": "Tide tables",
        "language": "en-GB",
        "published_time": "2024-03-01",
    }


def test_books_with_many_chapters_and_encrypted_fonts():
    encrypted = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
        '<CipherReference URI="OEBPS/font.otf"/>'
        f"{' ' * 4 * 2**20}</encryption>"
    )
    chapters = (f"<p>Chapter {n}.</p>" for n in range(100))
    body = epub(*chapters, **{"META-INF/encryption.xml": encrypted})
    assert value(read(body, "markdown"), "markdown").endswith("Chapter 99.")


TABLE = "| a | b |\n| --- | --- |\n| 1 | 2,5 |"
DELIMITED = {
    "commas": ('a,b\n1,"2,5"\n', "text/csv"),
    "semicolons": ("a;b\r\n1;2,5\r\n", "text/csv; charset=utf-8"),
    "tabs": ("a\tb\n1\t2,5", "text/tab-separated-values"),
    "bars": ("a|b\n1|2,5\n", "application/csv"),
    "by the address": ("a;b\n1;2,5", ""),
    "a workbook that is none": ("a\tb\n1\t2,5", "application/vnd.ms-excel"),
    "utf-16": ("a;b\n1;2,5".encode("utf-16"), "text/csv"),
}


@pytest.mark.parametrize(("body", "mime"), DELIMITED.values(), ids=DELIMITED)
def test_tables_as_text(body, mime):
    page = source(body, mime, url="https://site.example/dir/table.CSV?x=1.html")
    content = make_content(page, options("markdown", "raw_html"))
    assert value(content, "markdown") == TABLE
    assert value(content, "raw_html").startswith("a")


def test_cells_with_line_breaks_and_markup_stay_cells():
    text = 'name,said\nAda,"one\ntwo <b>"\n'
    assert markdown_of(text, "text/csv") == (
        "| name | said |\n| --- | --- |\n| Ada | one<br>two \\<b> |"
    )


def test_text_that_is_no_table_stays_text():
    assert markdown_of("just one line", "text/csv") == "just one line"


RSS = f"""<?xml version="1.0"?><rss version="2.0"
 xmlns:content="http://purl.org/rss/1.0/modules/content/"><channel><title>Harbour news</title>
<link>https://x.example/</link><description>Daily &amp; short</description>
<language>en</language><item><title>A &lt;b&gt;storm&lt;/b&gt;</title><link>{LINK}</link>
<pubDate>Fri, 01 Mar 2024 10:00:00 +0100</pubDate><author>ada@x.example</author>
<description>short</description><content:encoded><![CDATA[<p>It was <b>loud</b>.</div>]]>
</content:encoded></item><item><title>Second</title><guid>https://x.example/2</guid></item>
</channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="de"><title>Hafen</title>
<updated>2024-03-01T10:00:00Z</updated><author><name>Ada</name></author>
<entry><title>Sturm</title><link rel="alternate" href="/a"/><updated>2024-03-01</updated>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Es war <em>laut</em>.</p>
</div></content></entry></feed>"""


@pytest.mark.parametrize("mime", ["application/rss+xml", "text/xml", STREAM, ""])
def test_feeds_rss(mime):
    content = read(RSS, "markdown", "links", "raw_html", content_type=mime)
    assert value(content, "markdown") == (
        f"# Harbour news\n\nDaily & short\n\n## [A storm]({LINK})\n\n"
        "2024-03-01T10:00:00+01:00 \u2013 ada@x.example\n\nIt was **loud**.\n\n"
        "## [Second](https://x.example/2)"
    )
    assert value(content, "links") == [LINK, "https://x.example/2"]
    assert value(content, "raw_html") == RSS
    assert content.known["title"] == "Harbour news"
    assert content.known["language"] == "en"
    assert LINK in content.found


def test_feeds_atom():
    content = read(ATOM, content_type="application/atom+xml")
    assert value(content, "markdown") == (
        "# Hafen\n\n## [Sturm](https://site.example/a)\n\n2024-03-01\n\nEs war *laut*."
    )
    assert facts(content) == {
        "title": "Hafen",
        "language": "de",
        "modified_time": "2024-03-01T10:00:00Z",
    }
    assert content.other == {"author": "Ada"}


BASED = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://blog.example/en/">
<title>Harbour</title>
<entry xml:base="2024/"><title>Storm</title><link href="storm.html"/>
<content type="html" xml:base="img/">&lt;p&gt;See &lt;a href="map.html"&gt;the map&lt;/a&gt;
&lt;img src="a.png" alt="waves" srcset="a.png 1x, b.png 2x"&gt; &lt;a href="https://x.example/"&gt;x&lt;/a&gt;
</content></entry>
<entry><title>Calm</title><link xml:base="/old/" href="calm.html"/><content type="xhtml">
<div xmlns="http://www.w3.org/1999/xhtml" xml:base="docs/"><p><a href="p">P</a></p>
<p><a href="q">Q</a> <a href="/r">R</a></p></div></content></entry></feed>"""


def test_files_of_feeds_are_links_unless_the_entry_shows_them():
    rss = """<rss><channel><item><title>T</title>
        <description>&lt;img src="https://x.example/b.png" alt="b"&gt;</description>
        <enclosure url="/one.mp3" type="audio/mpeg"/>
        <enclosure url="https://x.example/b.png" type="image/png"/></item></channel></rss>"""
    assert markdown_of(rss, "application/rss+xml") == (
        "## T\n\n![b](https://x.example/b.png)\n\n"
        "[/one.mp3](https://site.example/one.mp3)"
    )


def test_links_and_images_of_a_feed_are_relative_to_its_xml_base():
    content = read(BASED, "markdown", "links", "images", content_type="text/xml")
    blog = "https://blog.example"
    assert value(content, "markdown") == (
        f"# Harbour\n\n## [Storm]({blog}/en/2024/storm.html)\n\n"
        f"See [the map]({blog}/en/2024/img/map.html) ![waves]({blog}/en/2024/img/a.png) "
        f"[x](https://x.example/)\n\n## [Calm]({blog}/old/calm.html)\n\n"
        f"[P]({blog}/en/docs/p)\n\n[Q]({blog}/en/docs/q) [R]({blog}/r)"
    )
    assert f"{blog}/en/2024/img/map.html" in value(content, "links")
    assert f"{blog}/en/2024/storm.html" in content.found
    assert f"{blog}/old/calm.html" in content.found
    assert not any("site.example" in url for url in content.found)


def test_rss_has_an_xml_base_too():
    text = """<rss xml:base="https://blog.example/a/"><channel><item xml:base="b/"><title>T</title>
        <link>c</link><description>&lt;img src="d.png" alt="d"&gt;</description></item>
        <item xml:base="javascript:x"><title>U</title><guid>e</guid></item></channel></rss>"""
    content = read(text, content_type="application/rss+xml")
    assert value(content, "markdown") == (
        "## [T](https://blog.example/a/b/c)\n\n![d](https://blog.example/a/b/d.png)\n\n"
        "## [U](https://blog.example/a/e)"
    )
    assert content.found == ("https://blog.example/a/b/c", "https://blog.example/a/e")


def test_json_feeds_are_json():
    feed = {"version": "https://jsonfeed.org/version/1.1", "items": [{"url": "/storm"}]}
    content = read(json.dumps(feed), content_type="application/feed+json")
    assert value(content, "markdown").startswith("```json")
    assert content.found == ()


MARKDOWN = (
    "---\ntitle: Tides\nauthor: 'Ada'\n---\n# Harbour\n\nSee [this](/b) ~~not~~.\n"
)


def test_a_markdown_document_stays_unchanged():
    content = read(MARKDOWN, "markdown", "html", "links", content_type="text/markdown")
    assert value(content, "markdown") == "# Harbour\n\nSee [this](/b) ~~not~~."
    assert value(content, "links") == ["https://site.example/b"]
    assert "<h1>Harbour</h1>" in value(content, "html")
    assert facts(content) == {"title": "Tides"}
    assert content.other == {"author": "Ada"}


def test_selectors_work_on_documents():
    text = markdown_of(MARKDOWN, "text/markdown", exclude_tags=("h1",))
    assert text == "See [this](https://site.example/b) ~~not~~."
    assert markdown_of(WORD, include_tags=("table",)).startswith("| Place | Height |")


def test_the_main_content_of_a_document_is_the_whole_document():
    assert markdown_of(WORD, only_main_content=True) == markdown_of(WORD)


@pytest.mark.parametrize("mime", ["text/html", "", STREAM, "application/pdf", "x/y"])
def test_the_type_of_an_archive_is_recognised_by_its_contents(mime):
    assert markdown_of(docx(paragraph("text")), mime) == "text"


REFUSED = {
    "encrypted": (
        ole("EncryptedPackage", "EncryptionInfo"),
        "encrypted with a password",
    ),
    "xls that is damaged": (ole("Workbook"), "it is damaged"),
    "another file of that form": (ole("__properties_version1.0"), "x-ole-storage"),
    "another archive": (officemaker.archive({"a.txt": "x"}), "application/zip"),
    "a damaged archive": (WORD[: len(WORD) // 2], "application/zip"),
    "no document": (officemaker.archive({"word/x.xml": "<a/>"}), "it is damaged"),
    "encrypted text": (
        odf(
            "text",
            "",
            **{
                "META-INF__manifest.xml": f"<manifest:manifest {officemaker.O}>"
                "<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>"
                "</manifest:manifest>"
            },
        ),
        "encrypted with a password",
    ),
    "no chapters": (epub(), "no readable chapters"),
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.values(), ids=REFUSED)
def test_an_unreadable_document_is_an_error_that_names_the_reason(body, reason):
    assert reason in refusal(body)


@pytest.mark.parametrize(
    ("stream", "name"), [("WordDocument", ".doc"), ("PowerPoint Document", ".ppt")]
)
def test_files_of_before_2007_are_refused_without_their_extra(
    monkeypatch, stream, name
):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    assert f"{name} of before 2007 needs the extra office" in refusal(ole(stream))


def test_html_of_a_document_is_a_whole_page():
    html = value(read(WORD, "raw_html"), "raw_html")
    assert html.startswith("<!DOCTYPE html>")
    assert "<title>Tide tables</title>" in html


def test_the_first_heading_of_a_document_stands_for_a_title(monkeypatch):
    untitled = officemaker.CORE.replace("Tide tables", "")
    monkeypatch.setattr(officemaker, "CORE", untitled)
    headings = paragraph("", "heading 1") + paragraph("Harbour &amp;  sea", "heading 1")
    content = read(docx(headings + paragraph("Tides", "heading 1")))
    assert content.known["title"] == "Harbour & sea"
