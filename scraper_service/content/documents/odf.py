"""Converts OpenDocument texts, sheets and presentations (.odt, .ods, .odp).

Names of elements follow OpenDocument 1.3, part 3.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scraper_service.content.decode import Unreadable
from scraper_service.content.documents.drawings_and_formulas import (
    CHART,
    OBJECT,
    mathml,
)
from scraper_service.content.documents.files import (
    COMMENT,
    HIDDEN,
    HIDDEN_ROWS,
    HIDDEN_SLIDES,
    MAX_CELLS,
    MAX_DEPTH,
    Archive,
    ConvertedDocument,
    anchor,
    attribute,
    block,
    element,
    escape,
    facts,
    local,
    note_mark,
    notes_html,
    parse_digits,
    picture,
    resolve_member,
    tight,
)
from scraper_service.content.documents.sheets import (
    MAX_COLUMNS,
    MAX_SHEETS,
    Grid,
    GridCell,
    cut_reason,
    grid_html,
    record_left_out,
    sheets_html,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_REPEATED = 1000  # rows that a repeated row element stands for
KIND = "OpenDocument"
_TITLES = {"Title": "h1", "Subtitle": "h2"}
FORM = "Form fields of OpenDocument files are not converted."
FILM = "Films and sounds inside a document are not converted."
MAX_SPACES = 200  # per <text:s>
# What a slide is made of; all of them may have text.
_SHAPES = tuple(
    f"{{*}}{name}"
    for name in (
        *("frame", "custom-shape", "rect", "ellipse", "circle", "line", "connector"),
        *("path", "polygon", "polyline", "regular-polygon", "caption", "measure"),
    )
)

# Properties of the styles that hide tables and slides.
_HIDING = (
    ("table-properties", "display", "false"),
    ("drawing-page-properties", "visibility", "hidden"),
)
# Elements that are no part of the text.
_LEFT_OUT = frozenset(
    {"annotation", "annotation-end", "tracked-changes", "forms", "sequence-decls"}
    | {"variable-decls", "user-field-decls", "note-citation", "bookmark", "desc"}
    | {"date-time-decl", "footer-decl", "header-decl", "settings", "title"}
)


def read_odf(body: bytes) -> ConvertedDocument:
    """Convert a text, a workbook or a presentation.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    archive = Archive(body, KIND)
    if _is_encrypted(archive):
        raise archive.unreadable("it is encrypted with a password")
    root = archive.xml("content.xml")
    content = root.find("{*}body")
    if content is None or not len(content):
        raise archive.unreadable("it has no content")
    reader = _Reader(root, archive)
    main = content[0]
    document = reader.document
    if local(main) == "spreadsheet":
        document.body = sheets_html(document, reader.sheets(main))
    elif local(main) == "presentation":
        document.body = "\n".join(reader.slides(main))
    else:
        document.body = reader.blocks(main) + notes_html(reader.notes)
    return document


def _is_encrypted(archive: Archive) -> bool:
    if "META-INF/manifest.xml" not in archive:
        return False
    manifest = archive.xml("META-INF/manifest.xml")
    return next(manifest.iter("{*}encryption-data"), None) is not None


def _document(archive: Archive) -> ConvertedDocument:
    if "meta.xml" not in archive:
        return ConvertedDocument()
    declared: dict[str, str] = {}
    words = []
    for item in archive.xml("meta.xml").iter():
        text = (item.text or "").strip()
        if local(item) == "keyword":
            words.append(text)
        elif text:
            declared.setdefault(local(item), text)
    known = {
        "title": declared.get("title"),
        "description": declared.get("description"),
        "keywords": ", ".join(words),
        "language": declared.get("language"),
        "published_time": declared.get("creation-date"),
        "modified_time": declared.get("date"),
    }
    author = declared.get("initial-creator") or declared.get("creator")
    other = {"author": author, "subject": declared.get("subject")}
    return ConvertedDocument(known=facts(known), other=facts(other))


