"""Hosts that a page does not reach: those of advertising, and the operator's own list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import SETTINGS
from tests.browser.listener import Listener
from tests.conftest import Service
from tests.support.scripted_site import ScriptedSite, moved
from tests.support.waiting import wait_until

FAR = "127.0.0.3"
ADS = ("ad.doubleclick.net", "pixel.quantserve.com", "cdn.ads.example")
BLOCKED = ("blocked.example", "www.blocked.example")
OTHER = "plain.example"
NAMES = Path(__file__).parents[1] / "names"


@pytest.fixture(scope="module")
def listener():
    far = Listener(FAR)
    yield far
    far.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The service in a web that has names, with a list of hosts that was downloaded."""
    data_dir = tmp_path_factory.mktemp("data")
    (data_dir / "blocklist.txt").write_text("ads.example\n")
    names = dict.fromkeys((*ADS, *BLOCKED, OTHER), FAR)
    running = Service(
        data_dir,
        **SETTINGS,
        SCRAPER_BLOCKED_SITES="blocked.example",
        PYTHONPATH=str(NAMES),
        FAKE_NAMES=" ".join(f"{name}={host}" for name, host in names.items()),
    )
    yield running
    assert running.stop() == 0, running.stderr


@pytest.fixture(scope="module")
def near(listener):
    """A site whose pages ask all the hosts, in the ways that pages do."""

    def asking(*hosts):
        urls = [f"http://{host}:{listener.port}" for host in hosts]
        return "".join(
            f"<link rel=preconnect href='{url}'><img src='{url}/pixel.gif'>"
            f"<script src='{url}/ad.js'></script><iframe src='{url}/frame'></iframe>"
            f"<script>new WebSocket('{url.replace('http', 'ws')}/socket');"
            f"navigator.sendBeacon('{url}/beacon', 'x')</script>"
            for url in urls
        )

    far = f"http://blocked.example:{listener.port}/"
    pages = {
        "/ads": f"<title>Ads</title><p>Beside advertising.</p>{asking(*ADS)}",
        "/blocked": f"<title>Blocked</title><p>Words.</p>{asking(*BLOCKED)}",
        "/plain": f"<title>Plain</title><p>Words.</p>{asking(OTHER)}",
        "/script": f"<p>moving</p><script>location.href = '{far}'</script>",
        "/http": moved(far, 302),
    }
    with ScriptedSite(pages) as site:
        yield site


@pytest.fixture
def asked(service, near, listener):
    """Return a function that renders a path and returns the hosts that were asked."""

    def call(path, **options):
        listener.seen.clear()
        body = {"url": near.url(path), "maxAge": 0, "waitFor": 1000, **options}
        reply = service.post("/v2/scrape", body)
        assert reply.json["data"]["metadata"]["engine"] == "browser", reply.json
        return reply, "\n".join(listener.seen)

    return call


def test_hosts_of_advertising_are_never_contacted(asked, listener):
    _, seen = asked("/ads")
    assert seen == ""
    asked("/plain")
    wait_until(lambda: f"Host: {OTHER}" in "".join(listener.seen))


def test_ads_are_fetched_if_blockAds_is_false(asked, listener):
    asked("/ads", blockAds=False)
    for host in ADS:
        wait_until(lambda host=host: f"Host: {host}" in "".join(listener.seen))


@pytest.mark.slow_on("True")
@pytest.mark.parametrize("block_ads", [True, False])
def test_blocked_sites_are_never_contacted(asked, block_ads):
    _, seen = asked("/blocked", blockAds=block_ads)
    assert seen == ""


@pytest.mark.slow_on("http")
@pytest.mark.parametrize("path", ["/script", "/http"])
def test_a_page_that_moves_to_a_blocked_site_fails(service, near, listener, path):
    listener.seen.clear()
    body = {"url": near.url(path), "maxAge": 0, "waitFor": 1}
    reply = service.post("/v2/scrape", body)
    assert (reply.status, reply.json["code"]) == (403, "UNSUPPORTED_SITE")
    assert "operator" in reply.json["error"]
    assert listener.seen == []
