"""Main content extraction: a learned model scores text blocks, and rules correct it.

1. ``drops.py`` drops the articles of other pages.
2. ``blocks.py`` walks the tree and collects the text blocks.
3. ``model.py`` classifies the page and scores the blocks.
4. ``rules.py`` and ``drops.py`` correct the choice of the blocks to keep.
5. ``reduction.py`` does all of it: it removes the other blocks from the tree, then copies
   of blocks, logos and edit links.
"""

from __future__ import annotations

import os

# OpenBLAS starts a thread per processor, and each thread reserves memory. Converter
# processes have a memory limit, and nothing here multiplies matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
