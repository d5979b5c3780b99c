"""Keeps the sources of diagrams as code, and finds drawings that Markdown cannot contain.

Scripts draw diagrams from text, such as that of Mermaid. Where the text is in the page it
becomes a code block with its language. Other drawings with labels are losses.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.content.html.hidden_text import Hiding, hiding
from scraper_service.content.losses import is_in
from scraper_service.content.passes import visible_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.html.document import Document

#: Parts of the classes of diagrams' sources, and attributes with a source.
DIAGRAM_CLASSES = ("mermaid", "plantuml", "graphviz", "nomnoml", "language-d")
DIAGRAM_ATTRIBUTES = ("data-plain", "data-json")
CHART = (
    "A chart that is drawn as SVG or on a canvas has no Markdown; "
    "the format screenshot shows it."
)
DIAGRAM = (
    "A diagram that is drawn as SVG has no Markdown; the format screenshot shows it."
)
LEAST_WORDS = 2  # of the labels of a drawing
SMALL = 48  # pixels; icons
LARGE = 100  # pixels; a drawing that has a title but no labels
MAX_TEXT = 1000  # characters of labels
MAX_ABOVE = 4  # elements above a drawing whose names tell its kind

_LANGUAGES = frozenset("mermaid plantuml graphviz nomnoml dot d2".split())
_PREFIX = re.compile(r"^(?:language-|lang-|highlight-source-)")
_SCRIPT = re.compile(r"mermaid|plantuml|graphviz|nomnoml|\bd2\b")
# Elements inside a source; others are inside the content of a page.
_IN_SOURCES = frozenset("br span p b i em strong u code wbr sub sup".split())
_SOURCES = (
    *("data-source", "data-mermaid", "data-mermaid-source", "data-original-code"),
    *("data-code", "data-original", "data-content", "data-definition"),
)
_TYPE = re.compile(r"(?!math)[a-z]\w{1,15}", re.ASCII)
_LABELS = ("text", "foreignobject", "foreignObject")
_NO_FALLBACK = frozenset({"script", "style", "noscript", "template"})
# Names of charts and of the libraries that draw them; a flow chart is a diagram.
_CHART = re.compile(
    r"(?<!flow)(?<!flow-)chart|plotly|vega|amcharts|nvd3|\bdygraph|bar-?graph|line-?graph",
    re.IGNORECASE,
)
_CONTAINER = re.compile(
    r"highcharts-container|apexcharts-canvas|js-plotly-plot|recharts-wrapper|vega-embed"
    r"|amcharts-(?:main|chart)-div|ct-chart|\bc3\b"
)
_ICON = re.compile(
    r"icon|logo|(?<![a-z])fa-|badge|avatar|sprite|captcha|spinner", re.IGNORECASE
)
_BOILERPLATE = re.compile(
    r"^(?:created (?:with|using)|javascript chart by)", re.IGNORECASE
)
_OLD_BROWSER = re.compile(r"browser|not support|canvas", re.IGNORECASE)
_CHART_FILE = re.compile(
    r"chart(?:[.-]\w+){0,2}\.js|chartjs|charts?@|charts/loader|echarts|plotly|canvasjs|uplot",
    re.IGNORECASE,
)
_CHART_CALL = re.compile(r"new Chart\(|echarts\.init\(|CanvasJS\.|new uPlot\(")
_NUMBER = re.compile(r"\s*(\d{1,6}(?:\.\d+)?)(?:px)?\s*\Z")
MAX_SCRIPT = 50_000  # characters


@define
class Drawing:
    """A chart or diagram that only a picture can show."""

    #: The element around it.
    place: Any
    #: ``chart`` or ``diagram``.
    kind: str
    #: Its title and labels.
    texts: list[str] = field(factory=list)


def keep_sources(signed: Iterable[Any], scripts: Iterable[Any]) -> None:
    """Make the sources of diagrams ``pre`` elements with a language.

    ``signed`` are the elements with a class or attribute of a diagram.
    """
    for script in scripts:
        if (match := _SCRIPT.search(script.get("type") or "")) is not None:
            _become_code(script, match[0], script.text or "")
    for element in signed:
        if element.get("data-plain") or element.get("data-json"):
            _keep_enriched(element)
        elif (language := _language(element)) is not None:
            _keep_source(element, language)


def _language(element: Any) -> str | None:
    words = (element.get("class") or "").lower().split()
    names = (_PREFIX.sub("", word) for word in words)
    return next((name for name in names if name in _LANGUAGES), None)


def _keep_source(element: Any, language: str) -> None:
    inner = element.find(".//pre")
    text = "".join(element.itertext())
    if element.tag == "code":
        above = [*element.iterancestors("pre")][:1]
        if above:
            above[0].set("lang", language)
            return
    elif inner is not None:
        if "".join(inner.itertext()).strip() == text.strip():
            inner.set("lang", language)
        return
    if next(element.iter("svg"), None) is not None or not text.strip():
        values = (element.get(name) or "" for name in _SOURCES)
        source = next((value for value in values if " " in value), "")
    elif all(part.tag in _IN_SOURCES for part in element.iterdescendants()):
        source = _source(element)
    else:
        return
    if source.strip():
        _become_code(element, language, source)


def _source(element: Any) -> str:
    """Return the text of an element; a line break inside a line is part of the source."""
    has_lines = "\n" in "".join(element.itertext()).strip()
    for part in element.iter("br"):
        is_end = (part.tail or "").startswith(("\n", "\r"))
        part.text = "" if is_end else "<br/>" if has_lines else "\n"
    return "".join(element.itertext())


def _keep_enriched(element: Any) -> None:
    """Make a block of GitHub's code, whose source is in an attribute, a code block."""
    top = element
    while top is not None and not _TYPE.fullmatch(top.get("data-type") or ""):
        top = top.getparent()
        if top is not None and top.tag in {"body", "html", "article", "main"}:
            return
    if top is None:
        return
    source = element.get("data-plain") or ""
    if not source.strip():
        try:
            source = json.loads(element.get("data-json"))["data"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
    if isinstance(source, str) and source.strip() and top.get("data-type"):
        _become_code(top, top.get("data-type"), source)


def _become_code(element: Any, language: str, source: str) -> None:
    for child in list(element):
        element.remove(child)
    element.attrib.clear()
    element.tag = "pre"
    element.set("class", f"language-{language}")
    element.text = source


def find_drawings(
    document: Document, pictures: Iterable[Any], canvases: Iterable[Any]
) -> list[Drawing]:
    """Return the drawings that become losses if the elements around them stay.

    A canvas that contains a text becomes a ``div``, as its text is content.
    """
    found: list[Drawing] = []
    known: dict[Any, Drawing] = {}  # by the element of a chart, which may draw several
    for svg in pictures:
        place = svg.getparent()
        if place is not None and (texts := _texts(svg)):
            names, container = _names(svg)
            if container is not None and container in known:
                known[container].texts += texts
                continue
            role = svg.get("aria-roledescription") or ""
            kind = "chart" if _CHART.search(f"{names} {role}") else "diagram"
            found.append(Drawing(place, kind, texts))
            if container is not None:
                known[container] = found[-1]
    for canvas in canvases:
        fallback = visible_text(canvas, _NO_FALLBACK, MAX_TEXT)
        if fallback and not _OLD_BROWSER.search(fallback):
            canvas.tag = "div"
        elif canvas.getparent() is not None and _is_chart(document, canvas):
            label = canvas.get("aria-label") or canvas.get("title") or ""
            found.append(Drawing(canvas.getparent(), "chart", [label]))
    return found


def record_drawings(document: Document) -> None:
    """Record the drawings whose surroundings are still in the tree as losses."""
    for drawing in document.drawings:
        if is_in(drawing.place, document.root):
            reason = CHART if drawing.kind == "chart" else DIAGRAM
            text = ", ".join(filter(None, dict.fromkeys(drawing.texts)))
            document.losses.add(drawing.kind, reason, text=text, beside=drawing.place)


def _texts(svg: Any) -> list[str]:
    """Return the title and the labels of a drawing, nothing for an icon."""
    if svg.get("aria-hidden") == "true" or svg.get("hidden") is not None:
        return []
    label = svg.get("aria-label") or ""
    if not label and next(svg.iter(*_LABELS, "title", "desc"), None) is None:
        return []
    above = [part.tag for part in svg.iterancestors()]
    if (
        not {"a", "button", "svg", "canvas", "label"}.isdisjoint(above)
        or hiding(svg.get("style") or "") >= Hiding.CLOSED
        or _has_source(svg)
    ):
        return []
    sizes = [_pixels(svg.get(name)) for name in ("width", "height")]
    if any(size is not None and size <= SMALL for size in sizes):
        return []
    title = next((t for t in (label, *_children(svg, "title", "desc")) if t), "")
    if _BOILERPLATE.match(title):
        title = ""
    names = " ".join(
        filter(None, (svg.get("class"), svg.get("id"), svg.getparent().get("class")))
    )
    if _ICON.search(names):
        return []
    labels = _labels(svg)
    if len(" ".join(labels).split()) >= LEAST_WORDS:
        return [title, *labels] if title else labels
    is_large = any(size is not None and size >= LARGE for size in (*sizes, _box(svg)))
    return [title] if is_large and len(title.split()) >= LEAST_WORDS else []


def _labels(svg: Any) -> list[str]:
    labels: dict[str, None] = {}
    left = MAX_TEXT
    for element in svg.iter(*_LABELS):
        text = " ".join(" ".join(element.itertext()).split())
        if text and not _BOILERPLATE.match(text):
            labels[text] = None
            left -= len(text)
            if left < 0:
                break
    return list(labels)


def _children(svg: Any, *tags: str) -> list[str]:
    return [" ".join((part.text or "").split()) for part in svg if part.tag in tags]


def _pixels(value: str | None) -> float | None:
    match = _NUMBER.match(value or "")
    return float(match[1]) if match else None


def _box(svg: Any) -> float | None:
    """Return the width of the ``viewBox`` of an SVG without a width."""
    if svg.get("width") is not None:
        return None
    words = (svg.get("viewbox") or svg.get("viewBox") or "").replace(",", " ").split()
    width = _pixels(words[2]) if len(words) == 4 else None
    return width if width is not None and width > 2 * LARGE else None


def _has_source(svg: Any) -> bool:
    """Return True if the source of a drawing is in the page as a code block beside it."""
    above = svg.getparent()
    sources = (
        "".join(part.itertext())
        for part in (*above.iterchildren("pre"), above.getprevious(), above.getnext())
        if part is not None and part.tag == "pre" and _language(part)
    )
    if svg.get("aria-roledescription") or "mermaid" in (svg.get("id") or ""):
        return next(sources, None) is not None
    labels = _labels(svg)
    return any(all(label in source for label in labels) for source in sources)


def _names(element: Any) -> tuple[str, Any]:
    """Return the names of a drawing and of the elements above, and a chart's element."""
    names: list[str] = []
    container = None
    for number, part in enumerate((element, *element.iterancestors())):
        if number > MAX_ABOVE or part.tag in {"body", "main", "article"}:
            break
        own = f"{part.get('class') or ''} {part.get('id') or ''}"
        if part.get("_echarts_instance_"):
            own += " echarts"
        names.append(own)
        if container is None and _CONTAINER.search(own):
            container = part
    return " ".join(names), container


def _is_chart(document: Document, canvas: Any) -> bool:
    """Return True for a canvas that a reader sees as a chart."""
    sizes = [_pixels(canvas.get(name)) for name in ("width", "height")]
    if (
        canvas.get("aria-hidden") == "true"
        or canvas.get("hidden") is not None
        or hiding(canvas.get("style") or "") >= Hiding.CLOSED
        or any(size is not None and size <= SMALL for size in sizes)
    ):
        return False
    if canvas.get("aria-label"):
        return True
    names, _ = _names(canvas)
    return bool(_CHART.search(names)) or _has_chart_script(document)


def _has_chart_script(document: Document) -> bool:
    for script in document.parts.scripts:
        source = script.get("src")
        if source is not None:
            if _CHART_FILE.search(source[:MAX_TEXT]):
                return True
        elif _CHART_CALL.search((script.text or "")[:MAX_SCRIPT]):
            return True
    return False
