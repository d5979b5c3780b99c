"""The keys of a page, and its files: Markdown, HTML, pictures, and JSON for all other formats.

File names come from the URLs and are valid on every file system. A folder of a job has
an index for people and an index for programs.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import mimetypes
import re
import urllib.error
import urllib.request
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from scraper_service.cli.outputs import OutputFailed
from scraper_service.errors import plural, printable
from scraper_service.exports.markdown_zip import PageNames, front_matter
from scraper_service.options.formats import FILE, NAMED, PICTURE, ROW_OF, Json, Query
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from scraper_service.cli.terminal import FailedUrl
    from scraper_service.options.scrape import ScrapeOptions


QUOTES = "directQuote"  # the mode of the format query that makes highlights
#: The kind of each result by its key in a page object.
KINDS = {row.key: row.result for row in NAMED.values()}
# The names that -f takes. Other formats have options of their own.
NAMES = tuple(n for n, row in NAMED.items() if row.is_bare and not row.missing)
WITH_OPTIONS = tuple(name for name, row in NAMED.items() if not row.is_bare)
# Keys that options of the PDF parser add to a page.
_OF_PDF = (("pages", ("pages", "pageMarkdown")), ("blocks", ("blocks",)))
EVERY_KEY = (*KINDS, "actions", "pages", "blocks")


def keys_of_body(body: dict[str, Any]) -> tuple[str, ...]:
    """Return the keys of a page, beside metadata, for a body of /v2.

    ``body`` is that of a scrape, or the ``scrapeOptions`` of a crawl. Unknown formats
    are left out: the body is refused later.
    """
    formats = body.get("formats", ["markdown"])
    keys = [_key(each) for each in formats] if isinstance(formats, list) else []
    if body.get("actions"):
        keys.append("actions")
    for parser in body.get("parsers") or ():
        if isinstance(parser, dict):
            keys += [key for key, names in _OF_PDF if any(parser.get(n) for n in names)]
    return _unique(keys)


def keys_of_options(options: ScrapeOptions) -> tuple[str, ...]:
    """Return the keys of a page, beside metadata, for ``options``."""
    keys: list[str | None] = []
    for each in options.formats:
        if isinstance(each, Json):
            keys.append(each.key)
        elif isinstance(each, Query):
            keys.append(_key({"type": "query", "mode": each.mode}))
        else:
            keys.append(ROW_OF[type(each)].key)
    if options.actions:
        keys.append("actions")
    if parser := options.pdf_parser:
        keys += [key for key, _ in _OF_PDF if getattr(parser, key)]
    return _unique(keys)


def _key(item: Any) -> str | None:
    name = item.get("type") if isinstance(item, dict) else item
    if name == "query" and isinstance(item, dict) and item.get("mode") == QUOTES:
        return "highlights"
    found = NAMED.get(name) if isinstance(name, str) else None
    return found.key if found else None


def _unique(keys: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in keys if key))


MAX_BYTES = 256 * 2**20  # of a picture from a service
TIMEOUT_S = 60
_ENDING = re.compile(r"\.[a-z0-9]{1,8}")


class Unavailable(Exception):
    """Raised when a file of a page cannot be read or fetched, with the reason as text."""


@frozen
class PageFile:
    """A file of a page."""

    #: The key of the format in a page object.
    key: str
    #: The ending of the file name, with its dot.
    ending: str
    data: bytes


def parts_of(page: Mapping[str, Any]) -> tuple[list[PageFile], list[str]]:
    """Return the files of a page object of /v2, and reasons for missing files.

    The Markdown has no front matter yet, see :func:`front_matter`. The last file has the
    key ``data``. It contains the formats without a file of their own, and the metadata.
    """
    parts: list[PageFile] = []
    failures: list[str] = []
    rest = {}
    for key, value in page.items():
        if key in {"metadata", "warning"} or value is None:
            continue
        try:
            part = _part(key, value, page)
        except Unavailable as error:
            failures.append(str(error))
            part = None
        if part is None:
            rest[key] = value
        else:
            parts.append(part)
    if rest:
        rest["metadata"] = page.get("metadata", {})
        text = json.dumps(rest, ensure_ascii=False, indent=2)
        parts.append(PageFile("data", ".json", f"{text}\n".encode("utf-8", "replace")))
    return parts, failures


def _part(key: str, value: Any, page: Mapping[str, Any]) -> PageFile | None:
    """Return the file of a format, None if the format has no file of its own.

    Raises :exc:`Unavailable`.
    """
    if not isinstance(value, str):
        return None
    if KINDS.get(key) in {PICTURE, FILE}:
        data, content_type = content_of(key, value, page)
        return PageFile(key, ending_of(content_type, page), data)
    if key == "markdown":
        return PageFile(key, ".md", f"{value}\n".encode("utf-8", "replace"))
    if key == "html":
        return PageFile(key, ".html", value.encode("utf-8", "replace"))
    if key == "rawHtml":
        ending = ".raw.html" if page.get("html") is not None else ".html"
        return PageFile(key, ending, value.encode("utf-8", "replace"))
    return None


def content_of(key: str, value: str, page: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the bytes of a picture or file of a page, and their content type.

    ``value`` is base64, a ``data:`` URL, or the URL of the file at a service.
    Raises :exc:`Unavailable`.
    """
    if KINDS.get(key) == FILE:
        kind = str(page.get("metadata", {}).get("contentType") or "")
        return _decode(value), kind
    if value.startswith("data:"):
        head, _, encoded = value.removeprefix("data:").partition(",")
        return _decode(encoded), head
    return _fetch(value)


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unavailable(f"a file of the page cannot be read: {error}") from error