class _Reader:
    """Writes elements as HTML, and collects footnotes for the end."""

    def __init__(self, root: Any, archive: Archive):
        self.document = _document(archive)
        #: The footnotes by number.
        self.notes: dict[int, str] = {}
        self._losses = self.document.losses
        self._archive = archive
        #: The cells that all tables of the file may still have.
        self._left = MAX_CELLS
        self._depth = 0
        self._hidden: set[str] = set()
        self._hidden_texts: set[str] = set()
        self._emphasis: dict[str, list[str]] = {}
        self._numbered: set[str] = set()
        for style in root.iter("{*}style", "{*}list-style"):
            self._read_style(style)

    def _read_style(self, style: Any) -> None:
        name = attribute(style, "name") or ""
        if local(style) == "list-style":
            if len(style) and local(style[0]) == "list-level-style-number":
                self._numbered.add(name)
            return
        shape = style.find("{*}text-properties")
        if shape is not None:
            tags = []
            if attribute(shape, "font-weight") == "bold":
                tags.append("strong")
            if attribute(shape, "font-style") in {"italic", "oblique"}:
                tags.append("em")
            if attribute(shape, "text-line-through-style") not in {None, "none"}:
                tags.append("s")
            position = attribute(shape, "text-position") or ""
            if position.startswith(("super", "sub")):
                tags.append("sup" if position.startswith("super") else "sub")
            self._emphasis[name] = tags
            if attribute(shape, "display") == "none":
                self._hidden_texts.add(name)
        for kind, fact, value in _HIDING:
            found = style.find(f"{{*}}{kind}")
            if found is not None and attribute(found, fact) == value:
                self._hidden.add(name)

    # -- Texts ---------------------------------------------------------------------------

    def blocks(self, parent: Any) -> str:
        """Return the blocks of an element; deep nesting is cut."""
        self._depth += 1
        parts = [self._block(item) for item in parent]
        self._depth -= 1
        return "".join(parts)

    def _block(self, item: Any) -> str:
        kind = local(item)
        if self._depth > MAX_DEPTH:
            reason = f"At most {MAX_DEPTH} nested elements are read."
            self._losses.add("truncated", reason)
            return ""
        if kind in _LEFT_OUT or not kind:
            self._record(item)
            return ""
        if kind == "frame":
            return self._frame_block(item)
        if kind == "h":
            level = parse_digits(attribute(item, "outline-level") or "1")
            return block(f"h{min(max(level, 1), 6)}", self.inline(item))
        if kind == "p":
            style = attribute(item, "style-name") or ""
            tag = "pre" if style.startswith("Preformatted") else "p"
            return block(_TITLES.get(style, tag), self.inline(item))
        if kind == "list":
            return self._list(item)
        if kind == "table":
            return self._table(item)
        return self.blocks(item)

    def _list(self, item: Any) -> str:
        tag = "ol" if attribute(item, "style-name") in self._numbered else "ul"
        items = []
        for entry in item:
            if local(entry) in {"list-item", "list-header"}:
                content = tight(self.blocks(entry))
                if content.strip():
                    items.append(element("li", content))
        return f"{element(tag, ''.join(items))}\n" if items else ""

    def _table(self, item: Any) -> str:
        grid = self.grid(item)
        if grid.is_cut:
            warning = "A table was truncated: it has too many cells."
            self.document.warnings.append(warning)
            self._losses.add("truncated", cut_reason(grid, "A table"))
        return grid_html(grid)

    def inline(self, parent: Any) -> str:
        """Return an element's text with its inline elements."""
        if attribute(parent, "style-name") in self._hidden_texts:
            self._losses.add("hiddenPart", HIDDEN, text="".join(parent.itertext()))
            return ""
        if self._depth > MAX_DEPTH:
            return escape("".join(parent.itertext()))
        self._depth += 1
        parts = [escape(parent.text or "")]
        for item in parent:
            parts += [self._span(item), escape(item.tail or "")]
        self._depth -= 1
        return "".join(parts)

    def _span(self, item: Any) -> str:
        kind = local(item)
        if kind in _LEFT_OUT or not kind:
            self._record(item)
            return ""
        if kind == "s":
            count = parse_digits(attribute(item, "c") or "1", 1)
            return " " * min(count, MAX_SPACES)
        if kind == "tab":
            return " "
        if kind == "line-break":
            return "<br>"
        if kind == "note":
            return self._note(item)
        if kind == "a":
            return anchor(self.inline(item), attribute(item, "href"))
        if kind == "frame":
            return self._frame(item)
        content = self.inline(item)
        if kind == "span" and content.strip():
            for tag in self._emphasis.get(attribute(item, "style-name") or "", ()):
                content = element(tag, content)
        return content

    def _note(self, item: Any) -> str:
        content = item.find("{*}note-body")
        if content is None:
            return ""
        number = len(self.notes) + 1
        self.notes[number] = ""  # reserves the number before notes inside this note
        text = self.blocks(content).replace("<p>", "").replace("</p>\n", " ")
        self.notes[number] = text.strip()
        return note_mark(number)

    def _frame(self, item: Any) -> str:
        box = item.find("{*}text-box")
        if box is not None:
            return self.blocks(box).replace("<p>", "").replace("</p>\n", "<br>")
        thing = item.find("{*}object")
        if thing is None:
            thing = item.find("{*}object-ole")
        if thing is not None:
            return self._object(thing)
        if item.find("{*}plugin") is not None:
            self._losses.add("video", FILM, text=attribute(item, "name"))
            return ""
        if item.find("{*}image") is None:
            return ""
        alt = item.findtext("{*}desc") or item.findtext("{*}title")
        return picture(alt, self._losses)

    def _frame_block(self, item: Any) -> str:
        table = item.find("{*}table")
        if table is not None:
            return self._table(table)
        box = item.find("{*}text-box")
        if box is not None:
            return self.blocks(box)
        content = self._frame(item)
        return content if content.startswith("<table") else block("p", content)

    def _object(self, thing: Any) -> str:
        """Return a formula or the values of a chart; record another object."""
        root = thing[0] if len(thing) and local(thing[0]) == "math" else None
        href = attribute(thing, "href") or ""
        name = f"{resolve_member('', href)}/content.xml"
        if root is None and href and name in self._archive:
            with suppress(Unreadable):
                root = self._archive.xml(name)
        if root is not None and local(root) == "math":
            above = thing.getparent().getparent()
            texts = above.itertext("{*}span", "{*}p") if above is not None else ()
            alone = not "".join(texts).strip()
            return mathml(root, display=alone and local(above) == "p")
        chart = next(root.iter("{*}chart"), None) if root is not None else None
        table = next(root.iter("{*}table"), None) if root is not None else None
        if chart is not None:
            if table is not None and (html := self._table(table)):
                return html
            self._losses.add("chart", CHART)
        else:
            self._losses.add("embeddedDocument", OBJECT, text=href.removeprefix("./"))
        return ""

    def _record(self, item: Any) -> None:
        """Record a comment or the fields of a form, which are no part of the text."""
        if local(item) == "annotation":
            text = " ".join("".join(p.itertext()) for p in item.iter("{*}p"))
            self._losses.add("annotation", COMMENT, text=text)
        elif local(item) == "forms" and (
            fields := sum(len(form) for form in item.iter("{*}form"))
        ):
            self._losses.add("formField", FORM, count=fields)

    # -- Presentations -------------------------------------------------------------------

    def slides(self, main: Any) -> Iterator[str]:
        """Yield a section for each slide."""
        hidden = 0
        for number, page in enumerate(main.iterfind("{*}page"), 1):
            if attribute(page, "style-name") in self._hidden:
                hidden += 1
                continue
            heading = ""
            parts = []
            for shape in page.iter(*_SHAPES):
                if next(shape.iterancestors("{*}notes"), None) is not None:
                    continue
                kind = attribute(shape, "class")
                box = shape.find("{*}text-box")
                if kind == "title" and not heading and box is not None:
                    heading = " ".join(self.inline(p) for p in box.iter("{*}p")).strip()
                elif kind not in {"header", "footer", "date-time", "page-number"}:
                    is_frame = local(shape) == "frame"
                    write = self._frame_block if is_frame else self.blocks
                    parts.append(write(shape))
            for item in page.iterfind("{*}annotation"):
                self._record(item)
            notes = [self.blocks(box) for box in page.iterfind("{*}notes//{*}text-box")]
            if any(notes):
                parts.append(element("blockquote", f"<p>Notes:</p>{''.join(notes)}"))
            title = element("h2", heading or f"Slide {number}")
            notes_list = notes_html(self.notes)
            yield element("section", title + "".join(parts) + notes_list)
            self.notes = {}
        if hidden:
            reason = HIDDEN_SLIDES.format(hidden)
            self.document.warn("hiddenPart", reason, count=hidden)

    # -- Cells ---------------------------------------------------------------------------

    def cell(self, item: Any) -> str:
        """Return the content of a cell."""
        parts = []
        for part in item:
            text = self.inline(part) if local(part) in {"p", "h"} else self._block(part)
            if text.strip():
                parts.append(text)
        return "<br>".join(parts)

    # -- Tables --------------------------------------------------------------------------

    def sheets(self, main: Any) -> Iterator[Grid]:
        """Yield the visible sheets."""
        visible: list[Any] = []
        hidden: list[str] = []
        for table in main.iterfind("{*}table"):
            if attribute(table, "style-name") in self._hidden:
                hidden.append(attribute(table, "name") or "")
            else:
                visible.append(table)
        record_left_out(self.document, hidden, len(visible))
        for table in visible[:MAX_SHEETS]:
            grid = self.grid(table)
            shapes = table.findall("{*}shapes")
            grid.after = "".join(map(self.blocks, shapes))
            yield grid

    def grid(self, table: Any) -> Grid:
        """Return a table, cut if it has too many cells."""
        grid = Grid(attribute(table, "name") or "")
        row = last = columns = 0
        is_full = False
        for item in table.iter("{*}table-row"):
            if next(item.iterancestors("{*}table")) is not table:
                continue  # a row of a table in a cell
            count = _repeat_count(item, "number-rows-repeated")
            if is_full:
                row += count
                last = row if any(map(len, item)) else last
                continue
            cells = self._cells(item)
            columns = max(columns, *(column + 1 for column, _, _ in cells), 0)
            is_hidden = attribute(item, "visibility") in {"collapse", "filter"}
            if cells and is_hidden:
                self._losses.add("hiddenPart", HIDDEN_ROWS, text=grid.name, count=count)
            elif cells:
                last = row + count
                grid.is_cut |= count > MAX_REPEATED
                for at in range(row, row + min(count, MAX_REPEATED)):
                    for column, cell, (height, width) in cells:
                        if not self._left:
                            grid.is_cut = is_full = True
                            break
                        self._left -= 1
                        grid.put(at, column, cell)
                        if height > 1 or width > 1:
                            last_cell = at + height - 1, column + width - 1
                            grid.merged.append((at, column, *last_cell))
            row += count
        grid.size = (last, columns)
        return grid

    def _cells(self, row: Any) -> list[tuple[int, GridCell, tuple[int, int]]]:
        """Return the cells of a row: column, content, and spanned rows and columns."""
        found = []
        column = 0
        for item in row:
            if local(item) not in {"table-cell", "covered-table-cell"}:
                continue
            count = _repeat_count(item, "number-columns-repeated")
            content = self.cell(item)
            if content and local(item) == "table-cell":
                kind = attribute(item, "value-type") or "string"
                cell = GridCell(content, kind == "string")
                span = (
                    _repeat_count(item, "number-rows-spanned"),
                    _repeat_count(item, "number-columns-spanned"),
                )
                found += [
                    (at, cell, span)
                    for at in range(column, min(column + count, MAX_COLUMNS + 1))
                ]
            column += count
        return found


def _repeat_count(item: Any, name: str) -> int:
    value = attribute(item, name) or "1"
    return max(int(value), 1) if value.isdecimal() and len(value) < 9 else 1
