"""A mail server for tests: it keeps the messages that it is sent."""

from __future__ import annotations

import contextlib
import email
import email.policy
import socketserver
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from email.message import EmailMessage

HOST = "127.0.0.2"  # that of the certificates of the mock site


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        mode = self.server.mode
        with contextlib.suppress(OSError):  # the client may have had enough
            if mode == "endless":
                while True:
                    self.wfile.write(b"220-more\r\n" * 100)
            elif mode == "long":
                self.wfile.write(b"220 " + b"x" * 2**20)
            elif mode == "drips":
                while True:
                    self.wfile.write(b"2")
                    time.sleep(0.05)
            elif mode == "silent":
                self.rfile.read()
            else:
                self._converse(mode)

    def _converse(self, mode: str) -> None:
        self._say("220 ready")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"DATA":
                self._say("354 go on")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                text = b"".join(x.removeprefix(b".") for x in lines)
                found = email.message_from_bytes(text, policy=email.policy.default)
                self.server.messages.append(found)
                self._say("250 taken")
            elif word == b"QUIT":
                self._say("500 stay" if mode == "rude" else "221 bye")
                return
            elif word == b"MAIL" and mode == "drops":
                return
            elif reply := self._refusal(line):
                self._say(reply)
            elif word == b"RCPT" and self.server.refusals:
                self.server.refusals -= 1
                self._say("451 later")
            else:
                self._say("250 ok")

    def _refusal(self, line: bytes) -> str | None:
        """Return the reply to a command that names a refused address, else None."""
        for address, reply in self.server.refused.items():
            if f":<{address}>".encode() in line:
                return reply
        return None

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    messages: list[EmailMessage]
    refusals: int
    refused: dict[str, str]
    mode: str


class MailReceiver:
    """The server in a thread, a context manager.

    It refuses the first ``refusals`` recipients, and the addresses ``refused`` with their
    replies. With ``tls`` it is encrypted from the start. Modes: ``endless`` (a greeting without an
    end), ``long`` (a line of 1 MiB), ``drips`` (a byte at a time), ``silent``, ``drops``
    (closes in the middle), ``rude`` (an error for the goodbye).
    """

    def __init__(
        self,
        refusals: int = 0,
        mode: str = "",
        refused: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ):
        self._server = _Server((HOST, 0), _Handler)
        self._scheme = "smtp"
        if tls is not None:
            self._scheme = "smtps"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.messages = []
        self._server.refusals = refusals
        self._server.mode = mode
        self._server.refused = refused or {}
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def messages(self) -> list[EmailMessage]:
        """The messages so far."""
        return self._server.messages

    @property
    def url(self) -> str:
        port = self._server.server_address[1]
        return f"{self._scheme}://{HOST}:{port}/?from=monitor@a.example"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
