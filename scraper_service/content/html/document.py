"""Parses a page into a tree, from which all formats are made.

Parsing limits nesting, tags and attributes, as pages may be hostile. Callers include
and exclude elements by CSS selectors.

The sets of elements come first, and the roles that class attributes give to elements.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import dropwhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from attrs import define, field, frozen
from cssselect import HTMLTranslator, SelectorError
from lxml import etree

from scraper_service.content.html.shadow_roots import open_shadow_roots
from scraper_service.content.losses import Losses, record_missing_rows
from scraper_service.content.page_urls import absolute, has_host, is_route, is_web
from scraper_service.content.passes import elements, may_be_forbidden, page_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Elements that are never content.
DROPPED = _names(
    "script style template svg noembed noframes object applet canvas area link meta base "
    "basefont title"
)
# Elements that the Markdown omits.
SKIPPED = _names(
    "select textarea datalist script style template svg noscript head title"
)
BLOCKS = _names(
    "address article aside blockquote body caption center dd details dialog dir div dl "
    "dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr "
    "legend li listing main menu nav ol optgroup option p plaintext pre search section "
    "summary table tbody td tfoot th thead tr ul xmp"
)
VOID = _names("area base br col embed hr img input link meta param source track wbr")
# HTML allows their end tags to be omitted, so that counting tags overrates their depth.
UNCOUNTED = VOID | _names("p li dt dd tr td th option thead tbody html head body")


KATEX, MATHJAX, PREVIEW = "katex", "mathjax", "preview"
MATHS_RENDERED = frozenset({KATEX, MATHJAX, PREVIEW})
TITLE = "title"
MAX_NAMES = 300  # characters read of a class attribute

_MATHJAX = frozenset(
    {
        "mathjax",
        "mathjax_display",
        "mathjax_svg",
        "mathjax_svg_display",
        "mathjax_chtml",
    }
)
_TITLES = frozenset({"admonition-title", "markdown-alert-title", "callout-title"})
_CALLOUTS = frozenset(
    {"admonition", "markdown-alert", "theme-admonition", "callout", "notecard"}
)
_KIND = re.compile(
    r"(?:markdown-alert-|theme-admonition-|admonition-|callout-|callout--)?([a-z]+)"
)
# GitHub's five kinds of callouts.
_KINDS = {
    **dict.fromkeys(("note", "info", "seealso", "abstract", "todo"), "NOTE"),
    **dict.fromkeys(("tip", "hint", "success"), "TIP"),
    "important": "IMPORTANT",
    **dict.fromkeys(("warning", "attention"), "WARNING"),
    **dict.fromkeys(("caution", "danger", "error"), "CAUTION"),
}


def role(element: Any) -> str | None:
    """Return a rendered formula's role, ``TITLE``, a callout's kind, or None."""
    names = element.get("class")
    return role_of(names[:MAX_NAMES]) if names else None


@lru_cache(maxsize=2048)
def role_of(names: str) -> str | None:
    """Return the same as :func:`role` for a class attribute, already cut to length."""
    words = names.lower().split()
    if not words:
        return None
    if "katex" in words:
        return KATEX
    if "mathjax_preview" in words:
        return PREVIEW
    if not _MATHJAX.isdisjoint(words):
        return MATHJAX
    if not _TITLES.isdisjoint(words) or words[0].startswith("admonitionheading"):
        return TITLE
    if not _CALLOUTS.isdisjoint(words):
        kinds = (_KINDS.get(m[1]) for w in words if (m := _KIND.fullmatch(w)))
        return next((kind for kind in kinds if kind), None)
    return None


# -- parsing ---------------------------------------------------------------------------

MAX_DEPTH = 150  # elements inside each other; browsers stop at 512
TOO_DEEP = MAX_DEPTH + 10
MAX_TAGS = 300_000  # lxml needs about 0.6 kB per tag
MIN_TAG = 3  # bytes
MAX_ATTRIBUTES = 5_000  # of a tag longer than LONG_TAG
LONG_TAG = 50_000  # bytes
MAX_TITLE = 2000  # characters of a heading that stands for a title
MAX_TYPES = 20  # of microdata; the first ones tell the kind of the page
_TAG = re.compile(rb"<(/?)([a-zA-Z][^\s/>]*)[^>]*>")
# Browsers end an open list at these tags (HTML, 13.2.6.4.7), libxml2 at its end tag only.
_OPEN_LIST = re.compile(
    rb"<select(?=[\s>/]).*?(?=(</select|<table)|</?(?:select|table|t[dhr]|tbody|caption|input)(?=[\s>/]))",
    re.IGNORECASE | re.DOTALL,
)
_HOME = re.compile(r"https?://[^/?#]+/?(?:#|\Z)", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"[^\s=\"'/]+(?:\s*=\s*(?:\"[^\"]*\"?|'[^']*'?|[^\s\"']\S*))?")
# lxml refuses the characters that XML forbids whenever the tree is changed. They are
# removed from the UTF-8 bytes, as a search in text takes longer than libxml2's parsing.
# In UTF-8 a control character is never part of another character.
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\r"})
_FORBIDDEN_CHARACTERS = ("\ufffe".encode(), "\uffff".encode())
# Without the flag for both cases, which would test each byte, not only those after "&#".
_FORBIDDEN_REFERENCE = re.compile(
    rb"&#(?:0*(?:[0-8]|1[124-9]|2\d|3[01]|127)(?!\d)"
    rb"|[xX]0*(?:[0-8bce-fBCE-F]|1[0-9a-fA-F]|7[fF]|[fF]{3}[efEF])(?![0-9a-fA-F]));?"
)
# Elements after which an HTML 5 parser stays in the head.
_HEAD_ELEMENTS = frozenset(
    "base basefont bgsound link meta noframes noscript object script style template title".split()
)
# Their start tags end a drawing that the page does not end (HTML, 13.2.6.5).
_OUTSIDE_SVG = frozenset(
    "b big blockquote br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 hr i img li "
    "listing menu nobr ol p pre ruby s small span strong strike sub sup table tt u ul "
    "var".split()
)
# The elements of a drawing that contain HTML.
_HTML_IN_SVG = frozenset({"foreignobject", "desc", "title"})
_IFRAME = re.compile(r"(?<![\w\-.#:\[=\"'])iframe(?![\w-])")
_TRANSLATOR = HTMLTranslator()


@frozen
class Parts:
    """The parts of a page as it was parsed, each in document order."""

    #: Number of elements inside each other.
    levels: int
    #: The ``href`` of ``<base>``.
    bases: list[str | None]
    #: Attributes of ``<meta>``.
    metas: list[dict[str, str]]
    #: Attributes of ``<link>``.
    links: list[dict[str, str]]
    #: The first :data:`MAX_TYPES` values of ``itemtype``.
    types: list[str]
    #: The elements ``<script>``.
    scripts: list[Any]
    #: The elements ``<h1>``.
    headings: list[Any]
    #: The elements ``<title>``, also those of SVG.
    titles: list[Any]
    #: ``<title>`` elements, and the attributes of ``<meta property="og:title">``.
    declared_titles: list[Any]
    #: The elements ``embed``, ``frame``, ``iframe`` and ``object``.
    embeds: list[Any]
    #: The elements ``template`` of declarative shadow roots.
    shadows: list[Any]
    #: The elements with the attribute ``aria-rowcount``.
    counted: list[Any]
    #: The URLs that a crawl may follow, as written, each once.
    followed: list[str]


@define
class Document:
    """A parsed page."""

    #: The lxml root element.
    root: Any
    #: The URL that relative URLs are relative to.
    base: str
    #: What :func:`parse` found on the way.
    parts: Parts
    #: The links to fragments, as written, that lead to routes of a script. They are pages
    #: of their own; the other fragments are positions in this page.
    routes: frozenset[str] = frozenset()
    #: Warnings for the client.
    warnings: list[str] = field(factory=list)
    #: The parts of the page that no format contains.
    losses: Losses = field(factory=Losses)
    #: Whether this is the home page of a site.
    is_home: bool = False
    #: Whether this is main content, whose Markdown omits elements of no use to readers.
    is_main: bool = False
    #: The frames, videos and sounds of a cleaned tree.
    players: list[Any] = field(factory=list)
    #: The drawings of a cleaned tree, which are no longer in it; see ``pictures.py``.
    drawings: list[Any] = field(factory=list)
    #: See :mod:`scraper_service.content.html.cleaning`; None if not yet found.
    special: dict[str, list[Any]] | None = None
    #: The documents that the page embeds, see :mod:`scraper_service.content.html.embedded`.
    embedded: list[Any] = field(factory=list)
    #: The element of the last search for it.
    _body: Any = field(default=None, init=False, eq=False, repr=False)

    @property
    def body(self) -> Any:
        """The ``body`` element, created if the page has no body."""
        if self._body is None or self._body.getparent() is not self.root:
            self._body = self._find_body()
        return self._body

    def _find_body(self) -> Any:
        body = self.root.find("body")
        if body is None:
            body = etree.SubElement(self.root, "body")
            for child in [c for c in self.root if c.tag not in {"head", "body"}]:
                body.append(child)
        return body


def first_heading(document: Document) -> str:
    """Return the text of the first ``<h1>`` that has one, which stands for a title."""
    texts = (" ".join("".join(x.itertext()).split()) for x in document.parts.headings)
    return next(filter(None, texts), "")[:MAX_TITLE]


def parse(source: str | bytes, url: str) -> Document:
    """Parse text, or its UTF-8 bytes.

    Too many tags and too deep nesting are cut, with a warning.
    """
    text = source.encode(errors="ignore") if isinstance(source, str) else source
    warnings: list[str] = []
    if len(text) > MIN_TAG * MAX_TAGS and text.count(b"<") > MAX_TAGS:
        text = _without_late_tags(text)
        warnings.append(f"The page has over {MAX_TAGS} tags; later ones are ignored.")
    root, parts, losses = _tree(text)
    if parts.levels >= TOO_DEEP:
        root, parts, losses = _tree(_flatten(text, UNCOUNTED))
        if parts.levels >= TOO_DEEP:  # nested tables or lists
            root, parts, losses = _tree(_flatten(text, VOID))
        warnings.append(f"Elements nested deeper than {MAX_DEPTH} were flattened.")
    href = next((href for href in parts.bases if href is not None), "").strip()
    base = absolute(url, href) if href else None
    if base is None or not (is_web(base) and has_host(base)):
        base = url
    routes = _routes(root, parts.followed, url)
    is_home = bool(_HOME.match(url)) and not is_route(url.partition("#")[2].strip("/"))
    document = Document(root, base, parts, routes, warnings, losses, is_home=is_home)
    record_missing_rows(losses, parts.counted)
    return document


def _routes(root: Any, followed: list[str], url: str) -> frozenset[str]:
    """Return those of the URLs ``followed`` that lead from a page to a script's route.

    A fragment with the id of an element leads to the element. So does ``?id=`` after the
    route of this page, as docsify writes it.
    """
    found = {
        value: fragment
        for value in followed
        if "#" in value
        and (text := value.strip())[:1] == "#"
        and is_route(fragment := text[1:])
    }
    if not found:
        return frozenset()
    ids = {*root.xpath("//@id | //a/@name")}
    own = url.partition("#")[2].partition("?")[0].strip("/")
    routes = set()
    for value, fragment in found.items():
        route, _, query = fragment.partition("?")
        is_here = route.strip("/") == own and query[:3] == "id="
        if not ids & {
            fragment,
            unquote(fragment),
            unquote(query[3:]) if is_here else None,
        }:
            routes.add(value)
    return frozenset(routes)


def exclude(document: Document, selectors: Iterable[str]) -> None:
    """Remove the elements that match any of the CSS ``selectors``."""
    for element in _matches(document, selectors):
        if element.tag not in {"html", "body", "head"}:
            drop(element)
        elif element.tag != "head":
            empty(document.body)


def include(document: Document, selectors: tuple[str, ...]) -> None:
    """Keep only the outermost matching elements, in document order."""
    matches = _matches(document, selectors)
    body = document.body
    if body in matches or document.root in matches:
        return
    wanted = set(matches)
    outermost = [
        element
        for element in document.root.iter()
        if element in wanted and wanted.isdisjoint(element.iterancestors())
    ]
    for element in outermost:
        drop(element)
    empty(body)
    body.extend(outermost)
    if not outermost:
        names = ", ".join(selectors)
        document.warnings.append(f"No element matches includeTags: {names[:300]}.")


def drop(element: Any) -> None:
    """Remove ``element`` but keep the text after it."""
    parent = element.getparent()
    if parent is None:
        return
    if element.tail:
        previous = element.getprevious()
        if previous is None:
            parent.text = (parent.text or "") + element.tail
        else:
            previous.tail = (previous.tail or "") + element.tail
        element.tail = None
    parent.remove(element)


def select(root: Any, selector: str) -> list[Any] | None:
    """Return the elements that match a CSS selector, None for an invalid selector."""
    try:
        found = root.xpath(_TRANSLATOR.css_to_xpath(selector))
    except (SelectorError, ValueError, TypeError, RecursionError, etree.XPathError):
        return None
    return [element for element in found if isinstance(element.tag, str)]


def _matches(document: Document, selectors: Iterable[str]) -> list[Any]:
    found: list[Any] = []
    for selector in selectors:
        rewritten = _IFRAME.sub('[data-original-tag="iframe"]', selector)
        elements = select(document.root, rewritten)
        if elements is None:
            document.warnings.append(f"Not a usable selector: {selector[:100]}.")
        else:
            found += elements
    return found


def _tree(data: bytes) -> tuple[Any, Parts, Losses]:
    parser = etree.HTMLParser(
        encoding="utf-8",
        huge_tree=True,
        remove_comments=True,
        remove_pis=True,
        collect_ids=False,  # no code uses the index of ids
    )
    if may_be_forbidden(data):
        data = data.translate(None, _CONTROLS)
        for character in _FORBIDDEN_CHARACTERS:
            data = data.replace(character, b"")
        data = _FORBIDDEN_REFERENCE.sub(b"", data)
    data = _without_late_attributes(data)
    if any(tag in data for tag in (b"<select", b"<SELECT", b"<Select")):
        data = _OPEN_LIST.sub(_end_list, data)
    root = None if data.isspace() or not data else etree.fromstring(data, parser)
    if root is None:
        root = etree.fromstring(b"<html><body></body></html>")
    _end_head(root)
    _join_rest(root)
    _end_drawings(root)
    found = Parts(*page_parts(root, MAX_TYPES))
    for element in found.embeds:
        if element.tag == "embed":
            _empty_embed(element)
    losses = Losses()
    if found.shadows:
        open_shadow_roots(root, losses)
        found = Parts(*page_parts(root, MAX_TYPES))
    return root, found, losses


def _end_list(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] else found[0] + b"</select>"


def _empty_embed(element: Any) -> None:
    """Move the content of an ``embed`` after it: libxml2 does not know it as void."""
    children, text, tail = list(element), element.text, element.tail
    element.text, element.tail = None, None
    last = element
    for child in children:
        after, child.tail = child.tail, None
        last.addnext(child)
        last.tail, text = text, after
        last = child
    last.tail = (text or "") + (tail or "") or None


def _end_head(root: Any) -> None:
    """Move the first body element inside the head, with all after it, to the body.

    libxml2 does not support HTML 5's elements, and leaves ``<main>`` in a head without
    end tag.
    """
    head = root.find("head")
    if head is None:
        return
    late = list(dropwhile(lambda child: child.tag in _HEAD_ELEMENTS, head))
    if not late:
        return
    body = root.find("body")
    if body is None:
        body = etree.SubElement(root, "body")
    first_text, body.text = body.text, None
    for number, child in enumerate(late):
        body.insert(number, child)
    if first_text:
        late[-1].tail = (late[-1].tail or "") + first_text


def _join_rest(root: Any) -> None:
    """Move what follows the end tags of body and document to the end of the body.

    Browsers read it as a part of the body (HTML, 13.2.6.4.19 and 13.2.6.4.22). libxml2 puts it
    after the body, or into further roots, which no format reads.
    """
    body = root.find("body")
    if body is None or (body.getnext() is None and root.getnext() is None):
        return
    texts, body.tail = [body.tail or ""], None
    for element in [*body.itersiblings(), *root.itersiblings()]:
        for part in _parts_of(element):
            if isinstance(part, str):
                texts.append(part)  # a page may have a million of them
            else:
                _append_text(body, "".join(texts))
                texts = []
                body.append(part)
    _append_text(body, "".join(texts))


def _end_drawings(root: Any) -> None:
    """End each drawing at the first element of HTML in it, as browsers do.

    libxml2 puts all that follows ``<svg>`` without end tag into the drawing, which no format
    reads. What follows stays, and the parts of the drawing around it become elements of HTML.
    """
    known: set[Any] = set()  # drawings inside others
    for svg in list(elements(root, "svg")):
        inside = None if svg in known else _find_outside(svg, known)
        if inside is None:
            continue
        tag = "div" if inside.tag in BLOCKS else "span"
        while inside is not svg:
            above = inside.getparent()
            above.text = None
            for drawn in list(inside.itersiblings(preceding=True)):
                above.remove(drawn)
            above.tag = tag
            above.attrib.clear()
            inside = above


def _find_outside(svg: Any, known: set[Any]) -> Any:
    """Return the element of HTML that ends a drawing, None without any.

    Adds the drawings before it to ``known``.
    """
    for element in svg.iter("svg", *_OUTSIDE_SVG):
        if element.tag != "svg":
            break
        known.add(element)
    else:
        return None
    walk = etree.iterwalk(svg, events=("start",))
    for _, element in walk:
        if element.tag in _OUTSIDE_SVG:
            return element
        if element.tag in _HTML_IN_SVG:
            walk.skip_subtree()
    return None


def _parts_of(element: Any) -> Iterator[Any]:
    """Yield an element and its tail; of a further document, its content without the title."""
    tail, element.tail = element.tail, None
    if element.tag in {"html", "head", "body"}:
        yield element.text or ""
        for child in list(element):
            yield from _parts_of(child)
    elif element.tag != "title":
        yield element
    yield tail or ""


def _append_text(body: Any, text: str) -> None:
    if not text:
        return
    if len(body):
        body[-1].tail = (body[-1].tail or "") + text
    else:
        body.text = (body.text or "") + text


def _long_tag(data: bytes, at: int) -> int:
    """Return the position of the next tag longer than :data:`LONG_TAG`, by few searches.

    Return -1 without any. ``at`` is where the search begins.
    """
    at = data.find(b"<", at)
    while 0 <= at < len(data) - LONG_TAG:
        end = at + 1 + LONG_TAG
        last = data.rfind(b"<", at + 1, end)
        if last < 0:
            is_tag = data[at + 1 : at + 2].isalpha()
            if is_tag and data.find(b">", at, end) < 0:
                return at
            last = data.find(b"<", end)  # mostly after a script
        at = last
    return -1


def _without_late_attributes(data: bytes) -> bytes:
    """Cut the late attributes of elements that have very many.

    libxml2 compares each attribute with all others.
    """
    parts = []
    left = 0
    at = _long_tag(data, 0)
    while at >= 0:
        ends = (data.find(b"<", at + 1), data.find(b">", at + 1))
        end = min((n for n in ends if n >= 0), default=len(data))
        for number, attribute in enumerate(_ATTRIBUTE.finditer(data[at:end])):
            if number == MAX_ATTRIBUTES:
                parts.append(data[left : at + attribute.start()])
                left = end
                break
        at = _long_tag(data, end)
    return b"".join((*parts, data[left:])) if parts else data


def _flatten(text: bytes, uncounted: frozenset[str]) -> bytes:
    """Drop the tags below :data:`MAX_DEPTH`, but keep their text."""
    depth = 0

    def keep(match: re.Match[bytes]) -> bytes:
        nonlocal depth
        if match[2].lower().decode(errors="replace") in uncounted:
            return match[0] if depth < MAX_DEPTH else b" "
        if match[1]:
            kept = depth <= MAX_DEPTH
            depth = max(depth - 1, 0)
        else:
            depth += 1
            kept = depth <= MAX_DEPTH
        return match[0] if kept else b" "

    return _TAG.sub(keep, text)


def _without_late_tags(text: bytes) -> bytes:
    count = 0

    def keep(match: re.Match[bytes]) -> bytes:
        nonlocal count
        count += 1
        return match[0] if count <= MAX_TAGS else b" "

    return _TAG.sub(keep, text)


def empty(element: Any) -> None:
    """Remove all children and the text of an element."""
    del element[:]
    element.text = None
