"""A web site in a subprocess, on 127.0.0.2, with resources named by their behaviour.

``python -m tests.support.mockserver`` prints its base URLs as one JSON line; ``--host`` is
another address. ``--canary`` runs a listener on 127.0.0.1 that no client may connect to.
Both end with SIGTERM or their standard input. The code writes all bytes itself, without an
HTTP library.

===========================  ====================================================
``/``  ``/page/N``           index; pages 1 to 20, linked as a chain
``/article``  ``/big``       realistic pages of 17 kB and 200 kB
``/status/N``                responds with status N
``/delay/SECONDS``           waits, then responds
``/held/NAME``               responds after a request for ``/_release/NAME``
``/slow-body?seconds=``      head and half of the body, waits, the other half
``/redirect/N?to=``          N redirects, then ``to`` (default ``/``)
``/redirect-loop``           redirects to itself
``/redirect-to?url=&status=``  one redirect (302) to any URL
``/meta-refresh?to=&delay=``  page with a meta refresh
``/meta-refresh-loop``       page with a meta refresh to itself
``/refresh-header?to=``      page with a ``Refresh:`` header
``/headers``  ``/cookies``   request headers, cookies as JSON
``/cookies/set?a=b``         sets cookies, redirects to ``/cookies``
``/echo``  ``/echo/...``     path and query as JSON, unchanged
``/html?body=&count=``       the given HTML, ``count`` times
``/example``                 the page of the README's example
``/json`` ``/text`` ``/xml`` ``/rss`` ``/csv`` ``/empty`` ``/iframe`` ``/base64``
                             small documents
``/png`` ``/png-as-html`` ``/binary`` ``/pdf?pages=N`` ``/pdf-broken``
                             no text
``/metas``                   repeated and prefixed meta elements
``/encoding/NAME``           text in NAME, declared in the header
``/encoding/NAME-meta``      ... declared in a meta element only
``/encoding/NAME-none``      ... not declared
``/encoding/lying``          windows-1251, declared as UTF-8
``/gzip`` ``/deflate`` ``/br`` ``/zstd``  small page in that content encoding
``/encodings/N``             N times gzip
``/bomb/CODING?mb=N``        N MiB of spaces in few bytes (default 256)
``/drop``                    accepts, then resets
``/endless``                 body without end
``/drip``                    body of one byte per 0.2 s
``/huge-length``             Content-Length of 1 TB, then silence
``/huge-header``             one header of 32 KiB, legal
``/header-flood``            headers without end
``/site/NAME/p/I``           page I of a linked site: ``tests/support/linked_site.py``
``/_log``                    GET: all requests, as JSON; DELETE: forget them
``/_log?paths=PREFIX``       GET: only the paths that begin with PREFIX
``/_visits?paths=PREFIX``    GET: their clients and times, as JSON
===========================  ====================================================
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import datetime
import functools
import gzip
import html
import ipaddress
import itertools
import json
import math
import socket
import ssl
import struct
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import brotli
from attrs import astuple, define, field, frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support import linked_site
from tests.support.lines import answer_lines
from tests.support.waiting import WAIT_S
from tools.bench import pages
from tools.bench.processes import ServerProcess

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SITE_HOST = "127.0.0.2"
CANARY_HOST = "127.0.0.1"
LAST_PAGE = 20
MIB = 2**20
KEY_USAGES = [
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
]
SMALL_PAGE = b"<title>Small</title><h1>Small page</h1><p>It was packed well.</p>"
SAMPLES = ("潮汐表は港にあります。", "Таблица приливов в порту.", "Marée à Orléans.")
DOCUMENTS = {
    "base64": (
        "text/html",
        (
            b'<h1>Dot</h1><p>Before</p><img alt="dot" src="data:image/gif;base64,'
            b'R0lGODlhAQABAAAAACwAAAAAAQABAAA="><p>After</p>'
        ),
    ),
    "article": ("text/html; charset=utf-8", pages.article()),
    "big": ("text/html; charset=utf-8", pages.long_article()),
    "binary": ("application/octet-stream", bytes(range(256)) * 16),
    "csv": ("text/csv", b"hour,height\n4,5.1\n10,0.7\n"),
    "empty": ("text/html", b""),
    "iframe": ("text/html", b'<h1>Frame</h1><iframe src="/page/1"></iframe>'),
    "json": ("application/json", b'{"harbour": "north", "heights": [5.1, 0.7]}'),
    "metas": (
        "text/html",
        b"""<html lang="en-GB"><head><title>Metas</title>
