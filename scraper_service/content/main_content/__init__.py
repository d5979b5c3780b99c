"""The main content of a page, told by a learned model of its blocks and a few rules.

Nothing is removed before all is decided. ``blocks.py`` walks the tree, ``tables.py`` knows
names and words, ``kinds.py`` tells the kind of page, ``features.py`` and ``model.py`` score
the blocks, ``verdicts.py``, ``rules.py`` and ``drops.py`` decide, ``reduction.py`` takes
the rest out of the tree.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# numpy's library starts a thread for each processor, with memory of its own each, which
# a converter process has no room for; nothing here multiplies matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from scraper_service.content.main_content.data import add_description
from scraper_service.content.main_content.kinds import Declared, declared
from scraper_service.content.main_content.posts import part_posts
from scraper_service.content.main_content.reduction import reduce
from scraper_service.content.main_content.verdicts import judge

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

__all__ = ["Declared", "declared", "judge", "keep_main_content"]


def keep_main_content(document: Document, page: Declared) -> None:
    """Reduce the body to its main content; never to nothing while it has text.

    ``page`` is what :func:`declared` read before the tree was cleaned.
    """
    verdict = judge(document.body, page)
    if verdict is not None:
        reduce(verdict.walk, verdict.keep)
        part_posts(verdict.posts)
    is_product = "og:product" in page.signs or (
        verdict is None or verdict.kind.name == "product"
    )
    if page.description and is_product:
        add_description(document.body, page.description)
