"""Converts rich text files (.rtf), by the Rich Text Format Specification 1.9.1.

The reader follows the control words. The writer builds paragraphs, lists and tables.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from contextlib import suppress
from itertools import groupby

from attrs import define, evolve, field

from scraper_service.content.decode import clean_text
from scraper_service.content.documents.files import (
    COMMENT,
    HIDDEN,
    MAX_CELLS,
    ConvertedDocument,
    anchor,
    element,
    emphasis,
    escape,
    facts,
    nested_list,
    note_mark,
    notes_html,
    table,
    unreadable,
)
from scraper_service.content.losses import Losses

MAX_COLUMNS = 200  # of a table
NEAR = 30  # twips between edges of one column
TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})?\x20?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z'])|([{}])"
    r"|([^\\{}\r\n]+)|[\r\n]+|\\"
)
# Groups whose text is not part of the document.
SKIPPED = frozenset(
    "colortbl stylesheet listtable listoverridetable rsidtbl generator pict "
    "themedata colorschememapping datastore latentstyles xmlnstbl header headerl headerr "
    "headerf footer footerl footerr footerf object objdata atnid atnauthor "
    "atrfstart atrfend revtbl filetbl bkmkstart bkmkend mmathPr pgdsctbl falt panose "
    "shppict nonshppict shprslt private1 fldtype userprops docvar xe tc listpicture".split()
)
FACTS = frozenset("title author subject keywords doccomm".split())
TABLE_WORDS = frozenset("cell nestcell cellx row nestrow trowd".split())
SIGNS = {
    "emdash": "\u2014",
    "endash": "\u2013",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "bullet": "\u2022",
    "tab": "\t",
    "line": "\n",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
}
# Python's codecs for the character sets of fonts, by number.
CHARSETS = {
    int(number): codec
    for number, codec in (
        pair.split("=")
        for pair in (
            "0=cp1252 77=mac_roman 128=cp932 129=cp949 134=gb18030 136=cp950 "
            "161=cp1253 162=cp1254 163=cp1258 177=cp1255 178=cp1256 186=cp1257 "
            "204=cp1251 222=cp874 238=cp1250"
        ).split()
    )
}
# Control words that set an attribute of the text, False with the number 0.
TOGGLES = {
    "b": "bold",
    "i": "italic",
    "strike": "strike",
    "v": "hidden",
    "deleted": "deleted",
}
# Control words that set an attribute of the paragraph.
LEVELS = {"outlinelevel": "level", "ilvl": "list_level"}
# Control words that begin a destination.
TARGETS = {
    "annotation": "comment",
    "fldinst": "instruction",
    "fldrslt": "text",
    "fonttbl": "fonts",
    "listtext": "listtext",
    "pntext": "listtext",
    "sn": "property",
    "sv": "property",
}
# Fonts, and the names and values of the properties of shapes.
WITHOUT_TEXT = frozenset({"fonts", "property"})
# Destinations that are read although they are marked as optional.
KEPT = frozenset(
    {"annotation", "fldinst", "listtext", "pntext", "footnote", "shpinst", "shptxt"}
)
# Groups that are recorded, with the kinds of losses and the reasons.
LOST = {
    "shppict": ("image", "Pictures in RTF files are not converted."),
    "pict": ("image", "Pictures in RTF files are not converted."),
    "object": ("embeddedDocument", "Files inside of RTF files are not converted."),
    "mmath": ("formula", "Formulas in RTF files are not converted."),
}
LINK = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"?([^"\s]+)"?', re.IGNORECASE)
BULLETS = "\u2022\u00b7\uf0b7\u25aa\u25e6o-"


@define
class TextState:
    """The properties of text, which a group inherits from the group around it."""

    bold: bool = False
    italic: bool = False
    strike: bool = False
    hidden: bool = False
    deleted: bool = False
    skipped: bool = False
    #: The destination of text: ``text``, ``fonts``, ``instruction``, ``listtext``,
    #: ``note``, ``comment``, ``reference``, ``property`` or a name of metadata.
    target: str = "text"
    #: The number of the font.
    font: int = 0
    #: How many characters after a Unicode character are skipped. Halves of one sign may
    #: differ in it.
    unicode_skip: int = field(default=1, eq=False)
    #: The URL of the link around.
    link: str | None = None


@define
class Paragraph:
    """The text of an unfinished paragraph, item or cell."""

    #: Texts with their states.
    runs: list[tuple[str, TextState]] = field(factory=list)
    #: The level of a heading, from 0; -1 for other paragraphs.
    level: int = -1
    #: The level of a list item, from 0; -1 for other paragraphs.
    list_level: int = -1
    #: Whether this is part of a table cell.
    in_table: bool = False


class RtfWriter:
    """Collects items and rows until their list or table ends."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._items: list[tuple[int, str]] = []
        #: Cells, and the right edge of each in twips if known.
        self._rows: list[tuple[list[str], list[int]]] = []
        self._numbered = False
        self._left = MAX_CELLS
        #: The numbers of written and of dropped table rows.
        self.rows = self.dropped = 0

    def body(self, notes: list[list[tuple[str, TextState]]]) -> str:
        """Return the whole document, with the footnotes at its end."""
        self._end_table()
        self._end_list()
        texts = {n: runs_html(runs).strip() for n, runs in enumerate(notes, 1)}
        return "".join(self._parts) + notes_html(texts)

    def add(self, paragraph: Paragraph, mark: str) -> None:
        """Add a paragraph; ``mark`` is the bullet or number of an item."""
        content = runs_html(paragraph.runs).strip()
        level, list_level = paragraph.level, paragraph.list_level
        if not content:
            return
        self._end_table()
        is_numbered = bool(mark) and mark[0] not in BULLETS
        if level < 0 and (mark or list_level >= 0):
            self._items.append((max(list_level, 0), content))
            self._numbered = is_numbered
            return
        self._end_list()
        if is_numbered:
            content = f"{escape(mark)} {content}"
        tag = f"h{min(level, 5) + 1}" if level >= 0 else "p"
        self._parts.append(f"{element(tag, content)}\n")

    def add_row(self, cells: list[str], edges: list[int]) -> None:
        """Add a table row, unless the document has too many cells.

        ``edges`` are the right edges of the cells in twips, of the last known row.
        """
        self._left -= len(cells)
        if cells and self._left >= 0:
            self._rows.append((cells, edges if len(edges) == len(cells) else []))
            self.rows += 1
        elif cells:
            self.dropped += 1

    def _end_list(self) -> None:
        if self._items:
            tag = "ol" if self._numbered else "ul"
            self._parts.append(nested_list(self._items, tag))
            self._items = []

    def _end_table(self) -> None:
        if self._rows:
            self._end_list()
            self._parts.append(_table(self._rows))
            self._rows = []


