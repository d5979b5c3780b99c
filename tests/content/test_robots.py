"""robots.txt by RFC 9309: what is read of it, and what it says of addresses."""

from __future__ import annotations

import gzip
import json
import pickle
import string
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from protego import Protego

from scraper_service.discovery import robots
from scraper_service.discovery.robots import (
    MAX_BYTES,
    NO_RULE,
    nofollow_source,
    normal,
    path_and_query,
    read_robots,
)

CORPORA = Path(__file__).parents[3] / "shared" / "corpora.tar.xz"
# Google's parser compares octets where section 2.2.2 of the RFC compares characters:
# the address and the rule are to be brought into one encoding first.
AGAINST_THE_RFC = {
    ("/foo/bar/ツ", "http://foo.bar/foo/bar/ツ"),
    ("/foo/bar/%E3%83%84", "http://foo.bar/foo/bar/ツ"),
    ("/foo/bar/%62%61%7A", "http://foo.bar/foo/bar/baz"),
}


def allows(text, path, agents=("Bot",)):
    return read_robots(text.encode()).group(agents).verdict(path).allowed


def test_the_cases_of_google():
    if not CORPORA.exists():
        pytest.skip(f"the cases of Google are not there: {CORPORA}")
    with tarfile.open(CORPORA) as archive:
        member = archive.extractfile("corpora/urls-and-robots/robots.json")
        cases = json.load(member)
    wrong = set()
    for case in cases:
        text, url = case["robots_txt"], case["url"]
        if allows(text, path_and_query(url), [case["user_agent"]]) != case["allowed"]:
            wrong.add((text.strip().rpartition(" ")[2], url))
    assert len(cases) == 142
    assert wrong == AGAINST_THE_RFC


@pytest.mark.parametrize(
    ("pattern", "path", "refused"),
    [
        ("/", "/", True),
        ("", "/", False),
        ("/fish", "/fishheads", True),
        ("/fish", "/Fish", False),
        ("/fish/", "/fish", False),
        ("/fish*", "/fish", True),
        ("/*.php", "/a/b.php?x", True),
        ("/*.php$", "/a/b.php?x", False),
        ("/*.php$", "/a.php/b.php", True),
        ("/a*/", "/ab", False),
        ("/a*$", "/ab", True),
        ("/a$b", "/a$b", True),
        ("/a$b", "/a", False),
        ("/*a*a$", "/a", False),
        ("/*a*a$", "/aa", True),
        ("*.gif", "/x/y.gif", True),
        ("/?", "/?x=1", True),
        ("/a?b=c", "/a?b=c&d", True),
        ("/a?b", "/a", False),
        ("a", "/a", False),
        ("/**a", "/xa", True),
        ("/$", "/", True),
        ("/$", "/a", False),
    ],
)
def test_patterns(pattern, path, refused):
    assert allows(f"User-agent: *\nDisallow: {pattern}", path) is not refused


@pytest.mark.parametrize(
    ("pattern", "path"),
    [  # the table of RFC 9309, 2.2.2, and that of 2.2.3
        ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https://foo.bar"),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84"),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
        ("/a b", "/a%20b"),
        ("/%zz", "/%25zz"),
    ],
)
def test_encodings_of_a_character_are_the_same(pattern, path):
    assert not allows(f"User-agent: *\nDisallow: {pattern}$", path)


def test_encoded_separators_are_other_characters():
    assert allows("User-agent: *\nDisallow: /a/b", "/a%2Fb")


@pytest.mark.parametrize("agent", ["Bot", "Bot2", "Bot2.x"])
def test_an_agent_with_digits_also_has_the_name_before_them(agent):
    rules = read_robots(b"User-agent: Bot2.x/1\nDisallow: /")
    is_name = agent != "Bot2"
    assert rules.group([agent]).verdict("/a").allowed is not is_name


def test_the_longest_rule_counts_and_allow_among_equals():
    text = (
        "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/*/c\nAllow: /a/b/d/c"
    )
    expected = {"/a": False, "/a/b/x": True, "/a/b/x/c": False, "/a/b/d/c": True}
    assert {path: allows(text, path) for path in expected} == expected


def test_a_verdict_names_the_rule_and_its_line():
    text = "# ours\r\nUser-agent: *\r\rDISALLOW :  /private/*\t# no\nAllow: /"
    group = read_robots(text.encode()).group(())
    verdict = group.verdict("/private/x")
    assert (verdict.allowed, verdict.line, verdict.length) == (False, 4, 10)
    assert verdict.text == "DISALLOW :  /private/*"
    assert group.verdict("/x").line == 5
    assert read_robots(b"").group(()).verdict("/x") == NO_RULE


