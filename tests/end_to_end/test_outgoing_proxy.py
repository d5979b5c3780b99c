"""The proxy of ``OUTGOING_PROXY``: everything to other machines goes through it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import why_no_browser
from tests.conftest import Service
from tests.support.chat_server import ChatServer
from tests.support.forward_proxy import ForwardProxy
from tests.support.receiver import Receiver
from tests.support.search_engines import SearchEngines
from tests.support.waiting import WAIT_S, wait_until

# Only the proxy knows this name, as in networks that resolve no public names.
SHOP = "www.shop-behind-the-proxy.example"


class Network:
    """The servers of a test, with a service that reaches them by a proxy."""

    def __init__(self, stack, site, data_dir):
        self.site = site
        address = urlsplit(site.url("/")).netloc
        self.proxy = stack.enter_context(ForwardProxy(names={SHOP: address}))
        self.chat = stack.enter_context(ChatServer())
        self.engines = stack.enter_context(SearchEngines(RESULTS))
        self.receiver = stack.enter_context(Receiver())
        self.environment = {
            **self.chat.environment,
            **self.engines.environment("searxng"),
            "SCRAPER_OUTGOING_PROXY": f"http://me:se%40cret@{self.proxy.address}",
            "SCRAPER_OUTGOING_PROXY_EXCEPT": "direct.example,127.0.0.9/32",
            "SCRAPER_RENDER": "auto",
            "SCRAPER_BROWSER_SANDBOX": "true" if os.geteuid() else "false",
        }
        self.service = stack.enter_context(Service(data_dir, **self.environment))

    def asked(self, part):
        return [line for line in self.proxy.asked if part in line]


RESULTS = {"web": [{"url": f"http://{SHOP}/text", "title": "T", "text": "x"}]}


@pytest.fixture(scope="module")
def network(site, tmp_path_factory):
    with ExitStack() as stack:
        yield Network(stack, site, tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _forget(network):
    network.proxy.asked.clear()
    network.proxy.credentials.clear()


def test_pages_and_robots_txt_come_through_the_proxy(network):
    body = {"url": f"http://{SHOP}/text", "maxAge": 0}
    page = network.service.post("/v2/scrape", body).json["data"]
    assert page["markdown"]
    assert page["metadata"]["proxyUsed"] == "basic"
    assert network.asked(f"GET http://{SHOP}/text ")
    assert {*network.proxy.credentials} == {"Basic bWU6c2VAY3JldA=="}
    job = network.service.post("/v2/crawl", {"url": f"http://{SHOP}/site/3/p/"})
    path = f"/v2/crawl/{job.json['id']}"
    wait_until(lambda: network.service.get(path).json["status"] == "completed")
    done = network.service.get(path).json
    assert done["completed"] == 3, network.service.get(f"{path}/errors").json
    assert network.asked(f"GET http://{SHOP}/robots.txt ")


def test_the_browser_uses_the_proxy(network):
    if why := why_no_browser():
        pytest.skip(why)
    body = {"url": f"http://{SHOP}/text", "maxAge": 0, "waitFor": 1}
    page = network.service.post("/v2/scrape", body).json["data"]
    assert page["metadata"]["engine"] == "browser"
    assert network.asked(f"GET http://{SHOP}/text ")


def test_search_engines_are_reached_through_the_proxy(network):
    reply = network.service.post("/v2/search", {"query": "shop"})
    assert f"http://{SHOP}/text" in {hit["url"] for hit in reply.json["data"]["web"]}
    assert network.asked(f"GET {network.engines.address}")


def test_the_language_model_is_reached_through_the_proxy(network):
    body = {
        "url": f"http://{SHOP}/text",
        "formats": [{"type": "summary"}],
        "maxAge": 0,
        "timeout": 3000,  # the model that is asked has no answer
    }
    network.service.post("/v2/scrape", body)
    assert network.asked("/chat/completions ")


def test_webhooks_are_sent_through_the_proxy(network):
    hook = {"url": network.receiver.url("/hook"), "events": ["completed"]}
    body = {"urls": [f"http://{SHOP}/text?hook"], "webhook": hook}
    network.service.post("/v2/batch/scrape", body)
    wait_until(lambda: network.asked("/hook "))
    assert network.asked(f"POST {network.receiver.url('/hook')} ")


@pytest.mark.parametrize(
    "url",
    [
        "http://10.1.2.3/",
        "http://127.0.0.1:9/",
        "http://[::1]/",
        "http://0x7f.1/",
        "http://wiki/",
        "http://wiki.corp/",
        "http://wiki.localhost/",
    ],
)
def test_private_ip_addresses_and_names_are_refused_before_the_proxy(network, url):
    reply = network.service.post("/v2/scrape", {"url": url, "maxAge": 0})
    assert reply.json["success"] is False
    assert network.proxy.asked == []


def test_webhooks_to_private_ip_addresses_are_not_sent_to_the_proxy(network):
    hook = {"url": "http://10.1.2.3/hook", "events": ["completed"]}
    body = {"urls": [f"http://{SHOP}/text?private"], "webhook": hook}
    job = network.service.post("/v2/batch/scrape", body).json["id"]
    path = f"/v2/batch/scrape/{job}/deliveries"

    def refused():
        reply = network.service.get(path)
        return "must not be reached" in str(reply.json)

    wait_until(refused)
    assert network.asked("/hook ") == []


def test_excepted_hosts_are_reached_directly(network, site):
    url = site.url("/text?direct").replace("127.0.0.2", "127.0.0.9")
    network.service.post("/v2/scrape", {"url": url, "maxAge": 0})
    network.service.post(
        "/v2/scrape", {"url": "http://www.direct.example/", "maxAge": 0}
    )
    assert network.proxy.asked == []


@pytest.mark.full
@pytest.mark.parametrize(
    "proxy", ["https://proxy:3128", "socks5://proxy:1", "http://x"]
)
def test_a_proxy_that_cannot_be_used_ends_the_start(tmp_path, proxy):
    command = ("serve", "--port", "0", "--data-dir", tmp_path)
    done = subprocess.run(
        (sys.executable, "-m", "scraper_service", *command),
        env={**os.environ, "SCRAPER_OUTGOING_PROXY": proxy},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode != 0
    assert "OUTGOING_PROXY must be http://HOST:PORT" in done.stderr


def test_a_proxy_that_is_down_is_named_as_the_reason(start_service):
    service = start_service(SCRAPER_OUTGOING_PROXY="http://127.0.0.9:9")
    body = {"url": f"http://{SHOP}/text", "maxAge": 0}
    reply = service.post("/v2/scrape", body)
    assert reply.json["success"] is False
    assert "proxy" in reply.json["error"]