def _table(rows: list[tuple[list[str], list[int]]]) -> str:
    """Return a table; a cell spans the columns whose edges other rows have inside it."""
    columns: list[int] = []
    for edge in sorted({edge for _, edges in rows for edge in edges}):
        if not columns or edge > columns[-1] + NEAR:
            columns.append(edge)
    if len(columns) > MAX_COLUMNS:
        columns = []
    written = []
    for cells, edges in rows:
        row = []
        done = 0
        for number, cell in enumerate(cells):
            is_placed = bool(edges and columns)
            end = bisect_right(columns, edges[number] + 1) if is_placed else done + 1
            row.append((cell, end - done, 1))
            done = max(end, done)
        written.append(row)
    return table(written, headers=int(len(rows) > 1))


def runs_html(runs: list[tuple[str, TextState]]) -> str:
    """Return text with its states as HTML."""
    groups = groupby(runs, key=lambda run: run[1])
    return "".join(_run("".join(text for text, _ in run), s) for s, run in groups)


def _run(text: str, state: TextState) -> str:
    if text.startswith("\0"):
        return "".join(map(note_mark, text[1:].split("\0")))  # of several notes
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    content = escape(joined.replace("\0", "")).replace("\n", "<br>").replace("\t", " ")
    content = emphasis(content, state.bold, state.italic, state.strike)
    return anchor(content, state.link)


