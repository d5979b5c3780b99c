"""Which links a crawl follows, and which addresses are one page to it."""

from __future__ import annotations

import json
import pickle
import tarfile
from pathlib import Path

import ada_url
import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from scraper_service.content.page_urls import is_route
from scraper_service.discovery.canonical_urls import (
    crawl_key,
    normalize_url,
    page_key,
    parse_uncached,
    parse_url,
    site_of,
)
from scraper_service.discovery.scope_rules import (
    CrawlScope,
    LinkCheck,
    Reason,
    Refusal,
    link_rows,
)
from scraper_service.options.spider_arguments import crawl_options
from scraper_service.options.urls import caller_url

CORPORA = Path(__file__).parents[3] / "shared" / "corpora.tar.xz"
DEFAULTS = crawl_options({"url": "https://example.com/"})

ROOT: dict = {}
DOCS = {"url": "https://example.com/docs"}
INDEX = {"url": "https://example.com/docs/index.html"}
WWW = {"url": "http://www.example.com/"}
BLOG = {"url": "https://blog.example.com/"}
PORT = {"url": "http://example.com:8000/"}
IP = {"url": "http://127.0.0.1:8000/"}
LOCAL = {"url": "http://localhost/"}
PAGES = {"url": "https://a.github.io/"}
KYOTO = {"url": "https://a.city.kyoto.jp/"}
LAN = {"url": "http://wiki.corp.internal/"}
IDN = {"url": "https://bücher.example/"}
TILDE = {"url": "https://example.com/~me/"}
SUBDOMAINS = {"allow_subdomains": True}
EXTERNAL = {"allow_external_links": True}
BOTH = {**SUBDOMAINS, **EXTERNAL}
DEEP = {"max_path_depth": 2}
OUT = "https://other.org"

