"""A collector of traces in its own process, which keeps the spans that it gets.

``python -m tests.support.trace_collector`` prints its URL and ends with its standard input. The
first part of the path is that of the exporter's endpoint: ``/ok``, or ``/silent`` (no response).
"""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple

from tests.support.servers import HttpServer, serve

HOST = "127.0.0.5"
LOG = "/spans"
SILENT_S = 60


class SpanFacts(NamedTuple):
    """A span as the collector has decoded it, ids as hexadecimal digits."""

    name: str
    trace: str
    id: str
    parent: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    is_error: bool
    service: str


class TraceCollector(HttpServer):
    """The collector as a subprocess, a context manager."""

    def __init__(self) -> None:
        super().__init__(__name__)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a service that sends its spans here."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url("/ok"),
            "OTEL_BSP_SCHEDULE_DELAY": "500",  # ms; the default are five seconds
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret-of-the-collector",
        }

    def spans(self, name: str = "") -> list[SpanFacts]:
        """Return the spans whose names begin with ``name``, in the order of their ends."""
        found = [SpanFacts(*each) for each in self.ask(LOG)["spans"]]
        return [each for each in found if each.name.startswith(name)]

    def text(self) -> str:
        """Return all bodies as the exporter has sent them, without compression."""
        found: str = self.ask(LOG)["text"]
        return found

    def keys(self) -> set[str]:
        """Return the values of the header of :attr:`environment`."""
        return set(self.ask(LOG)["keys"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    spans: ClassVar[list[tuple[Any, ...]]] = []
    bodies: ClassVar[list[str]] = []
    keys: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/silent"):
            time.sleep(SILENT_S)
            self.close_connection = True
            return
        self.bodies.append(body.decode("latin-1"))
        self.keys.append(self.headers.get("x-key"))
        self.spans.extend(_decoded(body))
        self._send(b"")

    def do_GET(self) -> None:
        found = {
            "spans": sorted(self.spans, key=lambda each: each[5]),
            "text": "".join(self.bodies),
            "keys": self.keys,
        }
        self._send(json.dumps(found).encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


def _decoded(body: bytes) -> list[tuple[Any, ...]]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    found = []
    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _values(group.resource.attributes)["service.name"]
        for scope in group.scope_spans:
            found += [
                (
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _values(span.attributes),
                    span.status.code == span.status.STATUS_CODE_ERROR,
                    service,
                )
                for span in scope.spans
            ]
    return found


def _values(attributes: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in attributes
    }


def main() -> None:
    server = ThreadingHTTPServer((HOST, 0), _Handler)
    server.daemon_threads = True
    serve(server)


if __name__ == "__main__":
    main()
