"""Finds images that scripts, style sheets or browsers choose, diagrams and charts.

After cleaning, each image is an ``img`` with its file, so that all formats agree. Scripts
draw diagrams from text, such as that of Mermaid. Where the text is in the page, it becomes
a code block with its language. Other drawings with labels are losses.
"""

from __future__ import annotations

import base64
import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from attrs import define, field
from lxml import etree

from scraper_service.content.html.document import drop
from scraper_service.content.html.hidden_text import Hiding, hiding
from scraper_service.content.losses import is_in
from scraper_service.content.page_urls import best_candidate, is_placeholder
from scraper_service.content.passes import visible_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.html.document import Document

REMOVED = "The data of a picture is removed; it stays if removeBase64Images is false."
NO_FILE = "The page names no file for the picture; the format screenshot shows it."
MAX_IMAGES = 10  # of one noscript
MAX_VALUE = 5000  # characters of an attribute or style that is searched
LEAST_LABEL = 2  # of the label of a picture without a file; icons have one word

_LAZY = ("data-src", "data-original", "data-lazy-src", "data-lazy", "data-url")
_PICTURE = re.compile(r"\s*(?:https?:/|\.{0,2})/[^\s{]{4,}\s*\Z")
_FILE = re.compile(
    r"\s*[^\s{}<>\"',;]+\.(?:jpe?g|png|webp|gif|avif|svg)(?:[?#][^\s{}<>\"']*)?\s*\Z",
    re.IGNORECASE,
)
_FILE_IN_JSON = re.compile(
    r"https?:[^\s\"'<>,]{4,1000}?\.(?:jpe?g|png|webp|gif|avif)(?=[\"'?\\])",
    re.IGNORECASE,
)
_BACKGROUND = re.compile(
    r"background(?:-image)?\s*:[^;{}]{0,200}?url\(\s*[\"']?([^\"')\s]+)", re.IGNORECASE
)
_BACKGROUND_ATTRIBUTES = (
    *("data-bg", "data-background-image", "data-background", "data-bg-src", "data-src"),
    "data-image-src",
)
_NO_PICTURES = frozenset(
    {"img", "svg", "canvas", "picture", "math", "mjx-container", "a", "button"}
)
_SHAPE = re.compile(r"<(?:path|circle|ellipse|line|poly\w+|text|image|use)\b")
_PNG_SIZES = 24  # bytes up to the end of the sizes
_DRAWN = re.compile(r"icon|logo|star|rating|(?<![a-z])fa-|emoji", re.IGNORECASE)
# Elements between a picture and its image; libxml2 puts an image into a source before it.
_BETWEEN = frozenset({"source", "span", "div", "noscript"})
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_AMP_PLAYERS = {
    "amp-youtube": "https://www.youtube.com/embed/",
    "amp-vimeo": "https://player.vimeo.com/video/",
    "amp-dailymotion": "https://www.dailymotion.com/embed/video/",
    "lite-youtube": "https://www.youtube.com/embed/",
    "lite-vimeo": "https://player.vimeo.com/video/",
}
_AMP_NAMES = {
    "amp-img": "img",
    "amp-anim": "img",
    "amp-video": "video",
    "amp-audio": "audio",
    "amp-iframe": "iframe",
}
#: The elements of AMP, and others like them, for pictures, videos, sounds and frames.
AMP_TAGS = (*_AMP_NAMES, *_AMP_PLAYERS)


def replace_amp(found: Iterable[Any]) -> None:
    """Make elements of AMP those of HTML that they stand for."""
    for element in found:
        tag = element.tag
        for child in list(element):
            if child.tag not in {"source", "track"}:
                drop(child)
        element.text = None
        if prefix := _AMP_PLAYERS.get(tag):
            number = element.get("data-videoid") or element.get("videoid") or ""
            if label := element.get("playlabel"):
                element.set("title", label)
            if re.fullmatch(r"[\w-]{1,40}", number, re.ASCII):
                element.set("src", prefix + number)
        elif tag in {"amp-video", "amp-audio"}:
            element.set("controls", "")
        element.tag = _AMP_NAMES.get(tag, "iframe")


def load_lazy_image(image: Any) -> None:
    """Set the ``src`` of a lazily loaded image from its other attributes.

    Else its file may be in a ``source`` next to it.
    """
    attributes = image.attrib
    source = attributes.get("src", "").strip()
    if source and not is_placeholder(source):
        if source[:5] != "blob:":
            return
        del attributes["src"]  # a file in the memory of a browser
    found = _file_of(attributes)
    if found is None:
        above = image.getparent()
        while above is not None and above.tag in _BETWEEN:
            above = above.getparent()
        if above is not None and above.tag == "picture":
            found = _file_of_sources(above)
    if found is not None:
        attributes["src"] = found


