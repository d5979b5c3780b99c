"""Passes over the elements of a page, compiled where there was a compiler.

``compiled`` is None where there was none, for a libxml2 that it was not compiled for, and
where its sources were changed since.
What is compiled has a twin in Python that gives the same, beside where it is used, or
here; ``_compiled.pyx`` is built when the package is installed.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def _load() -> Any:
    try:
        found = import_module("scraper_service.content.passes._compiled")
    except (ImportError, ValueError):  # ValueError: for another lxml
        return None
    return found if found.checksum == _checksum() else None


def _checksum() -> int:
    """Return what ``setup.py`` makes of the same files when it compiles them."""
    sources = sorted(Path(__file__).parent.glob("*.p[xy][xi]"))
    return zlib.crc32(b"".join(path.read_bytes() for path in sources))


compiled = _load()


def elements(root: Any, *tags: str) -> Iterable[Any]:
    """Return the elements of these tags, ``root`` among them, in document order."""
    if compiled is not None:
        return compiled.elements(root, *tags)  # type: ignore[no-any-return]
    return root.iter(*tags)  # type: ignore[no-any-return]


def finder(*tags: str) -> Callable[[Any], bool]:
    """Return what tells whether there is an element of these tags below another."""
    if compiled is not None:
        return compiled.Finder(*tags)  # type: ignore[no-any-return]
    return lambda element: next(element.iterdescendants(*tags), None) is not None


def texts_in(element: Any) -> Iterable[str]:
    """Return all texts in ``element``, in document order."""
    if compiled is not None:
        return compiled.texts(element)  # type: ignore[no-any-return]
    return element.itertext()  # type: ignore[no-any-return]
