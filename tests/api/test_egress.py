"""Nothing a caller says makes the service connect to a forbidden place."""

from __future__ import annotations

import urllib.parse

import pytest

# Forms of 127.0.0.1 which resolvers, browsers and people know.
LOOPBACK = """
127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 0177.0.0.1 0 0.0.0.0 localhost
LOCALHOST [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] [0:0:0:0:0:0:0:1] 127.000.000.001
[::] [::127.0.0.1] \uff11\uff12\uff17.\uff10.\uff10.\uff11 127\u30020\u30020\u30021 localhost.
""".split()
UNROUTED = """
10.0.0.1 172.16.0.1 192.168.0.1 169.254.169.254 100.64.0.1 198.18.0.1 224.0.0.1
[fe80::1] [fc00::1] [64:ff9b::7f00:1] [2002:7f00:1::]
""".split()


def code_of(reply):
    assert reply.json["success"] is False, reply.json
    return reply.status, reply.json.get("code")


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_in_any_spelling_is_not_connected_to(service, canary, host):
    before = canary.count()
    reply = service.post("/v2/scrape", {"url": f"http://{host}:{canary.port}/"})
    assert reply.json["success"] is False
    assert reply.status in {400, 403, 200}  # syntax, address, name
    assert canary.count() == before


@pytest.mark.parametrize("host", UNROUTED)
def test_private_networks_are_refused_at_once(service, host):
    reply = service.post("/v2/scrape", {"url": f"http://{host}/", "timeout": 2000})
    assert code_of(reply) == (403, "UNSUPPORTED_SITE")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "0x7f000001"])
@pytest.mark.parametrize(
    "hop",
    [
        "/redirect-to?url={}",
        "/redirect-to?status=307&url={}",
        "/meta-refresh?to={}",
        "/refresh-header?to={}",
    ],
)
def test_every_hop_is_checked(service, site, canary, hop, host):
    before = canary.count()
    target = urllib.parse.quote(f"http://{host}:{canary.port}/", safe="")
    reply = service.post("/v2/scrape", {"url": site.url(hop.format(target))})
    assert code_of(reply) == (403, "UNSUPPORTED_SITE")
    assert canary.count() == before


@pytest.mark.parametrize(
    "target",
    [
        *("file:///etc/passwd", "ftp://127.0.0.1/", "data:,x"),
        *("mailto:a@a.example", "javascript:alert(1)", "http://[::1", "http://["),
        *("http://127.0.0.2:99999/", "http://127.0.0.2:x/"),
    ],
)
def test_a_redirect_to_another_scheme_is_not_followed(service, site, target):
    quoted = urllib.parse.quote(target, safe="")
    reply = service.post(
        "/v2/scrape",
        {"url": site.url(f"/redirect-to?url={quoted}"), "formats": ["html"]},
    )
    assert reply.status == 200
    assert reply.json["data"]["metadata"]["statusCode"] == 302
    assert "root:" not in reply.json["data"]["html"]


@pytest.mark.parametrize("port", [1, 22, 25, 6000, 6379, 10080])
def test_bad_ports_are_refused(service, port):
    reply = service.post("/v2/scrape", {"url": f"http://127.0.0.2:{port}/"})
    assert code_of(reply) == (403, "UNSUPPORTED_SITE")


def test_an_open_and_a_closed_forbidden_port_look_the_same(service, canary):
    bodies = []
    for port in (canary.port, 40_001, 40_003):
        reply = service.post("/v2/scrape", {"url": f"http://127.0.0.1:{port}/"})
        bodies.append((reply.status, reply.json))
    assert bodies[0] == bodies[1] == bodies[2]


@pytest.mark.parametrize(
    "scheme", ["file", "ftp", "data", "javascript", "view-source:http"]
)
def test_other_schemes_are_a_bad_request(service, scheme):
    for version in ("v1", "v2"):
        reply = service.post(f"/{version}/scrape", {"url": f"{scheme}://127.0.0.2/"})
        assert reply.status == 400
        assert reply.json["details"][0]["path"] == ["url"]


def test_proxies_of_the_environment_are_ignored(start_service, site):
    dead = "http://127.0.0.1:9"
    service = start_service(http_proxy=dead, https_proxy=dead, HTTP_PROXY=dead)
    assert service.post("/v2/scrape", {"url": site.url("/text")}).status == 200
