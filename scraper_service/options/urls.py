"""The parts of any URL; the syntax of URLs, hosts and headers of callers.

urllib raises errors for malformed URLs, so only this module calls its parser. Which IP addresses may be fetched is decided where the connection is made.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import ada_url
import re2

from scraper_service.errors import InvalidOptions, Issue

OriginT: TypeAlias = "tuple[str, str, int | None]"

DEFAULT_PORTS = {"http": 80, "https": 443}
NO_PARTS = SplitResult("", "", "", "", "")


def url_parts(url: str) -> SplitResult:
    """Return the parts of a URL, for example of a link; all are empty if it is malformed."""
    try:
        parts = urlsplit(url)
        if ":" in parts.netloc:
            _ = parts.port  # raises
    except ValueError:  # such as "http://[bad"
        return NO_PARTS
    return parts


def join_url(base: str, url: str) -> str:
    """Return ``url`` completed by ``base``; empty if one of them is malformed."""
    try:
        return urljoin(base, url)
    except ValueError:
        return ""


@lru_cache(maxsize=256)  # several components call it for each fetched URL
def origin(url: str) -> OriginT:
    """Return scheme, host and port of an absolute URL (RFC 6454, section 4).

    Headers and cookies of one origin are never sent to another.
    """
    parts = url_parts(url)
    return parts.scheme, host_of(url), parts.port or DEFAULT_PORTS.get(parts.scheme)


def root_url(key: OriginT) -> str:
    """Return the URL of an origin, which ends with a slash."""
    scheme, host, port = key
    name = f"[{host}]" if ":" in host else host
    is_usual = (scheme, port) in {("http", 80), ("https", 443)}
    return f"{scheme}://{name}{'' if is_usual else f':{port}'}/"


def robots_url(key: OriginT) -> str:
    """Return the URL of the robots.txt of an origin."""
    return f"{root_url(key)}robots.txt"


@lru_cache(maxsize=256)
def host_of(url: str) -> str:
    """Return the host of an absolute URL in lower case without a final dot.

    A numeric host is returned in the usual spelling of its IPv4 address.
    """
    host = (url_parts(url).hostname or "").rstrip(".")
    return (is_numeric(host) and ipv4_address(host)) or host


def plain_address(url: str) -> str:
    """Return ``url`` with an IPv4 host in its usual spelling, other URLs unchanged."""
    parts, host = url_parts(url), host_of(url)
    if host == parts.hostname or ":" in host or not is_numeric(host):
        return url
    _, colon, port = parts.netloc.partition(":")
    return parts._replace(netloc=f"{host}{colon}{port}").geturl()


def request_url(url: str) -> str:
    """Return ``url`` in ASCII, encoded as in browsers; text that is no URL unchanged.

    Scrapy would encode host names by IDNA 2003, in which ``faß.de`` is another site,
    ``fass.de``.
    """
    try:
        return url if url.isascii() else ada_url.normalize_url(url)
    except ValueError:
        return url


def is_numeric(host: str) -> bool:
    """Return True if a browser parses ``host`` as an IPv4 address, valid or not."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


@lru_cache(maxsize=256)
def ipv4_address(host: str) -> str | None:
    """Return the IPv4 address of a numeric host in its usual spelling, None if it has none.

    ``127.1``, ``2130706433`` and ``0x7f.1`` all are ``127.0.0.1`` (WHATWG URL).
    """
    try:
        return ada_url.URL(f"http://{host}/").hostname
    except ValueError:
        return None


_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)

# Clients know its beginning.
UNSUPPORTED_PROTOCOL = "URL uses unsupported protocol: it must be http or https"
MAX_URL = 8192  # characters
MAX_HOST = 253  # characters, RFC 1035 section 2.3.4
MAX_PORT = 65_535
MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 2**10  # of all names and values together

HeadersT = tuple[tuple[str, str], ...]