# name, options, address, depth, reason or None; optionally the page it was found on
CASES = [
    # 1: no address, another scheme, fragments
    ("empty", ROOT, "", 1, "malformed"),
    ("relative", ROOT, "/a", 1, "malformed"),
    ("no-scheme", ROOT, "//example.com/a", 1, "malformed"),
    ("fragment-only", ROOT, "#top", 1, "malformed"),
    ("no-host", ROOT, "http://", 1, "malformed"),
    ("open-bracket", ROOT, "http://[", 1, "malformed"),
    ("bad-ipv6", ROOT, "http://[::1", 1, "malformed"),
    ("port-too-large", ROOT, "http://example.com:99999/", 1, "malformed"),
    ("port-no-number", ROOT, "http://example.com:b/", 1, "malformed"),
    ("space-in-host", ROOT, "http://exa mple.com/", 1, "malformed"),
    ("bad-ipv4", ROOT, "http://1.2.3.400/", 1, "malformed"),
    ("megabytes", ROOT, "https://example.com/" + "a" * 2**20, 1, "malformed"),
    ("surrogate", ROOT, "https://example.com/\ud800", 1, "malformed"),
    ("user", ROOT, "https://me@example.com/", 1, "malformed"),
    ("password", ROOT, "https://me:secret@example.com/", 1, "malformed"),
    ("looks-like-user", ROOT, "https://example.com/@me", 1, None),
    ("mailto", ROOT, "mailto:me@example.com", 1, "scheme"),
    ("javascript", ROOT, "javascript:void(0)", 1, "scheme"),
    ("data", ROOT, "data:text/html,a", 1, "scheme"),
    ("tel", ROOT, "tel:+1", 1, "scheme"),
    ("ftp", ROOT, "ftp://example.com/a", 1, "scheme"),
    ("file", ROOT, "file:///etc/passwd", 1, "scheme"),
    ("websocket", ROOT, "wss://example.com/", 1, "scheme"),
    ("fragment", ROOT, "https://example.com/a#b", 1, None),
    ("route", ROOT, "https://example.com/a#/b", 1, None),
    (
        "route-excluded",
        {**ROOT, "exclude_paths": ("^/a#/b$",)},
        "https://example.com/a#/b",
        1,
        "excluded",
    ),
    (
        "route-included",
        {**ROOT, "include_paths": ("/b",)},
        "https://example.com/a#/b",
        1,
        None,
    ),
    ("spaces-around", ROOT, "  https://example.com/a\n", 1, None),
    ("no-slashes", ROOT, "https:example.com/a", 1, None),
    ("backslashes", ROOT, "https:\\\\example.com\\a", 1, None),
    ("backslash-host", ROOT, "https://other.org\\@example.com/", 1, "external"),
    ("upper-case", ROOT, "HTTPS://EXAMPLE.COM/A", 1, None),
    # 2: hosts
    ("same-host", ROOT, "https://example.com/a", 1, None),
    ("http", ROOT, "http://example.com/a", 1, None),
    ("www", ROOT, "https://www.example.com/a", 1, None),
    ("no-www", WWW, "https://example.com/a", 1, None),
    ("www-twice", ROOT, "https://www.www.example.com/a", 1, "subdomain"),
    ("wwww", ROOT, "https://wwww.example.com/a", 1, "subdomain"),
    ("final-dot", ROOT, "https://example.com./a", 1, None),
    ("own-port", ROOT, "https://example.com:443/a", 1, None),
    ("http-port", ROOT, "http://example.com:80/a", 1, None),
    ("other-port", ROOT, "https://example.com:8443/a", 1, "subdomain"),
    ("same-port", PORT, "http://example.com:8000/a", 1, None),
    ("same-port-www", PORT, "http://www.example.com.:8000/a", 1, None),
    ("no-port", PORT, "http://example.com/a", 1, "subdomain"),
    ("subdomain", ROOT, "https://blog.example.com/a", 1, "subdomain"),
    ("subdomain-allowed", SUBDOMAINS, "https://blog.example.com/a", 1, None),
    ("deep-subdomain", SUBDOMAINS, "https://a.b.c.example.com/a", 1, None),
    ("port-allowed", SUBDOMAINS, "https://example.com:8443/a", 1, None),
    ("subdomain-is-not-external", EXTERNAL, "https://b.example.com/a", 1, "subdomain"),
    ("parent", BLOG, "https://example.com/a", 1, "subdomain"),
    ("parent-allowed", {**BLOG, **SUBDOMAINS}, "https://example.com/a", 1, None),
    ("sister", {**BLOG, **SUBDOMAINS}, "https://shop.example.com/a", 1, None),
    ("external", ROOT, "https://other.org/a", 1, "external"),
    ("suffix-of-name", ROOT, "https://notexample.com/a", 1, "external"),
    ("prefix-of-name", ROOT, "https://example.com.evil.org/a", 1, "external"),
    ("other-tld", ROOT, "https://example.org/a", 1, "external"),
    ("subdomains-only", SUBDOMAINS, "https://other.org/a", 1, "external"),
    ("external-allowed", EXTERNAL, "https://other.org/a", 1, None),
    ("pages-own", PAGES, "https://a.github.io/b", 1, None),
    ("pages-sister", {**PAGES, **SUBDOMAINS}, "https://b.github.io/", 1, "external"),
    ("pages-child", {**PAGES, **SUBDOMAINS}, "https://b.a.github.io/", 1, None),
    ("pages-root", {**PAGES, **SUBDOMAINS}, "https://github.io/b", 1, "external"),
    ("suffix-exception", {**KYOTO, **SUBDOMAINS}, "https://b.city.kyoto.jp/", 1, None),
    (
        "wildcard-suffix",
        {"url": "https://a.b.kawasaki.jp/", **SUBDOMAINS},
        "https://c.b.kawasaki.jp/",
        1,
        "external",
    ),
    (
        "second-level",
        {"url": "https://a.co.uk/", **SUBDOMAINS},
        "https://b.co.uk/",
        1,
        "external",
    ),
    (
        "below-second-level",
        {"url": "https://a.co.uk/", **SUBDOMAINS},
        "https://b.a.co.uk/",
        1,
        None,
    ),
    ("intranet", {**LAN, **SUBDOMAINS}, "http://files.corp.internal/", 1, None),
    ("intranet-off", LAN, "http://files.corp.internal/", 1, "subdomain"),
    ("intranet-other", {**LAN, **SUBDOMAINS}, "http://a.internal/", 1, "external"),
    ("localhost", LOCAL, "http://localhost/a", 1, None),
    ("localhost-port", LOCAL, "http://localhost:8000/a", 1, "external"),
    ("localhost-ip", LOCAL, "http://127.0.0.1/a", 1, "external"),
    ("ip", IP, "http://127.0.0.1:8000/a", 1, None),
    ("ip-short", IP, "http://127.1:8000/a", 1, None),
    ("ip-hex", IP, "http://0x7f000001:8000/a", 1, None),
    ("ip-number", IP, "http://2130706433:8000/a", 1, None),
    ("ip-port", {**IP, **SUBDOMAINS}, "http://127.0.0.1:8001/a", 1, "external"),
    ("ip-same-end", {**IP, **SUBDOMAINS}, "http://1.0.0.1:8000/", 1, "external"),
    (
        "ipv6",
        {"url": "http://[::1]:8000/"},
        "http://[0:0:0:0:0:0:0:1]:8000/a",
        1,
        None,
    ),
    ("ipv6-other", {"url": "http://[::1]/"}, "http://[::2]/a", 1, "external"),
    ("idn", IDN, "https://xn--bcher-kva.example/a", 1, None),
    ("idn-case", IDN, "https://BÜCHER.example/a", 1, None),
    ("idn-child", {**IDN, **SUBDOMAINS}, "https://a.bücher.example/a", 1, None),
    ("full-width", ROOT, "https://\uff45xample.com/a", 1, None),
    # discovery depth
    ("no-depth", ROOT, "https://example.com/a", 99, None),
    ("depth-0", {"max_discovery_depth": 0}, "https://example.com/a", 0, None),
    (
        "depth-1",
        {"max_discovery_depth": 0},
        "https://example.com/a",
        1,
        "discovery_depth",
    ),
    ("depth-2", {"max_discovery_depth": 2}, "https://example.com/a", 2, None),
    (
        "depth-3",
        {"max_discovery_depth": 2},
        "https://example.com/a",
        3,
        "discovery_depth",
    ),
    ("depth-first", {"max_discovery_depth": 0}, "mailto:a", 1, "discovery_depth"),
    # traps
    (
        "20-segments",
        ROOT,
        "https://example.com/" + "/".join("abcdefghijklmnopqrst"),
        1,
        None,
    ),
    (
        "20-segments-slash",
        ROOT,
        "https://example.com/" + "/".join("abcdefghijklmnopqrst") + "/",
        1,
        None,
    ),
    (
        "21-segments",
        ROOT,
        "https://example.com/" + "/".join("abcdefghijklmnopqrstu"),
        1,
        "trap",
    ),
    ("2-in-a-row", ROOT, "https://example.com/a/a", 1, None),
    ("3-in-a-row", ROOT, "https://example.com/a/a/a", 1, "trap"),
    ("3-in-a-row-slash", ROOT, "https://example.com/b/a/a/a/", 1, "trap"),
    ("3-in-all", ROOT, "https://example.com/a/b/a/b/a/b", 1, None),
    ("4-in-all", ROOT, "https://example.com/a/b/a/b/a/b/a", 1, "trap"),
    ("pairs", ROOT, "https://example.com/a/a/b/b/c/c", 1, None),
    ("slashes", ROOT, "https://example.com/a////b", 1, "trap"),
    ("two-slashes", ROOT, "https://example.com/a//b", 1, None),
    ("2000-long", ROOT, "https://example.com/?" + "a" * 1979, 1, None),
    ("2001-long", ROOT, "https://example.com/?" + "a" * 1980, 1, "trap"),
    ("long-host-rule-first", ROOT, "https://other.org/?" + "a" * 2000, 1, "external"),
    ("dates", ROOT, "https://example.com/2011/11/11/a", 1, None),
    ("dots-resolved", ROOT, "https://example.com" + "/a/.." * 50 + "/b", 1, None),
    # 3: path depth
    ("path-2", DEEP, "https://example.com/a/b", 1, None),
    ("path-3", DEEP, "https://example.com/a/b/c", 1, "path_depth"),
    ("path-slash", DEEP, "https://example.com/a/b/", 1, None),
    ("path-empty-segments", DEEP, "https://example.com//a//b/", 1, None),
    ("path-index", DEEP, "https://example.com/a/b/index.html", 1, None),
    ("path-php", DEEP, "https://example.com/a/b/index.php?a=/c/d", 1, None),
    ("path-0", {"max_path_depth": 0}, "https://example.com/a", 1, "path_depth"),
    ("path-0-root", {"max_path_depth": 0}, "https://example.com/?a", 1, None),
    ("path-below-start", {**DOCS, **DEEP}, "https://example.com/docs/a/b", 1, None),
    (
        "path-too-low",
        {**DOCS, **DEEP},
        "https://example.com/docs/a/b/c",
        1,
        "path_depth",
    ),
    ("path-of-index", {**INDEX, **DEEP}, "https://example.com/docs/a/b", 1, None),
    ("path-external", {**EXTERNAL, **DEEP}, "https://other.org/a/b/c", 1, "path_depth"),
    (
        "path-before-patterns",
        {**DEEP, "exclude_paths": ("a",)},
        "https://example.com/a/b/c",
        1,
        "path_depth",
    ),
    # 4: excludes
    ("excluded", {"exclude_paths": ("^/a",)}, "https://example.com/a", 1, "excluded"),
    ("not-excluded", {"exclude_paths": ("^/a",)}, "https://example.com/b/a", 1, None),
    ("searched", {"exclude_paths": ("a",)}, "https://example.com/b/a", 1, "excluded"),
    ("case", {"exclude_paths": ("/A",)}, "https://example.com/a", 1, None),
    (
        "ignoring-case",
        {"exclude_paths": ("(?i)/A",)},
        "https://example.com/a",
        1,
        "excluded",
    ),
    ("second", {"exclude_paths": ("x", "a$")}, "https://example.com/a", 1, "excluded"),
    (
        "query-is-no-subject",
        {"exclude_paths": ("q",)},
        "https://example.com/a?q",
        1,
        None,
    ),
    (
        "host-is-no-subject",
        {"exclude_paths": ("example",)},
        "https://example.com/",
        1,
        None,
    ),
    (
        "path-has-slash",
        {"exclude_paths": ("^/$",)},
        "https://example.com",
        1,
        "excluded",
    ),
    (
        "whole",
        {"exclude_paths": (r"\?q$",), "regex_on_full_url": True},
        "https://example.com/a?q#b",
        1,
        "excluded",
    ),
    (
        "whole-host",
        {"exclude_paths": ("^https://example",), "regex_on_full_url": True},
        "https://example.com/a",
        1,
        "excluded",
    ),
    (
        "whole-anchored",
        {"exclude_paths": ("^/a",), "regex_on_full_url": True},
        "https://example.com/a",
        1,
        None,
    ),
    (
        "external-whole",
        {**EXTERNAL, "exclude_paths": ("other",)},
        "https://other.org/a",
        1,
        "excluded",
    ),
    (
        "external-path",
        {**EXTERNAL, "exclude_paths": ("^/a",)},
        "https://other.org/a",
        1,
        None,
    ),
    (
        "subdomain-path",
        {**BOTH, "exclude_paths": ("blog",)},
        "https://blog.example.com/a",
        1,
        None,
    ),
    ("non-ascii", {"exclude_paths": ("/é",)}, "https://example.com/é", 1, "excluded"),
    (
        "escaped",
        {"exclude_paths": ("/%C3%A9",)},
        "https://example.com/é",
        1,
        "excluded",
    ),
    (
        "excluded-and-included",
        {"exclude_paths": ("a",), "include_paths": ("a",)},
        "https://example.com/a",
        1,
        "excluded",
    ),
    (
        "catastrophe",
        {"exclude_paths": ("^(a+)+$",)},
        "https://example.com/aaab",
        1,
        None,
    ),
    # 5: includes
    ("included", {"include_paths": ("^/a",)}, "https://example.com/a", 1, None),
    (
        "not-included",
        {"include_paths": ("^/a",)},
        "https://example.com/b",
        1,
        "not_included",
    ),
    ("one-of-two", {"include_paths": ("^/a", "^/b")}, "https://example.com/b", 1, None),
    (
        "include-query",
        {"include_paths": ("q",)},
        "https://example.com/a?q",
        1,
        "not_included",
    ),
    (
        "include-whole",
        {"include_paths": ("q",), "regex_on_full_url": True},
        "https://example.com/a?q",
        1,
        None,
    ),
    (
        "include-external-path",
        {**EXTERNAL, "include_paths": ("^/a",)},
        "https://other.org/a",
        1,
        None,
    ),
    (
        "include-external",
        {**EXTERNAL, "include_paths": ("^/a",)},
        "https://other.org/b",
        1,
        "not_included",
    ),
    (
        "include-before-path",
        {**DOCS, "include_paths": ("^/a",)},
        "https://example.com/b",
        1,
        "not_included",
    ),
    (
        "included-outside",
        {**DOCS, "include_paths": ("^/a",)},
        "https://example.com/a",
        1,
        "outside_path",
    ),
    # 6: the path of the start
    ("below", DOCS, "https://example.com/docs/a", 1, None),
    ("itself", DOCS, "https://example.com/docs?a", 1, None),
    ("sibling-with-prefix", DOCS, "https://example.com/docs-old", 1, None),
    ("above", DOCS, "https://example.com/", 1, "outside_path"),
    ("beside", DOCS, "https://example.com/blog", 1, "outside_path"),
    ("path-case", DOCS, "https://example.com/Docs/a", 1, "outside_path"),
    ("dots-out", DOCS, "https://example.com/docs/../blog", 1, "outside_path"),
    (
        "escaped-dots-out",
        DOCS,
        "https://example.com/docs/%2e%2E/blog",
        1,
        "outside_path",
    ),
    ("dots-in", DOCS, "https://example.com/blog/../docs/a", 1, None),
    ("query-of-path", DOCS, "https://example.com/?a=/docs", 1, "outside_path"),
    (
        "whole-domain",
        {**DOCS, "crawl_entire_domain": True},
        "https://example.com/",
        1,
        None,
    ),
    ("index-start", INDEX, "https://example.com/docs/a", 1, None),
    ("index-start-above", INDEX, "https://example.com/docs", 1, "outside_path"),
    ("tilde", TILDE, "https://example.com/%7Eme/a", 1, None),
    ("other-escapes", TILDE, "https://example.com/%7eyou/", 1, "outside_path"),
    (
        "subdomain-beside",
        {**DOCS, **SUBDOMAINS},
        "https://blog.example.com/",
        1,
        "outside_path",
    ),
    ("subdomain-below", {**DOCS, **SUBDOMAINS}, "https://b.example.com/docs/", 1, None),
    ("external-any-path", {**DOCS, **EXTERNAL}, "https://other.org/a", 1, None),
    # 8: file types
    ("png", ROOT, "https://example.com/a.png", 1, "file_type"),
    ("upper-css", ROOT, "https://example.com/a.CSS?v=1", 1, "file_type"),
    ("js", ROOT, "https://example.com/a.min.js#b", 1, "file_type"),
    ("zip", ROOT, "https://example.com/a.zip", 1, "file_type"),
    ("woff2", ROOT, "https://example.com/a.woff2", 1, "file_type"),
    ("xlsx", ROOT, "https://example.com/a.xlsx", 1, "file_type"),
    ("pdf", ROOT, "https://example.com/a.pdf", 1, None),
    ("docx", ROOT, "https://example.com/a.docx", 1, None),
    ("xml", ROOT, "https://example.com/a.xml", 1, None),
    ("html", ROOT, "https://example.com/a.html", 1, None),
    ("json", ROOT, "https://example.com/a.json", 1, None),
    ("ending-in-query", ROOT, "https://example.com/a?b=c.png", 1, None),
    ("ending-in-folder", ROOT, "https://example.com/a.png/", 1, None),
    ("ending-as-name", ROOT, "https://example.com/png", 1, None),
    ("com-host", ROOT, "https://example.com", 1, None),
    ("external-file", EXTERNAL, "https://other.org/a.png", 1, "file_type"),
    # 9: other sites
    ("home", EXTERNAL, "https://other.org/", 1, "external_home"),
    ("home-no-slash", EXTERNAL, "https://other.org#a", 1, "external_home"),
    ("home-query", EXTERNAL, "https://other.org/?a", 1, None),
    ("home-route", EXTERNAL, "https://other.org/#/a", 1, None),
    ("own-home", EXTERNAL, "https://example.com/", 1, None),
    ("subdomain-home", BOTH, "https://blog.example.com/", 1, None),
    ("facebook", EXTERNAL, "https://www.facebook.com/a", 1, "social_host"),
    ("m-facebook", EXTERNAL, "https://m.facebook.com/a", 1, "social_host"),
    ("x", EXTERNAL, "https://x.com/a", 1, "social_host"),
    ("not-x", EXTERNAL, "https://netflix.com/a", 1, None),
    ("linkedin", EXTERNAL, "https://de.linkedin.com/in/a", 1, "social_host"),
    ("github", EXTERNAL, "https://github.com/a", 1, "social_host"),
    ("github-pages", EXTERNAL, "https://a.github.io/b", 1, None),
    ("discord", EXTERNAL, "https://discord.gg/a", 1, "social_host"),
    ("calendly", EXTERNAL, "https://calendly.com/a", 1, "social_host"),
    ("google-calendar", EXTERNAL, "https://calendar.google.com/a", 1, "social_host"),
    ("google", EXTERNAL, "https://docs.google.com/a", 1, None),
    ("social-home", EXTERNAL, "https://facebook.com/", 1, "external_home"),
    (
        "social-start",
        {"url": "https://github.com/a"},
        "https://github.com/a/b",
        1,
        None,
    ),
    ("social-off", ROOT, "https://facebook.com/a", 1, "external"),
    ("found-inside", EXTERNAL, "https://other.org/a", 1, None, "https://example.com/b"),
    (
        "found-at-www",
        EXTERNAL,
        "https://other.org/a",
        1,
        None,
        "http://www.example.com/",
    ),
    ("hop", EXTERNAL, "https://other.org/a", 2, "external_hop", f"{OUT}/b"),
    ("hop-on", EXTERNAL, "https://third.org/a", 2, "external_hop", f"{OUT}/b"),
    ("hop-back", EXTERNAL, "https://example.com/a", 2, "external_hop", f"{OUT}/b"),
    ("hop-home", EXTERNAL, "https://third.org/", 2, "external_hop", f"{OUT}/b"),
    ("hop-png", EXTERNAL, "https://third.org/a.png", 2, "file_type", f"{OUT}/b"),
    ("hop-subdomain", BOTH, f"{OUT}/a", 2, None, "https://blog.example.com/"),
    ("found-at-no-address", EXTERNAL, "https://other.org/a", 2, None, "bad"),
]


