"""The egress rule: decides which IP addresses may be dialled for callers.

The address of each connection is checked, not the host name, since a name may resolve
differently later (DNS rebinding). All fetches of URLs of callers open their sockets with
:meth:`EgressPolicy.open_socket`.
"""

from __future__ import annotations

import socket
from contextvars import ContextVar
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Self, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from aiohappyeyeballs import AddrInfoType

Network: TypeAlias = "IPv4Network | IPv6Network"


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ip_network(part) for part in text.split())


# IANA special-purpose registries (RFC 6890 and later). ipaddress.is_global is not enough:
# in Python 3.11 multicast, NAT64, 6to4 and more of these are global.
V4_DENIED = _networks(
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12"
    " 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24"
    " 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24"
    " 224.0.0.0/4 240.0.0.0/4"
)
V6_PUBLIC = ip_network("2000::/3")
V6_DENIED = _networks("2001::/23 2001:db8::/32 2002::/16 3fff::/20 2620:4f:8000::/48")

# "Port blocking" of the Fetch standard, https://fetch.spec.whatwg.org/#bad-port, and
# 6379: Redis accepts commands inside an HTTP request.
BAD_PORTS = frozenset(
    int(port)
    for port in (
        "0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103"
        " 104 109 110 111 113 115 117 119 123 135 137 139 143 161 179 389 427 465 512"
        " 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995"
        " 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6379 6566 6665 6666 6667"
        " 6668 6669 6679 6697 10080"
    ).split()
)

_refused: ContextVar[list[ForbiddenDestination] | None] = ContextVar(
    "refused", default=None
)


class ForbiddenDestination(OSError):
    """Raised before any packet is sent to a forbidden IP address."""


class ForbiddenPort(ForbiddenDestination):
    """Raised for a port of :data:`BAD_PORTS` in any network. ``port`` is its number."""

    def __init__(self, reason: str, port: int):
        super().__init__(reason)
        self.port = port


@frozen
class AllowedNetwork:
    """A network that the operator allows."""

    network: Network
    #: Allowed ports. Empty means all ports except :data:`BAD_PORTS`.
    ports: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``NETWORK`` or ``NETWORK@PORT+PORT``.

        Raises :exc:`ValueError` with the entry.
        """
        network, _, ports = text.strip().partition("@")
        try:
            return cls(
                ip_network(network), frozenset(int(p) for p in ports.split("+") if p)
            )
        except ValueError as error:
            raise ValueError(
                f"SCRAPER_EGRESS_ALLOW entry {text!r} must be NETWORK or NETWORK@PORT+PORT,"
                f" such as 10.1.0.0/16@80+8080: {error}"
            ) from None

    def covers(self, address: IPv4Address | IPv6Address, port: int) -> bool:
        if address.version != self.network.version or address not in self.network:
            return False
        return port in self.ports if self.ports else port not in BAD_PORTS


class EgressPolicy:
    """Decides by IP address and port. ``allow`` are networks that the operator allows."""

    def __init__(self, allow: Iterable[str] = ()):
        self.allowed = tuple(AllowedNetwork.parse(entry) for entry in allow if entry)

    def refusal(self, host: str, port: int) -> str | None:
        """Return why the IP address ``host`` is refused, None if it is allowed."""
        address = ip_address(host.split("%", maxsplit=1)[0])
        address = getattr(address, "ipv4_mapped", None) or address
        if any(allowed.covers(address, port) for allowed in self.allowed):
            return None
        if port in BAD_PORTS:
            return f"port {port} is blocked"
        if address.version == 4:
            denied = next((n for n in V4_DENIED if address in n), None)
        elif address not in V6_PUBLIC:
            return "outside 2000::/3"
        else:
            denied = next((n for n in V6_DENIED if address in n), None)
        return f"in {denied}" if denied else None

    def check(self, host: str, port: int) -> None:
        """Raise :exc:`ForbiddenDestination` if ``host`` is refused.

        Raises its subclass :exc:`ForbiddenPort` if the port is refused. Adds the error
        to :class:`Refusals`.
        """
        if reason := self.refusal(host, port):
            text = (
                f"{host} is refused ({reason}); SCRAPER_EGRESS_ALLOW can allow it,"
                " in a Scrapy project the setting EGRESS_ALLOW"
            )
            error = ForbiddenDestination(text)
            if port in BAD_PORTS:
                error = ForbiddenPort(text, port)
            noted = _refused.get()
            if noted is not None:
                noted.append(error)
            raise error

    def open_socket(self, addr_info: AddrInfoType) -> socket.socket:
        """Return a socket for one connection, as aiohttp's ``socket_factory``.

        Raises :exc:`ForbiddenDestination` and adds it to :class:`Refusals`.
        """
        family, kind, protocol, _, address = addr_info
        self.check(*_host_and_port(address))
        return socket.socket(family=family, type=kind, proto=protocol)


class Refusals:
    """Collects the refusals of connections inside a ``with`` block.

    A client may try several addresses and raise an error of its own. This class has the
    refusals among their causes.
    """

    def __init__(self) -> None:
        self.errors: list[ForbiddenDestination] = []

    def __enter__(self) -> Self:
        self._token = _refused.set(self.errors)
        return self

    def __exit__(self, *_: object) -> None:
        _refused.reset(self._token)


def _host_and_port(address: Sequence[object]) -> tuple[str, int]:
    host, port = address[0], address[1]
    assert isinstance(host, str)
    assert isinstance(port, int)
    return host, port
