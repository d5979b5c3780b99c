"""Converts Word documents (.docx) with mammoth.

Their XML is prepared first, because mammoth skips what it does not know. Formulas, charts
and SmartArt become marked runs, whose HTML replaces them in the result. Text boxes and
fields get a form that mammoth reads. All else is recorded.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
import zipfile
from itertools import takewhile
from typing import Any

import mammoth
from lxml import etree

from scraper_service.content.documents.drawings_and_formulas import (
    OBJECT,
    Graphics,
    formula,
    record_object,
)
from scraper_service.content.documents.files import (
    HIDDEN,
    MACROS,
    Archive,
    ConvertedDocument,
    attribute,
    html_body,
    inner_html,
    local,
    ooxml_document,
    parse_digits,
)
from scraper_service.content.losses import Losses, is_in

MARK = "ScraperPart"  # the style of marked runs and paragraphs
_MARKED = re.compile(r'<(div|span) class="part">(\d{1,9})</\1>')
# Elements whose children mammoth reads once the element itself is gone.
_UNWRAPPED = ("{*}fldSimple", "{*}dir", "{*}bdo")
_VML = "{urn:schemas-microsoft-com:vml}"
_SHAPES = [f"{_VML}{n}" for n in ("oval", "polyline", "curve", "arc", "line", "image")]
CONTROL = "ActiveX controls of a document are not converted."
# Of a hidden run: fields remain whole, as their ends stand in other runs.
_FIELD = frozenset({"rPr", "fldChar", "instrText"})
_USED = ("{*}txbxContent", "{*}chart", "{*}relIds", "{*}oMath", "{*}pic")
KIND = "Word"
MAX_IMAGE_BYTES = 5 * 2**20
SYMBOL = "A sign of a symbol font has no known meaning."
LARGE = "Pictures of over 5 MiB are not embedded in the page."
# Styles of titles, quotations and code, in addition to mammoth's own.
STYLES = f"""
p.{MARK} => div.part:fresh
r.{MARK} => span.part:fresh
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p[style-name='Quote'] => blockquote:fresh > p:fresh
p[style-name='Intense Quote'] => blockquote:fresh > p:fresh
p[style-name^='HTML Preformatted'] => pre:separator('\\n')
p[style-name^='Code'] => pre:separator('\\n')
p[style-name^='Source'] => pre:separator('\\n')
r[style-name^='HTML Code'] => code
r[style-name^='Code'] => code
u => em
strike => s
comment-reference =>
"""
_NOTE_BACK = re.compile(r'\s*<a href="#(?:footnote|endnote|comment)-ref-\d+">↑</a>')


class WordXml:
    """Rewrites the parts of a document that have text, and fills in the result."""

    def __init__(self, archive: Archive, losses: Losses):
        self._archive = archive
        self._losses = losses
        self._graphics = Graphics(archive, losses)
        #: The last added paragraph after a paragraph.
        self._last: dict[Any, Any] = {}
        self._html: list[str] = []
        self._hidden: set[str] = set()
        self._word = ""
        self._relations: dict[str, tuple[str, str, bool]] = {}

    def prepare(self, body: bytes) -> bytes:
        """Return the file with rewritten parts instead of the old ones."""
        archive = self._archive
        main = archive.main_part("word/document.xml")
        if main not in archive:
            return body
        parts = {kind: name for kind, name, _ in archive.relations(main).values()}
        if (styles := parts.get("styles", "")) in archive:
            self._hidden = _hidden_styles(archive.xml(styles))
        written = {}
        for name in (main, parts.get("footnotes", ""), parts.get("endnotes", "")):
            if name in archive:
                root = archive.xml(name)
                self._word = root.tag.rpartition("}")[0] + "}"
                self._relations = archive.relations(name)
                self._rewrite(root)
                written[name] = etree.tostring(root)
        buffer = io.BytesIO(body)
        with warnings.catch_warnings(), zipfile.ZipFile(buffer, "a") as target:
            warnings.simplefilter("ignore")  # of a second part with the same name
            for name, data in written.items():
                target.writestr(name, data)
        return buffer.getvalue()

    def fill(self, html: str) -> str:
        """Return the result of mammoth with the HTML of the marked parts."""

        def part(match: re.Match[str]) -> str:
            number = int(match[2])
            return self._html[number] if number < len(self._html) else ""

        return _MARKED.sub(part, html)

    def _rewrite(self, root: Any) -> None:
        self._drop_hidden(root)
        for item in list(root.iter("{*}AlternateContent")):
            _choose(item)
        for item in list(root.iter("{*}drawing")):
            self._drawing(item)
        for item in list(root.iter("{*}oMathPara", "{*}oMath")):
            # The formulas of a displayed one leave the tree with it.
            if item.getparent() is not None and is_in(item, root):
                _replace(item, [self._mark("r", formula(item, self._losses))])
        self._record_objects(root)
        for item in root.iter(*_SHAPES):
            item.tag = f"{_VML}shape"  # the only one that mammoth reads
        for item in list(root.iter(*_UNWRAPPED)):
            _replace(item, [c for c in item if not local(c).endswith("Pr")])
        for item in list(root.iter("{*}ruby")):
            self._ruby(item)
        for item in list(root.iter("{*}cr", "{*}ptab")):
            item.tag = self._word + ("br" if local(item) == "cr" else "tab")
        for item in list(root.iter("{*}ddList")):
            self._drop_down(item)
        for item in list(root.iter("{*}p")):
            _keep_deleted_mark(item)

    def _record_objects(self, root: Any) -> None:
        for item in root.iter("{*}OLEObject"):
            record_object(item.get("ProgID", ""), self._losses)
        for item in root.iter("{*}control"):
            self._losses.add("formField", CONTROL, text=attribute(item, "name"))
        for _ in root.iter("{*}altChunk"):
            self._losses.add("embeddedDocument", OBJECT)

    def _drop_hidden(self, root: Any) -> None:
        """Remove and record the text of hidden runs; the paragraphs around them stay."""
        for run in root.iter(f"{self._word}r"):
            if self._is_hidden(run):
                if text := "".join(run.itertext(f"{self._word}t")).strip():
                    self._losses.add("hiddenPart", HIDDEN, text=text)
                for item in list(run):
                    if local(item) not in _FIELD:
                        run.remove(item)

    def _is_hidden(self, run: Any) -> bool:
        facts = run.find("{*}rPr")
        if facts is not None:
            own = facts.find("{*}vanish")
            if own is not None:
                return _is_on(own)
            style = facts.find("{*}rStyle")
            if style is not None and attribute(style, "val") in self._hidden:
                return True
        if not self._hidden:
            return False
        above = next(run.iterancestors("{*}p"), None)
        style = above.find("{*}pPr/{*}pStyle") if above is not None else None
        return style is not None and attribute(style, "val") in self._hidden

    def _drawing(self, drawing: Any) -> None:
        data = next(drawing.iter("{*}graphicData"), None)
        if data is None:
            return
        html = self._graphics.html(data, self._relations)
        if html is not None:
            self._add_block(drawing, html)
            _replace(drawing, [])
            return
        boxes = [b for b in data.iter("{*}txbxContent") if not _is_boxed(b, data)]
        pictures = [
            item
            for item in data.iter("{*}pic")
            if item.getparent() is not data and not _is_boxed(item, data)
        ]
        if boxes or pictures:
            frames = [self._frame(drawing, data, item) for item in pictures]
            if boxes:
                frame = self._new("pict")
                frame.extend(boxes)
                frames.append(frame)
            _replace(drawing, frames)

    def _frame(self, drawing: Any, data: Any, item: Any) -> Any:
        frame = self._new("drawing")
        inline = etree.SubElement(frame, drawing[0].tag)
        facts = item.find("{*}nvPicPr/{*}cNvPr")
        if facts is not None:
            namespace = inline.tag.rpartition("}")[0] + "}"
            etree.SubElement(inline, f"{namespace}docPr", dict(facts.attrib))
        inner = etree.SubElement(inline, data.getparent().tag)
        etree.SubElement(inner, data.tag).append(item)
        return frame

    def _ruby(self, ruby: Any) -> None:
        """Replace an annotated text by the text, and its reading in parentheses."""
        base, reading = ruby.find("{*}rubyBase"), ruby.find("{*}rt")
        found = list(base) if base is not None else []
        if reading is not None and len(reading):
            found += [self._plain(" ("), *reading, self._plain(")")]
        run = ruby.getparent()
        if local(run) != "r":
            _replace(ruby, found)
            return
        parent = run.getparent()
        index = parent.index(run) + 1
        run.remove(ruby)
        for item in reversed(found):
            parent.insert(index, item)

    def _drop_down(self, choices: Any) -> None:
        """Write the chosen entry of an old form field, which has no text of its own."""
        entries = [attribute(e, "val") or "" for e in choices.iterfind("{*}listEntry")]
        chosen = choices.find("{*}result")
        number = (
            parse_digits(attribute(chosen, "val") or "0") if chosen is not None else 0
        )
        run = next(choices.iterancestors("{*}r"), None)
        if run is not None and run.getparent() is not None and number < len(entries):
            run.addprevious(self._plain(entries[number]))

    def _new(self, name: str, *inner: Any) -> Any:
        found = etree.Element(self._word + name)
        found.extend(inner)
        return found

    def _plain(self, text: str) -> Any:
        content = self._new("t")
        content.text = text
        return self._new("r", content)

    def _mark(self, name: str, html: str) -> Any:
        """Return a marked run or paragraph; the number of its HTML is its text."""
        self._html.append(html)
        style = self._new(f"{name}Style")
        style.set(f"{self._word}val", MARK)
        run = self._plain(str(len(self._html) - 1))
        inner = run if name == "p" else run[0]
        return self._new(name, self._new(f"{name}Pr", style), inner)

    def _add_block(self, item: Any, html: str) -> None:
        above = next(item.iterancestors(f"{self._word}p"), None)
        if not html or above is None or above.getparent() is None:
            return
        added = self._mark("p", html)
        self._last.get(above, above).addnext(added)
        self._last[above] = added


def _hidden_styles(root: Any) -> set[str]:
    """Return the ids of the styles that hide their text, also by their base."""
    own: dict[str, bool | None] = {}
    base: dict[str, str] = {}
    for style in root.iterfind("{*}style"):
        name = attribute(style, "styleId") or ""
        vanish = style.find("{*}rPr/{*}vanish")
        own[name] = None if vanish is None else _is_on(vanish)
        above = style.find("{*}basedOn")
        base[name] = (attribute(above, "val") or "") if above is not None else ""
    if not any(own.values()):
        return set()
    return {name for name in own if _inherits(name, own, base)}


def _inherits(name: str, own: dict[str, bool | None], base: dict[str, str]) -> bool:
    for _ in range(20):  # a style may be based on itself
        found = own.get(name)
        if found is not None:
            return found
        name = base.get(name, "")
    return False


def _is_on(item: Any) -> bool:
    return attribute(item, "val") not in {"0", "false", "off"}


def _is_boxed(item: Any, data: Any) -> bool:
    """Return True if an element below ``data`` stands in a text box there."""
    inside = takewhile(lambda above: above is not data, item.iterancestors())
    return any(local(above) == "txbxContent" for above in inside)


def _choose(item: Any) -> None:
    """Replace alternatives by one of them: the one whose content is converted."""
    choice, fallback = item.find("{*}Choice"), item.find("{*}Fallback")
    is_used = choice is not None and next(choice.iter(*_USED), None) is not None
    chosen = choice if is_used or fallback is None or not len(fallback) else fallback
    _replace(item, list(chosen) if chosen is not None else [])


def _replace(item: Any, others: list[Any]) -> None:
    parent = item.getparent()
    if parent is None:
        return
    index = parent.index(item)
    parent.remove(item)
    parent[index:index] = others


def _keep_deleted_mark(paragraph: Any) -> None:
    """Keep a last paragraph apart; mammoth joins it with the next one, and loses it."""
    deleted = paragraph.find("{*}pPr/{*}rPr/{*}del")
    after = paragraph.getnext()
    if deleted is not None and (after is None or local(after) != "p"):
        deleted.getparent().remove(deleted)


def read_docx(body: bytes, *, embed_images: bool) -> ConvertedDocument:
    """Convert a document; images become data URIs, empty without ``embed_images``.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    archive = Archive(body, KIND)
    archive.check_parts()
    document = ooxml_document(archive)
    losses = document.losses
    xml = WordXml(archive, losses)

    @mammoth.images.img_element  # type: ignore[untyped-decorator]
    def image(found: Any) -> dict[str, str]:
        data = b""
        if embed_images:
            with found.open() as stream:
                data = stream.read(MAX_IMAGE_BYTES + 1)
        if len(data) > MAX_IMAGE_BYTES:
            data = b""
            losses.add("image", LARGE, text=found.alt_text)
        encoded = base64.b64encode(data).decode()
        return {"src": f"data:{found.content_type or 'image/png'};base64,{encoded}"}

    try:
        result = mammoth.convert_to_html(
            io.BytesIO(xml.prepare(body)), style_map=STYLES, convert_image=image
        )
    except RecursionError as exc:
        raise archive.unreadable("its structure is nested too deeply") from exc
    except (LookupError, ValueError, TypeError, AttributeError, OSError) as exc:
        raise archive.unreadable("it is damaged") from exc
    for message in result.messages:
        if "w:sym" in message.message:
            losses.add("unreadableText", SYMBOL)
    if any(name.endswith("vbaProject.bin") for name in archive):
        document.warnings.append(MACROS)
    document.body = _with_headers(xml.fill(_NOTE_BACK.sub("", result.value)))
    return document


def _with_headers(body: str) -> str:
    """Make the first row of each table its header, as few documents mark headers."""
    root = html_body(body)
    if root is None:
        return body
    for table in root.iter("table"):
        rows = table.xpath("./tr | ./tbody/tr")
        if len(rows) > 1 and not table.xpath("./thead"):
            for cell in rows[0].iterchildren("td"):
                cell.tag = "th"
    return inner_html(root)
