"""Rich text files (.rtf), by the Rich Text Format Specification 1.9.1."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from scraper_service.formats.decode import clean_text
from scraper_service.formats.documents.archive import refused
from scraper_service.formats.documents.lists import nested_list
from scraper_service.formats.documents.markup import (
    MAX_CELLS,
    Draft,
    anchor,
    element,
    escape,
    facts,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KIND = "RTF"
MAX_GROUPS = 500  # groups inside each other
BULLETS = "\u2022\u00b7\uf0b7\u25aa\u25e6o-"

_TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})?\x20?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z'])|([{}])"
    r"|([^\\{}\r\n]+)|[\r\n]+|\\"
)
# Groups whose text is not that of the document.
_SKIPPED = frozenset(
    "fonttbl colortbl stylesheet listtable listoverridetable rsidtbl generator pict "
    "themedata colorschememapping datastore latentstyles xmlnstbl header headerl headerr "
    "headerf footer footerl footerr footerf object objdata annotation atnid atnauthor "
    "atrfstart atrfend revtbl filetbl bkmkstart bkmkend mmathPr pgdsctbl falt panose "
    "shppict nonshppict private1 fldtype userprops docvar xe tc listpicture".split()
)
_FACTS = frozenset("title author subject keywords doccomm".split())
_SIGNS = {
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
# Character sets of fonts, by number, to Python's codecs.
_CHARSETS = {
    0: "cp1252",
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
}
_LINK = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"?([^"\s]+)"?', re.IGNORECASE)


@define
class _State:
    """What a group inherits from the one around it."""

    bold: bool = False
    italic: bool = False
    strike: bool = False
    hidden: bool = False
    skipped: bool = False
    target: str = "text"  # or the name of a fact, "instruction", "listtext", "note"
    font: int = 0
    unicode_skip: int = 1
    link: str | None = None


@define
class _Paragraph:
    runs: list[tuple[str, _State]] = field(factory=list)
    level: int = -1  # of a heading, from 0
    list_level: int = -1
    in_table: bool = False


def read_rtf(body: bytes) -> Draft:
    """Convert a rich text file.

    :raises Unreadable: for what is none.
    """
    if not body.lstrip().startswith(b"{\\rtf"):
        raise refused(KIND, "it is damaged")
    reader = _Reader()
    reader.read(body.decode("latin-1"))
    return reader.draft()


class _Reader:
    """Reads the words of control one by one."""

    def __init__(self) -> None:
        self._state = _State()
        self._stack: list[_State] = []
        self._paragraph = _Paragraph()
        self._parts: list[str] = []
        self._items: list[tuple[int, str]] = []
        self._cells: list[str] = []
        self._rows: list[list[str]] = []
        self._facts: dict[str, str] = {}
        self._notes: list[list[tuple[str, _State]]] = []
        self._instruction = ""
        self._list_mark = ""
        self._fonts: dict[int, str] = {}
        self._bytes = bytearray()
        self._to_skip = 0
        self._codepage = "cp1252"
        self._starred = False
        self._numbered = False
        self._left = MAX_CELLS
        self._depth = 0

    def read(self, text: str) -> None:
        for match in _TOKEN.finditer(text):
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

    def draft(self) -> Draft:
        self._flush()
        self._end_paragraph()
        self._end_table()
        self._end_list()
        notes = "".join(
            element("li", self._html(runs).strip(), id=f"note-{number}")
            for number, runs in enumerate(self._notes, 1)
        )
        body = "".join(self._parts) + (element("ol", notes) if notes else "")
        known = {
            "title": self._facts.get("title"),
            "keywords": self._facts.get("keywords"),
            "description": self._facts.get("doccomm"),
        }
        other = {name: self._facts.get(name) for name in ("author", "subject")}
        return Draft(body=clean_text(body), known=facts(known), other=facts(other))

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
        if ended.target == "instruction" and self._state.target != "instruction":
            match = _LINK.search(self._instruction)
            # The result of the field stands in a group beside this one.
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
        if word in _SKIPPED or (is_starred and word not in _KEPT):
            if word == "fonttbl":
                state.target = "fonts"
            else:
                state.skipped = True
        elif word in _FACTS:
            state.target = word
        elif word in _SIGNS:
            self._text(_SIGNS[word])
        elif word in _WORDS:
            _WORDS[word](self, number)

    def _text(self, text: str) -> None:
        state = self._state
        if state.skipped or state.hidden or state.target == "fonts" or not text:
            return
        if state.target in _FACTS:
            self._facts[state.target] = self._facts.get(state.target, "") + text
        elif state.target == "instruction":
            self._instruction += text[: 4000 - len(self._instruction)]
        elif state.target == "listtext":
            self._list_mark += text
        elif state.target == "note":
            self._notes[-1].append((text, evolve(state)))
        else:
            self._paragraph.runs.append((text, evolve(state)))

    # -- Words of control ----------------------------------------------------------------

    def unicode(self, number: int | None) -> None:
        value = (number or 0) % 0x10000
        self._text(chr(value))
        self._to_skip = self._state.unicode_skip

    def codepage(self, number: int | None) -> None:
        name = f"cp{number}"
        try:
            b"".decode(name)
        except LookupError:
            return
        self._codepage = name

    def font(self, number: int | None) -> None:
        self._state.font = number or 0

    def charset(self, number: int | None) -> None:
        if self._state.target == "fonts" and (number or 0) in _CHARSETS:
            self._fonts[self._state.font] = _CHARSETS[number or 0]

    def reset_letters(self, _number: int | None) -> None:
        state = self._state
        state.bold = state.italic = state.strike = state.hidden = False

    def reset_paragraph(self, _number: int | None) -> None:
        runs = self._paragraph.runs
        self._paragraph = _Paragraph(runs)

    def end_paragraph(self, _number: int | None) -> None:
        if self._state.target == "note":
            self._notes[-1].append((" ", evolve(self._state)))
        else:
            self._end_paragraph()

    def end_cell(self, _number: int | None) -> None:
        self._cells.append(self._html(self._paragraph.runs))
        self._paragraph = _Paragraph(in_table=True)

    def end_row(self, _number: int | None) -> None:
        self._left -= len(self._cells)
        if self._cells and self._left >= 0:
            self._rows.append(self._cells)
        self._cells = []

    def begin_note(self, _number: int | None) -> None:
        self._notes.append([])
        number = len(self._notes)
        self._paragraph.runs.append((f"\0{number}", _State(target="reference")))
        self._state = _State(target="note", font=self._state.font)

    # -- Output --------------------------------------------------------------------------

    def _end_paragraph(self) -> None:
        paragraph = self._paragraph
        mark, self._list_mark = self._list_mark.strip(), ""
        if paragraph.in_table:
            if paragraph.runs:
                paragraph.runs.append(("\n", _State()))
            return
        level, list_level = paragraph.level, paragraph.list_level
        if level >= 0:  # a heading is bold anyway
            paragraph.runs = [(t, evolve(s, bold=False)) for t, s in paragraph.runs]
        content = self._html(paragraph.runs)
        self._paragraph = _Paragraph(level=level, list_level=list_level)
        if not content.strip():
            return
        self._end_table()
        if mark or list_level >= 0:
            self._items.append((max(list_level, 0), content.strip()))
            self._numbered = bool(mark) and mark[0] not in BULLETS
            return
        self._end_list()
        tag = f"h{min(level, 5) + 1}" if level >= 0 else "p"
        self._parts.append(f"{element(tag, content.strip())}\n")

    def _end_list(self) -> None:
        if self._items:
            tag = "ol" if self._numbered else "ul"
            self._parts.append(nested_list(self._items, tag))
            self._items = []

    def _end_table(self) -> None:
        if self._rows:
            self._end_list()
            self._parts.append(table(self._rows, has_header=len(self._rows) > 1))
            self._rows = []

    def _html(self, runs: list[tuple[str, _State]]) -> str:
        parts: list[str] = []
        index = 0
        while index < len(runs):
            state = runs[index][1]
            text = ""
            while index < len(runs) and runs[index][1] == state:
                text += runs[index][0]
                index += 1
            parts.append(_run(text, state))
        return "".join(parts)


def _run(text: str, state: _State) -> str:
    if text.startswith("\0"):
        number = text[1:]
        return element("sup", element("a", number, href=f"#note-{number}"))
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    content = escape(joined.replace("\0", "")).replace("\n", "<br>").replace("\t", " ")
    if content.strip():
        for wanted, tag in (
            (state.bold, "strong"),
            (state.italic, "em"),
            (state.strike, "s"),
        ):
            content = element(tag, content) if wanted else content
    return anchor(content, state.link)


def _set(name: str) -> Callable[[_Reader, int | None], None]:
    def apply(reader: _Reader, number: int | None) -> None:
        setattr(reader._state, name, number != 0)

    return apply


def _target(name: str) -> Callable[[_Reader, int | None], None]:
    def apply(reader: _Reader, _number: int | None) -> None:
        reader._state.target = name

    return apply


def _paragraph_fact(
    name: str, fixed: object = None
) -> Callable[[_Reader, int | None], None]:
    def apply(reader: _Reader, number: int | None) -> None:
        value = (number or 0) if fixed is None else fixed
        setattr(reader._paragraph, name, value)

    return apply


def _skip_count(reader: _Reader, number: int | None) -> None:
    reader._state.unicode_skip = max(number if number is not None else 1, 0)


_KEPT = frozenset({"fldinst", "listtext", "pntext", "footnote", "shpinst", "shptxt"})
_WORDS: dict[str, Callable[[_Reader, int | None], None]] = {
    "u": _Reader.unicode,
    "uc": _skip_count,
    "ansicpg": _Reader.codepage,
    "f": _Reader.font,
    "fcharset": _Reader.charset,
    "b": _set("bold"),
    "i": _set("italic"),
    "strike": _set("strike"),
    "v": _set("hidden"),
    "deleted": _set("hidden"),
    "plain": _Reader.reset_letters,
    "pard": _Reader.reset_paragraph,
    "par": _Reader.end_paragraph,
    "sect": _Reader.end_paragraph,
    "page": _Reader.end_paragraph,
    "cell": _Reader.end_cell,
    "nestcell": _Reader.end_cell,
    "row": _Reader.end_row,
    "nestrow": _Reader.end_row,
    "intbl": _paragraph_fact("in_table", True),
    "outlinelevel": _paragraph_fact("level"),
    "ilvl": _paragraph_fact("list_level"),
    "fldinst": _target("instruction"),
    "listtext": _target("listtext"),
    "pntext": _target("listtext"),
    "fldrslt": _target("text"),
    "footnote": _Reader.begin_note,
}
