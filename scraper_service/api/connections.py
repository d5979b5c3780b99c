"""Limits of open client connections, in total and per client."""

from __future__ import annotations

from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Protocol

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Iterable

IPV6_NETWORK = 64  # bits that a provider gives to one customer


class Phase(Enum):
    """The present use of a connection."""

    HEAD = "between two requests, or in the head of a request"
    BODY = "the body of a request arrives"
    ANSWER = "a request is handled"


class Connection(Protocol):
    """A connection as :class:`Connections` uses it."""

    @property
    def is_sending(self) -> bool:
        """Return True if the client still has to read much of a response."""
        ...

    def close_early(self) -> None:
        """Close the connection in favour of a new one."""
        ...


def peer_address(host: str) -> IPv4Address | IPv6Address:
    """Return an IP address; IPv4 in IPv6 (RFC 4291, 2.5.5.2) as IPv4.

    Raises :exc:`ValueError`.
    """
    address = ip_address(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class TrustedProxies:
    """The networks of reverse proxies.

    Raises :exc:`ValueError` for an invalid network.
    """

    def __init__(self, networks: Iterable[str] = ()):
        self._networks = tuple(ip_network(text.strip()) for text in networks)

    def __contains__(self, host: str) -> bool:
        try:
            address = peer_address(host)
        except ValueError:
            return False
        return any(address in network for network in self._networks)


class _Waiting:
    """Connections without a complete request, the longest waiting first."""

    def __init__(self) -> None:
        self._phases: dict[Phase, dict[Connection, None]] = {
            Phase.HEAD: {},
            Phase.BODY: {},
        }

    def enter(self, connection: Connection, phase: Phase) -> None:
        self.leave(connection)
        if phase in self._phases:
            self._phases[phase][connection] = None

    def leave(self, connection: Connection) -> None:
        for members in self._phases.values():
            members.pop(connection, None)

    def first(self) -> Connection | None:
        """Return the connection to close first, those that send a body last."""
        for members in self._phases.values():
            for connection in members:
                if not connection.is_sending:
                    return connection
        return None


@define(eq=False)
class _Peer:
    count: int = 0
    waiting: _Waiting = field(factory=_Waiting)


class Connections:
    """Counts open connections, in total and per peer.

    A new connection beyond ``most``, or beyond ``most_of_peer`` of its peer, closes the
    connection that has waited longest for a request. If all others are handling
    requests, the new connection is refused. An IPv6 peer is a /64 network. ``proxies``
    have no limit per peer, since they carry many clients.
    """

    def __init__(self, most: int, most_of_peer: int, proxies: TrustedProxies):
        self._most = most
        self._most_of_peer = most_of_peer
        self._proxies = proxies
        self._count = 0
        self._peers: dict[str, _Peer] = {}
        self._names: dict[Connection, str] = {}
        self._waiting = _Waiting()

    def has_room(self, host: str) -> bool:
        """Return True if ``host`` may open a connection; close another if necessary."""
        peer = self._peers.get(_name(host))
        if (
            peer is not None
            and peer.count >= self._most_of_peer
            and host not in self._proxies
            and not self._close_first(peer.waiting)
        ):
            return False
        return self._count < self._most or self._close_first(self._waiting)

    def opened(self, connection: Connection, host: str) -> None:
        """Count a new connection."""
        name = _name(host)
        self._names[connection] = name
        self._peers.setdefault(name, _Peer()).count += 1
        self._count += 1
        self.enter(connection, Phase.HEAD)

    def enter(self, connection: Connection, phase: Phase) -> None:
        """Set the present use of a connection."""
        name = self._names.get(connection)
        if name is not None:
            self._waiting.enter(connection, phase)
            self._peers[name].waiting.enter(connection, phase)

    def closed(self, connection: Connection) -> None:
        """Stop counting a connection; a second call does nothing."""
        name = self._names.pop(connection, None)
        if name is None:
            return
        self._count -= 1
        self._waiting.leave(connection)
        peer = self._peers[name]
        peer.waiting.leave(connection)
        peer.count -= 1
        if not peer.count:
            del self._peers[name]

    def _close_first(self, waiting: _Waiting) -> bool:
        connection = waiting.first()
        if connection is None:
            return False
        self.closed(connection)
        connection.close_early()
        return True


def _name(host: str) -> str:
    """Return the name of the peer that a host belongs to."""
    try:
        address = peer_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(int(address) >> (128 - IPV6_NETWORK))
    return str(address)