KIND = "RTF"
MAX_GROUPS = 500  # nested groups


def read_rtf(body: bytes) -> ConvertedDocument:
    """Convert a rich text file.

    :raises Unreadable: for any other file.
    """
    if not body.lstrip().startswith(b"{\\rtf"):
        raise unreadable(KIND, "it is damaged")
    reader = _Reader()
    reader.read(body.decode("latin-1"))
    return reader.document()


class _Reader:
    def __init__(self) -> None:
        self._state = TextState()
        self._stack: list[TextState] = []
        self._paragraph = Paragraph()
        self._writer = RtfWriter()
        self._cells: list[str] = []
        self._edges: list[int] = []
        self._facts: dict[str, str] = {}
        self._notes: list[list[tuple[str, TextState]]] = []
        self._instruction = ""
        self._list_mark = ""
        self._fonts: dict[int, str] = {}
        self._bytes = bytearray()
        self._to_skip = 0
        self._losses = Losses()
        self._comment = ""
        self._hidden = ""
        self._codepage = "cp1252"
        self._starred = False
        self._depth = 0

    def read(self, text: str) -> None:
        for match in TOKEN.finditer(text):
            word, number, code, symbol, brace, plain = match.groups()
            if code is not None:
                self._byte(int(code, 16))
                continue
            self._flush()
            if word is not None:
                self._word(word, None if number is None else int(number))
            elif brace == "{":
                self._open()
            elif brace == "}":
                self._close()
            elif plain is not None:
                self._plain(plain)
            elif symbol is not None:
                self._symbol(symbol)

    def document(self) -> ConvertedDocument:
        self._flush()
        if self._cells or (self._paragraph.in_table and self._paragraph.runs):
            self._table_word("cell", 0)  # a row that the file does not end
            self._table_word("row", 0)
        self._end_paragraph()
        if self._hidden.strip():
            self._losses.add("hiddenPart", HIDDEN, text=self._hidden)
        body = self._writer.body(self._notes)
        if dropped := self._writer.dropped:
            rows = self._writer.rows
            self._losses.add(
                "truncated",
                f"At most {MAX_CELLS} cells of a document are converted: "
                f"{rows} of its {rows + dropped} table rows.",
            )
        known = {
            "title": self._facts.get("title"),
            "keywords": self._facts.get("keywords"),
            "description": self._facts.get("doccomm"),
        }
        other = {name: self._facts.get(name) for name in ("author", "subject")}
        return ConvertedDocument(
            body=clean_text(body),
            known=facts(known),
            other=facts(other),
            losses=self._losses,
        )

    # -- Tokens --------------------------------------------------------------------------

    def _open(self) -> None:
        self._depth += 1
        if len(self._stack) < MAX_GROUPS:
            self._stack.append(self._state)
            self._state = evolve(self._state)
        self._to_skip = 0

    def _close(self) -> None:
        self._depth -= 1
        if not self._stack or self._depth >= MAX_GROUPS:
            return
        ended, self._state = self._state, self._stack.pop()
        if ended.target == "comment" and self._state.target != "comment":
            self._losses.add("annotation", COMMENT, text=self._comment)
            self._comment = ""
        if ended.target == "instruction" and self._state.target != "instruction":
            match = LINK.search(self._instruction)
            # The field's result is in the next group.
            self._state.link = match[1] if match else self._state.link
            self._instruction = ""

    def _byte(self, value: int) -> None:
        if self._to_skip:
            self._to_skip -= 1
            return
        self._bytes.append(value)

    def _flush(self) -> None:
        if self._bytes:
            codec = self._fonts.get(self._state.font, self._codepage)
            data, self._bytes = bytes(self._bytes), bytearray()
            self._text(data.decode(codec, "replace"))

    def _plain(self, text: str) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(text))
            self._to_skip -= skipped
            text = text[skipped:]
        self._text(text)

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._starred = True
        elif symbol in "\\{}":
            self._text(symbol)
        elif symbol == "~":
            self._text("\u00a0")
        elif symbol == "_":
            self._text("-")
        elif symbol in "\r\n":
            self._end_paragraph()

    def _word(self, word: str, number: int | None) -> None:
        state = self._state
        is_starred, self._starred = self._starred, False
        if word in LOST and not state.skipped:
            self._losses.add(*LOST[word])
        if word in SKIPPED or (is_starred and word not in KEPT):
            state.skipped = True
        elif word in FACTS:
            state.target = word
        elif word in TARGETS:
            state.target = TARGETS[word]
        elif word in SIGNS:
            self._text(SIGNS[word])
        elif word in TOGGLES:
            setattr(state, TOGGLES[word], number != 0)
        elif word in LEVELS:
            setattr(self._paragraph, LEVELS[word], number or 0)
        elif word == "uc":
            state.unicode_skip = 1 if number is None else max(number, 0)
        elif word in TABLE_WORDS:
            self._table_word(word, number or 0)
        else:
            self._control(word, number or 0)

    def _text(self, text: str) -> None:
        state = self._state
        if state.skipped or state.deleted or state.target in WITHOUT_TEXT or not text:
            return
        if state.hidden:
            self._hidden += text
            return
        if state.target in FACTS:
            self._facts[state.target] = self._facts.get(state.target, "") + text
        elif state.target == "instruction":
            self._instruction += text[: 4000 - len(self._instruction)]
        elif state.target == "comment":
            self._comment += text[: 4000 - len(self._comment)]
        elif state.target == "listtext":
            self._list_mark += text
        elif state.target == "note":
            self._notes[-1].append((text, evolve(state)))
        else:
            self._paragraph.runs.append((text, evolve(state)))

    def _control(self, word: str, number: int) -> None:
        """Obey a control word that is in no table; most words change only looks."""
        state, paragraph = self._state, self._paragraph
        match word:
            case "u":
                self._text(chr(number % 0x10000))
                self._to_skip = state.unicode_skip
            case "ansicpg":
                with suppress(LookupError):
                    self._codepage = codecs.lookup(f"cp{number}").name
            case "f":
                state.font = number
            case "fcharset" if state.target == "fonts" and number in CHARSETS:
                self._fonts[state.font] = CHARSETS[number]
            case "plain":
                state.bold = state.italic = state.strike = False
                state.hidden = state.deleted = False
            case "pard" if state.target != "listtext":
                self._paragraph = Paragraph(paragraph.runs)
            case "intbl":
                paragraph.in_table = True
            case "par" | "sect" | "page" if state.target in {"note", "comment"}:
                self._text(" ")
            case "par" | "sect" | "page":
                self._end_paragraph()
            case "footnote":
                self._notes.append([])
                mark = (f"\0{len(self._notes)}", TextState(target="reference"))
                paragraph.runs.append(mark)
                self._state = TextState(target="note", font=state.font)

    def _table_word(self, word: str, number: int) -> None:
        match word:
            case "cell" | "nestcell":
                self._cells.append(runs_html(self._paragraph.runs))
                self._paragraph = Paragraph(in_table=True)
            case "trowd":
                self._edges = []
            case "cellx" if len(self._edges) <= MAX_COLUMNS:
                self._edges.append(number)
            case "row" | "nestrow":
                self._writer.add_row(self._cells, self._edges)
                self._cells = []

    def _end_paragraph(self) -> None:
        paragraph = self._paragraph
        mark, self._list_mark = self._list_mark.strip(), ""
        if paragraph.in_table:
            if paragraph.runs:
                paragraph.runs.append(("\n", TextState()))
            return
        level, list_level = paragraph.level, paragraph.list_level
        if level >= 0:  # a heading is bold anyway
            paragraph.runs = [(t, evolve(s, bold=False)) for t, s in paragraph.runs]
        self._paragraph = Paragraph(level=level, list_level=list_level)
        self._writer.add(paragraph, mark)
