"""Main content extraction: a learned model scores text blocks, and rules correct it.

1. ``drops.py`` drops the articles of other pages.
2. ``blocks.py`` walks the tree and collects the text blocks.
3. ``model.py`` classifies the page and scores the blocks.
4. ``verdicts.py``, ``rules.py`` and ``drops.py`` choose the blocks to keep, and remove
   all others from the tree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# OpenBLAS starts a thread per processor, and each thread reserves memory. Converter
# processes have a memory limit, and nothing here multiplies matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from scraper_service.content.main_content.drops import drop_next_articles
from scraper_service.content.main_content.model import (
    PageDeclarations,
    add_description,
    read_declarations,
)
from scraper_service.content.main_content.rules import separate_posts
from scraper_service.content.main_content.verdicts import judge, reduce

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

__all__ = ["PageDeclarations", "judge", "keep_main_content", "read_declarations"]


def keep_main_content(document: Document, page: PageDeclarations) -> None:
    """Reduce the body to its main content; a body with text keeps at least one block.

    ``page`` is the result of :func:`read_declarations`, called before the tree was cleaned.
    """
    drop_next_articles(document, page)
    verdict = judge(document.body, page)
    if verdict is not None:
        reduce(verdict.walk, verdict.keep, page.picture, verdict.lead)
        separate_posts(verdict.posts)
    is_product = "og:product" in page.signs or (
        verdict is None or verdict.kind.name == "product"
    )
    if page.description and is_product:
        add_description(document.body, page.description)
