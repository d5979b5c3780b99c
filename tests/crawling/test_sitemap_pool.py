"""Sitemaps through real converter processes: what they send back, and bombs."""

from __future__ import annotations

import gzip
import json
import pickle
import time
from typing import TYPE_CHECKING

import pytest

from scraper_service.discovery.canonical_urls import crawl_key
from scraper_service.discovery.sitemap import MAX_BYTES, MAX_URLS, SitemapChoice
from scraper_service.items import PageSource
from scraper_service.options.spider_arguments import crawl_options
from tests.support.conversions import pool_in_loop
from tests.support.waiting import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from scraper_service.discovery.sitemap import SitemapContent
    from tests.support.conversions import PoolInLoop

MEMORY_MB = 640  # of address space; 150 of them before anything is read
LIMIT_S = 15  # of processor time on a slow machine; they take up to 3
SITE = "https://site.example/"
PAGE = f"<url><loc>{SITE}</loc></url>"
N = 5_000_000
# Made when they are used: the processes import this module.
BOMBS = {
    "nothing but nul": lambda: bytes(40 * N),
    "nothing but spaces": lambda: b" " * 40 * N,
    "nothing but elements": lambda: b"<urlset>" + b"<a/>" * N,
    "nothing but starts": lambda: b"<urlset>" + b"<a>" * N,
    "nothing but ends": lambda: b"<urlset>" + b"</a>" * N,
    "nothing but starts of comments": lambda: b"<urlset>" + b"<!--" * N,
    "nothing but starts of cdata": lambda: b"<urlset>" + b"<![CDATA[" * (N // 2),
    "nothing but starts of document types": lambda: b"<!DOCTYPE " * (N // 2),
    "a document type without end": lambda: b"<!DOCTYPE a [" + b"]  " * N,
    "nothing but declarations": lambda: b"<?xml ?>" * (N // 2),
    "nothing but ampersands": lambda: b"<urlset>" + b"&" * 4 * N,
    "nothing but references": lambda: b"<urlset>" + b"&eacute;" * (N // 2),
    "nothing but lines": lambda: b"\n" * 4 * N + b"x",
    "nothing but short lines": lambda: b"a\n" * 2 * N,
    "one address, again and again": lambda: f"{SITE} \n".encode() * (N // 5),
    "one entry, again and again": lambda: f"<urlset>{PAGE}".encode() + PAGE.encode() * (N // 5),
    "one long line": lambda: SITE.encode() + b"x" * 4 * N,
    "one long address": lambda: f"<url><loc>{SITE}".encode() + b"x" * 4 * N,
    "one element of many attributes": lambda: b"<a "
    + b" ".join(b'a%d="b"' % n for n in range(N // 2)),
    "elements of many names": lambda: b"<a>" + b"".join(b"<a%d/>" % n for n in range(N // 2)),
    "billion laughs": lambda: b'<!DOCTYPE a [<!ENTITY l0 "lol">'
    + b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 10))
    + f"]><urlset>{PAGE}<url><loc>{SITE}&l9;</loc></url></urlset>".encode(),
    "quadratic expansion": lambda: b'<!DOCTYPE a [<!ENTITY l "%s">' % (b"x" * 100_000)
    + f"]><urlset>{PAGE}<url><loc>{SITE}{'&l;' * 100_000}</loc></url></urlset>".encode(),
    "parameter entities": lambda: b'<!DOCTYPE a [<!ENTITY % a "'
    + b"x" * 100_000
    + b'">'
    + b"%a;" * 100_000
    + f"]><urlset>{PAGE}</urlset>".encode(),
}  # fmt: skip


def pool_of(memory_mb: int = MEMORY_MB) -> AbstractContextManager[PoolInLoop]:
    return pool_in_loop(1, WAIT_S, memory_mb, 1000)


def used_s(pool: PoolInLoop) -> float:
    """Return the processor time that the process of a pool has used."""
    return pool.run(pool.pool.run(time.process_time, timeout_s=WAIT_S))


def source(body: bytes) -> PageSource:
    return PageSource(url=f"{SITE}s.xml", status=200, body=body, max_bytes=MAX_BYTES)


def urlset(count: int) -> bytes:
    inside = "".join(f"<url><loc>{SITE}page-{n}</loc></url>" for n in range(count))
    return f"<urlset>{inside}</urlset>".encode()


def fail(entries: Iterable[object]) -> None:
    raise LookupError(list(entries))


OPTIONS = crawl_options({"url": SITE})


@pytest.fixture(scope="module")
def full() -> SitemapContent:
    with pool_of() as pool:
        body = gzip.compress(urlset(MAX_URLS), 1)
        choice = SitemapChoice(OPTIONS, SITE)
        return pool.run(pool.pool.read_sitemap(source(body), WAIT_S, choice))


@pytest.mark.full
def test_entries_come_back_in_slices(full):
    rows = [row for each in full.rows for row in json.loads(each)]
    urls = [f"{SITE}page-{n}" for n in range(MAX_URLS)]
    assert rows == [[u, crawl_key(OPTIONS, u), None, None, None] for u in urls]


@pytest.mark.full
def test_content_and_slices_cost_the_reactor_little(full):
    sent = pickle.dumps(full)
    for step in (lambda: pickle.loads(sent), lambda: json.loads(full.rows[0])):
        costs = []
        for _ in range(20):
            started = time.process_time()
            step()
            costs.append(time.process_time() - started)
        assert min(costs) < 0.005


def test_errors_of_the_choice_are_raised():
    with pool_of() as pool, pytest.raises(LookupError):
        pool.run(pool.pool.read_sitemap(source(urlset(1)), WAIT_S, fail))


@pytest.mark.parametrize("timeout_s", [0, -1, 0.001])
def test_no_time_is_an_error(timeout_s):
    with pool_of() as pool:
        content = pool.run(pool.pool.read_sitemap(source(urlset(MAX_URLS)), timeout_s))
    assert "took longer" in content.error.message


def test_no_memory_is_an_error():
    body = gzip.compress(bytes(MAX_BYTES), 1)
    with pool_of(memory_mb=230) as pool:
        content = pool.run(pool.pool.read_sitemap(source(body), WAIT_S))
    assert "more memory" in content.error.message


@pytest.fixture(scope="module")
def pool() -> Iterator[PoolInLoop]:
    with pool_of() as running:
        running.run(running.pool.warm_up())
        yield running


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
@pytest.mark.slow_on("elements of many names", "one element of many attributes")
def test_bombs_end_soon_within_memory(bomb, pool):
    body = gzip.compress(bomb(), 1)
    started = used_s(pool)
    content = pool.run(pool.pool.read_sitemap(source(body), WAIT_S))
    assert used_s(pool) - started < LIMIT_S
    assert len(content.rows) <= 2
    warnings = f"{content.error} {content.warnings}"
    assert "took longer" not in warnings
    assert "more memory" not in warnings