def scope_of(options):
    return CrawlScope(evolve(DEFAULTS, **options))


def reason_of(refusal):
    return None if refusal is None else refusal.reason


FOUND_ON = "https://example.com/from"
LINKS = [
    *(f"https://example.com/{number}" for number in range(1200)),
    "https://EXAMPLE.com/a/../b#c",
    "https://example.com/b",
    "https://other.org/",
    *(
        f"{scheme}://{host}{path}"
        for scheme in ("http", "https")
        for host in (
            "other.org",
            "www.other.org",
            "other.org:8080",
            "other.org:80",
            "7.1",
        )
        for path in (
            *("/", "/a/index.html", "/a//", "/a.b/c-d_e~f", "/a/../b", "/.a", "/a;b"),
            *(
                "/A!$&*+,=:@b",
                "/a?b=1&utm_source=x",
                "/%41",
                "/a'b",
                "/a b",
                "/é",
                "/a#b",
            ),
        )
    ),
    "https://Other.org/a",
    "https://user@other.org/a",
    "https://other.org.",
    "https:///a",
    "mailto:a@example.com",
    "http://[",
    "https://example.com/a.png",
]


@pytest.mark.parametrize(
    ("options", "depth"), [(ROOT, 1), (EXTERNAL, 1), ({"max_discovery_depth": 2}, 3)]
)
def test_a_converter_checks_links_by_the_rules_of_the_crawl(options, depth):
    options = evolve(DEFAULTS, **options)
    check = LinkCheck(options, CrawlScope(options))
    sent = pickle.loads(pickle.dumps(check))
    rows = [row for part in sent(LINKS, depth, FOUND_ON) for row in link_rows(part)]
    assert [row[0] for row in rows] == [normalize_url(url) for url in LINKS]
    assert [row[1] for row in rows] == [crawl_key(options, url) for url in LINKS]
    refusals = [check.scope.refusal(url, depth, FOUND_ON) for url in LINKS]
    assert [row[2:4] for row in rows] == [tuple(r or (None, None)) for r in refusals]
    assert list(sent.rows(LINKS, depth, FOUND_ON)) == rows
    assert pickle.loads(pickle.dumps(check)) is sent  # compiled once


