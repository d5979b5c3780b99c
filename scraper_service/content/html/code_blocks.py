"""Prepares the code of a page: its lines, its language, and its toolbars.

Code hosts such as GitHub and Gitea write files and changes as tables with a line of code
per row. Each such table becomes one ``pre`` without line numbers. Toolbars go; a label in
one may name the language.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.html.document import BLOCKS, drop
from scraper_service.content.passes import elements, texts_in, visible_text
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ATTRIBUTES = (
    "data-lang",
    "data-language",
    "data-enlighter-language",
    "data-code-lang",
    "syntax",
    "lang",
)
_NAME_PATTERN = r"([\w+#.-]{1,30})"
# Class names of Prism and highlight.js, prettify, GitHub and Pygments, MediaWiki,
# SyntaxHighlighter, Crayon, pandoc and docutils.
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-text-|mw-highlight-lang-"
    r"|highlight-(?!source|text)|brush:\s*|lang:\s*|sourceCode\s+|src\s+src-|hljs\s+(?!lang)"
    rf"|prettyprint\s+(?:linenums\s+)?(?!lang)|code\s+(?=[a-z]+$)){_NAME_PATTERN}"
)
_LANGUAGE_NAME = re.compile(_NAME_PATTERN)
_NO_LANGUAGE = frozenset(
    "none plaintext text nohighlight default plain txt auto decode wrapper copy code "
    "container block notranslate linenums prettyprinted line-numbers en en-us "
    "true false highlight".split()
)
_BREAKS = BLOCKS | {"br"}
# Highlighters' class names for lines, line numbers, and elements next to the code.
_LINE_NAME = re.compile(r"(?<![^\s_-])line(?![^\s_-])(?!-n|-highlight)", re.IGNORECASE)
_HIGHLIGHTED = "code-line"
_LINE_NUMBER_NAME = re.compile(
    r"(?<![^\s_-])(?:lnt?|lntd|blob-num|line-?(?:no|num(?:ber)?s?))(?![^\s_-])",
    re.IGNORECASE,
)
_LINE_NAMES = re.compile(
    rf"{_LINE_NAME.pattern}|{_LINE_NUMBER_NAME.pattern}|select-none", re.IGNORECASE
)
_NOT_SELECTABLE = re.compile(r"user-select\s*:\s*none", re.IGNORECASE)
MAX_ROWS = 5  # searched for the first line
MAX_NUMBERED = 2_000  # ``pre`` elements whose line numbers are searched
MAX_NUMBERS = 5_000_000  # characters read in search of line numbers
MAX_LEVELS = 4  # from the code to the element next to its line numbers
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
_LANGUAGES_OF_FILES = dict(
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


def text_with_breaks(element: Any) -> str:
    """Return all text below ``element``, with a newline for each ``br`` and block.

    Highlighters put lines into elements of their own, with or without newlines.
    """
    if next(element.iterdescendants(), None) is None:
        return element.text or ""
    marks = [
        e for e in element.iterdescendants() if e.tag in _BREAKS or _may_be_line(e)
    ]
    if not marks:
        return "".join(element.itertext())
    unwritten = {e for e in marks if _is_no_code(e)}
    holders: dict[Any, bool] = {}
    lines = {
        e for e in marks if e.tag not in BLOCKS and _is_line(e, unwritten, holders)
    }
    parts: list[str] = []
    _collect(element, parts, unwritten, lines)
    return "".join(parts)


def _may_be_line(element: Any) -> bool:
    """Return True if names or styles may mark an element as a line, or as no code."""
    names, style = element.get("class"), element.get("style")
    return bool(
        (names and _may_name_line(names))
        or (style and "user-select" in style)
        or "data-line" in element.attrib
    )


@lru_cache(maxsize=4096)
def _may_name_line(names: str) -> bool:
    return _LINE_NAMES.search(names) is not None


def _is_no_code(element: Any) -> bool:
    """Return True for line numbers, and for elements that users cannot select."""
    names, style = element.get("class", ""), element.get("style", "")
    if _NOT_SELECTABLE.search(style) or "select-none" in names.split():
        return True
    return bool(
        _LINE_NUMBER_NAME.search(names)
        and "".join("".join(element.itertext()).split()).isdigit()
    )


def _is_line(
    element: Any, unwritten: Collection[Any], holders: dict[Any, bool]
) -> bool:
    """Return True for a line that styles draw as a block.

    Usually all siblings are lines too. Gatsby draws only highlighted lines so, between
    lines of plain text. ``holders`` keeps which elements contain lines only.
    """
    if not _is_named_line(element):
        return False
    above = element.getparent()
    if _HIGHLIGHTED in element.get("class", ""):
        before = element.getprevious()
        text = above.text if before is None else before.tail
        if text:
            return bool(text.endswith("\n"))
        return before is None or _is_named_line(before)
    if above not in holders:
        holders[above] = _holds_lines(above, unwritten)
    return holders[above]


def _holds_lines(above: Any, unwritten: Collection[Any]) -> bool:
    """Return True if an element has no text except lines."""
    if above.text and not above.text.isspace():
        return False
    return all(
        (sibling in unwritten or _is_named_line(sibling))
        and (not sibling.tail or sibling.tail.isspace())
        for sibling in above
    )


def _is_named_line(element: Any) -> bool:
    return bool(
        "data-line" in element.attrib or _LINE_NAME.search(element.get("class") or "")
    )


def _collect(
    element: Any, parts: list[str], unwritten: Collection[Any], lines: Collection[Any]
) -> None:
    """Collect the text in ``parts`` without recursion, by starts and ends of elements."""
    # Elements, with the number of parts at their start; -1 before the start.
    stack = [(element, -1)]
    while stack:
        current, began = stack.pop()
        is_line = current in lines
        is_written = current not in unwritten
        block = (
            is_written and current is not element and (is_line or current.tag in BLOCKS)
        )
        if began < 0 and is_written:
            begins = block and parts and not parts[-1].endswith("\n")
            if current.tag == "br" or begins:
                parts.append("\n")
            stack.append((current, len(parts)))
            if current.text:
                parts.append(current.text)
            stack += [(child, -1) for child in reversed(current)]
            continue
        is_empty = is_line and len(parts) == began
        if is_empty or (block and parts and not parts[-1].endswith("\n")):
            parts.append("\n")
        if current is not element and current.tail:
            # The line elements already bring the newline between them.
            tail = current.tail.removeprefix("\n") if block else current.tail
            if tail:
                parts.append(tail)


def language_of(element: Any) -> str:
    """Return the language that a ``pre``, its code or its parents name, or no text."""
    parents: list[Any] = []
    parent = element.getparent()
    while parent is not None and len(parents) < 2:
        parents.append(parent)
        parent = parent.getparent()
    for candidate in (element, *element.iter("code"), *parents):
        attributes = candidate.attrib
        if not attributes:
            continue
        for name in _ATTRIBUTES[:-1] if candidate in parents else _ATTRIBUTES:
            named = attributes.get(name)
            if (
                named
                and _LANGUAGE_NAME.fullmatch(named)
                and (found := _known_language(named))
            ):
                return found
        match = _LANGUAGE.search(attributes.get("class") or "")
        if match and (found := _known_language(match[1])):
            return found
    return ""


def _known_language(name: str) -> str:
    name = name.lower().rstrip(".;")
    return "" if name in _NO_LANGUAGE else name


def join_code_lines(tables: list[Any], url: str) -> list[Any]:
    """Replace each table with a line of code per row by a ``pre``, and return these."""
    made = []
    for table in tables:
        if any(map(_is_code_row, islice(table.iter("tr"), MAX_ROWS))):
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


def _is_code_row(row: Any) -> bool:
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
    """Replace a table by a ``pre``; other rows, such as comments, follow it."""
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
    del table[:]
    table.tag, table.text = "pre", "\n".join(lines)
    if language:
        table.set("data-lang", language)
    for other in reversed(others):
        other.tag, other.tail = "div", None
        table.addnext(other)


def _line(cell: Any, row: Any) -> str:
    """Return the code of a cell, after the sign of a change."""
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
    return _LANGUAGES_OF_FILES.get(
        path.rpartition("/")[2].rpartition(".")[2].lower(), ""
    )


MAX_HOLDERS = 3  # ancestors of the code
MAX_WORDS = 12  # next to the code, in the element around both
MAX_ELEMENTS = 60  # visited next to the code
_HOLDERS = frozenset({"div", "figure", "section", "pre", "header", "span"})
_KEPT = frozenset(
    {"pre", "code", "h1", "h2", "h3", "h4", "h5", "h6", "p", "figcaption"}
)
_ACTIONS = frozenset(
    (
        "copy|copied|copied!|copy code|copy code to clipboard|copy to clipboard|copy text|"
        "copy snippet|copy page|try|try it|try it out|try it yourself|try it yourself »|run|"
        "run code|edit|play|open|open in playground|wrap|toggle word wrap|wrap lines|"
        "download|expand|collapse|view raw|raw|ask ai|explain|fullscreen"
    ).split("|")
)
# The languages' labels, and their names in Markdown fences.
_LANGUAGES = {
    name: names.split()[0]
    for names in (
        "bash", "shell sh", "console terminal", "powershell", "python py", "python3",
        "javascript js", "jsx", "typescript ts", "tsx", "json", "jsonc", "yaml yml", "toml",
        "xml", "html", "css", "scss", "sass", "less", "java", "kotlin", "scala", "groovy",
        "swift", "objective-c", "c", "cpp c++", "csharp c#", "fsharp f#", "go golang", "rust",
        "ruby rb", "php", "perl", "lua", "r", "julia", "dart", "elixir", "erlang", "haskell",
        "clojure", "sql", "graphql", "dockerfile docker", "makefile", "nginx", "diff", "http",
        "ini", "vue", "svelte", "solidity", "markdown md", "mdx", "latex", "matlab", "text",
        "plaintext",
    )
    for name in names.split()
}  # fmt: skip


def drop_toolbars(body: Any) -> None:
    """Drop labels and buttons next to code; a label may set the code's language.

    This applies only in elements that contain little except the code.
    """
    for code in list(elements(body, "pre")):
        for button in list(code.iter("button")):
            drop(button)
        for element in [e for sibling in _neighbours(code) for e in _leaves(sibling)]:
            label = " ".join("".join(texts_in(element)).split()).lower()
            language = _LANGUAGES.get(label)
            if language and not language_of(code):
                code.set("data-lang", language)
            if language or label in _ACTIONS:
                drop(element)


def _neighbours(code: Any) -> list[Any]:
    """Return the elements next to a ``pre`` and, inside it, next to its ``code``."""
    inner = next((child for child in code if child.tag == "code"), None)
    found = [] if inner is None else [child for child in code if child is not inner]
    holder, words = code, 0
    for _ in range(MAX_HOLDERS):
        above = holder.getparent()
        if above is None or above.tag not in _HOLDERS:
            break
        others = [child for child in above if child is not holder]
        if any(_holds_code(other) for other in others):
            break
        words += sum(_words(other) for other in others) + len(
            (above.text or "").split()
        )
        if words > MAX_WORDS:
            break
        found += others
        holder = above
    return found


def _holds_code(element: Any) -> bool:
    return next(element.iter("pre"), None) is not None


def _words(element: Any) -> int:
    """Count the words of an element and after it, up to the limit."""
    count = len((element.tail or "").split())
    for text in texts_in(element):
        count += len(text.split())
        if count > MAX_WORDS:
            break
    return count


def _leaves(element: Any) -> Iterator[Any]:
    """Yield the outermost elements with a single text, except headings and paragraphs."""
    waiting = [element]
    for _ in range(MAX_ELEMENTS):
        if not waiting:
            return
        current = waiting.pop()
        if not isinstance(current.tag, str) or current.tag in _KEPT:
            continue
        texts = [text for text in texts_in(current) if not text.isspace()]
        if len(texts) == 1:
            yield current
        elif texts:
            waiting += current
