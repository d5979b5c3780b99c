"""Pages through the operator's proxies, over HTTP and in the browser."""

from __future__ import annotations

import base64

import pytest

from tests.browser.conftest import SETTINGS
from tests.support.forward_proxy import ForwardProxy


@pytest.fixture(scope="module")
def proxies():
    with ForwardProxy() as basic, ForwardProxy() as stealth:
        yield basic, stealth


@pytest.fixture(scope="module")
def proxied(proxies, tmp_path_factory):
    """Return the service with one proxy of each kind."""
    from tests.conftest import Service

    basic, stealth = proxies
    entries = (
        f"http://{basic.address}",
        f"stealth=http://me:se%40cret@{stealth.address}",
    )
    settings = {**SETTINGS, "SCRAPER_PROXIES": ",".join(entries)}
    service = Service(tmp_path_factory.mktemp("data"), **settings)
    yield service
    assert service.stop() == 0, service.stderr


@pytest.fixture
def page(proxied, app, proxies):
    def call(path, **options):
        for proxy in proxies:
            proxy.asked.clear()
        body = {"url": app.url(path), "maxAge": 0, "timeout": 200_000, **options}
        reply = proxied.post("/v2/scrape", body)
        assert reply.status == 200, reply.json
        return reply.json["data"]

    return call


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("options", [{}, {"waitFor": 1}], ids=["http", "browser"])
def test_pages_go_through_the_basic_proxy(page, proxies, app, options):
    basic, stealth = proxies
    found = page("/links", **options)
    assert found["metadata"]["proxyUsed"] == "basic"
    assert f"GET {app.url('/links')} HTTP/1.1" in basic.asked
    assert stealth.asked == []


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("options", [{}, {"waitFor": 1}], ids=["http", "browser"])
def test_the_stealth_proxy_is_used_with_proxy_stealth(page, proxies, app, options):
    basic, stealth = proxies
    found = page("/links", proxy="stealth", **options)
    assert found["metadata"]["proxyUsed"] == "stealth"
    assert found["metadata"]["creditsUsed"] == 5
    assert "warning" not in found
    assert basic.asked == []
    assert f"GET {app.url('/links')} HTTP/1.1" in stealth.asked
    pair = base64.b64encode(b"me:se@cret").decode()
    assert set(stealth.credentials) == {f"Basic {pair}"}


def test_the_log_names_the_proxy_but_not_its_password(page, proxied, proxies):
    for proxy, kind in zip(proxies, ("basic", "stealth"), strict=True):
        page("/links", proxy=kind)
        line = f"asking 127.0.0.2 through the {kind} proxy http://{proxy.address}"
        assert line in proxied.stderr
    assert "cret" not in proxied.stderr


def test_websockets_of_a_page_go_through_the_proxy(page, proxies):
    basic, _ = proxies
    assert "From a socket" in page("/ws", waitFor=1)["markdown"]
    assert any(line.startswith("CONNECT ") for line in basic.asked)


def test_a_page_that_is_refused_is_tried_with_stealth(start_service, app):
    with ForwardProxy(status=403) as basic, ForwardProxy() as stealth:
        entries = (f"http://{basic.address}", f"stealth=http://{stealth.address}")
        service = start_service(SCRAPER_PROXIES=",".join(entries))
        body = {"url": app.url("/links"), "maxAge": 0}
        reply = service.post("/v2/scrape", {**body, "proxy": "basic"})
        assert reply.json["data"]["metadata"]["statusCode"] == 403
        page = service.post("/v2/scrape", {**body, "proxy": "auto"}).json["data"]
        assert page["metadata"]["statusCode"] == 200
        assert page["metadata"]["proxyUsed"] == "stealth"
        # What is behind them is held to the rule all the same.
        for url in ("http://127.0.0.1:9/", "http://10.0.0.1/"):
            reply = service.post("/v2/scrape", {"url": url, "proxy": "stealth"})
            assert reply.status == 403
        assert not any("10.0.0.1" in line for line in stealth.asked)
