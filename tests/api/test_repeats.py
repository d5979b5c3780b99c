"""``dedupeBoilerplate``: what repeats over a site, through the API and a real site."""

from __future__ import annotations

import pytest

from tests.api.test_crawl_scope import Crawl
from tests.support.scripted_site import ScriptedSite, slow

FRAME = "<p>Subscribe to the harbour news for tides.</p>"
END = "<p>All times without warranty.</p>"
PAGES = 8
BETWEEN = 0.25  # seconds a page takes: the one before it is delivered by then


def body(number, words=None):
    own = words or f"Tide number {number} is {number * 7} high. " + " ".join(
        f"w{number}x{word}" for word in range(40)
    )
    return f"<title>Tide {number}</title>{FRAME}<h1>Tide {number}</h1><p>{own}</p>{END}"


SITE = {f"/{number}": slow(body(number), BETWEEN) for number in range(PAGES)}


@pytest.fixture
def batch(service):
    """Return a function that fetches pages one after the other, in their order."""

    def run(site, paths, running=service, **options):
        urls = [site.url(path) for path in paths]
        sent = {"urls": urls, "maxAge": 0, "maxConcurrency": 1, **options}
        reply = running.post("/v2/batch/scrape", sent)
        assert reply.status == 200, reply
        return Crawl(running, f"/v2/batch/scrape/{reply.json['id']}").documents

    return run


def has_frame(document):
    text = document["markdown"]
    found = [part in text for part in ("Subscribe to", "without warranty")]
    assert len(set(found)) == 1, text
    return found[0]


def test_text_that_repeats_is_dropped_from_pages_still_to_come(batch):
    with ScriptedSite(SITE) as site:
        done = batch(site, SITE, dedupeBoilerplate=True)
    framed = [has_frame(page) for page in done]
    # A page may be looked at before the one in front of it is delivered.
    assert framed in ([True] * kept + [False] * (PAGES - kept) for kept in (4, 5, 6))
    for number, page in enumerate(done):
        assert page["markdown"].startswith(("Subscribe", f"# Tide {number}"))
        assert f"Tide number {number} is" in page["markdown"]
        assert "duplicateOf" not in page["metadata"]


def test_boilerplate_stays_without_the_option(batch):
    with ScriptedSite(SITE) as site:
        done = batch(site, SITE)
    assert all(has_frame(page) for page in done)


def test_a_page_of_boilerplate_alone_stays_whole(batch):
    pages = {**SITE, "/frame": FRAME + END}
    with ScriptedSite(pages) as site:
        done = batch(site, pages, dedupeBoilerplate=True)
    assert has_frame(done[-1])


def test_near_duplicate_pages_name_the_first_page(batch):
    words = " ".join(f"word{number}" for number in range(400))
    pages = {
        "/a": body(1, words),
        "/b": slow(body(2), 2 * BETWEEN),
        "/c": body(1, words) + "<p>x",
        "/d": body(1, words),
        "/short1": "<p>A few words.",
        "/short2": slow("<p>A few words.", 2 * BETWEEN),
    }
    with ScriptedSite(pages) as site:
        done = batch(site, pages, dedupeBoilerplate=True)
        first = site.url("/a")
    found = [page["metadata"].get("duplicateOf") for page in done]
    assert found == [None, None, first, first, None, None]


def test_a_crawl_does_the_same(service):
    links = "".join(f"<a href=/{number}>t</a> " for number in range(PAGES))
    with ScriptedSite({**SITE, "/": f"<h1>Home</h1><p>{links}"}) as site:
        sent = {"url": site.url("/"), "dedupeBoilerplate": True, "maxConcurrency": 1}
        sent["scrapeOptions"] = {"maxAge": 0}
        reply = service.post("/v2/crawl", sent)
        done = Crawl(service, f"/v2/crawl/{reply.json['id']}").documents
    assert sum(has_frame(page) for page in done[1:]) < PAGES


@pytest.mark.parametrize("path", ["/v2/crawl", "/v2/batch/scrape"])
def test_the_option_is_a_boolean(service, path):
    sent = {"url": "https://x.example", "urls": ["https://x.example"]}
    sent.pop("urls" if path.endswith("crawl") else "url")
    reply = service.post(path, {**sent, "dedupeBoilerplate": "yes"})
    assert reply.status == 400
    assert "dedupeBoilerplate" in str(reply.json)
