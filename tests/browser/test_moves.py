"""Where scripts move a page to: asked for as any other redirect would be."""

from __future__ import annotations

import pytest

from tests.browser.conftest import finished
from tests.support.scripted_site import ScriptedSite, moved, page, text

ROBOTS = text("User-agent: *\nDisallow: /private\n")


def script(url):
    return f"<title>Moving</title><p>moving</p><script>location.href = '{url}'</script>"


@pytest.fixture(scope="module")
def far():
    """Another site, which refuses some of its pages."""
    pages = {
        "/robots.txt": ROBOTS,
        "/open": page(title="Open"),
        "/private/x": page(title="Private"),
    }
    with ScriptedSite(pages, "127.0.0.3") as site:
        yield site


WAYS = {
    "script": script,
    "meta": lambda url: (
        f'<meta http-equiv="refresh" content="0; url={url}"><p>moving</p>'
    ),
    "http": lambda url: moved(url, 302),
    "form": lambda url: (
        f"<form id=f action='{url}' method=post></form><script>f.submit()</script>"
    ),
}


def crawl(service, site, **options):
    """Return the titles of all pages of a crawl of a site, and its errors."""
    body = {
        "url": site.url("/"),
        "sitemap": "skip",
        "allowExternalLinks": True,
        "scrapeOptions": {"waitFor": 1, "maxAge": 0, **options},
    }
    reply = service.post("/v2/crawl", body)
    pages = finished(service, reply)
    path = "/" + reply.json["url"].split("/", 3)[3]
    titles = sorted(page["metadata"].get("title", "") for page in pages)
    return titles, service.get(f"{path}/errors").json


@pytest.mark.full
@pytest.mark.slow_on("meta", "form")
@pytest.mark.parametrize("way", WAYS)
def test_robots_txt_counts_where_a_page_moves_to(service, way):
    pages = {
        "/robots.txt": ROBOTS,
        "/": page("/to-private", "/to-open", title="Home"),
        "/to-private": WAYS[way]("/private/x"),
        "/to-open": WAYS[way]("/open"),
        "/open": page(title="Open"),
        "/private/x": page(title="Private"),
    }
    with ScriptedSite(pages) as site:
        titles, errors = crawl(service, site)
        # A form is posted, which this site does not answer.
        assert titles == (
            ["Error response", "Home"] if way == "form" else ["Home", "Open"]
        )
        assert errors["robotsBlocked"] == [site.url("/to-private")]
        assert "/private/x" not in site.paths()


@pytest.mark.slow_on("http")
@pytest.mark.parametrize("way", ["script", "http"])
def test_robots_txt_of_another_site_is_read_before_a_navigation(service, far, way):
    pages = {
        "/": page("/to-private", "/to-open", title="Home"),
        "/to-private": WAYS[way](far.url("/private/x")),
        "/to-open": WAYS[way](far.url("/open")),
    }
    with ScriptedSite(pages) as site:
        titles, errors = crawl(service, site)
        assert titles == ["Home", "Open"]
        assert errors["robotsBlocked"] == [site.url("/to-private")]
    assert "/private/x" not in far.paths()
    assert "/robots.txt" in far.paths()


def test_navigations_of_a_single_scrape_ignore_robots_txt(service):
    pages = {
        "/robots.txt": ROBOTS,
        "/": script("/private/x"),
        "/private/x": page(title="Private"),
    }
    with ScriptedSite(pages) as site:
        body = {"url": site.url("/"), "waitFor": 1, "maxAge": 0}
        found = service.post("/v2/scrape", body).json["data"]
        assert found["metadata"]["title"] == "Private"
        assert "/robots.txt" not in site.paths()


def test_a_click_action_obeys_robots_txt(service, far):
    pages = {"/": page(far.url("/private/x"), title="Home")}
    with ScriptedSite(pages) as site:
        click = {"type": "click", "selector": "a"}
        titles, errors = crawl(service, site, actions=[click])
        assert titles == []
        assert errors["robotsBlocked"] == [site.url("/")]


def test_cookies_go_along_to_another_site_and_back(service, app):
    body = {
        "url": app.url("/leave"),
        "limit": 1,
        "sitemap": "skip",
        "scrapeOptions": {"waitFor": 1, "maxAge": 0, "onlyMainContent": False},
    }
    [found] = finished(service, service.post("/v2/crawl", body))
    assert found["metadata"]["url"] == app.url("/echo")
    assert "left=1" in found["markdown"]


def test_a_page_that_navigates_to_and_fro_fails(scrape, app):
    app.paths()
    reply = scrape("/there", waitFor=1)
    assert (reply.status, reply.json["code"]) == (500, "SCRAPE_SITE_ERROR")
    assert "redirects too often" in reply.json["error"]
    assert len(app.paths()) == 11  # the page and ten moves
