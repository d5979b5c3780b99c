"""The passes over the elements of a page that cost most, compiled where that is possible.

The modules of this folder are Python, which ``setup.py`` joins and compiles if a C compiler
exists. Private names are unique among them. Only what reads nodes, bytes, words and numbers
has two forms: the ``.pyx`` files, and ``python_forms.py``. The modules run as they stand in
these cases:

- the compiled module was not built,
- it was built for another version of lxml or libxml2,
- its sources have changed since.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

__all__ = [
    "BLOCK",
    "COMPLETE_URL",
    "EM_TEXT",
    "IMAGE",
    "LINE_BREAK",
    "LINK",
    "LISTING",
    "OTHER_URL",
    "ROOTED_URL",
    "SPAN",
    "STRONG_TEXT",
    "STRUCK_TEXT",
    "Finder",
    "InlineRun",
    "PartScores",
    "Surroundings",
    "TagNames",
    "WordTable",
    "block_counts",
    "block_elements",
    "classed",
    "complete_plain_urls",
    "dropped_blocks",
    "elements",
    "end_link",
    "end_paragraph",
    "feature_rows",
    "keep_trees_together",
    "main_texts",
    "marked",
    "may_be_forbidden",
    "name_parts",
    "outermost",
    "page_parts",
    "partly_kept",
    "path_numbers",
    "plain_shapes",
    "shape_counts",
    "signs",
    "suspects",
    "take_run",
    "text_blocks",
    "texts_in",
    "tree_sums",
    "unseparated",
    "url_kind",
    "values_in",
    "visible_text",
    "with_text",
    "word_counts",
    "word_total",
    "wrap_run",
    "write_content",
    "write_element",
    "write_item",
    "write_strong",
]


def _load() -> tuple[Any, str | None]:
    """Return the compiled module, or None and why an existing one is not used."""
    try:
        found = import_module("scraper_service.content.passes._compiled")
    except ModuleNotFoundError:
        return None, None
    except (ImportError, ValueError) as error:  # ValueError: built for another lxml
        return None, str(error)
    if found.checksum != _checksum():
        return None, "its sources have changed"
    return found, None


def _checksum() -> int:
    """Return the checksum of the sources; ``setup.py`` computes it in the same way."""
    folder = Path(__file__).parent
    sources = sorted((*folder.glob("*.py"), *folder.glob("*.pyx")))
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))


compiled, why_unfit = _load()

if TYPE_CHECKING or compiled is None:
    from scraper_service.content.passes.block_features import feature_rows
    from scraper_service.content.passes.block_walk import (
        block_elements,
        dropped_blocks,
        text_blocks,
    )
    from scraper_service.content.passes.markdown_walk import (
        end_link,
        end_paragraph,
        take_run,
        wrap_run,
        write_content,
        write_element,
        write_item,
        write_strong,
    )
    from scraper_service.content.passes.page_walk import (
        Surroundings,
        classed,
        complete_plain_urls,
        main_texts,
        marked,
        outermost,
        page_parts,
        signs,
        suspects,
        unseparated,
        values_in,
        visible_text,
        word_total,
    )
    from scraper_service.content.passes.python_forms import (
        BLOCK,
        COMPLETE_URL,
        EM_TEXT,
        IMAGE,
        LINE_BREAK,
        LINK,
        LISTING,
        OTHER_URL,
        ROOTED_URL,
        SPAN,
        STRONG_TEXT,
        STRUCK_TEXT,
        Finder,
        InlineRun,
        PartScores,
        TagNames,
        WordTable,
        elements,
        keep_trees_together,
        may_be_forbidden,
        name_parts,
        texts_in,
        tree_sums,
        url_kind,
        with_text,
        word_counts,
    )
    from scraper_service.content.passes.siblings import (
        block_counts,
        partly_kept,
        path_numbers,
        plain_shapes,
        shape_counts,
    )
else:
    globals().update({name: getattr(compiled, name) for name in __all__})
