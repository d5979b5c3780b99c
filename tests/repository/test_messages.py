"""Messages name a setting as a user types it: with its prefix but in Scrapy projects."""

from __future__ import annotations

import ast
import itertools
import re

from scraper_service import settings
from tests.test_layers import ROOT, nodes_of

OWN = sorted(name for name in settings._kinds if "_" in name or name == "PROXIES")
BARE = re.compile(rf"(?<![A-Z_])(?:{'|'.join(OWN)})(?![A-Z_])")
SOURCES = sorted((ROOT / "scraper_service").rglob("*.py"))
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def sentences(nodes):
    """Yield the text of string constants with a space that are no docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, DOCUMENTED)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in docstrings and " " in text:
            yield text


# Numbers before these nouns, unless the number is a constant or comes from counted().
COUNTED = re.compile(
    r" (?:more )?(?:character|credit|day|file|item|job|key|map|minute|page|pattern|result"
    r"|scrape|search(?:e)?|second|URL)s\b"
)
# Never 1, or the noun belongs to a rate.
MANY = (
    *("truncated", "pages of the PDF were", "pages are as they were", "days ago"),
    *("pages per minute", "in a row", "none of ", "jobs have an id"),
)


def counts_of(nodes):
    """Yield the formatted texts that have a number before a noun in the plural."""
    for node in nodes:
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for number, text in itertools.pairwise(parts):
            if not isinstance(number, ast.FormattedValue):
                continue
            name = getattr(number.value, "id", "")
            if not name.isupper() and COUNTED.match(str(getattr(text, "value", ""))):
                yield ast.unparse(node)


def test_messages_are_written_for_singular_and_plural():
    found = {
        str(path.relative_to(ROOT)): text
        for path in SOURCES
        for text in counts_of(nodes_of(path))
        if not any(words in text for words in MANY)
    }
    assert found == {}


def test_messages_name_settings_with_their_prefix():
    found = {
        str(path.relative_to(ROOT)): text
        for path in SOURCES
        for text in sentences(nodes_of(path))
        if BARE.search(text) and "in a Scrapy project" not in text
    }
    assert found == {}
