"""The language of a page: as it declares it, or as its words tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scraper_service.content.metadata.evidence import Evidence

LEAST_TEXT = 80  # characters, to tell a language by
MAX_TEXT = 5_000

_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")


def language_of(evidence: Evidence) -> str | None:
    """Return the page's language as a tag such as ``en`` or ``de-AT``; None if unknown.

    What ``html`` says is taken as it is written. Other sources count without it, and
    the words of the page where nothing declares a language.
    """
    root = evidence.root
    declared = (root.get("lang") or root.get("xml:lang") or "").strip()
    if declared:
        return declared[:100]
    header = evidence.first("http-equiv content-language")
    for given in (header.split(",")[0], evidence.first("og:locale", "dc.language")):
        if _TAG.fullmatch(given.strip()):
            return given.strip().replace("_", "-")[:100]
    return detected(evidence.words)


def detected(text: str) -> str | None:
    """Return the language that ``text`` is written in, None for too little to tell."""
    text = " ".join(text[:MAX_TEXT].split())
    if len(text) < LEAST_TEXT:
        return None
    import pycld2  # noqa: PLC0415  # tables of some MB, and few pages need them

    try:
        reliable, _, found = pycld2.detect(
            text.encode(errors="ignore"), bestEffort=False
        )
    except pycld2.error:
        return None
    return str(found[0][1]) if reliable and found[0][1] != "un" else None
