"""What the blocks of a file are: headings, lists, code, tables, paragraphs."""

from __future__ import annotations

import re
from collections import Counter
from textwrap import dedent
from typing import TYPE_CHECKING, Literal

from attrs import define, field

from scraper_service.content.pdf.hyphens import Hyphens
from scraper_service.content.pdf.lines import Block, turned
from scraper_service.content.pdf.order import blocks_in_order
from scraper_service.content.pdf.running import drop_repeated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.pdf.lines import Line, PageText

HEADING_RATIO = 1.12  # size of a heading against the text
MAX_HEADING = 200  # letters
INDENT = 0.6  # of the first line of a paragraph, in sizes of the letters

Kind = Literal["heading", "list", "paragraph", "code", "table"]
Piece = tuple[str, "str | None"]  # text, and where it leads

_BULLET = re.compile(
    r"^(?:[\u2022\u25cf\u25cb\u25aa\u25e6\u2023\u2043\u25a0\uf0b7\uf0a7\u2219]"
    r"|[\u2013*-](?=\s))\s*"
)
_NUMBERED = re.compile(r"^(?:\d{1,3}[.)]|\([0-9a-z]{1,3}\)|[a-z]\))\s+\S")
_ENDS = re.compile(r"[.!?:;\u2026][\"')\]\u201d\u2019]?\Z")


@define
class Part:
    """One block of the document. ``level`` is that of a heading, 1...6.

    ``pieces`` are its text; of a table, ``rows`` instead.
    """

    kind: Kind
    pieces: list[Piece] = field(factory=list)
    level: int = 0
    rows: list[list[str]] = field(factory=list)
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @property
    def text(self) -> str:
        """The text without markup."""
        return "".join(text for text, _ in self.pieces)


def parts_of(pages: list[PageText]) -> list[list[Part]]:
    """Return the parts of each page; lines are taken out of ``pages`` on the way."""
    drop_repeated(pages)
    sizes = Counter[float]()
    for page in pages:
        for line in page.lines:
            if not line.is_fixed:
                sizes[line.size] += len(line.text)
    styles = _Styles(sizes, Hyphens(line.text for page in pages for line in page.lines))
    return [_page_parts(page, styles) for page in pages]


def _page_parts(page: PageText, styles: _Styles) -> list[Part]:
    blocks = blocks_in_order(page.lines)
    parts = _with_whole_code(part for block in blocks for part in _parts(block, styles))
    parts = _with_whole_words(parts, styles.hyphens)
    if page.turn:
        for part in parts:  # back to where they are on the page
            part.box = turned(part.box, 4 - page.turn)
    return parts


def _with_whole_code(parts: Iterable[Part]) -> list[Part]:
    """Join code that stands below code; a single line alone is a paragraph."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if last is not None and last.kind == part.kind == "code":
            is_apart = last.box[1] - part.box[3] > part.box[3] - part.box[1]
            last.pieces += [("", None), *part.pieces] if is_apart else part.pieces
            last.box = (*part.box[:2], *last.box[2:])
        else:
            found.append(part)
    for part in found:
        if part.kind == "code":
            text = dedent("\n".join(line for line, _ in part.pieces))
            part.pieces = [(text, None)]
            part.kind = "code" if "\n" in text else "paragraph"
    return found


def _with_whole_words(parts: list[Part], hyphens: Hyphens) -> list[Part]:
    """Join paragraphs between which a word is broken, however far apart they are."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if (
            last is not None
            and last.pieces
            and last.pieces[-1][0].endswith(("-", "\u2010"))
            and continues(last, part)
            and hyphens.joint(last.pieces[-1][0], part.text)[1] == ""
        ):
            found[-1] = joined(last, part, hyphens)
        else:
            found.append(part)
    return found


class _Styles:
    """What a file has in common: which sizes are headings, by how much text has them,
    and which words have hyphens.
    """

    def __init__(self, sizes: Counter[float], hyphens: Hyphens):
        self.hyphens = hyphens
        self.text_size = sizes.most_common(1)[0][0] if sizes else 10.0
        total = sum(sizes.values())
        larger = sorted(
            (
                size
                for size, count in sizes.items()
                if size >= HEADING_RATIO * self.text_size and count < 0.2 * total
            ),
            reverse=True,
        )
        self._levels = {size: min(rank, 5) for rank, size in enumerate(larger, 1)}

    def level(self, block: Block) -> int:
        """Return the level of a block that is a heading, else 0."""
        lines = block.lines
        size = max(lines, key=lambda line: len(line.text)).size
        level = self._levels.get(size, 0)
        if not level and len(lines) <= 2 and all(line.is_bold for line in lines):
            text = lines[-1].text
            if size >= self.text_size and not text.endswith((".", ",", ";", "-")):
                level = min(len(self._levels) + 1, 6)
        if not level:
            return 0
        length = sum(len(line.text) for line in lines)
        has_words = any(c.isalpha() for line in lines for c in line.text)
        return level if has_words and length <= MAX_HEADING else 0


