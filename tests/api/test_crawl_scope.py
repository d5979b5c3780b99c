"""Where crawls go, seen from outside: robots.txt, sitemaps, scope, traps, reasons."""

from __future__ import annotations

import contextlib
import gzip
import time

import pytest

from tests.support.crash import kill
from tests.support.scripted_site import (
    WORDS,
    ScriptedSite,
    answer,
    moved,
    page,
    sitemap,
    text,
)
from tests.support.waiting import wait_until

HOSTS = {"SCRAPER_EGRESS_ALLOW": "127.0.0.2/31"}  # .2 and .3


class Crawl:
    """A crawl that has ended: its status, documents, errors and addresses."""

    def __init__(self, service, path):
        self.service = service
        self.path = path
        wait_until(lambda: service.get(path).json["status"] != "scraping")
        self.status = status = service.get(path).json
        self.documents = status["data"]
        while "next" in status:
            status = service.get(status["next"].removeprefix(service.url)).json
            self.documents += status["data"]
        found = service.get(f"{path}/errors").json
        self.errors = {error["url"]: error for error in found["errors"]}
        self.robots_blocked = found["robotsBlocked"]

    @property
    def urls(self):
        return [document["metadata"]["sourceURL"] for document in self.documents]

    def addresses(self, query=""):
        """Return the rows of the list, by path, all parts of it."""
        rows = []
        target = f"{self.path}/urls?limit=7{query}"
        while target:
            reply = self.service.get(target)
            assert reply.status == 200, reply
            rows += reply.json["urls"]
            target = reply.json.get("next", "").removeprefix(self.service.url)
        return {"/" + row["url"].split("/", 3)[3]: row for row in rows}


@pytest.fixture
def crawl(service):
    """Return a function that crawls to the end: address, then options."""

    def run(url, running=service, **options):
        scrape = {"maxAge": 0, **options.pop("scrapeOptions", {})}
        body = {"url": url, "scrapeOptions": scrape, **options}
        reply = running.post("/v2/crawl", body)
        assert reply.status == 200, reply
        return Crawl(running, f"/v2/crawl/{reply.json['id']}")

    return run


def paths_of(crawl, site):
    return sorted(url.removeprefix(site.address) for url in crawl.urls)


ROBOTS = "User-agent: *\nDisallow: /private\n\nUser-agent: special\nDisallow: /open\n"
SMALL = {
    "/": page("/open", "/private/a", "/private/b"),
    "/open": page("/", title="Open"),
    "/private/a": page(title="A"),
    "/private/b": page(title="B"),
    "/robots.txt": text(ROBOTS),
}


def test_urls_refused_by_robots_txt_are_listed_and_not_fetched(crawl):
    with ScriptedSite(SMALL) as site:
        done = crawl(site.url("/"))
        assert paths_of(done, site) == ["/", "/open"]
        assert sorted(done.robots_blocked) == [
            site.url("/private/a"),
            site.url("/private/b"),
        ]
        assert done.errors == {}
        assert "robots.txt" in done.status["warning"]
        assert not [path for path in site.paths() if path.startswith("/private")]
        row = done.addresses("&state=skipped&reason=robots")["/private/a"]
        assert row["foundOn"] == site.url("/")
        assert "line 2" in row["detail"]
        assert "Disallow: /private" in row["detail"]
        assert site.paths().count("/robots.txt") == 1


def test_a_url_refused_by_robots_txt_is_no_failure_wherever_it_was_found(
    crawl, service
):
    listed = sitemap("{site}/open", "{site}/private/a", "{site}/private/b")
    with ScriptedSite({**SMALL, "/": page("/open"), "/sitemap.xml": listed}) as site:
        done = crawl(site.url("/"))
        assert paths_of(done, site) == ["/", "/open"]
        assert len(done.robots_blocked) == 2
        assert "robotsBlocked" in done.status["warning"]
        assert done.errors == {}
        assert done.status["total"] == 2
        rows = done.addresses("&reason=robots")
        assert {path: row["state"] for path, row in rows.items()} == {
            "/private/a": "skipped",
            "/private/b": "skipped",
        }
        assert service.post(f"{done.path}/retry", {}).json["retried"] == 0


def test_a_crawl_that_starts_at_a_sitemap_names_its_failure(crawl):
    with ScriptedSite({"/sitemap.xml": answer(status=500)}) as site:
        for name, status in (("maps/sitemap.xml", 404), ("sitemap.xml", 500)):
            start = site.url(f"/{name}")
            assert crawl(start).status["warning"] == (
                f"The job ended without a page. {start}: HTTP status {status}."
            )


