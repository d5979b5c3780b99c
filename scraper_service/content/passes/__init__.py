"""The optional compiled passes over the elements of a page.

``_compiled.pyx`` is built when the package is installed and a C compiler exists.
``compiled`` is the built module, or None in these cases:

- the module was not built,
- it was built for another version of lxml or libxml2,
- its sources have changed since.

Each compiled function has a Python equivalent, here or in the module that calls it.
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
    except (ImportError, ValueError):  # ValueError: built for another lxml
        return None
    return found if found.checksum == _checksum() else None


def _checksum() -> int:
    """Return the checksum of the sources; ``setup.py`` computes it in the same way."""
    sources = sorted(Path(__file__).parent.glob("*.p[xy][xi]"))
    return zlib.crc32(b"".join(path.read_bytes() for path in sources))


compiled = _load()


def elements(root: Any, *tags: str) -> Iterable[Any]:
    """Return the elements with these tags in document order, including ``root``."""
    if compiled is not None:
        return compiled.elements(root, *tags)  # type: ignore[no-any-return]
    return root.iter(*tags)  # type: ignore[no-any-return]


def finder(*tags: str) -> Callable[[Any], bool]:
    """Return a predicate: True if an element has a descendant with one of these tags."""
    if compiled is not None:
        return compiled.Finder(*tags)  # type: ignore[no-any-return]
    return lambda element: next(element.iterdescendants(*tags), None) is not None


def texts_in(element: Any) -> Iterable[str]:
    """Return all texts in ``element``, in document order."""
    if compiled is not None:
        return compiled.texts(element)  # type: ignore[no-any-return]
    return element.itertext()  # type: ignore[no-any-return]
