"""A folder with a Markdown file for each page, and an index for people and programs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from scraper_service.cli.names import PageNames
from scraper_service.cli.output import Failure, OutputFailed
from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

INDEX = "index.md"
LINES = "index.jsonl"
MAX_TITLE = 200  # characters


class MarkdownFolder:
    """Write ``NAME.md`` for each page, ``index.md`` and ``index.jsonl`` beside them.

    A line of ``index.jsonl`` has ``url``, ``sourceURL``, ``title``, ``file`` and
    ``status``, and ``error`` for what brought no page; those come last. Names are those
    of :class:`~scraper_service.cli.names.PageNames`. A folder with other files in it is
    taken only to ``overwrite`` what has the same name.
    """

    def __init__(self, path: Path, overwrite: bool = False):
        self._path = path
        self._overwrite = overwrite
        self._names = PageNames((INDEX, LINES))
        self._files: list[Any] = []

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
            raise self._failed(error) from error

    def write(self, pages: Sequence[bytes]) -> None:
        try:
            self._begin()
            for page in pages:
                self._write(json.loads(page))
            for file in self._files:
                file.flush()
        except OSError as error:
            raise self._failed(error) from error

    def _begin(self) -> None:
        if not self._files:
            self._files = [(self._path / name).open("wb") for name in (INDEX, LINES)]
            self._send("# Pages\n\n", "")

    def _write(self, page: dict[str, Any]) -> None:
        facts = page.get("metadata", {})
        url = str(facts.get("url") or facts.get("sourceURL") or "")
        title = facts.get("title")
        name = None
        if isinstance(text := page.get("markdown"), str):
            name = self._names.name(url)
            data = f"{text}\n".encode("utf-8", "replace")
            (self._path / name).write_bytes(data)
        line = {
            "url": url,
            "sourceURL": facts.get("sourceURL"),
            "title": title,
            "file": name,
            "status": facts.get("statusCode"),
        }
        words = _escaped(title if isinstance(title, str) and title.strip() else url)
        place = f"[{words}](<{name}>)" if name else words
        self._send(f"- {place} {_linked(url)}\n", json.dumps(line, ensure_ascii=False))

    def close(self, failures: Sequence[Failure] | None) -> None:
        try:
            if failures is not None:
                self._begin()
            if failures:
                self._send("\n# Failed\n\n", "")
                for failure in failures:
                    self._fail(failure)
            for file in self._files:
                file.close()
        except OSError as error:
            raise self._failed(error) from error

    def _fail(self, failure: Failure) -> None:
        line = {
            "url": failure.url,
            "sourceURL": failure.url,
            "title": None,
            "file": None,
            "status": None,
            "error": f"{failure.error} ({failure.code})",
        }
        text = f"- {_linked(failure.url)} {_escaped(failure.error)}\n"
        self._send(text, json.dumps(line, ensure_ascii=False))

    def _send(self, text: str, line: str) -> None:
        index, lines = self._files
        index.write(text.encode("utf-8", "replace"))
        if line:
            lines.write(f"{line}\n".encode("utf-8", "replace"))

    def _failed(self, error: OSError) -> OutputFailed:
        return OutputFailed(f"{error.filename or self._path}: {error.strerror}")


def _escaped(text: str) -> str:
    """Return text of a page that is no markup in a line of Markdown."""
    return re.sub(r"([\\`*_\[\]<>#!|&~])", r"\\\1", printable(text, MAX_TITLE))


def _linked(url: str) -> str:
    plain = re.sub(r"[<>\s]", "", printable(url))
    return f"<{plain}>" if plain else ""