def test_a_crawl_of_one_page_names_the_error_of_its_start_page(crawl):
    pages = {"/": page("/a"), "/a": answer(page("/b"), status=500)}
    with ScriptedSite(pages) as site:
        found = [
            crawl(site.url(path), **options).status
            for path, options in (
                ("/none", {}),
                ("/a", {"limit": 1}),
                ("/", {"sitemap": "skip"}),
            )
        ]
    assert [(each["completed"], each.get("warning")) for each in found] == [
        (1, "The start page answered with HTTP status 404."),
        (1, "The start page answered with HTTP status 500."),
        (3, None),
    ]


def test_a_crawl_of_sitemaps_only_warns_if_no_sitemap_was_found(crawl):
    with ScriptedSite({"/": page("/a"), "/a": page()}) as site:
        only = {"url": site.url("/"), "sitemap": "only"}
        assert crawl(**only).status["warning"] == "No sitemap was found."
        site.put("/sitemap.xml", moved("/sitemap.xml"))
        why = f"No sitemap could be read. {site.url('/sitemap.xml')}: "
        assert crawl(**only).status["warning"].startswith(why)
        site.put("/sitemap.xml", sitemap())
        assert crawl(**only).status.get("warning") is None


def test_robots_txt_may_be_ignored_or_read_for_another_agent(crawl):
    with ScriptedSite(SMALL) as site:
        done = crawl(site.url("/"), ignoreRobotsTxt=True)
        assert paths_of(done, site) == ["/", "/open", "/private/a", "/private/b"]
        done = crawl(site.url("/"), robotsUserAgent="special")
        assert paths_of(done, site) == ["/", "/private/a", "/private/b"]
        assert done.robots_blocked == [site.url("/open")]


MARKED = {
    "/": page("/by-meta", "/by-agent", "/by-header", "/by-other", "/plain"),
    "/by-meta": page(
        "/a", "/both", head='<meta name="Robots" content="all, NoFollow">'
    ),
    "/by-agent": page("/b", head='<meta name="scraper-service" content="none">'),
    "/by-header": answer(page("/c"), X_Robots_Tag="otherbot: noindex, *: nofollow"),
    "/by-other": answer(
        page("/d", head="<meta name=otherbot content=nofollow>"),
        X_Robots_Tag="otherbot: nofollow",
    ),
    "/plain": page("/both", "/other", text="<a rel=nofollow href=/single>single</a>"),
    **{path: page(title=path) for path in ("/a", "/b", "/c", "/d", "/both", "/single")},
    "/other": page(title="Other"),
}


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_links_of_pages_marked_nofollow_are_listed_and_not_followed(service, version):
    with ScriptedSite(MARKED) as site:
        body = {"url": site.url("/"), "obeyNofollow": True}
        reply = service.post(f"/{version}/crawl", body)
        done = Crawl(service, f"/v2/crawl/{reply.json['id']}")
        refused = done.addresses("&state=skipped&reason=nofollow")
        assert set(refused) == {"/a", "/b", "/c"}
        assert refused["/a"]["detail"] == "nofollow in <meta name=robots>"
        assert refused["/c"]["detail"] == "nofollow in the header X-Robots-Tag"
        followed = {"/", *MARKED} - set(refused)
        assert set(paths_of(done, site)) == followed
        assert done.status["total"] == len(followed)
        assert done.errors == {}


def test_links_of_nofollow_pages_are_followed_by_default(crawl):
    with ScriptedSite(MARKED) as site:
        done = crawl(site.url("/"))
        assert set(paths_of(done, site)) == set(MARKED)


def test_a_nofollow_start_page_is_named_as_the_reason_of_a_one_page_crawl(crawl):
    with ScriptedSite({"/": answer(page("/a"), X_Robots_Tag="none")}) as site:
        done = crawl(site.url("/"), obeyNofollow=True)
        assert "obeyNofollow" in done.status["warning"]


def test_a_start_page_that_robots_txt_refuses_is_not_fetched(crawl):
    with ScriptedSite(SMALL) as site:
        done = crawl(site.url("/private/a"))
        assert done.documents == []
        assert done.robots_blocked == [site.url("/private/a")]
        assert done.status["warning"].startswith("The job ended without a page.")
        assert "/private/a" not in site.paths()


