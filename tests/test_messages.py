"""Messages name a setting as a user types it: with its prefix but in Scrapy projects."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from scraper_service import settings

ROOT = Path(__file__).parents[1]
OWN = sorted(name for name in settings._kinds if "_" in name or name == "PROXIES")
BARE = re.compile(rf"(?<![A-Z_])(?:{'|'.join(OWN)})(?![A-Z_])")
SOURCES = sorted((ROOT / "scraper_service").rglob("*.py"))
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def sentences(tree):
    """Yield the text of string constants with a space that are no docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and id(node) not in docstrings and " " in text:
            yield text


def test_messages_name_settings_with_their_prefix():
    found = {
        str(path.relative_to(ROOT)): text
        for path in SOURCES
        for text in sentences(ast.parse(path.read_text()))
        if BARE.search(text) and "in a Scrapy project" not in text
    }
    assert found == {}