# The service sets headers that frame or route messages: RFC 9110 sections 7.2, 7.6.1.
_OWN = "connection content-length host http2-settings keep-alive te trailer"
OWN_HEADERS = frozenset(f"{_OWN} transfer-encoding upgrade".split())
OWN_HEADER_PREFIX = "proxy-"

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(//)?(?![0-9])", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", re.ASCII)
_NOT_IN_HOST = re.compile(r"[\x00-\x7f](?<![A-Za-z0-9._-])")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_TOP_LEVEL = re.compile(r"[a-z][a-z0-9-]+", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)  # RFC 9110 section 5.6.2
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def caller_url(text: str) -> str:
    """Return the URL ``text``, with ``http://`` if it has no scheme.

    Host names of one label, user names and schemes other than http and https are
    refused. IP addresses (also ``0x7f000001``, ``127.1``) and ``localhost`` pass.

    :raises ValueError: with a message for the caller.
    """
    try:
        return _check_url(text.strip(" "))
    except ValueError as error:
        # A text with @ may contain a password.
        if "@" in text:
            raise
        raise ValueError(f"{error}, got {text[:100]!r}") from None


def _check_url(url: str) -> str:
    if not url or len(url) > MAX_URL:
        raise ValueError(f"Invalid URL: it must have 1 to {MAX_URL} characters")
    if _UNSAFE.search(url):
        raise ValueError("Invalid URL: it has control characters or backslashes")
    scheme = re.match(r"([^/?#]*?)://", url)
    if scheme is None:
        if bare := _SCHEME.match(url):
            _check_scheme(bare[1])
            raise ValueError("Invalid URL: the scheme must be followed by //")
        url = "http://" + url
    else:
        _check_scheme(scheme[1])
    _check_authority(re.split(r"[/?#]", url.split("://", 1)[1], maxsplit=1)[0])
    return url


def caller_headers(headers: HeadersT) -> HeadersT:
    """Return ``headers`` if all may be sent to a site.

    :raises InvalidOptions: with the path ``(name,)`` for each refused header.
    """
    issues = []
    size = sum(
        len(name) + len(value.encode(errors="replace")) for name, value in headers
    )
    if len(headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
        text = (
            f"at most {MAX_HEADERS} headers of {MAX_HEADER_BYTES} bytes in all are "
            f"allowed, got {len(headers)} of {size} bytes"
        )
        raise InvalidOptions([Issue("too_big", (), text, {"maximum": MAX_HEADERS})])
    for name, value in headers:
        if message := _header_error(name, value):
            issues.append(Issue("custom", (name,), message))
    if issues:
        raise InvalidOptions(issues)
    return headers


def caller_domain(text: str, example: str = "example.com") -> str:
    """Return a domain in lower-case ASCII, without ``*.`` or ``.`` at its start.

    ``example`` is for the message.

    :raises ValueError: with a message for the caller.
    """
    domain = text.strip(" ").removeprefix("*").removeprefix(".")
    try:
        return _ascii_host(domain)
    except ValueError:
        raise ValueError(
            f"not a domain: {text[:60]!r}; must be a host name, such as {example}"
        ) from None


def host_pattern(text: str) -> str:
    """Return a host, or ``*.`` and a host for its subdomains, in lower-case ASCII.

    :raises ValueError: with a message for the caller.
    """
    domain = caller_domain(text, "example.com or *.example.com")
    return f"*.{domain}" if text.strip(" ").startswith("*.") else domain


def _check_scheme(scheme: str) -> None:
    if scheme.lower() not in {"http", "https"}:
        raise ValueError(UNSUPPORTED_PROTOCOL)


def _check_authority(authority: str) -> None:
    if "@" in authority:
        raise ValueError("Invalid URL: user names and passwords are not allowed in it")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise ValueError("Invalid URL: host and port cannot be read")
    host, port = match[1], match[2]
    if port and not 1 <= int(port) <= MAX_PORT:
        raise ValueError(f"Invalid URL: the port must be 1 to {MAX_PORT}")
    if host.startswith("["):
        _check_ipv6(host[1:-1])
    else:
        _check_host(_ascii_host(host))


def _check_ipv6(text: str) -> None:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise ValueError("Invalid URL: not an IPv6 address") from None
    if address.scope_id is not None:
        raise ValueError("Invalid URL: an IPv6 zone is not allowed")


def _check_host(host: str) -> None:
    labels = host.split(".")
    if is_numeric(host):
        if ipv4_address(host) is None:
            raise ValueError("Invalid URL: not an IPv4 address")
    elif host != "localhost" and not (
        len(labels) > 1 and _TOP_LEVEL.fullmatch(labels[-1])
    ):
        raise ValueError("URL must have a valid top-level domain")


def _ascii_host(host: str) -> str:
    """Return ``host`` in lower case with A-labels, as browsers encode it (UTS #46)."""
    if not host or len(host) > MAX_HOST:
        raise ValueError(f"Invalid URL: the host must have 1 to {MAX_HOST} characters")
    result: str = host.lower()
    if not (host.isascii() or _NOT_IN_HOST.search(host)):
        with suppress(ValueError):
            result = ada_url.URL(f"http://{host}/").hostname
    if not all(map(_LABEL.fullmatch, result.split("."))):
        raise ValueError("Invalid URL: not a host name")
    if len(result) > MAX_HOST:
        raise ValueError(f"Invalid URL: the host has more than {MAX_HOST} characters")
    return result


def _header_error(name: str, value: str) -> str | None:
    lower = name.lower()
    if not _TOKEN.fullmatch(name):
        return (
            "a header name must be a token (letters, digits, - and the like),"
            f" got {name[:100]!r}"
        )
    if lower in OWN_HEADERS or lower.startswith(OWN_HEADER_PREFIX):
        return f"the header {name[:100]!r} is set by the service and cannot be given"
    if _BAD_VALUE.search(value):
        return f"the value of {name[:100]!r} must not have control characters"
    return None


# -- regular expressions of callers, which RE2 runs in linear time -------------------------

MAX_PATTERNS = 100  # of one list
MAX_PATTERN = 1024  # characters
MAX_UNICODE_CLASSES = 100  # and ranges, of one list: RE2 compiles each in 0.1 ms
# Of a compiled list. It bounds the time of a search to about 0.1 s.
MAX_INSTRUCTIONS = 16_384
MAX_LIST_BYTES = 4 * 2**20
# With more memory RE2 takes 17 s to expand 100 times "x{0,1000}".
MAX_PATTERN_BYTES = 2**19

_TOO_LARGE = (
    f"the patterns are too large together, more than {MAX_INSTRUCTIONS} instructions of"
    f" RE2 or {MAX_LIST_BYTES} bytes compiled: write fewer or simpler ones"
)
_UNICODE_CLASS = re.compile(r"\\[pP]|-(?:[^\x00-\xff]|\\x\{)")


class Patterns:
    """A list of regular expressions in RE2's syntax, searched together.

    Matches are case-sensitive and not anchored. The subject is a URL or path in ASCII.
    Patterns with other characters are matched with decoded ``%`` escapes.

    :raises ValueError: for patterns that :func:`caller_patterns` refuses.
    """

    def __init__(self, patterns: tuple[str, ...]):
        self._patterns = patterns
        unique = dict.fromkeys(patterns)
        plain = tuple(text for text in unique if text.isascii())
        other = tuple(text for text in unique if not text.isascii())
        self._plain = _Together(plain) if plain else None
        self._other = _Together(other) if other else None

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def __len__(self) -> int:
        return len(self._patterns)

    def first_match(self, subject: str) -> str | None:
        """Return a pattern that matches in ``subject``, None if no pattern matches."""
        found = self._plain.first_match(subject) if self._plain else None
        if found is None and self._other:
            found = self._other.first_match(unquote(subject))
        return found


class _Together:
    """Patterns compiled into one automaton.

    RE2 checks the memory of a search when it compiles: no search fails for lack of it.
    """

    def __init__(self, patterns: tuple[str, ...]):
        self._patterns = patterns
        self._set = re2.Set.SearchSet(_options(MAX_LIST_BYTES))
        try:
            for pattern in patterns:
                if len(pattern) > MAX_PATTERN:
                    raise ValueError(f"more than {MAX_PATTERN} characters")
                self._set.Add(pattern)
            self._set.Compile()
        except (re2.error, UnicodeEncodeError) as error:
            raise ValueError(str(error)) from None

    def first_match(self, subject: str) -> str | None:
        found = self._set.Match(subject)
        return self._patterns[min(found)] if found else None


def caller_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``patterns`` if all are regular expressions of bounded size.

    A list whose first item is the empty string counts as empty.

    :raises InvalidOptions: with the path ``(index,)`` for each invalid pattern.
    """
    if patterns and not patterns[0]:
        return ()
    if len(patterns) > MAX_PATTERNS:
        text = f"at most {MAX_PATTERNS} patterns are allowed, got {len(patterns)}"
        raise InvalidOptions([Issue("too_big", (), text, {"maximum": MAX_PATTERNS})])
    classes = sum(len(_UNICODE_CLASS.findall(pattern)) for pattern in patterns)
    if classes > MAX_UNICODE_CLASSES:
        text = (
            f"at most {MAX_UNICODE_CLASSES} Unicode classes are allowed, got {classes}"
        )
        raise InvalidOptions([Issue("custom", (), text)])
    issues = _issues(patterns)
    try:
        Patterns(() if issues else patterns)
    except ValueError:
        issues = [Issue("custom", (), _TOO_LARGE)]
    if issues:
        raise InvalidOptions(issues)
    return patterns


def _issues(patterns: tuple[str, ...]) -> list[Issue]:
    """Return the issues of ``patterns``, up to the one that makes them too large."""
    issues: list[Issue] = []
    size = 0
    for index, pattern in enumerate(patterns):
        try:
            size += _size(pattern) if patterns.index(pattern) == index else 0
        except MemoryError:
            return [*issues, Issue("custom", (), _TOO_LARGE)]
        except ValueError as error:
            issues.append(Issue("custom", (index,), str(error)))
        if size > MAX_INSTRUCTIONS:
            return [*issues, Issue("custom", (), _TOO_LARGE)]
    return issues


def _size(pattern: str) -> int:
    """Return the number of instructions of a compiled pattern.

    :raises ValueError: with a message for the caller.
    :raises MemoryError: for a pattern that alone is too large.
    """
    shown = repr(pattern[:60])
    if len(pattern) > MAX_PATTERN:
        raise ValueError(
            f"the pattern {shown}... has more than {MAX_PATTERN} characters"
        )
    try:
        return int(re2.compile(pattern, _options(MAX_PATTERN_BYTES)).programsize)
    except (re2.error, UnicodeEncodeError) as error:
        reason = reason_of(error)
    finally:
        re2.purge()  # its cache of compiled patterns is not bounded in bytes
    if reason.startswith("pattern too large"):
        raise MemoryError(reason)
    raise ValueError(f"not a regular expression (RE2): {shown}: {reason}")


def reason_of(error: re2.error | UnicodeEncodeError) -> str:
    """Return why RE2 refused a pattern, in at most 100 characters."""
    if isinstance(error, UnicodeEncodeError):
        return "it is no Unicode text"
    text = error.args[0]
    shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return shown[:100]


def _options(max_bytes: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = max_bytes
    options.log_errors = False
    options.never_capture = True
    return options
