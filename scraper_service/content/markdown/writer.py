"""Writes the cleaned tree as GitHub-flavoured Markdown, in one walk.

``spans`` collects text until a block begins or ends. ``layout`` then places the
paragraph inside the list items and quotations around it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.decode import clean_text
from scraper_service.content.html.elements import (
    BLOCKS,
    MATHS_RENDERED,
    SKIPPED,
    TITLE,
    role,
)
from scraper_service.content.markdown.inline import BREAK, STRONG, STRONG_END
from scraper_service.content.markdown.layout import Level
from scraper_service.content.markdown.pictures import Pictures
from scraper_service.content.markdown.tables import alignments, data_rows
from scraper_service.content.passes import Finder

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document
    from scraper_service.content.markdown.layout import ListLevel

MAX_TITLE = 5000  # characters; longer texts keep their bold marks
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
# Elements that no true heading contains.
_holds_big = Finder(
    *("ul", "ol", "dl", "table", "pre", "blockquote", "hr", "h1", "h2", "h3", "h4")
)
_holds_items = Finder("li")
_holds_images = Finder("img", "input", "math", "video", "audio", "hr")
_holds_title = Finder("h1")
_holds_pictures = Finder("img")
_WRAPPERS = frozenset({"li", "div", "span", "nav", "section"})
RULE = "---"
# Bold texts, and the URLs of links, which are not shown.
_EMBOLDENED = re.compile(
    rf"{STRONG}[^{STRONG}{STRONG_END}]*{STRONG_END}|\]\((?:<[^>]*>|[^\s<][^\s{STRONG}]*)\)"
)
_STRONG_MARKS = re.compile(f"[{STRONG}{STRONG_END}]")
_NAMED = frozenset({"id", "name", "class"})
_HAS_PARAGRAPHS = etree.XPath("boolean(*/p)")


def markdown(document: Document, *, remove_base64_images: bool) -> str:
    """Return the Markdown of the cleaned tree, without a final newline."""
    writer = _Writer(document, remove_base64=remove_base64_images)
    writer.content(document.body)
    writer.flush()
    lines = writer.layout.lines
    while document.is_main and lines[-1:] in ([RULE], [""]):
        lines.pop()
    return clean_text(writer.layout.text())


class _Writer(Pictures):
    """Walks the tree; each method writes one kind of element."""

    def block(self, element: Any) -> None:
        """Write an element that begins and ends a paragraph."""
        if self.run:
            self.flush()
        kind = role(element) if element.attrib else None
        if kind is None or self.flat is not None:
            self.content(element)
        elif kind in MATHS_RENDERED:
            self.formula(element)
        elif kind == TITLE:
            self.strong(element)
        else:
            self._callout(element, kind)
        if self.run:
            self.flush()

    def _callout(self, element: Any, kind: str) -> None:
        """Write a GitHub callout; drop a title that only repeats its kind."""
        first = next(
            (e for e in element.iter() if e.text and not e.text.isspace()), None
        )
        if first is None:
            self.content(element)
            return
        if first.text.strip(" \n:!").upper() == kind:
            first.text = None
        self.layout.push(Level("> ", "> "))
        self.layout.add(f"[!{kind}]")
        self.layout.joins = True
        self.content(element)
        self.flush()
        self.layout.joins = False
        self.layout.levels.pop()

    def _inside(self, level: Level, element: Any) -> None:
        """Write the content of a container."""
        self.flush()
        self.layout.push(level)
        self.content(element)
        self.flush()
        self.layout.levels.pop()

    def quotation(self, element: Any) -> None:
        if self.flat is not None:
            self.block(element)
        else:
            self._inside(Level("> ", "> "), element)

    def attribution(self, element: Any) -> None:
        """Write the author of a quotation, as forums do: on a line before the text."""
        self.content(element)
        above = element.getparent()
        if (
            above.tag in {"blockquote", "div"}
            and above[0] is element
            and not (above.text or "").strip()
            and "blockquote" in {above.tag, getattr(above.getparent(), "tag", "")}
            and "".join(element.itertext()).rstrip().endswith(":")
        ):
            self.flush()

    def rule(self, _element: Any) -> None:
        self.flush()
        if self.flat is not None:
            return
        lines, levels = self.layout.lines, self.layout.levels
        if self.is_main and (
            not lines
            or lines[-1] == RULE
            or lines[-1].startswith("#")
            or (levels and levels[-1].in_list)
        ):
            return  # nothing above, or already separated by a rule, heading or marker
        self.layout.add("___" if self.layout.levels else RULE)

    def heading(self, element: Any) -> None:
        if self.flat is not None or (len(element) and _holds_big(element)):
            self.block(element)
            return
        self.flush()
        self.flat = " "
        self.content(element)
        self.flat = None
        self._unembolden()
        text = self.take(" ")
        if text.endswith("#"):
            text = f"{text[:-1]}\\#"
        if text:
            add = self.layout.add_once if self.is_main else self.layout.add
            add(f"{'#' * int(element.tag[1])} {text}")

    def _unembolden(self) -> None:
        """Remove bold marks if all words are bold; headings are bold anyway."""
        if STRONG not in self.run:
            return
        text = "".join(self.run)
        if len(text) < MAX_TITLE and not any(
            map(str.isalpha, _EMBOLDENED.sub("", text))
        ):
            self.run[:] = [_STRONG_MARKS.sub("", text)]

    def term(self, element: Any) -> None:
        self.block(element)
        self.layout.term_at = len(self.layout.lines)

    def definition(self, element: Any) -> None:
        if self.flat is not None:
            self.block(element)
        else:
            self._inside(Level("", "", definition=True), element)

    def listing(self, element: Any) -> None:
        """Write a list; text between its items stays between them.

        A list that contains the page's title is layout.
        """
        if self.flat is not None or (self.is_main and _holds_title(element)):
            self.block(element)
            return
        self.flush()
        if self.is_main and _is_gallery(element):
            self._gallery(element)
            return
        if element.text:
            self.text(element.text)
        own = self.layout.begin_list(
            tight=not _HAS_PARAGRAPHS(element),
            number=_number(element, "start", 1) if element.tag == "ol" else None,
        )
        for child in element:
            inner = _only_list(child) if self.is_main and child.tag == "li" else child
            if inner.tag in _LISTS:
                self._list_in_list(inner, own)
            elif child.tag == "li" or not _holds_items(child):
                self._item(child, own)
            else:
                self.block(child)
            if child.tail and not child.tail.isspace():
                self.text(child.tail)
                own.count = 0
        self.flush()
        self.layout.end_list(own)

    def _gallery(self, element: Any) -> None:
        """Write a list of pictures without text as a row of pictures."""
        self.flat = " "
        self.content(element)
        self.flat = None
        if text := self.take(" "):
            self.layout.add(text)

    def _list_in_list(self, element: Any, own: ListLevel) -> None:
        """Write a list directly inside a list, as part of the previous item."""
        if not own.count:
            self.listing(element)
            return
        self.flush()
        indent = " " * len(own.mark)
        self.layout.push(Level(indent, indent, used=True, in_list=own))
        self.listing(element)
        self.layout.levels.pop()

    def item(self, element: Any) -> None:
        """Write an item outside of any list."""
        if self.flat is not None or (self.is_main and _holds_title(element)):
            self.block(element)
            return
        self.flush()
        around = self.layout.levels[-1:]
        if self.is_main and around and around[0].in_list and not around[0].used:
            self.content(element)  # the whole content of another item
            self.flush()
            return
        own = self.layout.continued_list()
        self._item(element, own)
        self.layout.end_list(own)

    def _item(self, element: Any, own: ListLevel) -> None:
        if element.tag in SKIPPED or not isinstance(element.tag, str):
            return
        label = self.notes.label_of(element)
        if label is not None:
            self._inside(Level(f"[^{label}]: ", "    "), element)
            return
        if own.number is not None and element.get("value"):
            own.number = _number(element, "value", own.number)
        count, mark = own.count, own.mark
        level = Level(mark, " " * len(mark), in_list=own)
        if element.tag == "li":
            self._inside(level, element)
        else:
            self.flush()
            self.layout.push(level)
            write = self.writers.get(element.tag)
            if write is None:
                self.content(element)
            else:
                write(self, element)
            self.flush()
            self.layout.levels.pop()
        if own.number is not None and own.count > count:
            own.number += 1

    def checkbox(self, element: Any) -> None:
        """Write the checkbox of a task, which has no name.

        Named checkboxes open menus or belong to forms.
        """
        if (
            element.get("type") == "checkbox"
            and _is_task(element.attrib)
            and not "".join(self.run).strip()
        ):
            box = "[ ]" if element.get("checked") is None else "[x]"
            self.run += [box, " "]

    def table(self, element: Any) -> None:
        """Write a data table; write any other table, or a table in a cell, as its content."""
        rows = data_rows(element) if self.flat is None else None
        if rows is None:
            self.block(element)
            return
        if not any(cell is not None for cell in rows[0]):
            del rows[0]  # the first row becomes the header that GFM requires
        self.flush()
        caption = element.find("caption")
        if caption is not None:
            self.block(caption)
        lines = [
            "|".join(["", *(self._cell(cell, header=not n) for cell in row), ""])
            for n, row in enumerate(rows)
        ]
        lines.insert(1, "|".join(["", *(f" {a} " for a in alignments(rows[0])), ""]))
        self.layout.add("\n".join(lines))

    def _cell(self, cell: Any, *, header: bool) -> str:
        if cell is None:
            return "  "
        self.flat = BREAK
        self.content(cell)
        self.flat = None
        if header:
            self._unembolden()
        text = self.take("<br>")
        if "|" in text:
            text = text.replace("|", "\\|")
        return f" {text} "


def _only_list(item: Any) -> Any:
    """Return the list that is an item's whole content, as for indents; else the item."""
    inner = item
    while inner.tag not in _LISTS:
        if inner.tag not in _WRAPPERS or (inner.text and not inner.text.isspace()):
            return item
        full = [child for child in inner if _has_content(child)]
        if len(full) != 1 or (full[0].tail and not full[0].tail.isspace()):
            return item
        inner = full[0]
    return inner


