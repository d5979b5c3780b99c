"""Pages with known main content, as blocks with labels.

A block is content when most of its words are part of the longest common subsequence of
the page's words and those of the known content.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from attrs import define
from rapidfuzz.distance import LCSseq

from scraper_service.content.decode import text_of
from scraper_service.content.html.cleaning import clean
from scraper_service.content.html.document import parse
from scraper_service.content.main_content.blocks import Walk
from scraper_service.content.main_content.kinds import Declared, declared
from scraper_service.content.main_content.tables import Tables
from scraper_service.content.main_content.verdicts import drop_marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.html.document import Document

FOLDS = 5
MOVED_WORDS = 6  # of a block found elsewhere in the known content: then it was moved
_WORD = re.compile(r"\w+")


@define
class Case:
    """One page: its address, its kind, its known content."""

    id: str
    url: str
    path: Path
    kind: str
    truth: str
    fold: int
    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    is_article_set: bool = False

    @property
    def held(self) -> bool:
        """Whether its site is of the half that nothing is tuned on."""
        return hashlib.sha256(f"half {site(self.url)}".encode()).digest()[0] % 2 == 1


def cases(wcxb: Path | None, articles: Path | None) -> Iterator[Case]:
    """Yield the pages of WCXB and of the article extraction benchmark, where given."""
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
    """Pages of one domain fall together, so that a check sees unknown sites."""
    return hashlib.sha256(site(url).encode()).digest()[0] % FOLDS


def site(url: str) -> str:
    """Return the last two names of the host."""
    return ".".join((urlsplit(url).hostname or "").split(".")[-2:])


def parsed(case: Case) -> Document:
    """Return the page as a tree."""
    raw = case.path.read_bytes()
    if case.path.suffix == ".gz":
        raw = gzip.decompress(raw)
    return parse(text_of(raw, "text/html", xml=False), case.url)


def walked(case: Case, tables: Tables) -> tuple[Walk, Declared]:
    """Return the blocks of the page, and what it declares."""
    document = parsed(case)
    page = declared(document)
    clean(document)
    drop_marks(document.body)
    return Walk(document.body, tables), page


def words_of(text: str) -> list[str]:
    """Return the words that count, in lower case."""
    return _WORD.findall(text.lower())


def labels(walk: Walk, truth: str) -> Any:
    """Return for each block the share of its words that is known content."""
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
    """Return the share of the words of known content that the page has at all.

    Some pages have none of them, or no known content: there is nothing to learn there.
    """
    known = Counter(words_of(truth))
    found = Counter(words_of("\n".join(walk.blocks.text)))
    return (known & found).total() / max(known.total(), 1)


EMPTY = Tables({}, {}, {}, {}, {})
