"""Makes one ``pre`` of each table with a line of code per row, and drops line numbers.

Code hosts such as GitHub and Gitea write files and changes as such tables.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from lxml import etree

from scraper_service.content.html.document import drop
from scraper_service.content.markdown.code_blocks import language_of, text_with_breaks
from scraper_service.content.passes import visible_text
from scraper_service.options.urls import url_parts

MAX_ROWS = 5  # searched for the first line
MAX_NUMBERED = 2_000  # ``pre`` elements whose line numbers are searched
MAX_NUMBERS = 5_000_000  # characters read in search of line numbers
MAX_LEVELS = 4  # from the code to the element beside its line numbers
_NUMBER_CELL = re.compile(
    r"(?:^|[\s_-])(?:blob-num|(?:diff-)?lines?-?num(?:ber)?s?|ln-num(?:ber)?s?|linenos?|"
    r"(?:old|new)_line)(?=$|[\s_-])",
    re.IGNORECASE,
)
_CODE_CELL = re.compile(
    r"(?:^|[\s_-])(?:blob-code|lines?-(?:code|content)|line_content|ln-code|code-?lines?|"
    r"js-file-line)(?=$|[\s_-])",
    re.IGNORECASE,
)
_INNER = re.compile(r"(?:^|\s)(?:blob-code-inner|code-inner)(?=$|\s)")
_TYPE = re.compile(r"(?:^|\s)type-([\w+#.-]{1,30})")
_IS_CHANGE = etree.XPath("boolean(.//@data-code-marker | .//@data-type-marker)")
_NO_TAGS: frozenset[str] = frozenset()
# By the extension of a file; others name their language themselves.
_LANGUAGES = dict(
    pair.split(":")
    for pair in (
        "py:python js:javascript ts:typescript rb:ruby rs:rust sh:bash yml:yaml yaml:yaml "
        "kt:kotlin pl:perl cs:csharp md:markdown h:c hpp:cpp cc:cpp cpp:cpp c:c go:go "
        "java:java php:php json:json toml:toml xml:xml html:html css:css sql:sql lua:lua "
        "swift:swift scala:scala tsx:tsx jsx:jsx vue:vue ex:elixir hs:haskell r:r jl:julia"
    ).split()
)
# Hosts' paths to files; elsewhere an extension is that of the page.
_FILE_PATHS = ("/blob/", "/src/", "/tree/", "/-/")


def join_code_lines(tables: list[Any], url: str) -> list[Any]:
    """Turn each table with a line of code per row into a ``pre``, and return these."""
    made = []
    for table in tables:
        if any(map(_is_line, islice(table.iter("tr"), MAX_ROWS))):
            _join(table, url)
            made.append(table)
    return made


def drop_line_numbers(codes: list[Any]) -> None:
    """Drop the line numbers that stand in an element before a ``pre``.

    They count from any number, and are as many as the lines.
    """
    left = MAX_NUMBERS
    for code in codes[:MAX_NUMBERED]:
        if left < 0:
            return
        _name_language_of_lines(code)
        holder = code
        for _ in range(MAX_LEVELS):
            before = holder.getprevious()
            if before is not None and (start := visible_text(before, _NO_TAGS, 20)):
                if start.replace(" ", "").isdecimal():
                    numbers = visible_text(before, _NO_TAGS, left).split()
                    left -= sum(map(len, numbers))
                    if _are_numbers(numbers, code):
                        drop(before)
                        _name_language_of_table(code)
                break
            holder = holder.getparent()
            if holder is None or (holder.text and not holder.text.isspace()):
                break


def _name_language_of_lines(code: Any) -> None:
    """Give a ``pre`` the language of its lines, as GitLab writes it."""
    lines = code[0] if len(code) and code[0].tag == "code" else code
    first = lines[0] if len(lines) else None
    if first is None or "lang" not in first.attrib or "data-lang" in code.attrib:
        return
    if "line" in (first.get("class") or "").split():
        code.set("data-lang", first.get("lang"))


def _name_language_of_table(code: Any) -> None:
    """Give a ``pre`` the language around its table, as Sphinx writes it."""
    table = next(code.iterancestors("table"), None)
    if table is not None and not language_of(code) and (found := language_of(table)):
        code.set("data-lang", found)


def _are_numbers(numbers: list[str], code: Any) -> bool:
    if len(numbers) < 2 or not all(n.isdecimal() and len(n) < 8 for n in numbers):
        return False
    first = int(numbers[0])
    if any(int(number) != first + n for n, number in enumerate(numbers)):
        return False
    lines = text_with_breaks(code).strip("\n").count("\n") + 1
    return abs(lines - len(numbers)) <= 1


def _is_line(row: Any) -> bool:
    cells = _cells(row)
    return any(map(_is_number, cells)) and any(map(_is_code, cells))


def _cells(row: Any) -> list[Any]:
    return [cell for cell in row if cell.tag in {"td", "th"}]


def _is_number(cell: Any) -> bool:
    """Return True for the cell of a line number, which styles may draw."""
    first = cell[0] if len(cell) else cell
    if "data-line-number" not in {*cell.attrib, *first.attrib} and not (
        _NUMBER_CELL.search(cell.get("class") or "")
    ):
        return False
    text = visible_text(cell, _NO_TAGS, 20)
    return not text or text.isdecimal()


def _is_code(cell: Any) -> bool:
    return bool(_CODE_CELL.search(cell.get("class") or "")) and not _is_number(cell)


def _join(table: Any, url: str) -> None:
    """Turn a table into a ``pre``; other rows, such as comments, follow it."""
    lines: list[str] = []
    others: list[Any] = []
    for row in list(table.iter("tr")):
        cells = _cells(row)
        codes = [cell for cell in cells if _is_code(cell)]
        made = [_line(cell, row) for cell in codes]
        if len(made) == 2 and made[0] == made[1]:
            made.pop()  # the same line before and after a change
        elif len(made) == 2:
            made = [line for line in made if line.strip()]
        lines += made
        if not codes:
            others += [
                c for c in cells if not _is_number(c) and visible_text(c, _NO_TAGS, 1)
            ]
    language = "diff" if _IS_CHANGE(table) else _language(table, url)
    for child in list(table):
        table.remove(child)
    table.tag, table.text = "pre", "\n".join(lines)
    if language:
        table.set("data-lang", language)
    for other in reversed(others):
        other.tag, other.tail = "div", None
        table.addnext(other)


def _line(cell: Any, row: Any) -> str:
    """Return the code of a cell, behind the sign of a change."""
    inner = next((e for e in cell.iter() if _is_inner(e)), cell)
    marked = [e for e in (inner, cell) if "data-code-marker" in e.attrib]
    sign = marked[0].get("data-code-marker") if marked else None
    if sign is None and row.find(".//*[@data-type-marker]") is not None:
        sign = row.find(".//*[@data-type-marker]").get("data-type-marker")
    code = "".join(inner.itertext()).strip("\r\n")
    return (sign or "")[:1] + code


def _is_inner(element: Any) -> bool:
    return element.tag in {"code", "pre"} or bool(
        _INNER.search(element.get("class") or "")
    )


def _language(table: Any, url: str) -> str:
    if named := table.get("data-tagsearch-lang") or language_of(table):
        return str(named)
    for above in islice(table.iterancestors(), MAX_LEVELS):
        names = above.get("class") or ""
        if "blob" in names and (match := _TYPE.search(names)):
            return match[1]
    path = url_parts(url).path
    if not any(part in path for part in _FILE_PATHS):
        return ""
    return _LANGUAGES.get(path.rpartition("/")[2].rpartition(".")[2].lower(), "")