def test_the_depth_limit_applies_to_each_depth_separately():
    options = evolve(DEFAULTS, max_discovery_depth=2)
    check = LinkCheck(options, CrawlScope(options))
    for depth, reason in ((2, None), (3, "discovery_depth"), (2, None)):
        (row,) = check.rows(["https://example.com/a"], depth, FOUND_ON)
        assert row[2] == reason


@pytest.mark.parametrize(
    ("options", "url", "depth", "reason", "found_on"),
    [(*case[1:5], case[5] if len(case) > 5 else None) for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_links_are_judged_by_the_first_rule_that_fails(
    options, url, depth, reason, found_on
):
    assert reason_of(scope_of(options).refusal(url, depth, found_on)) == reason


def test_the_names_of_the_cases_are_unique_and_the_table_is_large():
    assert len({case[0] for case in CASES}) == len(CASES) >= 150


def test_every_reason_of_a_link_is_in_the_table():
    others = {
        Reason.BLOCKED_SITE,
        Reason.NOFOLLOW,
        Reason.ROBOTS,
        Reason.DUPLICATE,
        Reason.LIMIT,
    }
    assert {case[4] for case in CASES} == {None, *Reason} - others


@pytest.mark.parametrize(
    ("options", "url", "rule"),
    [
        (ROOT, "/a", "not an absolute URL"),
        (ROOT, "mailto:a", "mailto"),
        (ROOT, "https://a.example.com/", "a.example.com is not example.com"),
        (ROOT, "https://a.org/", "a.org is not of example.com"),
        ({"max_discovery_depth": 0}, "https://example.com/", "depth 1 of at most 0"),
        (DEEP, "https://example.com/a/b/c", "path depth 3 of at most 2"),
        ({"exclude_paths": ("b", "a")}, "https://example.com/a", "a"),
        (
            {"include_paths": ("b", "c")},
            "https://example.com/a",
            "none of 2 patterns matches",
        ),
        (
            {"include_paths": ("b",)},
            "https://example.com/a",
            "the pattern does not match",
        ),
        (DOCS, "https://example.com/a", "the path does not start with /docs"),
        (ROOT, "https://example.com/A.PNG", ".png"),
        (EXTERNAL, "https://www.a.org/", "a.org"),
        (
            ROOT,
            "https://example.com/" + "/".join("abcdefghijklmnopqrstu"),
            "TooManyPathSegments: 21 of at most 20",
        ),
        (ROOT, "https://example.com/a/a/a", "PathologicalPath: 'a' 3 times in a row"),
        (ROOT, "https://example.com/a/b/a/b/a/b/a", "PathologicalPath: 'a' 4 times"),
        (
            ROOT,
            "https://example.com/?" + "a" * 1980,
            "TooLong: 2001 of at most 2000 characters",
        ),
    ],
)
def test_a_refusal_names_its_rule(options, url, rule):
    assert scope_of(options).refusal(url, 1).rule == rule


def test_reasons_that_apply_to_one_page_are_not_lasting():
    assert {reason for reason in Reason if not reason.is_lasting} == {
        "discovery_depth",
        "nofollow",
        "external_hop",
        "limit",
    }


@pytest.mark.parametrize(
    ("mode", "follows"), [("skip", True), ("include", True), ("only", False)]
)
def test_a_crawl_of_sitemaps_alone_follows_no_links(mode, follows):
    assert scope_of({"sitemap": mode}).follows_links is follows


def test_an_invalid_start_url_has_no_scope():
    with pytest.raises(ValueError, match="not an http"):
        scope_of({"url": "ftp://a.com"})


# -- the start page -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({}, None),
        ({"crawl_entire_domain": True, "max_path_depth": 0}, None),
        ({"exclude_paths": ("docs",)}, Refusal(Reason.EXCLUDED, "docs")),
        ({"exclude_paths": ("example",)}, None),
        ({"exclude_paths": ("m/d",), "regex_on_full_url": True}, "excluded"),
        ({"include_paths": ("^/docs",)}, None),
        ({"include_paths": ("^/docs/.+",)}, "not_included"),
    ],
)
def test_the_start_page_is_denied_by_patterns_only(options, refusal):
    found = scope_of({**DOCS, **options}).denial("https://example.com/docs/")
    assert refusal in {found, reason_of(found)}