def test_a_long_rule_is_shown_in_part():
    text = f"User-agent: *\nDisallow: /{'a' * 3000}".encode()
    verdict = read_robots(text).group(()).verdict("/" + "a" * 3000)
    assert (verdict.allowed, len(verdict.text)) == (False, robots.MAX_TEXT)


def test_robots_txt_itself_is_always_allowed():
    assert allows("User-agent: *\nDisallow: /", "/robots.txt")
    assert not allows("User-agent: *\nDisallow: /", "/robots.txt.html")


GROUPS = """
User-agent: One/2.0
user agent: two
Disallow: /a
User-agent: *
Disallow: /every
User-agent: ONE
Disallow: /b
User-agent: 360Spider
Disallow: /c
User-agent: nothing
User-agent: last
Crawl-delay: 2
"""


@pytest.mark.parametrize(
    ("agents", "refused"),
    [
        (["One"], {"/a", "/b"}),
        (["one/1.1"], {"/a", "/b"}),
        (["TWO"], {"/a"}),
        (["Three"], {"/every"}),
        ([], {"/every"}),
        (["Three", "Two", "One"], {"/a"}),
        (["360Spider"], {"/c"}),
        (["On"], {"/every"}),
        (["nothing"], set()),
        (["last", "one"], set()),
    ],
)
def test_the_group_of_the_first_matching_agent_applies(agents, refused):
    group = read_robots(GROUPS.encode()).group(agents)
    paths = {"/a", "/b", "/c", "/every"}
    assert {path for path in paths if not group.verdict(path).allowed} == refused


@pytest.mark.parametrize(
    "line",
    ["disalow: /", "dissallow: /", "Disallow /", "  disallow\t:\t/ # x", "Disallow:/"],
)
def test_common_misspellings_are_read(line):
    assert not allows(f"useragent: bot\n{line}", "/x")


@pytest.mark.parametrize("text", ["Disallow: /", "User-agent *\nDisallow / x", "a\0b"])
def test_lines_that_are_no_rules_are_ignored(text):
    assert allows(text, "/x")


@pytest.mark.parametrize(
    ("agents", "name"),
    [
        (("Examplebot/2.0",), "examplebot"),
        (("other", "ExampleBot"), "examplebot"),
        (("other",), "*"),
        ((), "*"),
    ],
)
def test_the_group_that_counts_has_a_name(agents, name):
    text = b"User-agent: ExampleBot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n"
    assert read_robots(text).agent(agents) == name
    assert read_robots(b"User-agent: x\nDisallow: /\n").agent(agents) is None


def test_unknown_lines_do_not_part_a_group():
    text = (
        "User-agent: a\nSitemap: x\nCrawl-delay: 3\nHost: h\nUser-agent: b\nDisallow: /"
    )
    rules = read_robots(text.encode())
    for agent, delay_s in (("a", 3), ("b", None)):
        group = rules.group([agent])
        assert (group.verdict("/x").allowed, group.crawl_delay_s) == (False, delay_s)


@pytest.mark.parametrize(
    ("lines", "delay_s"),
    [
        (["5"], 5),
        (["0.5"], 0.5),
        (["1", "7", "2"], 7),
        (["x"], None),
        (["-1"], None),
        (["nan"], None),
        (["inf"], None),
        ([], None),
        (["0"], 0),
    ],
)
def test_crawl_delay(lines, delay_s):
    text = "\n".join(["User-agent: *", *(f"Crawl-delay: {line}" for line in lines)])
    assert read_robots(text.encode()).group(()).crawl_delay_s == delay_s


def test_sitemaps_are_absolute_and_unique():
    text = (
        "Sitemap: https://a.example/s.xml\nsite-map: /s.xml\nSITEMAP: /s.xml # twice\n"
        "Sitemap: ftp://a.example/s\nSitemap: javascript:x\nSitemap:\nUser-agent: *\n"
        "Sitemap: news.xml?a=1&b=2"
    )
    assert read_robots(text.encode(), "http://b.example/robots.txt").sitemaps == (
        "https://a.example/s.xml",
        "http://b.example/s.xml",
        "http://b.example/robots.txt",
        "http://b.example/news.xml?a=1&b=2",
    )


CAFE = "User-agent: *\nDisallow: /café\n"


