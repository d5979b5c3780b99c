"""Connections of clients: their deadlines, and limits of their number."""

from __future__ import annotations

import asyncio
import socket
from enum import Enum
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Protocol, cast

from attrs import define, field
from twisted.web import http

from scraper_service.api.errors import error_body
from scraper_service.api.schemas import encode
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from twisted.internet.interfaces import IAddress

# From the first byte of a request to the end of its headers. For the first request of
# a connection, from the start of the connection.
HEADERS_S = 10
BODY_S = 30  # from there to the end of the body
FORM_S = 300  # likewise, for a form with a file
IDLE_S = 60  # between two requests on a connection
LINGER_S = 2  # for a client to read an error while it still sends its body
STALL_MS = 120_000  # until a client that does not read its response is disconnected
MAX_LENGTH_DIGITS = 19  # of Content-Length, as in 2**63 - 1
JSON_TYPE = b"application/json; charset=utf-8"
#: Twisted lacks 429 and 431.
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
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


def is_local_host(host: str) -> bool:
    """Return True for ``localhost`` and for IP addresses, without or with a port.

    No web page can let such a name lead here (DNS rebinding).
    """
    try:
        name = url_parts(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name) is not None
    except ValueError:
        return False


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

    def add(self, connection: Connection, host: str) -> None:
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

    def remove(self, connection: Connection) -> None:
        """Stop counting a connection; a second call has no effect."""
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
        self.remove(connection)
        connection.close_early()
        return True


def _name(host: str) -> str:
    try:
        address = peer_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(int(address) >> (128 - IPV6_NETWORK))
    return str(address)


