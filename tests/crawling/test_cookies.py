"""A resident crawler must not keep the cookie jar of every page, a job has one."""

from __future__ import annotations

import pytest
from scrapy import Request, Spider, signals
from scrapy.http import Response
from scrapy.utils.test import get_crawler
from twisted.python.failure import Failure

from scraper_service.crawling.middlewares import FreshCookies


def page(number):
    return Request(f"http://a.example/{number}", meta={"cookiejar": number})


@pytest.mark.parametrize("ended_as", ["fetched", "failed"])
def test_the_jar_of_a_page_ends_with_it(ended_as):
    crawler = get_crawler(Spider)
    middleware = FreshCookies.from_crawler(crawler)
    requests = [page(number) for number in range(3)]
    for request in requests:
        middleware.process_request(request)
        assert request.meta["cookiejar"] not in middleware.jars  # it needs none yet
        redirect = Response(request.url, headers={"Set-Cookie": "a=b"})
        middleware.process_response(request, redirect)
    assert len(middleware.jars) == 3
    for request in requests:
        response = Response(request.url, request=request)
        if ended_as == "failed":
            response = Failure(OSError())
            response.request = request
        crawler.signals.send_catch_log(
            signals.item_scraped, item=None, response=response, spider=None
        )
    assert not middleware.jars


def test_the_jar_of_a_job_lasts_for_all_its_pages():
    crawler = get_crawler(Spider)
    middleware = FreshCookies.from_crawler(crawler)
    first, second = (
        Request(f"http://a.example/{number}", meta={"cookiejar": None})
        for number in range(2)
    )
    middleware.process_request(first)
    response = Response(first.url, headers={"Set-Cookie": "a=b"}, request=first)
    middleware.process_response(first, response)
    crawler.signals.send_catch_log(
        signals.item_scraped, item=None, response=response, spider=None
    )
    middleware.process_request(second)
    assert second.headers["Cookie"] == b"a=b"
