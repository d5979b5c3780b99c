"""Maps seen from outside: sources, order, options, failures, and callers who leave."""

from __future__ import annotations

import itertools
import json
import re
import socket
import urllib.parse
from pathlib import Path

import pytest

from tests.conftest import KEY, Service
from tests.support.scripted_site import ScriptedSite, answer, moved, page, sitemap, text
from tests.support.waiting import WAIT_S, wait_until

ABOUT = '<meta name="description" content="What we do">'
SITE = {
    "/": page("/linked", "/docs/b", "https://other.example/", title="Home", head=ABOUT),
    "/docs/": page("/docs/linked", "/linked", title="Docs"),
    "/robots.txt": text("Sitemap: {site}/maps/index.xml\n"),
    "/maps/index.xml": sitemap("{site}/maps/b.xml", "{site}/maps/a.xml", index=True),
    "/maps/a.xml": sitemap("{site}/docs/a", "{site}/docs/b?page=2", "{site}/A%41/"),
    "/maps/b.xml": sitemap("{site}/pricing", "{site}/file.zip", "{site}/docs/b/"),
    "/sitemap.xml": sitemap("{site}/last", "http://other.example/page", "{site}/"),
}
LISTED = "/pricing /file.zip /docs/b /docs/a /A%41 /last".split()


