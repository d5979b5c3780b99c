"""GitHub-flavoured Markdown by html2text, from the cleaned tree.

html2text converts the leaves of the tree (text, links, images). What it does badly
(nesting, lists, tables, code, quotes) is laid out here: the tree is cut into leaf
blocks, all leaves are converted in one go, and each gets its prefixes back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import define, field
from html2text import HTML2Text

from scraper_service.formats.decode import clean_text
from scraper_service.formats.inline import BREAK, CODE, Inline, finished
from scraper_service.formats.preformatted import fenced
from scraper_service.formats.tables import data_rows
from scraper_service.formats.tags import BLOCKS, SKIPPED

if TYPE_CHECKING:
    from scraper_service.formats.document import Document

_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_LEAF = "\ue080"
_LINE_START = re.compile(
    r"^(?:(?=#{1,6}(?:\s|$)|[-+*](?:\s|$)|>|=+\s*$|-[- ]*$|~~~)|(\d{1,9})(?=[.)](?:\s|$)))",
    re.MULTILINE,
)


@define
class _Level:
    """One container around a block: a list item or a quotation."""

    first: str
    rest: str
    tight: bool = False
    used: bool = False
    in_list: _List | None = None


@define
class _List:
    tight: bool
    count: int = 0


@define
class _Block:
    """A leaf, or ``rows`` of leaves, or finished ``lines``; with its prefixes."""

    gap: str | None
    first: str
    rest: str
    leaf: int = -1
    mark: str = ""
    rows: list[list[int]] = field(factory=list)
    lines: str = ""


class _Leaves(HTML2Text):
    """html2text as we need it: no wrapping, no escaping, which is done already."""

    def __init__(self) -> None:
        super().__init__(bodywidth=0)
        self.unicode_snob = True
        self.skip_internal_links = False
        self.use_automatic_links = False

    def handle_data(self, data: str, entity_char: bool = False) -> None:
        super().handle_data(data, entity_char=True)


def markdown(document: Document, *, remove_base64_images: bool) -> str:
    """Return the Markdown of the cleaned tree; ends without a newline."""
    body = document.body
    writer = _Writer(Inline(remove_base64_images, document.base), _wrappers(body))
    writer.content(body)
    return clean_text(writer.text())


def _wrappers(body: Any) -> set[Any]:
    """Return the inline elements which have blocks inside."""
    found: set[Any] = set()
    for element in body.iter(*BLOCKS):
        parent = element.getparent()
        while parent is not None and parent.tag not in BLOCKS and parent not in found:
            found.add(parent)
            parent = parent.getparent()
    return found


@define
class _Writer:
    """Walks the tree and collects blocks in reading order."""

    inline: Inline
    wrappers: set[Any]
    blocks: list[_Block] = field(factory=list)
    leaves: list[str] = field(factory=list)
    levels: list[_Level] = field(factory=list)
    link: Any = None
    last_list: tuple[Any, str] = (None, "")

    def content(self, element: Any) -> None:
        """Write all blocks in ``element``; inline runs become paragraphs."""
        run = [self._text(element.text)]
        for child in element:
            tag = child.tag
            if tag in BLOCKS or child in self.wrappers:
                self._paragraph(run)
                run = []
                self._block(child, tag)
            elif tag not in SKIPPED:
                run.append(self.inline.element(child))
            run.append(self._text(child.tail))
        self._paragraph(run)

    def _text(self, text: str | None) -> str:
        return self.inline.text(text) if text else ""

    def _paragraph(self, run: list[str], mark: str = "") -> None:
        text = "".join(run).strip(f" {BREAK}")
        if not text:
            return
        if self.link is not None and text not in {"[ ]", "[x]"}:
            text = self.inline.link(self.link, text) if "<a " not in text else text
            self.link = None
        self._add(leaf=self._leaf(text), mark=mark)

    def _block(self, element: Any, tag: str) -> None:
        if tag in _LISTS:
            self._list(element, ordered=tag == "ol")
        elif tag in _HEADINGS:
            run = [self.inline.content(element).replace(BREAK, " ")]
            self._paragraph(run, _HEADINGS[tag])
        elif tag in {"pre", "listing", "xmp", "plaintext"}:
            if lines := fenced(element):
                self._add(lines=lines)
        elif tag == "table":
            self._table(element)
        elif tag == "blockquote":
            self._inside(_Level("> ", "> "), element)
        elif tag == "hr":
            self._add(lines="---")
        elif tag == "a" and element.get("href"):
            outer, self.link = self.link, element
            self.content(element)
            self.link = outer
        elif tag not in CODE and tag in SKIPPED:
            return
        else:
            self.content(element)

    def _inside(self, level: _Level, element: Any) -> None:
        self.levels.append(level)
        self.content(element)
        self.levels.pop()

    def _list(self, element: Any, *, ordered: bool) -> None:
        items = [child for child in element if isinstance(child.tag, str)]
        tight = not any(child.tag == "p" for item in items for child in item)
        own = _List(tight)
        number = _start(element) if ordered else 0
        bullet = self._bullet(element, ordered=ordered)
        for item in items:
            if item.tag in _LISTS:  # a list put straight into a list
                indent = " " * (len(str(number)) + 2 if ordered else 2)
                self.levels.append(
                    _Level(indent, indent, tight, used=True, in_list=own)
                )
                self._block(item, item.tag)
                self.levels.pop()
                continue
            mark = f"{number}{bullet} " if ordered else f"{bullet} "
            count = len(self.blocks)
            self._inside(_Level(mark, " " * len(mark), tight, in_list=own), item)
            number += len(self.blocks) > count
        self.last_list = (element, bullet)

    def _bullet(self, element: Any, *, ordered: bool) -> str:
        """Choose a mark which keeps this list apart from one just before it."""
        previous, mark = self.last_list
        first, second = (".", ")") if ordered else ("-", "*")
        touching = previous is not None and previous is element.getprevious()
        return (
            second
            if touching and mark == first and not (previous.tail or "").strip()
            else first
        )

    def _table(self, element: Any) -> None:
        rows = data_rows(element)
        if rows is None:
            self.content(element)
            return
        caption = element.find("caption")
        if caption is not None:
            self._paragraph([self.inline.content(caption)])
        self._add(rows=[[self._leaf(self._cell(c)) for c in row] for row in rows])

    def _cell(self, cell: Any) -> str:
        return self.inline.content(cell).strip(f" {BREAK}") if cell is not None else ""

    def _leaf(self, text: str) -> int:
        self.leaves.append(re.sub("  +", " ", text) if "  " in text else text)
        return len(self.leaves) - 1

    def _add(self, **what: Any) -> None:
        """Place one block below the levels around it."""
        unused = next((lv for lv in self.levels if not lv.used), None)
        rest = "".join(level.rest for level in self.levels)
        first = "".join(lv.rest if lv.used else lv.first for lv in self.levels)
        common = []
        for level in self.levels:
            if level is unused:
                break
            common.append(level.rest)
        gap: str | None = "".join(common).rstrip()
        if unused is not None and unused.in_list is not None:
            nested = any(lv.in_list for lv in self.levels[: len(common)])
            if unused.tight and (unused.in_list.count or nested):
                gap = None
        for level in self.levels:
            if not level.used and level.in_list is not None:
                level.in_list.count += 1
            level.used = True
        self.blocks.append(_Block(gap, first, rest, **what))

    def text(self) -> str:
        """Convert all leaves at once and lay out the blocks."""
        leaves = _converted(self.leaves)
        lines: list[str] = []
        for block in self.blocks:
            if lines and block.gap is not None:
                lines.append(block.gap)
            text = self._rendered(block, leaves)
            start, *others = text.split("\n")
            lines.append(
                (block.first + start).rstrip() if not start else block.first + start
            )
            lines += [(block.rest + o) if o else block.rest.rstrip() for o in others]
        return "\n".join(lines)

    def _rendered(self, block: _Block, leaves: list[str]) -> str:
        if block.lines:
            return block.lines
        if block.rows:
            return self._rendered_table(block.rows, leaves)
        text = leaves[block.leaf]
        if block.mark:
            return block.mark + self._final(text.replace(BREAK, " "))
        text = re.sub(rf" ?{BREAK}[ {BREAK}]*", "  \n", text)
        return self._final(_LINE_START.sub(_protected, text))

    def _rendered_table(self, rows: list[list[int]], leaves: list[str]) -> str:
        lines = []
        for row in rows:
            cells = (re.sub(rf" ?{BREAK}[ {BREAK}]*", "<br>", leaves[n]) for n in row)
            texts = [
                self._final(c).replace("|", "\\|").replace("\n", " ") for c in cells
            ]
            lines.append("|" + "|".join(f" {t} " if t else "  " for t in texts) + "|")
        lines.insert(1, "|" + " --- |" * len(rows[0]))
        return "\n".join(lines)

    def _final(self, text: str) -> str:
        return self.inline.restore(finished(text))


def _protected(match: re.Match[str]) -> str:
    return f"{match[1]}\\" if match[1] else "\\"


def _converted(leaves: list[str]) -> list[str]:
    """Give the leaves that hold markup to html2text, all in one document."""
    marked = [n for n, leaf in enumerate(leaves) if "<" in leaf]
    results = list(leaves)
    if marked:
        source = "".join(f"<p>{_LEAF}{leaves[n]}</p>" for n in marked)
        _, *texts = _Leaves().handle(source).split(_LEAF)
        for number, text in zip(marked, texts, strict=True):
            results[number] = text.strip()
    return results


def _start(element: Any) -> int:
    try:
        return max(int(element.get("start") or 1), 0) % 10**9
    except ValueError:
        return 1