def _is_gallery(element: Any) -> bool:
    return _holds_pictures(element) and all(map(str.isspace, element.itertext()))


def _has_content(element: Any) -> bool:
    """Return True if an element has content, or text follows it."""
    if element.tail and not element.tail.isspace():
        return True
    if element.tag in SKIPPED or not isinstance(element.tag, str):
        return False
    return (
        any(not text.isspace() for text in element.itertext())
        or element.tag == "img"
        or _holds_images(element)
    )


def _is_task(attributes: Any) -> bool:
    if "disabled" in attributes or "task" in attributes.get("class", ""):
        return True
    return _NAMED.isdisjoint(attributes)


def _number(element: Any, name: str, default: int) -> int:
    try:
        return max(int(element.get(name) or default), 0) % 10**9
    except ValueError:
        return default


_Writer.writers = {
    **dict.fromkeys(BLOCKS, _Writer.block),
    **dict.fromkeys(SKIPPED, _Writer.skip),
    **dict.fromkeys((etree.Comment, etree.PI, etree.Entity), _Writer.skip),
    **dict.fromkeys(_LISTS, _Writer.listing),
    **dict.fromkeys(("pre", "listing", "xmp", "plaintext"), _Writer.preformatted),
    **dict.fromkeys(("b", "strong"), _Writer.strong),
    **dict.fromkeys(("i", "em"), _Writer.italic),
    **dict.fromkeys(("del", "s", "strike"), _Writer.strike),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), _Writer.code),
    **dict.fromkeys(("sup", "sub"), _Writer.superscript),
    **dict.fromkeys(("video", "audio"), _Writer.media),
    **dict.fromkeys(("math", "mjx-container"), _Writer.formula),
    **dict.fromkeys((f"h{level}" for level in range(1, 7)), _Writer.heading),
    "a": _Writer.anchor,
    "blockquote": _Writer.quotation,
    "br": _Writer.line_break,
    "button": _Writer.spaced,
    "cite": _Writer.attribution,
    "dd": _Writer.definition,
    "dt": _Writer.term,
    "hr": _Writer.rule,
    "img": _Writer.image,
    "input": _Writer.checkbox,
    "li": _Writer.item,
    "q": _Writer.quote,
    "rt": _Writer.reading,
    "span": _Writer.span,
    "table": _Writer.table,
    "time": _Writer.apart,
}
