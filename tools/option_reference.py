"""Write ``docs/reference/options.md`` from the catalogue of options.

``python -m tools.option_reference`` writes the page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from scraper_service.options import catalogue
from scraper_service.options.catalogue import COMPUTED, REQUIRED, Option, TableT
from scraper_service.options.parsing import (
    MAX_INTEGER,
    MAX_ITEMS,
    MAX_TEXT,
    Array,
    Choice,
    Number,
    Text,
    bare_kind,
)

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "options.md"

HEAD = """# Options

Every option of every request, with its name at each entrance. Spiders take an argument
as `-a NAME=VALUE`. The command line takes options without a flag in `--options JSON`,
with their names in v2. A flag shows its own unit: `maxAge` has milliseconds, `--max-age` seconds.

Where defaults differ, that of v2 stands first, then that of v1, then that of spiders and
the command line.
[Scrape and formats](../api/scrape.md) has the values of formats, actions and other objects.

This page is written by `make docs` from `scraper_service/options/catalogue.py`.
"""

# Title, table, and whether spiders take the options.
TABLES = (
    ("Pages", (*catalogue.SCRAPE, catalogue.RETENTION), True),
    ("Callers", catalogue.CALLER, True),
    ("Crawls", catalogue.CRAWL, True),
    ("Batches", catalogue.BATCH, True),
    ("Maps", catalogue.MAP, True),
    ("Searches", catalogue.SEARCH, True),
    ("Extract", catalogue.EXTRACT, False),
    ("Agent", catalogue.AGENT, False),
    ("llms.txt", catalogue.LLMS_TEXT, False),
    ("Deep research", catalogue.RESEARCH, False),
)

# What the parsers of requests make of computed defaults, by attribute.
COMPUTED_AS = {"formats": "`markdown`", "sources": "`web`"}


def page() -> str:
    """Return the text of the page."""
    return HEAD + "".join(_section(*each) for each in TABLES)


def _section(title: str, table: TableT, has_arguments: bool) -> str:
    head = "| v2 | v1 | Argument | Flag | Values | Default | Meaning |\n"
    rows = "".join(_row(option, has_arguments) for option in table)
    return f"\n## {title}\n\n{head}|---|---|---|---|---|---|---|\n{rows}"


def _row(option: Option, has_arguments: bool) -> str:
    argument = option.name("shell") if has_arguments else None
    cells = (
        _code(option.name("v2")),
        _code(option.name("v1")),
        _code(argument),
        _flag(option),
        _values(option),
        _defaults(option, has_arguments),
        option.help,
    )
    return f"| {' | '.join(cells)} |\n"


def _flag(option: Option) -> str:
    """Return the names of a flag, the last one with its value, which may be a unit."""
    if option.flag is None:
        return ""
    *short, name = option.flag.names.split()
    value = f" {option.flag.metavar}" if option.flag.metavar else ""
    return " ".join(map(_code, (*short, name + value)))


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _values(option: Option) -> str:
    kind = bare_kind(option.value_kind("v2"))
    if isinstance(kind, Choice):
        return ", ".join(map(_code, kind.values))
    if isinstance(kind, Number):
        is_open = kind.maximum >= MAX_INTEGER
        bounds = f"from {kind.minimum}" + ("" if is_open else f" to {kind.maximum}")
        return f"{kind.expected} {bounds}"
    if isinstance(kind, Text) and kind.maximum < MAX_TEXT:
        return f"string, at most {kind.maximum} characters"
    if isinstance(kind, Array) and kind.maximum != MAX_ITEMS:
        return f"array, at most {kind.maximum} items"
    return str(kind.expected)


def _defaults(option: Option, has_arguments: bool) -> str:
    entrances = ("v2", "v1", "shell") if has_arguments else ("v2", "v1")
    named = [each for each in entrances if option.name(each)]
    values = [option.default_value(each) for each in named]
    computed = COMPUTED_AS.get(option.attribute, "none")
    shown = [computed if each is COMPUTED else _shown(each) for each in values]
    return shown[0] if len(set(shown)) == 1 else ", ".join(shown)


def _shown(value: Any) -> str:
    if value is REQUIRED:
        return "required"
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return ", ".join(f"`{_type_of(each)}`" for each in value)
    return f"`{value}`"


def _type_of(value: Any) -> str:
    return str(value.type if attrs.has(type(value)) else value)


if __name__ == "__main__":
    PAGE.write_text(page())
