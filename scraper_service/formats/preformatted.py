"""Code: spans, and ``<pre>`` as a fenced block with its language."""

from __future__ import annotations

import re
from typing import Any

from scraper_service.formats.inline import PAD, plain
from scraper_service.formats.tags import BLOCKS

_ATTRIBUTES = (
    "data-lang",
    "data-language",
    "data-enlighter-language",
    "data-code-lang",
    "syntax",
    "lang",
)
_NAME = r"([\w+#.-]{1,30})"
# Prism and highlight.js, prettify, GitHub and Pygments, MediaWiki, SyntaxHighlighter,
# Crayon, pandoc, docutils.
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-text-|mw-highlight-lang-"
    r"|highlight-(?!source|text)|brush:\s*|lang:\s*|sourceCode\s+|src\s+src-|hljs\s+(?!lang)"
    rf"|prettyprint\s+(?:linenums\s+)?(?!lang)|code\s+(?=[a-z]+$)){_NAME}"
)
_NAMED = re.compile(_NAME)
_NO_LANGUAGE = frozenset(
    "none plaintext text nohighlight default plain txt auto decode wrapper copy code "
    "container block notranslate linenums prettyprinted line-numbers en en-us "
    "true false".split()
)
_BLANK_END = re.compile(r"\n\s*\Z")


def code_span(text: str) -> str:
    """Return ``text`` as a code span, only its space where there is nothing else."""
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
    """Return all text below ``element``; a newline for each ``br`` and each block.

    Highlighters put lines into elements of their own, with or without newlines.
    """
    if next(element.iterdescendants("br", *BLOCKS), None) is None:
        return "".join(element.itertext())
    parts: list[str] = []
    _collect(element, parts)
    return "".join(parts)


def _collect(element: Any, parts: list[str]) -> None:
    """Walk without recursion: events of an element's start and end."""
    stack = [(element, False)]
    while stack:
        current, done = stack.pop()
        block = current is not element and current.tag in BLOCKS
        if not done:
            begins = block and parts and not parts[-1].endswith("\n")
            if current.tag == "br" or begins:
                parts.append("\n")
            if current.text:
                parts.append(current.text)
            stack.append((current, True))
            stack += [(child, False) for child in reversed(current)]
            continue
        if block and parts and not parts[-1].endswith("\n"):
            parts.append("\n")
        if current is not element and current.tail:
            tail = current.tail
            # The newline between two lines that are elements is theirs.
            parts.append(tail.removeprefix("\n") if block else tail)


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
    return f"{fence}{_language(element)}\n{code}\n{fence}"


def _language(element: Any) -> str:
    """Read the language from pre, its code, and its parents."""
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
            if named and _NAMED.fullmatch(named) and (found := _settled(named)):
                return found
        match = _LANGUAGE.search(attributes.get("class") or "")
        if match and (found := _settled(match[1])):
            return found
    return ""


def _settled(name: str) -> str:
    name = name.lower().rstrip(".;")
    return "" if name in _NO_LANGUAGE else name