@pytest.mark.parametrize(
    "body",
    [
        CAFE.encode(),
        b"\xef\xbb\xbf" + CAFE.encode(),
        CAFE.encode("latin-1"),
        CAFE.encode("utf-16"),
        b"\xfe\xff" + CAFE.encode("utf-16-be"),
        CAFE.replace("\n", "\r").encode(),
        CAFE.replace("\n", "\r\n").encode(),
        CAFE.encode() + b"Allow: /\xff\xfe\x00",
    ],
)
def test_encodings_and_line_ends(body):
    group = read_robots(body).group(())
    assert not group.verdict("/caf%C3%A9").allowed
    assert group.verdict("/cafe").allowed


def test_content_encodings_are_undone_within_the_limit():
    text = b"User-agent: *\nDisallow: /a\n"
    assert not allows_packed(gzip.compress(text), "gzip")
    bomb = gzip.compress(text + b"#" * 100_000_000)
    assert not allows_packed(bomb, "gzip")
    for body, name in ((b"no gzip", "gzip"), (text, "rot13"), (bomb[:-9], "br")):
        assert read_robots(body, "", (name,)).error


def allows_packed(body, name):
    return read_robots(body, "", (name,)).group(()).verdict("/a").allowed


def test_500_kib_are_read_up_to_a_line_end():
    start = b"User-agent: *\nDisallow: /first\n"
    last = b"Disallow: /cut-here\nDisallow: /after\n"
    filler = b"#" * (MAX_BYTES - len(start) - len(b"\nDisallow: /cut")) + b"\n"
    group = read_robots(start + filler + last).group(())
    assert not group.verdict("/first").allowed
    assert group.verdict("/cut").allowed
    assert group.verdict("/cut-here").allowed
    assert group.verdict("/after").allowed


def test_an_html_page_has_no_rules():
    body = b"<!doctype html><title>Home</title><p>disallow: /<a href='/x: y'>allow</a>"
    assert read_robots(body).groups == {}


@pytest.mark.parametrize(
    ("rules", "url", "refused"),
    [
        ("Disallow: /a/", "/a", True),
        ("Disallow: /a/", "/a?q=1", True),
        ("Disallow: /a/", "/ab", False),
        ("Disallow: /a/\nAllow: /a$", "/a", False),
        ("Disallow: /\nAllow: /a$", "/a", False),
        ("Disallow: /\nAllow: /a/", "/a", True),
        ("Disallow: /a/\nAllow: /a", "/a", True),
        ("Disallow: /", "/robots.txt", False),
        ("Disallow: /?", "", False),
        ("Disallow: /", "", True),
        ("Disallow: /*x/$", "/x#part", True),
    ],
)
def test_links_are_tried_with_a_final_slash_too(rules, url, refused):
    group = read_robots(f"User-agent: *\n{rules}".encode()).group(())
    verdict = group.link_verdict(f"https://a.example{url}")
    assert verdict.allowed is not refused
    assert (verdict.text in rules) if refused else True


def test_rules_travel_between_processes():
    rules = read_robots(GROUPS.encode())
    copy = pickle.loads(pickle.dumps(rules))
    assert copy == rules
    assert copy.group(["two"]).verdict("/a").text == "Disallow: /a"


HEAD = b"User-agent: *\n"
LONG = "https://a.example/" + "a" * 2000


@pytest.mark.parametrize(
    "body",
    [
        HEAD + b"Disallow: /" + b"*a" * 8000 + b"b",
        HEAD + b"".join(b"Disallow: /*a*a*a*a*b%d\n" % n for n in range(20_000)),
        HEAD + b"".join(b"Allow: /*%d\n" % n for n in range(40_000)),
        HEAD + b"".join(b"Allow: /" + b"a" * n + b"*ab\n" for n in range(1000)),
        b"User-agent: *\nAllow: /*a*b\n" * 20_000,
    ],
    ids=["stars", "many-stars", "many-needles", "many-starts", "many-groups"],
)
def test_hostile_rules_take_no_time(body):
    group = read_robots(body).group(())
    start = time.process_time()
    group.link_verdict(LONG)
    assert time.process_time() - start < 0.2  # measured: up to 0.008 s


def test_rules_that_take_too_long_to_match_refuse_the_url():
    body = b"User-agent: *\nDisallow: /z\n" + b"".join(
        b"%s: /*%05d\n" % (kind, n)
        for n in range(10_000)
        for kind in (b"Allow", b"Disallow")
    )
    group = read_robots(body).group(())
    assert group.link_verdict("https://a.example/x").allowed
    verdict = group.link_verdict(LONG)
    assert not verdict.allowed
    assert verdict.text.startswith("Disallow: /*")


