"""Writes charts and SmartArt of office files as tables and lists, and formulas as TeX.

Charts contain the values that they show (ECMA-376, part 1, 21.2). SmartArt is a tree of
texts (21.4). Formulas are Office MathML (22.1) or MathML itself.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.decode import Unreadable
from scraper_service.content.documents.files import (
    Archive,
    attribute,
    element,
    escape,
    local,
    nested_list,
    parse_digits,
    table,
)
from scraper_service.content.tex import ACCENTS, FUNCTIONS, plain_text, sign

if TYPE_CHECKING:
    from scraper_service.content.losses import Losses

MAX_POINTS = 5000  # of a series
MAX_SERIES = 100
MAX_ITEMS = 5000  # of a SmartArt
MAX_ELEMENTS = 1_000_000  # of all charts and SmartArt of a file
CHART = "Only charts that contain their values, and not too many, become tables."
SMART_ART = "The SmartArt contains no texts."
OBJECT = "Files embedded in a document are not converted."
_EQUATIONS = ("Equation", "MathType", "opendocument.MathDocument")

Relations = dict[str, tuple[str, str, bool]]
MAX_DEPTH = 40  # nested elements of a formula
MAX_TEX = 20_000  # characters of a formula
UNKNOWN = "The formula has unknown parts, is nested too deeply or is too long."

_GROUPS = {
    "\u23df": "underbrace",
    "\u23de": "overbrace",
    "\u2192": "overrightarrow",
    "\u2190": "overleftarrow",
}
# Characters of accents, operators and groups that name none.
_CHARACTERS = {"acc": "\u0302", "nary": "\u222b", "groupChr": "\u23df"}
_MATRICES = {"()": "p", "[]": "b", "||": "v", "{}": "B", "\u2016\u2016": "V"}
_STYLES = {"double-struck": "mathbb", "fraktur": "mathfrak", "script": "mathcal"}
_SINGLE = re.compile(r"\\[A-Za-z]+(\{[^{}]*\})?|\([^()]*\)|\d+")
_TALL = re.compile(r"\\(?:frac|begin|sum|int|prod|sqrt|binom)\b")
_SPACE = re.compile(r" +(?=[ }^_]|\Z)|(?<=[{ ]) +")
_IGNORED = frozenset({"del", "moveFrom", "bookmarkStart", "bookmarkEnd", "proofErr"})
_ITEMS = frozenset({"node", "asst"})  # types of points with the text of an item
_ROWS = frozenset(
    "oMath oMathPara e num den sub sup deg lim fName box borderBox m ins moveTo sdt "
    "sdtContent smartTag hyperlink".split()
)


class Graphics:
    """Converts the charts and SmartArt of a file, which share one limit of elements."""

    def __init__(self, archive: Archive, losses: Losses):
        self._archive = archive
        self._losses = losses
        self._left = MAX_ELEMENTS

    def html(self, data: Any, relations: Relations) -> str | None:
        """Return the chart or SmartArt in ``graphicData`` as HTML, or record it.

        None for data of another kind.
        """
        losses = self._losses
        for item in data:
            kind = local(item)
            if kind == "chart":
                found = self._part(relations, attribute(item, "id"))
                html = chart_html(found)
                _record_cut(found, "pt", "values of a series", MAX_POINTS, losses)
                _record_cut(found, "ser", "series of a chart", MAX_SERIES, losses)
                if not html:
                    losses.add("chart", CHART, text=chart_title(found))
                return html
            if kind == "relIds":
                found = self._part(relations, attribute(item, "dm"))
                html = _smart_art(found)
                _record_cut(found, "pt", "items of a SmartArt", MAX_ITEMS, losses)
                if not html:
                    losses.add("diagram", SMART_ART)
                return html
        return None

    def _part(self, relations: Relations, name: str | None) -> Any:
        """Return the root of a part; an empty element for a part that is not read."""
        _, target, is_external = relations.get(name or "", ("", "", True))
        root = etree.Element("missing")
        if not is_external and target in self._archive and self._left > 0:
            with suppress(Unreadable):
                root = self._archive.xml(target)
        # The same part may be named any number of times.
        self._left -= sum(1 for _ in root.iter())
        return root


def record_object(name: str, losses: Losses) -> None:
    """Record an embedded file by the name of its program or kind."""
    if any(word in name for word in _EQUATIONS):
        reason = "Formulas of old programs are pictures without text."
        losses.add("formula", reason, text=name)
    else:
        losses.add("embeddedDocument", OBJECT, text=name)


def _record_cut(root: Any, name: str, what: str, limit: int, losses: Losses) -> None:
    groups = Counter(item.getparent() for item in root.iter(f"{{*}}{name}"))
    count = max(groups.values(), default=0)
    if count > limit:
        losses.add("truncated", f"The limit is {limit} of the {count} {what}.")


def chart_title(chart: Any) -> str:
    """Return the title of a chart; empty without one."""
    title = next(chart.iter("{*}title"), None)
    return "" if title is None else _text(title)


def chart_html(chart: Any) -> str:
    """Return a chart's title and values: a row for each category; empty without values."""
    series = []
    for number, item in enumerate(islice(chart.iter("{*}ser"), MAX_SERIES), 1):
        categories = _points(item, "cat", "xVal")
        values = _points(item, "val", "yVal")
        name = item.find("{*}tx")
        label = _text(name) if name is not None else f"Series {number}"
        if values:
            series.append((label, categories, values))
    parts = []
    for categories, group in groupby(series, key=lambda one: one[1]):
        columns = list(group)
        numbers = sorted(set(categories).union(*(values for _, _, values in columns)))
        rows = [["", *(escape(label) for label, _, _ in columns)]]
        rows += [
            [
                escape(categories.get(n, str(n + 1))),
                *(escape(values.get(n, "")) for _, _, values in columns),
            ]
            for n in numbers
        ]
        parts.append(table(rows, headers=1))
    title = chart_title(chart)
    if parts and title:
        parts.insert(0, element("p", escape(title)))
    return "\n".join(parts)