class DeadlineChannel(http.HTTPChannel):
    """An HTTP connection with deadlines for headers and body, and one request at a time.

    Twisted's idle timeout restarts with every byte, so slow requests could last forever.
    Twisted also handles all requests that have arrived in one iteration of the event loop, whether
    or not the client reads the responses. Here a pipelined request waits for the next iteration,
    and until the client has read all but 64 KiB of the response before it.
    """

    #: Receives the data of a connection that was upgraded or refused.
    receive: Callable[[bytes], None] | None = None
    _connections: Connections
    _deadline: asyncio.TimerHandle | None = None
    _is_silent = True
    #: The request that has ended, while the next one must not begin.
    _ended: Any = None
    _unsent = 0  # bytes, at the last end of the idle time

    @property
    def is_sending(self) -> bool:
        """Return True if the client still has to read more than 64 KiB."""
        return bool(self._waitingForTransport)

    def connectionMade(self) -> None:
        super().connectionMade()
        transport: Any = self.transport
        _limit_stalls(transport)
        self._connections = self.factory.connections
        self._connections.add(self, host_of(transport.getPeer()))
        self._arm(HEADERS_S)

    def dataReceived(self, data: bytes) -> None:
        self._is_silent = False
        if self.receive is not None:
            self.receive(data)
            return
        if self._deadline is None and self.persistent and not self.requests:
            self._arm(HEADERS_S)
        super().dataReceived(data)

    def _maybeChooseTransferDecoder(self, header: bytes, data: bytes) -> bool:
        # Python's int() raises ValueError for more than 4,300 digits.
        if header == b"Content-Length" and len(data) > MAX_LENGTH_DIGITS:
            self._respondToBadRequestAndDisconnect()
            return False
        return bool(super()._maybeChooseTransferDecoder(header, data))

    def allHeadersReceived(self) -> None:
        request: Any = self.requests[-1]
        self._connections.enter(self, Phase.BODY)
        takes_file = request.is_form or request.is_upload
        self._arm(FORM_S if takes_file else BODY_S)
        super().allHeadersReceived()

    def _send100Continue(self) -> None:
        request: Any = self.requests[-1]
        if not request.is_refused:
            super()._send100Continue()

    def allContentReceived(self) -> None:
        self._connections.enter(self, Phase.ANSWER)
        self._disarm()
        super().allContentReceived()

    def writeHeaders(
        self, version: bytes, code: bytes, reason: bytes, headers: Any
    ) -> None:
        """Write the head of a response; a service that leaves closes the connection."""
        # Otherwise a proxy would send its next request on a connection that is about to end.
        if self.site.is_leaving and code != b"101":  # type: ignore[attr-defined]
            headers.setRawHeaders(b"Connection", [b"close"])
            self.persistent = False
        super().writeHeaders(version, code, reason, headers)

    def rawDataReceived(self, data: bytes) -> None:
        super().rawDataReceived(data)
        # The base class does not pause a client that does not read its response.
        if sum(map(len, self._dataBuffer)) > self._optimisticEagerReadSize:
            self._networkProducer.pauseProducing()

    def requestDone(self, request: Any) -> None:
        if not self.persistent:
            super().requestDone(request)
            return
        self._connections.enter(self, Phase.HEAD)
        if self.is_sending or self._buffer or any(self._dataBuffer):
            self._ended = request  # until then all data is kept for later
            self.setTimeout(IDLE_S)
            asyncio.get_running_loop().call_soon(self._begin_next)
        else:
            super().requestDone(request)

    def _begin_next(self) -> None:
        """Read the next request of the connection, if it may begin."""
        request, transport = self._ended, cast("Any", self.transport)
        if request is None or self.is_sending or transport.disconnecting:
            return
        self._ended = None
        if any(self._dataBuffer):
            self._arm(HEADERS_S)
        super().requestDone(request)

    def resumeProducing(self) -> None:
        super().resumeProducing()
        self._begin_next()

    def timeoutConnection(self) -> None:
        """End an idle connection. One whose client still reads its response is not idle."""
        before, self._unsent = self._unsent, self._count_unsent()
        if self._unsent and self._unsent != before:
            self.setTimeout(IDLE_S)
        else:
            super().timeoutConnection()

    def _count_unsent(self) -> int:
        transport: Any = self.transport
        return int(
            len(transport.dataBuffer) - transport.offset + transport._tempDataLen
        )

    def connectionLost(self, reason: Any = None) -> None:
        self._disarm()
        self._connections.remove(self)
        self._ended = None
        self._dataBuffer.clear()
        super().connectionLost(reason)

    def close_early(self) -> None:
        """Close a connection without a request, after its last response is sent."""
        self.receive = _ignore
        self._arm(LINGER_S, self._abort)
        self.loseConnection()

    def lineLengthExceeded(self, line: bytes) -> None:
        self._end(431, "The head of the request is too long.")

    def _respondToBadRequestAndDisconnect(self) -> None:
        """Respond to malformed HTTP in JSON. The base class writes no body."""
        self._end(400, "The request is not valid HTTP/1.1.")

    def _end(self, status: int, error: str) -> None:
        self.clearLineBuffer()
        self.receive = _ignore
        self._disarm()
        refuse(self, status, error)

    def _arm(self, seconds: float, end: Callable[[], None] | None = None) -> None:
        """Call ``end`` after a time, unless the deadline is changed before."""
        self._disarm()
        loop = asyncio.get_running_loop()  # its timers cost less than Twisted's
        self._deadline = loop.call_later(seconds, end or self._too_late)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        if self._is_silent:
            self.close_early()  # nobody waits for a response
        else:
            self._end(408, "The request did not arrive in time.")

    def _abort(self) -> None:
        transport: Any = self.transport
        transport.abortConnection()


def host_of(address: IAddress | None) -> str:
    return getattr(address, "host", "")


def _limit_stalls(transport: Any) -> None:
    """Let the kernel close connections whose client stops reading or is gone."""
    # Not available on every system. Connections of tests have no socket.
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None and hasattr(transport, "getHandle"):
        transport.getHandle().setsockopt(socket.IPPROTO_TCP, option, STALL_MS)


def _ignore(_: bytes) -> None:
    """Discard data after a refused request."""


def refuse(channel: http.HTTPChannel, status: int, error: str) -> None:
    """Write an error response for a request that is not read to its end."""
    body = encode(error_body(error))
    reason = REASONS[status]
    transport: Any = channel.transport
    transport.write(
        b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n"
        b"Connection: close\r\n\r\n%s" % (status, reason, JSON_TYPE, len(body), body)
    )
    # Closed later: closing now could reset the connection before the client has read.
    channel.callLater(LINGER_S, transport.abortConnection)
