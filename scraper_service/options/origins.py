"""Whom an address belongs to: its origin and its host."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address
from typing import TypeAlias
from urllib.parse import urlsplit

OriginT: TypeAlias = "tuple[str, str, int | None]"

DEFAULT_PORTS = {"http": 80, "https": 443}


@lru_cache(maxsize=256)  # several ask about each address that is fetched
def origin(url: str) -> OriginT:
    """Return scheme, host and port of an absolute address (RFC 6454, section 4).

    What secrets were given for one origin goes to no other.
    """
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    return parts.scheme, host_of(url), port or DEFAULT_PORTS.get(parts.scheme)


def root_url(key: OriginT) -> str:
    """Return the address of an origin, which ends with a slash."""
    scheme, host, port = key
    name = f"[{host}]" if ":" in host else host
    is_usual = (scheme, port) in {("http", 80), ("https", 443)}
    return f"{scheme}://{name}{'' if is_usual else f':{port}'}/"


def robots_url(key: OriginT) -> str:
    """Return the address of the robots.txt of an origin."""
    return f"{root_url(key)}robots.txt"


@lru_cache(maxsize=256)
def host_of(url: str) -> str:
    """Return the host of an absolute address, lower case, without a final dot."""
    return (urlsplit(url).hostname or "").rstrip(".")


def plain_address(url: str) -> str:
    """Return ``url`` with an IPv4 host in its usual spelling, else as it is."""
    parts = urlsplit(url)
    host = host_of(url)
    if not is_numeric(host) or (address := ipv4_address(host)) is None:
        return url
    _, colon, port = parts.netloc.partition(":")
    return parts._replace(netloc=f"{address}{colon}{port}").geturl()


def is_numeric(host: str) -> bool:
    """Tell whether a browser takes ``host`` for an IPv4 address or for none at all."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def ipv4_address(host: str) -> IPv4Address | None:
    """Return the address in any spelling (WHATWG URL, IPv4 parser), None for none.

    ``127.1``, ``2130706433`` and ``0x7f.1`` all are ``127.0.0.1``.
    """
    try:
        *front, last = (_number(part) for part in host.split("."))
    except ValueError:
        return None
    if len(front) > 3 or max(front, default=0) > 255 or last >= 256 ** (4 - len(front)):
        return None
    return IPv4Address(last + sum(n << 8 * (3 - at) for at, n in enumerate(front)))


_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)


def _number(part: str) -> int:
    if not _NUMBER.fullmatch(part):
        raise ValueError(part)  # int() would take "1_0" too
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)