<meta name="description" content="first"><meta name="description" content="second">
<meta name="keywords" content="tide"><meta name="keywords" content="gauge">
<meta name="robots" content="index">
<meta property="og:title" content="Metas (og)">
<meta property="og:locale:alternate" content="fr_FR">
<meta name="dcterms.created" content="2025-01-01"><meta name="dc.date" content="2025">
<meta name="dc.subject" content="water"><meta name="dcterms.type" content="Text">
<meta property="article:section" content="Harbour">
<meta property="article:tag" content="one"><meta property="article:tag" content="two">
<meta property="article:published_time" content="2025-03-04T05:06:07Z">
<meta name="article:modified_time" content="2025-03-05T05:06:07Z">
<link rel="icon" href="/favicon.svg"></head><body><h1>Metas</h1></body></html>""",
    ),
    "pdf-broken": ("application/pdf", b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pa"),
    "rss": (
        "application/rss+xml",
        (
            b'<?xml version="1.0"?><rss version="2.0"><channel><title>Log</title>'
            b"<item><title>One</title><link>/page/1</link></item></channel></rss>"
        ),
    ),
    "example": (
        "text/html",
        (
            b'<!doctype html><html lang="en"><head><title>Example Domain</title>'
            b'<meta name="viewport" content="width=device-width, initial-scale=1">'
            b"<style>body{width:60vw}</style></head><body><div>"
            b"<h1>Example Domain</h1><p>This domain is for use in documentation "
            b"examples without needing permission. Avoid use in operations.</p>"
            b'<p><a href="https://iana.org/domains/example">Learn more</a></p>'
            b"</div></body></html>"
        ),
    ),
    "text": ("text/plain; charset=utf-8", "Höhe: 5.1 m\n".encode()),
    "xml": ("application/xml", b'<?xml version="1.0"?><tide><at>4</at></tide>'),
}


@frozen
class Asked:
    """A request; ``path`` and ``query`` are unchanged, without decoding and sorting."""

    method: str
    path: str
    query: str
    headers: dict[str, str]  # names in lower case, duplicates joined by ", "
    body: bytes

    def parameter(self, name: str, default: str) -> str:
        pairs = urllib.parse.parse_qs(self.query, keep_blank_values=True)
        return pairs.get(name, [default])[-1]

    @property
    def rest(self) -> str:
        """The path after its first segment, without a slash in front."""
        return self.path.lstrip("/").partition("/")[2]


@frozen
class Answer:
    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = field(default=())

    def head(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} Mock", f"Content-Type: {self.content_type}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.status not in {204, 304}:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


class Visit(NamedTuple):
    """A request as the site has measured it, in seconds since 1970."""

    #: The client's address.
    client: str
    path: str
    begin: float
    #: Just before the response; infinite without a response.
    end: float


@define
class _Visit:
    client: str
    path: str
    begin: float
    end: float = math.inf


Resource = Callable[[Asked], Answer | Awaitable[Answer]]
Stream = Callable[[Asked], AsyncIterator[bytes]]
resources: dict[str, Resource] = {}
streams: dict[str, Stream] = {}  # raw bytes; the connection closes afterwards
seen: collections.deque[dict[str, Any]] = collections.deque(maxlen=50_000)
visits: collections.deque[_Visit] = collections.deque(maxlen=50_000)


def resource(name: str) -> Callable[[Resource], Resource]:
    """Serve ``/name`` and all paths below with the decorated function."""
    return lambda function: resources.setdefault(name, function)


def stream(name: str) -> Callable[[Stream], Stream]:
    return lambda function: streams.setdefault(name, function)


@resource("")
def _index(_asked: Asked) -> Answer:
    links = "".join(f'<li><a href="/page/{n}">Page {n}</a></li>' for n in (1, 2, 3))
    text = f'<title>Index</title><h1>Index</h1><ul>{links}</ul><a href="/article">A</a>'
    return Answer(text.encode())


@resource("page")
def _page(asked: Asked) -> Answer:
    number = int(asked.rest or 1)
    if not 1 <= number <= LAST_PAGE:
        return Answer(b"<h1>No such page</h1>", status=404)
    near = [n for n in (number - 1, number + 1) if 1 <= n <= LAST_PAGE]
    links = "".join(f'<p><a href="/page/{n}">Page {n}</a></p>' for n in near)
    text = f"<title>Page {number}</title><h1>Page {number}</h1><p>Text.</p>{links}"
    return Answer(text.encode())


@resource("site")
async def _site(asked: Asked) -> Answer:
    name, kind, *rest = asked.rest.split("/")
    site = linked_site.named(name)
    number = int(rest[0] or 0) if rest else 0
    if kind != "p" or rest[1:] not in ([], [""]) or number not in range(site.size):
        return Answer(b"<h1>No such page</h1>", status=404)
    await asyncio.sleep(site.delay_s)
    if site.is_flaky(number):
        raise ConnectionAbortedError
    return Answer(site.page(number, "../" * len(rest)))


@resource("status")
def _status(asked: Asked) -> Answer:
    return Answer(f"<h1>Status {asked.rest}</h1>".encode(), status=int(asked.rest))


@resource("delay")
async def _delay(asked: Asked) -> Answer:
    await asyncio.sleep(float(asked.rest))
    return Answer(b"<h1>Waited</h1>")


gates: dict[str, asyncio.Event] = collections.defaultdict(asyncio.Event)


@resource("held")
async def _held(asked: Asked) -> Answer:
    await gates[asked.rest].wait()
    return Answer(b"<h1>Held</h1>")


@resource("_release")
def _release(asked: Asked) -> Answer:
    gates[asked.rest].set()
    return _json(None)


@resource("redirect")
def _redirect(asked: Asked) -> Answer:
    left = int(asked.rest or 1)
    to = asked.parameter("to", "/")
    return _found(f"/redirect/{left - 1}?{asked.query}" if left > 1 else to)


@resource("redirect-loop")
def _redirect_loop(_asked: Asked) -> Answer:
    return _found("/redirect-loop")


@resource("redirect-to")
def _redirect_to(asked: Asked) -> Answer:
    return _found(asked.parameter("url", "/"), int(asked.parameter("status", "302")))


def _found(to: str, status: int = 302) -> Answer:
    return Answer(b"<h1>Moved</h1>", status=status, headers=(("Location", to),))


@resource("meta-refresh")
def _meta_refresh(asked: Asked) -> Answer:
    return _refresh(asked.parameter("to", "/"), asked.parameter("delay", "0"))


@resource("meta-refresh-loop")
def _meta_refresh_loop(_asked: Asked) -> Answer:
    return _refresh("/meta-refresh-loop", "0")


def _refresh(to: str, delay: str) -> Answer:
    content = html.escape(f"{delay}; url={to}")
    text = f'<meta http-equiv="refresh" content="{content}"><h1>Waiting room</h1>'
    return Answer(text.encode())


@resource("refresh-header")
def _refresh_header(asked: Asked) -> Answer:
    value = f"0; url={asked.parameter('to', '/')}"
    return Answer(b"<h1>Waiting room</h1>", headers=(("Refresh", value),))


def _json(value: object) -> Answer:
    return Answer(json.dumps(value).encode(), "application/json")


@resource("headers")
def _headers(asked: Asked) -> Answer:
    return _json(asked.headers)


@resource("cookies")
def _cookies(asked: Asked) -> Answer:
    if asked.rest == "set":
        pairs = urllib.parse.parse_qsl(asked.query)
        cookies = tuple(("Set-Cookie", f"{k}={v}; Path=/") for k, v in pairs)
        headers = (*cookies, ("Location", "/cookies"))
        return Answer(status=302, headers=headers)
    got = [p.strip().partition("=") for p in asked.headers.get("cookie", "").split(";")]
    return _json({name: value for name, _, value in got if name})


@resource("echo")
def _echo(asked: Asked) -> Answer:
    return _json({"path": asked.path, "query": asked.query})


@resource("html")
def _html(asked: Asked) -> Answer:
    text = asked.parameter("body", "") * int(asked.parameter("count", "1"))
    return Answer(text.encode())


@resource("png")
def _png(_asked: Asked) -> Answer:
    return Answer(make_png(), "image/png")


@resource("png-as-html")
def _png_as_html(_asked: Asked) -> Answer:
    return Answer(make_png(), "text/html")


@resource("pdf")
def _pdf(asked: Asked) -> Answer:
    return Answer(make_pdf(int(asked.parameter("pages", "1"))), "application/pdf")


@resource("encoding")
def _encoding(asked: Asked) -> Answer:
    if asked.rest == "lying":
        return Answer(f"<h1>{SAMPLES[1]}</h1>".encode("windows-1251"))
    name = asked.rest.removesuffix("-meta").removesuffix("-none")
    said_by_header = name == asked.rest
    meta = f'<meta charset="{name}">' if asked.rest.endswith("-meta") else ""
    content_type = f"text/html; charset={name}" if said_by_header else "text/html"
    for sample in SAMPLES:
        with contextlib.suppress(UnicodeEncodeError):
            body = f"{meta}<h1>{sample}</h1><p>{sample * 5}</p>".encode(name)
            return Answer(body, content_type)
    return Answer(b"<h1>No sample</h1>", status=404)


@resource("gzip")
@resource("deflate")
@resource("br")
@resource("zstd")
def _packed(asked: Asked) -> Answer:
    coding = asked.path.strip("/")
    return _encoded(b"".join(_pack(coding, [SMALL_PAGE])), coding)


@resource("encodings")
def _encodings(asked: Asked) -> Answer:
    times = int(asked.rest or 2)
    body = SMALL_PAGE
    for _ in range(times):
        body = gzip.compress(body, mtime=0)
    return _encoded(body, ", ".join(["gzip"] * times))


@resource("bomb")
async def _bomb(asked: Asked) -> Answer:
    mib = int(asked.parameter("mb", "256"))
    return _encoded(await asyncio.to_thread(make_bomb, asked.rest, mib), asked.rest)


def _encoded(body: bytes, coding: str) -> Answer:
    return Answer(body, headers=(("Content-Encoding", coding),))


@functools.cache
def make_bomb(coding: str, mib: int) -> bytes:
    return b"".join(_pack(coding, itertools.repeat(b" " * MIB, mib)))


def _pack(coding: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    if coding == "br":
        packer = brotli.Compressor(quality=5, lgwin=24)
        yield from map(packer.process, pieces)
        yield packer.finish()
        return
    packers: dict[str, Callable[[], Any]] = {
        "gzip": lambda: zlib.compressobj(9, wbits=31),
        "deflate": zlib.compressobj,
        "zstd": zstd.ZstdCompressor,
    }
    packer = packers[coding]()
    yield from map(packer.compress, pieces)
    yield packer.flush()


def make_png() -> bytes:
    """Return a red square of 8 by 8 pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        check = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\xff\0\0" * 8) * 8)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", pixels), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def make_pdf(count: int) -> bytes:
    """Return ``count`` pages, each with a heading and two lines of text."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n in range(count):
        text = (
            f"BT /F1 24 Tf 72 760 Td (Page {n + 1} of {count}) Tj "
            "/F1 11 Tf 0 -40 Td (The tide tables hang in the harbour office.) Tj "
            "0 -14 Td (They are printed once a year.) Tj ET"
        )
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * n} 0 R >>"
        )
        objects.append(f"<< /Length {len(text)} >>\nstream\n{text}\nendstream")
    out = "%PDF-1.4\n"
    offsets = []
    for number, value in enumerate(objects, 1):
        offsets.append(f"{len(out):010} 00000 n \n")
        out += f"{number} 0 obj\n{value}\nendobj\n"
    size = len(objects) + 1
    table = f"xref\n0 {size}\n0000000000 65535 f \n{''.join(offsets)}"
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return f"{out}{table}{trailer}".encode()


def _head(*lines: str) -> bytes:
    return "\r\n".join(
        ["HTTP/1.1 200 Mock", "Content-Type: text/html", *lines, "", ""]
    ).encode()


@stream("drop")
async def _drop(_asked: Asked) -> AsyncIterator[bytes]:
    raise ConnectionAbortedError
    yield b""


@stream("endless")
async def _endless(_asked: Asked) -> AsyncIterator[bytes]:
    yield _head("Connection: close")
    while True:
        yield b"<p>more</p>\n" * 1000


@stream("drip")
async def _drip(_asked: Asked) -> AsyncIterator[bytes]:
    yield _head("Content-Length: 1000000")
    while True:
        yield b"."
        await asyncio.sleep(0.2)


@stream("slow-body")
async def _slow_body(asked: Asked) -> AsyncIterator[bytes]:
    first, second = b"<h1>Slow</h1><p>one</p>", b"<p>two</p>"
    yield _head(f"Content-Length: {len(first + second)}") + first
    await asyncio.sleep(float(asked.parameter("seconds", "1")))
    yield second


@stream("huge-length")
async def _huge_length(_asked: Asked) -> AsyncIterator[bytes]:
    yield _head(f"Content-Length: {10**12}") + b"<h1>Soon</h1>"
    await asyncio.Event().wait()


@stream("huge-header")
async def _huge_header(_asked: Asked) -> AsyncIterator[bytes]:
    yield _head(f"X-Huge: {'a' * 32 * 1024}", "Content-Length: 12") + b"<h1>Big</h1>"


@stream("header-flood")
async def _header_flood(_asked: Asked) -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 Mock\r\n"
    for number in itertools.count():
        yield f"X-Flood-{number}: {'a' * 4000}\r\n".encode()


@resource("_log")
def _log(asked: Asked) -> Answer:
    if asked.method == "DELETE":
        seen.clear()
        visits.clear()
    prefix = asked.parameter("paths", "")
    if prefix:
        paths = (request["path"] for request in seen)
        return _json([path for path in paths if path.startswith(prefix)])
    return _json(list(seen))


@resource("_visits")
def _visits(asked: Asked) -> Answer:
    prefix = asked.parameter("paths", "")
    return _json([astuple(each) for each in visits if each.path.startswith(prefix)])


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve the requests of one connection until either side closes it."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
        try:
            while await _answer(await _read_request(reader), writer):
                pass
        except ConnectionAbortedError:  # without lingering, close sends a reset
            peer = writer.get_extra_info("socket")
            peer.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            writer.transport.abort()
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _version = first.split(" ", 2)
    path, _, query = target.partition("?")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        known = headers.get(name.lower())
        headers[name.lower()] = f"{known}, {value.strip()}" if known else value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, query, headers, body)


async def _answer(asked: Asked, writer: asyncio.StreamWriter) -> bool:
    """Write the response; return False if the connection must close afterwards."""
    name = asked.path.split("/")[1]
    visit = _Visit(writer.get_extra_info("peername")[0], asked.path, time.time())
    if not name.startswith("_"):
        visits.append(visit)
        seen.append(
            {
                "method": asked.method,
                "path": f"{asked.path}?{asked.query}" if asked.query else asked.path,
                "headers": asked.headers,
                "body": asked.body.decode("latin-1"),
            }
        )
    if name in streams:
        async for piece in streams[name](asked):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # drain() alone lets a fast reader hold the loop
        return False
    try:
        answer = await _find(name, asked)
    finally:
        # Before the response: the client may send its next request at once.
        visit.end = time.time()
    writer.write(answer.head())
    if asked.method != "HEAD" and answer.status not in {204, 304}:
        writer.write(answer.body)
    await writer.drain()
    return asked.headers.get("connection", "").lower() != "close"


async def _find(name: str, asked: Asked) -> Answer:
    if name in DOCUMENTS:
        content_type, body = DOCUMENTS[name]
        return Answer(body, content_type)
    try:
        answer = resources[name](asked)
        return answer if isinstance(answer, Answer) else await answer
    except (LookupError, ValueError) as error:
        text = html.escape(f"{type(error).__name__}: {error}")
        return Answer(f"<h1>Not found</h1><p>{text}</p>".encode(), status=404)


def make_certificate(
    host: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    days: int = 1,
    signer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None,
) -> x509.Certificate:
    """Return a certificate that expires in ``days``, self-signed without ``signer``."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    issuer, signing_key = (signer[0].subject, signer[1]) if signer else (subject, key)
    signer_public = signing_key.public_key()
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    names: list[x509.GeneralName] = [x509.DNSName(host)]
    with contextlib.suppress(ValueError):
        names = [x509.IPAddress(ipaddress.ip_address(host))]
    usage = dict.fromkeys(KEY_USAGES, False) | {"digital_signature": True}
    usage["key_cert_sign"] = signer is None
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - datetime.timedelta(days=30))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(signer is None, None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_public),
            critical=False,
        )
        .sign(signing_key, hashes.SHA256())
    )


