"""Addresses as browsers read them, and the keys under which a crawl knows pages.

The one place that calls the WHATWG parser: all else works on its output.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import ada_url
from tldextract import TLDExtract

MAX_TEXT = 16_384  # characters; what is longer is no address
MAX_READ = 2048  # addresses that are remembered
MAX_ADDRESS = 2000  # characters
MAX_SEGMENTS = 20
MAX_REPEATED_IN_A_ROW = 2
MAX_REPEATED = 3
INDEX_PAGES = ("/index.html", "/index.php")

# Parameters that say who comes from where, and never which page is meant.
_TRACKING = (
    r"utm_[^=&]*|gclid|gclsrc|dclid|gbraid|wbraid|gad_source|gad_campaignid|srsltid"
    r"|fbclid|msclkid|yclid|ysclid|twclid|ttclid|li_fat_id|igshid|igsh|epik|scid"
    r"|mc_cid|mc_eid|mkt_tok|_hsenc|_hsmi|hsctatracking|__hs[a-z]*|_ga|_gl|_openstat"
    r"|vero_id|wickedid|oly_anon_id|oly_enc_id|piwik_[^=&]*|pk_[^=&]*|mtm_[^=&]*"
    r"|phpsessid|jsessionid|aspsessionid[a-z]*|oscsid|zenid|cfid|cftoken"
)
# Names that other sites use for pages: only with a value as long as a session's.
_SESSION = r"(?:sid|s|session|session_?id|sess_?id)=[0-9a-z,-]{26,}"
_NOISE = re.compile(
    rf"(?:^|&)(?:(?:{_TRACKING})(?:=[^&]*)?|{_SESSION})(?=&|$)",
    re.IGNORECASE | re.ASCII,
)
_PATH_SESSION = re.compile(
    r";(?:jsessionid|phpsessid|sid)=[^/;]*|/\((?:[a-z]\([^()/]*\))+\)(?=/)",
    re.IGNORECASE | re.ASCII,
)
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
# An address whose path and query are in their normal form: scheme, host, path, query.
# Dots after a slash, also escaped ones, may stand for a folder.
_TIDY = re.compile(
    r"(https?)://([a-z0-9.:_-]+)(/[\w.~!$&'()*+,;=:@/%-]*)(?:\?([\w.~!$&()*+,;=:@/?%-]*))?",
    re.ASCII,
)
# Hosts in their normal form at sight: no number at the end, no escape of other letters.
_PLAIN_HOST = re.compile(r"(?!.*xn--)(?:[a-z0-9_-]+\.)+[a-z]{2,}", re.ASCII)
# The list packaged with the library, nothing is downloaded or kept on disk. With its
# private part: a.github.io and b.github.io are two sites.
_suffixes = TLDExtract(
    cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True
)
_read: dict[str, Address | None] = {}


class Address(NamedTuple):
    """An address in its normal form (WHATWG URL), and the parts of it.

    ``host`` has the port unless it is the scheme's own, ``query`` and ``fragment`` are
    without their marks. All parts but ``href`` and ``scheme`` are empty for schemes
    other than http(s).
    """

    href: str
    scheme: str
    user: str = ""
    host: str = ""
    path: str = ""
    query: str = ""
    fragment: str = ""

    @property
    def is_web(self) -> bool:
        """Whether the scheme is http or https."""
        return self.path != ""


def parsed(url: str) -> Address | None:
    """Return the parts of an absolute address, None for what is no address.

    A fragment is dropped unless it has a slash: that is a page of its own (a route in
    a script). What was read last is remembered, under its normal form, too.
    """
    try:
        return _read[url]
    except KeyError:
        address = read(url)
    if len(url) > MAX_ADDRESS:
        return address
    if len(_read) >= MAX_READ:
        _read.clear()
    _read[url] = address
    if address is not None:
        _read[address.href] = address
    return address


def read(url: str) -> Address | None:
    """Do what :func:`parsed` does and remember nothing."""
    if len(url) > MAX_TEXT:
        return None
    if tidy := _TIDY.fullmatch(url):
        scheme, host, path, query = tidy.groups("")
        if _is_tidy(scheme, host, path):
            return Address(url, scheme, "", host, path, query)
    try:
        href = ada_url.normalize_url(url)
    except ValueError:
        return None
    if len(href) > MAX_TEXT:
        return None
    scheme, _, rest = href.partition(":")
    if scheme not in {"http", "https"}:
        return Address(href, scheme)
    rest, mark, fragment = rest.partition("#")
    if mark and "/" not in fragment:
        href, fragment = f"{scheme}:{rest}", ""
    rest, _, query = rest.partition("?")
    authority, _, path = rest[2:].partition("/")
    user, _, host = authority.rpartition("@")
    return Address(href, scheme, user, host, "/" + path, query, fragment)


def _is_tidy(scheme: str, host: str, path: str) -> bool:
    if "/." in path or ("%" in path and "%2e" in path.lower()):
        return False
    return bool(_PLAIN_HOST.fullmatch(host)) or _is_origin(f"{scheme}://{host}/")


@lru_cache(maxsize=1024)
def _is_origin(root: str) -> bool:
    """Tell whether the address of a host's root is in its normal form."""
    try:
        return ada_url.normalize_url(root) == root
    except ValueError:
        return False


