"""URLs as pages write them: completed, encoded only where they cannot stay, and judged.

Hosts and paths of advertising and tracking are those that ``blockAds`` blocks. Frames of these
hosts are no players, so they are in no format. The built-in rules are our own. The operator may
add a list: a host name per line, also as a hosts file or as ``||host^``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import ada_url

from scraper_service.options.urls import join_url, url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_CANDIDATES = 100  # images in one srcset
MAX_CACHED = 1000  # characters of a URL
MAX_SRCSET = 50_000  # characters
XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"

_WEB = re.compile(r"https?://", re.IGNORECASE)
_BREAKS = re.compile(r"[\t\r\n]")
# Characters that the serializer of a URL replaces (WHATWG URL).
_UNENCODED = re.compile(r"[^!#-;=?-\[\]_a-z|~]")
_DESCRIPTOR = re.compile(r"(\d+(?:\.\d+)?)[wx]")
# URLs that begin at the root, without parts to resolve or to tidy.
_ROOTED = re.compile(r"/(?:[\w-][^?#\s;\\]*(?:\?[^?#\s]+)?)?\Z", re.ASCII)
# URLs that begin with a host, whose scheme is that of the page.
_HOSTED = re.compile(r"//[\w.-]+(?::\d+)?(?:/[^?#\s;\\]*(?:\?[^?#\s]+)?)?\Z", re.ASCII)
# URLs whose path needs no change, not even for comparisons.
_PLAIN_URL = re.compile(r"https?://[a-z0-9.:_-]+(/[\w.~!$&*+,=:@/-]*)\Z", re.ASCII)
# Session ids that a site adds to every link, for visitors without cookies. ``s`` is a
# session in forums only; elsewhere it may sign an image.
_SESSION = re.compile(
    r"([?&;])(?:(?:phpsessid|jsessionid|oscsid|zenid|aspsessionid[a-z]*)=[\w.,!-]{20,}"
    r"|sid=(?:[a-z]:)?[0-9a-f]{32}|(?<=\.php\?)s=[0-9a-f]{32})(?:(&)|(?=[#?]|\Z))",
    re.IGNORECASE | re.ASCII,
)
# Parts of the names of placeholder images.
PLACEHOLDERS = (
    "placeholder /spacer. blank.gif blank.png clear.gif pixel.gif transparent.gif "
    "transparent.png /loading.gif /loading.svg"
).split()
_SCRIPTS = ("javascript:", "vbscript:")
# Schemes whose URLs have slashes for backslashes, as those without a scheme have here.
_SLASHED = frozenset({"http", "https", "ftp", "ws", "wss", "file"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def absolute(base: str, value: str) -> str | None:
    """Return ``value`` as an absolute URL, None for an unusable value or a script.

    A value that starts with ``http://`` or ``https://`` stays as written, except for
    backslashes.
    """
    if len(value) > MAX_CACHED:
        return _absolute.__wrapped__(base, value)
    return _absolute(base, value)


@lru_cache(maxsize=4096)
def _absolute(base: str, value: str) -> str | None:
    """Complete a URL; cached, as several formats need the same URL."""
    value = value.strip()
    if "\n" in value or "\t" in value or "\r" in value:
        value = _BREAKS.sub("", value)
    if "\\" in value:
        value = _with_slashes(value)
    if _WEB.match(value):
        return value
    if value[:20].lower().lstrip("\0\x01 ").startswith(_SCRIPTS):
        return None
    if len(value) > MAX_CACHED and value[:5].lower() == "data:":
        return value
    if _ROOTED.match(value) and "/." not in value:
        return origin_of(base) + value
    if _HOSTED.match(value) and base.startswith(("http:", "https:")):
        return base[: base.index(":") + 1] + value
    return join_url(base, value) or None


def _with_slashes(value: str) -> str:
    """Return a URL with slashes for the backslashes of its path, as browsers parse it.

    Query, fragment and URLs of other schemes, such as ``mailto:``, stay unchanged.
    """
    scheme = _SCHEME.match(value)
    if scheme is not None and scheme[1].lower() not in _SLASHED:
        return value
    end = min((n for mark in "?#" if (n := value.find(mark)) >= 0), default=len(value))
    return value[:end].replace("\\", "/") + value[end:]


def xml_base(element: Any, url: str) -> str:
    """Return the base URL of an XML element in the document ``url``.

    Each ``xml:base`` of the element and those around it changes the base (W3C XML Base).
    """
    values = [each.get(XML_BASE) for each in (element, *element.iterancestors())]
    for value in filter(None, reversed(values)):
        changed = absolute(url, value)
        url = changed if changed and is_web(changed) else url
    return url


def encode_url(url: str) -> str:
    """Return an absolute URL without characters that a URL cannot have, as browsers send it.

    Other URLs are returned unchanged, also those that are not in normal form.
    """
    if not _UNENCODED.search(url):
        return url
    try:
        return ada_url.normalize_url(url)
    except ValueError:
        return url


def without_session(url: str) -> str:
    """Return the URL without the visitor's session, which means nothing later."""
    if "=" not in url:
        return url
    return _SESSION.sub(lambda m: m[1] if m[1] == "?" and m[2] else m[2] or "", url)


@lru_cache(maxsize=16)
def origin_of(base: str) -> str:
    """Return scheme, host and port of a URL; empty for an invalid URL."""
    return join_url(base, "/").removesuffix("/")


def has_host(url: str) -> bool:
    """Return True if an absolute URL has a host, and no impossible port."""
    parts = url_parts(url)
    return bool(parts.hostname) and parts.port != 0


