"""Office files for tests, their XML written by hand, in zip archives."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:"
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = f'xmlns:r="{_TYPES}"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
)
O = " ".join(  # noqa: E741  # OpenDocument
    f'xmlns:{name}="{_OFFICE}{name}:1.0"'
    for name in ("office", "text", "table", "style", "meta", "manifest", "presentation")
) + (
    f' xmlns:fo="{_OFFICE}xsl-fo-compatible:1.0" xmlns:draw="{_OFFICE}drawing:1.0"'
    ' xmlns:xlink="http://www.w3.org/1999/xlink"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
)
CORE = """<cp:coreProperties
 xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">
<dc:title>Tide tables</dc:title><dc:creator>A. Writer</dc:creator>
<dc:description>Of the harbour</dc:description>
<dcterms:created>2024-03-01T10:00:00Z</dcterms:created></cp:coreProperties>"""


def archive(parts: Mapping[str, str | bytes], stored: str = "") -> bytes:
    """Return a zip archive; the member ``stored`` is not compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in parts.items():
            method = zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED
            target.writestr(name, content, method)
    return buffer.getvalue()


def relations(*targets: tuple[str, str, str]) -> str:
    """Return relations of (id, type, target); those to the web are external."""
    external = ' TargetMode="External"'
    rows = "".join(
        f'<Relationship Id="{name}" Type="{_TYPES}/{kind}" Target="{target}"'
        f"{external if '://' in target else ''}/>"
        for name, kind, target in targets
    )
    return f'<Relationships xmlns="{_RELATIONS}">{rows}</Relationships>'


def _ooxml(main: str, parts: Mapping[str, str | bytes]) -> bytes:
    whole = {
        "[Content_Types].xml": (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="xml" ContentType="application/xml"/>'
            '<Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            "</Types>"
        ),
        "_rels/.rels": relations(("r1", "officeDocument", main)),
        "docProps/core.xml": CORE,
    }
    return archive(whole | dict(parts))


def paragraph(text: str, style: str = "", properties: str = "") -> str:
    """Return a paragraph of a Word document; ``text`` may be runs."""
    runs = text if text.startswith("<") else run(text)
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{named}{properties}</w:pPr>{runs}</w:p>"


def run(text: str, properties: str = "") -> str:
    return (
        f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'
    )


