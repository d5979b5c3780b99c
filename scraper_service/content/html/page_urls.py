"""Addresses as they stand in pages: completed, never normalised."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urljoin, urlsplit

MAX_CANDIDATES = 100  # of one srcset
MAX_CACHED = 1000  # characters of an address
MAX_SRCSET = 50_000  # characters

_WEB = re.compile(r"https?://", re.IGNORECASE)
_BREAKS = re.compile(r"[\t\r\n]")
_DESCRIPTOR = re.compile(r"(\d+(?:\.\d+)?)[wx]")
# Addresses that begin at the root and have nothing in them to resolve or to tidy.
_ROOTED = re.compile(r"/(?:[\w-][^?#\s;\\]*(?:\?[^?#\s]+)?)?\Z", re.ASCII)
# What a site adds to every link, to know a visitor who takes no cookies. The ``s`` of
# other pages than those of forums signs an image.
_SESSION = re.compile(
    r"([?&;])(?:(?:phpsessid|jsessionid|oscsid|zenid|aspsessionid[a-z]*)=[\w.,!-]{20,}"
    r"|sid=(?:[a-z]:)?[0-9a-f]{32}|(?<=\.php\?)s=[0-9a-f]{32})(?:(&)|(?=[#?]|\Z))",
    re.IGNORECASE | re.ASCII,
)
# Parts of what images are called that are nothing to look at.
_PLACEHOLDERS = (
    "placeholder /spacer. blank.gif blank.png clear.gif pixel.gif transparent.gif "
    "transparent.png /loading.gif /loading.svg"
).split()
_SCRIPTS = ("javascript:", "vbscript:")


def absolute(base: str, value: str) -> str | None:
    """Return ``value`` as an absolute address, None if there is none in it.

    A value which starts with ``http://`` or ``https://`` is kept as written.
    Addresses that would run a script are none.
    """
    if len(value) > MAX_CACHED:
        return _absolute.__wrapped__(base, value)
    return _absolute(base, value)


@lru_cache(maxsize=4096)
def _absolute(base: str, value: str) -> str | None:
    """Complete once what is asked for by several formats."""
    value = value.strip()
    if "\n" in value or "\t" in value or "\r" in value:
        value = _BREAKS.sub("", value)
    if _WEB.match(value):
        return value
    if value[:20].lower().lstrip("\0\x01 ").startswith(_SCRIPTS):
        return None
    if len(value) > MAX_CACHED and value[:5].lower() == "data:":
        return value
    if _ROOTED.match(value) and "/." not in value:
        return _origin(base) + value
    try:
        return urljoin(base, value) or None
    except ValueError:  # "http://[bad" and the like
        return None


def without_session(address: str) -> str:
    """Return the URL without the session of the visitor, which means nothing later."""
    if "=" not in address:
        return address
    return _SESSION.sub(lambda m: m[1] if m[1] == "?" and m[2] else m[2] or "", address)


@lru_cache(maxsize=16)
def _origin(base: str) -> str:
    return urljoin(base, "/").removesuffix("/")


def has_place(url: str) -> bool:
    """Tell whether an absolute address has a host, and no port that there cannot be."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_web(address: str | None) -> bool:
    """Tell whether ``address`` is an http(s) address."""
    return bool(address and _WEB.match(address))


def best_candidate(srcset: str) -> str | None:
    """Return the address of the largest image in a ``srcset`` attribute."""
    best, best_size = None, -1.0
    for url, descriptor in _candidates(srcset[:MAX_SRCSET])[:MAX_CANDIDATES]:
        match = _DESCRIPTOR.fullmatch(descriptor)
        size = float(match[1]) if match else 1.0
        if url and size > best_size and not url.startswith("data:"):
            best, best_size = url, size
    return best


def _candidates(srcset: str) -> list[tuple[str, str]]:
    """Split as the HTML standard: a comma may be part of an address."""
    found: list[tuple[str, str]] = []
    url = ""
    for word in srcset.split():
        if url:
            descriptor, comma, following = word.partition(",")
            found.append((url, descriptor))
            url = following if comma else ""
            continue
        if word.endswith(","):
            found.append((word.strip(","), ""))
        else:
            url = word.lstrip(",")
    if url:
        found.append((url, ""))
    return found


def is_placeholder(source: str) -> bool:
    """Tell whether an image only stands where a script puts another one."""
    start = source[:200].lower()
    return start.startswith("data:image/") or any(
        name in start for name in _PLACEHOLDERS
    )
