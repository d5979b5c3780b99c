"""``maxTokens``: Markdown in parts, from scrapes, jobs and stored pages."""

from __future__ import annotations

import pytest

from scraper_service.content.formats.summary_and_tokens import count_tokens
from tests.api.test_crawl_scope import Crawl
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until

SIZE = 100
LONG = "".join(
    f"<h2>Section {number}</h2><p>{f'Word{number} is here. ' * 12}"
    for number in range(9)
)
SITE = {
    "/long": f"<title>Long</title><h1>Long</h1>{LONG}",
    "/short": page(text="A short page."),
    "/": page("/long", "/short"),
}


@pytest.fixture(scope="module")
def web():
    with ScriptedSite(SITE) as found:
        yield found


def scrape(service, url, version="v2", **options):
    sent = {"url": url, "maxAge": 0, "onlyMainContent": False, **options}
    reply = service.post(f"/{version}/scrape", sent)
    assert reply.status == 200, reply
    return reply.json["data"]


def stored(service, scrape_id, query=""):
    wait_until(lambda: service.get(f"/v2/scrape/{scrape_id}").status == 200)
    reply = service.get(f"/v2/scrape/{scrape_id}{query}")
    assert reply.status == 200, reply
    return reply.json["data"]


def bare(text):
    return "".join(text.split())


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_scrape_returns_one_part_and_further_parts_come_from_the_store(
    service, web, version
):
    whole = scrape(service, web.url("/long"), version)
    found = scrape(service, web.url("/long"), version, maxTokens=SIZE)
    chunk = found["metadata"]["chunk"]
    assert whole["metadata"]["tokenCount"] == count_tokens(whole["markdown"])
    assert found["metadata"]["tokenCount"] == whole["metadata"]["tokenCount"]
    assert "chunk" not in whole["metadata"]
    assert chunk["page"] == 1
    assert chunk["nextPage"] == 2
    assert chunk["tokenCount"] == count_tokens(found["markdown"]) <= SIZE

    requests = len(web.log())
    texts = [found["markdown"]]
    while (number := chunk.get("nextPage")) is not None:
        query = f"?maxTokens={SIZE}&page={number}"
        part = stored(service, found["metadata"]["scrapeId"], query)
        chunk = part["metadata"]["chunk"]
        assert chunk["page"] == number
        assert count_tokens(part["markdown"]) == chunk["tokenCount"] <= SIZE
        texts.append(part["markdown"])
    assert len(texts) == chunk["pageCount"] > 3
    assert bare("".join(texts)) == bare(whole["markdown"])
    assert len(web.log()) == requests
    assert (
        stored(service, found["metadata"]["scrapeId"])["markdown"] == whole["markdown"]
    )


def test_a_page_of_a_scrape_is_chosen_by_its_number(service, web):
    first = scrape(service, web.url("/long"), maxTokens=SIZE)
    second = scrape(service, web.url("/long"), maxTokens=SIZE, page=2)
    assert second["metadata"]["chunk"]["page"] == 2
    assert second["markdown"] != first["markdown"]


def test_a_part_beyond_the_last_is_empty_with_a_warning(service, web):
    found = scrape(service, web.url("/short"), maxTokens=SIZE, page=7)
    assert found["markdown"] == ""
    assert found["metadata"]["chunk"]["page"] == 7
    assert "no part 7" in found["warning"]
    again = stored(service, found["metadata"]["scrapeId"], "?maxTokens=100&page=3")
    assert again["markdown"] == ""
    assert "no part 3" in again["warning"]


def test_other_formats_see_the_whole_text(service, web):
    formats = ["markdown", "html", "summary", "links"]
    whole = scrape(service, web.url("/long"), formats=formats)
    found = scrape(service, web.url("/long"), formats=formats, maxTokens=SIZE)
    for name in ("html", "summary", "links"):
        assert found[name] == whole[name]


@pytest.mark.parametrize("dedupe", [False, True])
def test_a_crawl_delivers_first_parts_and_keeps_the_pages_whole(service, web, dedupe):
    sent = {"url": web.url("/"), "dedupeBoilerplate": dedupe}
    sent["scrapeOptions"] = {"maxTokens": SIZE, "onlyMainContent": False, "maxAge": 0}
    reply = service.post("/v2/crawl", sent)
    found = Crawl(service, f"/v2/crawl/{reply.json['id']}")
    assert len(found.documents) == 3
    for document in found.documents:
        facts = document["metadata"]
        assert (
            count_tokens(document["markdown"]) == facts["chunk"]["tokenCount"] <= SIZE
        )
        whole = stored(service, facts["scrapeId"])
        assert count_tokens(whole["markdown"]) == facts["tokenCount"]
        assert "chunk" not in whole["metadata"]
        assert whole["markdown"].startswith(document["markdown"][:20])


def test_a_status_ends_before_its_pages_have_too_many_tokens(service, web):
    sent = {"urls": [web.url("/short"), web.url("/long"), web.url("/short?2")]}
    sent |= {"maxAge": 0, "onlyMainContent": False}
    reply = service.post("/v2/batch/scrape", sent)
    path = f"/v2/batch/scrape/{reply.json['id']}"
    whole = Crawl(service, path).documents
    target, found, parts = f"{path}?maxTokens={SIZE}", [], 0
    while target:
        status = service.get(target)
        assert status.status == 200, status
        pages = status.json["data"]
        assert sum(count_tokens(page["markdown"]) for page in pages) <= SIZE
        assert pages
        found += pages
        parts += 1
        target = status.json.get("next", "").removeprefix(service.url)
    key = lambda page: page["metadata"]["scrapeId"]  # noqa: E731
    assert list(map(key, found)) == list(map(key, whole))
    assert parts > 1
    assert [p["metadata"]["tokenCount"] for p in found] == [
        p["metadata"]["tokenCount"] for p in whole
    ]


@pytest.mark.parametrize(
    ("path", "options", "named"),
    [
        ("/v2/scrape", {"maxTokens": 99}, "maxTokens"),
        ("/v2/scrape", {"maxTokens": "many"}, "maxTokens"),
        ("/v2/scrape", {"page": 2}, "maxTokens"),
        ("/v2/scrape", {"page": 0, "maxTokens": 100}, "page"),
        ("/v2/scrape", {"formats": ["links"], "maxTokens": 100}, "markdown"),
        ("/v1/scrape", {"page": 2}, "maxTokens"),
        ("/v2/crawl", {"scrapeOptions": {"maxTokens": 100, "page": 1}}, "page"),
        ("/v2/crawl", {"page": 1}, "page"),
        ("/v2/batch/scrape", {"maxTokens": 100, "page": 1}, "page"),
    ],
)
def test_bad_values_are_refused_by_name(service, path, options, named):
    sent = {"url": "https://x.example/", **options}
    if path.endswith("batch/scrape"):
        sent["urls"] = [sent.pop("url")]
    reply = service.post(path, sent)
    assert reply.status == 400
    assert named in str(reply.json)


@pytest.mark.parametrize(
    "query", ["?maxTokens=99", "?maxTokens=x", "?page=2", "?page=0"]
)
def test_a_bad_query_is_refused(service, web, query):
    scrape_id = scrape(service, web.url("/short"))["metadata"]["scrapeId"]
    reply = service.get(f"/v2/scrape/{scrape_id}{query}")
    assert reply.status == 400
    assert query[1:].partition("=")[0] in reply.json["error"]