def test_agents_that_multiply_the_rules_are_refused(monkeypatch):
    monkeypatch.setattr(robots, "MAX_RULES", 5)
    text = (
        "User-agent: a\nUser-agent: b\nUser-agent: c\nAllow: /1\nAllow: /2\n"
        "User-agent: b\nDisallow: /3\nUser-agent: c\nDisallow: /4"
    )
    rules = read_robots(text.encode())
    allowed = [agent for agent in "abc" if rules.group([agent]).verdict("/1").allowed]
    assert allowed == ["a", "b"]


def test_ten_thousand_rules_are_searched_quickly():
    lines = [f"Disallow: /shop/{n % 100}/item-{n}" for n in range(10_000)]
    group = read_robots("\n".join(["User-agent: *", *lines]).encode()).group(())
    start = time.process_time()
    found = [group.verdict(f"/shop/{n % 100}/item-{n}/x").allowed for n in range(1000)]
    assert time.process_time() - start < 0.5  # measured: 0.01 s
    assert not any(found)


PATHS = st.text("/ab.?=&*$%2éA", max_size=12).map(lambda text: f"/{text}")


@given(PATHS)
def test_normal_is_final(path):
    assert normal(normal(path)) == normal(path)


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_text_is_read(text):
    body = text.encode(errors="replace") if isinstance(text, str) else text
    read_robots(b"User-agent: *\nDisallow: " + body).group(()).verdict("/a")


PATTERN = st.text("/ab*", max_size=6).map(lambda text: f"/{text}")
RULES = st.lists(st.tuples(st.booleans(), PATTERN, st.sampled_from(["", "$"])))


@given(RULES, st.text("/ab", max_size=8))
def test_protego_agrees(rules, path):
    patterns = [pattern + end for _, pattern, end in rules]
    # Protego counts the length of a rule in another way where these are in it.
    assume(not any("**" in p or p.endswith(("*", "*$")) for p in patterns))
    lines = [
        f"{'Allow' if allow else 'Disallow'}: {pattern}"
        for (allow, *_), pattern in zip(rules, patterns, strict=True)
    ]
    text = "\n".join(["User-agent: *", *lines])
    expected = Protego.parse(text).can_fetch(f"https://a.example/{path}", "Bot")
    assert allows(text, f"/{path}") == expected


@given(st.text(string.ascii_letters + "-_", min_size=1, max_size=8))
def test_protego_agrees_on_agents(agent):
    text = f"User-agent: {agent}\nDisallow: /\nUser-agent: *\nAllow: /"
    expected = Protego.parse(text).can_fetch("https://a.example/x", agent)
    assert allows(text, "/x", [agent]) == expected


@pytest.mark.parametrize(
    ("body", "page"),
    [
        (b"<!doctype html><title>Shop</title><div id=app></div>", "a web page"),
        (b"\xef\xbb\xbf \n<html><script>window._cf_chl_opt={}</script>", "a challenge"),
        (b"<!-- our rules -->\nUser-agent: *\nDisallow: /a", None),
        (b"Not found", None),
        (b"# <html>", None),
        (b"", None),
    ],
)
def test_a_web_page_is_no_list_of_rules(body, page):
    found = read_robots(body).page
    assert (found or "").startswith(page or "")
    assert (found is None) == (page is None)


@pytest.mark.parametrize(
    ("headers", "metas", "is_nofollow"),
    [
        ([], {}, False),
        (["nofollow"], {}, True),
        (["noindex", "NoFollow , noarchive"], {}, True),
        (["none"], {}, True),
        (["all"], {}, False),
        (["nofollowing"], {}, False),
        (["example-bot: nofollow"], {}, True),
        (["Example-Bot: noindex, nofollow"], {}, True),
        (["otherbot: nofollow"], {}, False),
        (["otherbot: noindex, nofollow"], {}, False),
        (["otherbot: noindex, example-bot: nofollow"], {}, True),
        (["otherbot: noindex", "nofollow"], {}, True),
        (["*: nofollow"], {}, True),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST, nofollow"], {}, True),
        (["max-snippet:20, nofollow"], {}, True),
        ([], {"robots": "nofollow"}, True),
        ([], {"ROBOTS": ["index", "index,nofollow"]}, True),
        ([], {"robots": "noindex nofollow"}, True),
        ([], {"example-bot": "none"}, True),
        ([], {"googlebot": "nofollow"}, False),
        ([], {"description": "nofollow"}, False),
    ],
)
def test_robots_tags_apply_if_they_name_our_agent(headers, metas, is_nofollow):
    found = nofollow_source(headers, metas, ("Example-Bot/2.0", "Second"))
    assert (found is not None) == is_nofollow