def test_a_start_page_that_went_to_another_host_is_denied_by_its_path():
    scope = scope_of({"exclude_paths": ("other",)})
    assert scope.denial("https://other.org/a") is None


@pytest.mark.parametrize(
    ("start", "final", "base"),
    [
        ("https://example.com/a", "https://www.example.com/b", "https://example.com/a"),
        ("https://example.com/a", "http://example.com/", "https://example.com/a"),
        ("https://example.com/", "https://other.org/en/b", "https://other.org/"),
        ("https://example.com/a", "https://other.org/en/b", "https://other.org/en/b"),
        ("https://example.com/", "http://a.example.com:80/b", "http://a.example.com/"),
        ("https://example.com/", "bad", "https://example.com/"),
    ],
)
def test_a_redirect_of_the_start_to_another_host_moves_the_crawl(start, final, base):
    scope = scope_of({"url": start})
    moved = scope.rebase(final)
    assert moved.base.href == base
    assert moved.rebase(final) is moved
    if moved is not scope:
        assert moved.refusal(final, 1) is None
        assert moved.refusal(start, 1).reason in {"external", "subdomain"}


@pytest.mark.parametrize(
    ("options", "url", "reason"),
    [
        (DOCS, "https://www.example.com/a.png", None),
        (DOCS, "https://a.example.com/docs", "subdomain"),
        (DOCS, "https://other.org/docs", "external"),
        (EXTERNAL, "https://other.org/", None),
        (ROOT, "about:blank", "scheme"),
    ],
)
def test_other_pages_may_be_redirected_to_admitted_hosts(options, url, reason):
    assert reason_of(scope_of(options).foreign(url)) == reason


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("example.com", "example.com"),
        ("a.b.example.com:8000", "example.com"),
        ("example.com.", "example.com"),
        ("a.b.github.io", "b.github.io"),
        ("github.io", "github.io"),
        ("co.uk", "co.uk"),
        ("com", "com"),
        ("a.b.unknown-tld", "b.unknown-tld"),
        ("127.0.0.1:8000", "127.0.0.1:8000"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]:80"),
        ("localhost:81", "localhost:81"),
        ("a.xn--p1ai", "a.xn--p1ai"),
        ("b.a.xn--55qx5d.cn", "a.xn--55qx5d.cn"),
    ],
)
def test_sites(host, site):
    assert site_of(host) == site


