"""File names of pages, made of their URLs: valid on every file system, and unique."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote

from scraper_service.content.page_urls import is_route
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME_BYTES = 120  # of a name in UTF-8; some encrypted file systems allow 143
MAX_FOLDER_BYTES = 60
MAX_PATH_BYTES = 120  # of all folders below the host; Windows allows paths of 260
# Device names of Windows, invalid also with an ending ("Naming Files, Paths, and
# Namespaces").
RESERVED = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{device}{number}" for device in ("com", "lpt") for number in "0123456789¹²³"
}
_SUFFIX = re.compile(r"\.(html?|php|aspx?|md|markdown)$", re.IGNORECASE)


class PageNames:
    """Unique file names for pages.

    The same URLs in the same order get the same names. Names differ also on file systems
    that ignore case or the form of accents. If a name is taken, a part of the URL's hash
    is added. ``taken`` are reserved names.
    """

    def __init__(self, taken: tuple[str, ...] = ()):
        self._taken = {_fold(name) for name in taken}

    def name(self, url: str) -> str:
        """Return the name of the Markdown file of the next page."""
        return f"{self.stem(url, ('.md',))}.md"

    def path(self, url: str) -> str:
        """Return the path of the Markdown file of the next page, with slashes.

        The first folder is the host, further folders are those of the URL. No name of a
        folder ends in ``.md``, so no file has the name of a folder.
        """
        return f"{self._unique(_nested_stem(url), url, ('.md',))}.md"

    def stem(self, url: str, endings: Iterable[str]) -> str:
        """Return the common stem of the file names of the next page.

        The stem with each of ``endings`` is a unique file name without a folder.
        """
        return self._unique(_stem(url), url, tuple(endings))

    def _unique(self, stem: str, url: str, endings: tuple[str, ...]) -> str:
        digest = hashlib.sha256(url.encode("utf-8", "replace"))
        candidate, number = stem, 1
        while self._taken & (folded := {_fold(candidate + e) for e in endings}):
            again = f"-{number}" if number > 1 else ""
            candidate = f"{stem}-{digest.hexdigest()[:8]}{again}"
            number += 1
        self._taken |= folded
        return candidate


def _fold(name: str) -> bytes:
    # Eight bytes per name, because all names of a large crawl stay in memory.
    plain = unicodedata.normalize(
        "NFKC", unicodedata.normalize("NFKC", name).casefold()
    )
    return hashlib.blake2b(plain.encode(), digest_size=8).digest()


def _stem(url: str) -> str:
    """Return a file name stem from the host, path and query of a URL.

    A dash replaces each run of other characters than letters, digits, underscores and
    dots. A long stem is cut and ends in a part of the URL's hash.
    """
    host, path, query = _texts(url)
    stem = _safe(f"{host}/{path}/{query}") or "page"
    if len(stem.encode()) > MAX_NAME_BYTES:
        stem = _cut(stem, MAX_NAME_BYTES, url)
    return stem


def _nested_stem(url: str) -> str:
    """Return the stem of :meth:`PageNames.path`: host, folders and name, with slashes.

    A long name is cut and ends in a part of the URL's hash. Folders that do not fit into
    :data:`MAX_PATH_BYTES` are left out.
    """
    host, path, query = _texts(url)
    *above, last = path.strip("/").split("/")
    folders = [_safe(host) or "page"]
    left = MAX_PATH_BYTES
    for folder in filter(None, map(_safe, above)):
        name = _cut(folder, MAX_FOLDER_BYTES, folder)
        left -= len(name.encode()) + 1
        if left < 0:
            break
        folders.append(name)
    name = _safe(f"{last}/{query}") or "index"
    if len(name.encode()) > MAX_NAME_BYTES or left < 0:
        name = _cut(name, MAX_FOLDER_BYTES, url, always=True)
    return "/".join([*(_no_file(each) for each in folders), name])


def _no_file(folder: str) -> str:
    return f"{folder}-" if folder.casefold().endswith(".md") else folder


def _texts(url: str) -> tuple[str, str, str]:
    """Return host, path and query of a URL as text, without the ending of a web page.

    The route of a script is a part of the query.
    """
    parts = url_parts(url)  # a redirect may lead to an invalid URL
    host = parts.netloc.rpartition("@")[2]
    path = _SUFFIX.sub("", unquote(parts.path, errors="replace"))
    route = parts.fragment if is_route(parts.fragment) else ""
    query = "/".join(filter(None, (parts.query, route)))
    return host, path, unquote(query, errors="replace")


def _safe(text: str) -> str:
    """Return a name that every file system accepts, or nothing."""
    kept = "".join(
        c if _is_safe(c) else "-" for c in unicodedata.normalize("NFC", text)
    )
    name = re.sub(r"-*\.[.-]*|-+", _dot_or_dash, kept).strip(".-")
    return f"_{name}" if name.partition(".")[0].casefold() in RESERVED else name


def _cut(name: str, most: int, source: str, *, always: bool = False) -> str:
    """Return a name of at most ``most`` bytes, which ends in a hash of ``source`` if cut."""
    data = name.encode()
    if len(data) <= most and not always:
        return name
    end = hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{data[: most - 9].decode(errors='ignore').rstrip('.-')}-{end}"


def _dot_or_dash(found: re.Match[str]) -> str:
    # A single dot stays. Several dots and dashes in a row become one dash.
    return "." if found[0] == "." else "-"


def _is_safe(character: str) -> bool:
    # Letters, combining marks and numbers; no symbols, spaces or invisible characters.
    return character in "._" or unicodedata.category(character)[0] in "LMN"