def test_a_crawl_warns_if_robots_txt_refuses_its_start_page(crawl):
    pages = {**SMALL, "/": page("/open"), "/sitemap.xml": sitemap("{site}/open")}
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/private/a"), crawlEntireDomain=True)
        assert paths_of(done, site) == ["/", "/open"]
        assert done.robots_blocked == [site.url("/private/a")]
        assert done.status["warning"].count("robotsBlocked") == 1


def warning_of(done):
    assert done.status["status"] == "completed"
    return done.status.get("warning", "")


def test_a_crawl_without_a_page_names_the_error_of_its_start_page(crawl):
    done = crawl("http://no-such-host.invalid/docs")
    assert done.documents == []
    assert "without a page" in warning_of(done)
    assert "http://no-such-host.invalid/docs: " in warning_of(done)
    assert "does not resolve" in warning_of(done)


def test_a_crawl_warns_if_its_patterns_match_no_url(crawl):
    pages = {"/": page("/a", "/b"), "/a": page(title="A"), "/b": page(title="B")}
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/"), includePaths=["^/blog"])
        assert done.documents == []
        assert f"{site.url('/')}: " in warning_of(done)
        assert "2 not matched by includePaths" in warning_of(done)


def test_a_crawl_of_one_page_counts_its_skipped_links_by_reason(crawl):
    pages = {"/docs/": page("/blog", "/about"), "/blog": page(), "/about": page()}
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/docs/"))
        assert paths_of(done, site) == ["/docs/"]
        assert "one page" in warning_of(done)
        assert "2 outside the path of the start URL" in warning_of(done)
        assert warning_of(crawl(site.url("/docs/"), limit=1)) == ""
        assert warning_of(crawl(site.url("/about"))) == ""


def test_a_crawl_that_skipped_most_links_names_the_reason(crawl):
    outside = [f"/blog/{number}" for number in range(4)]
    pages = {"/docs/": page("/docs/a", *outside), "/docs/a": page("/docs/")}
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/docs/"))
        assert paths_of(done, site) == ["/docs/", "/docs/a"]
        assert "4 outside the path of the start URL (see crawlEnt" in warning_of(done)
        assert warning_of(crawl(site.url("/docs/"), limit=2)) == ""
    pages["/docs/"] = page("/docs/a", *outside[:2])
    with ScriptedSite(pages) as site:
        assert warning_of(crawl(site.url("/docs/"))) == ""


def test_a_batch_without_a_page_lists_the_errors(service):
    urls = ["http://no-such-host.invalid/1", "http://no-such-host.invalid/2"]
    reply = service.post("/v2/batch/scrape", {"urls": urls})
    done = Crawl(service, f"/v2/batch/scrape/{reply.json['id']}")
    assert "http://no-such-host.invalid/1: " in warning_of(done)
    assert "1 more URL" in warning_of(done)


def test_a_redirect_to_a_url_that_robots_txt_refuses_is_not_followed(crawl):
    pages = {**SMALL, "/open": moved("/private/a")}
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/"), excludePaths=["^/private"])
        assert paths_of(done, site) == ["/"]
        assert "/private/a" not in site.paths()
        assert done.robots_blocked == [site.url("/open")]


def test_a_site_whose_robots_txt_fails_is_left_alone(crawl):
    with ScriptedSite({**SMALL, "/robots.txt": text("", 503)}) as site:
        done = crawl(site.url("/"))
        assert done.status["status"] == "completed"
        assert done.documents == []
        error = done.errors[site.url("/")]
        assert error["code"] == "ROBOTS_UNREACHABLE"
        assert "503" in error["error"]
        assert "It is fetched again after" in error["error"]
        assert site.paths().count("/robots.txt") == 4
        assert set(site.paths()) <= {"/robots.txt", "/sitemap.xml"}


def test_a_host_name_that_does_not_resolve_has_its_own_error_code(crawl):
    done = crawl("http://nosuch.invalid/")
    assert done.status["status"] == "completed"
    assert done.robots_blocked == []
    (error,) = done.errors.values()
    assert error["code"] == "SCRAPE_DNS_RESOLUTION_ERROR"
    lost = {"/robots.txt": moved("http://nosuch.invalid/robots.txt")}
    with ScriptedSite({**SMALL, **lost}) as site:
        done = crawl(site.url("/"))
        error = done.errors[site.url("/")]
        assert error["code"] == "ROBOTS_UNREACHABLE"


