"""Pages of jobs that their site has no time for are fetched again, others are not."""

from __future__ import annotations

import time

import pytest
from scrapy import Spider
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from scraper_service.crawling.middlewares import RetryAfter
from scraper_service.crawling.page_errors import HostBusy
from scraper_service.crawling.page_state import PageState
from scraper_service.items import Lease
from tests.support.page_states import page_of

LEASE = Lease(1, 2, 3, 0)
URL = "http://a.example/"


def middleware_with(times):
    settings = {"RETRY_TIMES": times, "RETRY_HTTP_CODES": [429, 503]}
    crawler = get_crawler(Spider, settings)
    crawler.spider = crawler._create_spider("a")
    return RetryAfter.from_crawler(crawler)


@pytest.fixture
def middleware():
    return middleware_with(3)


def page(lease=LEASE, retry_after_s=0.0, **meta):
    return page_of(URL, {"lease": lease, "retry_after_s": retry_after_s}, **meta)


@pytest.mark.full(keep=4)
@pytest.mark.parametrize(
    ("status", "meta", "is_repeated"),
    [
        (429, {}, True),
        (503, {}, True),
        (503, {"retry_times": 2}, True),
        (503, {"retry_times": 3}, False),
        (429, {"lease": None}, False),
        (200, {}, False),
        (404, {}, False),
        (500, {}, False),
    ],
)
def test_status_codes_decide_whether_a_request_is_retried(
    middleware, status, meta, is_repeated
):
    request, response = page(**meta), Response(URL, status=status)
    found = middleware.process_response(request, response)
    assert (found is not response) == is_repeated
    assert (PageState.of(request).retry_at is not None) == is_repeated


@pytest.mark.parametrize(("times", "wait_s"), [(0, 1), (1, 2), (2, 4)])
def test_each_attempt_comes_later(middleware, times, wait_s):
    request = page(retry_times=times)
    before = time.monotonic()
    again = middleware.process_response(request, Response(URL, status=503))
    after = time.monotonic()
    assert again.meta["retry_times"] == times + 1
    state = PageState.of(again)
    assert state is PageState.of(request)
    assert state.lease is LEASE
    assert before + 0.75 * wait_s <= state.retry_at <= after + 1.25 * wait_s


@pytest.mark.parametrize(("asked_s", "is_repeated"), [(50.0, True), (600.0, False)])
def test_a_single_page_with_a_long_retry_after_is_not_retried(
    middleware, asked_s, is_repeated
):
    request, response = page(retry_after_s=asked_s), Response(URL, status=503)
    again = middleware.process_response(request, response)
    assert (again is not response) == is_repeated
    if is_repeated:
        assert PageState.of(again).retry_at > time.monotonic() + asked_s - 5


def test_a_page_whose_host_was_busy_keeps_its_attempts(middleware):
    request = page(retry_times=3)
    again = middleware.process_exception(request, HostBusy("a.example", 7.5))
    assert (PageState.of(again).retry_at, again.meta["retry_times"]) == (7.5, 3)
    assert again.url == URL


@pytest.mark.parametrize(
    ("meta", "error"),
    [
        ({"lease": None}, HostBusy("a.example", 7.5)),
        ({}, DownloadTimeoutError("late")),
    ],
)
def test_other_failures_stay(middleware, meta, error):
    assert middleware.process_exception(page(**meta), error) is None


@pytest.mark.parametrize(("times", "is_refusing"), [(0, False), (3, True)])
def test_a_host_refuses_all_only_if_pages_were_tried_again(times, is_refusing):
    middleware = middleware_with(times)
    for _ in range(3):
        request, response = page(retry_times=times), Response(URL, status=429)
        assert middleware.process_response(request, response) is response
    assert middleware._pace.refuses_all("a.example") == is_refusing