def _file_of(attributes: Any) -> str | None:
    """Return the file that the attributes of an image name, None without any."""
    for name in _LAZY:
        value = attributes.get(name, "").strip()
        if value and not value.startswith(("data:", "{", "[")):
            return str(value)
    for name in ("data-srcset", "srcset", "data-lazy-srcset"):
        if best := best_candidate(attributes.get(name, "")):
            return best
    own = [(n, v[:MAX_VALUE]) for n, v in attributes.items() if n not in {"src", "alt"}]
    for name, value in own:  # lazy-loading scripts use many names
        is_source = name[-4:] == "-src" or name[:9] == "data-src-"
        if is_source and _PICTURE.match(value):
            return str(value.strip())
    for name, value in own:
        if name[:5] != "data-":
            continue
        if name[-6:] == "srcset" and (best := best_candidate(value)):
            return best
        if _FILE.match(value) and value.lstrip()[:5].lower() != "data:":
            return str(value.strip())
        if value[:1] in "{[" and (match := _FILE_IN_JSON.search(value)) is not None:
            return match[0].replace("\\/", "/")
    return None


def _file_of_sources(picture: Any) -> str | None:
    """Return the file of the first ``source`` of a picture that has one."""
    for source in picture.iter("source"):
        for name in ("srcset", "data-srcset", "data-lazy-srcset", "src", "data-src"):
            value = source.get(name) or ""
            best = best_candidate(value)
            if best and not is_placeholder(best):
                return best
    return None


def adopt_noscript_images(block: Any) -> bool:
    """Give the images of a ``noscript`` to the lazy images next to it.

    An image with a text replaces the ``noscript`` if no image is next to it; then
    return True.
    """
    inner = list(islice(block.iter("img"), MAX_IMAGES))
    if not inner:
        return False
    near = [
        list(islice(part.iter("img"), MAX_IMAGES))
        for part in (block.getprevious(), block.getnext())
        if part is not None and part.tag != "noscript"
    ]
    waiting = [image for images in near for image in images if _waits(image)]
    for image, found in zip(waiting, inner, strict=False):
        source = (found.get("src") or "").strip()
        if not source or is_placeholder(source):
            source = _file_of(found.attrib) or ""
        if source:
            image.set("data-src", source)
            if not image.get("alt") and found.get("alt"):
                image.set("alt", found.get("alt"))
    if any(near):
        return False
    shown = [image for image in inner if image.get("alt") and not _is_unseen(image)]
    for image in shown:
        image.tail = None
        block.addprevious(image)
    return bool(shown)


def is_blank(source: str) -> bool:
    """Return True for the data of a picture that only reserves the space of another."""
    head, _, data = source.partition(",")
    if "svg" in head:
        text = data[:MAX_VALUE]
        if "base64" in head:
            text = _decode(text).decode(errors="ignore")
        text = unquote(text)
        return "feGaussianBlur" in text or not _SHAPE.search(text)
    start = _decode(data[:64]) if "base64" in head else b""
    if start[:3] == b"GIF":
        sizes = start[6:8], start[8:10]
        return any(int.from_bytes(size, "little") <= 1 for size in sizes)
    if start[1:4] == b"PNG" and len(start) >= _PNG_SIZES:
        sizes = start[16:20], start[20:24]
        return any(int.from_bytes(size, "big") <= 1 for size in sizes)
    return False


def _decode(text: str) -> bytes:
    text = "".join(text.split())
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except ValueError:
        return b""


def _waits(image: Any) -> bool:
    """Return True for an image whose attributes do not name its file."""
    source = image.get("src", "").strip()
    return (not source or is_placeholder(source)) and _file_of(image.attrib) is None


def _is_unseen(image: Any) -> bool:
    """Return True for an image that counts visits."""
    sizes = {image.get("width"), image.get("height")}
    return bool(sizes & {"0", "1"} or _HIDDEN.search(image.get("style") or ""))


def record_image(document: Document, image: Any, *, is_removed: bool) -> None:
    """Record an image without a file, or one whose data is removed, as a loss."""
    if is_removed:
        is_shown = image.get("aria-hidden") != "true"
        if is_shown and not is_blank(image.get("src") or ""):
            document.losses.add("image", REMOVED)  # its alt stands in the Markdown
    elif alt := image.get("alt"):
        document.losses.add("image", NO_FILE, text=alt)


