"""Pages whose text is that of the document that they embed."""

from __future__ import annotations

import itertools

import pytest

from tests.content.pdfmaker import pdf
from tests.support.scripted_site import ScriptedSite, answer, page, text
from tests.support.waiting import wait_until

_numbers = itertools.count()
LOCKS = "The locks of the river are listed here with the boats of each day."


@pytest.fixture(scope="module")
def web():
    with ScriptedSite({}) as site:
        yield site


@pytest.fixture
def spot(web):
    """A part of the site of its own, with a PDF file and a page about it."""
    found = f"/{next(_numbers)}"
    web.put(f"{found}/locks.pdf", a_pdf())
    put(web, found, "<embed src=locks.pdf>")
    return found


def a_pdf(body=LOCKS, **headers):
    return answer(
        pdf([[(72, 700, 12, body)]], title="Locks"),
        Content_Type="application/pdf",
        **headers,
    )


def put(web, spot, body, head="<title>Boats</title>", **headers):
    web.put(
        f"{spot}/", answer(f"<html><head>{head}</head><body>{body}</body>", **headers)
    )


def scraped(service, web, spot, version="v2", **options):
    body = {"url": web.url(f"{spot}/"), "maxAge": 0, **options}
    reply = service.post(f"/{version}/scrape", body)
    assert reply.status == 200, reply.json
    return reply.json["data"]


def loss_of(found):
    rows = found["metadata"].get("losses", [])
    return next((row for row in rows if row["kind"] == "embeddedDocument"), None)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_page_that_only_embeds_a_pdf_has_its_text(service, web, spot, version):
    found = scraped(
        service, web, spot, version, formats=["markdown", "links", "rawHtml"]
    )
    facts = found["metadata"]
    assert LOCKS in found["markdown"]
    assert facts["embeddedUrl"] == web.url(f"{spot}/locks.pdf")
    assert facts["url"] == web.url(f"{spot}/")
    assert facts["title"] == "Boats"
    assert facts["verdict"] == "ok"
    assert facts["creditsUsed"] == 1
    assert facts["numPages"] == 1
    assert found["links"] == [web.url(f"{spot}/locks.pdf")]
    assert "<embed" in found["rawHtml"]
    assert loss_of(found) is None
    assert "warning" not in found


BODIES = {
    "object": "<object data=locks.pdf>Your browser shows no PDF files, install a reader.</object>",
    "iframe": "<iframe src=locks.pdf></iframe>",
    "viewer": "<iframe src='/web/viewer.html?file={spot}/locks.pdf'></iframe>",
    "Google": "<iframe src='https://docs.google.com/viewer?url={site}{spot}/locks.pdf'></iframe>",
    "a menu frame": "<iframe src=menu.html></iframe><iframe src=locks.pdf></iframe>",
}


@pytest.mark.parametrize("name", BODIES)
def test_each_way_to_embed_a_pdf_is_read(service, web, spot, name):
    body = BODIES[name].replace("{spot}", spot).replace("{site}", web.url(""))
    put(web, spot, body)
    found = scraped(service, web, spot)
    assert found["markdown"].endswith(LOCKS)
    assert found["metadata"]["embeddedUrl"] == web.url(f"{spot}/locks.pdf")


def test_the_few_words_of_the_page_stand_before_the_document(service, web, spot):
    put(web, spot, "<h1>Boats and locks</h1><embed src=locks.pdf>")
    found = scraped(service, web, spot, formats=["markdown", "images"])
    assert found["markdown"].startswith("# Boats and locks\n\n")
    assert found["markdown"].endswith(LOCKS)
    assert found["images"] == []


def test_a_frame_of_the_same_site_is_read(service, web, spot):
    web.put(f"{spot}/inner.html", page(text=LOCKS, title="Inner"))
    put(web, spot, "<iframe src=inner.html></iframe>", head="")
    found = scraped(service, web, spot, formats=["markdown", "html"])
    assert LOCKS in found["markdown"]
    assert LOCKS in found["html"]
    assert found["metadata"]["title"] == "Inner"
    assert "numPages" not in found["metadata"]


def test_a_document_of_another_site_is_not_fetched(service, web, spot):
    with ScriptedSite({"/locks.pdf": a_pdf()}, host="127.0.0.3") as other:
        put(web, spot, f"<embed src='{other.url('/locks.pdf')}'>")
        found = scraped(service, web, spot)
        assert other.paths() == []
    assert found["metadata"]["verdict"] == "empty_shell"
    assert "embeddedUrl" not in found["metadata"]
    assert loss_of(found)["urls"] == [other.url("/locks.pdf")]


def test_an_empty_page_with_two_embedded_documents_reads_neither(service, web, spot):
    put(web, spot, "<embed src=locks.pdf><embed src=more.pdf>")
    found = scraped(service, web, spot)
    assert found["metadata"]["verdict"] == "empty_shell"
    assert loss_of(found)["count"] == 2
    assert web.paths().count(f"{spot}/locks.pdf") == 0