def test_a_site_in_a_forbidden_network_has_its_own_error_code(crawl):
    done = crawl("http://127.9.9.9/")
    assert done.robots_blocked == []
    (error,) = done.errors.values()
    assert error["code"] == "UNSUPPORTED_SITE"
    assert "SCRAPER_EGRESS_ALLOW" in error["error"]
    assert "SCRAPER_EGRESS_ALLOW" in warning_of(done)


def test_a_batch_fetches_no_robots_txt(service):
    with ScriptedSite(SMALL) as site:
        body = {"urls": [site.url("/private/a")], "maxAge": 0}
        reply = service.post("/v2/batch/scrape", body)
        done = Crawl(service, f"/v2/batch/scrape/{reply.json['id']}")
        assert len(done.documents) == 1
        assert site.paths() == ["/private/a"]


LISTED = {
    "/": page("/linked"),
    "/linked": page(title="Linked"),
    "/listed/1": page(title="1"),
    "/listed/2": page(title="2"),
    "/listed/3": page(title="3"),
    "/robots.txt": text("Sitemap: {site}/maps/index.xml\n"),
    "/maps/index.xml": sitemap("{site}/maps/a.xml", "{site}/maps/b.xml.gz", index=True),
    "/maps/a.xml": answer(
        "<urlset><url><loc>{site}/listed/1</loc><lastmod>2026-01-02</lastmod></url>"
        "<url><loc>{site}/listed/2</loc><lastmod>2026-01-02T03:04+02:00</lastmod></url>"
        "</urlset>",
        Content_Type="application/xml",
    ),
    "/sitemap.xml": sitemap("{site}/listed/3", "http://other.example/page"),
}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("include", ["/", "/linked", "/listed/1", "/listed/2", "/listed/3"]),
        ("only", ["/", "/listed/1", "/listed/2", "/listed/3"]),
        ("skip", ["/", "/linked"]),
    ],
)
def test_the_sitemap_option_decides_whether_sitemaps_are_read(crawl, mode, expected):
    with ScriptedSite(LISTED) as site:
        done = crawl(site.url("/"), sitemap=mode)
        assert paths_of(done, site) == expected
        assert done.status["total"] == len(expected)
        read = [path for path in site.paths() if path.endswith((".xml", ".gz"))]
        assert len(read) == (0 if mode == "skip" else 4)
        if mode != "skip":
            rows = done.addresses()
            assert rows["/listed/1"]["lastModified"] == "2026-01-02"
            assert rows["/listed/2"]["lastModified"] == "2026-01-02T01:04:00.000Z"
            assert rows["/listed/1"]["foundOn"] == site.url("/maps/a.xml")
            times = {
                each["metadata"]["title"]: each["metadata"].get("sitemapLastmod")
                for each in done.documents
            }
            assert times["1"] == "2026-01-02"
            assert times["2"] == "2026-01-02T03:04+02:00"
            assert times["3"] is None
            assert rows["/maps/a.xml"]["kind"] == "sitemap"
            assert rows["/maps/b.xml.gz"]["state"] == "failed"  # it is not there
            assert rows["/page"]["reason"] == "external"


def test_a_start_url_may_be_a_sitemap(crawl):
    with ScriptedSite(LISTED) as site:
        done = crawl(site.url("/maps/a.xml"))
        assert paths_of(done, site) == ["/listed/1", "/listed/2", "/listed/3"]


def test_sitemaps_count_for_the_limit(crawl):
    urls = [f"{{site}}/p/{n}" for n in range(60)]
    pages = {f"/p/{n}": page(title=f"{n}") for n in range(60)}
    with ScriptedSite({"/": page(), "/sitemap.xml": sitemap(*urls), **pages}) as site:
        done = crawl(site.url("/"), limit=17)
        assert len(done.documents) == done.status["total"] == 17
        held = done.addresses("&state=held")
        assert len(held) == 44
        assert held["/p/59"]["reason"] == "limit"


@pytest.mark.full
def test_bad_sitemaps_fail_no_crawl(crawl):
    bomb = gzip.compress(b"<urlset>" + b" " * 80_000_000)
    pages = {
        "/": page("/a"),
        "/a": page(title="A"),
        "/robots.txt": text(
            "Sitemap: /loop.xml\nSitemap: /bomb.xml.gz\nSitemap: /gone.xml\n"
            "Sitemap: /page\nSitemap: http://127.0.0.1:1/sitemap.xml\n"
        ),
        "/loop.xml": sitemap("{site}/loop.xml", "{site}/loop2.xml", index=True),
        "/loop2.xml": sitemap("{site}/loop.xml", index=True),
        "/bomb.xml.gz": answer(bomb, Content_Type="application/gzip"),
        "/page": page("/b"),
        "/sitemap.xml": answer("<urlset><url><loc>{site}/a</loc>", 200),
    }
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/"))
        assert done.status["status"] == "completed"
        assert paths_of(done, site) == ["/", "/a"]
        assert done.errors == {}
        assert site.paths().count("/loop.xml") == 1


