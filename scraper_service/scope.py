"""May this address be followed, and is it one that the job knows: pure rules.

Sources: interface document, parts 11.3 to 11.5.
"""

from __future__ import annotations

import hashlib
from urllib.parse import SplitResult, urlsplit

from attrs import frozen

# Path endings that are never pages (interface document, 11.4, rule 8).
FILE_TYPES = frozenset(
    ".png .jpg .jpeg .gif .css .js .ico .svg .tiff .webp .zip .exe .dmg .mp4 .mp3 .wav"
    " .pptx .xlsx .avi .flv .woff .woff2 .ttf .inc".split()
)
INDEX_PAGES = ("/index.html", "/index.php")


@frozen
class CrawlScope:
    """The pages that a crawl may follow links to.

    On the host of ``start_url``, where ``www.`` makes no difference, below its path,
    at most ``max_depth`` links away (None: any number).
    """

    start_url: str
    max_depth: int | None = None

    def allows(self, url: str, depth: int) -> bool:
        """Tell whether the absolute address ``url``, found at ``depth``, is inside."""
        if self.max_depth is not None and depth > self.max_depth:
            return False
        start, parts = urlsplit(self.start_url), split(url)
        if parts is None:
            return False
        if parts.scheme not in {"http", "https"} or _site(parts) != _site(start):
            return False
        path = parts.path or "/"
        if not path.startswith(_directory(start.path or "/")):
            return False
        _, dot, ending = path.rpartition("/")[2].rpartition(".")
        return f"{dot}{ending}".lower() not in FILE_TYPES


def _site(parts: SplitResult) -> tuple[str, int | None]:
    host = (parts.hostname or "").removeprefix("www.")
    try:
        port = parts.port
    except ValueError:
        port = -1
    return host, None if port in {80, 443} else port


def _directory(path: str) -> str:
    """Return what the path of a page below ``path`` starts with."""
    for index in INDEX_PAGES:
        if path.endswith(index):
            return path.removesuffix(index[1:])
    return path


def followed(url: str) -> str:
    """Return ``url`` as it is fetched: without its fragment.

    A fragment with a slash is a page of its own (a route in a script).
    """
    address, mark, fragment = url.partition("#")
    if "/." in address or "/%2" in address:
        address = _without_dots(address)
    return f"{address}#{fragment}" if mark and "/" in fragment else address


def split(url: str) -> SplitResult | None:
    """Return the parts of an address, None for what is no address."""
    try:
        return urlsplit(url)
    except ValueError:  # "http://[" and the like
        return None


def _without_dots(address: str) -> str:
    """Resolve dot segments (RFC 3986, 5.2.4); ``%2e`` is a dot to browsers."""
    parts = split(address)
    if parts is None:
        return address
    kept: list[str] = []
    segments = parts.path.split("/")[1:]
    for segment in segments:
        plain = segment.replace("%2e", ".").replace("%2E", ".")
        if plain == "..":
            del kept[-1:]
        elif plain != ".":
            kept.append(segment)
    if segments and segments[-1].lower().replace("%2e", ".") in {".", ".."}:
        kept.append("")
    return parts._replace(path="/" + "/".join(kept)).geturl()


def page_key(url: str, *, similar: bool = True) -> int:
    """Return the key under which a crawl knows ``url``: 8 bytes, signed.

    With ``similar``, http and https, with and without ``www.``, a slash at the end,
    ``/index.html`` and ``/index.php`` make no difference.
    """
    address = followed(url)
    parts = split(address) or SplitResult("", "", address, "", "")
    path = parts.path or "/"
    host, scheme = parts.netloc.lower(), parts.scheme
    host = host.removesuffix({"http": ":80", "https": ":443"}.get(scheme, ":"))
    if similar:
        scheme, host = "", host.removeprefix("www.")
        for index in INDEX_PAGES:
            path = path.removesuffix(index)
        path = path.rstrip("/")
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    text = f"{scheme}//{host}{path}?{parts.query}{fragment}"
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
