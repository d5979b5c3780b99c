"""Pages with known main content, as labelled blocks.

A block is content if most of its words are in the longest common subsequence of the page
and its known content.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define
from rapidfuzz.distance import LCSseq

from scraper_service.content.decode import text_of
from scraper_service.content.html.cleaning import clean
from scraper_service.content.html.document import parse
from scraper_service.content.main_content.blocks import Tables, Walk
from scraper_service.content.main_content.model import (
    PageDeclarations,
    read_declarations,
)
from scraper_service.content.main_content.reduction import drop_marks
from scraper_service.options.urls import host_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.html.document import Document

FOLDS = 5
MOVED_WORDS = 6  # minimum words of a block that is searched elsewhere in the content
_WORD = re.compile(r"\w+")


@define
class Case:
    """A page of a corpus with its known content."""

    id: str
    url: str
    #: The HTML file, possibly compressed.
    path: Path
    #: The kind of the page, one of ``kinds.KINDS``.
    kind: str
    #: The known main content.
    truth: str
    #: The part of the sites that the page belongs to.
    fold: int
    #: Snippets that belong to the content.
    wanted: tuple[str, ...] = ()
    #: Snippets that do not belong to the content.
    unwanted: tuple[str, ...] = ()
    #: True for a page of article-extraction-benchmark.
    is_article_set: bool = False

    @property
    def held(self) -> bool:
        """True if its site belongs to the half that is never used for tuning."""
        return hashlib.sha256(f"half {site(self.url)}".encode()).digest()[0] % 2 == 1


def cases(wcxb: Path | None, articles: Path | None) -> Iterator[Case]:
    """Yield the pages of WCXB and article-extraction-benchmark, if given."""
    if wcxb:
        for line in (wcxb / "truth.jsonl").open(encoding="utf-8"):
            row = json.loads(line)
            path = wcxb / "html" / f"{row['id']}.html"
            url = row["url"] or f"https://{row['id']}.example/"
            yield Case(
                row["id"],
                url,
                path,
                row["page_type"],
                row["main_content"],
                _fold(url),
                tuple(row["with"]),
                tuple(row["without"]),
            )
    if articles:
        known = json.loads((articles / "ground-truth.json").read_bytes())
        for name, row in sorted(known.items()):
            path = articles / "html" / f"{name}.html"
            if not path.exists():
                path = path.with_suffix(".html.gz")
            if path.exists():
                url = row.get("url") or f"https://{name}.example/"
                truth = row["articleBody"]
                yield Case(
                    name, url, path, "article", truth, _fold(url), is_article_set=True
                )


def _fold(url: str) -> int:
    """Return the fold of a page; pages of the same domain have the same fold."""
    return hashlib.sha256(site(url).encode()).digest()[0] % FOLDS


def site(url: str) -> str:
    """Return the last two labels of the host name."""
    return ".".join(host_of(url).split(".")[-2:])


def parse_page(case: Case) -> Document:
    """Return the parsed page."""
    raw = case.path.read_bytes()
    if case.path.suffix == ".gz":
        raw = gzip.decompress(raw)
    return parse(text_of(raw, "text/html", xml=False), case.url)


def walk_page(case: Case, tables: Tables) -> tuple[Walk, PageDeclarations]:
    """Return the blocks of the page, and its declarations."""
    document = parse_page(case)
    page = read_declarations(document)
    clean(document)
    drop_marks(document.body)
    return Walk(document.body, tables), page


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.lower())


def labels(walk: Walk, truth: str) -> Any:
    """Return for each block the share of its words in the known content; -1 if empty."""
    texts = list(map(words_of, walk.blocks.text))
    page = [word for text in texts for word in text]
    known = words_of(truth)
    hit = np.zeros(len(page), dtype=bool)
    for step in LCSseq.opcodes(page, known):
        if step.tag == "equal":
            hit[step.src_start : step.src_end] = True
    shares, at = [], 0
    for text in texts:
        shares.append(hit[at : at + len(text)].mean() if text else -1.0)
        at += len(text)
    taken = {tuple(t) for t, share in zip(texts, shares, strict=True) if share > 0.5}
    whole = f" {' '.join(known)} "
    for number, text in enumerate(texts):
        key = tuple(text)
        if (
            len(text) >= MOVED_WORDS
            and shares[number] <= 0.5
            and key not in taken
            and f" {' '.join(text)} " in whole
        ):
            shares[number] = 1.0
            taken.add(key)
    return np.array(shares)


def known_share(walk: Walk, truth: str) -> float:
    """Return the share of the known content's words that occur on the page.

    Pages with a low share, or without known content, are useless for training.
    """
    known = Counter(words_of(truth))
    found = Counter(words_of("\n".join(walk.blocks.text)))
    return (known & found).total() / max(known.total(), 1)


EMPTY = Tables({}, {}, {}, {}, {})