OTHER_NAMES = (
    *("/sitemap_index.xml", "/sitemap-index.xml", "/wp-sitemap.xml"),
    *("/sitemap.xml.gz", "/sitemap.txt"),
)


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("path", OTHER_NAMES)
def test_a_sitemap_is_found_by_its_other_usual_names(crawl, service, path):
    listed = {
        ".xml": sitemap("{site}/listed"),
        ".gz": answer(gzip.compress(b"<urlset><url><loc>/listed</loc></url></urlset>")),
        ".txt": text("{site}/listed\n"),
    }
    pages = {"/": page(), "/listed": page(title="Listed")}
    found = listed["." + path.rpartition(".")[2]]
    with ScriptedSite({**pages, path: found}) as site:
        for times in (1, 2):
            done = crawl(site.url("/"))
            assert paths_of(done, site) == ["/", "/listed"]
            assert done.errors == {}
            assert (done.status["total"], done.status.get("warning")) == (2, None)
            files = {"/sitemap.xml": "failed", path: "done"}
            rows = done.addresses()
            assert {
                path: row["state"]
                for path, row in rows.items()
                if row["kind"] == "sitemap"
            } == files
            assert rows["/robots.txt"]["kind"] == "robots"
            counts = service.get(f"{done.path}/report").json["sitemaps"]
            assert (counts["files"], counts["read"], counts["failed"]) == (2, 1, 1)
            asked = site.paths()
            assert [asked.count(name) for name in OTHER_NAMES] == [
                times if name == path else 1 for name in OTHER_NAMES
            ]
        links = service.post("/v2/map", {"url": site.url("/")}).json["links"]
        assert site.url("/listed") in {link["url"] for link in links}


def test_other_names_are_not_guessed_where_robots_txt_or_the_site_has_a_sitemap(crawl):
    named = {**LISTED, "/sitemap.xml": text("", 404)}
    usual = {"/": page(), "/sitemap.xml": sitemap("{site}/")}
    for pages in (named, usual):
        with ScriptedSite(pages) as site:
            crawl(site.url("/"))
            assert not {*OTHER_NAMES} & {*site.paths()}


def test_a_map_guesses_names_of_sitemaps_once_and_without_a_warning(service):
    pages = {"/": page("/a", "/b"), "/wp-sitemap.xml": sitemap("{site}/listed")}
    pages["/sitemap.txt"] = text("Nothing is here.")
    with ScriptedSite(pages) as site:
        for _ in range(2):
            reply = service.post("/v2/map", {"url": site.url("/")}).json
            urls = [link["url"].removeprefix(site.address) for link in reply["links"]]
            assert urls == ["", "/listed", "/a", "/b"]
            assert "warning" not in reply
        asked = site.paths()
        assert [asked.count(name) for name in OTHER_NAMES] == [1, 1, 2, 1, 1]


CHALLENGE = answer("<!doctype html><title>Wait</title><script>_cf_chl_opt={}</script>")
SHELL = answer("<!doctype html><title>App</title><p>The words of an application.</p>")


@pytest.mark.parametrize(
    ("sent", "kind"), [(SHELL, "a web page"), (CHALLENGE, "a Cloudflare challenge")]
)
def test_web_pages_served_as_robots_txt_or_sitemap_cause_a_warning(
    crawl, service, sent, kind
):
    paths = ("/robots.txt", "/sitemap.xml", *OTHER_NAMES)
    pages = {"/": page("/a"), "/a": page(title="A"), **dict.fromkeys(paths, sent)}
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/"))
        assert paths_of(done, site) == ["/", "/a"]
        assert done.errors == {}
        for path in paths[:2]:
            assert kind in warning_of(done).partition(site.url(path))[2]
        assert "sitemap_index" not in warning_of(done)
        row = done.addresses()["/sitemap.xml"]
        assert (row["state"], row["reason"]) == ("failed", "SITEMAP_UNREADABLE")
        assert kind in row["detail"]
        report = service.get(f"{done.path}/report").json
        (robots,) = report["robots"]
        assert robots["state"] == "unreadable"
        assert kind in robots["detail"]
        assert report["sitemaps"]["read"] == 0
        only = crawl(site.url("/"), sitemap="only")
        assert kind in only.status["warning"].partition("No sitemap could be read.")[2]


