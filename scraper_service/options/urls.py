"""Checks of the texts a caller sends on to the outside: address, headers, selectors.

Only the syntax: which addresses may be fetched is decided where the connection is made.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address
from typing import TYPE_CHECKING

import idna
from attrs import evolve
from cssselect import HTMLTranslator, SelectorError, parse

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options.formats import Attributes, Format
from scraper_service.options.origins import ipv4_address, is_numeric

if TYPE_CHECKING:
    from scraper_service.options.actions import Action

MAX_URL = 8192  # characters
MAX_HOST = 253  # characters, RFC 1035 section 2.3.4
MAX_PORT = 65_535
MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 2**10  # of all names and values together
MAX_SELECTORS = 100
MAX_SELECTOR = 1024  # characters
MAX_SELECTOR_TEXT = (
    16 * 2**10
)  # characters of all together: a compile takes 4 ms per KiB
MAX_SELECTOR_DEPTH = 3  # of parentheses, as in :not(:has(:is(p)))

HeadersT = tuple[tuple[str, str], ...]

# What decides how a message is framed or routed is ours: RFC 9110 sections 7.2, 7.6.1.
_OWN = "connection content-length host http2-settings keep-alive te trailer"
OWN_HEADERS = frozenset(f"{_OWN} transfer-encoding upgrade".split())
OWN_HEADER_PREFIX = "proxy-"

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(//)?(?![0-9])", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_TOP_LEVEL = re.compile(r"[a-z][a-z0-9-]+", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)  # RFC 9110 section 5.6.2
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_QUOTED = re.compile(r"""\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)


def caller_url(text: str) -> str:
    """Return the address ``text``, a missing scheme added, otherwise as it is.

    Host names of one label, user names and every scheme but http(s) are refused;
    address literals (also ``0x7f000001``, ``127.1``) and ``localhost`` pass.

    :raises ValueError: with a message for the caller.
    """
    url = text.strip(" ")
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
    """Return ``headers`` if each may be sent to a site.

    :raises InvalidOptions: with the path ``(name,)`` for each that may not.
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
        if fault := _header_fault(name, value):
            issues.append(Issue("custom", (name,), fault))
    if issues:
        raise InvalidOptions(issues)
    return headers


def caller_selectors(selectors: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``selectors`` if each is a CSS selector that can be used here.

    :raises InvalidOptions: with the path ``(index,)`` for each that is not.
    """
    size = sum(map(len, selectors))
    if len(selectors) > MAX_SELECTORS or size > MAX_SELECTOR_TEXT:
        text = (
            f"at most {MAX_SELECTORS} selectors of {MAX_SELECTOR_TEXT} characters in all "
            f"are allowed, got {len(selectors)} of {size}"
        )
        raise InvalidOptions([Issue("too_big", (), text, {"maximum": MAX_SELECTORS})])
    issues = []
    for index, selector in enumerate(selectors):
        try:
            caller_selector(selector)
        except ValueError as error:
            issues.append(Issue("custom", (index,), str(error)))
    if issues:
        raise InvalidOptions(issues)
    return selectors


def caller_formats(formats: tuple[Format, ...]) -> tuple[Format, ...]:
    """Return ``formats`` if the selectors of all :class:`Attributes` can be used.

    :raises InvalidOptions: with the path of each selector that cannot.
    """
    paths: list[tuple[str | int, ...]] = []
    selectors: list[str] = []
    for index, item in enumerate(formats):
        if isinstance(item, Attributes):
            for number, each in enumerate(item.selectors):
                paths.append((index, "selectors", number, "selector"))
                selectors.append(each.selector)
    try:
        caller_selectors(tuple(selectors))
    except InvalidOptions as error:
        raise InvalidOptions(
            [
                evolve(i, path=paths[int(i.path[0])]) if i.path else i
                for i in error.issues
            ]
        ) from None
    return formats