@pytest.fixture(scope="module")
def small():
    with ScriptedSite(SITE) as site:
        yield site


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A service with two teams, two hosts to fetch from, and few maps at a time."""
    running = Service(
        tmp_path_factory.mktemp("own"),
        SCRAPER_API_KEYS=f"{KEY},two",
        SCRAPER_EGRESS_ALLOW="127.0.0.2/31",  # .2 and .3
        SCRAPER_MAX_RUNNING_MAPS="2",
        SCRAPER_MAX_PENDING_MAPS="3",
    )
    yield running
    assert running.stop() == 0


@pytest.fixture
def find(service):
    """Return a function: the paths of a map, in their order."""

    def call(site, path="/", *, version="v2", **options):
        body = {"url": site.url(path), **options}
        reply = service.post(f"/{version}/map", body)
        assert reply.status == 200, reply
        assert reply.json["success"] is True
        links = reply.json["links"]
        urls = [link["url"] for link in links] if version == "v2" else links
        return [url.removeprefix(site.address) for url in urls]

    return call


def test_the_start_comes_first_then_sitemaps_then_links(find, small):
    assert find(small) == ["", *LISTED, "/linked"]
    assert find(small, version="v1") == ["", *LISTED, "/linked"]


def test_v2_returns_title_and_description_of_a_url(service, small):
    links = service.post("/v2/map", {"url": small.url("/")}).json["links"]
    start = {"url": small.address, "title": "Home", "description": "What we do"}
    assert links[0] == start
    assert all(set(link) == {"url"} for link in links[1:])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sitemap": "only"}, [*LISTED, ""]),
        ({"sitemap": "skip"}, ["", "/linked", "/docs/b"]),
        ({"limit": 3}, ["", "/pricing", "/file.zip"]),
        ({"limit": 2, "sitemap": "only"}, ["/pricing", "/file.zip"]),
        ({"search": "Pricing"}, ["/pricing", "", *LISTED[1:], "/linked"]),
        ({"search": "a docs", "limit": 2}, ["/docs/a", "/docs/b"]),
        ({"search": "what WE do", "limit": 1}, [""]),
        ({"search": "nothing of the kind", "limit": 2}, ["", "/pricing"]),
        ({"includePaths": ["^/docs/"]}, ["", "/docs/b", "/docs/a"]),
        (
            {"excludePaths": ["docs", "A"]},
            ["", "/pricing", "/file.zip", "/last", "/linked"],
        ),
        (
            {"ignoreQueryParameters": False, "includePaths": ["/docs/b"]},
            ["", "/docs/b", "/docs/b?page=2"],
        ),
        (
            {
                "maxDiscoveryDepth": 1,
                "crawlEntireDomain": True,
                "allowExternalLinks": True,
                "allowSubdomains": False,
                "ignoreRobotsTxt": True,
                "deduplicateSimilarURLs": False,
                "delay": 1,
                "useIndex": True,
                "useMock": "x",
                "ignoreCache": True,
                "origin": "test",
                "integration": "test",
                "search": None,
            },
            ["", *LISTED, "/linked"],
        ),
    ],
    ids=str,
)
def test_v2_options(find, small, options, expected):
    assert find(small, **options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ignoreSitemap": True}, ["", "/linked", "/docs/b"]),
        ({"sitemapOnly": True, "limit": 1}, ["/pricing"]),
        ({"ignoreSitemap": False, "sitemapOnly": False, "limit": 1}, [""]),
        ({"search": "last", "limit": 1, "timeout": 30_000}, ["/last"]),
        ({"maxDepth": 1, "allowBackwardLinks": True, "limit": 1}, [""]),
    ],
    ids=str,
)
def test_v1_options(find, small, options, expected):
    assert find(small, version="v1", **options) == expected


def test_urls_outside_the_path_of_the_start_url_are_left_out(find, small):
    inside = ["/docs", "/docs/b", "/docs/a", "/docs/linked"]
    assert find(small, "/docs/") == inside
    every = find(small, "/docs/", filterByPath=False)
    assert every[0] == "/docs"
    assert set(every) == {*inside, *LISTED, "", "/linked"}


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"url": None}, ["url"]),
        ({"url": "ftp://a.example/"}, ["url"]),
        ({"url": "nonsense"}, ["url"]),
        ({"limit": 0}, ["limit"]),
        ({"limit": 100_001}, ["limit"]),
        ({"limit": "5"}, ["limit"]),
        ({"search": 5}, ["search"]),
        ({"timeout": 0}, ["timeout"]),
        ({"includeSubdomains": "yes"}, ["includeSubdomains"]),
        ({"ignoreQueryParameters": 1}, ["ignoreQueryParameters"]),
        ({"headers": {"Host": "x"}}, ["headers", "Host"]),
        ({"nonsense": 1}, []),
    ],
    ids=str,
)
def test_invalid_map_options_are_named(service, version, body, path):
    body = {"url": "http://a.example", **body}
    reply = service.post(f"/{version}/map", body)
    assert reply.status == 400
    assert reply.json["error"] == "Bad Request"
    assert reply.json["details"][0]["path"] == path


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_pattern_that_does_not_compile_is_the_error(service, version):
    body = {"url": "http://a.example", "includePaths": ["^/a", "("]}
    reply = service.post(f"/{version}/map", body)
    assert reply.status == 400
    assert reply.json["error"] == (
        "includePaths.1: not a regular expression (RE2): '(': missing ): ("
    )
    assert reply.json["details"][0]["path"] == ["includePaths", 1]


@pytest.mark.parametrize(
    ("version", "key", "value"),
    [("v1", "sitemap", "only"), ("v2", "sitemap", "no"), ("v2", "sitemapOnly", True)],
)
def test_versions_name_the_use_of_sitemaps_each_in_its_way(
    service, version, key, value
):
    body = {"url": "http://a.example", key: value}
    reply = service.post(f"/{version}/map", body)
    assert reply.status == 400
    assert key in json.dumps(reply.json["details"])


@pytest.mark.slow
def test_hosts_that_are_the_same_site(own):
    pages = {
        "/": page("http://sub.127.0.0.3/", title="Home"),
        "/robots.txt": text("Sitemap: http://127.0.0.3:1/x.xml"),
    }
    with ScriptedSite(pages) as site:
        body = {"url": site.url("/")}
        links = own.post("/v2/map", body).json["links"]
        assert [link["url"] for link in links] == [site.address]
        # A start page that moves to another host makes that one the site.
        there = {"/": page("/there"), "/sitemap.xml": sitemap("{site}/listed")}
        with (
            ScriptedSite(there, "127.0.0.3") as new,
            ScriptedSite({"/": moved(new.url("/"))}) as old,
        ):
            links = own.post("/v2/map", {"url": old.url("/")}).json["links"]
            urls = [link["url"] for link in links]
            assert urls == [new.address, new.url("/listed"), new.url("/there")]


BROKEN = {
    "/": page("/linked", title="Home"),
    "/robots.txt": text("Sitemap: {site}/a.xml\nSitemap: {site}/b.xml\n"),
    "/a.xml": answer("<urlset><url><loc>{site}/a</loc></url><ur", status=200),
    "/b.xml": text("", 500),
    "/sitemap.xml": answer(page("/visitors"), Content_Type="text/html"),
}


def test_a_broken_sitemap_costs_itself(service):
    with ScriptedSite(BROKEN) as site:
        reply = service.post("/v2/map", {"url": site.url("/")})
        paths = [link["url"].removeprefix(site.address) for link in reply.json["links"]]
        assert paths == ["", "/a", "/linked"], reply.json
        assert "/b.xml" in reply.json["warning"]
        assert "500" in reply.json["warning"]
        assert "web page" not in reply.json["warning"]
        old = service.post("/v1/map", {"url": site.url("/")}).json
        assert set(old) == {"success", "links"}
        # Each time, as the answers of v1 have no warnings.
        failed = f"The sitemap {site.url('/b.xml')} could not be read: HTTP status 500"
        assert service.stderr.count(failed) == 2


def test_every_sitemap_that_fails_causes_a_warning(service):
    pages = {
        "/": page(),
        "/robots.txt": text("Sitemap: {site}/round.xml\n"),
        "/round.xml": moved("/round.xml"),
        "/sitemap.xml": text(""),
    }
    with ScriptedSite(pages) as site:
        warning = service.post("/v2/map", {"url": site.url("/")}).json["warning"]
        lost = [site.url("/round.xml"), site.url("/sitemap.xml")]
    for url, why in zip(lost, ("redirect", "empty"), strict=True):
        told = f"The sitemap {url} could not be read: "
        assert why in warning.partition(told)[2]
        assert why in service.stderr.partition(told)[2].splitlines()[0]


def test_a_start_page_that_is_missing_leaves_the_sitemaps(find, service):
    pages = {**SITE, "/": text("gone", 404)}
    with ScriptedSite(pages) as site:
        reply = service.post("/v2/map", {"url": site.url("/"), "limit": 2})
        urls = [link["url"] for link in reply.json["links"]]
        assert urls == [site.url("/pricing"), site.url("/file.zip")]
        assert "404" in reply.json["warning"]
    with ScriptedSite({}) as site:
        reply = service.post("/v2/map", {"url": site.url("/")})
        assert reply.status == 200
        assert reply.json["links"] == []
        assert "No URL was found." in reply.json["warning"]
        assert find(site, version="v1", sitemapOnly=True) == []


def test_robots_txt_decides_about_fetching_and_not_about_listing(service):
    pages = {
        **SITE,
        "/robots.txt": text("User-agent: *\nDisallow: /\n"),
        "/sitemap.xml": sitemap("{site}/a"),
    }
    with ScriptedSite(pages) as site:
        reply = service.post("/v2/map", {"url": site.url("/")})
        urls = [link["url"] for link in reply.json["links"]]
        assert urls == [site.address, site.url("/a")]
        assert "Disallow: /" in reply.json["warning"]
        assert "/" not in site.paths()


@pytest.mark.parametrize(
    ("url", "first", "second", "code"),
    [
        ("http://nosuch.invalid/", 500, 200, "SCRAPE_DNS_RESOLUTION_ERROR"),
        ("closed", 500, 500, "SCRAPE_SITE_ERROR"),
        ("http://10.0.0.1/", 403, 403, "UNSUPPORTED_SITE"),
    ],
)
def test_a_site_that_cannot_be_reached_is_an_error(service, url, first, second, code):
    if url == "closed":
        with socket.create_server(("127.0.0.2", 0)) as closed:
            url = f"http://127.0.0.2:{closed.getsockname()[1]}/"
    for version, status in (("v1", first), ("v2", second)):
        reply = service.post(f"/{version}/map", {"url": url})
        assert reply.status == status
        assert reply.json["success"] is False
        assert reply.json["code"] == code


COUNT = 100_000
MAX_MB = 60  # more than before


def memory_mb(service):
    """Return the most memory that the service's main process ever had."""
    status = Path(f"/proc/{service.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


@pytest.mark.slow
def test_a_hundred_thousand_urls_are_ranked_in_bounded_memory(own):
    per = 10_000
    pages = {"/": page("/x"), "/robots.txt": text("Sitemap: {site}/i.xml\n")}
    names = [f"/m/{number}.xml" for number in range(COUNT // per)]
    pages["/i.xml"] = sitemap(*("{site}" + name for name in names), index=True)
    for number, name in enumerate(names):
        first = number * per
        urls = (f"{{site}}/section/a-page-{n}" for n in range(first, first + per))
        pages[name] = sitemap(*urls)
    with ScriptedSite(pages) as site:
        body = {"url": site.url("/"), "search": "page 77777"}
        small = own.post("/v2/map", {**body, "sitemap": "skip"})
        assert small.status == 200
        before = memory_mb(own)
        links = own.post("/v2/map", body).json["links"]
        assert len(links) == 5000
        assert links[0]["url"] == site.url("/section/a-page-77777")
        assert memory_mb(own) < before + MAX_MB / 2
        body = {"url": site.url("/"), "limit": COUNT}
        links = own.post("/v1/map", body).json["links"]
        assert links[:3] == [
            site.address,
            *(site.url(f"/section/a-page-{n}") for n in (0, 1)),
        ]
        assert len(set(links)) == COUNT
        assert memory_mb(own) < before + MAX_MB
        # The first places are all that the limit has room for.
        asked = len(site.paths())
        body = {"url": site.url("/"), "limit": 10}
        assert len(own.post("/v2/map", body).json["links"]) == 10
        assert len(site.paths()) - asked < len(names) + 3


def test_a_map_that_takes_too_long_is_a_408(start_service, site):
    service = start_service()  # where no crawl has found anything of the site
    for version, timeout in itertools.product(("v1", "v2"), (1000, 1)):
        body = {"url": site.held(), "timeout": timeout}
        reply = service.post(f"/{version}/map", body)
        assert reply.status == 408
        assert reply.json == {
            "success": False,
            "code": "MAP_TIMEOUT",
            "error": "Map timed out",
        }


def test_headers_of_the_caller_go_to_the_site(service, site):
    site.forget()
    body = {"url": site.url("/text"), "headers": {"X-Map": "yes"}, "sitemap": "skip"}
    assert service.post("/v2/map", body).status == 200
    [request] = [r for r in site.requests if r["path"] == "/text"]
    assert dict(request["headers"])["x-map"] == "yes"


def test_a_map_contains_urls_that_crawls_of_the_team_have_found(own):
    pages = {
        "/": page("/a"),
        "/a": page("/b", title="Prices of all sorts", head=ABOUT),
        "/b": page(title="B"),
        "/new": page(title="New"),
    }
    with ScriptedSite(pages) as site:
        body = {"url": site.url("/"), "scrapeOptions": {"maxAge": 0}}
        started = own.post("/v2/crawl", body).json
        path = f"/v2/crawl/{started['id']}"
        wait_until(lambda: own.get(path).json["status"] != "scraping")
        body = {"url": site.url("/new"), "filterByPath": False, "search": "prices"}
        links = own.post("/v2/map", body).json["links"]
        known = {"title": "Prices of all sorts", "description": "What we do"}
        assert links[0] == {"url": site.url("/a"), **known}
        assert [link["url"] for link in links[1:]] == [
            *(site.url("/new"), site.address, site.url("/b")),
        ]
        assert links[3]["title"] == "B"
        # Neither another team nor a map of sitemaps alone.
        other = own.post("/v2/map", body, key="two").json["links"]
        assert [link["url"] for link in other] == [site.url("/new")]
        body = {"url": site.url("/"), "sitemap": "only"}
        assert own.post("/v2/map", body).json["links"] == []


def leave(service, body):
    """Send a map on a connection of its own; return it without reading."""
    parts = urllib.parse.urlsplit(service.url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=WAIT_S)
    data = json.dumps(body).encode()
    connection.sendall(
        b"POST /v2/map HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (service.key.encode(), len(data), data)
    )
    return connection


def test_maps_end_when_clients_disconnect_and_few_run_at_a_time(own, site):
    site.forget()
    body = {"url": site.held(), "sitemap": "skip", "timeout": 300_000}

    def delayed():
        return [r for r in site.requests if r["path"].startswith("/held")]

    connections = [leave(own, body) for _ in range(2)]
    wait_until(lambda: len(delayed()) == 2)
    connections.append(leave(own, body))
    wait_until(lambda: own.get("/health").json["pendingMaps"] == 3)
    refused = own.post("/v2/map", body)
    assert refused.status == 429
    assert refused.headers["Retry-After"]
    late = own.post("/v2/scrape", {"url": site.url("/text")})
    assert late.status == 200
    connections.pop().close()  # it waits for its turn
    wait_until(lambda: own.get("/health").json["pendingMaps"] == 2)
    assert own.post("/v2/map", {**body, "timeout": 300}).status == 408
    for connection in connections:
        connection.close()
    wait_until(lambda: own.get("/health").json["pendingMaps"] == 0)
    quick = own.post("/v2/map", {"url": site.url("/text"), "sitemap": "skip"})
    assert quick.status == 200
    assert len(delayed()) == 2
    assert "Traceback" not in own.stderr
    assert "CRITICAL" not in own.stderr


def test_a_map_under_way_is_finished_when_the_service_stops(start_service):
    slow = {**SITE, "/": page("/linked", title="Home")}
    service = start_service()
    with ScriptedSite(slow) as site:
        connection = leave(service, {"url": site.url("/")})
        wait_until(lambda: "/" in site.paths())
        assert service.stop() == 0
        received = b""
        while part := connection.recv(65_536):
            received += part
        connection.close()
    assert received.startswith(b"HTTP/1.1 200")
    assert b"/pricing" in received