def _points(series: Any, *names: str) -> dict[int, str]:
    """Return the cached values of a series by their number."""
    source = next((s for n in names for s in series.iterfind(f"{{*}}{n}")), None)
    found: dict[int, str] = {}
    if source is None:
        return found
    for point in source.iter("{*}pt"):
        value = (point.findtext("{*}v") or "").strip()
        number = parse_digits(attribute(point, "idx") or "0")
        if number < MAX_POINTS and value:
            # Levels of categories come from the inner to the outer.
            found[number] = f"{value} {found[number]}" if number in found else value
    return found


def _smart_art(model: Any) -> str:
    points = model.iterfind("{*}ptLst/{*}pt")
    texts = (p.find("{*}t") for p in points if p.get("type", "node") in _ITEMS)
    shown = filter(None, (_text(text) for text in texts if text is not None))
    return nested_list([(0, escape(text)) for text in islice(shown, MAX_ITEMS)])


def _text(parent: Any) -> str:
    """Return the text of paragraphs, or a cached value, as a single line."""
    paragraphs = list(parent.iter("{*}p"))
    parts = ["".join(t.text or "" for t in p.iter("{*}t")) for p in paragraphs]
    if not paragraphs:
        parts = [t.text or "" for t in parent.iter("{*}t", "{*}v") if not len(t)]
    return " ".join(" ".join(parts).split())


# -- formulas --------------------------------------------------------------------------


class _UnknownPart(Exception):
    """Raised for an element that is unknown, or nested too deeply."""


def formula(part: Any, losses: Losses) -> str:
    """Return Office MathML as HTML ``math`` elements with TeX, or record it."""
    display = {"display": "block"} if local(part) == "oMathPara" else {}
    found = []
    formulas = list(part.iterfind("{*}oMath")) if display else [part]
    for item in formulas:
        try:
            tex = _SPACE.sub("", _row(item, 0)).strip()
            if len(tex) > MAX_TEX:
                raise _UnknownPart
        except _UnknownPart:
            tex = ""
            losses.add("formula", UNKNOWN, text="".join(item.itertext()))
        if tex:
            named = {"data-tex": tex, **display}
            found.append(element("math", escape(tex), **named))
    return " ".join(found)


def mathml(root: Any, *, display: bool = True) -> str:
    """Return MathML as an HTML ``math`` element, without its namespace."""
    for item in root.iter(etree.Element):
        item.tag = local(item)
        item.attrib.pop("display", None)
    etree.cleanup_namespaces(root)
    if display:
        root.set("display", "block")
    root.tail = None
    return str(etree.tostring(root, encoding="unicode", method="html"))


