"""Options of jobs: bounds and depths."""

from __future__ import annotations

import pytest
from attrs import evolve

from scraper_service.options.jobs import Webhook, path_depth
from scraper_service.options.spider_arguments import batch_options, crawl_options

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