def _parts(block: Block, styles: _Styles) -> Iterable[Part]:
    """Yield what a block consists of."""
    if block.rows is not None:
        yield Part("table", rows=block.rows, box=block.box)
        return
    if block.is_listing:
        yield Part("list", _pieces(block.lines, styles.hyphens), box=block.box)
        return
    if level := styles.level(block):
        yield Part(
            "heading", _pieces(block.lines, styles.hyphens), level, box=block.box
        )
        return
    if block.lines[0].is_fixed and not any(line.links for line in block.lines):
        yield Part("code", _code(block), box=block.box)
        return
    for kind, lines in _paragraphs(block):
        pieces = _pieces(lines, styles.hyphens)
        if kind == "list" and (bullet := _BULLET.match(pieces[0][0])):
            pieces[0] = (pieces[0][0][bullet.end() :], pieces[0][1])
        part = Part(kind, pieces, box=Block(lines).box)
        if part.text.strip():
            yield part


def _paragraphs(
    block: Block,
) -> Iterable[tuple[Literal["list", "paragraph"], list[Line]]]:
    """Cut a block where an item or a paragraph begins."""
    left = min(line.x0 for line in block.lines)
    right = max(line.x1 for line in block.lines)
    kind: Literal["list", "paragraph"] = "paragraph"
    run: list[Line] = []
    for line in block.lines:
        bullet = _BULLET.match(line.text)
        if run and (
            bullet
            or _NUMBERED.match(line.text)
            or (kind == "paragraph" and _begins(run, line, left, right))
        ):
            yield kind, run
            run, kind = [], "paragraph"
        if bullet:
            kind = "list"
        run.append(line)
    yield kind, run


def _begins(run: list[Line], line: Line, left: float, right: float) -> bool:
    """Tell whether ``line`` is the first one of a paragraph."""
    last = run[-1]
    indent = line.x0 - left
    if indent > INDENT * line.size and last.x0 - left < 0.3 * line.size:
        return indent < 0.3 * (right - left) and len(run) > 1
    is_short = last.x1 < right - 0.25 * (right - left)
    return is_short and bool(_ENDS.search(last.text)) and line.text[:1].isupper()


def _pieces(lines: list[Line], hyphens: Hyphens) -> list[Piece]:
    """Return the text of lines as pieces, words put together that a line end broke."""
    pieces: list[Piece] = []
    for line in lines:
        if pieces:
            before, address = pieces[-1]
            ends, link = hyphens.joint(before, line.text)
            pieces[-1] = (before[:ends], address)
            if link:
                pieces.append((link, None))
        at = 0
        for start, end, address in line.links:
            if start > at:
                pieces.append((line.text[at:start], None))
            pieces.append((line.text[start:end], address))
            at = end
        if at < len(line.text):
            pieces.append((line.text[at:], None))
    return _merged(pieces)


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Join neighbours which lead to the same place, white space between them too."""
    result: list[Piece] = []
    for index, (text, target) in enumerate(pieces):
        address = target
        following = pieces[index + 1][1] if index + 1 < len(pieces) else None
        if result and result[-1][1] and text == " " and following == result[-1][1]:
            address = following
        if result and result[-1][1] == address:
            result[-1] = (result[-1][0] + text, address)
        else:
            result.append((text, address))
    return result


def _code(block: Block) -> list[Piece]:
    """Return lines of one width of letters with the spaces they begin with."""
    lines = block.lines
    width = sum(line.x1 - line.x0 for line in lines) / sum(len(x.text) for x in lines)
    return [
        (
            " " * min(round((line.x0 - block.margin) / max(width, 1.0)), 80)
            + line.text,
            None,
        )
        for line in lines
    ]


def continues(last: Part, first: Part) -> bool:
    """Tell whether a paragraph goes on from one page to the next."""
    if last.kind not in {"paragraph", "list"} or first.kind != "paragraph":
        return False
    return not _ENDS.search(last.text.rstrip()) and first.text[:1].islower()


def joined(last: Part, first: Part, hyphens: Hyphens | None = None) -> Part:
    """Return the one paragraph that two are."""
    pieces = list(last.pieces)
    text, address = pieces[-1]
    ends, link = (hyphens or Hyphens()).joint(text, first.text)
    pieces[-1] = (text[:ends], address)
    if link:
        pieces.append((link, None))
    return Part(last.kind, _merged([*pieces, *first.pieces]), last.level, box=last.box)
