"""The passes over the elements of a page that cost most, compiled where that is possible.

``walks.py`` and ``nodes.pyx`` are compiled when the package is installed and a C compiler
exists. The module ``walks`` takes the place of the compiled one in these cases:

- it was not built,
- it was built for another version of lxml or libxml2,
- its sources have changed since.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any


def _load() -> Any:
    try:
        found = import_module("scraper_service.content.passes._compiled")
    except (ImportError, ValueError):  # ValueError: built for another lxml
        return None
    return found if found.checksum == _checksum() else None


def _checksum() -> int:
    """Return the checksum of the sources; ``setup.py`` computes it in the same way."""
    sources = (Path(__file__).with_name(name) for name in ("nodes.pyx", "walks.py"))
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))


compiled = _load()

if TYPE_CHECKING:
    from scraper_service.content.passes import walks as _walks
else:
    _walks = compiled or import_module("scraper_service.content.passes.walks")

Finder = _walks.Finder
TagNames = _walks.TagNames
classed = _walks.classed
elements = _walks.elements
inherited = _walks.inherited
main_texts = _walks.main_texts
number_scores = _walks.number_scores
signs = _walks.signs
suspects = _walks.suspects
text_blocks = _walks.text_blocks
texts_in = _walks.texts_in
write_content = _walks.write_content
