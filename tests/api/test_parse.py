"""Uploaded files (interface document, 20.1): through the socket and public clients."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from firecrawl import AsyncFirecrawl, Firecrawl

from scraper_service.api.request_body import MAX_FILE_BYTES
from scraper_service.content.documents.files import KINDS
from tests.api.test_documents import FILES
from tests.conftest import KEY
from tests.content.pdfmaker import pdf
from tests.support.scripted_site import ScriptedSite

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
HTML = b"""<!doctype html><html><head><title>Tides</title></head><body><main><h1>Tides</h1><p>High water is at six.</p>
<a href="/local">local</a> <a href="https://example.org/x">far</a></main>"""


def form(*parts, boundary="x-y-z"):
    """Return headers and body of a form; a part is (name, file name, type, bytes)."""
    body = b""
    for name, filename, kind, content in parts:
        named = f'; filename="{filename}"' if filename is not None else ""
        typed = f"Content-Type: {kind}\r\n" if kind else ""
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n'
        )
        body += (head + typed + "\r\n").encode() + content + b"\r\n"
    return {"Content-Type": f"multipart/form-data; boundary={boundary}"}, (
        body + f"--{boundary}--\r\n".encode()
    )


def upload(service, content, name="a.html", kind="", options=None, **request):
    parts = [("file", name, kind, content)]
    if options is not None:
        parts.append(("options", None, "", json.dumps(options).encode()))
    headers, raw = form(*parts)
    return service.request("POST", "/v2/parse", headers=headers, raw=raw, **request)


def test_a_page_becomes_markdown_and_is_named_by_its_file(service):
    options = {"formats": ["markdown", "html", "links"], "origin": "test"}
    reply = upload(service, HTML, "C:\\files\\tides.html", "text/html", options)
    assert reply.status == 200
    data = reply.json["data"]
    assert data["markdown"].startswith("# Tides\n\nHigh water is at six.")
    assert data["links"] == ["https://example.org/x"]
    assert {data["metadata"][name] for name in ("sourceURL", "url")} == {"tides.html"}
    assert data["metadata"]["creditsUsed"] == 1
    assert data["metadata"]["statusCode"] == 200
    assert "cacheState" not in data["metadata"]
    scrape = service.get(f"/v2/scrape/{data['metadata']['scrapeId']}")
    assert scrape.json["data"] == data


def peak_mb(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024


@pytest.mark.full
def test_many_large_files_at_a_time_take_little_memory(start_service):
    service = start_service(
        SCRAPER_CONVERTER_PROCESSES="1", SCRAPER_CONVERTER_QUEUE_MB="24"
    )
    content, options = b"<p>" * (4 * 2**20), {"timeout": 8000}  # 12 MB, slow to convert
    before = peak_mb(service.pid)
    with ThreadPoolExecutor(24) as threads:
        replies = list(
            threads.map(
                lambda _: upload(service, content, options=options),
                range(24),
            )
        )
    assert [reply.status for reply in replies].count(429) >= 20
    grown = peak_mb(service.pid) - before
    assert grown < 120, grown


def test_product_and_menu_of_a_file_have_its_name_as_url(service):
    lamp = (
        b'<title>Lamp</title><script type="application/ld+json">{"@type": "Product",'
        b' "@context": "https://schema.org", "name": "Lamp"}</script><h1>Lamp</h1>'
    )
    options = {"formats": ["product", "menu"]}
    reply = upload(service, lamp, "my lämp.html", "text/html", options)
    data = reply.json["data"]
    assert data["product"]["url"] == data["metadata"]["url"] == "my lämp.html"
    assert data["menu"]["sourceUrl"] == "my lämp.html"


@pytest.mark.parametrize("path", FILES)
def test_every_kind_of_document_is_recognised_by_name_type_or_content(service, path):
    body, kind, expected = FILES[path]
    body = body.encode() if isinstance(body, str) else body
    reply = upload(service, body, path.strip("/"), kind)
    assert reply.status == 200
    assert expected.lower() in reply.json["data"]["markdown"].lower()


def test_a_pdf_is_parsed_with_its_options(service):
    pages = pdf([[(72, 700, 12, "the first page")], [(72, 700, 12, "the second")]])
    for parsers, count in (([{"type": "pdf", "maxPages": 1}], 1), (["pdf"], 2)):
        reply = upload(service, pages, "a.pdf", options={"parsers": parsers})
        metadata = reply.json["data"]["metadata"]
        assert (metadata["numPages"], metadata["totalPages"]) == (count, 2)
        assert metadata["creditsUsed"] == count
    reply = upload(service, pages, "a.pdf", options={"parsers": []})
    assert reply.json["data"]["markdown"].startswith("JVBERi")


def test_a_file_leads_nowhere(service):
    with ScriptedSite({"/": HTML.decode()}) as site:
        target = site.url("/")
        page = f'<meta http-equiv="refresh" content="0;url={target}"><p>text</p>'
        reply = upload(service, page.encode() + f'<img src="{target}">'.encode())
        assert "text" in reply.json["data"]["markdown"]
        assert site.paths() == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"actions": [{"type": "wait", "milliseconds": 1}]}, "actions"),
        ({"waitFor": 100}, "waitFor cannot be used"),
        ({"location": {"country": "DE"}}, "location"),
        ({"mobile": True}, "mobile"),
        ({"proxy": "stealth"}, "proxy 'stealth' cannot"),
        ({"session": "shop"}, "session"),
        *(
            ({"formats": ["markdown", name]}, name)
            for name in ("changeTracking", "screenshot", "branding", "audio", "video")
        ),
    ],
)
def test_options_that_do_not_apply_to_files_are_refused(service, options, named):
    reply = upload(service, HTML, options=options)
    assert reply.status == 400
    assert reply.json["code"] == "PARSE_UNSUPPORTED_OPTIONS"
    assert named in reply.json["error"]


@pytest.mark.parametrize("proxy", ["auto", "basic"])
def test_default_fields_that_clients_send_are_accepted(service, proxy):
    options = {"proxy": proxy, "mobile": False, "maxAge": 5, "waitFor": 0}
    assert upload(service, HTML, options=options).status == 200


@pytest.mark.full(keep=3)
@pytest.mark.parametrize(
    ("parts", "path", "text"),
    [
        ([], "file", "no file"),
        ([("file", "a.html", "", b"")], "file", "is empty"),
        ([("file", None, "", HTML)], "file", "has no name"),
        ([("file", "a" * 256, "", HTML)], "file", "at most 255"),
        ([("file", "a.html", "", HTML)] * 2, "file", "more than one"),
        ([("files", "a.html", "", HTML)], "files", "the parts"),
        (
            [("file", "a.html", "", HTML), ("options", None, "", b'{"url": "x"}')],
            None,
            "Unrecognized key",
        ),
        (
            [("file", "a.html", "", HTML), ("options", None, "", b'{"timeout": "x"}')],
            "timeout",
            "type integer",
        ),
    ],
)
def test_a_malformed_form_is_refused_with_the_reason(service, parts, path, text):
    headers, raw = form(*parts)
    reply = service.request("POST", "/v2/parse", headers=headers, raw=raw)
    assert reply.status == 400
    assert reply.json["code"] == "BAD_REQUEST"
    issue = reply.json["details"][0]
    assert issue["path"][:1] == ([] if path is None else [path])
    assert text in issue["message"]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (b"a" * 300 + b".html", ["file name", "255 characters", "got 305", "aaaa"]),
        (b"a" * 5000 + b".html", ["file name", "255 characters", "got 5005", "aaaa"]),
        (b"a" * 40_000 + b".html", ["file name", "255 characters"]),
        (b"caf\xe9.html", ["file name", "must be UTF-8", r"caf\xe9.html"]),
        (b"\xed\xa0\x80.html", ["file name", "must be UTF-8", r"\xed\xa0\x80"]),
    ],
    ids=["long", "longer", "longest", "latin-1", "surrogate"],
)
def test_a_file_name_that_is_refused_is_named(service, name, texts):
    headers, raw = form(("file", "NAME", "", HTML))
    raw = raw.replace(b"NAME", name)
    reply = service.request("POST", "/v2/parse", headers=headers, raw=raw)
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")
    issue = reply.json["details"][0]
    assert issue["path"] == ["file"]
    assert [text for text in texts if text not in issue["message"]] == []
    assert "Error" not in issue["message"]
    assert "byte 0x" not in issue["message"]


def test_the_name_of_a_part_that_is_refused_is_named(service):
    headers, raw = form(("file", "a.html", "", HTML))
    raw = raw.replace(b'name="file"', b'name="fil\xe9"')
    reply = service.request("POST", "/v2/parse", headers=headers, raw=raw)
    assert reply.status == 400
    [issue] = reply.json["details"]
    assert issue["message"] == r"the name of a part must be UTF-8, got 'fil\xe9'"


@pytest.mark.parametrize(
    "name", ["t\u00e9l\u00e9.html", "\u6f6e.html", "\U0001f30a.html"]
)
def test_a_file_name_may_be_of_any_script(service, name):
    data = upload(service, HTML, name, options={"formats": ["markdown"]}).json["data"]
    assert data["metadata"]["sourceURL"] == name


def test_a_boundary_may_be_of_any_bytes(service):
    headers, raw = form(("file", "a.html", "", HTML), boundary="x-\u00e9-z")
    raw = raw.replace("\u00e9".encode(), "\u00e9".encode("latin-1"))
    headers["Content-Type"] = headers["Content-Type"].replace(
        "x-\u00e9-z", '"x-\u00e9-z"'
    )
    reply = service.request("POST", "/v2/parse", headers=headers, raw=raw)
    assert reply.status == 200


def test_broken_bodies_are_refused(service):
    headers, raw = form(("file", "a.html", "text/html", HTML))
    cases = [
        ({"Content-Type": "application/json"}, b'{"url": "x"}'),
        ({"Content-Type": "multipart/form-data"}, raw),
        (headers, raw[:-20]),
        (headers, b"nothing of a form"),
    ]
    for sent, body in cases:
        reply = service.request("POST", "/v2/parse", headers=sent, raw=body)
        assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST")
    headers, raw = form(("file", "a.html", "", HTML), ("options", None, "", b"{"))
    reply = service.request("POST", "/v2/parse", headers=headers, raw=raw)
    assert (reply.status, reply.json["code"]) == (400, "BAD_REQUEST_INVALID_JSON")
    assert "in the part `options`" in json.dumps(reply.json)


def test_a_file_of_no_known_kind_is_refused(service):
    for name, content in (("a.bin", os.urandom(2000)), ("a.doc", b"\x7fELF" * 20)):
        reply = upload(service, content, name)
        assert (reply.status, reply.json["code"]) == (400, "UNSUPPORTED_FILE_TYPE")


def test_a_file_up_to_the_size_limit_is_accepted(service):
    page = HTML + b"<!--" + b"x" * (40 * 2**20) + b"-->"
    reply = upload(service, page)
    assert reply.json["data"]["markdown"].startswith("# Tides")
    headers, raw = form(("file", "a.txt", "", b"x" * (MAX_FILE_BYTES + 1)))
    reply = service.request("POST", "/v2/parse", headers=headers, raw=raw)
    assert reply.status == 400
    assert f"at most {MAX_FILE_BYTES} bytes" in reply.json["details"][0]["message"]
    # All other bodies keep to theirs.
    headers, raw = form(("file", "a.txt", "", b"x" * (11 * 2**20)))
    reply = service.request("POST", "/v2/scrape", headers=headers, raw=raw)
    assert reply.status == 400


def test_the_api_key_is_checked_before_the_file(service):
    reply = upload(service, b"", key=None)
    assert reply.status == 401


def test_formats_are_listed_as_clients_read_them(service):
    client = Firecrawl(api_key=KEY, api_url=service.url)
    found = {each.format: each for each in client.get_parse_formats()}
    assert found["pdf"].available
    assert found["docx"].extensions[0] == "docx"
    assert found["doc"].available == KINDS["doc"].is_available
    assert "encrypted" not in found
    assert found["png"].kind == "image"
    assert "application/epub+zip" in found["epub"].mime_types


def test_unmodified_clients_parse(service, tmp_path):
    path = tmp_path / "tides.html"
    path.write_bytes(HTML)
    client = Firecrawl(api_key=KEY, api_url=service.url)
    document = client.parse(str(path))
    assert document.markdown.startswith("# Tides")
    assert document.metadata.source_url == "tides.html"

    async def parse():
        client = AsyncFirecrawl(api_key=KEY, api_url=service.url)
        return await client.parse(HTML, filename="b.html")

    assert asyncio.run(parse()).markdown.startswith("# Tides")


def test_an_uploaded_empty_shell_gets_a_warning_that_scripts_are_not_run(service):
    shell = b"<title>App</title><div id=root></div><script src=app.js></script>"
    page = upload(service, shell).json["data"]
    assert page["metadata"]["verdict"] == "empty_shell"
    assert "no script of an uploaded file is run" in page["warning"]


def test_text_in_pictures_needs_a_program(service, tmp_path, start_service):
    picture = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
    reply = upload(service, picture, "a.png")
    assert (
        'image/png, which is not supported: parsers: ["image"]' in reply.json["error"]
    )
    reply = upload(service, picture, "a.png", options={"formats": ["rawBase64"]})
    assert base64.b64decode(reply.json["data"]["rawBase64"]) == picture
    # A stand-in for the program: what it prints is the text.
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$1" = stdin ] && echo "on the sign"\ntrue\n')
    program.chmod(0o755)
    with_program = start_service(PATH=f"{program.parent}:{os.environ['PATH']}")
    reply = upload(with_program, picture, "a.png", options={"parsers": ["image"]})
    assert reply.json["data"]["markdown"] == "on the sign"
    if shutil.which("tesseract") is None:
        reply = upload(service, picture, "a.png", options={"parsers": ["image"]})
        assert "needs the program tesseract" in reply.json["error"]
