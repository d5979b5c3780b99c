"""A forward proxy in a thread, which records its requests."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class ForwardProxy:
    """A proxy for HTTP requests and tunnels, a context manager.

    A ``status`` other than 0 is the response to every request. ``asked`` has the first
    line of each request, ``credentials`` the values of ``Proxy-Authorization``. ``names``
    has the addresses of host names that only the proxy knows, as ``HOST:PORT``.
    """

    def __init__(
        self,
        status: int = 0,
        host: str = "127.0.0.1",
        names: dict[str, str] | None = None,
    ):
        self._status = status
        self._names = names or {}
        self._socket = socket.create_server((host, 0))
        self.asked: list[str] = []
        self.credentials: list[str] = []
        self.address = f"{host}:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with link, contextlib.suppress(OSError, ValueError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (data := link.recv(65536)):
                    return
                head += data
            line, *fields = head.partition(b"\r\n\r\n")[0].decode().split("\r\n")
            self.asked.append(line)
            names = [f.partition(": ") for f in fields]
            self.credentials += [
                v for n, _, v in names if n.lower() == "proxy-authorization"
            ]
            method, target, _ = line.split(" ")
            if self._status:
                link.sendall(
                    f"HTTP/1.1 {self._status} No\r\nContent-Length: 0\r\n"
                    "Connection: close\r\n\r\n".encode()
                )
                return
            place = target if method == "CONNECT" else target.split("/")[2]
            place = self._names.get(place.partition(":")[0], place)
            host, _, port = place.rpartition(":")
            with socket.create_connection((host, int(port))) as far:
                if method == "CONNECT":
                    link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                else:
                    path = "/" + target.split("/", 3)[3]
                    kept = [
                        f
                        for f in fields
                        if not f.lower().startswith(("proxy-", "connection:"))
                    ]
                    lines = [f"{method} {path} HTTP/1.1", *kept, "Connection: close"]
                    far.sendall("\r\n".join([*lines, "", ""]).encode())
                up = threading.Thread(target=_carry, args=(link, far), daemon=True)
                up.start()
                _carry(far, link)


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
