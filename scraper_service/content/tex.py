"""Writes formulas as TeX: the TeX that a page contains, or translated MathML."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

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