def test_patterns_choose_pages_and_may_leave_out_the_start_page(crawl):
    pages = {
        "/": page("/docs/a", "/docs/b", "/blog/c"),
        "/docs/a": page("/docs/d"),
        "/docs/b": page(),
        "/docs/d": page(),
        "/blog/c": page("/docs/b"),
    }
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/"), includePaths=["^/docs/"], excludePaths=["b$"])
        assert paths_of(done, site) == ["/docs/a", "/docs/d"]
        assert done.errors[site.url("/")]["code"] == "CRAWL_DENIAL"
        rows = done.addresses("&state=skipped")
        assert rows["/docs/b"]["reason"] == "excluded"
        assert rows["/docs/b"]["detail"] == "b$"
        assert rows["/blog/c"]["reason"] == "not_included"


def test_a_start_page_on_another_host_takes_the_crawl_there(crawl, start_service):
    service = start_service(**HOSTS)
    there = {"/": page("/a", "http://127.0.0.2:1/"), "/a": page(title="There")}
    with ScriptedSite(there, "127.0.0.3") as other:
        here = {"/": moved(other.url("/"))}
        with ScriptedSite(here) as site:
            done = crawl(site.url("/"), service, sitemap="skip")
            assert done.urls == [site.url("/"), other.url("/a")]


def test_a_page_that_redirects_to_another_site_is_refused(crawl, start_service):
    service = start_service(**HOSTS)
    with ScriptedSite({"/a": page(title="There")}, "127.0.0.3") as other:
        here = {"/": page("/away", "/near"), "/away": moved(other.url("/a"))}
        with ScriptedSite({**here, "/near": page(title="Near")}) as site:
            done = crawl(site.url("/"), service)
            assert paths_of(done, site) == ["/", "/near"]
            assert done.errors[site.url("/away")]["code"] == "EXTERNAL_LINK"


def test_external_links_are_followed_one_hop_deep(crawl, start_service):
    service = start_service(**HOSTS)
    there = {"/": page(), "/a": page("/b", title="There"), "/b": page()}
    with ScriptedSite(there, "127.0.0.3") as other:
        links = (other.url("/a"), other.url("/"), "http://x.com/someone")
        with ScriptedSite({"/": page(*links)}) as site:
            done = crawl(site.url("/"), service, allowExternalLinks=True)
            assert done.urls == [site.url("/"), other.url("/a")]
            assert done.errors[other.url("/")]["code"] == "EXTERNAL_LINK"
            assert done.addresses()["/someone"]["reason"] == "social_host"
            assert "/b" not in other.paths()


def test_a_redirect_to_a_known_page_is_a_duplicate(crawl):
    pages = {
        "/": page("/new", "/old", "/older"),
        "/new": page(title="New"),
        "/old": moved("/new"),
        "/older": moved("/old"),
    }
    with ScriptedSite(pages) as site:
        done = crawl(site.url("/"), maxConcurrency=1)
        assert paths_of(done, site) == ["/", "/new"]
        rows = done.addresses("&reason=duplicate")
        assert {"/old", "/older"} <= rows.keys()
        assert site.url("/new") in rows["/old"]["detail"]


LIST_HEAD = '<link rel="canonical" href="/list">'
LIST = {
    "/": page(*(f"/list{query}" for query in ("", "?sort=a", "?sort=b", "?page=2"))),
    "/list": page(title="List", text=" ".join(WORDS), head=LIST_HEAD),
    "/list?sort=a": page(title="List", text=" ".join(WORDS), head=LIST_HEAD),
    "/list?sort=b": page(title="List", text=" ".join(WORDS), head=LIST_HEAD),
    "/list?page=2": page(title="List", text="Other things than before", head=LIST_HEAD),
}


@pytest.mark.parametrize("similar", [True, False])
def test_a_page_equal_to_its_canonical_page_is_a_duplicate(crawl, similar):
    with ScriptedSite(LIST) as site:
        done = crawl(
            site.url("/"),
            maxConcurrency=1,
            sitemap="skip",
            deduplicateSimilarURLs=similar,
        )
        found = paths_of(done, site)
        assert "/list?page=2" in found  # it names the first page, and is another
        assert ("/list?sort=b" in found) is not similar
        if similar:
            row = done.addresses("&reason=duplicate")["/list?sort=b"]
            assert row["state"] == "done"
            assert row["detail"] == f"duplicate of {site.url('/list')}"
        assert done.status["total"] == 5
        assert done.errors == {}


