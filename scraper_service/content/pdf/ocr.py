"""Recognises the text of scanned pages with the program ``tesseract``.

Tesseract is an optional system package, such as Debian's ``tesseract-ocr``. It uses all
installed languages.
"""

from __future__ import annotations

import functools
import subprocess

from scraper_service.options.availability import RECOGNISER

DPI = 200
PAGE_TIMEOUT_S = 30.0


def recognise_text(picture: bytes, timeout_s: float | None = None) -> str:
    """Return the text in ``picture``, an image file in any format Tesseract reads.

    :raises OSError: if the program cannot be started.
    :raises subprocess.SubprocessError: if the program fails or exceeds ``timeout_s``.
    """
    limit = min(PAGE_TIMEOUT_S, PAGE_TIMEOUT_S if timeout_s is None else timeout_s)
    command = [RECOGNISER, "stdin", "stdout", "--dpi", str(DPI)]
    if languages := _languages():
        command += ["-l", languages]
    done = subprocess.run(  # noqa: S603  # a fixed program reads the picture from stdin
        command, input=picture, capture_output=True, timeout=max(limit, 0.1), check=True
    )
    return done.stdout.decode("utf-8", "replace").replace("\f", "")


@functools.cache
def _languages() -> str:
    done = subprocess.run(  # noqa: S603
        [RECOGNISER, "--list-langs"], capture_output=True, timeout=10, check=True
    )
    names = done.stdout.decode("utf-8", "replace").split("\n")[1:]
    return "+".join(name for name in names if name and name not in {"osd", "equ"})
