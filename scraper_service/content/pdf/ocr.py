"""Text of scanned pages, recognised by the program ``tesseract`` where it is installed.

It is a system package, such as Debian's ``tesseract-ocr``; the languages are those that
are installed beside it.
"""

from __future__ import annotations

import functools
import subprocess

from scraper_service.options.available import RECOGNISER

DPI = 200
PAGE_TIMEOUT_S = 30.0


def recognised(picture: bytes, timeout_s: float | None = None) -> str:
    """Return the text in ``picture``, a file of any kind that the program reads.

    :raises OSError: if the program cannot be run.
    :raises subprocess.SubprocessError: if it fails or takes over ``timeout_s``.
    """
    limit = min(PAGE_TIMEOUT_S, PAGE_TIMEOUT_S if timeout_s is None else timeout_s)
    command = [RECOGNISER, "stdin", "stdout", "--dpi", str(DPI)]
    if languages := _languages():
        command += ["-l", languages]
    done = subprocess.run(  # noqa: S603  # a fixed program, a picture on its input
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