def test_a_document_on_a_page_with_text_is_not_fetched(service, web, spot):
    put(
        web,
        spot,
        f"<p>{'Each boat has a name of its own. ' * 20}</p><embed src=locks.pdf>",
    )
    found = scraped(service, web, spot)
    assert found["metadata"]["verdict"] == "ok"
    assert loss_of(found)["urls"] == [web.url(f"{spot}/locks.pdf")]
    assert web.paths().count(f"{spot}/locks.pdf") == 0


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (answer("gone", 404), "The site answered 404."),
        (answer(b"PK\x03\x04 no", Content_Type="application/zip"), "not supported"),
        (answer(b"", Content_Type="application/pdf"), "could not be read"),
        (answer("<p>Please sign in</p><input type=password>"), "password"),
    ],
)
def test_a_document_that_cannot_be_read_is_a_loss(service, web, spot, found, reason):
    web.put(f"{spot}/locks.pdf", found)
    result = scraped(service, web, spot)
    facts = result["metadata"]
    assert facts["verdict"] == "empty_shell"
    assert "embeddedUrl" not in facts
    assert loss_of(result)["urls"] == [web.url(f"{spot}/locks.pdf")]
    assert loss_of(result)["count"] == 1
    assert reason in loss_of(result)["reason"]
    assert result["warning"]
    assert facts["creditsUsed"] == 1


# -- jobs --------------------------------------------------------------------------------


def crawl(service, web, spot, **options):
    body = {"url": web.url(f"{spot}/"), "sitemap": "skip", **options}
    reply = service.post("/v2/crawl", body)
    assert reply.status == 200, reply.json
    return over(service, f"/v2/crawl/{reply.json['id']}")


def over(service, path):
    def ended():
        found = service.get(path).json
        is_over = found["status"] not in {"scraping", "queued"}
        return is_over and {**found, "id": path.rpartition("/")[2]}

    return wait_until(ended)


def by_name(found, key="sourceURL"):
    return {x["metadata"][key].rpartition("/")[2]: x for x in found["data"]}


def test_a_crawl_delivers_the_page_and_its_document_once_each(service, web, spot):
    put(web, spot, "<embed src=locks.pdf>")
    found = crawl(service, web, spot, maxConcurrency=1)
    assert found["total"] == found["completed"] == 2
    assert len(found["data"]) == 2
    pages = by_name(found)
    assert LOCKS in pages[""]["markdown"]
    assert LOCKS in pages["locks.pdf"]["markdown"]
    assert pages[""]["metadata"]["url"] == web.url(f"{spot}/")
    assert found["creditsUsed"] == 2


def test_a_crawl_obeys_the_robots_txt_for_the_document(service):
    rules = text("User-agent: *\nDisallow: /locks.pdf")
    body = "<body><embed src=/locks.pdf></body>"
    pages = {"/robots.txt": rules, "/": answer(body), "/locks.pdf": a_pdf()}
    with ScriptedSite(pages) as site:
        found = crawl(service, site, "")
        assert site.paths().count("/locks.pdf") == 0
    (only,) = found["data"]
    assert "robots.txt refuses it" in loss_of(only)["reason"]
    assert only["metadata"]["verdict"] == "empty_shell"


def test_a_change_of_the_document_is_a_change_of_the_page(service, web, spot):
    put(web, spot, "<embed src=locks.pdf>", ETag='"page"')
    web.put(f"{spot}/locks.pdf", a_pdf(ETag='"one"'))
    first = crawl(service, web, spot)
    assert first["completed"] == 2
    same = crawl(service, web, spot, since=first["id"])
    assert same["data"] == []
    web.put(f"{spot}/locks.pdf", a_pdf("Other boats came today.", ETag='"two"'))
    second = crawl(service, web, spot, since=first["id"])
    changed = by_name(second)
    assert {x["metadata"]["changeStatus"] for x in changed.values()} == {"changed"}
    assert sorted(changed) == ["", "locks.pdf"]
    assert "Other boats" in changed[""]["markdown"]


def test_a_reprocessed_page_has_the_text_of_its_document(service, web, spot):
    first = crawl(service, web, spot, keepSources=True)
    reply = service.post(
        f"/v2/crawl/{first['id']}/reprocess", {"formats": ["markdown"]}
    )
    assert reply.status == 200, reply.json
    again = over(service, f"/v2/batch/scrape/{reply.json['id']}")
    assert all(LOCKS in each["markdown"] for each in again["data"])
    assert len(again["data"]) == 2


def test_a_document_comes_from_the_cache_with_its_page(service, web, spot):
    scraped(service, web, spot)
    before = len(web.paths())
    again = scraped(service, web, spot, maxAge=600_000)
    assert LOCKS in again["markdown"]
    assert again["metadata"]["cacheState"] == "hit"
    assert len(web.paths()) == before


def test_change_tracking_compares_the_text_of_the_document(service, web, spot):
    formats = ["markdown", "changeTracking"]
    scraped(service, web, spot, formats=formats)
    web.put(f"{spot}/locks.pdf", a_pdf("Other boats came today."))
    found = scraped(service, web, spot, formats=formats)
    assert found["changeTracking"]["changeStatus"] == "changed"