# -- addresses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://example.com", "https://example.com/"),
        ("https://example.com/a#b", "https://example.com/a"),
        ("https://example.com/a#", "https://example.com/a"),
        ("https://example.com/a#/b", "https://example.com/a#/b"),
        ("https://example.com/a#!/b", "https://example.com/a#!/b"),
        ("https://example.com/a#!b", "https://example.com/a#!b"),
        ("https://example.com/a#!", "https://example.com/a"),
        ("https://example.com./a", "https://example.com/a"),
        ("http://example.com.:81/a", "http://example.com:81/a"),
        ("https://example.com/a?#b", "https://example.com/a?"),
        ("HTTPS://Example.COM:443/A", "https://example.com/A"),
        ("https://example.com/a/./b/../c", "https://example.com/a/c"),
        ("https://example.com/a/%2E%2e/c", "https://example.com/c"),
        ("https://example.com/ü?ü=ß", "https://example.com/%C3%BC?%C3%BC=%C3%9F"),
        ("https://example.com/%7ea", "https://example.com/%7ea"),
        ("https://example.com/a b", "https://example.com/a%20b"),
        ("https://bücher.de/", "https://xn--bcher-kva.de/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("mailto:a", "mailto:a"),
        ("no address", "no address"),
    ],
)
def test_urls_are_fetched_in_their_normal_form(url, address):
    assert normalize_url(url) == address
    assert normalize_url(address) == address


