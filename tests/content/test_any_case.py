"""Searches in any case find what expressions with ``re.IGNORECASE`` find."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from scraper_service.content.words import AnyCase

PATTERN = r"\b(?:last updated|größe|skip)\b|вход(?=[.!])|^kiss"
#: Letters in several cases, some of which ``re`` takes as alike: ``i`` and ``\u0131``.
LETTERS = "la\u017ftLAST updatedUPDATED größeGRÖSSE sKkipIİ\u0131 вВхХодОД.!"
WORDS = [
    *(
        "last updated",
        "LAST Updated",
        "la\u017ft updated",
        "GRÖßE",
        "Größe",
        "SKİP",
        "sk\u0131p",
    ),
    *("\u212aiss", "ВХОД!", "вход.", "ßkip", "kis\u017f", "other words"),
]


@given(st.lists(st.sampled_from(WORDS) | st.text(LETTERS, max_size=8)).map(" ".join))
def test_any_case_matches_like_the_flag(text: str) -> None:
    usual = re.compile(PATTERN, re.IGNORECASE)
    tested = AnyCase(PATTERN)
    spans = [match.span() for match in usual.finditer(text)]
    assert [match.span() for match in tested.finditer(text)] == spans
    first = tested.search(text)
    assert (first is None) == (not spans)
    assert first is None or first.span() == spans[0]
    assert tested.is_in(text) == bool(spans)