def followed(url: str) -> str:
    """Return the absolute address ``url`` as it is fetched, in its normal form.

    Without its fragment, unless that has a slash. What is no address comes back as
    it is.
    """
    address = parsed(url)
    return url if address is None else address.href


def page_key(url: str, *, similar: bool = True, ignore_query: bool = False) -> int:
    """Return the key under which a crawl knows ``url``: 8 bytes, signed.

    The escapes of letters, digits and ``-._~`` make no difference (RFC 3986, 6.2.2.2).
    With ``similar``, neither do http and https, ``www.``, a slash at the end,
    ``/index.html`` and ``/index.php``, parameters of tracking and sessions. With
    ``ignore_query``, no query does.
    """
    address = parsed(url)
    if address is None:
        return _digest(url)
    return key_of(address, similar=similar, ignore_query=ignore_query)


def key_of(address: Address, *, similar: bool, ignore_query: bool) -> int:
    """Return what :func:`page_key` does, of an address once parsed."""
    href, scheme, _, host, path, query, fragment = address
    if not path:  # no address of the web
        return _digest(href)
    if "%" in path:
        path = unescaped(path)
    if ignore_query:
        query = ""
    elif query:
        query = unescaped(query)
    if similar:
        scheme, host, path = "", plain_host(host), _similar_path(path)
        if query:
            query = _NOISE.sub("", query).lstrip("&")
    mark = f"#{fragment}" if fragment else ""
    return _digest(f"{scheme}//{host}{path}?{query}{mark}")


def listed(address: Address, *, ignore_query: bool) -> tuple[str, int]:
    """Return ``address`` as a map lists it, and the key of those that are the same.

    No slash at the end, not even of the root; http and https, and ``www.``, make no
    difference (interface document, 13.2).
    """
    path = address.path.rstrip("/")
    query = f"?{address.query}" if address.query and not ignore_query else ""
    rest = f"{query}#{address.fragment}" if address.fragment else query
    key = _digest(f"{plain_host(address.host)}{unescaped(path)}{unescaped(rest)}")
    return f"{address.scheme}://{address.host}{path}{rest}", key


def plain_host(host: str) -> str:
    """Return ``host`` without ``www.`` and without the dot of a complete name."""
    host = host.removeprefix("www.")
    if ":" in host:
        return host.replace(".:", ":")
    return host.removesuffix(".")


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """Return what ``host`` (with its port, if any) is a part of: the registrable domain.

    Below an unknown top-level domain that is the last two labels. An address literal, a
    public suffix and a name of one label are sites of their own, with their port.
    """
    name = host.rpartition(":")[0] if host[-1:].isdigit() and ":" in host else host
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(labels) == 1 or labels[-1].isdigit() or name.startswith("["):
        return host
    found = _suffixes(name)
    if found.suffix:
        return f"{found.domain}.{found.suffix}" if found.domain else host
    return ".".join(labels[-2:])


def growth_of(address: Address) -> str | None:
    """Return how ``address`` shows that it was made up by a loop, None if it does not.

    The names are those of Heritrix's rules.
    """
    if (length := len(address.href)) > MAX_ADDRESS:
        return f"TooLong: {length} of at most {MAX_ADDRESS} characters"
    if address.path.count("/") <= MAX_REPEATED_IN_A_ROW:
        return None
    segments = address.path.removesuffix("/").split("/")[1:]
    if (count := len(segments)) > MAX_SEGMENTS:
        return f"TooManyPathSegments: {count} of at most {MAX_SEGMENTS}"
    if count - len(set(segments)) < MAX_REPEATED_IN_A_ROW:
        return None
    segment, times = Counter(segments).most_common(1)[0]
    if times > MAX_REPEATED:
        return f"PathologicalPath: {segment[:60]!r} {times} times"
    in_a_row = 1
    for last, this in pairwise(segments):
        in_a_row = in_a_row + 1 if this == last else 1
        if in_a_row > MAX_REPEATED_IN_A_ROW:
            return f"PathologicalPath: {this[:60]!r} {in_a_row} times in a row"
    return None


def unescaped(text: str) -> str:
    """Return ``text`` with its needless escapes undone and the others in upper case."""
    return _ESCAPE.sub(_plain_character, text) if "%" in text else text


def _plain_character(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    if character.isascii() and (character.isalnum() or character in "-._~"):
        return character
    return escape[0].upper()


def _similar_path(path: str) -> str:
    if ";" in path or "(" in path:
        path = _PATH_SESSION.sub("", path)
    for index in INDEX_PAGES:
        path = path.removesuffix(index)
    return path.rstrip("/")


def _digest(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
