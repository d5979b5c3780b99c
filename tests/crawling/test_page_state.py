"""The state of a page belongs to the page: all its requests have it."""

from __future__ import annotations

import pytest
from attrs import evolve
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from scraper_service.crawling.middlewares import SafeRedirect
from scraper_service.crawling.page_state import STATE, FetchLimits, PageState
from scraper_service.items import Rendered
from scraper_service.options.limits import BROWSER
from scraper_service.spiders.base import _next_request
from tests.support.page_states import page_of

URL = "http://a.example/"


def test_a_redirect_has_the_state_of_its_page():
    crawler = get_crawler(Spider)
    crawler.spider = crawler._create_spider("a")
    request = page_of(URL, {"engine": "http"})
    moved = Response(URL, 302, headers={"Location": "/b"})
    redirect = SafeRedirect.from_crawler(crawler).process_response(request, moved)
    assert redirect.url == f"{URL}b"
    assert PageState.of(redirect) is PageState.of(request)


def test_a_further_request_of_a_page_drops_the_state_of_the_response():
    answer = {"response_head": b"HTTP/1.1 200 OK", "rendered": Rendered()}
    page = {"engine": BROWSER, "began_at": 1.0, "team_id": "team"}
    request = page_of(URL, {**answer, **page, "warnings": ("slow",)}, download_slot="a")
    again = _next_request(Response(URL, request=request), redirect_times=1)
    state = PageState.of(again)
    assert state is PageState.of(request)
    assert (state.response_head, state.rendered, state.warnings) == (None, None, ())
    assert (state.engine, state.began_at, state.team_id) == (BROWSER, 1.0, "team")
    assert (again.url, again.meta["redirect_times"]) == (URL, 1)
    assert "download_slot" not in again.meta


@pytest.mark.parametrize("meta", [{}, {STATE: FetchLimits(deadline=1.0)}])
def test_a_robots_txt_and_requests_of_other_projects_are_no_pages(meta):
    request = Request(URL, meta=meta)
    assert PageState.find(request) is None
    assert FetchLimits.of(request).deadline == (1.0 if meta else float("inf"))


def test_each_attempt_of_a_page_has_the_time_of_its_options():
    options = PageState.of(page_of(URL, {})).options
    late = evolve(options, timeout_ms=7000, wait_for_ms=500)
    state = PageState(options=late, scrape_id="1", source_url=URL)
    assert state.time_s == 7.5


def test_a_warning_is_given_once():
    state = PageState.of(page_of(URL, {}))
    for text in ("a", "b", "a"):
        state.warn(text)
    assert state.warnings == ("a", "b")
