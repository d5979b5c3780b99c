"""Files of all kinds through the service, as servers send them: often wrongly."""

from __future__ import annotations

import pytest

from scraper_service.content.documents.files import KINDS
from tests.content import officemaker
from tests.content.officemaker import docx, epub, odf, ole, paragraph, pptx, row, xlsx
from tests.content.pdfmaker import pdf
from tests.content.test_documents import ATOM, RTF
from tests.support.scripted_site import ScriptedSite, answer

STREAM = "application/octet-stream"
WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
SHEETS = xlsx(("Prices", "visible", row(1, "Item", "Price") + row(2, "Rope", 2)))
ODT = odf("text", "<text:p>said in a text</text:p>")
# path: body, content type, what its Markdown has
FILES = {
    "/a.docx": (docx(paragraph("said in Word")), WORD_TYPE, "said in Word"),
    "/word": (
        docx(paragraph("said in Word")),
        "text/html; charset=utf-8",
        "said in Word",
    ),
    "/word.pdf": (docx(paragraph("said in Word")), "application/pdf", "said in Word"),
    "/a.xlsx": (SHEETS, "application/zip", "| Rope | 2 |"),
    "/a.pptx": (pptx(officemaker.shape("title", "A slide")), STREAM, "## A slide"),
    "/a.odt": (ODT, "application/vnd.oasis.opendocument.text", "said in a text"),
    "/a.ods": (
        odf(
            "spreadsheet",
            '<table:table table:name="S"><table:table-row><table:table-cell><text:p>x'
            "</text:p></table:table-cell><table:table-cell><text:p>y</text:p>"
            "</table:table-cell></table:table-row></table:table>",
        ),
        STREAM,
        "| x | y |",
    ),
    "/a.epub": (epub("<h1>Chapter</h1>"), "application/epub+zip", "# Chapter"),
    "/a.rtf": (RTF, "application/rtf", "*slanted*"),
    "/rtf": (RTF, STREAM, "*slanted*"),
    "/a.csv": ("größe;wert\n1;2\n".encode("cp1252"), "text/csv", "| größe | wert |"),
    "/b.csv": ("größe,wert\n1,2\n", "text/plain; charset=utf-8", "| größe | wert |"),
    "/a.tsv": ("a\tb\n1\t2", STREAM, "| a | b |"),
    "/feed": (ATOM, "text/xml", "es war *laut*"),
    "/a.md": ("# Title\n\n[x](/y)", "text/plain", "# Title\n\n[x](/y)"),
    "/a.pdf": (pdf([[(72, 700, 11, "said in a PDF")]]), "", "said in a PDF"),
    "/a.txt": ("größe".encode("cp1252"), "text/plain; charset=iso-8859-1", "größe"),
    "/a.json": ('{"a": 1}', STREAM, '```json\n{"a": 1}\n```'),
    "/a.xml": ("<a>b</a>", "application/xml", "```xml\n<a>b</a>\n```"),
}
REFUSED = {
    "/a.doc": (
        ole("WordDocument"),
        "application/msword",
        "it is damaged" if KINDS["doc"].is_available else ".doc of before 2007",
    ),
    "/locked.docx": (ole("EncryptedPackage"), WORD_TYPE, "encrypted with a password"),
    "/a.zip": (officemaker.archive({"a": "b"}), "application/zip", "application/zip"),
    "/cut.docx": (docx(paragraph("x"))[:200], WORD_TYPE, "application/zip"),
}


@pytest.fixture(scope="module")
def files():
    pages = {
        path: answer(body, Content_Type=mime)
        if mime
        else answer(body, Content_Type=" ")
        for path, (body, mime, _) in (FILES | REFUSED).items()
    }
    links = "".join(f'<a href="{path}">{path}</a> ' for path in pages)
    with ScriptedSite({"/": f"<p>{links}", **pages}) as site:
        yield site


@pytest.fixture
def scrape(service, files):
    def call(path, version="v2", **options):
        body = {"url": files.url(path), "timeout": 200_000, "maxAge": 0, **options}
        if version == "v1":
            del body["maxAge"]
        return service.post(f"/{version}/scrape", body)

    return call


@pytest.mark.full(keep=3)
@pytest.mark.parametrize("path", FILES)
def test_files_become_markdown(scrape, path):
    _, mime, expected = FILES[path]
    reply = scrape(path, formats=["markdown", "html", "links", "images", "rawHtml"])
    assert reply.status == 200, reply.json
    page = reply.json["data"]
    assert expected.lower() in page["markdown"].lower()
    assert page["html"]
    assert page["metadata"]["statusCode"] == 200
    assert page["metadata"].get("contentType", "") == mime
    assert all(isinstance(link, str) for link in page["links"] + page["images"])


@pytest.mark.parametrize("path", REFUSED)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_unreadable_file_is_an_error_that_names_the_reason(scrape, path, version):
    reply = scrape(path, version)
    assert reply.status == 500
    assert reply.json["success"] is False
    assert reply.json["code"] == "SCRAPE_UNSUPPORTED_FILE_ERROR"
    assert REFUSED[path][2] in reply.json["error"]


def test_document_metadata_becomes_page_metadata(scrape):
    facts = scrape("/a.docx").json["data"]["metadata"]
    assert facts["title"] == "Tide tables"
    assert facts["author"] == "A. Writer"
    assert facts["publishedTime"] == "2024-03-01T10:00:00Z"
    assert facts["creditsUsed"] == 1
    assert "numPages" not in facts


def test_a_crawl_delivers_files_as_pages(service, files):
    body = {"url": files.url("/"), "limit": 50, "ignoreRobotsTxt": True}
    started = service.post("/v2/crawl", body)
    assert started.status == 200, started.json
    path = f"/v2/crawl/{started.json['id']}"
    status = service.get(path).json
    while status["status"] == "scraping":
        status = service.get(path).json
    assert status["status"] == "completed"
    found = {page["metadata"]["sourceURL"] for page in status["data"]}
    # Links to these are not followed (interface document, 11.4).
    followed = [path for path in FILES if not path.endswith((".xlsx", ".pptx"))]
    assert {files.url(path) for path in followed} <= found
    assert files.url("/a.xlsx") not in found
    errors = service.get(f"{path}/errors").json["errors"]
    # Nor are links to archives.
    refused = [path for path in REFUSED if not path.endswith(".zip")]
    assert {error["url"] for error in errors} == {files.url(path) for path in refused}
