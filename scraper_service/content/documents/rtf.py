"""Rich text files (.rtf), by the Rich Text Format Specification 1.9.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from scraper_service.content.decode import clean_text
from scraper_service.content.documents.archive import refused
from scraper_service.content.documents.markup import Draft, facts
from scraper_service.content.documents.rtf_words import (
    CHARSETS,
    FACTS,
    LINK,
    SIGNS,
    SKIPPED,
    TOKEN,
)
from scraper_service.content.documents.rtf_writing import (
    Paragraph,
    State,
    Writer,
    runs_html,
)

if TYPE_CHECKING:
    from collections.abc import Callable

KIND = "RTF"
MAX_GROUPS = 500  # groups inside each other


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
        self._state = State()
        self._stack: list[State] = []
        self._paragraph = Paragraph()
        self._writer = Writer()
        self._cells: list[str] = []
        self._facts: dict[str, str] = {}
        self._notes: list[list[tuple[str, State]]] = []
        self._instruction = ""
        self._list_mark = ""
        self._fonts: dict[int, str] = {}
        self._bytes = bytearray()
        self._to_skip = 0
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

    def draft(self) -> Draft:
        self._flush()
        self._end_paragraph()
        body = self._writer.body(self._notes)
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
            match = LINK.search(self._instruction)
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
        if word in SKIPPED or (is_starred and word not in _KEPT):
            if word == "fonttbl":
                state.target = "fonts"
            else:
                state.skipped = True
        elif word in FACTS:
            state.target = word
        elif word in SIGNS:
            self._text(SIGNS[word])
        elif word in _WORDS:
            _WORDS[word](self, number)

    def _text(self, text: str) -> None:
        state = self._state
        if state.skipped or state.hidden or state.target == "fonts" or not text:
            return
        if state.target in FACTS:
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
        if self._state.target == "fonts" and (number or 0) in CHARSETS:
            self._fonts[self._state.font] = CHARSETS[number or 0]

    def reset_letters(self, _number: int | None) -> None:
        state = self._state
        state.bold = state.italic = state.strike = state.hidden = False

    def reset_paragraph(self, _number: int | None) -> None:
        runs = self._paragraph.runs
        self._paragraph = Paragraph(runs)

    def end_paragraph(self, _number: int | None) -> None:
        if self._state.target == "note":
            self._notes[-1].append((" ", evolve(self._state)))
        else:
            self._end_paragraph()

    def end_cell(self, _number: int | None) -> None:
        self._cells.append(runs_html(self._paragraph.runs))
        self._paragraph = Paragraph(in_table=True)

    def end_row(self, _number: int | None) -> None:
        self._writer.add_row(self._cells)
        self._cells = []

    def begin_note(self, _number: int | None) -> None:
        self._notes.append([])
        number = len(self._notes)
        self._paragraph.runs.append((f"\0{number}", State(target="reference")))
        self._state = State(target="note", font=self._state.font)

    def _end_paragraph(self) -> None:
        paragraph = self._paragraph
        mark, self._list_mark = self._list_mark.strip(), ""
        if paragraph.in_table:
            if paragraph.runs:
                paragraph.runs.append(("\n", State()))
            return
        level, list_level = paragraph.level, paragraph.list_level
        if level >= 0:  # a heading is bold anyway
            paragraph.runs = [(t, evolve(s, bold=False)) for t, s in paragraph.runs]
        self._paragraph = Paragraph(level=level, list_level=list_level)
        self._writer.add(paragraph, mark)


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
