"""A folder with the files of each page, and an index for people and programs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from scraper_service.cli.job_state import Failure, OutputFailed
from scraper_service.cli.names import PageNames
from scraper_service.cli.parts import front_matter, parts_of
from scraper_service.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

INDEX = "index.md"
LINES = "index.jsonl"
MAX_TITLE = 200  # characters


class MarkdownFolder:
    """Write the files of each page, ``index.md`` and ``index.jsonl`` beside them.

    A page has ``NAME.md``, ``NAME.html``, a picture, and ``NAME.json``, as its formats
    are. A line of ``index.jsonl`` has ``url``, ``sourceURL``, ``title``, ``status``,
    ``file``, the first of its ``files``, which are by format. URLs without a page come
    last, with ``error`` or ``leftOut``. Names are those of
    :class:`~scraper_service.cli.names.PageNames`. A folder with other files in it is
    taken only to ``overwrite`` what has the same name.
    """

    def __init__(self, path: Path, overwrite: bool = False):
        self._path = path
        self._overwrite = overwrite
        self._names = PageNames((INDEX, LINES))
        self._files: list[Any] = []
        self._lost = 0  # files of pages that could not be had

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
        files, faults = write_page(self._path, page, self._names)
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
        if warnings or faults:
            line["warning"] = " ".join([*warnings, *faults])
        self._lost += len(faults)
        words = _escaped(title if isinstance(title, str) and title.strip() else url)
        text = f"[{words}](<{name}>)" if name else words
        for key, other in list(files.items())[1:]:
            text += f" [{key}](<{other}>)"
        self._send(f"- {text} {_linked(url)}\n", json.dumps(line, ensure_ascii=False))

    def close(self, failures: Sequence[Failure] | None) -> None:
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
                text = f"{self._lost} files of pages are missing; {LINES} says why"
                click.echo(f"warning: {text}", err=True)
                self._lost = 0
        except OSError as error:
            raise self._failed(error) from error

    def _fail(self, failure: Failure) -> None:
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
        text = f"- {_linked(failure.url)} {_escaped(failure.error)}\n"
        self._send(text, json.dumps(line, ensure_ascii=False))

    def _send(self, text: str, line: str) -> None:
        index, lines = self._files
        index.write(text.encode("utf-8", "replace"))
        if line:
            lines.write(f"{line}\n".encode("utf-8", "replace"))

    def _failed(self, error: OSError) -> OutputFailed:
        return OutputFailed(f"{error.filename or self._path}: {error.strerror}")


def write_page(
    folder: Path, page: dict[str, Any], names: PageNames
) -> tuple[dict[str, str], list[str]]:
    """Write the files of a page; return their names by format, and what is missing.

    Markdown comes first and names the others in its head. Raises :exc:`OSError`.
    """
    parts, faults = parts_of(page)
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
    return files, faults


def _escaped(text: str) -> str:
    """Return text of a page that is no markup in a line of Markdown."""
    return re.sub(r"([\\`*_\[\]<>#!|&~])", r"\\\1", printable(text, MAX_TITLE))


def _linked(url: str) -> str:
    plain = re.sub(r"[<>\s]", "", printable(url))
    return f"<{plain}>" if plain else ""
