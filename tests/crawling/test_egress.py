"""The egress rule, as a table; the enforcement is tested through the service."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver

from scraper_service.crawling.download.http_session import open_session
from scraper_service.crawling.egress import (
    EgressPolicy,
    ForbiddenDestination,
    ForbiddenPort,
    Refusals,
)
from scraper_service.crawling.page_errors import page_error

PRIVATE = """
0.0.0.0 10.0.0.1 10.255.255.255 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254
172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1
192.88.99.1 192.168.0.1 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 100::1
2001::1 2001:db8::1 2002:7f00:1:: 3fff::1 2620:4f:8000::1 5f00::1 fc00::1 fd00::1
fe80::1 fe80::1%eth0 fec0::1 ff02::1
""".split()
PUBLIC = """
1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 128.0.0.1 172.15.255.255
172.32.0.0 192.0.1.1 192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255
2606:4700::1111 2a00:1450::1 ::ffff:8.8.8.8
""".split()


@pytest.mark.parametrize("address", PRIVATE)
def test_ip_addresses_that_are_not_public_are_refused(address):
    assert EgressPolicy().refusal(address, 443)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_ip_addresses_are_allowed(address):
    assert EgressPolicy().refusal(address, 443) is None


@pytest.mark.parametrize("port", [0, 22, 25, 6000, 6379, 6667, 10080])
def test_bad_ports_are_refused_on_public_and_allowed_networks(port):
    policy = EgressPolicy(["10.0.0.0/8"])
    assert policy.refusal("1.1.1.1", port)
    assert policy.refusal("10.0.0.1", port)


def test_an_allowed_network_opens_only_its_own_ip_addresses():
    policy = EgressPolicy(["10.1.0.0/16", "fd00::/8"])
    assert policy.refusal("10.1.2.3", 80) is None
    assert policy.refusal("::ffff:10.1.2.3", 80) is None
    assert policy.refusal("fd00::5", 80) is None
    assert policy.refusal("10.2.0.1", 80)


def test_an_allowed_network_with_ports_opens_only_those_ports():
    policy = EgressPolicy(["10.1.0.0/16@80+6379"])
    assert policy.refusal("10.1.0.1", 6379) is None
    assert policy.refusal("10.1.0.1", 8080)


@pytest.mark.parametrize("entry", ["10.0.0.1/8", "nonsense", "10.0.0.0/8@http"])
def test_a_wrong_entry_is_named(entry):
    with pytest.raises(ValueError, match="EGRESS_ALLOW entry"):
        EgressPolicy([entry])


def test_a_refused_ip_address_gets_no_socket_and_is_recorded():
    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))
    with Refusals() as refusals, pytest.raises(ForbiddenDestination):
        EgressPolicy().open_socket(info)
    [error] = refusals.errors
    assert str(error) == (
        "127.0.0.1 is refused (in 127.0.0.0/8); SCRAPER_EGRESS_ALLOW can allow it,"
        " in a Scrapy project the setting EGRESS_ALLOW"
    )


@pytest.mark.parametrize("address", ["127.0.0.1", "1.1.1.1"])
def test_the_error_of_a_bad_port_names_the_port_and_no_network(address):
    with pytest.raises(ForbiddenPort) as caught:
        EgressPolicy().check(address, 9)
    message = page_error(caught.value).message
    assert message.startswith("Port 9 is on the list of ports that no page comes from")
    assert "SCRAPER_EGRESS_ALLOW=NETWORK@9" in message
    assert "network that this service does not fetch from" not in message
    EgressPolicy(["127.0.0.0/8@9", "1.1.1.1/32@9"]).check(address, 9)  # as it says


class Rebinding(AbstractResolver):
    """Answers with the address of the site first, and with loopback from then on."""

    def __init__(self):
        self.addresses = ["127.0.0.2"]

    async def resolve(self, host, port=0, family=socket.AF_INET):
        address = self.addresses.pop() if self.addresses else "127.0.0.1"
        common = {"family": family, "proto": 0, "flags": socket.AI_NUMERICHOST}
        return [{"hostname": host, "host": address, "port": port, **common}]

    async def close(self):
        pass


def test_a_host_name_that_changes_its_ip_address_is_checked_again(site, canary):
    policy = EgressPolicy(["127.0.0.2"])
    port = int(site.url("/").rsplit(":", 1)[1].rstrip("/"))

    async def main():
        session = open_session(None, policy.open_socket)
        session.connector._resolver = Rebinding()
        session.connector._use_dns_cache = False
        before = canary.count()
        async with session:
            async with session.get(f"http://name.test:{port}/text") as response:
                assert response.status == 200
            with Refusals() as refusals, pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://name.test:{canary.port}/")
        assert isinstance(refusals.errors[0], ForbiddenDestination)
        assert canary.count() == before

    asyncio.run(main())
