"""Reads the formulas that MathJax 3 or 4 drew, as CHTML or SVG, back as MathML.

Both name the MathML element of each part, in tags such as ``mjx-msup`` or in the attribute
``data-mml-node``. Their characters are code points in classes (``mjx-c1D465``) or in the
attribute ``data-c``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DEPTH = 40  # nested parts of a formula
MAX_CODE = 0x10FFFF

_TOKENS = frozenset({"mi", "mn", "mo", "mtext", "ms"})
_ROWS = frozenset(
    {"mrow", "texatom", "mstyle", "mpadded", "menclose", "math", "maction"}
)
_SCRIPTED = frozenset({"msup", "msub", "msubsup", "mover", "munder", "munderover"})
_OTHERS = frozenset({"mfrac", "msqrt", "mroot", "mtable", "mtr", "mlabeledtr", "mtd"})
_NAMES = _TOKENS | _ROWS | _SCRIPTED | _OTHERS
_UNDRAWN = frozenset(
    "mspace mphantom none nstrut dstrut tstrut line spacer mark surd speech title desc "
    "assistive-mml break".split()
)
_SLOTS = frozenset({"script", "base", "over", "under", "num", "den", "root", "box"})
_CODE = re.compile(r"(?<![\w-])mjx-c([0-9A-F]{1,6})(?![\w-])")
_LINK_CODE = re.compile(r"-([0-9A-F]{2,6})\Z")
_PLACE = re.compile(r"translate\(\s*-?[\d.]+\s*[,\s]\s*(-?[\d.]+)")
_LINK = "{http://www.w3.org/1999/xlink}href"
# Pieces of tall brackets, and what they are pieces of.
_PIECES = {
    **dict.fromkeys(range(0x239B, 0x239E), "("),
    **dict.fromkeys(range(0x239E, 0x23A1), ")"),
    **dict.fromkeys(range(0x23A1, 0x23A4), "["),
    **dict.fromkeys(range(0x23A4, 0x23A7), "]"),
    **dict.fromkeys(range(0x23A7, 0x23AA), "{"),
    0x23AA: "",
    **dict.fromkeys(range(0x23AB, 0x23AE), "}"),
}
_SURD = "\u221a"


class _UnknownError(Exception):
    """Raised for a part whose structure cannot be read."""


def mathml_of(drawn: Any) -> Any:
    """Return a drawn formula as a ``math`` element, None if it cannot be read.

    ``drawn`` is the element ``mjx-math`` or ``svg``.
    """
    try:
        made = _filled("math", _nodes(drawn), 0)
    except _UnknownError:
        return None
    return made if "".join(made.itertext()).strip() else None


def _name(element: Any) -> str:
    """Return the MathML name of a part in lower case, or the name of a wrapper."""
    tag = element.tag
    if not isinstance(tag, str):
        return "none"
    if tag[:4] == "mjx-":
        return tag[4:].lower()
    return (element.get("data-mml-node") or tag).lower()


def _nodes(element: Any, slots: dict[str, list[Any]] | None = None) -> list[Any]:
    """Return the parts inside an element, through its wrappers.

    Parts inside a slot, such as a denominator, are added to ``slots`` instead.
    """
    found: list[Any] = []
    is_tall = _name(element) == "munderover"
    stack = [(child, found) for child in reversed(element)]
    while stack:
        child, target = stack.pop()
        name = _name(child)
        if name in _UNDRAWN:
            continue
        is_wrapper = is_tall and name in {"munder", "box"} and child.tag[:4] == "mjx-"
        if name in _NAMES and not is_wrapper:
            target.append(child)
            continue
        if name[:1] == "m" and child.get("data-mml-node") is not None:
            raise _UnknownError(name)
        if name in {"mmultiscripts", "mfenced", "merror", "mglyph"}:
            raise _UnknownError(name)
        if slots is not None and name in _SLOTS and not is_wrapper:
            target = slots.setdefault(name, [])
        stack += [(inner, target) for inner in reversed(child)]
    return found


def _made(part: Any, depth: int) -> Any:
    name = _name(part)
    if name in _TOKENS or depth > MAX_DEPTH:
        made = etree.Element(name if name in _TOKENS else "mtext")
        made.text = _characters(part)
        return made
    if name in _ROWS:
        return _filled("mrow", _nodes(part), depth)
    if name in {"mtable", "mtr", "mtd", "mlabeledtr"}:
        return _filled(name.replace("labeled", ""), _nodes(part), depth)
    slots: dict[str, list[Any]] = {}
    nodes = _nodes(part, slots)
    arguments = _arguments(name, nodes, slots)
    if name == "msqrt":
        return _filled(name, arguments[0], depth)
    made = etree.Element(name)
    for argument in arguments:
        if not argument:
            raise _UnknownError(name)
        if len(argument) == 1:
            made.append(_made(argument[0], depth + 1))
        else:
            made.append(_filled("mrow", argument, depth))
    return made


def _filled(tag: str, parts: Sequence[Any], depth: int) -> Any:
    made = etree.Element(tag)
    made.extend(_made(part, depth + 1) for part in parts)
    return made


def _arguments(
    name: str, nodes: list[Any], slots: dict[str, list[Any]]
) -> list[list[Any]]:
    """Return the arguments of a part in the order of MathML."""
    if name == "mfrac":
        if slots:
            return [slots.get("num", []), slots.get("den", [])]
        return [nodes[:1], nodes[1:]]
    if name in {"msqrt", "mroot"}:
        if "box" in slots:
            return [slots["box"], slots.get("root", [])]
        surd = next((n for n, x in enumerate(nodes) if _characters(x) == _SURD), -1)
        if surd < 0:
            raise _UnknownError(name)
        if name == "msqrt":
            return [nodes[:surd]]
        return [nodes[: surd - 1], nodes[surd - 1 : surd]]
    if slots:
        base = slots.get("base") or nodes
        if "script" in slots:
            scripts = slots["script"]
            if name in {"msubsup", "munderover"}:
                return [base, scripts[1:], scripts[:1]]  # the upper one is first
            return [base, scripts]
        others = [slots[slot] for slot in ("under", "over") if slot in slots]
        return [base, *others]
    base, scripts = nodes[:1], nodes[1:]
    if name in {"msubsup", "munderover"}:
        if len(scripts) != 2:
            raise _UnknownError(name)
        scripts.sort(key=_height)
    return [base, *([script] for script in scripts)]


def _height(part: Any) -> float:
    """Return how high a part of an SVG stands; the ordinate grows upwards."""
    match = _PLACE.search(part.get("transform") or "")
    try:
        return float(match[1]) if match else 0.0
    except ValueError:
        return 0.0


def _characters(part: Any) -> str:
    """Return the characters of a token."""
    found: list[str] = []
    for sign in _signs(part):
        whole = _PIECES.get(ord(sign)) if len(sign) == 1 else None
        if whole is None:
            found.append(sign)
        elif whole not in found:
            found.append(whole)
    return "".join(found)


def _signs(part: Any) -> Iterator[str]:
    for element in part.iter():
        code = element.get("data-c")
        if code is None:
            if (match := _CODE.search(element.get("class") or "")) is not None:
                code = match[1]
            elif element.tag == "use":
                link = element.get("xlink:href") or element.get("href") or ""
                match = _LINK_CODE.search(link or element.get(_LINK) or "")
                code = match[1] if match else None
        if code is not None:
            try:
                number = int(code, 16)
            except ValueError:
                continue
            if 0x20 <= number <= MAX_CODE and chr(number).isprintable():
                yield chr(number)
        elif element.tag in {"mjx-c", "mjx-utext", "text"} and element.text:
            yield element.text.strip()