def plain_path(url: str) -> int:
    """Return where the path of a plain http(s) URL starts; 0 for others.

    Such a URL has only letters, digits and a few other characters in ASCII. The scheme and
    the host are in lower case. The path has no dot after a slash; nothing follows it.
    """
    found = _PLAIN_URL.match(url)
    return 0 if found is None or "/." in found[1] else found.start(1)


def is_route(fragment: str) -> bool:
    """Return True if a fragment is a route of a script, and so a page of its own.

    A route has a slash (``/guide``) or starts with ``!`` (``!guide``). Directives of the
    browser (``:~:text=a/b``) are no part of it.
    """
    name = fragment.partition(":~:")[0]
    return "/" in name or (name[:1] == "!" and len(name) > 1)


def without_fragment(url: str) -> str:
    """Return a URL without its fragment, unless that is a route of a script."""
    page, _, fragment = url.partition("#")
    return url if is_route(fragment) else page


def is_web(url: str | None) -> bool:
    """Return True if ``url`` is an http(s) URL."""
    return bool(url and _WEB.match(url))


def best_candidate(srcset: str) -> str | None:
    """Return the URL of the largest image in a ``srcset`` attribute."""
    best, best_size = None, -1.0
    for url, descriptor in _candidates(srcset[:MAX_SRCSET])[:MAX_CANDIDATES]:
        match = _DESCRIPTOR.fullmatch(descriptor)
        size = float(match[1]) if match else 1.0
        if url and size > best_size and not url.startswith("data:"):
            best, best_size = url, size
    return best


def _candidates(srcset: str) -> list[tuple[str, str]]:
    """Return the URLs and descriptors of a ``srcset``.

    The split follows the HTML standard: a comma may be part of a URL.
    """
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
    """Return True for the URL of an image that a script replaces."""
    start = source[:200].lower()
    return start.startswith("data:image/") or any(
        name in start for name in PLACEHOLDERS
    )


BLOCKLIST = "blocklist.txt"  # in DATA_DIR
MAX_HOSTS = 1_000_000
#: The hosts of advertising, tracking and consent; all their subdomains count.
AD_HOSTS = frozenset(
    """
    2mdn.net adform.net adlightning.com admob.com adnxs.com adroll.com ads-twitter.com
    adsafeprotected.com adsrvr.org adsymptotic.com amazon-adsystem.com amplitude.com
    analytics.google.com analytics.tiktok.com app-measurement.com appnexus.com
    atdmt.com bat.bing.com bidswitch.net bluekai.com bounceexchange.com branch.io
    casalemedia.com chartbeat.com chartbeat.net clarity.ms connect.facebook.net
    contextweb.com cookiebot.com cookielaw.org crazyegg.com criteo.com criteo.net
    crwdcntrl.net demdex.net didomi.io doubleclick.net doubleverify.com everesttech.net
    exelator.com facebook.net flashtalking.com fullstory.com google-analytics.com
    googleadservices.com googlesyndication.com googletagmanager.com googletagservices.com
    gumgum.com heapanalytics.com hotjar.com hotjar.io imrworldwide.com indexww.com
    innovid.com intercom.io iubenda.com krxd.net lijit.com liveramp.com mathtag.com
    media.net mediavine.com mixpanel.com moatads.com mookie1.com mouseflow.com
    newrelic.com nr-data.net omnitagjs.com omtrdc.net onetrust.com openx.net
    optimizely.com outbrain.com parsely.com perfectaudience.com permutive.com
    pubmatic.com quantcast.com quantcount.com quantserve.com rlcdn.com rubiconproject.com
    scorecardresearch.com segment.com segment.io serving-sys.com sharethrough.com
    smartadserver.com smartlook.com spotxchange.com stackadapt.com statcounter.com
    taboola.com tapad.com teads.tv tremorhub.com tribalfusion.com trustarc.com
    truste.com tynt.com usercentrics.eu yieldmo.com zedo.com zemanta.com
    """.split()
)

# URL patterns of Chromium, on any host.
AD_PATHS = (
    "*/ads.js*",
    "*/adsbygoogle*",
    "*/advertisement.js*",
    "*/beacon.min.js*",
    "*/cookie-banner*.js*",
    "*/cookieconsent*.js*",
    "*/gtag/js*",
    "*/pagead/*",
    "*/piwik.js*",
    "*/matomo.js*",
    "*/prebid*.js*",
    "*/show_ads*",
)

_NAME = re.compile(
    r"(?:\|\||(?:0\.0\.0\.0|127\.0\.0\.1)\s+)?([a-z0-9_.-]+\.[a-z0-9-]+)\^?"
)
_LOCAL = frozenset({"localhost.localdomain", "0.0.0.0"})  # noqa: S104  # in hosts files


def read_hosts(lines: Iterable[str]) -> frozenset[str]:
    """Return the host names of a list. Ignores invalid lines."""
    found: set[str] = set()
    for line in lines:
        match = _NAME.fullmatch(line.partition("#")[0].strip().lower())
        if match and match[1] not in _LOCAL and not match[1].replace(".", "").isdigit():
            found.add(match[1])
            if len(found) >= MAX_HOSTS:
                break
    return frozenset(found)


def load_hosts(data_dir: Path) -> frozenset[str]:
    """Return all blocked host names, with those of the operator."""
    try:
        with (data_dir / BLOCKLIST).open(encoding="utf-8", errors="replace") as lines:
            return AD_HOSTS | read_hosts(lines)
    except FileNotFoundError:
        return AD_HOSTS


def is_blocked(host: str, blocked: frozenset[str]) -> bool:
    """Return True if ``host`` or a parent domain is in ``blocked``."""
    labels = host.lower().split(".")
    return any(".".join(labels[at:]) in blocked for at in range(len(labels) - 1))
