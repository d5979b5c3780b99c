"""Writes code as Markdown: code spans, and ``<pre>`` as fenced blocks with language."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scraper_service.content.html.elements import BLOCKS
from scraper_service.content.markdown.inline import PAD, plain

if TYPE_CHECKING:
    from collections.abc import Collection

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
# Highlighters' class names for lines, line numbers, and elements beside the code.
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
_BLANK_END = re.compile(r"\n\s*\Z")


def code_span(text: str) -> str:
    """Return ``text`` as a code span; mere white space stays white space."""
    text = plain(text)
    if not text.strip():
        return text
    fence = "`"
    if "`" in text:
        longest = max(len(run) for run in re.findall("`+", text))
        fence = "`" * (longest + 1)
    edges = text[0] + text[-1]
    pad = PAD if "`" in edges or edges == "  " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


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
    lines of plain text. ``holders`` keeps which elements hold lines only.
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
    """Return True if an element has no text besides lines."""
    if above.text and not above.text.isspace():
        return False
    return all(
        (beside in unwritten or _is_named_line(beside))
        and (not beside.tail or beside.tail.isspace())
        for beside in above
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


def fenced(element: Any) -> str:
    """Return a ``pre`` element as a fenced code block, empty if it has no text."""
    code = text_with_breaks(element)
    if "\r" in code:
        code = code.replace("\r\n", "\n").replace("\r", "\n")
    if not code.isascii():
        code = re.sub(
            "[\0\ufeff\u200b\u202a-\u202e\u2066-\u2069]", "", code.replace("\xa0", " ")
        )
    code = code.strip("\n")
    if not code or code.isspace():
        return ""
    code = _BLANK_END.sub("", code)
    longest = 2
    if "```" in code:
        longest = max(len(run) for run in re.findall("`{3,}", code))
    fence = "`" * (longest + 1)
    return f"{fence}{language_of(element)}\n{code}\n{fence}"


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