def test_metadata_has_the_robots_directives_of_a_page(service):
    head = '<meta name="robots" content="noindex">'
    tagged = answer(page(head=head), X_Robots_Tag="noarchive")
    with ScriptedSite({"/": tagged}) as site:
        for state in ("miss", "hit"):
            reply = service.post("/v2/scrape", {"url": site.url("/")})
            metadata = reply.json["data"]["metadata"]
            assert metadata["cacheState"] == state
            assert metadata["robots"] == "noindex"
            assert metadata["xRobotsTag"] == "noarchive"
            wait_for_copy(service, site)


def wait_for_copy(service, site):
    body = {"url": site.url("/"), "minAge": 1}
    wait_until(lambda: service.post("/v2/scrape", body).status == 200)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("kind", "most", "rule"),
    [
        ("calendar/?date=2040-01", 60, "Calendar"),
        ("session/", 5, None),  # one page: ids are not part of its address
        ("growing/", 10, "PathologicalPath"),
        ("soft/0", 250, "SoftNotFound"),
    ],
)
def test_traps_end_with_a_reason(crawl, kind, most, rule):
    with ScriptedSite({}) as site:
        done = crawl(site.url(f"/trap/{kind}"), limit=1000, crawlEntireDomain=True)
        assert done.status["status"] == "completed"
        assert len(done.documents) <= most
        found = done.addresses("&state=skipped&reason=trap")
        if rule is None:
            assert not found
        else:
            assert any(rule in row["detail"] for row in found.values())


@pytest.mark.full
def test_a_forum_with_many_queries_is_no_trap(crawl):
    with ScriptedSite({}) as site:
        done = crawl(site.url("/trap/forum/view?t=0"), sitemap="skip")
        assert len(done.documents) == 201
        assert done.addresses("&reason=trap") == {}


def test_every_url_of_a_crawl_has_a_reason(crawl):
    links = ("/a", "/b.zip", "http://other.example/x", "mailto:a@b.example")
    pages = {"/": page(*links, "/a/deep", "/missing"), "/a": page("/a/deeper")}
    with ScriptedSite({**pages, "/a/deep": page(), "/a/deeper": page()}) as site:
        done = crawl(site.url("/"), maxDiscoveryDepth=1, sitemap="skip")
        rows = done.addresses()
        told = {path: (row["state"], row.get("reason")) for path, row in rows.items()}
        assert told == {
            "/": ("done", None),
            "/a": ("done", None),
            "/a/deep": ("done", None),
            "/missing": ("done", None),
            "/a/deeper": ("skipped", "discovery_depth"),
            "/b.zip": ("skipped", "file_type"),
            "/x": ("skipped", "external"),
        }
        assert rows["/a"]["scrapeId"] in {
            document["metadata"]["scrapeId"] for document in done.documents
        }
        assert {row["depth"] for row in rows.values()} == {0, 1, 2}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("query", ["", "&state=skipped", "&reason=excluded"])
def test_a_slice_of_the_url_list_has_the_total_and_the_requested_rows(
    crawl, service, query
):
    pages = {f"/{n}": page() for n in range(9)}
    start = {"/": page(*pages, "/old", *(f"/x/{n}" for n in range(5)))}
    with ScriptedSite({**start, **pages, "/old": moved("/0")}) as site:
        done = crawl(site.url("/"), excludePaths=["^/x"], limit=4, sitemap="skip")
        every = list(done.addresses(query).values())
        assert every
        for skip in range(len(every) + 2):
            target = f"{done.path}/urls?limit=3&skip={skip}{query}"
            found = service.get(target).json
            assert found["total"] == len(every)
            assert found["urls"] == every[skip : skip + 3]
            assert ("next" in found) is (skip + 3 < len(every))
    states = {"pending", "leased", "held", "done", "failed", "skipped"}
    assert {row["state"] for row in every} <= states


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    "query",
    [
        *("state=nope", "state=redirected", "after=x", "after=9.1", "skip=-1"),
        *("limit=0", "limit=x", "limit=9999"),
    ],
)
def test_a_bad_query_of_the_list_is_named(crawl, service, query):
    with ScriptedSite({"/": page()}) as site:
        done = crawl(site.url("/"))
        reply = service.get(f"{done.path}/urls?{query}")
        assert reply.status == 400
        assert query.partition("=")[0] in reply.json["error"]


