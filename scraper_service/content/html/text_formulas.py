r"""Finds the formulas between delimiters such as ``\(`` in the text of a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_FORMULAS = 20_000  # of a page
MAX_NAMES = 50  # environments of a text
MAX_INLINE = 1000  # characters between single dollars

_PAIRS = (
    (r"\(", r"\)", False),
    (r"\[", r"\]", True),
    ("$$", "$$", True),
    ("$", "$", False),
)
_ENDS = {start: end for start, end, _ in _PAIRS}
_START = re.compile(r"(?<!\\)(?:\\[(\[]|\$\$?|\\begin\{([a-zA-Z]{1,20}\*?)\})")
_SURE_TEX = re.compile(r"\\[a-zA-Z]|[\^_={}]|^[a-zA-Z]$")
_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}[\s,.;:]")
# Elements and classes that MathJax and KaTeX leave alone.
_SKIPPED = frozenset(
    "script style textarea pre code kbd samp option math noscript template annotation svg "
    "mjx-container".split()
)
_IGNORED = re.compile(
    r"tex2jax_ignore|mathjax_ignore|no-?mathjax|(?:^|\s)katex(?:\s|$)"
)
_BREAKS = frozenset({"br", "wbr"})
_BREAK = "\ue0f0"  # stands for a line break


def undelimited(text: str) -> tuple[str, bool]:
    """Return a formula without the delimiters around it, and whether it is displayed."""
    text = text.strip()
    for start, end, displayed in _PAIRS:
        inner = text[len(start) : -len(end)]
        if text.startswith(start) and text.endswith(end) and inner.strip():
            return inner.strip(), displayed
    return text, False


def mark_formulas_in_text(body: Any, dollars: str) -> None:
    """Make the formulas in the text of a page ``math`` elements with their TeX.

    ``dollars`` is ``$`` for a page that declares single dollars as delimiters; otherwise
    only sure TeX counts between them.
    """
    left = MAX_FORMULAS
    stack = [body]
    while stack and left > 0:
        element = stack.pop()
        names = element.get("class")
        if element.tag in _SKIPPED or (names and _IGNORED.search(names)):
            continue
        before, breaks, parts = None, [], [element.text or ""]
        children = list(element)
        for child in (*children, None):
            if child is not None and child.tag in _BREAKS:
                breaks.append(child)
                parts += [_BREAK if child.tag == "br" else "", child.tail or ""]
                continue
            left -= _mark_run(element, before, breaks, "".join(parts), dollars)
            if child is not None:
                before, breaks, parts = child, [], [child.tail or ""]
        stack += reversed(children)


def _mark_run(
    parent: Any, before: Any, breaks: list[Any], text: str, dollars: str
) -> int:
    """Mark the formulas of a text with line breaks; return their number.

    The text begins behind the child ``before``, or at the start of ``parent``.
    """
    if "$" not in text and "\\" not in text:
        return 0
    found = _formulas(text, dollars)
    if not found:
        return 0
    for element in breaks:
        parent.remove(element)
    texts: list[str] = []  # the text behind each new element, and before the first one
    made: list[Any] = []
    at = 0
    for start, end, tex, displayed in found:
        _add_text(text[at:start], made, texts)
        formula = etree.Element("math")
        formula.set("data-tex", tex.replace(_BREAK + "\n", "\n").replace(_BREAK, "\n"))
        formula.text = text[start:end].replace(_BREAK, " ")
        if displayed:
            formula.set("display", "block")
        made.append(formula)
        at = end
    _add_text(text[at:], made, texts)
    for element, tail in zip(made, texts[1:], strict=True):
        element.tail = tail or None
    if before is None:
        parent.text = None
        for element in reversed(made):
            parent.insert(0, element)
        parent.text = texts[0] or None
    else:
        before.tail = None
        for element in reversed(made):
            before.addnext(element)
        before.tail = texts[0] or None
    return len(found)


def _add_text(text: str, made: list[Any], texts: list[str]) -> None:
    """Add a text, with an element for each line break in it."""
    first, *others = text.split(_BREAK)
    texts.append(first)
    for other in others:
        made.append(etree.Element("br"))
        texts.append(other)


def _formulas(text: str, dollars: str) -> Sequence[tuple[int, int, str, bool]]:
    """Return start, end, TeX and kind of the formulas in a text, in linear time."""
    found: list[tuple[int, int, str, bool]] = []
    next_end: dict[str, int] = {}  # the next place of each delimiter; -1 for none
    at = 0
    while (match := _START.search(text, at)) is not None:
        start, inside = match.span()
        at = inside
        if match[0] == "$":
            end = _closing_dollar(text, inside, dollars)
            if end > 0:
                found.append((start, end + 1, text[inside:end].strip(), False))
                at = end + 1
            continue
        name = match[1]
        closing = f"\\end{{{name}}}" if name else _ENDS[match[0]]
        end = next_end.get(closing, 0)
        if 0 <= end < inside:
            if len(next_end) > MAX_NAMES:
                continue
            end = next_end[closing] = text.find(closing, inside)
        if end < 0:
            continue
        after = end + len(closing)
        tex = text[start:after] if name else text[inside:end].strip()
        if tex:
            found.append((start, after, tex, match[0] != r"\("))
            at = after
    return found


def _closing_dollar(text: str, inside: int, dollars: str) -> int:
    r"""Return the place of the dollar that ends a formula, -1 for a sum of money.

    The rules are those of pandoc: no white space inside the dollars, no digit behind.
    """
    end = text.find("$", inside, inside + MAX_INLINE)
    while end > 0 and text[end - 1] == "\\":
        end = text.find("$", end + 1, inside + MAX_INLINE)
    if (
        end <= inside
        or text[inside].isspace()
        or text[end - 1].isspace()
        or text[end + 1 : end + 2].isdigit()
    ):
        return -1
    tex = text[inside:end]
    if _SURE_TEX.search(tex):
        return end
    return end if dollars == "$" and not _PROSE.search(tex) else -1
