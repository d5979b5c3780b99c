"""Writes formulas as TeX: the TeX that a page contains, or translated MathML.

Readers of office files, which translate Office MathML, share the names of characters.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

MAX_DEPTH = 40  # nested elements of a formula; deeper elements become plain text

LIKE_TEX = re.compile(r"[\\^_={}]|^\s*\w\s*$")
_BLANK_LINES = re.compile(r"\n\s*\n|\r\n?")  # would end the paragraph
_STYLE = re.compile(r"^\{\\(?:display|text)style\s+(.*)\}$", re.DOTALL)
#: See :func:`sign`.
SIGNS = {
    "\u2212": "-", "\u00d7": r"\times ", "\u22c5": r"\cdot ", "\u00b7": r"\cdot ",
    "\u00f7": r"\div ", "\u00b1": r"\pm ", "\u2213": r"\mp ", "\u2217": "*",
    "\u2264": r"\le ", "\u2265": r"\ge ", "\u2260": r"\ne ", "\u2248": r"\approx ",
    "\u2261": r"\equiv ", "\u223c": r"\sim ", "\u2245": r"\cong ", "\u221d": r"\propto ",
    "\u226a": r"\ll ", "\u226b": r"\gg ", "\u2208": r"\in ", "\u2209": r"\notin ",
    "\u2282": r"\subset ", "\u2286": r"\subseteq ", "\u2283": r"\supset ",
    "\u222a": r"\cup ", "\u2229": r"\cap ", "\u2205": r"\emptyset ", "\u2216": r"\setminus ",
    "\u2227": r"\wedge ", "\u2228": r"\vee ", "\u00ac": r"\neg ", "\u2200": r"\forall ",
    "\u2203": r"\exists ", "\u2192": r"\to ", "\u2190": r"\leftarrow ",
    "\u21d2": r"\Rightarrow ", "\u21d4": r"\Leftrightarrow ", "\u2194": r"\leftrightarrow ",
    "\u21a6": r"\mapsto ", "\u221e": r"\infty ", "\u2202": r"\partial ", "\u2207": r"\nabla ",
    "\u2211": r"\sum ", "\u220f": r"\prod ", "\u2210": r"\coprod ", "\u222b": r"\int ",
    "\u222c": r"\iint ", "\u222d": r"\iiint ", "\u222e": r"\oint ", "\u22c3": r"\bigcup ",
    "\u22c2": r"\bigcap ", "\u22c1": r"\bigvee ", "\u22c0": r"\bigwedge ",
    "\u2026": r"\dots ", "\u22ef": r"\cdots ", "\u22ee": r"\vdots ", "\u22f1": r"\ddots ",
    "\u2218": r"\circ ", "\u2295": r"\oplus ", "\u2297": r"\otimes ", "\u22a5": r"\perp ",
    "\u2225": r"\parallel ", "\u2220": r"\angle ", "\u2032": "'", "\u2033": "''",
    "\u210f": r"\hbar ", "\u2113": r"\ell ", "\u27e8": r"\langle ", "\u27e9": r"\rangle ",
    "\u230a": r"\lfloor ", "\u230b": r"\rfloor ", "\u2308": r"\lceil ", "\u2309": r"\rceil ",
    "\u2016": r"\|", "{": r"\{", "}": r"\}", "%": r"\%", "#": r"\#", "&": r"\&", "$": r"\$",
    "_": r"\_", "^": r"\hat{}", "~": r"\sim ", "\\": r"\backslash ",
    "\u2061": "", "\u2062": "", "\u2063": ",", "\u2064": "", "\u200b": "",
    "\u03f5": r"\epsilon ", "\u03d5": r"\phi ",
}  # fmt: skip
#: The commands of accents.
ACCENTS = {
    "\u0302": "hat", "^": "hat", "\u0303": "tilde", "~": "tilde", "\u0304": "bar",
    "\u0305": "overline", "\u00af": "bar", "\u0307": "dot", "\u0308": "ddot",
    "\u20d7": "vec", "\u2192": "vec", "\u030c": "check", "\u0306": "breve",
    "\u0301": "acute", "\u0300": "grave", "\u02d9": "dot",
}  # fmt: skip
FUNCTIONS = frozenset(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp lim "
    "max min sup inf det dim ker gcd arg deg hom Pr limsup liminf".split()
)
_STYLED = re.compile("[\u2100-\u214f\U0001d400-\U0001d7ff]")
# Parts of the names of characters, such as MATHEMATICAL BOLD CAPITAL A.
_ALPHABETS = (
    ("DOUBLE-STRUCK", "mathbb"),
    ("FRAKTUR", "mathfrak"),
    ("BLACK-LETTER", "mathfrak"),
    ("SCRIPT", "mathcal"),
    ("MATHEMATICAL BOLD CAPITAL", "mathbf"),
    ("MATHEMATICAL BOLD SMALL", "mathbf"),
    ("MATHEMATICAL BOLD DIGIT", "mathbf"),
)
_LAYOUTS = {  # number of arguments, and their positions
    "mfrac": (2, r"\frac{{{0}}}{{{1}}}"),
    "msup": (2, "{0}^{{{1}}}"),
    "msub": (2, "{0}_{{{1}}}"),
    "msubsup": (3, "{0}_{{{1}}}^{{{2}}}"),
    "mroot": (2, r"\sqrt[{1}]{{{0}}}"),
    "munder": (2, "{0}_{{{1}}}"),
    "mover": (2, "{0}^{{{1}}}"),
    "munderover": (3, "{0}_{{{1}}}^{{{2}}}"),
}


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
        source = next((text for text in notes if text and text.strip()), None)
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
    if _has_bare_text(element):  # no MathML, which a layout would lose
        return _row(element, depth)
    count, layout = _LAYOUTS.get(tag, (0, ""))
    if count and len(element) == count and depth < MAX_DEPTH:
        arguments = [_tex(child, depth + 1) for child in element]
        return _accent(element, arguments[0]) or layout.format(*arguments)
    if tag == "msqrt":
        return f"\\sqrt{{{_row(element, depth)}}}"
    if tag == "mfenced":
        inner = ", ".join(_tex(child, depth + 1) for child in element)
        first, last = element.get("open", "("), element.get("close", ")")
        first, last = ("".join(map(sign, text)) for text in (first, last))
        return f"{first}{inner}{last}".strip()
    if tag == "mtable":
        rows = [
            _row(row, depth + 1)
            if _has_bare_text(row)
            else " & ".join(_row(cell, depth + 2) for cell in row)
            for row in element
        ]
        return r"\begin{matrix} " + r" \\ ".join(rows) + r" \end{matrix}"
    return _row(element, depth)


def _has_bare_text(element: Any) -> bool:
    """Return True if an element has text that is in none of its children."""
    texts = (element.text, *(child.tail for child in element))
    return any(text and not text.isspace() for text in texts)


def _token(tag: str, text: str) -> str:
    if not text:
        return ""
    if text in FUNCTIONS:
        return f"\\{text}"
    if text == "\u2032":  # alone it is a script, in which ' would be one more
        return r"\prime"
    written = "".join(map(sign, text)).strip()
    is_text = tag in {"mtext", "ms"} or (tag == "mi" and len(text) > 1)
    if is_text and (len(text) > 1 or written == text) and written[:5] != r"\math":
        return plain_text(
            _STYLED.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text)
        )
    return written


def plain_text(text: str) -> str:
    """Return a text that is no formula as TeX."""
    escaped = "".join(SIGNS[c] if c in "\\{}$%#&_^~" else c for c in text)
    return f"\\text{{{escaped}}}"


def sign(character: str) -> str:
    """Return a character as TeX; a command ends with a space."""
    if character < "\x7f":
        return SIGNS.get(character, character)
    if character in SIGNS:
        return SIGNS[character]
    name = unicodedata.name(character, "")
    if _STYLED.match(character):
        plain = unicodedata.normalize("NFKC", character)
        for word, command in _ALPHABETS:
            if word in name and plain.isascii():
                return f"\\{command}{{{plain}}}"
        return plain if plain.isascii() else "".join(map(_greek, plain))
    return _greek(character)


def _greek(character: str) -> str:
    """Return a Greek letter as a command, another character unchanged."""
    words = unicodedata.name(character, "").replace("LAMDA", "LAMBDA").split()
    if words[:1] != ["GREEK"] or "WITH" in words:
        return character
    if words[1:3] in (["SMALL", "LETTER"], ["CAPITAL", "LETTER"]):
        letter = words[-1].lower()
        if letter == "omicron":
            return "o"
        is_capital = words[1] == "CAPITAL"
        prefix = "var" if words[3:] == ["FINAL", "SIGMA"] else ""
        return f"\\{prefix}{letter.capitalize() if is_capital else letter} "
    return f"\\var{words[1].lower()} " if words[-1] == "SYMBOL" else character


def _accent(element: Any, base: str) -> str:
    if element.tag != "mover":
        return ""
    accent = ACCENTS.get("".join(element[1].itertext()).strip())
    return f"\\{accent}{{{base}}}" if accent else ""