def _row(parent: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise _UnknownPart
    return "".join(_element(item, depth + 1) for item in parent)


def _element(item: Any, depth: int) -> str:
    kind = local(item)
    if kind.endswith("Pr") or kind in _IGNORED or not kind:
        return ""
    if kind == "r":
        return _run(item)
    if kind == "m" and item.find("{*}mr") is not None:
        return _matrix(item, depth, "")
    if kind in _ROWS:
        return _row(item, depth)
    return _WRITERS.get(kind, _structure)(item, depth)


def _child(item: Any, name: str, depth: int) -> str:
    found = item.find(f"{{*}}{name}")
    return "" if found is None else _SPACE.sub("", _row(found, depth))


def _property(item: Any, name: str, default: str) -> str:
    found = item.find(f"{{*}}{local(item)}Pr/{{*}}{name}")
    if found is None:
        return default
    value = attribute(found, "val")
    return "1" if value is None and name.endswith("Hide") else value or ""


def _run(item: Any) -> str:
    text = "".join(t.text or "" for t in item.iterfind("{*}t"))
    facts = item.find("{*}rPr")
    if facts is not None and facts.find("{*}nor") is not None:
        return plain_text(text) if text.strip() else text
    if text.strip() in FUNCTIONS:
        return f"\\{text.strip()} "
    written = "".join(map(sign, text))
    style = facts.find("{*}scr") if facts is not None else None
    command = _STYLES.get(attribute(style, "val") or "") if style is not None else None
    return f"\\{command}{{{written}}}" if command and written.strip() else written


def _structure(item: Any, depth: int) -> str:
    kind = local(item)
    base = _child(item, "e", depth)
    sub, sup = _child(item, "sub", depth), _child(item, "sup", depth)
    scripts = (f"_{{{sub}}}" if sub else "") + (f"^{{{sup}}}" if sup else "")
    is_single = len(base) <= 1 or _SINGLE.fullmatch(base)
    scripted = base if is_single else f"{{{base}}}"
    character = _property(item, "chr", _CHARACTERS.get(kind, ""))[:1]
    match kind:
        case "sSup" | "sSub" | "sSubSup":
            tex = scripted + scripts
        case "sPre":
            tex = f"{{}}{scripts}{scripted}"
        case "rad":
            degree = _child(item, "deg", depth)
            tex = f"\\sqrt{f'[{degree}]' if degree else ''}{{{base}}}"
        case "nary":
            tex = f"{sign(character or _CHARACTERS[kind]).strip()}{scripts} {base}"
        case "func":
            name = _child(item, "fName", depth)
            is_plain = name.isalpha() and name.isascii() and len(name) > 1
            name = f"\\operatorname{{{name}}}" if is_plain else name
            tex = f"{name} {base}"
        case "acc" if character in ACCENTS:
            tex = f"\\{ACCENTS[character]}{{{base}}}"
        case "bar":
            side = "over" if _property(item, "pos", "bot") == "top" else "under"
            tex = f"\\{side}line{{{base}}}"
        case "groupChr" if character in _GROUPS:
            tex = f"\\{_GROUPS[character]}{{{base}}}"
        case "groupChr":
            tex = f"\\overset{{{sign(character).strip()}}}{{{base}}}"
        case "phant":
            tex = base if _property(item, "show", "1") != "0" else ""
        case _:
            raise _UnknownPart
    return tex


def _fraction(item: Any, depth: int) -> str:
    above, below = _child(item, "num", depth), _child(item, "den", depth)
    kind = _property(item, "type", "bar")
    if kind == "lin":
        return f"{above}/{below}"
    if kind == "noBar":
        return f"\\binom{{{above}}}{{{below}}}"
    return f"\\frac{{{above}}}{{{below}}}"


def _with_delimiters(item: Any, depth: int) -> str:
    begin = _property(item, "begChr", "(")[:1]
    end = _property(item, "endChr", ")")[:1]
    between = sign(_property(item, "sepChr", "|")[:1] or " ")
    cells = list(item.iterfind("{*}e"))
    if len(cells) == 1:
        inner = [c for c in cells[0] if not local(c).endswith("Pr")]
        if len(inner) == 1:
            kind = local(inner[0])
            if kind == "m" and begin + end in _MATRICES:
                return _matrix(inner[0], depth, _MATRICES[begin + end])
            if kind == "eqArr" and (begin, end) == ("{", ""):
                return _lines(inner[0], depth, "cases")
            is_binomial = kind == "f" and begin == "("
            if is_binomial and _property(inner[0], "type", "") == "noBar":
                return _fraction(inner[0], depth)
    content = between.join(_SPACE.sub("", _row(cell, depth)) for cell in cells)
    first, last = sign(begin).strip(), sign(end).strip()
    if _TALL.search(content) or bool(first) != bool(last):
        return f"\\left{first or '.'} {content} \\right{last or '.'}"
    return f"{first}{' ' if first[-1:].isalpha() else ''}{content}{last}"


def _matrix(item: Any, depth: int, kind: str) -> str:
    rows = (
        " & ".join(_row(cell, depth).strip() for cell in row.iterfind("{*}e"))
        for row in item.iterfind("{*}mr")
    )
    return _environment(f"{kind}matrix", rows)


def _lines(item: Any, depth: int, name: str = "aligned") -> str:
    rows = (_row(cell, depth).replace(r"\&", "&") for cell in item.iterfind("{*}e"))
    return _environment(name, rows)


def _environment(name: str, rows: Any) -> str:
    content = r" \\ ".join(row.strip() for row in rows)
    return f"\\begin{{{name}}} {content} \\end{{{name}}}"


def _limit(item: Any, depth: int) -> str:
    base, limit = _child(item, "e", depth), _child(item, "lim", depth)
    is_low = local(item) == "limLow"
    if base.startswith(("\\", "{\\")) and not base.startswith("\\text"):
        return f"{base}{'_' if is_low else '^'}{{{limit}}}"
    return f"\\{'under' if is_low else 'over'}set{{{limit}}}{{{base}}}"


_WRITERS = {
    "f": _fraction,
    "d": _with_delimiters,
    "eqArr": _lines,
    "limLow": _limit,
    "limUpp": _limit,
}
