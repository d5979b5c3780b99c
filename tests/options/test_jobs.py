"""Options of jobs: bounds, patterns and depths."""

from __future__ import annotations

import pytest
from attrs import evolve

from scraper_service.errors import InvalidOptions
from scraper_service.options.job_arguments import batch_options, crawl_options
from scraper_service.options.jobs import Webhook, caller_patterns, path_depth

CRAWL = crawl_options({"url": "https://example.com"})
BATCH = batch_options({"urls": "https://example.com"})


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (CRAWL, {"limit": 0}),
        (CRAWL, {"max_discovery_depth": -1}),
        (CRAWL, {"max_path_depth": -1}),
        (CRAWL, {"delay_s": 0}),
        (CRAWL, {"delay_s": 60.5}),
        (CRAWL, {"max_concurrency": 0}),
        (CRAWL, {"sitemap": "none"}),
        (BATCH, {"urls": ()}),
        (BATCH, {"urls": ("a",) * 100_001}),
        (BATCH, {"max_concurrency": 0}),
        (Webhook(url="http://a.com"), {"events": ("crawl.page",)}),
    ],
)
def test_value_out_of_bounds_is_refused(options, changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        evolve(options, **changes)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((), ()),
        (("",), ()),
        (("", "["), ()),
        (("a", ""), ("a", "")),
        (("/blog/.*", "^/x$"), ("/blog/.*", "^/x$")),
        (("[[a]",), ("[[a]",)),
        (("[a-\uffff]" * 20,), ("[a-\uffff]" * 20,)),
        (("a" * 1024,) * 100, ("a" * 1024,) * 100),
    ],
)
def test_patterns_are_taken(patterns, expected):
    assert caller_patterns(patterns) == expected


@pytest.mark.parametrize(
    ("patterns", "path", "word"),
    [
        (("a", "["), (1,), "not a regular expression"),
        (("a{99999999999999999999}",), (0,), "not a regular expression"),
        (("(" * 512 + ")" * 512, "a"), (0,), "not a regular expression"),
        (("a" * 1025,), (0,), "1024 characters"),
        (("a",) * 101, (), "at most 100"),
        (("[a-\uffff]" * 10, r"[a-\uffff]" * 11), (), "ranges beyond Latin-1"),
    ],
)
def test_pattern_is_refused_at_its_path(patterns, path, word):
    with pytest.raises(InvalidOptions, match=word) as caught:
        caller_patterns(patterns)
    assert [issue.path for issue in caught.value.issues] == [path]


@pytest.mark.parametrize(
    ("url", "depth"),
    [
        ("http://a.com", 0),
        ("http://a.com/", 0),
        ("http://a.com/index.html", 0),
        ("http://a.com/index.html/b", 2),
        ("http://a.com//b///c/", 2),
        ("http://a.com/b/index.php?c=/d/e#/f", 1),
    ],
)
def test_path_depth(url, depth):
    assert path_depth(url) == depth
