"""A place where somebody may or may not connect to."""

from __future__ import annotations

import contextlib
import socket
import threading


class Listener:
    """A port for connections and one for datagrams; :attr:`seen` are both."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self.tcp = socket.create_server((host, 0), backlog=128)
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((host, 0))
        self.seen: list[str] = []
        for work in (self._accept, self._receive):
            threading.Thread(target=work, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self.tcp.accept()
            except OSError:
                return
            self.seen.append("tcp")
            threading.Thread(target=self._read, args=(link,), daemon=True).start()

    def _read(self, link: socket.socket) -> None:
        with link, contextlib.suppress(OSError):
            if data := link.recv(200):
                self.seen.append(f"tcp {data!r}")

    def _receive(self) -> None:
        while True:
            try:
                data, _ = self.udp.recvfrom(2000)
            except OSError:
                return
            self.seen.append(f"udp {data[:50]!r}")

    def fill(self, text: str) -> str:
        """Return a text with our address in it, see ``WAYS``."""
        port, host = self.port, self._host
        udp = self.udp.getsockname()[1]
        return (
            text.replace("{bad}", f"http://{host}:{port}")
            .replace("{host}", f"{host}:{port}")
            .replace("{port}", str(port))
            .replace("{udp}", str(udp))
        )

    def close(self) -> None:
        for link in (self.tcp, self.udp):
            # A close alone does not wake the threads.
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
