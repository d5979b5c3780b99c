"""Outputs for the page of `scrape` and `parse`: the terminal, a file, or a folder."""

from __future__ import annotations

import errno
import json
import os
import sys
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from scraper_service.cli.outputs.output import (
    ENDINGS,
    JOB_ENDINGS,
    STDOUT,
    Destination,
    refuse_binary,
)
from scraper_service.cli.outputs.page_files import (
    KINDS,
    Unavailable,
    content_of,
    write_page,
)
from scraper_service.cli.terminal import OutputFailed
from scraper_service.errors import printable
from scraper_service.exports.markdown_zip import PageNames
from scraper_service.options.formats import DATA, FILE, HTML, PICTURE, TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

_JPEG = (".jpg", ".jpeg")
# Formats that a file with this ending may contain. Other endings allow any format.
TAKES = {
    ending: tuple(key for key, each in KINDS.items() if each == kind)
    for kind, endings in (
        (TEXT, (".md", ".markdown")),
        (HTML, (".html", ".htm")),
        (PICTURE, (".png", *_JPEG)),
    )
    for ending in endings
}
#: Endings of files with many pages.
OF_JOBS = {Path(f"x{ending}").suffix for ending in JOB_ENDINGS} - {*ENDINGS}
JPEG_QUALITY = 85  # of a screenshot for a .jpg file


class OutputForm(Enum):
    """The form in which a page is written."""

    VALUE = auto()  # its only format as text, JSON or bytes
    OBJECT = auto()  # the page object of /v2
    ROWS = auto()  # .jsonl or .csv
    FOLDER = auto()


@frozen
class Target:
    """The destination of a single page."""

    #: A file or folder, None for standard output.
    path: str | None
    form: OutputForm
    #: The keys of the page.
    keys: tuple[str, ...]

    def write(self, page: dict[str, Any]) -> None:
        """Write a page object of /v2; raise :exc:`click.ClickException`."""
        try:
            if self.form is OutputForm.FOLDER:
                self._write_folder(page)
            elif self.form is OutputForm.ROWS:
                self._write_rows(page)
            else:
                write_bytes(self._data(page), self.path)
        except (OutputFailed, Unavailable) as error:
            raise click.ClickException(str(error)) from error

    def _data(self, page: dict[str, Any]) -> bytes:
        key = self.keys[0] if self.form is OutputForm.VALUE else None
        value = page if key is None else page.get(key)
        if self.path is None and sys.stdout.isatty():
            _refuse_inline(page)
        elif key and KINDS.get(key) in {PICTURE, FILE} and isinstance(value, str):
            return content_of(key, value, page)[0]
        is_text = isinstance(value, str)
        text = value if is_text else json.dumps(value, ensure_ascii=False)
        return f"{text}\n".encode("utf-8", "replace")

    def _write_folder(self, page: dict[str, Any]) -> None:
        folder = Path(str(self.path))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _, faults = write_page(folder, page, PageNames())
        except OSError as error:
            raise OutputFailed(
                f"{error.filename or folder}: {error.strerror}"
            ) from None
        for fault in faults:
            click.echo(f"warning: {printable(fault)}", err=True)

    def _write_rows(self, page: dict[str, Any]) -> None:
        assert self.path is not None
        form = ENDINGS[Path(self.path).suffix.lower()]
        output = Destination(self.path, form, keys=self.keys).output()
        output.open()
        output.write([json.dumps(page, ensure_ascii=False).encode("utf-8", "replace")])
        output.close([])


def target(
    path: str | None, keys: tuple[str, ...], *, as_json: bool, is_remote: bool
) -> Target:
    """Return the destination for ``-o PATH`` of a page with ``keys``.

    Raises :exc:`click.UsageError` if the ending of ``path`` does not suit the formats, or
    if a terminal would get base64.
    """
    is_one = len(keys) == 1 and not as_json
    plain = OutputForm.VALUE if is_one else OutputForm.OBJECT
    if path in {None, STDOUT}:
        if sys.stdout.isatty():
            # A service returns the URL of a picture, and a terminal can show the URL.
            refuse_binary(k for k in keys if not is_remote or KINDS.get(k) == FILE)
        return Target(None, plain, keys)
    assert path is not None
    ending = Path(path).suffix.lower()
    is_folder = path.endswith(("/", os.sep)) or Path(path).is_dir()
    if is_folder or ending in ENDINGS:
        if as_json:
            raise click.UsageError(f"--json: -o {path} has a form of its own")
        return Target(path, OutputForm.FOLDER if is_folder else OutputForm.ROWS, keys)
    if keys:
        _check_ending(path, ending, keys, is_one=is_one)
    if ending == ".json" and KINDS.get(keys[0] if keys else "") != DATA:
        plain = OutputForm.OBJECT
    return Target(path, plain, keys)


def _check_ending(path: str, ending: str, keys: Sequence[str], *, is_one: bool) -> None:
    # rawBase64 may be a file of any type.
    if is_one and KINDS[keys[0]] == FILE:
        return
    others = "a page goes into FILE.json, FILE.jsonl, FILE.csv or FOLDER/"
    check_is_of_page(path, others)
    allowed = TAKES.get(ending)
    if allowed is None or (is_one and keys[0] in allowed):
        return
    raise click.UsageError(
        f"-o {path}: {ending} is for {' or '.join(allowed)} alone, not for"
        f" {', '.join(keys)}; -o FOLDER/ gives each format a file of its own,"
        " -o FILE.json takes all in one"
    )


def check_is_of_page(path: str, others: str) -> None:
    """Raise :exc:`click.UsageError` for an ending that only jobs write."""
    ending = Path(path).suffix.lower()
    if ending in OF_JOBS:
        raise click.UsageError(
            f"-o {path}: {ending} is for crawl, batch and jobs export; {others}"
        )


def with_picture(body: dict[str, Any], path: str | None) -> dict[str, Any]:
    """Return a body of /v2 whose screenshot has the image type of ``path``.

    Raises :exc:`click.UsageError` for a PNG file if the screenshot has a quality.
    """
    ending = Path(path or "").suffix.lower()
    formats = body.get("formats")
    if ending not in {".png", *_JPEG} or not isinstance(formats, list):
        return body
    kept = []
    for each in formats:
        item = each if isinstance(each, dict) else {"type": each}
        if item.get("type") != "screenshot":
            kept.append(each)
        elif ending in _JPEG:
            kept.append({"quality": JPEG_QUALITY, **item})
        elif item.get("quality") is not None:
            text = f"-o {path}: a screenshot with a quality is a JPEG; end it in .jpg"
            raise click.UsageError(text)
        else:
            kept.append(each)
    return {**body, "formats": kept}


def _refuse_inline(page: dict[str, Any]) -> None:
    """Raise :exc:`click.UsageError` if a page contains pictures in base64."""
    refuse_binary(
        key
        for key, value in page.items()
        if KINDS.get(key) == PICTURE and str(value).startswith("data:")
    )


def write_bytes(data: bytes, path: str | None) -> None:
    """Write to standard output or to a file. Missing folders are created.

    Raises :exc:`BrokenPipeError` if the reader of standard output has closed the pipe,
    and :exc:`click.ClickException` for other failures.
    """
    try:
        if path in {None, STDOUT}:
            view = memoryview(data)
            while view:  # with PYTHONUNBUFFERED a call may write only a part
                view = view[sys.stdout.buffer.write(view) :]
            sys.stdout.flush()
            return
        place = Path(str(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        name = path or "standard output"
        raise click.ClickException(f"{name}: {error.strerror}") from error