def show_pictures(
    document: Document, pictures: Iterable[Any], signed: Iterable[Any]
) -> None:
    """Add an ``img`` to each picture that has none.

    Such are a ``picture`` with sources only, an SVG that shows a file, and an element with
    ``role=img``, a label and a background of its own.
    """
    for picture in pictures:
        if picture.tag == "svg":
            _show_photo(picture)
        elif picture.find(".//img") is None and (found := _file_of_sources(picture)):
            etree.SubElement(picture, "img", src=found)
    for element in signed:
        if element.get("role") != "img" or element.tag in _NO_PICTURES:
            continue
        label = (element.get("aria-label") or element.get("title") or "").strip()
        if not label or element.find(".//img") is not None:
            continue
        found = _background(element)
        if found is not None:
            etree.SubElement(element, "img", src=found, alt=label)
        elif (
            len(element) == 0
            and not (element.text or "").strip()
            and len(label.split()) >= LEAST_LABEL
            and not _DRAWN.search(element.get("class") or "")
            and not any(x.tag in {"a", "button"} for x in element.iterancestors())
        ):
            document.losses.add("image", NO_FILE, text=label, near=element)


def _show_photo(svg: Any) -> None:
    """Add an ``img`` for the first file that an SVG shows."""
    image = next(svg.iter("image"), None)
    if image is None or svg.getparent() is None:
        return
    url = (image.get("href") or image.get("xlink:href") or "").strip()
    if url and url[:5].lower() != "data:" and url[0] != "#":
        label = svg.get("aria-label") or image.get("aria-label") or ""
        svg.addprevious(etree.Element("img", src=url, alt=label))


def _background(element: Any) -> str | None:
    """Return the file of the background that an element declares itself."""
    match = _BACKGROUND.search((element.get("style") or "")[:MAX_VALUE])
    if match is not None and match[1][:5].lower() != "data:":
        return match[1]
    values = (element.get(name) or "" for name in _BACKGROUND_ATTRIBUTES)
    return next((v.strip() for v in values if _FILE.match(v[:MAX_VALUE])), None)


# -- diagrams and charts ---------------------------------------------------------------

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
LARGE = 100  # pixels; a drawing that has a title but no labels, or a single word
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
_TITLES = ("title", "desc")
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
    around: Any
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
    del element[:]
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
        around = svg.getparent()
        if around is not None and (texts := _texts(svg)):
            names, container = _names(svg)
            if container is not None and container in known:
                known[container].texts += texts
                continue
            role = svg.get("aria-roledescription") or ""
            kind = "chart" if _CHART.search(f"{names} {role}") else "diagram"
            found.append(Drawing(around, kind, texts))
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
        if is_in(drawing.around, document.root):
            reason = CHART if drawing.kind == "chart" else DIAGRAM
            text = ", ".join(filter(None, dict.fromkeys(drawing.texts)))
            document.losses.add(drawing.kind, reason, text=text, around=drawing.around)


def _texts(svg: Any) -> list[str]:
    """Return the title and the labels of a drawing, nothing for an icon."""
    if svg.get("aria-hidden") == "true" or svg.get("hidden") is not None:
        return []
    label = svg.get("aria-label") or ""
    if not label and next(svg.iter(*_LABELS, *_TITLES), None) is None:
        return []
    above = [part.tag for part in svg.iterancestors()]
    if (
        not {"svg", "canvas", "label"}.isdisjoint(above)
        or hiding(svg.get("style") or "") >= Hiding.CLOSED
        or _has_source(svg)
    ):
        return []
    sizes = [_pixels(svg.get(name)) for name in ("width", "height")]
    if any(size is not None and size <= SMALL for size in sizes):
        return []
    parts = (" ".join((p.text or "").split()) for p in svg if p.tag in _TITLES)
    title = label or next(filter(None, parts), "")
    title = "" if _BOILERPLATE.match(title) else title
    names = " ".join(
        filter(None, (svg.get("class"), svg.get("id"), svg.getparent().get("class")))
    )
    if _ICON.search(names):
        return []
    labels = _labels(svg)
    is_large = any(size is not None and size >= LARGE for size in (*sizes, _box(svg)))
    may_be_icon = not {"a", "button"}.isdisjoint(above)
    has_words = len(" ".join(labels).split()) >= LEAST_WORDS and not may_be_icon
    if labels and (has_words or is_large):
        return [title, *labels] if title else labels
    has_title = len(title.split()) >= LEAST_WORDS and not may_be_icon
    return [title] if is_large and has_title else []


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
    """Return True if the source of a drawing is in the page as a code block next to it."""
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
    return bool(_CHART.search(_names(canvas)[0])) or _has_chart_script(document)


def _has_chart_script(document: Document) -> bool:
    return any(
        _CHART_CALL.search((script.text or "")[:MAX_SCRIPT])
        if (source := script.get("src")) is None
        else _CHART_FILE.search(source[:MAX_TEXT])
        for script in document.parts.scripts
    )