def make_tls_contexts(folder: Path) -> dict[str, ssl.SSLContext]:
    """Return a context for each kind of certificate; ``ca.pem`` is the authority."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = make_certificate("authority.example", ca_key)
    (folder / "ca.pem").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    kinds: dict[str, dict[str, Any]] = {
        "self-signed": {"host": SITE_HOST},
        "expired": {"host": SITE_HOST, "days": -1, "signer": (ca, ca_key)},
        "wrong-name": {"host": "wrong.example", "signer": (ca, ca_key)},
        "valid": {"host": SITE_HOST, "signer": (ca, ca_key)},
        "old-cipher": {"host": SITE_HOST, "signer": (ca, ca_key)},
    }
    contexts = {}
    for kind, options in kinds.items():
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        certificate = make_certificate(key=key, **options)
        path = folder / f"{kind}.pem"
        path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
        contexts[kind] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        contexts[kind].load_cert_chain(path)
    contexts["old-cipher"].maximum_version = ssl.TLSVersion.TLSv1_2
    contexts["old-cipher"].set_ciphers("ECDHE-ECDSA-AES128-SHA")
    return contexts


async def _listen(host: str, context: ssl.SSLContext | None) -> str:
    """Serve the site on a free port and return its URL."""
    server = await asyncio.start_server(_serve, host, 0, ssl=context, limit=MIB)
    scheme = "https" if context else "http"
    return f"{scheme}://{host}:{server.sockets[0].getsockname()[1]}"


async def _run_site(host: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        addresses = {n: await _listen(host, None) for n in ("http", "other")}
        for kind, context in make_tls_contexts(folder).items():
            addresses[kind] = await _listen(host, context)
        said = json.dumps({**addresses, "ca_file": str(folder / "ca.pem")})
        await answer_lines(said, lambda line: None)


async def _run_canary() -> None:
    connections = 0

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(_head("Content-Length: 6", "Connection: close") + b"canary")
        writer.close()

    async def count() -> None:
        await asyncio.sleep(
            0.05
        )  # for connections that only the kernel has accepted so far
        print(f"count {connections}", flush=True)

    server = await asyncio.start_server(trap, CANARY_HOST, 0)
    port = server.sockets[0].getsockname()[1]
    with contextlib.suppress(OSError):  # a machine without IPv6
        await asyncio.start_server(trap, "::1", port)
    loop = asyncio.get_running_loop()
    said = f"http://{CANARY_HOST}:{port}"
    await answer_lines(said, lambda line: loop.create_task(count()))


class MockServer(ServerProcess):
    """The site as a subprocess, on ``host``; a context manager."""

    def __init__(self, host: str = SITE_HOST) -> None:
        super().__init__("tests.support.mockserver", f"--host={host}")
        self.addresses: dict[str, str] = json.loads(self.line("{"))
        self.ca_file = self.addresses.pop("ca_file")
        self._held = itertools.count()

    def url(self, path: str = "/", origin: str = "http") -> str:
        """Return a URL of the site; ``other`` is its second origin."""
        return self.addresses[origin] + path

    def https(self, path: str = "/", certificate: str = "self-signed") -> str:
        """Return an https URL with one of several kinds of certificate.

        Kinds are ``self-signed``, ``expired``, ``wrong-name`` and ``valid``; ``ca_file``
        signs all but the first. ``old-cipher`` has a valid certificate, but only TLS 1.2
        with SHA-1.
        """
        return self.url(path, certificate)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests since the start or :meth:`forget`, the oldest first.

        Keys: ``method``, ``path`` (with its query), ``headers`` (names in lower
        case), ``body`` (Latin-1).
        """
        with _opener.open(self.url("/_log"), timeout=WAIT_S) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found

    def paths(self, prefix: str = "/") -> list[str]:
        """Return the paths of :attr:`requests` with this prefix; fast for thousands."""
        query = urllib.parse.urlencode({"paths": prefix})
        with _opener.open(self.url(f"/_log?{query}"), timeout=WAIT_S) as answer:
            found: list[str] = json.load(answer)
        return found

    def visits(self, prefix: str = "/") -> list[Visit]:
        """Return the requests for paths with this prefix, by their start."""
        query = urllib.parse.urlencode({"paths": prefix})
        with _opener.open(self.url(f"/_visits?{query}"), timeout=WAIT_S) as answer:
            return [Visit(*each) for each in json.load(answer)]

    def held(self) -> str:
        """Return the URL of a new page whose response waits for :meth:`release`."""
        return self.url(f"/held/{next(self._held)}")

    def release(self, url: str) -> None:
        """Let a held page respond from now on."""
        name = url.rpartition("/")[2]
        _opener.open(self.url(f"/_release/{name}"), timeout=WAIT_S).close()

    def forget(self) -> None:
        """Empty :attr:`requests`."""
        request = urllib.request.Request(self.url("/_log"), method="DELETE")
        _opener.open(request, timeout=WAIT_S).close()


class Canary(ServerProcess):
    """A listener that no client may connect to; :meth:`count` returns the connections."""

    def __init__(self) -> None:
        super().__init__("tests.support.mockserver", "--canary")
        self.url = self.line("http")
        self.port = int(self.url.rpartition(":")[2])

    def count(self) -> int:
        """Return the number of connections since the start."""
        self.write("count")
        return int(self.line("count ").removeprefix("count "))


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--canary", action="store_true")
    parser.add_argument("--host", default=SITE_HOST)
    options = parser.parse_args()
    asyncio.run(_run_canary() if options.canary else _run_site(options.host))