def _fetch(url: str) -> tuple[bytes, str]:
    """Fetch a file from the user's service; return its bytes and content type."""
    shown = printable(url.partition("?")[0], 200)  # the query is a signature
    if not url.startswith(("http://", "https://")):
        raise Unavailable(f"{shown} is not the URL of a picture")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310
            data: bytes = answer.read(MAX_BYTES + 1)
            kind = answer.headers.get_content_type()
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise Unavailable(f"{shown} could not be fetched: {error}") from error
    if len(data) > MAX_BYTES:
        raise Unavailable(f"{shown} has more than {MAX_BYTES} bytes")
    return data, kind


def ending_of(content_type: str, page: Mapping[str, Any]) -> str:
    """Return the ending of a file name, from the content type or the page's URL."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "image/jpeg":
        return ".jpg"
    found = mimetypes.guess_extension(kind)
    if found is None:
        path = url_parts(str(page.get("metadata", {}).get("url", ""))).path
        found = PurePosixPath(path).suffix.lower()
    return found if _ENDING.fullmatch(found) else ".bin"


INDEX = "index.md"
LINES = "index.jsonl"
MAX_TITLE = 200  # characters


class MarkdownFolder:
    """An output folder with the files of each page, ``index.md`` and ``index.jsonl``.

    A page has ``NAME.md``, ``NAME.html``, a picture and ``NAME.json``, depending on its
    formats. :class:`PageNames` makes the names. A line of ``index.jsonl`` has ``url``,
    ``sourceURL``, ``title``, ``status``, ``files`` by format, and ``file``, the first of
    them. URLs without a page come last, with ``error`` or ``leftOut``. A folder that is
    not empty is refused, unless ``overwrite`` is set. Files of the same name are then
    overwritten.
    """

    def __init__(self, path: Path, overwrite: bool = False):
        self._path = path
        self._overwrite = overwrite
        self._names = PageNames((INDEX, LINES))
        self._files: list[Any] = []
        self._lost = 0  # number of missing files

    def open(self) -> None:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            if not self._overwrite and any(self._path.iterdir()):
                raise OutputFailed(
                    f"{self._path}: there are files already; choose another folder, or"
                    " say --overwrite"
                )
            (self._path / INDEX).open("ab").close()
        except OSError as error:
            raise self._failure(error) from error

    def write(self, pages: Sequence[bytes]) -> None:
        try:
            self._begin()
            for page in pages:
                self._write(json.loads(page))
            for file in self._files:
                file.flush()
        except OSError as error:
            raise self._failure(error) from error

    def _begin(self) -> None:
        if not self._files:
            self._files = [(self._path / name).open("wb") for name in (INDEX, LINES)]
            self._send("# Pages\n\n", "")

    def _write(self, page: dict[str, Any]) -> None:
        facts = page.get("metadata", {})
        url = str(facts.get("url") or facts.get("sourceURL") or "")
        title = facts.get("title")
        files, failures = write_page(self._path, page, self._names)
        name = next(iter(files.values()), None)
        line: dict[str, Any] = {
            "url": url,
            "sourceURL": facts.get("sourceURL"),
            "title": title,
            "file": name,
            "files": files,
            "status": facts.get("statusCode"),
        }
        warnings = [page["warning"]] if page.get("warning") else []
        if warnings or failures:
            line["warning"] = " ".join([*warnings, *failures])
        self._lost += len(failures)
        words = _escape(title if isinstance(title, str) and title.strip() else url)
        text = f"[{words}](<{name}>)" if name else words
        for key, other in list(files.items())[1:]:
            text += f" [{key}](<{other}>)"
        self._send(f"- {text} {_link(url)}\n", json.dumps(line, ensure_ascii=False))

    def close(self, failures: Sequence[FailedUrl] | None) -> None:
        try:
            if failures is not None:
                self._begin()
            for heading, is_left_out in (("Failed", False), ("Left out", True)):
                those = [f for f in failures or () if f.is_left_out == is_left_out]
                if those:
                    self._send(f"\n# {heading}\n\n", "")
                for failure in those:
                    self._fail(failure)
            for file in self._files:
                file.close()
            if self._lost:
                text = f"not written: {plural(self._lost, 'file')} of pages; {LINES} says why"
                click.echo(f"warning: {text}", err=True)
                self._lost = 0
        except OSError as error:
            raise self._failure(error) from error

    def _fail(self, failure: FailedUrl) -> None:
        line: dict[str, Any] = {
            "url": failure.url,
            "sourceURL": failure.url,
            "title": None,
            "file": None,
            "files": {},
            "status": None,
        }
        reason = "leftOut" if failure.is_left_out else "error"
        line[reason] = f"{failure.error} ({failure.code})"
        text = f"- {_link(failure.url)} {_escape(failure.error)}\n"
        self._send(text, json.dumps(line, ensure_ascii=False))

    def _send(self, text: str, line: str) -> None:
        index, lines = self._files
        index.write(text.encode("utf-8", "replace"))
        if line:
            lines.write(f"{line}\n".encode("utf-8", "replace"))

    def _failure(self, error: OSError) -> OutputFailed:
        return OutputFailed(f"{error.filename or self._path}: {error.strerror}")


def write_page(
    folder: Path, page: dict[str, Any], names: PageNames
) -> tuple[dict[str, str], list[str]]:
    """Write the files of a page.

    Returns the file names by format, and reasons for missing files. Markdown comes first,
    and its front matter names the other files. Raises :exc:`OSError`.
    """
    parts, failures = parts_of(page)
    parts.sort(key=lambda part: part.key != "markdown")
    facts = page.get("metadata", {})
    url = str(facts.get("url") or facts.get("sourceURL") or "")
    stem = names.stem(url, [part.ending for part in parts])
    files = {part.key: f"{stem}{part.ending}" for part in parts}
    for part in parts:
        data = part.data
        if part.key == "markdown":
            others = {k: name for k, name in files.items() if k != part.key}
            data = front_matter(page, others) + data
        (folder / files[part.key]).write_bytes(data)
    return files, failures


def _escape(text: str) -> str:
    """Return text of a page, escaped for a line of Markdown."""
    return re.sub(r"([\\`*_\[\]<>#!|&~])", r"\\\1", printable(text, MAX_TITLE))


def _link(url: str) -> str:
    plain = re.sub(r"[<>\s]", "", printable(url))
    return f"<{plain}>" if plain else ""
