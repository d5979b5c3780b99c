"""The operator's proxies: how they are written, and which one is chosen."""

from __future__ import annotations

import pytest

from scraper_service.crawling.proxies import Proxies, UpstreamProxy


def test_a_proxy_is_read_with_kind_and_credentials():
    proxy = UpstreamProxy.parse("stealth=http://user:p%40ss@proxy.example:8080")
    assert (proxy.kind, proxy.host, proxy.port) == ("stealth", "proxy.example", 8080)
    assert (proxy.user, proxy.password) == ("user", "p@ss")
    assert UpstreamProxy.parse("http://proxy.example:1").kind == "basic"
    assert "p@ss" not in repr(proxy)


@pytest.mark.parametrize(
    "text",
    [
        "proxy.example:80",
        "other=http://a:1",
        "http://a",
        "socks5://a:1",
        "http://a:x",
        "",
    ],
)
def test_an_invalid_proxy_url_is_refused_without_showing_its_password(text):
    with pytest.raises(ValueError, match="PROXIES entries must be"):
        UpstreamProxy.parse(text)
    with pytest.raises(ValueError, match="PROXIES") as error:
        UpstreamProxy.parse("bad=http://user:secret@a:1")
    assert "secret" not in str(error.value)
    assert "got 'a:1'" in str(error.value)


def test_the_healthiest_is_chosen_and_a_session_stays():
    proxies = Proxies(["http://a:1", "http://b:1", "stealth=http://c:1"])
    assert {proxies.choose("basic").host for _ in range(50)} == {"a", "b"}
    first = proxies.choose("basic", "session")
    assert {proxies.choose("basic", "session") for _ in range(20)} == {first}
    first.note_failure()
    first.note_failure()
    assert proxies.choose("basic", "session") is not first
    assert {proxies.choose("basic") for _ in range(20)} != {first}
    first.note_success()
    first.note_success()
    first.note_success()
    assert first.weakness < 0.5
    assert proxies.choose("stealth").host == "c"
    assert Proxies([]).choose("basic") is None