SIMILAR = [
    "https://example.com/a",
    "http://example.com/a",
    "https://www.example.com/a/",
    "https://example.com/a/index.html",
    "https://example.com/a/index.php",
    "https://example.com/a?utm_source=b&utm_medium=c",
    "https://example.com/a?GCLID=1",
    "https://example.com/a?fbclid=x",
    "https://example.com/a?PHPSESSID=0123456789abcdef",
    "https://example.com/a?sid=" + "0123456789abcdef" * 2,
    "https://example.com/a;jsessionid=0A1B2C.node1",
    "https://example.com/(S(0123456789abcdefghijklmn))/a",
    "https://example.com/a;jsessionid=0A1B2C?utm_source=b",
]
EQUAL = [
    "https://example.com/a",
    "HTTPS://EXAMPLE.com:443/a",
    "https://example.com/a#b",
    "https://example.com/a?",
    "https://example.com/b/../a",
    "https://example.com/%61",
    "https://example.com./a",
    "https://example.com.:443/a",
    "https:\\\\example.com\\b\\..\\a",
    "https://example.com/a#:~:text=b/c",
    "https://example.com/a#!",
]
OTHERS = [
    "https://example.com/b",
    "https://example.com/A",
    "https://example.com/a.html",
    "https://example.com/a/b",
    "https://blog.example.com/a",
    "https://example.com:8000/a",
    "https://example.com/a?b",
    "https://example.com/a?utm=1",
    "https://example.com/a?sid=12",
    "https://example.com/a?t=" + "0123456789abcdef" * 2,
    "https://example.com/a?page=2",
    "https://example.com/a%2Fb",
    "https://example.com/a#/b",
    "https://example.com/a#/b?c=d",
    "https://example.com/a#!b",
    "https://example.com/a;b=c",
    "https://example.com/(a)/a",
    "https://en.example.com/a",
]


@pytest.mark.parametrize("url", SIMILAR)
def test_similar_urls_are_one_page(url):
    assert page_key(url) == page_key(SIMILAR[0])
    if url != SIMILAR[0]:
        assert page_key(url, similar=False) != page_key(SIMILAR[0], similar=False)


@pytest.mark.parametrize("url", EQUAL)
@pytest.mark.parametrize("similar", [True, False])
def test_spellings_of_a_url_are_one_page(url, similar):
    assert page_key(url, similar=similar) == page_key(EQUAL[0], similar=similar)


def test_different_urls_are_different_pages():
    for similar in (True, False):
        keys = {page_key(url, similar=similar) for url in [EQUAL[0], *OTHERS]}
        assert len(keys) == len(OTHERS) + 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.com/?utm_source=b&c=d", "https://a.com/?c=d"),
        ("https://a.com/?c=d&utm_source=b", "https://a.com/?c=d"),
        ("https://a.com/?c=d&utm_source=b&e=f", "https://a.com/?c=d&e=f"),
        ("https://a.com/?gclid&c=d&fbclid=", "https://a.com/?c=d"),
        ("https://a.com/?utm%5Fsource=b", "https://a.com/"),
        ("https://a.com/?c=%7e", "https://a.com/?c=~"),
        ("https://a.com/%c3%a9", "https://a.com/é"),
        ("https://a.com/t.php?t=1&sid=" + "0af" * 11, "https://a.com/t.php?t=1"),
        ("https://a.com/index.html", "https://a.com"),
        ("https://a.com/#/b/", "https://a.com/#/b"),
        ("https://a.com/#/", "https://a.com/"),
        ("https://a.com/#!/", "https://a.com/"),
    ],
)
def test_tracking_parameters_are_left_out_of_the_page_key(one, other):
    assert page_key(one) == page_key(other)


def test_the_order_of_parameters_distinguishes_pages():
    assert page_key("https://a.com/?a=1&b=2") != page_key("https://a.com/?b=2&a=1")


def test_queries_can_be_ignored():
    keys = {
        page_key(f"https://a.com/b{query}", ignore_query=True)
        for query in ("", "?", "?c", "?c=d&e=f", "?utm_source=g")
    }
    assert keys == {page_key("https://a.com/b")}
    keys = {
        page_key(f"https://a.com/#/b{query}", ignore_query=True)
        for query in ("", "?c", "?c=d&e=f")
    }
    assert keys == {page_key("https://a.com/#/b")}


def test_keys_are_signed_numbers_of_8_bytes_that_never_change():
    keys = [page_key(f"https://a.com/{n}") for n in range(1000)]
    assert len(set(keys)) == 1000
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert min(keys) < 0 < max(keys)
    assert page_key("https://www.example.com/a/?b=c#d") == 7623852022419672824


def test_urls_without_a_page_have_keys():
    texts = ["", "a", "mailto:a", "http://[", "\ud800", "http://a/\ud800"]
    assert len({page_key(text) for text in texts}) >= 5


def whatwg_cases():
    if not CORPORA.exists():
        return []
    with tarfile.open(CORPORA) as archive:
        name = "corpora/urls-and-robots/urltestdata.json"
        cases = json.load(archive.extractfile(name))
    return [case for case in cases if isinstance(case, dict) and not case.get("base")]