def docx(body: str, *links: tuple[str, str, str], **parts: str | bytes) -> bytes:
    """Return a Word document; ``parts`` are further files below ``word/``."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name}">'
        f'<w:name w:val="{name}"/></w:style>'
        for name in ("heading 1", "heading 2", "Title", "Quote")
    )
    levels = "".join(
        f'<w:lvl w:ilvl="{n}"><w:numFmt w:val="bullet"/></w:lvl>' for n in range(3)
    )
    numbering = (
        f'<w:numbering {W}><w:abstractNum w:abstractNumId="0">{levels}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>'
    )
    related = [
        ("s1", "styles", "styles.xml"),
        ("n1", "numbering", "numbering.xml"),
        *((f"x{name}", name.removesuffix(".xml"), name) for name in parts),
        *links,
    ]
    return _ooxml(
        "word/document.xml",
        {
            "word/document.xml": (
                f"<w:document {W} {R}><w:body>{body}</w:body></w:document>"
            ),
            "word/styles.xml": f"<w:styles {W}>{styles}</w:styles>",
            "word/numbering.xml": numbering,
            "word/_rels/document.xml.rels": relations(*related),
        }
        | {f"word/{name}": content for name, content in parts.items()},
    )


def xlsx(
    *sheets: tuple[str, str, str],
    strings: str = "",
    formats: tuple[str, ...] = (),
    links: tuple[tuple[str, str, str], ...] = (),
    after: str = "",
) -> bytes:
    """Return a workbook of sheets: name, state, rows.

    A cell of style n has the nth of ``formats``, from 1. ``links`` are relations of the
    first sheet, ``after`` what follows its rows.
    """
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" state="{state}" r:id="r{n}"/>'
        for n, (name, state, _) in enumerate(sheets, 1)
    )
    codes = "".join(
        f'<numFmt numFmtId="{200 + n}" formatCode="{code}"/>'
        for n, code in enumerate(formats)
    )
    styles = "".join(f'<xf numFmtId="{200 + n}"/>' for n in range(len(formats)))
    parts: dict[str, str] = {
        "xl/workbook.xml": f"<workbook {S} {R}><sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations(
            *(
                (f"r{n}", "worksheet", f"worksheets/sheet{n}.xml")
                for n in range(1, len(sheets) + 1)
            ),
            ("rs", "styles", "styles.xml"),
            ("rt", "sharedStrings", "sharedStrings.xml"),
        ),
        "xl/styles.xml": (
            f"<styleSheet {S}><numFmts>{codes}</numFmts>"
            f'<cellXfs><xf numFmtId="0"/>{styles}</cellXfs></styleSheet>'
        ),
        "xl/sharedStrings.xml": f"<sst {S}>{strings}</sst>",
        "xl/worksheets/_rels/sheet1.xml.rels": relations(*links),
    }
    for n, (_, _, rows) in enumerate(sheets, 1):
        parts[f"xl/worksheets/sheet{n}.xml"] = (
            f"<worksheet {S} {R}><sheetData>{rows}</sheetData>"
            f"{after if n == 1 else ''}</worksheet>"
        )
    return _ooxml("xl/workbook.xml", parts)


def row(number: int, *values: object, style: int = 0) -> str:
    """Return a row; strings stand in the cells themselves."""
    cells = []
    for column, value in enumerate(values):
        place = f"{chr(65 + column)}{number}"
        if isinstance(value, str):
            cells.append(f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>')
        elif value is not None:
            cells.append(f'<c r="{place}" s="{style}"><v>{value}</v></c>')
    return f'<row r="{number}">{"".join(cells)}</row>'


def pptx(
    *slides: str, notes: str = "", links: tuple[tuple[str, str, str], ...] = ()
) -> bytes:
    """Return a presentation; ``slides`` are shapes, ``notes`` those of the first."""
    numbers = range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="r{n}"/>' for n in numbers)
    parts: dict[str, str] = {
        "ppt/presentation.xml": (
            f"<p:presentation {P} {R}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>"
        ),
        "ppt/_rels/presentation.xml.rels": relations(
            *((f"r{n}", "slide", f"slides/slide{n}.xml") for n in numbers)
        ),
        "ppt/slides/_rels/slide1.xml.rels": relations(
            ("n1", "notesSlide", "../notesSlides/notesSlide1.xml"), *links
        ),
    }
    for n, shapes in enumerate(slides, 1):
        hidden = ' show="0"' if shapes.startswith("hidden") else ""
        parts[f"ppt/slides/slide{n}.xml"] = (
            f"<p:sld {P} {R}{hidden}><p:cSld><p:spTree>{shapes.removeprefix('hidden')}"
            "</p:spTree></p:cSld></p:sld>"
        )
    if notes:
        parts["ppt/notesSlides/notesSlide1.xml"] = (
            f"<p:notes {P} {R}><p:cSld><p:spTree>{notes}</p:spTree></p:cSld></p:notes>"
        )
    return _ooxml("ppt/presentation.xml", parts)


def shape(kind: str, *paragraphs: str) -> str:
    """Return a placeholder of a slide; paragraphs are text, or XML."""
    inner = "".join(
        p if p.startswith("<") else f"<a:p><a:r><a:t>{p}</a:t></a:r></a:p>"
        for p in paragraphs
    )
    return (
        f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
        f"<p:txBody>{inner}</p:txBody></p:sp>"
    )


def odf(kind: str, content: str, styles: str = "", **parts: str) -> bytes:
    """Return an OpenDocument file; ``kind`` is text, spreadsheet or presentation."""
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": (
                f"<office:document-content {O}><office:automatic-styles>{styles}"
                f"</office:automatic-styles><office:body><office:{kind}>{content}"
                f"</office:{kind}></office:body></office:document-content>"
            ),
            "meta.xml": (
                f"<office:document-meta {O}><office:meta><dc:title>Tide tables</dc:title>"
                "<meta:initial-creator>A. Writer</meta:initial-creator>"
                "<meta:creation-date>2024-03-01T10:00:00</meta:creation-date>"
                "<meta:keyword>sea</meta:keyword><meta:keyword>moon</meta:keyword>"
                "</office:meta></office:document-meta>"
            ),
        }
        | {name.replace("__", "/"): content for name, content in parts.items()},
        stored="mimetype",
    )


def epub(*chapters: str, **parts: str) -> bytes:
    """Return a book; ``chapters`` are what their bodies hold."""
    numbers = range(len(chapters))
    items = "".join(
        f'<item id="c{n}" href="text/c{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in numbers
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in numbers)
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": (
                '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
                '<rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
            ),
            "OEBPS/book.opf": (
                '<package xmlns="http://www.idpf.org/2007/opf" '
                'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
                "<dc:title>Tide tables</dc:title><dc:creator>A. Writer</dc:creator>"
                "<dc:language>en-GB</dc:language><dc:date>2024-03-01</dc:date></metadata>"
                '<manifest><item id="nav" href="nav.xhtml" properties="nav" '
                f'media-type="application/xhtml+xml"/>{items}</manifest>'
                f'<spine><itemref idref="nav"/>{spine}</spine></package>'
            ),
            "OEBPS/nav.xhtml": "<html><body>Contents</body></html>",
        }
        | {
            f"OEBPS/text/c{n}.xhtml": (
                '<?xml version="1.0" encoding="utf-8"?><html '
                'xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>'
                f"<body>{chapter}</body></html>"
            )
            for n, chapter in enumerate(chapters)
        }
        | parts,
        stored="mimetype",
    )


def ole(*streams: str) -> bytes:
    """Return what begins as a file of before 2007 with ``streams`` does."""
    names = b"".join(name.encode("utf-16-le").ljust(128, b"\0") for name in streams)
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(512, b"\0") + names


def with_parts(body: bytes, parts: Mapping[str, str | bytes]) -> bytes:
    """Return an office file with further members, which replace those of their name."""
    buffer = io.BytesIO(body)
    with zipfile.ZipFile(buffer) as source:
        whole = {name: source.read(name) for name in source.namelist()}
    return archive(whole | dict(parts), stored="mimetype")
