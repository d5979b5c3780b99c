"""A ZIP file with the Markdown of each page, and the names of the files of pages.

Each file begins with front matter: YAML that says where the page comes from.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import tempfile
import time
import unicodedata
import zipfile
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from scraper_service.content.page_urls import is_route
from scraper_service.errors import printable
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_NAME_BYTES = 120  # of a name in UTF-8; some encrypted file systems allow 143
MAX_FOLDER_BYTES = 60
MAX_PATH_BYTES = 120  # of all folders below the host; Windows allows paths of 260
# Device names of Windows, invalid also with an ending ("Naming Files, Paths, and
# Namespaces").
RESERVED = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{device}{number}" for device in ("com", "lpt") for number in "0123456789¹²³"
}
_SUFFIX = re.compile(r"\.(html?|php|aspx?|md|markdown)$", re.IGNORECASE)
# Characters that YAML restricts or forbids (YAML 1.2.2, 5.1).
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
# Keys that name the page, in their order, and further ones for files of one's own.
NAMING = ("url", "title", "scrapeId", "statusCode")
FURTHER = {
    "sourceURL": "sourceURL",
    "language": "language",
    "author": "author",
    "date": "publishedTime",
    "modified": "modifiedTime",
    "description": "description",
}
INDEX = "index.jsonl"


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


# -- ZIP files -------------------------------------------------------------------------


class OutputBuffer:
    """A file that cannot seek; :meth:`take` returns what was written since."""

    closed = False

    def __init__(self) -> None:
        self._data = bytearray()
        self._position = 0

    def write(self, data: bytes) -> int:
        self._data += data
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing: the file is in memory."""

    def close(self) -> None:
        """Do nothing: what was written can still be taken."""

    def take(self) -> bytes:
        taken = bytes(self._data)
        self._data.clear()
        return taken


def front_matter(
    page: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> bytes:
    """Return the front matter of a Markdown file: YAML between two lines ``---``.

    Texts are quoted as JSON strings, which are valid YAML. ``files`` are the names of the
    page's other files, by format. Without ``files`` there are the keys :data:`NAMING`
    alone.
    """
    facts = page.get("metadata", {})
    keys = {key: key for key in NAMING} | (FURTHER if files is not None else {})
    shown = {name: facts.get(key) for name, key in keys.items()} | dict(files or {})
    if files is not None:
        shown["warning"] = page.get("warning")
    lines = [
        f"{name}: {_scalar(value)}"
        for name, value in shown.items()
        if isinstance(value, int | str) and value != ""
    ]
    return "\n".join(["---", *lines, "---", "", ""]).encode("utf-8", "replace")


def _scalar(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    quoted = json.dumps(printable(value), ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


FIRST_YEAR, LAST_YEAR = 1980, 2107  # of a time in a ZIP file


def zip_time(at: float) -> tuple[int, int, int, int, int, int]:
    """Return a time in seconds since 1970 as a ZIP file has it, in UTC."""
    moment = time.gmtime(at)
    year = min(max(moment.tm_year, FIRST_YEAR), LAST_YEAR)
    return year, moment.tm_mon, moment.tm_mday, moment.tm_hour, moment.tm_min, 0


class _Entries:
    """The list of the entries of a ZIP file, in a temporary file instead of in memory."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._count = 0

    def append(self, entry: zipfile.ZipInfo) -> None:
        pickle.dump(entry, self._file)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[zipfile.ZipInfo]:
        self._file.seek(0)
        for _ in range(self._count):
            yield pickle.load(self._file)  # noqa: S301  # our own


class _NoNames(dict[str, zipfile.ZipInfo]):
    """No entries by name: names are unique already."""

    def __setitem__(self, name: str, entry: zipfile.ZipInfo) -> None:
        """Do nothing."""


class MarkdownZipWriter:
    """Writes ``HOST/PATH.md`` for each page, and the list ``index.jsonl`` at the end.

    The same pages give the same bytes. ``at`` is the time of all entries, in seconds
    since 1970. Memory grows by some 250 bytes for each page.
    """

    def __init__(self, at: float):
        self._time = zip_time(at)
        self._out = OutputBuffer()
        self._zip = zipfile.ZipFile(self._out, "w")
        # These two would take a kilobyte for each entry.
        self._zip.filelist = _Entries()  # type: ignore[assignment]  # like a list
        self._zip.NameToInfo = _NoNames()
        self._names = PageNames((INDEX,))
        self._packing = zlib.compressobj()
        self._index = bytearray()  # compressed

    def head(self) -> bytes:
        return b""

    def add(self, row: bytes) -> bytes:
        page = json.loads(row)
        facts = page.get("metadata", {})
        url = str(facts.get("url") or facts.get("sourceURL") or "")
        name = self._names.path(url)
        text = str(page.get("markdown") or "").encode("utf-8", "replace")
        self._store(name, front_matter(page) + text + b"\n")
        self._note(name, url, facts)
        return self._out.take()

    def end(self) -> bytes:
        self._index += self._packing.flush()
        reading = zlib.decompressobj()
        with self._zip.open(self._entry(INDEX), "w", force_zip64=True) as file:
            left = bytes(self._index)
            while left:
                file.write(reading.decompress(left, 2**20))
                left = reading.unconsumed_tail
            file.write(reading.flush())
        self._zip.close()
        return self._out.take()

    def _store(self, name: str, data: bytes) -> None:
        self._zip.writestr(self._entry(name), data)

    def _entry(self, name: str) -> zipfile.ZipInfo:
        entry = zipfile.ZipInfo(name, self._time)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = 0o644 << 16
        return entry

    def _note(self, name: str, url: str, facts: dict[str, Any]) -> None:
        line = {"file": name, "url": url, "scrapeId": facts.get("scrapeId")}
        text = json.dumps(line, ensure_ascii=False)
        self._index += self._packing.compress(f"{text}\n".encode("utf-8", "replace"))