@pytest.mark.skipif(not CORPORA.exists(), reason="the shared corpora are not there")
def test_urls_are_parsed_as_browsers_parse_them():
    compared = 0
    for case in whatwg_cases():
        address = parse_url(case["input"])
        if case.get("failure"):
            assert address is None, case
        elif case["protocol"] in {"http:", "https:"}:
            href, _, fragment = case["href"].partition("#")
            kept = f"{href}#{fragment}" if is_route(fragment) else href
            host = case["host"]
            if host.endswith(".") and host.strip(".") and ".." not in host:
                kept = kept.replace(f"//{host}", f"//{host[:-1]}")
                host = host[:-1]
            assert normalize_url(case["input"]) == address.href == kept, case
            assert parse_uncached(kept) == address
            assert (address.host, address.path) == (host, case["pathname"])
            assert address.query == case["search"][1:]
            assert bool(address.user) == bool(case["username"] or case["password"])
        else:
            assert address is None or not address.is_web, case
        compared += 1
    assert compared > 400


@given(
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(
        "a.example A.example a.example:80 a.example:443 a.example:8080 a.example:08"
        " 127.0.0.1 127.1 0x7f.1 1.2.3.4.5 a_b.example a..b - xn--a u@a.example"
        " a.example. [::1] a.example:99999 a.example:".split()
    ),
    st.text(st.sampled_from("aZ0/.%2eE?&=#'\"\\|^`{}<>;:@~+[]()$!,*_- \t\u00e9"), max_size=12),
)  # fmt: skip
def test_the_fast_path_for_tidy_urls_gives_the_normal_form(scheme, host, rest):
    url = f"{scheme}://{host}/{rest}"
    try:
        href = ada_url.normalize_url(url)
    except ValueError:
        assert parse_uncached(url) is None
        return
    address = parse_uncached(url)
    without, _, fragment = href.partition("#")
    expected = href if is_route(fragment) else without
    assert address.href == expected.replace("a.example./", "a.example/")
    assert parse_uncached(address.href) == address


@pytest.mark.skipif(not CORPORA.exists(), reason="the shared corpora are not there")
def test_every_accepted_start_url_can_be_parsed():
    for case in whatwg_cases():
        try:
            url = caller_url(case["input"])
        except ValueError:
            continue
        assert parse_url(url) is not None, url


# -- properties ---------------------------------------------------------------------------

LABELS = st.sampled_from(["example", "www", "blog", "other", "a", "github", "127", "1"])
HOSTS = st.builds(
    "{}{}{}".format,
    st.lists(LABELS, min_size=1, max_size=3).map(".".join),
    st.sampled_from([".com", ".org", ".github.io", ".co.uk", "", "."]),
    st.sampled_from(["", ":80", ":443", ":8000"]),
)
SEGMENTS = st.sampled_from(
    [
        "a",
        "b",
        "docs",
        "..",
        ".",
        "%2e",
        "%7e",
        "~",
        "é",
        "",
        "index.html",
        "x.png",
        "A",
    ]
)
PATHS = st.lists(SEGMENTS, max_size=6).map("/".join)
QUERIES = st.sampled_from(
    ["", "?", "?a=b", "?utm_source=a&b", "?b&sid=" + "a1" * 16, "?%7e=%C3", "?a=é&&"]
)
FRAGMENTS = st.sampled_from(["", "#", "#a", "#/a", "#a/b?c"])
URLS = st.builds(
    "{}://{}/{}{}{}".format,
    st.sampled_from(["http", "https", "HTTP"]),
    HOSTS,
    PATHS,
    QUERIES,
    FRAGMENTS,
)
ANY_URL = st.one_of(URLS, st.text(), st.text().map("https://example.com/{}".format))
SCOPES = [
    scope_of(options)
    for options in (
        ROOT,
        DOCS,
        {**DOCS, **BOTH},
        {**EXTERNAL, "exclude_paths": ("a", "é"), "include_paths": ("docs", "b")},
        {**SUBDOMAINS, **DEEP, "regex_on_full_url": True, "exclude_paths": ("other",)},
    )
]
DEPTHS = st.integers(0, 3)


@given(st.sampled_from(SCOPES), st.lists(ANY_URL, max_size=8), st.randoms())
def test_a_decision_does_not_depend_on_the_order_of_links(scope, urls, random):
    first = {url: scope.refusal(url, 1) for url in urls}
    random.shuffle(urls)
    assert {url: scope.refusal(url, 1) for url in urls} == first


@given(st.sampled_from(SCOPES), ANY_URL, DEPTHS)
def test_a_url_and_its_normal_form_get_the_same_verdict(scope, url, depth):
    normal = normalize_url(url)
    assert scope.refusal(url, depth) == scope.refusal(normal, depth)
    assert scope.denial(url) == scope.denial(normal)


@given(ANY_URL)
def test_the_normal_form_is_its_own(url):
    address = parse_uncached(url)
    assume(address is not None)
    assert parse_uncached(address.href) == address


@given(ANY_URL, st.booleans(), st.booleans())
def test_a_url_and_its_normal_form_have_the_same_key(url, similar, ignore_query):
    kind = {"similar": similar, "ignore_query": ignore_query}
    assert page_key(url, **kind) == page_key(normalize_url(url), **kind)


@given(URLS)
def test_www_and_scheme_make_no_difference_to_keys_and_hosts(url):
    address = parse_url(url)
    assume(address is not None)
    scheme = "http" if address.scheme == "https" else "https"
    assume(":" not in address.host)
    rest = address.href.removeprefix(f"{address.scheme}://").removeprefix("www.")
    twin = f"{scheme}://www.{rest}"
    assume(parse_url(twin) is not None and not address.host[-1].isdigit())
    assert page_key(url) == page_key(twin)
    assert reason_of(SCOPES[0].refusal(url)) == reason_of(SCOPES[0].refusal(twin))
