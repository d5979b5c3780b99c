r"""Finds the formulas of a page, and makes each a ``math`` element with its TeX.

Sources are attributes of scripts' elements, pictures of TeX services, and delimiters such
as ``\(`` in the text of pages with MathJax or KaTeX. A formula whose source cannot be found
is a loss.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, unquote_plus

from lxml import etree

from scraper_service.content.html.document import BLOCKS, MATHJAX, drop, empty, role
from scraper_service.content.page_urls import absolute
from scraper_service.content.passes import with_text
from scraper_service.content.tex import LIKE_TEX
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scraper_service.content.html.document import Document

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
#: MathML with a prefix, and elements of MathJax and GitHub.
FORMULA_TAGS = ("mml:math", "m:math", "mjx-container", "math-renderer")
#: Attributes in which scripts keep a formula's source.
FORMULA_ATTRIBUTES = (
    *("data-tex", "data-latex", "data-katex", "data-math", "data-formula"),
    *("data-mathml", "data-equation"),
)
#: Parts of the classes of formulas, and of the URLs of their pictures.
FORMULA_CLASSES = ("math", "latex", "katex", "formula")
PICTURE_PARTS = (
    *("latex", "mathurl.", "cht=tx", "render/math", "math/render", "equation?tex=", "mathtex", "mimetex"),
    *("upmath.me/", "tex.s2cms.ru/", "math.now.sh"),
)  # fmt: skip
UNREADABLE = (
    "The page has only a picture of the formula, without its source; "
    "the format screenshot shows it."
)
ASCII_MATH = "The formula is AsciiMath, which is not translated into TeX."
_PLACES = frozenset(
    {"data-math", "data-formula", "data-equation", "data-value"}
)  # also of other things
_NO_FORMULAS = frozenset({"", "true", "false", "1", "0"})
_NAMES = frozenset(
    "math math-container math-inline math-display math-block arithmatex latex katex "
    "formula ql-formula equation language-math js-render-math".split()
)
_RAW_NAMES = frozenset(
    {"inline", "display", "math-inline", "math-display", "ql-formula"}
)
_SOURCES = ("data-tex", "data-latex", "alttext")  # of ``math``
_DISPLAYED = frozenset("display block math-display math-block displaymath".split())
_IMAGE_NAMES = frozenset(
    "latex tex math mwe-math-fallback-image-inline mwe-math-fallback-image-display "
    "wirisformula latexcenter".split()
)
_DISPLAYED_IMAGES = frozenset(
    "mwe-math-fallback-image-display latexcenter ql-img-displayed-equation".split()
)
# Alternative texts that are no TeX.
_GENERIC = frozenset(
    "equation formula latex tex math maths image img picture math-equation eqn".split()
)
# Services whose query is the formula, or a parameter of it.
_QUERY = re.compile(
    r"(?:codecogs\.com/[\w.]*(?:latex|image|download)|/(?:mathtex|mimetex)(?:\.cgi)?)\?"
)
_PARAMETER = re.compile(
    r"latex\.php\?|/render/math\?|/equation\?tex=|[?&]cht=tx|math\.now\.sh\?|[?&]latex="
)
_PARAMETERS = frozenset({"latex", "tex", "chl", "math", "from"})
_PATH = re.compile(r"//(?:i\.upmath\.me|tex\.s2cms\.ru)/(?:svg|png)/")
_PICTURE = re.compile(
    r"quicklatex|mathurl\.|latex\.codecogs|/media/math/render/|latex\.artofproblemsolving"
)
_SETTINGS = re.compile(
    r"\s*\\(?:dpi\{\d+\}|inline(?![a-zA-Z])|(?:bg|fn)_[a-zA-Z]+|bg\{\w+\}"
    r"|large(?=\s*\\(?:dpi|inline)))\s*"
)
_MAX_URL = 8000  # characters
# Characters that lxml refuses; a URL may contain them.
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_WIRIS = str.maketrans("«»¨§", '<>"&')
_MAX_SCRIPT = 20_000  # characters of a script that configures formulas
_SCRIPT_FILE = re.compile(r"mathjax|katex|auto-render")
_SCRIPT = re.compile(r"[mM]athJax|renderMathInElement|\bkatex\b", re.ASCII)
# Each text that _SCRIPT matches has one of these parts.
_OF_SCRIPTS = ("athJax", "athInElement", "atex")
_SINGLE = re.compile(
    r"\[\s*(['\"])\$\1\s*,\s*(['\"])\$\2\s*\]|left['\"]?\s*:\s*(['\"])\$\3"
)
_NO_PLACES = frozenset(
    {"math", "td", "th", "html", "body", "script", "input", "option"}
)
_BESIDE = frozenset({"defs", "style", "title", "mjx-speech", "rect"})
_FEW = 200  # child elements of a drawn formula
_SIGNS = re.compile(r"[\\^_={}]")  # of TeX in an alternative text


def without_delimiters(text: str) -> tuple[str, bool]:
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

    The text begins after the child ``before``, or at the start of ``parent``.
    """
    if "$" not in text and "\\" not in text:
        return 0
    found = _formulas(text, dollars)
    if not found:
        return 0
    for element in breaks:
        parent.remove(element)
    texts: list[str] = []  # the text after each new element, and before the first one
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
    next_end: dict[str, int] = {}  # the next position of each delimiter; -1 for none
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
    r"""Return the position of the dollar that ends a formula, -1 for a sum of money.

    The rules are those of pandoc: no white space inside the dollars, no digit after the last.
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


def mark_formulas(
    document: Document, drawn: Iterable[Any], signed: Iterable[Any]
) -> None:
    """Make the formulas of a page ``math`` elements.

    ``drawn`` are the elements of :data:`FORMULA_TAGS`, ``signed`` those with an attribute
    or class of a formula.
    """
    for element in drawn:
        if ":" in element.tag:
            for part in element.iter():
                part.tag = part.tag.rpartition(":")[2]
        elif element.tag == "mjx-container":
            _mark_drawn(document, element)
        else:
            tex, displayed = without_delimiters("".join(element.itertext()))
            shown = "display" in (element.get("class") or "")
            _become(element, tex, displayed=displayed or shown)
    body = document.body
    for element in signed:
        if element.tag == "img":
            mark_picture(document, element)
        elif any(above is body for above in element.iterancestors()):
            _mark_signed(document, element)
    if may_hold := declared_delimiters(document):
        mark_formulas_in_text(body, may_hold)


def mark_script(document: Document, script: Any) -> None:
    """Replace a MathJax 2 ``script`` with TeX or MathML by a ``math`` element.

    AsciiMath that nothing has drawn is a loss.
    """
    kind, source = script.get("type"), script.text or ""
    before = script.getprevious()
    is_drawn = before is not None and role(before) == MATHJAX
    if kind[:8] == "math/tex":
        if "mode=display" in kind:
            script.set("display", "block")
        del script.attrib["type"]
        script.tag = "math"
        script.set("data-tex", source)
    elif kind[:8] == "math/mml" and source.strip() and not is_drawn:
        script.tag = "span"
        _become_mathml(script, source.strip())
    elif not is_drawn:
        document.losses.add("formula", ASCII_MATH, text=source, near=script)


def declared_delimiters(document: Document) -> str:
    """Return ``$`` if a page declares single dollars, ``?`` for a page with MathJax or KaTeX.

    Empty for other pages.
    """
    found = ""
    if any("katex" in (link.get("href") or "") for link in document.parts.links):
        found = "?"
    texts = []
    inline = []
    for script in document.parts.scripts:
        source = script.get("src")
        if source is not None:
            if "ath" in source or "atex" in source or "auto-render" in source:
                name = source.lower()
                if _SCRIPT_FILE.search(name):
                    found = "?"
            texts.append(script.get("onload"))
        elif "json" not in (script.get("type") or ""):
            inline.append(script)
    texts += [x.text for x in with_text(inline, _MAX_SCRIPT, *_OF_SCRIPTS)]
    for text in texts:
        if (
            text
            and len(text) < _MAX_SCRIPT
            and any(part in text for part in _OF_SCRIPTS)
        ):
            if _SINGLE.search(text):
                return "$"
            if _SCRIPT.search(text):
                found = "?"
    return found


def _mark_drawn(document: Document, container: Any) -> None:
    """Make the source of what MathJax 3 or 4 drew a formula, unless MathML is next to it.

    A drawing alone is a loss. Both versions add one of the sources by default.
    """
    if _has_mathml(container):
        return
    whole = [container]  # what contains the whole formula, from the outside in
    while len(whole) == 1:
        if source := whole[0].get("data-latex"):
            displayed = container.get("display") in {"true", "block"}
            _become(container, source, displayed=displayed)
            return
        whole = [part for part in whole[0] if part.tag not in _BESIDE]
    text = container.get("aria-label") or container.get("title")
    document.losses.add("formula", UNREADABLE, text=text, near=container)
    drop(container)


def _has_mathml(element: Any) -> bool:
    """Return True if an element has MathML with a source in it."""
    maths = next(element.iter("math"), None)
    return maths is not None and (
        any(maths.get(name) for name in _SOURCES)
        or any(not text.isspace() for text in maths.itertext())
    )


def _mark_signed(document: Document, element: Any) -> None:
    """Make an element with the source of a formula in an attribute or its text one."""
    tag = element.tag
    if tag in _NO_PLACES or _has_mathml(element):
        return
    names = frozenset((element.get("class") or "").lower().split())
    is_named = not names.isdisjoint(_NAMES)
    displayed = tag in BLOCKS or not names.isdisjoint(_DISPLAYED)
    for name in (*FORMULA_ATTRIBUTES, "data-value"):
        value = (element.get(name) or "").strip()
        if value.lower() in _NO_FORMULAS:
            continue
        if name == "data-mathml":
            if _become_mathml(element, value):
                return
        elif name not in _PLACES or is_named or _is_formula(element, name, value):
            tex, is_displayed = without_delimiters(value)
            displayed = displayed or is_displayed or _says_displayed(element)
            _become(element, tex, displayed=displayed)
            return
    if "katex" in names:
        _mark_bare_katex(document, element)
    elif is_named and all(child.tag == "br" for child in element):
        text = "".join(element.itertext())
        tex, is_displayed = without_delimiters(text)
        is_raw = not names.isdisjoint(_RAW_NAMES) or tag in {"code", "pre"}
        if tex != text.strip() or (is_raw and text.strip()):
            displayed = is_displayed or tag == "pre" or not names.isdisjoint(_DISPLAYED)
            _become(element, tex, displayed=displayed or _says_displayed(element))
    elif tag == "code" and "language-math" in names:
        _become(element, "".join(element.itertext()), displayed=True)


def _says_displayed(element: Any) -> bool:
    return bool(
        {element.get("data-display"), element.get("data-math-style")}
        & {"true", "block", "display"}
    )


def _is_formula(element: Any, name: str, value: str) -> bool:
    """Return True for a value of an attribute that is not only for formulas."""
    if name == "data-value" or value[0] in "=[{" or len(element) > _FEW:
        return False
    return LIKE_TEX.search(value) is not None


def _mark_bare_katex(document: Document, element: Any) -> None:
    """Make what KaTeX drew without MathML a formula, if it has no scripts or fractions."""
    text = " ".join("".join(element.itertext()).split())
    is_flat = not any(
        "vlist" in (inner.get("class") or "") for inner in element.iter("span")
    )
    if is_flat:
        if text:
            _become(element, text, displayed=False)
        return
    document.losses.add("formula", UNREADABLE, text=text, near=element)
    drop(element)


def _become_mathml(element: Any, source: str) -> bool:
    """Put MathML that stands in an attribute into an element; return True on success."""
    if source[0] == "«":
        source = source.translate(_WIRIS)
    try:
        made = etree.fromstring(source, etree.HTMLParser())
    except (etree.LxmlError, ValueError):
        return False
    found = None if made is None else next(made.iter("math"), None)
    if found is None or not "".join(found.itertext()).strip():
        return False
    found.tail = None
    empty(element)
    if element.tag == "img":
        _become(element, "", displayed=False)
        element.attrib.pop("data-tex", None)
        element.extend(list(found))
    else:
        element.append(found)
    return True


def _become(element: Any, tex: str, *, displayed: bool) -> None:
    """Replace the content of an element by a formula; a void element becomes one."""
    empty(element)
    tex = _FORBIDDEN.sub("", tex).strip()
    if element.tag == "img":
        made = element
        made.tag = "math"
        made.attrib.clear()
    else:
        if element.tag in {"code", "pre"}:
            element.tag = "div" if displayed else "span"
        made = etree.SubElement(element, "math")
    made.set("data-tex", tex)
    made.text = tex
    if displayed:
        made.set("display", "block")


def may_be_tex(url: str) -> bool:
    """Return True for a URL with one of :data:`PICTURE_PARTS`."""
    lower = url.lower()
    if "tex" in lower or "math" in lower or "cht=tx" in lower:
        return any(part in lower for part in PICTURE_PARTS)
    return False


def mark_picture(document: Document, image: Any) -> bool:
    """Make a picture of a formula one; return False for another picture.

    The source is in the URL of a TeX service, or is the alternative text.
    """
    url = _url_of(image)
    names = frozenset((image.get("class") or "").lower().split())
    known = may_be_tex(url)
    if not (known or names):
        return False
    tex = _tex_in_url(url) if known else None
    is_named = not names.isdisjoint(_IMAGE_NAMES)
    if tex is None and not (is_named or (known and _PICTURE.search(url))):
        return False
    alt = (image.get("alt") or "").strip()
    mathml = (image.get("data-mathml") or "").strip()
    if tex is None and mathml and _become_mathml(image, mathml):
        return True
    displayed = not names.isdisjoint(_DISPLAYED_IMAGES)
    if not tex or _SIGNS.search(alt):
        tex, is_displayed = without_delimiters(alt)
        displayed = displayed or is_displayed
    if not tex or tex.lower() in _GENERIC:
        document.losses.add(
            "formula",
            UNREADABLE,
            url=absolute(document.base, url) if url else None,
            text=alt,
            near=image,
        )
        drop(image)
        return True
    _become(image, tex, displayed=displayed)
    return True


def _url_of(image: Any) -> str:
    for name in ("data-src", "data-lazy-src", "src"):
        url = image.get(name) or ""
        if url and url[:5].lower() != "data:":
            return str(url[:_MAX_URL])
    return ""


def _tex_in_url(url: str) -> str | None:
    """Return the TeX in the URL of a picture, None for a URL without any."""
    if _QUERY.search(url):
        text = unquote(url.partition("?")[2])
        text = text.replace("&space;", " ").replace("&plus;", "+")
        while (match := _SETTINGS.match(text)) is not None and match.end():
            text = text[match.end() :]
        return text.strip()
    if _PATH.search(url):
        return unquote(url_parts(url).path.split("/", 2)[-1]).strip()
    if _PARAMETER.search(url):
        for part in url_parts(url).query.split("&"):
            name, _, value = part.partition("=")
            if name in _PARAMETERS and value:
                return unquote_plus(value).strip()
    return None