def test_the_list_is_for_the_team_of_the_job(start_service, crawl):
    service = start_service(SCRAPER_API_KEYS="fc-one,fc-two")
    with ScriptedSite({"/": page()}) as site:
        body = {"url": site.url("/")}
        job_id = service.post("/v2/crawl", body, key="fc-one").json["id"]
        target = f"/v2/crawl/{job_id}/urls"
        assert service.get(target, key="fc-one").status == 200
        assert service.get(target, key="fc-two").status == 404


@pytest.mark.slow
def test_a_crawl_by_sitemaps_survives_kills(start_service):
    files = {}
    for number in range(4):
        urls = [f"{{site}}/p/{number * 300 + n}" for n in range(300)]
        files[f"/s{number}.xml"] = sitemap(*urls)
    pages = {f"/p/{n}": page(title=f"{n}") for n in range(1200)}
    index = sitemap(*(f"{{site}}{path}" for path in files), index=True)
    settings = {"SCRAPER_LEASE_S": "2"}
    with ScriptedSite({"/": page(), "/sitemap.xml": index, **files, **pages}) as site:
        service = start_service(**settings)
        body = {"url": site.url("/"), "limit": 1000, "scrapeOptions": {"maxAge": 0}}
        path = f"/v2/crawl/{service.post('/v2/crawl', body).json['id']}"
        for wait_s in (0.3, 0.7, 1.5, 2.5):
            time.sleep(wait_s)
            with contextlib.suppress(ConnectionError):
                assert service.get(path).status == 200
            kill(service)
            service = start_service(**settings)
        done = Crawl(service, path)
        assert len(done.documents) == len(set(done.urls)) == 1000
        assert done.status["total"] == 1000
        assert len(done.addresses("&state=held")) == 201


def explain(service, urls, **options):
    reply = service.post("/v2/crawl/explain", {"urls": urls, **options})
    assert reply.status == 200, reply
    return reply.json["results"]


def test_explain_names_the_first_rule_without_a_fetch(service, crawl):
    with ScriptedSite(SMALL) as site:
        asked = [site.url(path) for path in ("/a", "/x.zip", "/b?c", "/private/a")]
        asked += ["http://other.example/", "ftp://a.example", "nonsense"]
        options = {"url": site.url("/"), "excludePaths": ["^/b"]}
        found = explain(service, asked, **options)
        assert [each.get("reason") for each in found] == [
            *(None, "file_type", "excluded", None),
            *("external", "scheme", "malformed"),
        ]
        assert found[2]["detail"] == "^/b"
        assert found[0]["robots"] == "unknown"
        assert site.paths() == []
        crawl(site.url("/"), limit=1)
        found = explain(service, asked[3:4], **options)
        assert found[0]["allowed"] is False
        assert (found[0]["reason"], found[0]["robots"]) == ("robots", "refused")
        assert "line 2" in found[0]["detail"]
        found = explain(service, asked[3:4], ignoreRobotsTxt=True, **options)
        assert found == [{"url": asked[3], "allowed": True}]
        deep = explain(service, asked[:1], maxDiscoveryDepth=1, depth=2, **options)
        assert deep[0]["reason"] == "discovery_depth"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"urls": []}, ["urls"]),
        ({"urls": "x"}, ["urls"]),
        ({"urls": ["x"] * 1001}, ["urls"]),
        ({"url": None}, ["url"]),
        ({"depth": -1}, ["depth"]),
        ({"includePaths": ["(?=a)"]}, ["includePaths", 0]),
        ({"nope": 1}, []),
    ],
)
def test_explain_names_the_errors_of_a_body(service, changes, path):
    body = {"url": "http://a.example/", "urls": ["http://a.example/b"], **changes}
    reply = service.post("/v2/crawl/explain", body)
    assert reply.status == 400
    assert path in [detail["path"] for detail in reply.json["details"]]


def test_explain_names_the_error_of_a_pattern(service):
    body = {"url": "http://a.example/", "urls": ["http://a.example/b"]}
    reply = service.post("/v2/crawl/explain", {**body, "excludePaths": ["a", "("]})
    assert reply.json["error"].startswith("excludePaths.1: ")
    assert reply.json["code"] == "BAD_REQUEST"
