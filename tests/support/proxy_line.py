"""A TCP proxy that can stop forwarding without closing its connections."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Self

BYTES = 65_536
LOOK_S = 0.05


class ProxyLine:
    """A proxy to a port of 127.0.0.1, a context manager.

    After :meth:`cut` connections stay open but forward nothing, like behind a firewall
    that has dropped them. New connections are cut as well, until :meth:`mend`. Cut
    connections stay cut.
    """

    def __init__(self, port: int):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_cut = False
        self._ends = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def cut(self) -> None:
        self._is_cut = True

    def mend(self) -> None:
        self._is_cut = False

    def _accept(self) -> None:
        while not self._ends.is_set():
            if not select.select([self._listener], [], [], LOOK_S)[0]:
                continue
            client = self._listener.accept()[0]
            self._sockets.append(client)
            if not self._is_cut:
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # the target is restarting
                    client.close()
                    continue
                self._sockets.append(server)
                thread = threading.Thread(target=self._forward, args=(client, server))
                self._threads.append(thread)
                thread.start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):  # one of the two was killed
            self._exchange(client, server)

    def _exchange(self, client: socket.socket, server: socket.socket) -> None:
        others = {client: server, server: client}
        while not self._ends.is_set():
            for each in select.select(list(others), [], [], LOOK_S)[0]:
                if self._is_cut:
                    return
                data = each.recv(BYTES)
                if not data:
                    with contextlib.suppress(OSError):
                        others[each].shutdown(socket.SHUT_RDWR)
                    return
                others[each].sendall(data)
            if self._is_cut:
                return