def caller_actions(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return ``actions`` if the selectors in them can be read.

    :raises InvalidOptions: with the path of each that cannot.
    """
    issues = []
    for index, action in enumerate(actions):
        selector = getattr(action, "selector", None)
        try:
            if selector is not None:
                page_selector(selector)
        except ValueError as error:
            issues.append(Issue("custom", (index, "selector"), str(error)))
    if issues:
        raise InvalidOptions(issues)
    return actions


def page_selector(selector: str) -> str:
    """Return ``selector`` if it is CSS; a browser knows more of it than we do.

    :raises ValueError: with a message for the caller.
    """
    shown = repr(selector[:60])
    if len(selector) > MAX_SELECTOR or _depth(selector) > MAX_SELECTOR_DEPTH:
        raise ValueError(f"not a CSS selector: {shown} is too long or too deep")
    try:
        groups = parse(selector)
    except (SelectorError, RecursionError, ValueError) as error:
        raise ValueError(f"not a CSS selector: {shown}: {str(error)[:100]}") from None
    if any(group.pseudo_element for group in groups):
        raise ValueError(f"not a CSS selector: {shown} has a pseudo-element")
    return selector


def caller_selector(selector: str) -> str:
    """Return ``selector`` if it is a CSS selector of bounded size.

    :raises ValueError: with a message for the caller.
    """
    shown = repr(selector[:60])
    if len(selector) > MAX_SELECTOR:
        raise ValueError(
            f"not a CSS selector: {shown}... has more than {MAX_SELECTOR} characters"
        )
    if _depth(selector) > MAX_SELECTOR_DEPTH:
        raise ValueError(
            f"not a CSS selector: {shown} has more than {MAX_SELECTOR_DEPTH} "
            "parentheses within each other"
        )
    try:
        groups = parse(selector)
        paths = [HTMLTranslator().selector_to_xpath(group) for group in groups]
    except (SelectorError, RecursionError, ValueError) as error:
        raise ValueError(f"not a CSS selector: {shown}: {str(error)[:100]}") from None
    if any(group.pseudo_element for group in groups):
        raise ValueError(f"not a CSS selector: {shown} has a pseudo-element")
    # Also where escapes such as \1 made them: an XPath takes XML's characters only.
    if any(_NOT_XML.search(path) for path in paths):
        raise ValueError(f"not a CSS selector: {shown} has control characters")
    return selector


def caller_domain(text: str) -> str:
    """Return the lower-case ASCII form of a domain; ``*.`` or ``.`` before it is cut.

    :raises ValueError: with a message for the caller.
    """
    domain = text.strip(" ").removeprefix("*").removeprefix(".")
    try:
        return _ascii_host(domain)
    except ValueError:
        raise ValueError(f"not a domain: {text[:60]!r}") from None


def _check_scheme(scheme: str) -> None:
    if scheme.lower() not in {"http", "https"}:
        raise ValueError("URL uses unsupported protocol")


def _check_authority(authority: str) -> None:
    if "@" in authority:
        raise ValueError("Invalid URL: user names and passwords are not allowed in it")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise ValueError("Invalid URL: host and port cannot be read")
    host, port = match[1], match[2]
    if port and not 1 <= int(port) <= MAX_PORT:
        raise ValueError(f"Invalid URL: the port must be 1 to {MAX_PORT}, got {port}")
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
    """Return ``host`` in lower case with A-labels (IDNA 2008)."""
    if not host or len(host) > MAX_HOST:
        raise ValueError(f"Invalid URL: the host must have 1 to {MAX_HOST} characters")
    try:
        mapped = host.lower() if host.isascii() else idna.uts46_remap(host)
        labels = [_ascii_label(label) for label in mapped.split(".")]
    except (idna.IDNAError, UnicodeError):
        raise ValueError("Invalid URL: not a host name") from None
    result = ".".join(labels)
    if len(result) > MAX_HOST:
        raise ValueError(f"Invalid URL: the host has more than {MAX_HOST} characters")
    return result


def _ascii_label(label: str) -> str:
    if label.startswith("xn--"):
        idna.ulabel(label)
    elif not label.isascii():
        return idna.alabel(label).decode("ascii")
    if not _LABEL.fullmatch(label):
        raise idna.IDNAError(label)
    return label


def _header_fault(name: str, value: str) -> str | None:
    lower = name.lower()
    if not _TOKEN.fullmatch(name):
        return "a header name must be a token (letters, digits, - and the like)"
    if lower in OWN_HEADERS or lower.startswith(OWN_HEADER_PREFIX):
        return f"the header {name[:100]!r} is set by the service and cannot be given"
    if _BAD_VALUE.search(value):
        return f"the value of {name[:100]!r} must not have control characters"
    return None


def _depth(selector: str) -> int:
    deepest = depth = 0
    for character in _QUOTED.sub("", selector):
        depth += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, depth)
    return deepest
