"""Writes formulas as TeX: the TeX that a page contains, or translated MathML.

Formulas that MathJax 3 or 4 drew, as CHTML or SVG, are first read back as MathML.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_DEPTH = 40  # nested elements of a formula; deeper elements become plain text

LIKE_TEX = re.compile(r"[\\^_={}]|^\s*\w\s*$")
_BLANK_LINES = re.compile(r"\n\s*\n|\r\n?")  # would end the paragraph
_STYLE = re.compile(r"^\{\\(?:display|text)style\s+(.*)\}$", re.DOTALL)
_OPERATORS = {
    "\u2212": "-", "\u00d7": r"\times", "\u22c5": r"\cdot", "\u00b7": r"\cdot",
    "\u2264": r"\le", "\u2265": r"\ge", "\u2260": r"\ne", "\u2248": r"\approx",
    "\u2211": r"\sum", "\u220f": r"\prod", "\u222b": r"\int", "\u221e": r"\infty",
    "\u2208": r"\in", "\u2192": r"\to", "\u00b1": r"\pm", "\u2202": r"\partial",
    "\u2207": r"\nabla", "\u2200": r"\forall", "\u2203": r"\exists", "\u2026": r"\dots",
    "{": r"\{", "}": r"\}", "%": r"\%", "#": r"\#", "&": r"\&",
    "\u2061": "", "\u2062": "", "\u2063": ",", "\u2064": "",
    "\u2032": r"\prime", "\u222a": r"\cup", "\u2229": r"\cap", "\u2282": r"\subset",
    "\u2286": r"\subseteq", "\u2205": r"\emptyset", "\u2227": r"\wedge", "\u2228": r"\vee",
    "\u21d2": r"\Rightarrow", "\u21d4": r"\Leftrightarrow", "\u21a6": r"\mapsto",
    "\u2261": r"\equiv", "\u223c": r"\sim", "\u27e8": r"\langle", "\u27e9": r"\rangle",
    "\u2209": r"\notin", "\u00ac": r"\neg", "\u2225": r"\parallel", "\u22ef": r"\cdots",
}  # fmt: skip
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho "
        "sigma tau upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi "
        "Omega".split(),
        strict=True,
    )
)
_STYLED = re.compile("[\u2100-\u214f\U0001d400-\U0001d7ff]")
# Parts of the names of characters, such as MATHEMATICAL BOLD CAPITAL A.
_ALPHABETS = (
    ("DOUBLE-STRUCK CAPITAL", "mathbb"),
    ("FRAKTUR", "mathfrak"),
    ("BLACK-LETTER", "mathfrak"),
    ("SCRIPT CAPITAL", "mathcal"),
    ("SCRIPT SMALL", "mathcal"),
    ("MATHEMATICAL BOLD CAPITAL", "mathbf"),
    ("MATHEMATICAL BOLD SMALL", "mathbf"),
    ("MATHEMATICAL BOLD DIGIT", "mathbf"),
)
_FUNCTIONS = frozenset("sin cos tan log ln exp lim max min det gcd arg sup inf".split())
_ACCENTS = {"\u00af": "bar", "^": "hat", "~": "tilde", "\u2192": "vec", "\u02d9": "dot"}
_LAYOUTS = {  # number of arguments, and their places
    "mfrac": (2, r"\frac{{{0}}}{{{1}}}"),
    "msup": (2, "{0}^{{{1}}}"),
    "msub": (2, "{0}_{{{1}}}"),
    "msubsup": (3, "{0}_{{{1}}}^{{{2}}}"),
    "mroot": (2, r"\sqrt[{1}]{{{0}}}"),
    "munder": (2, "{0}_{{{1}}}"),
    "mover": (2, "{0}^{{{1}}}"),
    "munderover": (3, "{0}_{{{1}}}^{{{2}}}"),
}
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


def tex_of(element: Any) -> tuple[str, bool] | None:
    """Return the TeX in or below ``element`` and whether it is displayed, or None."""
    maths = element if element.tag == "math" else next(element.iter("math"), None)
    if maths is None:
        return None
    displayed = "block" in {
        maths.get("display"),
        maths.get("mode"),
        element.get("display"),
    }
    source = maths.get("data-tex") or maths.get("data-latex")
    if source is None:
        notes = (
            note.text
            for note in maths.iter("annotation")
            if "tex" in (note.get("encoding") or "").lower()
        )
        source = next(notes, None)
    if source is None:
        source = _row(maths, 0) or maths.get("alttext") or ""
    return _tidy(source), displayed


def _tidy(source: str) -> str:
    source = _BLANK_LINES.sub("\n", source.strip())
    match = _STYLE.match(source)
    return match[1].strip() if match else source


def _row(element: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        return " ".join("".join(element.itertext()).split())
    parts = [(element.text or "").strip()] if element.text else []
    for child in element:
        parts.append(_tex(child, depth + 1))
        if child.tail and child.tail.strip():
            parts.append(child.tail.strip())
    return " ".join(part for part in parts if part)


def _tex(element: Any, depth: int) -> str:
    tag = element.tag
    if tag in {"mi", "mn", "mo", "mtext", "ms"}:
        return _token(tag, " ".join("".join(element.itertext()).split()))
    if tag in {"annotation", "annotation-xml", "mphantom", "mspace"}:
        return ""
    count, layout = _LAYOUTS.get(tag, (0, ""))
    if count and len(element) == count and depth < MAX_DEPTH:
        arguments = [_tex(child, depth + 1) for child in element]
        return _accent(tag, arguments) or layout.format(*arguments)
    if tag == "msqrt":
        return f"\\sqrt{{{_row(element, depth)}}}"
    if tag == "mfenced":
        inner = ", ".join(_tex(child, depth + 1) for child in element)
        return f"{element.get('open', '(')}{inner}{element.get('close', ')')}"
    if tag == "mtable":
        rows = [" & ".join(_row(cell, depth + 2) for cell in row) for row in element]
        return r"\begin{matrix} " + r" \\ ".join(rows) + r" \end{matrix}"
    return _row(element, depth)


def _token(tag: str, text: str) -> str:
    if not text.isascii() and (styled := _STYLED.search(text)) is not None:
        name = unicodedata.name(styled[0], "")
        command = next((c for part, c in _ALPHABETS if part in name), None)
        text = _STYLED.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text)
        if command is not None:
            return f"\\{command}{{{text}}}"
    if text in _OPERATORS:
        return _OPERATORS[text]
    if text in _GREEK:
        return f"\\{_GREEK[text]}"
    if text in _FUNCTIONS:
        return f"\\{text}"
    if tag in {"mtext", "ms"} or (tag == "mi" and len(text) > 1):
        return f"\\text{{{text}}}" if text else ""
    return text


def _accent(tag: str, arguments: list[str]) -> str:
    accent = _ACCENTS.get(arguments[1]) if tag == "mover" else None
    if arguments[1:] == [r"\to"] and tag == "mover":
        accent = "vec"
    return f"\\{accent}{{{arguments[0]}}}" if accent else ""


class _UnknownError(Exception):
    """Raised for a part whose structure cannot be read."""


def mathml_of(drawn: Any) -> Any:
    """Return a drawn formula as a ``math`` element, None if it cannot be read.

    ``drawn`` is the element ``mjx-math`` or ``svg``.
    """
    try:
        made = _fill("math", _nodes(drawn), 0)
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


def _build(part: Any, depth: int) -> Any:
    name = _name(part)
    if name in _TOKENS or depth > MAX_DEPTH:
        made = etree.Element(name if name in _TOKENS else "mtext")
        made.text = _characters(part)
        return made
    if name in _ROWS:
        return _fill("mrow", _nodes(part), depth)
    if name in {"mtable", "mtr", "mtd", "mlabeledtr"}:
        return _fill(name.replace("labeled", ""), _nodes(part), depth)
    slots: dict[str, list[Any]] = {}
    nodes = _nodes(part, slots)
    arguments = _arguments(name, nodes, slots)
    if name == "msqrt":
        return _fill(name, arguments[0], depth)
    made = etree.Element(name)
    for argument in arguments:
        if not argument:
            raise _UnknownError(name)
        if len(argument) == 1:
            made.append(_build(argument[0], depth + 1))
        else:
            made.append(_fill("mrow", argument, depth))
    return made


def _fill(tag: str, parts: Sequence[Any], depth: int) -> Any:
    made = etree.Element(tag)
    made.extend(_build(part, depth + 1) for part in parts)
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
