"""Two services on one PostgreSQL behind nginx restart in turn: no call fails."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from firecrawl import Firecrawl

from tests.conftest import KEY, Service
from tests.support.nginx import PROGRAM, Nginx
from tests.support.waiting import WAIT_S, wait_until

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no nginx")

PAGES = 120
CALLERS = 4
DRAIN_S = 7  # above keepalive_timeout of deploy/nginx.conf


def free_ports(count):
    with ExitStack() as stack:
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        for listener in listeners:
            stack.enter_context(listener)
        return [listener.getsockname()[1] for listener in listeners]


class Callers:
    """Threads that call the service until they are stopped, each call once."""

    def __init__(self, url, site):
        self._url, self._site = url, site
        self._stop = threading.Event()
        self.pages = itertools.count()
        self.errors = []
        self._threads = [threading.Thread(target=self._call) for _ in range(CALLERS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_S)

    def _call(self):
        client = Firecrawl(api_key=KEY, api_url=self._url, max_retries=1)
        while not self._stop.is_set():
            try:
                self._call_each(client, next(self.pages))
            except Exception as error:
                self.errors.append(error)

    def _call_each(self, client, number):
        page = client.scrape(self._site.url(f"/text?{number}"), formats=["markdown"])
        assert page.markdown
        # Some calls last longer than the time until the port is closed.
        slow = client.scrape(self._site.url(f"/delay/{number % 5}?{number}"))
        assert slow.metadata.status_code == 200
        urls = [self._site.url(f"/text?{number}-{n}") for n in range(2)]
        done = client.batch_scrape(urls, poll_interval=1, wait_timeout=WAIT_S)
        assert (done.status, done.completed, len(done.data)) == ("completed", 2, 2)
        assert client.get_credit_usage() is not None


def test_a_rolling_restart_loses_no_call(postgres, tmp_path, site):
    ports = free_ports(2)
    url = postgres()
    with ExitStack() as stack:

        def start(number):
            service = Service(
                tmp_path / str(number),
                SCRAPER_PORT=str(ports[number]),
                SCRAPER_DATABASE_URL=url,
                SCRAPER_KEY_SECRET="the secret of both",
                SCRAPER_ARTEFACTS="inline",
                SCRAPER_DRAIN_S=str(DRAIN_S),
            )
            stack.callback(service.stop)
            return service

        services = [start(number) for number in range(2)]
        proxy = stack.enter_context(Nginx(ports))
        client = Firecrawl(api_key=KEY, api_url=proxy.url, max_retries=1)
        crawl_id = client.start_crawl(
            site.url(f"/site/{PAGES}-slow100/p/"), limit=PAGES
        ).id
        with Callers(proxy.url, site) as callers:
            for number, service in enumerate(services):
                before = next(callers.pages)
                wait_until(lambda b=before: next(callers.pages) > b + CALLERS)
                assert service.stop() == 0, service.stderr
                start(number)
        wait_until(lambda: client.get_crawl_status(crawl_id).status != "scraping")
        crawl = client.get_crawl_status(crawl_id)
        lines = proxy.requests()
    assert callers.errors == []
    assert [line for line in lines if " 200 [" not in line] == []
    assert [line for line in lines if " 502, 200]" in line]  # by a closed port
    assert (crawl.status, crawl.completed, crawl.total) == ("completed", PAGES, PAGES)
    assert len({page.metadata.source_url for page in crawl.data}) == PAGES


def test_a_service_that_drains_serves_and_is_not_ready(start_service, site):
    service = start_service(SCRAPER_DRAIN_S="60")
    os.kill(service.pid, signal.SIGTERM)
    wait_until(lambda: service.get("/health/ready", key=None).status == 503)
    reply = service.post("/v2/scrape", {"url": site.url("/text")})
    assert (reply.status, reply.headers["Connection"]) == (200, "close")
    assert service.get("/health/live", key=None).status == 200
    time.sleep(1)  # signals that come together count once
    os.kill(service.pid, signal.SIGTERM)
    wait_until(lambda: not service.is_running)
